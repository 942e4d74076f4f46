"""`medfaith train`: its output, the gold patients seen by a checkpoint and its ancestors, and bad input."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from transformers import BertModel

from medfaith.builders.parallel import MOST_WORKERS
from medfaith.tasks import row_store
from medfaith.tasks.models.alignment.gloria import GloriaAligner, load_gloria
from medfaith.training.data import GOLD, REPOSITORY, SILVER, SPLITS
from medfaith.training.train import Trainer
from tests.support.tiers import choose_size

LIMIT = choose_size(60, 80)
NO_RECORD = "has no record: taken as trained on none of gold's patients"


def read_record(checkpoint: Path) -> dict[str, Any]:
    return json.loads(checkpoint.with_name(f"{checkpoint.name}.json").read_text())


def read_patients(scene, config: str, split: str = "test") -> set[str]:
    return set(row_store.read(REPOSITORY, config, split, str(scene.build))["patient_id"])


def list_learnt(record: dict[str, Any]) -> set[str]:
    return {*record["patients"]["train"], *record["patients"]["validation"]}


@pytest.fixture(scope="module")
def limited(command, tmp_path_factory) -> Path:
    """A checkpoint trained on the first gold sentences."""
    out = tmp_path_factory.mktemp("limited") / "first.ckpt"
    assert command("no_attn", out, "--limit", LIMIT) == 0
    return out


@pytest.fixture
def start_checkpoint(limited, tmp_path) -> Path:
    """A copy of the limited checkpoint, with its record."""
    shutil.copytree(limited.parent, tmp_path / "first")
    return tmp_path / "first" / limited.name


def test_the_command_writes_what_medfaith_alignment_reads(scene, limited):
    record = read_record(limited)
    assert sorted(path.name for path in limited.parent.iterdir()) == ["first.ckpt", "first.ckpt.json"]
    expected = ("no_attn", GOLD, LIMIT, None, None, None)
    names = ("config", "limit", "init", "image_encoder", "text_encoder")
    assert (record["recipe"]["name"], *(record[name] for name in names)) == expected
    assert [len(record["loss"][name]) for name in ("train", "validation")] == [1, 1]
    assert record["seen"] == sorted(list_learnt(record))
    assert not list_learnt(record) & set(record["patients"]["test"])
    aligner = GloriaAligner(str(limited), "cpu", scene.text_model)
    (aligned,) = aligner.align([Image.new("RGB", (200, 220), "gray")], ["There is a mass in the left lung."])
    assert 0 < aligned.attention.sum() < 0.999  # the rest is on the "No Attn" vector


def test_a_killed_training_resumes_and_ends_as_if_it_had_not_been(command, tmp_path, monkeypatch, capsys):
    learn = Trainer.learn
    n_learnt: list[int] = []

    def kill_second(trainer: Trainer, *batches: Any) -> float:
        if len(n_learnt) == 1:
            raise KeyboardInterrupt
        n_learnt.append(1)
        return learn(trainer, *batches)

    options = ("--limit", LIMIT, "--epochs", 2)
    whole, killed = tmp_path / "whole.ckpt", tmp_path / "killed.ckpt"
    assert command("word_masking", whole, *options) == 0
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "learn", kill_second)
        with pytest.raises(SystemExit, match="130"):
            command("word_masking", killed, *options)
    assert not killed.exists()
    capsys.readouterr()
    assert command("word_masking", killed, *options, "--seed", 1) == 2
    assert "is of a training with another options" in capsys.readouterr().err
    assert command("word_masking", killed, *options) == 0
    assert read_record(killed)["loss"] == read_record(whole)["loss"]
    weights, resumed_weights = (load_gloria(checkpoint).state_dict() for checkpoint in (whole, killed))
    assert all(torch.equal(tensor, resumed_weights[name]) for name, tensor in weights.items())
    assert not list(tmp_path.glob("*.checkpoints"))


@pytest.mark.full  # two trainings
def test_no_patient_of_a_first_limited_training_is_held_out_by_the_second(
    command, scene, start_checkpoint, tmp_path, capsys
):
    assert command("abnormal", tmp_path / "second.ckpt", "--init", start_checkpoint) == 0
    printed = capsys.readouterr()
    assert f"abnormal: 1 rounds, {tmp_path / 'second.ckpt'}\nAUROC of" in printed.out
    assert NO_RECORD not in printed.err
    before, record = read_record(start_checkpoint), read_record(tmp_path / "second.ckpt")
    assert not list_learnt(before) & set(record["patients"]["test"])
    assert record["seen"] == sorted(list_learnt(before) | list_learnt(record))
    assert (record["limit"], record["init"], set(record["auroc"])) == (None, "first.ckpt", {"all", "one_lung"})
    assert {*record["seen"], *record["patients"]["test"]} == read_patients(scene, GOLD)


@pytest.mark.full  # the test before has gold
def test_silver_adds_no_patient_to_those_that_the_start_has_seen(command, scene, start_checkpoint, encoders, tmp_path):
    """At a learning rate that learns nothing, the checkpoint keeps the weights of its initial encoders."""
    out, options = tmp_path / "silver.ckpt", ("--config", SILVER, "--batch-size", 4)
    assert command("retrained", out, *options, "--init", start_checkpoint) == 0
    assert read_record(out)["seen"] == read_record(start_checkpoint)["seen"]
    encoder_options = ("--image-encoder", encoders[0], "--text-encoder", encoders[1], "--lr", 1e-12)
    assert command("clinical_masking", out, *options, *encoder_options, "--image-cache", 0, "--workers", 2) == 0
    record, model = read_record(out), load_gloria(out)
    assert (record["config"], record["seen"]) == (SILVER, [])
    assert [record[name] for name in ("init", "image_encoder", "text_encoder")] == [None, "resnet.pth", "bert"]
    bert = dict(BertModel.from_pretrained(encoders[1]).named_parameters())
    for network, weights in ((model.img_encoder.model, torch.load(encoders[0])), (model.text_encoder.model, bert)):
        for name, weight in network.named_parameters():
            torch.testing.assert_close(weight, weights[name])
    for split in SPLITS[SILVER]:
        ids = sorted(read_patients(scene, SILVER, split))
        digest = hashlib.sha256("".join(f"{row_id}\n" for row_id in ids).encode()).hexdigest()
        assert record["patients"][split] == {"n": len(ids), "sha256": digest}


def test_a_start_without_a_record_is_said_once_and_counts_as_none(command, start_checkpoint, tmp_path, capsys):
    (start_checkpoint.parent / "first.ckpt.json").unlink()
    assert command("retrained", tmp_path / "second.ckpt", "--limit", LIMIT, "--init", start_checkpoint) == 0
    assert capsys.readouterr().err.count(f"{start_checkpoint} {NO_RECORD}") == 1
    record = read_record(tmp_path / "second.ckpt")
    assert record["seen"] == sorted(list_learnt(record))


def test_a_start_that_has_seen_the_held_out_patients_is_refused(command, start_checkpoint, tmp_path, capsys):
    """A training on another build, with different held-out patients, would leave such a record."""
    record = read_record(start_checkpoint)
    held_out = record["patients"]["test"]
    (start_checkpoint.parent / "first.ckpt.json").write_text(
        json.dumps(record | {"seen": [*record["seen"], *held_out]})
    )
    assert command("retrained", tmp_path / "second.ckpt", "--init", start_checkpoint) == 2
    assert f"was trained on {len(held_out)} of the" in capsys.readouterr().err
    assert not (tmp_path / "second.ckpt").exists()


@pytest.mark.parametrize("text", ["{}", "["])  # the others: tests/tasks/test_wrong_lung_held_out.py
def test_a_start_whose_record_cannot_be_read_is_refused(command, start_checkpoint, tmp_path, capsys, text):
    (path := start_checkpoint.parent / "first.ckpt.json").write_text(text)
    assert command("retrained", tmp_path / "second.ckpt", "--init", start_checkpoint) == 2
    assert str(path) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--limit 1", "--limit: leaves no sentence"),
        ("--device none", "--device none: cannot be used"),
        ("--init /nowhere.ckpt", "/nowhere.ckpt: cannot be loaded"),
        ("--init /nowhere.ckpt --text-encoder bert", "--init /nowhere.ckpt: has both encoders"),
        ("--image-encoder /nowhere", "--image-encoder /nowhere: cannot be loaded"),
        ("--out /nowhere/trained.ckpt", "--out /nowhere/trained.ckpt: is not a file in a folder"),
        ("--root mimic_cxr=/nowhere", "/nowhere does not exist"),
        ("--data /nowhere", "cannot be loaded"),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(command, tmp_path, capsys, options, message):
    assert command("retrained", tmp_path / "trained.ckpt", *options.split()) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("RECIPE", "magic", "invalid choice: 'magic'"),
        ("--config", "bronze", "invalid choice: 'bronze'"),
        *((f"--{name}", "0", "expected a whole number above 0, got '0'") for name in ("limit", "epochs")),
        *(
            ("--workers", text, f"expected a whole number above 0, at most {MOST_WORKERS}, got '{text}'")
            for text in ("0", "two", "100000")
        ),
        ("--batch-size", "1", "expected a whole number above 1, got '1'"),
        ("--seed", "-1", "expected a whole number above -1, got '-1'"),
        *(("--lr", value, f"expected a positive number, got '{value}'") for value in ("nan", "0", "inf")),
        ("--image-cache", "-1", "expected a number of GiB, 0 or more, got '-1'"),
    ],
)
def test_options_that_are_none_are_named(command, tmp_path, capsys, option, value, message):
    recipe, options = (value, []) if option == "RECIPE" else ("retrained", [option, value])
    with pytest.raises(SystemExit) as ended:
        command(recipe, tmp_path / "trained.ckpt", *options)
    assert ended.value.code == 2
    assert f"argument {option}: {message}" in capsys.readouterr().err


def test_without_torch_the_command_says_what_to_install():
    code = (
        "import sys; sys.modules.update(torch=None, transformers=None)\n"
        "from medfaith.cli import main\n"
        "sys.exit(main(['train', '30_shot', '--data', 'x', '--out', 'x.ckpt']))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "needs torch" in ended.stderr
    assert "what to do: uv pip install 'medfaith[hf]'" in ended.stderr
