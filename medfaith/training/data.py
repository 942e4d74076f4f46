"""Sentences with the images and boxes that they speak of, from a build, and which patients are for what."""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from medfaith.evaluate_metrics.localization.input_view import mask
from medfaith.loaders.errors import InputError
from medfaith.loaders.progress import Progress
from medfaith.tasks import row_store
from medfaith.tasks.models.gloria_text import clean

from .recipes import GOLD, SHOTS, SILVER, Recipe
from .views import Views

REPOSITORY = "wrong-lung-chest_imagenome"
SPLITS = {GOLD: ("test",), SILVER: ("train", "validation", "test")}  # in a build
SHARES = {"train": 0.6, "validation": 0.2, "test": 0.2}


class Example(NamedTuple):
    """One row of the sentences.

    image: its place in `Data.views`. size: (height, width) of the image. boxes: k times xywh in the image's pixels.
    terms: names of the anatomies and conditions that the row is labelled with. subsets: those that it is in.
    """

    id: str
    patient: str
    image: int
    sentence: str
    size: tuple[int, int]
    boxes: list[list[float]]
    terms: list[str]
    subsets: frozenset[str]


class Data(NamedTuple):
    """The examples of every split of a build, and the views of the images that they share.

    n_without_words: rows whose sentence has none, which were left out. patients: of gold, those of all its examples,
    also of the ones that a limit leaves out.
    """

    splits: dict[str, list[Example]]
    views: Views
    n_without_words: int = 0
    patients: frozenset[str] = frozenset()

    @property
    def examples(self) -> list[Example]:
        return [example for own in self.splits.values() for example in own]

    @property
    def parts(self) -> dict[str, list[Example]]:
        """What to train on, to stop by and to hold out: silver's own splits; of gold's one split, `by_patient`."""
        return self.splits if len(self.splits) > 1 else by_patient(self.examples, patients=self.patients)

    def images(self, numbers: Sequence[int]) -> torch.Tensor:
        """What the model is given of some images: (n, 3, 224, 224)."""
        return self.views.pixels(numbers)


def read(
    data: str | Path,
    roots: Mapping[str, Path],
    limit: int | None = None,
    *,
    config: str = GOLD,
    cache: int = 2**31,
    workers: int = 1,
) -> Data:
    """The sentences of a build that have a word.

    Args:
        data: what `medfaith build wrong-lung` wrote. roots: of the images. limit: rows of a split at most, the first
            ones. config: gold or silver. cache, workers: as of `Views`.

    Raises:
        InputError: the build is not there, or no sentence is left of a split. MissingSourceError, ImageError: an image
            is not.
    """
    places: dict[str, int] = {}
    references: list[Mapping[str, str]] = []
    splits: dict[str, list[Example]] = {}
    patients: set[str] = set()
    n_without_words = 0
    for split in SPLITS[config]:
        rows: Any = row_store.read(REPOSITORY, config, split, str(data))
        if config == GOLD:
            whose = rows.select_columns(["patient_id", "sentence"])
            patients |= {row["patient_id"] for row in whose if clean(row["sentence"])}
        asked = rows if limit is None else rows.select(range(min(limit, len(rows))))
        examples = splits[split] = []
        for row in Progress(asked, title=f"reading {config}, {split}", unit="sentences"):
            if not clean(row["sentence"]):
                continue
            place = places.setdefault(row["image"]["key"], len(references))
            if place == len(references):
                references.append(row["image"])
            examples.append(_example(row, place))
        if not examples:
            found = f"none of {len(asked)} sentences of {config}, {split} has a word"
            raise InputError(data, found, action="build it again, or raise --limit")
        n_without_words += len(asked) - len(examples)
    views = Views(references, roots, cache=cache, workers=workers)
    views.check()
    return Data(splits, views, n_without_words, frozenset(patients))


def by_patient(
    examples: Sequence[Example], seed: int = 0, *, patients: Collection[str] = ()
) -> dict[str, list[Example]]:
    """The examples of each of SHARES, in their order; a patient's are all in one.

    The seed is not the training's: on the same build, models of any recipe, seed and limit divide the patients alike.
    Of another build, with other patients, a patient may be in another part.

    Args:
        patients: those of the data, where the examples are not of all of them.

    Raises:
        InputError: fewer than 3 patients, or a part without an example.

    >>> named = [Example(str(n), str(n // 2), n, "", (1, 1), [], [], frozenset()) for n in range(20)]
    >>> {part: len(own) for part, own in by_patient(named).items()}
    {'train': 12, 'validation': 4, 'test': 4}
    """
    everyone = sorted({*patients, *(example.patient for example in examples)})
    if len(everyone) < len(SHARES):
        raise InputError("--data", f"has rows of {len(everyone)} patients", expected=f"{len(SHARES)} or more")
    order = np.random.default_rng(seed).permutation(everyone).tolist()
    held_out = {part: max(round(share * len(order)), 1) for part, share in SHARES.items() if part != "train"}
    parts: dict[str, list[Example]] = {}
    for part, count in held_out.items():
        mine, order = set(order[:count]), order[count:]
        parts[part] = [example for example in examples if example.patient in mine]
    rest = set(order)
    parts = {"train": [example for example in examples if example.patient in rest]} | parts
    for part, own in parts.items():
        if not own:
            raise InputError("--limit", f"leaves no sentence of the patients for {part}", action="raise it")
    return parts


def select(recipe: Recipe, parts: dict[str, list[Example]], seed: int) -> tuple[list[Example], list[Example]]:
    """What the recipe trains on and what it is stopped by, chosen from the parts.

    Raises:
        InputError: no abnormal sentences, fewer than 30 for supervision, or of one image only.
    """
    train, validation = (
        [example for example in parts[part] if "abnormal" in example.subsets or not recipe.abnormal]
        for part in ("train", "validation")
    )
    counts = f"{len(train)} sentences for training and {len(validation)} for validation"
    if recipe.supervised:
        if min(len(train), len(validation)) < SHOTS:
            raise InputError("--data", f"has {counts}", expected=f"{SHOTS} of each, of different patients")
        rng = np.random.default_rng(seed)
        first, second = (sorted(rng.permutation(len(part))[:SHOTS].tolist()) for part in (train, validation))
        return [train[number] for number in first], [validation[number] for number in second]
    if min(len({example.image for example in part}) for part in (train, validation)) < 2:
        kind = "abnormal sentences" if recipe.abnormal else "sentences"
        found = f"has {counts.replace('sentences', kind, 1)}"
        raise InputError("--data", found, expected=f"{kind} about 2 or more images in each part")
    return train, validation


def regions(examples: Sequence[Example]) -> torch.Tensor:
    """Which pixels of the view the boxes of each hold: float32 (n, 224, 224)."""
    return torch.from_numpy(np.stack([mask(example.boxes, example.size) for example in examples])).float()


def _example(row: Mapping[str, Any], image: int) -> Example:
    """Silver has a million: what many say alike is kept once."""
    terms = [box["label"] for box in row["boxes"]] + [label["name"] for label in row["labels"]]
    return Example(
        id=row["id"],
        patient=sys.intern(row["patient_id"]),
        image=image,
        sentence=row["sentence"],
        size=(row["height"], row["width"]),
        boxes=[box["xywh"] for box in row["boxes"]],
        terms=[sys.intern(one) for one in terms],
        subsets=_once(tuple(name for name, inside in row["subsets"].items() if inside)),
    )


@functools.cache
def _once(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(names)
