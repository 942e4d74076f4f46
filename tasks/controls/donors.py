"""Donors: images of other patients that a control shows in place of a row's own, or of which it shows tissue."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, cast

import datasets
import numpy as np
from scipy import ndimage

from ...loaders import rle
from . import TARGET, Facts, FactsOf, paint

DONOR = "control_donor"  # column: the image that gives tissue, and its region (None: the same place as in the row)
_GRID = 64  # cells of each side of an image: a tool that is in no cell of a place does not touch it
_Group = tuple[tuple[str, ...], str]


class _Image(NamedTuple):
    """What the rows of a task that ask the same say of an image. row: the last of them."""

    patient: str
    answers: set[str]
    shown: set[str]
    present: set[bool]
    row: Mapping[str, Any]


class Pool:
    """The images of a task by their views and by what is asked about them.

    rows: of the task. facts_of: what a control may know of a row.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]], facts_of: FactsOf) -> None:
        known: dict[_Group, dict[str, _Image]] = defaultdict(dict)
        self.facts: dict[str, Facts] = {}
        self._taken: dict[str, np.ndarray] = {}
        for row in rows:
            facts = self.facts[row["id"]] = facts_of(row)
            name = json.dumps(row["images"], sort_keys=True)
            image = known[_views(row), facts.asked].setdefault(name, _Image(facts.patient, set(), set(), set(), row))
            image.answers.add(facts.answer)
            image.shown.update(facts.shown)
            image.present.add(facts.present)
        self._pools = {group: [images[name] for name in sorted(images)] for group, images in known.items()}

    def others(self, row: Mapping[str, Any]) -> Iterator[_Image]:
        """Images of other patients, as many and of the same views, in an order that the row's id chooses."""
        facts, start = self.facts[row["id"]], number_of(row["id"])
        pool = self._pools[_views(row), facts.asked] if facts.asked else []
        ordered = (pool[(start + step) % len(pool)] for step in range(len(pool)))
        return (image for image in ordered if image.patient != facts.patient)

    def is_free(self, image: _Image, places: Sequence[np.ndarray]) -> bool:
        """Whether no region of the image touches any of the places: each bool (_GRID, _GRID) over the image."""
        name = image.row["id"]
        if name not in self._taken:
            self._taken[name] = ndimage.binary_dilation(_coarse(image.row[TARGET]), np.ones((3, 3)))
        return not any((self._taken[name] & place).any() for place in places)


def with_images(rows: datasets.Dataset, *, same: bool, facts_of: FactsOf) -> list[dict[str, Any]]:
    """The rows that have a donor, with its images.

    A donor is another patient's images, as many and of the same views, of which rows of this task say what is asked:
    the right one is right for them, too, or it is not and an alternative is. A hash of the row's id chooses one.
    """
    pool = Pool(_dicts(rows), facts_of)
    changed = []
    for row in _dicts(rows):
        facts = pool.facts[row["id"]]
        donor = next((image for image in pool.others(row) if _fits(image.answers, facts, same=same)), None)
        if donor is not None:
            changed.append(row | {"images": donor.row["images"]})
    return changed


def with_tissue(
    rows: Iterable[Mapping[str, Any]],
    wanted: Sequence[tuple[dict[str, Any], Sequence[Mapping[str, Any]]]],
    facts_of: FactsOf,
) -> list[dict[str, Any]]:
    """The wanted rows that have a donor of tissue (`Facts` says which), with it in the column DONOR.

    rows: of the task. wanted: rows, each with places as `rows.place_elsewhere` returns them: where the tissue goes, and
    where that of the control at the other place goes. A donor that suits both comes first, so that it is the same one.
    """
    pool = Pool(rows, facts_of)
    changed = []
    for row, places in wanted:
        facts = pool.facts[row["id"]]
        if facts.anatomical:
            fits = (image for image in pool.others(row) if image.present == {False} and _has_region(image.row))
        elif facts.findings:
            fits = (image for image in pool.others(row) if image.shown.isdisjoint(facts.findings))
        else:
            free = [paint.moved(_coarse(row[TARGET]), **_coarse_place(place, row[TARGET])) for place in places]
            fits = (image for of in (free, free[:1]) for image in pool.others(row) if pool.is_free(image, of))
        donor = next(fits, None)
        if donor is not None:
            region = donor.row[TARGET] if facts.anatomical else None
            changed.append(row | {DONOR: {"image": donor.row["images"][0], "region": region}})
    return changed


def number_of(row_id: str) -> int:
    """A number that only the row's id decides."""
    return int.from_bytes(blake2b(f"control:{row_id}".encode(), digest_size=8).digest(), "little")


def _dicts(rows: datasets.Dataset) -> Iterable[dict[str, Any]]:
    return cast(Iterable[dict[str, Any]], rows)


def _views(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(image["view"] for image in row["images"])


def _fits(answers: set[str], facts: Facts, *, same: bool) -> bool:
    if same:
        return facts.answer in answers
    others = answers if facts.alternatives is None else answers & set(facts.alternatives)
    return facts.answer not in answers and bool(others)


def _has_region(row: Mapping[str, Any]) -> bool:
    return row[TARGET] is not None and rle.area(row[TARGET]) > 0


def _coarse(region: Mapping[str, Any] | None) -> np.ndarray:
    """A region on a grid over its image: bool (_GRID, _GRID)."""
    if region is None:
        return np.zeros((_GRID, _GRID), bool)
    return rle.decode(rle.resize_mask(region, (_GRID, _GRID)))


def _coarse_place(place: Mapping[str, Any], region: Mapping[str, Any]) -> dict[str, Any]:
    height, width = rle.get_size(region)
    moved = {"dx": round(place["dx"] * _GRID / width), "dy": round(place["dy"] * _GRID / height)}
    return {**moved, "mirror": place["mirror"]}
