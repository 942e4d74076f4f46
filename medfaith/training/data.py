"""Training sentences with their images and boxes, read from a build, and the split of patients."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from medfaith.evaluate_metrics.localization.input_view import mask
from medfaith.loaders.errors import InputError
from medfaith.loaders.progress import Progress
from medfaith.tasks import row_store
from medfaith.tasks.models.alignment.gloria_text import clean

from .recipes import GOLD, SHOTS, SILVER, Recipe
from .views import Views

REPOSITORY = "wrong-lung-chest_imagenome"
SPLITS = {GOLD: ("test",), SILVER: ("train", "validation", "test")}  # splits of a build
SHARES = {"train": 0.6, "validation": 0.2, "test": 0.2}


class Example(NamedTuple):
    """One sentence with its image.

    Attributes:
        id: The id of the row.
        patient: The patient.
        image: The index of the image in `Data.views`.
        sentence: The text.
        size: (height, width) of the image.
        boxes: k boxes, xywh in pixels of the image.
        terms: The names of the row's anatomies and conditions.
        subsets: The subsets of the row.
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
    """The examples of every split of a build, and the views of their images.

    Attributes:
        splits: Split -> examples.
        views: The views of the images, shared by all splits.
        n_without_words: The number of rows without a word, which were left out.
        patients: For gold, the patients of all its rows, including rows that a limit leaves out.
    """

    splits: dict[str, list[Example]]
    views: Views
    n_without_words: int = 0
    patients: frozenset[str] = frozenset()

    @property
    def examples(self) -> list[Example]:
        """The examples of all splits."""
        return [example for examples in self.splits.values() for example in examples]

    @property
    def parts(self) -> dict[str, list[Example]]:
        """The parts for training, validation and test: silver's own splits, or `by_patient` of gold's only split."""
        return self.splits if len(self.splits) > 1 else by_patient(self.examples, patients=self.patients)

    def images(self, numbers: Sequence[int]) -> torch.Tensor:
        """Load the model input of some images.

        Args:
            numbers: The indices of the images.

        Returns:
            Shape (n, 3, 224, 224).
        """
        return self.views.pixels(numbers)


def read(
    data: str | Path,
    roots: Mapping[str, Path],
    limit: int | None = None,
    *,
    config: str = GOLD,
    cache: int = 2**31,
    workers: int = 1,
    make_views: Callable[..., Views] = Views,
) -> Data:
    """Read the sentences of a build that have a word.

    Args:
        data: The output folder of `medfaith build wrong-lung`.
        roots: Source id -> folder of the images.
        limit: The largest number of rows of a split; None for all.
        config: Gold or silver.
        cache: As in `Views`.
        workers: As in `Views`.
        make_views: Makes the model inputs of the images, with the arguments of `Views`.

    Returns:
        Splits, images and patients, with the number of sentences that are left out because they have no word.

    Raises:
        InputError: The build does not exist, or a split has no sentence.
        MissingSourceError: The root of an image is unknown.
        ImageError: An image is missing.
    """
    indices: dict[str, int] = {}
    references: list[Mapping[str, str]] = []
    splits: dict[str, list[Example]] = {}
    patients: set[str] = set()
    n_without_words = 0
    for split in SPLITS[config]:
        rows: Any = row_store.read(REPOSITORY, config, split, str(data))
        if config == GOLD:
            all_rows = rows.select_columns(["patient_id", "sentence"])
            patients |= {row["patient_id"] for row in all_rows if clean(row["sentence"])}
        selected = rows if limit is None else rows.select(range(min(limit, len(rows))))
        examples = splits[split] = []
        for row in Progress(selected, title=f"reading {config}, {split}", unit="sentences"):
            if not clean(row["sentence"]):
                continue
            index = indices.setdefault(row["image"]["key"], len(references))
            if index == len(references):
                references.append(row["image"])
            examples.append(_build_example(row, index))
        if not examples:
            problem = f"none of {len(selected)} sentences of {config}, {split} has a word"
            raise InputError(data, problem, action="build it again, or raise --limit")
        n_without_words += len(selected) - len(examples)
    views = make_views(references, roots, cache=cache, workers=workers)
    views.check()
    return Data(splits, views, n_without_words, frozenset(patients))


