"""The rows of a task under a control: their donors, the regions that are painted, and how their images are changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import datasets
import numpy as np
from PIL import Image, ImageOps
from scipy import ndimage

from ...loaders import rle
from . import DONORS, ELSEWHERE, REGIONS, TARGET, TISSUE, FactsOf, UnsupportedControlError, harmless, paint, split_dose
from .donors import DONOR, number_of, with_images, with_tissue
from .transplant import transplant

PLACE = "control_place"  # column: where the region that is painted lies, relative to the target
AT_THE_TARGET = {"dx": 0, "dy": 0, "mirror": False}
_PLACE = {"dx": datasets.Value("int32"), "dy": datasets.Value("int32"), "mirror": datasets.Value("bool")}
MASK = {"size": datasets.List(datasets.Value("int32")), "counts": datasets.Value("string")}
OF_OTHERS = (*DONORS, *TISSUE, "flipped")  # controls for which other rows give images, tissue or answers
Opener = Callable[[Mapping[str, str]], Image.Image]
Change = Callable[[Image.Image, Opener], Image.Image]
_GRID = 64  # places tried along the longer side


def controlled(rows: datasets.Dataset, control: str, facts_of: FactsOf | None) -> datasets.Dataset:
    """The rows that a control can be made for, with other images, places to paint or answers where it needs them.

    Raises InputError for a control that there is not; UnsupportedControlError for one that no row supports.
    """
    name, _ = split_dose(control)
    reason = _unsupported(rows, name, facts_of)
    if reason:
        action = "choose another control; medfaith tasks --controls shows which there are for each benchmark"
        raise UnsupportedControlError(f"option control={control}", reason, action=action)
    if name in DONORS:
        changed = with_images(rows, same=name == "other_same", facts_of=cast(FactsOf, facts_of))
    elif name in REGIONS:
        changed = _with_places(rows, elsewhere=name.endswith(ELSEWHERE))
        if name in TISSUE:
            wanted = [(row, [row[PLACE], *filter(None, [_other_place(row)])]) for row in changed]
            changed = with_tissue(_dicts(rows), wanted, cast(FactsOf, facts_of))
    elif name == "flipped":
        changed = _flipped(rows, facts_of)
    elif name == "cropped":
        changed = [row for row in map(harmless.crop_row, _dicts(rows)) if row is not None]
    else:
        changed = list(_dicts(rows))
        if name == "none":
            without = {"images": []} | ({"edit": None} if "edit" in rows.column_names else {})
            changed = [row | without for row in changed]
    if not changed:
        raise UnsupportedControlError(
            f"option control={control}", "can be made for no row of this task", action="choose another one"
        )
    features = rows.features | ({PLACE: _PLACE} if name in REGIONS else {})
    if name in TISSUE:
        features |= {DONOR: {"image": rows.features["images"].feature, "region": MASK}}
    return datasets.Dataset.from_list(changed, features=datasets.Features(features))


def target_of_boxes(boxes: Sequence[Mapping[str, Any]], size: rle.Size) -> rle.Rle | None:
    """The region that boxes cover together in an image of (height, width); None without boxes."""
    if not boxes:
        return None
    return rle.union(rle.encode_boxes(np.array([box["xywh"] for box in boxes], float), size))


def change(control: str | None, row: Mapping[str, Any]) -> Change | None:
    """What the control does to each image of a row; None where it leaves the images as they are.

    An image that is opened again is changed in the same way.
    """
    if control is None:
        return None
    (name, dose), seed = split_dose(control), number_of(row["id"])
    if name in REGIONS:
        return partial(_edited, name, dose, row, seed)
    changes: dict[str, Change] = {
        "blank": _pixels(paint.blank),
        "noise": _pixels(partial(paint.noise, seed=seed)),
        "flipped": lambda image, _: ImageOps.mirror(image),
        "cropped": lambda image, _: harmless.crop(image, row["id"]),
        "recoded": lambda image, _: harmless.recode(image),
    }
    if row.get("width"):
        size = row["width"], row["height"]
        changes |= dict.fromkeys(DONORS, lambda image, _: image.resize(size, Image.Resampling.BICUBIC))
    return changes.get(name)


def donor_references(row: Mapping[str, Any]) -> list[Mapping[str, str]]:
    """The images beside the row's own of which a control shows tissue."""
    return [row[DONOR]["image"]] if row.get(DONOR) else []


def _pixels(change: Callable[[np.ndarray], np.ndarray]) -> Change:
    return lambda image, _: Image.fromarray(change(np.asarray(image.convert("RGB"))))


def _edited(
    name: str, dose: int, row: Mapping[str, Any], seed: int, image: Image.Image, open_image: Opener
) -> Image.Image:
    """The image as a control of REGIONS shows it. Only here is the mask made: rows are read more often than images."""
    pixels, place = np.asarray(image.convert("RGB")), row[PLACE]
    mask = paint.moved(rle.decode(row[TARGET]), **place)
    if pixels.shape[:2] != mask.shape:
        raise ValueError(f"height and width {pixels.shape[:2]}; expected {mask.shape}, the size of its region")
    if name == "only_target":
        return Image.fromarray(paint.only(pixels, mask))
    if name in TISSUE:
        edited = _transplanted(row, pixels, mask, open_image)
    else:
        edited = (paint.occluded if name.startswith("occluded") else paint.blurred)(pixels, mask, seed)
    if dose < 100:
        part = paint.sector(mask, dose / 100, paint.start_of(seed), mirror=place["mirror"])
        edited = paint.blended(pixels, edited, mask, part)
    return Image.fromarray(edited)


