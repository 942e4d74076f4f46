"""The rows of a task under a control: their donors, the regions that are painted, and how their images are changed."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, cast

import datasets
import numpy as np
from PIL import Image, ImageOps
from scipy import ndimage

from ...loaders import rle
from ...loaders.errors import InputError
from . import CONTROLS, DONORS, REGIONS, TARGET, Facts, FactsOf, UnsupportedControlError, paint

PLACE = "control_place"  # column: where the region that is painted lies, relative to the target
_AT_THE_TARGET = {"dx": 0, "dy": 0, "mirror": False}
_PLACE = {"dx": datasets.Value("int32"), "dy": datasets.Value("int32"), "mirror": datasets.Value("bool")}
MASK = {"size": datasets.List(datasets.Value("int32")), "counts": datasets.Value("string")}
OF_OTHERS = (*DONORS, "flipped")  # controls for which other rows say what is right
_GRID = 64  # places tried along the longer side


def controlled(rows: datasets.Dataset, control: str, facts_of: FactsOf | None) -> datasets.Dataset:
    """The rows that a control can be made for, with other images, places to paint or answers where it needs them.

    Raises InputError for a control that there is not; UnsupportedControlError for one that no row supports.
    """
    if control not in CONTROLS:
        raise InputError("option control", f"is {control!r}", expected=f"one of {', '.join(CONTROLS)}")
    reason = _unsupported(rows, control, facts_of)
    if reason:
        action = "choose another control; medfaith tasks --controls shows which there are for each benchmark"
        raise UnsupportedControlError(f"option control={control}", reason, action=action)
    if control in DONORS:
        changed = _with_donors(rows, same=control == "other_same", facts_of=cast(FactsOf, facts_of))
    elif control in REGIONS:
        changed = _with_places(rows, elsewhere=control == "occluded_elsewhere")
    elif control == "flipped":
        changed = _flipped(rows, facts_of)
    else:
        changed = list(cast(Iterable[dict[str, Any]], rows))
        if control == "none":
            without = {"images": []} | ({"edit": None} if "edit" in rows.column_names else {})
            changed = [row | without for row in changed]
    if not changed:
        raise UnsupportedControlError(
            f"option control={control}", "can be made for no row of this task", action="choose another one"
        )
    features = rows.features | ({PLACE: _PLACE} if control in REGIONS else {})
    return datasets.Dataset.from_list(changed, features=datasets.Features(features))


def target_of_boxes(boxes: Sequence[Mapping[str, Any]], size: rle.Size) -> rle.Rle | None:
    """The region that boxes cover together in an image of (height, width); None without boxes."""
    if not boxes:
        return None
    return rle.union(rle.from_boxes(np.array([box["xywh"] for box in boxes], float), size))


def change(control: str | None, row: Mapping[str, Any]) -> Callable[[Image.Image], Image.Image] | None:
    """What the control does to each image of a row; None where it leaves the images as they are.

    An image that is opened again is changed in the same way.
    """
    seed = _number(row["id"])
    if control == "blank":
        return _pixels(paint.blank)
    if control == "noise":
        return _pixels(partial(paint.noise, seed=seed))
    if control == "flipped":
        return ImageOps.mirror
    if control in DONORS and row.get("width"):
        return lambda image: image.resize((row["width"], row["height"]), Image.Resampling.BICUBIC)
    if control in REGIONS:
        return _pixels(partial(_painted, control, row, seed))
    return None


def _pixels(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Image.Image], Image.Image]:
    return lambda image: Image.fromarray(change(np.asarray(image.convert("RGB"))))


def _painted(control: str, row: Mapping[str, Any], seed: int, image: np.ndarray) -> np.ndarray:
    """The image as a control of REGIONS shows it. Only here is the mask made: rows are read more often than images."""
    mask = paint.moved(rle.decode(row[TARGET]), **row[PLACE])
    if image.shape[:2] != mask.shape:
        raise ValueError(f"height and width {image.shape[:2]}; expected {mask.shape}, the size of its region")
    return paint.only(image, mask) if control == "only_target" else paint.occluded(image, mask, seed)


def _unsupported(rows: datasets.Dataset, control: str, facts_of: FactsOf | None) -> str:
    """Why rows of this kind cannot have the control; "" where they can."""
    columns = rows.column_names
    if control in REGIONS and TARGET not in columns:
        return "the rows do not say where what is asked about lies"
    if control in DONORS and "edit" in columns:
        return "the rows edit their own image, which no other fits"
    sided = "boxes" in columns or (facts_of is not None and any(facts_of(row).mirrored for row in _dicts(rows)))
    if control == "flipped" and not sided:
        return "the questions ask about no side"
    if control in DONORS and (facts_of is None or not any(facts_of(row).asked for row in _dicts(rows))):
        return "nothing is known of the right answer for another image"
    return ""


def _dicts(rows: datasets.Dataset) -> Iterable[dict[str, Any]]:
    return cast(Iterable[dict[str, Any]], rows)


def _with_donors(rows: datasets.Dataset, *, same: bool, facts_of: FactsOf) -> list[dict[str, Any]]:
    """The rows that have a donor, with its images.

    A donor is another patient's images, as many and of the same views, of which rows of this task say what is asked:
    the right one is right for them, too, or it is not and an alternative is. A hash of the row's id chooses one.
    """
    own = {row["id"]: facts_of(row) for row in _dicts(rows)}
    images: dict[str, Sequence[Mapping[str, str]]] = {}
    patients: dict[str, str] = {}
    known: dict[tuple[tuple[str, ...], str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in _dicts(rows):
        name = json.dumps(row["images"], sort_keys=True)
        images[name], patients[name] = row["images"], own[row["id"]].patient
        known[_views(row), own[row["id"]].asked][name].add(own[row["id"]].answer)
    pools = {group: sorted(of_group) for group, of_group in known.items()}
    changed = []
    for row in _dicts(rows):
        facts, group = own[row["id"]], (_views(row), own[row["id"]].asked)
        pool, answers = pools[group], known[group]
        start = _number(row["id"])
        order = (pool[(start + step) % len(pool)] for step in range(len(pool) if facts.asked else 0))
        fits = (n for n in order if patients[n] != facts.patient and _fits(answers[n], facts, same=same))
        donor = next(fits, None)
        if donor is not None:
            changed.append(row | {"images": images[donor]})
    return changed


def _fits(answers: set[str], facts: Facts, *, same: bool) -> bool:
    if same:
        return facts.answer in answers
    others = answers if facts.alternatives is None else answers & set(facts.alternatives)
    return facts.answer not in answers and bool(others)


def _views(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(image["view"] for image in row["images"])


def _with_places(rows: datasets.Dataset, *, elsewhere: bool) -> list[dict[str, Any]]:
    """The rows with a target, and where the paint goes: at the target, or where its box fits without touching it."""
    changed = []
    for row in _dicts(rows):
        if row[TARGET] is not None and rle.area(row[TARGET]):
            place = place_elsewhere(row) if elsewhere else _AT_THE_TARGET
            changed += [row | {PLACE: place}] if place is not None else []
    return changed


def place_elsewhere(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Where the region does not touch the target: mirrored, which in a chest is the same part on the other side; else
    moved to one of the free places of a grid, chosen by the row's id. None where there is no place.
    """
    from scipy import signal  # takes longer to import than all else that a run needs before its model

    height, width = rle.size_of(row[TARGET])
    cell = max(1, math.ceil(max(height, width) / _GRID))
    small = rle.decode(rle.scaled(row[TARGET], (math.ceil(height / cell), math.ceil(width / cell))))
    taken = ndimage.binary_dilation(small, np.ones((3, 3)), iterations=2)
    if not (taken & small[:, ::-1]).any():
        return {"dx": 0, "dy": 0, "mirror": True}
    x, y, w, h = rle.bounding_box(row[TARGET])
    top, left = y // cell, x // cell
    part = small[top:, left:][: math.ceil(h / cell) + 1, : math.ceil(w / cell) + 1]
    # How much of the target a region would touch whose window begins at each place of the grid.
    touched = signal.fftconvolve(
        np.pad(taken.astype(float), ((0, part.shape[0]), (0, part.shape[1]))), part[::-1, ::-1]
    )
    touched = touched[part.shape[0] - 1 :, part.shape[1] - 1 :]
    moves = [
        (int(column - left) * cell, int(line - top) * cell)
        for line, column in np.argwhere(touched[: small.shape[0], : small.shape[1]] < 0.5)
    ]
    inside = [(dx, dy) for dx, dy in moves if 0 <= x + dx <= width - w and 0 <= y + dy <= height - h]
    if not inside:
        return None
    dx, dy = inside[_number(row["id"]) % len(inside)]
    return {"dx": dx, "dy": dy, "mirror": False}


