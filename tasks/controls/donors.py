"""Donors: images of other patients that a control shows in place of a row's own, or whose tissue it shows."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import datasets
import numpy as np
from scipy import ndimage

from ...loaders import rle
from ..row_iteration import iterate_rows
from . import TARGET, Facts, FactsOf, paint

DONOR = "control_donor"  # column: the image that gives tissue, and its region (None: the same place as in the row)
_GRID = 64  # cells along each side of an image; a tool outside of a place's cells does not touch the place
_Group = tuple[tuple[str, ...], str]


class _Image(NamedTuple):
    """The facts about one image from all rows of a task with the same question. `row` is the last of these rows."""

    patient: str
    answers: set[str]
    shown: set[str]
    present: set[bool]
    row: Mapping[str, Any]


class Pool:
    """The images of a task by their views and by the question about them.

    Args:
        rows: The rows of the task.
        facts_of: Returns the facts about a row that a control may use.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]], facts_of: FactsOf) -> None:
        images_by_group: dict[_Group, dict[str, _Image]] = defaultdict(dict)
        self.facts: dict[str, Facts] = {}
        self._occupied: dict[str, np.ndarray] = {}
        for row in rows:
            facts = self.facts[row["id"]] = facts_of(row)
            name = json.dumps(row["images"], sort_keys=True)
            image = images_by_group[_list_views(row), facts.asked].setdefault(
                name, _Image(facts.patient, set(), set(), set(), row)
            )
            image.answers.add(facts.answer)
            image.shown.update(facts.shown)
            image.present.add(facts.present)
        self._pools = {group: [images[name] for name in sorted(images)] for group, images in images_by_group.items()}

    def iterate_others(self, row: Mapping[str, Any]) -> Iterator[_Image]:
        """Iterate over the images of other patients with the same views, in an order that depends on the id of the row.

        Args:
            row: A row of the task.

        Returns:
            The images; none if the facts about the row name no question.
        """
        facts, start = self.facts[row["id"]], hash_id(row["id"])
        pool = self._pools[_list_views(row), facts.asked] if facts.asked else []
        ordered = (pool[(start + step) % len(pool)] for step in range(len(pool)))
        return (image for image in ordered if image.patient != facts.patient)

    def is_free(self, image: _Image, places: Sequence[np.ndarray]) -> bool:
        """Return whether no region of an image touches any of the places.

        Args:
            image: The image.
            places: Arrays of bool (_GRID, _GRID) over the image.

        Returns:
            Whether the image's own region, enlarged by one cell, is clear of all places.
        """
        name = image.row["id"]
        if name not in self._occupied:
            self._occupied[name] = ndimage.binary_dilation(_build_grid(image.row[TARGET]), np.ones((3, 3)))
        return not any((self._occupied[name] & place).any() for place in places)


def replace_images(rows: datasets.Dataset, *, same: bool, facts_of: FactsOf) -> list[dict[str, Any]]:
    """Replace the images of rows by the images of their donors. Rows without a donor are left out.

    A donor has images of another patient with the same views, and rows of this task have the same question about it.
    For `same`, the right answer of the row is right for the donor. Otherwise it is wrong for the donor, and one of the
    alternatives is right. A hash of the row's id chooses one donor.

    Args:
        rows: The rows of the task.
        same: Whether the right answer stays the same.
        facts_of: Returns the facts about a row.

    Returns:
        The rows that have a donor, in their order, with its images.
    """
    pool = Pool(iterate_rows(rows), facts_of)
    changed = []
    for row in iterate_rows(rows):
        facts = pool.facts[row["id"]]
        donor = next(
            (image for image in pool.iterate_others(row) if _is_fitting(image.answers, facts, same=same)), None
        )
        if donor is not None:
            changed.append(row | {"images": donor.row["images"]})
    return changed


def add_tissue(
    rows: Iterable[Mapping[str, Any]],
    rows_with_places: Sequence[tuple[dict[str, Any], Sequence[Mapping[str, Any]]]],
    facts_of: FactsOf,
) -> list[dict[str, Any]]:
    """Add a donor of tissue in the column DONOR (`Facts` defines it). Rows without a donor are left out.

    Args:
        rows: The rows of the task.
        rows_with_places: Pairs of a row and its places, as in `rows.find_place_elsewhere`: the place of the tissue, and
            the place that the tissue has under the partner control (at the target, or elsewhere). A donor that fits
            both places comes first, because both controls then have the same donor.
        facts_of: Returns the facts about a row.

    Returns:
        The rows that have a donor, in their order, with the column DONOR.
    """
    pool = Pool(rows, facts_of)
    changed = []
    for row, places in rows_with_places:
        facts = pool.facts[row["id"]]
        if facts.anatomical:
            fits = (image for image in pool.iterate_others(row) if image.present == {False} and _has_region(image.row))
        elif facts.findings:
            fits = (image for image in pool.iterate_others(row) if image.shown.isdisjoint(facts.findings))
        else:
            free = [
                paint.shift_mask(_build_grid(row[TARGET]), **_convert_place(place, row[TARGET])) for place in places
            ]
            fits = (
                image for grids in (free, free[:1]) for image in pool.iterate_others(row) if pool.is_free(image, grids)
            )
        donor = next(fits, None)
        if donor is not None:
            region = donor.row[TARGET] if facts.anatomical else None
            changed.append(row | {DONOR: {"image": donor.row["images"][0], "region": region}})
    return changed


def hash_id(row_id: str) -> int:
    """Hash the id of a row to a number.

    Args:
        row_id: The id.

    Returns:
        A number from 0 to 2^64 - 1.
    """
    return int.from_bytes(blake2b(f"control:{row_id}".encode(), digest_size=8).digest(), "little")


def _list_views(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(image["view"] for image in row["images"])


def _is_fitting(answers: set[str], facts: Facts, *, same: bool) -> bool:
    if same:
        return facts.answer in answers
    candidates = answers if facts.alternatives is None else answers & set(facts.alternatives)
    return facts.answer not in answers and bool(candidates)


def _has_region(row: Mapping[str, Any]) -> bool:
    return row[TARGET] is not None and rle.area(row[TARGET]) > 0


def _build_grid(region: Mapping[str, Any] | None) -> np.ndarray:
    """Scale a region to a grid over its image: bool (_GRID, _GRID)."""
    if region is None:
        return np.zeros((_GRID, _GRID), bool)
    return rle.decode(rle.resize_mask(region, (_GRID, _GRID)))


def _convert_place(place: Mapping[str, Any], region: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a place from pixels to cells of the grid."""
    height, width = rle.get_size(region)
    cells = {"dx": round(place["dx"] * _GRID / width), "dy": round(place["dy"] * _GRID / height)}
    return {**cells, "mirror": place["mirror"]}
