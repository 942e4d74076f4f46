"""Training on the phantom: what it does to attention on held-out patients, its seeds, its files and its bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from medfaith.builders import wrong_lung
from medfaith.loaders.errors import InputError
from medfaith.loaders.images import open_image
from medfaith.loaders.phantom import chest_imagenome, mimic_cxr
from medfaith.tasks import rows
from medfaith.tasks.models import gloria_image
from medfaith.tasks.models.gloria import GloriaAligner
from medfaith.tasks.models.training import data as training_data
from medfaith.tasks.models.training.__main__ import main, start
from medfaith.tasks.models.training.data import Data, Example, by_patient
from medfaith.tasks.models.training.recipes import named, word_list
from medfaith.tasks.models.training.train import History, Options, auroc, train
from tests.tasks import tiny_gloria

N_STUDIES, SEEDS = 100, (0, 1)


@pytest.fixture(scope="module")
def roots(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("phantom")
    writers = {wrong_lung.SOURCE: chest_imagenome, wrong_lung.IMAGES: mimic_cxr}
    return {name: writer.write(folder / name, seed=0, n=N_STUDIES) for name, writer in writers.items()}


@pytest.fixture(scope="module")
def build(roots, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("data")
    wrong_lung.build(roots, out, configs=["gold"])
    return out


@pytest.fixture(scope="module")
def data(roots, build) -> Data:
    return training_data.read(build, roots)


@pytest.fixture(scope="module")
def parts(data) -> dict[str, list[Example]]:
    return by_patient(data.examples)


@pytest.fixture(scope="module")
def text_model(data, tmp_path_factory) -> str:
    """A tokenizer with the phantom's words."""
    words = sorted({word for example in data.examples for word in word_list(example.sentence)} - {*tiny_gloria.LETTERS})
    vocabulary = [*tiny_gloria.SPECIAL, *words, *tiny_gloria.LETTERS, *(f"##{one}" for one in tiny_gloria.LETTERS)]
    return tiny_gloria.save_tokenizer(tmp_path_factory.mktemp("bert"), vocabulary)


@pytest.fixture(autouse=True)
def small_images(monkeypatch):
    """4 x 4 regions instead of 19 x 19: what is shown here does not need more."""
    monkeypatch.setattr(gloria_image, "INPUT", 64)