def _flipped(rows: datasets.Dataset, facts_of: FactsOf | None) -> list[dict[str, Any]]:
    """Boxes are mirrored. A closed question of a side gets the answer of the same question about the other side.

    Of questions only those stay for which that is known and differs.
    """
    if "boxes" in rows.column_names:
        names = [name for name in ("boxes", "described") if name in rows.column_names]
        return [row | {name: _mirrored(row[name], row["width"]) for name in names} for row in _dicts(rows)]
    of = {row["id"]: cast(FactsOf, facts_of)(row) for row in _dicts(rows)}
    known = {(row["image_id"], of[row["id"]].asked): row["answer"] for row in _dicts(rows)}
    changed = []
    for row in _dicts(rows):
        answer = known.get((row["image_id"], of[row["id"]].mirrored), row["answer"])
        changed += [row | {"answer": answer}] if answer != row["answer"] else []
    return changed


def _mirrored(boxes: Sequence[Mapping[str, Any]], width: int) -> list[dict[str, Any]]:
    return [{**box, "xywh": [width - box["xywh"][0] - box["xywh"][2], *box["xywh"][1:]]} for box in boxes]


def _number(row_id: str) -> int:
    return int.from_bytes(blake2b(f"control:{row_id}".encode(), digest_size=8).digest(), "little")
