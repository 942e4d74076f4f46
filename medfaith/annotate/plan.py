"""The plan of a session: images in a seeded order, and model aliases that are drawn for each image.

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
    """A sentence of a report.

    Attributes:
        row_id: The id of its row.
        text: The sentence.
        boxes: The boxes of its places, xywh in pixels of the image.
    """

    row_id: str
    text: str
    boxes: Boxes


class Instance(NamedTuple):
    """One image with the sentences of its report.

    Attributes:
        key: The unique key of the image.
        patient_id: The patient of the image.
        image: The reference of the image.
        size: (height, width) of the image.
        sentences: The sentences in the order of the report.
    """

    key: str
    patient_id: str
    image: Mapping[str, str]
    size: tuple[int, int]
    sentences: tuple[Sentence, ...]


@dataclass(frozen=True)
class Plan:
    """The instances in their order, and the models that are judged on each.

    Attributes:
        instances: The instances.
        models: The names of the models.
        annotator: The name of the annotator.
        seed: The seed of order and aliases.
    """

    instances: tuple[Instance, ...]
    models: tuple[str, ...]
    annotator: str
    seed: int

    def aliases(self, instance: int, models: Sequence[str] | None = None) -> dict[str, str]:
        """Return the aliases of the models on one instance (`aliases`).

        Args:
            instance: The index of the instance.
            models: The models; by default all models of the plan.

        Returns:
            Alias -> model, in the order of the aliases.
        """
        return aliases(models or self.models, self.seed, self.annotator, self.instances[instance].key)


def instances(rows: Iterable[Mapping[str, Any]], seed: int) -> tuple[Instance, ...]:
    """Group rows of the config `gold` by image, in an order that depends on the images and the seed only.

    Args:
        rows: The rows.
        seed: The seed of the order.

    Returns:
        One instance for each image, with its sentences.
    """
    rows_by_image: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        rows_by_image.setdefault(row["image"]["key"], []).append(row)
    keys = sorted(rows_by_image)
    order = _make_generator("order", seed).permutation(len(keys))
    return tuple(_build_instance(keys[number], rows_by_image[keys[number]]) for number in order)


def aliases(models: Sequence[str], seed: int, annotator: str, instance: str) -> dict[str, str]:
    """Assign `Model A`, `Model B`, ... to the models, at random for each instance and annotator.

    Args:
        models: The names of the models.
        seed: The seed of the session.
        annotator: The name of the annotator.
        instance: The key of the instance.

    Returns:
        Alias -> model.

    >>> sorted(aliases(["x", "y"], 0, "ann", "p10/s1/d1.jpg"))
    ['Model A', 'Model B']
    """
    names = sorted(models)
    order = _make_generator("aliases", seed, annotator, instance).permutation(len(names))
    return {f"Model {_format_letters(place)}": names[number] for place, number in enumerate(order)}


def number_sentences(texts: Sequence[str]) -> list[tuple[str, int]]:
    """Number the sentences of a report. A repeated sentence names its place among its copies.

    Args:
        texts: The sentences.

    Returns:
        (text, index) of each sentence, as choices of a form.

    >>> number_sentences(["No edema.", "Clear.", "No edema."])[2]
    ('No edema. (place 2 of 2 in this report)', 2)
    """
    counts: Counter[str] = Counter()
    choices = []
    for number, text in enumerate(texts):
        counts[text] += 1
        twin = f" (place {counts[text]} of {texts.count(text)} in this report)" if texts.count(text) > 1 else ""
        choices.append((text + twin, number))
    return choices


def _build_instance(key: str, rows: Sequence[Mapping[str, Any]]) -> Instance:
    first_row = rows[0]
    sentences = (
        Sentence(row["id"], row["sentence"], tuple(tuple(map(float, box["xywh"])) for box in row["boxes"]))
        for row in rows
    )
    return Instance(
        key, first_row["patient_id"], first_row["image"], (first_row["height"], first_row["width"]), tuple(sentences)
    )


def _format_letters(place: int) -> str:
    """Format an index as letters: A to Z, then AA, AB, ..."""
    prefix, letter = divmod(place, len(ascii_uppercase))
    return (_format_letters(prefix - 1) if prefix else "") + ascii_uppercase[letter]


def _make_generator(*key_parts: Any) -> np.random.Generator:
    """Create a generator from a stable hash. Python's own hash differs between processes."""
    return np.random.default_rng(int.from_bytes(blake2b(json.dumps(key_parts).encode(), digest_size=16).digest()))
