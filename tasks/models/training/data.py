"""Sentences with the images and boxes that they speak of, from a build, and which patients are for what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tqdm import tqdm

from ....evaluate_metrics.localization.view import mask
from ....loaders.errors import InputError
from ....loaders.images import open_image
from ... import rows
from ..gloria_image import pixels
from ..gloria_text import clean

REPOSITORY, CONFIG, SPLIT = "wrong-lung-chest_imagenome", "gold", "test"
SHARES = {"train": 0.6, "validation": 0.2, "test": 0.2}


class Example(NamedTuple):
    """One row of the gold sentences.

    image: its place in `Data.pixels`. size: (height, width) of the image. boxes: k times xywh in the image's pixels.
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
    """Examples and the views that they share: float32 (n_images, 1, 224, 224), grey, as `gloria_image.pixels`.

    n_without_words: rows whose sentence has none, which were left out.
    """

    examples: list[Example]
    pixels: torch.Tensor
    n_without_words: int = 0

    def images(self, numbers: Sequence[int]) -> torch.Tensor:
        """What the model is given of some images: (n, 3, 224, 224)."""
        return self.pixels[list(numbers)].expand(-1, 3, -1, -1)


def read(data: str | Path, roots: Mapping[str, Path], limit: int | None = None) -> Data:
    """The gold sentences of a build that have a word.

    Args:
        data: what `medfaith build wrong-lung` wrote. roots: of the images. limit: rows at most, the first ones.

    Raises:
        InputError: the build is not there, or no sentence is left. MissingSourceError, ImageError: an image is not.
    """
    stored: Any = rows.read(REPOSITORY, CONFIG, SPLIT, str(data))
    asked = stored if limit is None else stored.select(range(min(limit, len(stored))))
    places: dict[str, int] = {}
    views: list[torch.Tensor] = []
    examples = []
    for row in tqdm(asked, desc="read images", disable=None, leave=False):
        if not clean(row["sentence"]):
            continue
        key = row["image"]["key"]
        if key not in places:
            places[key] = len(views)
            views.append(pixels([open_image(row["image"], roots)])[:, :1])
        examples.append(_example(row, places[key]))
    if not examples:
        raise InputError(data, f"none of {len(asked)} sentences has a word", action="build it again, or raise --limit")
    return Data(examples, torch.cat(views), len(asked) - len(examples))


def by_patient(examples: Sequence[Example], seed: int = 0) -> dict[str, list[Example]]:
    """The examples of each of SHARES, in their order; a patient's are all in one.

    The seed is not the training's: models of any recipe and seed share the patients that they are tested on.

    Raises:
        InputError: fewer than 3 patients.

    >>> named = [Example(str(n), str(n // 2), n, "", (1, 1), [], [], frozenset()) for n in range(20)]
    >>> {part: len(own) for part, own in by_patient(named).items()}
    {'train': 12, 'validation': 4, 'test': 4}
    """
    patients = sorted({example.patient for example in examples})
    if len(patients) < len(SHARES):
        raise InputError("--data", f"has rows of {len(patients)} patients", expected=f"{len(SHARES)} or more")
    order = np.random.default_rng(seed).permutation(patients).tolist()
    held_out = {part: max(round(share * len(order)), 1) for part, share in SHARES.items() if part != "train"}
    parts: dict[str, list[Example]] = {}
    for part, count in held_out.items():
        mine, order = set(order[:count]), order[count:]
        parts[part] = [example for example in examples if example.patient in mine]
    return {"train": [example for example in examples if example.patient in set(order)]} | parts


def regions(examples: Sequence[Example]) -> torch.Tensor:
    """Which pixels of the view the boxes of each hold: float32 (n, 224, 224)."""
    return torch.from_numpy(np.stack([mask(example.boxes, example.size) for example in examples])).float()


def _example(row: Mapping[str, Any], image: int) -> Example:
    return Example(
        id=row["id"],
        patient=row["patient_id"],
        image=image,
        sentence=row["sentence"],
        size=(row["height"], row["width"]),
        boxes=[box["xywh"] for box in row["boxes"]],
        terms=[box["label"] for box in row["boxes"]] + [label["name"] for label in row["labels"]],
        subsets=frozenset(name for name, inside in row["subsets"].items() if inside),
    )