def _transplanted(row: Mapping[str, Any], pixels: np.ndarray, mask: np.ndarray, open_image: Opener) -> np.ndarray:
    """The image with the donor's tissue where the mask is set.

    At the target of an anatomy it is the donor's anatomy; else it comes from the same place of the donor's image.
    """
    donor, region = row[DONOR]["image"], rle.encode(mask)
    shown = np.asarray(open_image(donor).convert("RGB"))
    there = row[DONOR]["region"] if row[PLACE] == AT_THE_TARGET else None
    return transplant(pixels, region, shown, there or rle.resize_mask(region, shown.shape[:2]))


def _unsupported(rows: datasets.Dataset, control: str, facts_of: FactsOf | None) -> str:
    """Why rows of this kind cannot have the control; "" where they can."""
    columns = rows.column_names
    facts = [facts_of(row) for row in _dicts(rows)] if facts_of is not None else []
    reasons = {
        "the rows do not say where what is asked about lies": control in REGIONS and TARGET not in columns,
        "the rows edit their own image, which no other fits": control in (*DONORS, *TISSUE) and "edit" in columns,
        "the questions ask about no side": control == "flipped"
        and not ("boxes" in columns or any(of_row.mirrored for of_row in facts)),
        "nothing is known of the right answer for another image": control in (*DONORS, *TISSUE)
        and not any(of_row.asked for of_row in facts),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _dicts(rows: datasets.Dataset) -> Iterable[dict[str, Any]]:
    return cast(Iterable[dict[str, Any]], rows)


def _with_places(rows: datasets.Dataset, *, elsewhere: bool) -> list[dict[str, Any]]:
    """The rows with a target, and where the paint goes: at the target, or where its box fits without touching it."""
    changed = []
    for row in _dicts(rows):
        if row[TARGET] is not None and rle.area(row[TARGET]):
            place = place_elsewhere(row) if elsewhere else AT_THE_TARGET
            changed += [row | {PLACE: place}] if place is not None else []
    return changed


def _other_place(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Where the same edit goes under the control of the other place."""
    return place_elsewhere(row) if row[PLACE] == AT_THE_TARGET else AT_THE_TARGET


def place_elsewhere(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Where the region does not touch the target: mirrored, which in a chest is the same part on the other side; else
    moved to one of the free places of a grid, chosen by the row's id. None where there is no place.
    """
    from scipy import signal  # takes longer to import than all else that a run needs before its model

    height, width = rle.get_size(row[TARGET])
    cell = max(1, math.ceil(max(height, width) / _GRID))
    small = rle.decode(rle.resize_mask(row[TARGET], (math.ceil(height / cell), math.ceil(width / cell))))
    taken = ndimage.binary_dilation(small, np.ones((3, 3)), iterations=2)
    if not (taken & small[:, ::-1]).any():
        return {"dx": 0, "dy": 0, "mirror": True}
    x, y, w, h = rle.compute_bounding_box(row[TARGET])
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
    dx, dy = inside[number_of(row["id"]) % len(inside)]
    return {"dx": dx, "dy": dy, "mirror": False}


def _flipped(rows: datasets.Dataset, facts_of: FactsOf | None) -> list[dict[str, Any]]:
    """Boxes are mirrored. A closed question of a side gets the answer of the same question about the other side.

    Of questions only those stay for which that is known and differs.
    """
    if "boxes" in rows.column_names:
        names = [name for name in ("boxes", "described") if name in rows.column_names]
        boxes = ({name: _mirrored(row[name], row["width"]) for name in names} for row in _dicts(rows))
        motion = ({"motion": _mirrored_mask(row["motion"])} if row.get("motion") else {} for row in _dicts(rows))
        return [row | moved | of for row, moved, of in zip(_dicts(rows), boxes, motion, strict=True)]
    of = {row["id"]: cast(FactsOf, facts_of)(row) for row in _dicts(rows)}
    known = {(row["image_id"], of[row["id"]].asked): row["answer"] for row in _dicts(rows)}
    changed = []
    for row in _dicts(rows):
        answer = known.get((row["image_id"], of[row["id"]].mirrored), row["answer"])
        changed += [row | {"answer": answer}] if answer != row["answer"] else []
    return changed


def _mirrored(boxes: Sequence[Mapping[str, Any]], width: int) -> list[dict[str, Any]]:
    return [{**box, "xywh": [width - box["xywh"][0] - box["xywh"][2], *box["xywh"][1:]]} for box in boxes]


def _mirrored_mask(mask: Mapping[str, Any]) -> rle.Rle:
    return rle.encode(rle.decode(mask)[:, ::-1])