def test_rows_are_read_with_the_images_that_they_share(data, build, roots):
    stored: list[Any] = list(rows.read(training_data.REPOSITORY, "gold", "test", str(build)))
    assert [example.id for example in data.examples] == [row["id"] for row in stored]
    assert len(data.pixels) == len({row["image"]["key"] for row in stored}) < len(stored)
    for row, example in list(zip(stored, data.examples, strict=True))[:: len(stored) // 5]:
        assert torch.equal(data.images([example.image]), gloria_image.pixels([open_image(row["image"], roots)]))
        assert (example.size, example.patient) == ((row["height"], row["width"]), row["patient_id"])
        assert example.subsets == {name for name, inside in row["subsets"].items() if inside}


def trained(recipe: str, data: Data, parts: Any, text_model: str, **options: Any) -> tuple[History, np.ndarray]:
    """How a tiny model's training went, and by how much each held-out sentence's AUROC rose."""
    settings = Options(**{"lr": 1e-3, "batch_size": 16} | options)
    model, tokenizer = start(None, text_model, tiny=True, seed=settings.seed)
    before = auroc(model, tokenizer, data, parts["test"])
    history = train(model, tokenizer, data, parts, named(recipe), settings)
    return history, auroc(model, tokenizer, data, parts["test"]) - before


def test_thirty_examples_are_learned_and_carry_over_to_other_patients(data, parts, text_model):
    """25 of 500 steps, two seeds. The loss of the 30 is the evidence of learning; part of what held-out patients gain
    is batch-norm statistics, which a random start has not and which settle in any training, of random sentences too.
    """
    for seed in SEEDS:
        history, rises = trained("30_shot", data, parts, text_model, seed=seed, rounds=25)
        best = min(history.validation)
        print(f"seed {seed}: AUROC {rises.mean():+.4f}, validation {history.validation[0]:.3f}, at best {best:.3f}")
        assert history.train[-1] < history.train[0] - 0.05
        assert best < history.validation[0] - 0.02
        assert rises.mean() > 0


@pytest.mark.parametrize("recipe", ["word_masking", "30_shot"])
def test_a_seed_fixes_everything(data, parts, text_model, recipe):
    first, second, other = (
        trained(recipe, data, parts, text_model, rounds=1, seed=seed, batch_size=16) for seed in (3, 3, 4)
    )
    assert first[0] == second[0] != other[0]
    np.testing.assert_array_equal(first[1], second[1])


def test_training_stops_when_validation_does_not_improve(data, parts, text_model, monkeypatch):
    model, tokenizer = start(None, text_model, tiny=True)
    recipe = named("30_shot")
    losses = iter([3.0, 2.0, *[2.5] * recipe.patience])
    monkeypatch.setattr("medfaith.tasks.models.training.train.Trainer.learn", lambda *_: 1.0)
    monkeypatch.setattr("medfaith.tasks.models.training.train.Trainer.check", lambda *_: next(losses))
    history = train(model, tokenizer, data, parts, recipe, Options())
    assert len(history.train) == len(history.validation) == 2 + recipe.patience


def test_a_loss_that_is_no_number_ends_the_run(data, parts, text_model):
    with pytest.raises(InputError, match=r"--lr 1e\+30: the loss is no number in round"):
        trained("30_shot", data, parts, text_model, lr=1e30, rounds=3)


@pytest.mark.parametrize("recipe", ["no_attn", "abnormal", "clinical_masking"])
def test_the_command_writes_what_medfaith_alignment_reads(build, roots, text_model, tmp_path, capsys, recipe):
    out = tmp_path / "trained.ckpt"
    command = [recipe, "--data", str(build), "--root", f"mimic_cxr={roots['mimic_cxr']}", "--out", str(out)]
    assert main([*command, "--text-model", text_model, "--tiny", "--epochs", "1", "--lr", "1e-3"]) == 0
    assert f"{recipe}: 1 rounds" in capsys.readouterr().out
    record = json.loads(out.with_name("trained.ckpt.json").read_text())
    assert [len(record["loss"][name]) for name in ("train", "validation")] == [1, 1]
    assert set(record["auroc"]) == {"all", "one_lung"}
    assert not set(record["patients"]["train"]) & set(record["patients"]["test"])
    aligner = GloriaAligner(str(out), "cpu", text_model)
    (aligned,) = aligner.align([Image.new("RGB", (200, 220), "gray")], ["There is a mass in the left lung."])
    assert (aligned.attention.sum() < 0.999) == (recipe == "no_attn")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trained.ckpt", "trained.ckpt.json"]
    again = [*command, "--text-model", text_model, "--init", str(out), "--epochs", "1", "--limit", "80"]
    assert main(again) == 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"recipe": "magic"}, "RECIPE: is 'magic'"),
        ({"--limit": "59", "recipe": "30_shot"}, "expected: 30 of each, of different patients"),
        ({"--limit": "0"}, "--limit: is 0"),
        ({"--epochs": "0"}, "--epochs: is 0"),
        ({"--batch-size": "1"}, "--batch-size: is 1"),
        ({"--lr": "nan"}, "--lr: is nan"),
        ({"--seed": "-1"}, "--seed: is -1"),
        ({"--device": "none"}, "--device none: cannot be used"),
        ({"--init": "/nowhere.ckpt"}, "/nowhere.ckpt: cannot be loaded"),
        ({"--out": "/nowhere/trained.ckpt"}, "--out /nowhere/trained.ckpt: is no file in a folder that exists"),
        ({"--root": "mimic_cxr=/nowhere"}, "/nowhere does not exist"),
        ({"--data": "/nowhere"}, "cannot be loaded"),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(build, roots, text_model, tmp_path, capsys, changed, message):
    options = {
        "--data": str(build),
        "--root": f"mimic_cxr={roots['mimic_cxr']}",
        "--out": str(tmp_path / "trained.ckpt"),
        "--text-model": text_model,
        "--seed": "0",
        "recipe": "retrained",
    } | changed
    recipe = options.pop("recipe")
    assert main([recipe, "--tiny", *(part for option in options.items() for part in option)]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
