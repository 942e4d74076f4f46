"""The rows of a task under a control: their donors, the painted regions, and the changes of their images."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import datasets
import numpy as np
from PIL import Image, ImageOps
from scipy import ndimage

from ...loaders import rle
from ..row_iteration import iterate_rows
from ..row_tables import build_dataset
from . import DONORS, ELSEWHERE, REGIONS, TARGET, TISSUE, FactsOf, UnsupportedControlError, harmless, paint, split_dose
from .donors import DONOR, add_tissue, hash_id, replace_images
from .transplant import transplant

PLACE = "control_place"  # column: the painted region, relative to the target
AT_THE_TARGET = {"dx": 0, "dy": 0, "mirror": False}
_PLACE = {"dx": datasets.Value("int32"), "dy": datasets.Value("int32"), "mirror": datasets.Value("bool")}
MASK = {"size": datasets.List(datasets.Value("int32")), "counts": datasets.Value("string")}
USES_OTHER_ROWS = (*DONORS, *TISSUE, "flipped")  # controls that use images, tissue or answers of other rows
Opener = Callable[[Mapping[str, str]], Image.Image]
Change = Callable[[Image.Image, Opener], Image.Image]
_GRID = 64  # candidate places along the longer side


def controlled(rows: datasets.Dataset, control: str, facts_of: FactsOf | None) -> datasets.Dataset:
    """Select the rows that support a control, and add the images, places or answers that the control needs.

    Args:
        rows: The rows of a task.
        control: The control.
        facts_of: Returns the facts about a row; None if the task has none.

    Returns:
        The selected rows with the columns that the control reads when an image is opened.

    Raises:
        InputError: The control is unknown.
        UnsupportedControlError: No row supports the control.
    """
    name, _ = split_dose(control)
    reason = _find_unsupported_reason(rows, name, facts_of)
    if reason:
        action = "choose another control; medfaith tasks --controls shows which there are for each benchmark"
        raise UnsupportedControlError(f"option control={control}", reason, action=action)
    if name in DONORS:
        changed = replace_images(rows, same=name == "other_same", facts_of=cast(FactsOf, facts_of))
    elif name in REGIONS:
        changed = _add_places(rows, elsewhere=name.endswith(ELSEWHERE))
        if name in TISSUE:
            rows_with_places = [(row, [row[PLACE], *filter(None, [_find_other_place(row)])]) for row in changed]
            changed = add_tissue(iterate_rows(rows), rows_with_places, cast(FactsOf, facts_of))
    elif name == "flipped":
        changed = _flip_rows(rows, facts_of)
    elif name == "cropped":
        changed = [row for row in map(harmless.crop_row, iterate_rows(rows)) if row is not None]
    else:
        changed = list(iterate_rows(rows))
        if name == "none":
            removed = {"images": []} | ({"edit": None} if "edit" in rows.column_names else {})
            changed = [row | removed for row in changed]
    if not changed:
        raise UnsupportedControlError(
            f"option control={control}", "can be made for no row of this task", action="choose another one"
        )
    features = rows.features | ({PLACE: _PLACE} if name in REGIONS else {})
    if name in TISSUE:
        features |= {DONOR: {"image": rows.features["images"].feature, "region": MASK}}
    return build_dataset(changed, features)


def merge_boxes(boxes: Sequence[Mapping[str, Any]], size: rle.Size) -> rle.Rle | None:
    """Merge boxes into one region.

    Args:
        boxes: The boxes.
        size: (height, width) of the image.

    Returns:
        The region, or None without boxes.
    """
    if not boxes:
        return None
    return rle.union(rle.encode_boxes(np.array([box["xywh"] for box in boxes], float), size))


def change(control: str | None, row: Mapping[str, Any]) -> Change | None:
    """Build the change that a control makes to each image of a row. An image that is opened again gets the same change.

    Args:
        control: The control, or None.
        row: The row.

    Returns:
        The change, or None if the images stay the same.
    """
    if control is None:
        return None
    (name, dose), seed = split_dose(control), hash_id(row["id"])
    if name in REGIONS:
        return partial(_apply_edit, name, dose, row, seed)
    changes: dict[str, Change] = {
        "blank": _wrap_pixel_change(paint.fill_mean),
        "noise": _wrap_pixel_change(partial(paint.shuffle_pixels, seed=seed)),
        "flipped": lambda image, _: ImageOps.mirror(image),
        "cropped": lambda image, _: harmless.crop(image, row["id"]),
        "recoded": lambda image, _: harmless.recode(image),
    }
    if row.get("width"):
        size = row["width"], row["height"]
        changes |= dict.fromkeys(DONORS, lambda image, _: image.resize(size, Image.Resampling.BICUBIC))
    return changes.get(name)


def list_donor_references(row: Mapping[str, Any]) -> list[Mapping[str, str]]:
    """List the second images of a row, whose tissue a control shows.

    Args:
        row: The row.

    Returns:
        The reference to the donor's image in a list; an empty list for a row without a donor.
    """
    return [row[DONOR]["image"]] if row.get(DONOR) else []


def _wrap_pixel_change(change: Callable[[np.ndarray], np.ndarray]) -> Change:
    return lambda image, _: Image.fromarray(change(np.asarray(image.convert("RGB"))))


def _apply_edit(
    name: str, dose: int, row: Mapping[str, Any], seed: int, image: Image.Image, open_image: Opener
) -> Image.Image:
    """Apply a control of REGIONS to an image. The mask is made only here: rows are read more often than images."""
    pixels, place = np.asarray(image.convert("RGB")), row[PLACE]
    mask = paint.shift_mask(rle.decode(row[TARGET]), **place)
    if pixels.shape[:2] != mask.shape:
        raise ValueError(f"height and width {pixels.shape[:2]}; expected {mask.shape}, the size of its region")
    if name == "only_target":
        return Image.fromarray(paint.keep_region(pixels, mask))
    if name in TISSUE:
        edited = _apply_transplant(row, pixels, mask, open_image)
    else:
        edited = (paint.fill_region if name.startswith("occluded") else paint.blur_region)(pixels, mask, seed)
    if dose < 100:
        selection = paint.compute_sector(mask, dose / 100, paint.sample_start(seed), mirror=place["mirror"])
        edited = paint.merge_edit(pixels, edited, mask, selection)
    return Image.fromarray(edited)


def _apply_transplant(row: Mapping[str, Any], pixels: np.ndarray, mask: np.ndarray, open_image: Opener) -> np.ndarray:
    """Put the donor's tissue into the image where the mask is set.

    At the target of an anatomy, the tissue is the donor's anatomy. Otherwise it comes from the same place of the
    donor's image.
    """
    donor, region = row[DONOR]["image"], rle.encode(mask)
    donor_pixels = np.asarray(open_image(donor).convert("RGB"))
    donor_region = row[DONOR]["region"] if row[PLACE] == AT_THE_TARGET else None
    return transplant(pixels, region, donor_pixels, donor_region or rle.resize_mask(region, donor_pixels.shape[:2]))


def _find_unsupported_reason(rows: datasets.Dataset, control: str, facts_of: FactsOf | None) -> str:
    """Return the reason why no row of these supports a control, in words for the message; "" if rows may support it."""
    columns = rows.column_names
    facts = [facts_of(row) for row in iterate_rows(rows)] if facts_of is not None else []
    reasons = {
        "the rows do not say where the target is": control in REGIONS and TARGET not in columns,
        "the rows edit their own image, and no other image fits the edit": control in (*DONORS, *TISSUE)
        and "edit" in columns,
        "the questions ask about no side": control == "flipped"
        and not ("boxes" in columns or any(row_facts.mirrored for row_facts in facts)),
        "the right answer for another image is unknown": control in (*DONORS, *TISSUE)
        and not any(row_facts.asked for row_facts in facts),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _add_places(rows: datasets.Dataset, *, elsewhere: bool) -> list[dict[str, Any]]:
    """Select the rows with a target, and add the place of the edit: the target itself or, elsewhere, a free place.

    Rows without a free place (`find_place_elsewhere`) are left out.
    """
    changed = []
    for row in iterate_rows(rows):
        if row[TARGET] is not None and rle.area(row[TARGET]):
            place = find_place_elsewhere(row) if elsewhere else AT_THE_TARGET
            changed += [row | {PLACE: place}] if place is not None else []
    return changed


def _find_other_place(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the place that the edit has under its partner control: elsewhere for an edit at the target, and back."""
    return find_place_elsewhere(row) if row[PLACE] == AT_THE_TARGET else AT_THE_TARGET


