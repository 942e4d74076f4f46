"""Training data: rows with shared images, patients by split, and views in memory."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from medfaith.loaders.errors import ImageError, InputError
from medfaith.loaders.images import open_image
from medfaith.tasks.models.alignment import gloria_image
from medfaith.tasks.row_store import read
from medfaith.training import views as training_views
from medfaith.training.data import REPOSITORY, SILVER, SPLITS, Example, by_patient
from medfaith.training.views import BYTES, Views


@pytest.fixture
def opened(monkeypatch) -> Counter[str]:
    """Number of times that each image has been opened."""
    times = Counter()

    def count_openings(reference, roots):
        times[reference["key"]] += 1
        return open_image(reference, roots)

    monkeypatch.setattr(training_views, "open_image", count_openings)
    return times


def read_stored(scene, config: str, split: str = "test") -> list[Any]:
    return list(read(REPOSITORY, config, split, str(scene.build)))


def read_references(scene) -> list[Any]:
    every = [row for split in SPLITS[SILVER] for row in read_stored(scene, SILVER, split)]
    return list({row["image"]["key"]: row["image"] for row in every}.values())


def test_rows_are_read_with_the_images_that_they_share(gold, scene):
    expected = read_stored(scene, "gold")
    assert [example.id for example in gold.examples] == [row["id"] for row in expected]
    assert len(gold.views) == len({row["image"]["key"] for row in expected}) < len(expected)
    for row, example in list(zip(expected, gold.examples, strict=True))[:: len(expected) // 5]:
        assert torch.equal(gold.images([example.image]), gloria_image.pixels([open_image(row["image"], scene.roots)]))
        assert (example.size, example.patient) == ((row["height"], row["width"]), row["patient_id"])
        assert example.subsets == {name for name, inside in row["subsets"].items() if inside}


def test_the_parts_of_silver_are_the_splits_of_the_release(scene, opened):
    data, image_references, patients = scene.read(config=SILVER), read_references(scene), []
    assert list(data.parts) == ["train", "validation", "test"]
    for split, split_examples in data.parts.items():
        expected = read_stored(scene, SILVER, split)
        pairs = [(example.id, image_references[example.image]) for example in split_examples]
        assert pairs == [(row["id"], row["image"]) for row in expected]
        patients.append({example.patient for example in split_examples})
    assert sum(map(len, patients)) == len(set().union(*patients))
    assert len(data.views) == len(image_references)
    assert not opened  # until a batch needs them


@given(st.integers(3, 40), st.integers(1, 4), st.integers(0, 5))
def test_parts_never_share_a_patient(n_patients, n_each, seed):
    examples = [make_row(number, number % n_patients) for number in range(n_patients * n_each)]
    splits = by_patient(examples, seed)
    patients = [{example.patient for example in split_examples} for split_examples in splits.values()]
    assert all(patients)
    assert sum(map(len, patients)) == len(set().union(*patients)) == n_patients
    assert sorted(example.image for split_examples in splits.values() for example in split_examples) == list(
        range(len(examples))
    )


def make_row(number: int, patient: int) -> Example:
    return Example(str(number), f"p{patient:03}", number, "Clear.", (256, 256), [], [], frozenset())


def test_too_few_patients():
    with pytest.raises(InputError, match="has rows of 2 patients"):
        by_patient([make_row(0, 0), make_row(1, 1)])


@pytest.mark.parametrize("limit", [40, 80])
def test_a_limit_moves_no_patient_to_another_part(gold, scene, limit):
    some = scene.read(limit=limit)
    assert gold.parts == by_patient(gold.examples)
    assert len(some.examples) == limit
    ids = {example.id for example in some.examples}
    for split, split_examples in some.parts.items():
        assert split_examples
        assert [example.id for example in split_examples] == [
            gold_example.id for gold_example in gold.parts[split] if gold_example.id in ids
        ]


def test_a_limit_is_of_each_split(scene):
    splits = scene.read(limit=5, config=SILVER).splits
    assert {split: len(split_examples) for split, split_examples in splits.items()} == dict.fromkeys(SPLITS[SILVER], 5)


@pytest.mark.parametrize(("n_kept", "workers"), [(0, 1), (2, 3), (100, 2)])
def test_views_are_the_prepared_images_and_the_first_ones_are_kept(scene, opened, n_kept, workers):
    image_references = read_references(scene)
    views = Views(image_references, scene.roots, cache=n_kept * BYTES + 1, workers=workers)
    order = [3, 0, 3, 2, 1]
    expected = gloria_image.pixels([open_image(image_references[number], scene.roots) for number in order])
    for _ in range(2):
        assert torch.equal(views.pixels(order), expected)
    cached = {3, 0, 2, 1} if n_kept == 100 else set(order[:n_kept])
    assert opened == {image_references[number]["key"]: 1 if number in cached else 2 for number in set(order)}


def test_a_missing_image_is_named_before_training(scene, tmp_path):
    root, last = tmp_path / "mimic_cxr", read_references(scene)[-1]["key"]
    shutil.copytree(scene.roots["mimic_cxr"], root)
    (root / last).unlink()
    with pytest.raises(ImageError, match=Path(last).stem):
        scene._replace(roots=scene.roots | {"mimic_cxr": root}).read(config=SILVER)


def test_a_build_without_silver_says_what_is_missing(scene, phantom_wrong_lung_build):
    with pytest.raises(InputError, match="config 'silver', split 'train' cannot be loaded"):
        scene._replace(build=phantom_wrong_lung_build).read(config=SILVER)