def by_patient(
    examples: Sequence[Example], seed: int = 0, *, patients: Collection[str] = ()
) -> dict[str, list[Example]]:
    """Split examples by patient into SHARES, in their order.

    The seed is not the seed of the training: on one build, models of any recipe, seed and limit have the same split. On
    another build, with other patients, a patient may be in another part.

    Args:
        examples: The examples.
        seed: The seed of the split.
        patients: All patients of the data, if the examples do not cover them.

    Returns:
        Part ("train", "validation", "test") -> examples; no patient is in two parts.

    Raises:
        InputError: There are fewer than 3 patients, or a part has no example.

    >>> named = [Example(str(n), str(n // 2), n, "", (1, 1), [], [], frozenset()) for n in range(20)]
    >>> {part: len(own) for part, own in by_patient(named).items()}
    {'train': 12, 'validation': 4, 'test': 4}
    """
    everyone = sorted({*patients, *(example.patient for example in examples)})
    if len(everyone) < len(SHARES):
        raise InputError("--data", f"has rows of {len(everyone)} patients", expected=f"{len(SHARES)} or more")
    order = np.random.default_rng(seed).permutation(everyone).tolist()
    held_out = {name: max(round(share * len(order)), 1) for name, share in SHARES.items() if name != "train"}
    partition: dict[str, list[Example]] = {}
    for name, count in held_out.items():
        selected, order = set(order[:count]), order[count:]
        partition[name] = [example for example in examples if example.patient in selected]
    remaining = set(order)
    partition = {"train": [example for example in examples if example.patient in remaining]} | partition
    for name, members in partition.items():
        if not members:
            raise InputError("--limit", f"leaves no sentence of the patients for {name}", action="raise it")
    return partition


def select(recipe: Recipe, partition: dict[str, list[Example]], seed: int) -> tuple[list[Example], list[Example]]:
    """Select the examples for training and for validation.

    Args:
        recipe: The recipe.
        partition: Part -> examples.
        seed: The seed of the 30 examples of a supervised recipe.

    Returns:
        The examples for training, and for validation.

    Raises:
        InputError: There are no abnormal sentences, fewer than 30 for supervision, or sentences of one image only.
    """
    train, validation = (
        [example for example in partition[name] if "abnormal" in example.subsets or not recipe.abnormal]
        for name in ("train", "validation")
    )
    counts = f"{len(train)} sentences for training and {len(validation)} for validation"
    if recipe.supervised:
        if min(len(train), len(validation)) < SHOTS:
            raise InputError("--data", f"has {counts}", expected=f"{SHOTS} of each, of different patients")
        rng = np.random.default_rng(seed)
        chosen_train, chosen_validation = (
            sorted(rng.permutation(len(name))[:SHOTS].tolist()) for name in (train, validation)
        )
        return [train[number] for number in chosen_train], [validation[number] for number in chosen_validation]
    if min(len({example.image for example in name}) for name in (train, validation)) < 2:
        kind = "abnormal sentences" if recipe.abnormal else "sentences"
        problem = f"has {counts.replace('sentences', kind, 1)}"
        raise InputError("--data", problem, expected=f"{kind} about 2 or more images in each part")
    return train, validation


def regions(examples: Sequence[Example]) -> torch.Tensor:
    """Compute the pixels of the view inside the boxes of each example: float32 (n, 224, 224).

    Args:
        examples: The examples.

    Returns:
        1 inside the boxes, 0 outside.
    """
    return torch.from_numpy(np.stack([mask(example.boxes, example.size) for example in examples])).float()


def _build_example(row: Mapping[str, Any], image: int) -> Example:
    """Build an example. Repeated texts are shared, because silver has a million rows."""
    terms = [box["label"] for box in row["boxes"]] + [label["name"] for label in row["labels"]]
    return Example(
        id=row["id"],
        patient=sys.intern(row["patient_id"]),
        image=image,
        sentence=row["sentence"],
        size=(row["height"], row["width"]),
        boxes=[box["xywh"] for box in row["boxes"]],
        terms=[sys.intern(term) for term in terms],
        subsets=_share_set(tuple(name for name, is_member in row["subsets"].items() if is_member)),
    )


@functools.cache
def _share_set(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(names)
