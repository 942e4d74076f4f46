"""What an annotator is shown: images in a seeded order, and models under names that are dealt anew for each.

An instance is one image with the sentences of its report.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from string import ascii_uppercase
from typing import Any, NamedTuple

import numpy as np

Boxes = tuple[tuple[float, ...], ...]


class Sentence(NamedTuple):
    """boxes: xywh in pixels of the image, of the places that it names."""

    row_id: str
    text: str
    boxes: Boxes


class Instance(NamedTuple):
    """key: of the image, unique. size: (height, width) of it. sentences: as the report has them."""

    key: str
    patient_id: str
    image: Mapping[str, str]
    size: tuple[int, int]
    sentences: tuple[Sentence, ...]


@dataclass(frozen=True)
class Plan:
    """Who judges what: the instances in the order of their turn, and the models that are judged on each."""

    instances: tuple[Instance, ...]
    models: tuple[str, ...]
    annotator: str
    seed: int

    def aliases(self, instance: int, models: Sequence[str] | None = None) -> dict[str, str]:
        """Of one instance, the names that models are shown under and the model behind each: `aliases`."""
        return aliases(models or self.models, self.seed, self.annotator, self.instances[instance].key)


def instances(rows: Iterable[Mapping[str, Any]], seed: int) -> tuple[Instance, ...]:
    """Rows of the config `gold`, image by image, in an order that depends on the images and the seed only."""
    of_image: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        of_image.setdefault(row["image"]["key"], []).append(row)
    keys = sorted(of_image)
    order = _generator("order", seed).permutation(len(keys))
    return tuple(_instance(keys[number], of_image[keys[number]]) for number in order)


def aliases(models: Sequence[str], seed: int, annotator: str, instance: str) -> dict[str, str]:
    """`Model A`, `Model B`, ... and the model behind each: dealt by chance for each instance and annotator.

    >>> sorted(aliases(["x", "y"], 0, "ann", "p10/s1/d1.jpg"))
    ['Model A', 'Model B']
    """
    names = sorted(models)
    order = _generator("aliases", seed, annotator, instance).permutation(len(names))
    return {f"Model {_letters(place)}": names[number] for place, number in enumerate(order)}


def numbered(texts: Sequence[str]) -> list[tuple[str, int]]:
    """Sentences of a report with their numbers; one that it has several times says which of them it is.

    >>> numbered(["No edema.", "Clear.", "No edema."])[2]
    ('No edema. (place 2 of 2 in this report)', 2)
    """
    seen: Counter[str] = Counter()
    found = []
    for number, text in enumerate(texts):
        seen[text] += 1
        twin = f" (place {seen[text]} of {texts.count(text)} in this report)" if texts.count(text) > 1 else ""
        found.append((text + twin, number))
    return found


def _instance(key: str, rows: Sequence[Mapping[str, Any]]) -> Instance:
    first = rows[0]
    sentences = (
        Sentence(row["id"], row["sentence"], tuple(tuple(map(float, box["xywh"])) for box in row["boxes"]))
        for row in rows
    )
    return Instance(key, first["patient_id"], first["image"], (first["height"], first["width"]), tuple(sentences))


def _letters(place: int) -> str:
    """A to Z, then AA, AB, ..."""
    rest, letter = divmod(place, len(ascii_uppercase))
    return (_letters(rest - 1) if rest else "") + ascii_uppercase[letter]


def _generator(*parts: Any) -> np.random.Generator:
    """Python's own hash differs from one process to the next; this one does not."""
    return np.random.default_rng(int.from_bytes(blake2b(json.dumps(parts).encode(), digest_size=16).digest()))