def find_place_elsewhere(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Find a place where the region does not touch the target.

    The place is the mirrored region, which in a chest is the same part of the other side. If that touches the target,
    the place is one of the free places of a grid, chosen by the id of the row.

    Args:
        row: A row with a target.

    Returns:
        The place, or None if there is no free place.
    """
    height, width = rle.get_size(row[TARGET])
    cell = max(1, math.ceil(max(height, width) / _GRID))
    small = rle.decode(rle.resize_mask(row[TARGET], (math.ceil(height / cell), math.ceil(width / cell))))
    occupied = ndimage.binary_dilation(small, np.ones((3, 3)), iterations=2)
    if not (occupied & small[:, ::-1]).any():
        return {"dx": 0, "dy": 0, "mirror": True}
    x, y, w, h = rle.compute_bounding_box(row[TARGET])
    top, left = y // cell, x // cell
    region = small[top:, left:][: math.ceil(h / cell) + 1, : math.ceil(w / cell) + 1]
    # The overlap of target and region for each place of the region's window on the grid.
    size = [n + m for n, m in zip(small.shape, region.shape, strict=True)]  # large enough that nothing wraps around
    touched = np.fft.irfft2(np.fft.rfft2(occupied, size) * np.fft.rfft2(region, size).conj(), size)
    lines, columns = np.nonzero(touched[: small.shape[0], : small.shape[1]] < 0.5)
    dx, dy = (columns - left) * cell, (lines - top) * cell
    inside = np.flatnonzero((x + dx >= 0) & (x + dx <= width - w) & (y + dy >= 0) & (y + dy <= height - h))
    if not len(inside):
        return None
    chosen = inside[hash_id(row["id"]) % len(inside)]
    return {"dx": int(dx[chosen]), "dy": int(dy[chosen]), "mirror": False}


def _flip_rows(rows: datasets.Dataset, facts_of: FactsOf | None) -> list[dict[str, Any]]:
    """Change the right answers of rows to those for the mirrored image, which the control `flipped` shows.

    Boxes and masks of motion are mirrored. Rows without boxes are closed questions: one about a side gets the answer to
    the same question about the other side, and is left out if that answer is unknown or the same.
    """
    if "boxes" in rows.column_names:
        names = [name for name in ("boxes", "described") if name in rows.column_names]
        boxes = ({name: _flip_boxes(row[name], row["width"]) for name in names} for row in iterate_rows(rows))
        motion = ({"motion": _flip_mask(row["motion"])} if row.get("motion") else {} for row in iterate_rows(rows))
        return [row | moved | details for row, moved, details in zip(iterate_rows(rows), boxes, motion, strict=True)]
    details = {row["id"]: cast(FactsOf, facts_of)(row) for row in iterate_rows(rows)}
    answers = {(row["image_id"], details[row["id"]].asked): row["answer"] for row in iterate_rows(rows)}
    changed = []
    for row in iterate_rows(rows):
        answer = answers.get((row["image_id"], details[row["id"]].mirrored), row["answer"])
        changed += [row | {"answer": answer}] if answer != row["answer"] else []
    return changed


def _flip_boxes(boxes: Sequence[Mapping[str, Any]], width: int) -> list[dict[str, Any]]:
    return [{**box, "xywh": [width - box["xywh"][0] - box["xywh"][2], *box["xywh"][1:]]} for box in boxes]


def _flip_mask(mask: Mapping[str, Any]) -> rle.Rle:
    return rle.encode(rle.decode(mask)[:, ::-1])
