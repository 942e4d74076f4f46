"""Which gold patients a checkpoint has seen, through its ancestors, too: train, train on, eval."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medfaith import cli
from medfaith.builders import wrong_lung
from medfaith.loaders.phantom import chest_imagenome, mimic_cxr
from medfaith.tasks import rows
from medfaith.tasks.models import gloria_image
from medfaith.training.command import main
from medfaith.training.data import GOLD, REPOSITORY, by_patient, read
from tests.tasks import tiny_gloria

LIMIT = 80
NO_RECORD = "has no record: taken as trained on none of gold's patients"


@pytest.fixture(scope="module")
def roots(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("phantom")
    writers = {wrong_lung.SOURCE: chest_imagenome, wrong_lung.IMAGES: mimic_cxr}
    return {name: writer.write(folder / name, seed=0, n=60) for name, writer in writers.items()}


@pytest.fixture(scope="module")
def build(roots, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("data")
    wrong_lung.build(roots, out, configs=["gold", "silver"])
    return out


@pytest.fixture(scope="module")
def command(roots, build, tmp_path_factory) -> list[str]:
    """Of one round of training, but for where it starts and what it writes."""
    text_model = tiny_gloria.save_tokenizer(tmp_path_factory.mktemp("bert"))
    options = {"--data": build, "--root": f"mimic_cxr={roots['mimic_cxr']}", "--text-model": text_model, "--epochs": 1}
    return ["retrained", "--tiny", *(str(part) for option in options.items() for part in option)]


@pytest.fixture(autouse=True)
def small_images(monkeypatch):
    monkeypatch.setattr(gloria_image, "INPUT", 64)


@pytest.fixture
def trained(command, tmp_path) -> Callable[..., dict[str, Any]]:
    """Runs the command to its end; what it records."""

    def run(name: str, *options: str | Path) -> dict[str, Any]:
        assert main([*command, "--out", str(tmp_path / name), *map(str, options)]) == 0
        return json.loads((tmp_path / f"{name}.json").read_text())

    return run


def asked_about(record: Path, build: Path, results: Path) -> set[str]:
    """The patients of `medfaith eval --patients`."""
    command = ["eval", "--data", str(build), "--patients", str(record), "--model", "oracle", "--log_samples"]
    assert cli.main([*command, "--tasks", "medfaith_wrong_lung_gold", "--output_path", str(results)]) == 0
    (log,) = results.rglob("samples_*.jsonl")
    return {json.loads(line)["doc"]["patient_id"] for line in log.read_text().splitlines()}


def learnt(record: dict[str, Any]) -> set[str]:
    return {*record["patients"]["train"], *record["patients"]["validation"]}


def of_gold(build: Path) -> set[str]:
    return set(rows.read(REPOSITORY, GOLD, "test", str(build))["patient_id"])


def test_a_model_trained_on_gold_and_then_on_silver_has_seen_gold_patients(trained, build, tmp_path):
    first = trained("gold.ckpt")
    second = trained("silver.ckpt", "--config", "silver", "--init", tmp_path / "gold.ckpt")
    assert asked_about(tmp_path / "silver.ckpt.json", build, tmp_path / "results") == of_gold(build) - learnt(first)
    assert second["seen"] == first["seen"] == sorted(learnt(first))


def test_no_patient_of_a_first_limited_training_is_held_out_by_the_second(trained, build, tmp_path):
    first = trained("first.ckpt", "--limit", str(LIMIT))
    second = trained("second.ckpt", "--init", tmp_path / "first.ckpt")
    seen = learnt(first) | learnt(second)
    assert asked_about(tmp_path / "second.ckpt.json", build, tmp_path / "results") == of_gold(build) - seen
    assert not learnt(first) & set(second["patients"]["test"])
    assert second["seen"] == sorted(seen)
    assert (first["limit"], second["limit"]) == (LIMIT, None)


@pytest.mark.parametrize("limit", [40, LIMIT])
def test_a_limit_moves_no_patient_to_another_part(build, roots, limit):
    whole, some = (read(build, roots, own) for own in (None, limit))
    assert whole.parts == by_patient(whole.examples)
    assert len(some.examples) == limit
    for part, own in some.parts.items():
        assert own
        ids = {example.id for example in some.examples}
        assert [example.id for example in own] == [one.id for one in whole.parts[part] if one.id in ids]


def test_a_model_trained_on_silver_only_has_seen_none(trained, build, tmp_path, capsys):
    record = trained("silver.ckpt", "--config", "silver")
    assert (record["seen"], record["limit"]) == ([], None)
    path = tmp_path / "silver.ckpt.json"
    command = ["eval", "--data", str(build), "--patients", str(path), "--model", "oracle"]
    assert cli.main([*command, "--tasks", "medfaith_wrong_lung_gold"]) == 2
    assert "leave the option patients out: every row is of a held-out patient" in capsys.readouterr().err


def test_a_start_that_has_seen_the_held_out_patients_is_refused(command, trained, tmp_path, capsys):
    """As a training on another build, of whose patients other ones are held out, would record it."""
    record, path = trained("first.ckpt", "--limit", str(LIMIT)), tmp_path / "first.ckpt.json"
    path.write_text(json.dumps(record | {"seen": [*record["seen"], *record["patients"]["test"]]}))
    again = [*command, "--init", str(tmp_path / "first.ckpt"), "--out", str(tmp_path / "second.ckpt")]
    assert main(again) == 2
    n = len(record["patients"]["test"])
    assert f"was trained on {n} of the" in capsys.readouterr().err
    assert not (tmp_path / "second.ckpt").exists()


@pytest.mark.parametrize("text", ["{}", "[", '{"seen": [1]}'])
def test_a_start_whose_record_cannot_be_read_is_refused(command, trained, tmp_path, capsys, text):
    trained("first.ckpt", "--limit", str(LIMIT))
    (path := tmp_path / "first.ckpt.json").write_text(text)
    assert main([*command, "--init", str(tmp_path / "first.ckpt"), "--out", str(tmp_path / "second.ckpt")]) == 2
    assert str(path) in capsys.readouterr().err


def test_a_start_without_a_record_is_said_once_and_counts_as_none(trained, tmp_path, capsys):
    trained("first.ckpt", "--limit", str(LIMIT))
    assert NO_RECORD not in capsys.readouterr().err
    (tmp_path / "first.ckpt.json").unlink()
    second = trained("second.ckpt", "--limit", str(LIMIT), "--init", tmp_path / "first.ckpt")
    assert capsys.readouterr().err.count(f"{tmp_path / 'first.ckpt'} {NO_RECORD}") == 1
    assert second["seen"] == sorted(learnt(second))


def test_a_limit_that_leaves_a_part_empty_is_named(command, tmp_path, capsys):
    assert main([*command, "--limit", "1", "--out", str(tmp_path / "trained.ckpt")]) == 2
    assert "--limit: leaves no sentence" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
