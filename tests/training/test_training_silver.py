"""Training on the silver sentences: its parts, images that are opened when they are needed, and the command."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from medfaith.builders import wrong_lung
from medfaith.loaders.errors import ImageError, InputError
from medfaith.loaders.images import open_image
from medfaith.loaders.phantom import chest_imagenome, mimic_cxr
from medfaith.tasks import rows
from medfaith.tasks.models import gloria_image
from medfaith.training import data as training_data
from medfaith.training import views as training_views
from medfaith.training.command import main, start
from medfaith.training.data import REPOSITORY, SILVER, SPLITS
from medfaith.training.recipes import named
from medfaith.training.train import History, Options, settle, train
from medfaith.training.views import BYTES, Views
from tests.tasks import tiny_gloria


@pytest.fixture(scope="module")
def roots(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("phantom")
    writers = {wrong_lung.SOURCE: chest_imagenome, wrong_lung.IMAGES: mimic_cxr}
    return {name: writer.write(folder / name, seed=0, n=60) for name, writer in writers.items()}


@pytest.fixture(scope="module")
def build(roots, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("data")
    wrong_lung.build(roots, out, configs=["silver"])
    return out


@pytest.fixture(scope="module")
def text_model(tmp_path_factory) -> str:
    return tiny_gloria.save_tokenizer(tmp_path_factory.mktemp("bert"))


@pytest.fixture(autouse=True)
def small_images(monkeypatch):
    monkeypatch.setattr(gloria_image, "INPUT", 64)


@pytest.fixture
def opened(monkeypatch) -> Counter[str]:
    """How often each image has been opened."""
    times = Counter()

    def counting(reference, roots):
        times[reference["key"]] += 1
        return open_image(reference, roots)

    monkeypatch.setattr(training_views, "open_image", counting)
    return times


def references(build: Path) -> list[Any]:
    stored: list[Any] = [row for split in SPLITS[SILVER] for row in rows.read(REPOSITORY, SILVER, split, str(build))]
    return list({row["image"]["key"]: row["image"] for row in stored}.values())


def test_parts_are_the_splits_of_the_release(build, roots, opened):
    data = training_data.read(build, roots, config=SILVER)
    assert list(data.parts) == ["train", "validation", "test"]
    patients, shown = [], references(build)
    for split, own in data.parts.items():
        stored: list[Any] = list(rows.read(REPOSITORY, SILVER, split, str(build)))
        assert [example.id for example in own] == [row["id"] for row in stored]
        patients.append({example.patient for example in own})
        assert [shown[example.image] for example in own] == [row["image"] for row in stored]
    assert sum(map(len, patients)) == len(set().union(*patients))
    assert len(data.views) == len(shown)
    assert not opened  # until a batch needs them


@pytest.mark.parametrize(("n_kept", "workers"), [(0, 1), (2, 3), (100, 2)])
def test_views_are_the_prepared_images_and_the_first_ones_are_kept(build, roots, opened, n_kept, workers):
    asked = references(build)
    views = Views(asked, roots, cache=n_kept * BYTES + 1, workers=workers)
    order = [3, 0, 3, 2, 1]
    expected = gloria_image.pixels([open_image(asked[number], roots) for number in order])
    for _ in range(2):
        assert torch.equal(views.pixels(order), expected)
    kept = {3, 0, 2, 1} if n_kept == 100 else set(order[:n_kept])
    assert opened == {asked[number]["key"]: 1 if number in kept else 2 for number in set(order)}


def trained(data: training_data.Data, text_model: str) -> tuple[History, list[torch.Tensor]]:
    options = Options(seed=1, rounds=2, batch_size=4, lr=1e-3)
    model, tokenizer = start(None, text_model, tiny=True, seed=1)
    settle(model, data, data.parts["train"], options)
    history = train(model, tokenizer, data, data.parts, named("word_masking"), options)
    return history, [parameter.detach() for parameter in model.parameters()]


def test_losses_do_not_depend_on_what_is_kept_or_who_opens(build, roots, text_model):
    many, none = (
        trained(training_data.read(build, roots, config=SILVER, cache=cache, workers=workers), text_model)
        for cache, workers in ((2**30, 1), (0, 4))
    )
    assert many[0] == none[0]
    assert all(map(torch.equal, many[1], none[1]))


def test_the_command_records_who_was_trained_on(build, roots, text_model, tmp_path, capsys):
    out = tmp_path / "trained.ckpt"
    command = ["retrained", "--config", "silver", "--data", str(build), "--root", f"mimic_cxr={roots['mimic_cxr']}"]
    command += ["--out", str(out), "--text-model", text_model, "--tiny", "--epochs", "1", "--batch-size", "4"]
    assert main([*command, "--image-cache", "0", "--workers", "2"]) == 0
    assert "retrained: 1 rounds" in capsys.readouterr().out
    record = json.loads(out.with_name("trained.ckpt.json").read_text())
    assert record["config"] == "silver"
    for split in SPLITS[SILVER]:
        ids = sorted({row["patient_id"] for row in rows.read(REPOSITORY, SILVER, split, str(build)).to_list()})
        digest = hashlib.sha256("".join(f"{one}\n" for one in ids).encode()).hexdigest()
        assert record["patients"][split] == {"n": len(ids), "sha256": digest}


def test_a_limit_is_of_each_split(build, roots):
    data = training_data.read(build, roots, limit=5, config=SILVER)
    assert {split: len(own) for split, own in data.splits.items()} == dict.fromkeys(SPLITS[SILVER], 5)


def test_a_missing_image_is_named_before_training(build, roots, tmp_path):
    root = tmp_path / "mimic_cxr"
    shutil.copytree(roots["mimic_cxr"], root)
    (root / references(build)[-1]["key"]).unlink()
    with pytest.raises(ImageError, match=Path(references(build)[-1]["key"]).stem):
        training_data.read(build, roots | {"mimic_cxr": root}, config=SILVER)


def test_a_build_without_silver_says_what_is_missing(phantom_wrong_lung_build, phantom_wrong_lung_roots):
    with pytest.raises(InputError, match="config 'silver', split 'train' cannot be loaded"):
        training_data.read(phantom_wrong_lung_build, phantom_wrong_lung_roots, config=SILVER)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--config", "bronze", "--config: is 'bronze'\n  expected: gold or silver"),
        ("--workers", "0", "--workers: is 0"),
        ("--image-cache", "-1", "--image-cache: is -1.0"),
        ("--image-cache", "nan", "--image-cache: is nan"),
    ],
)
def test_bad_options_are_named(build, tmp_path, capsys, option, value, message):
    command = ["retrained", "--data", str(build), "--out", str(tmp_path / "trained.ckpt"), option, value]
    assert main(command) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
