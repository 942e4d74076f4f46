"""Changes that keep the right answer: a crop, which moves boxes and regions, and a recoded image."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image

from ...loaders import rle
from .donors import hash_id

CUT, SHIFT = 0.04, 0.03  # shares of a side: mean cut at each end, and largest shift of the window
SMALLER, QUALITY = 0.97, 75  # scale, and quality of the JPEG
MIN_VISIBLE = 0.5  # share of each box and region that must stay in view
_BOXES, _MASKS = ("boxes", "described"), ("region", "target", "motion")  # columns with boxes and masks


def compute_window(size: tuple[int, int], row_id: str) -> rle.Box:
    """Compute the part of an image that the control's crop keeps. Its position depends on the id of the row.

    Args:
        size: (width, height) of the image.
        row_id: The id of the row.

    Returns:
        (x, y, width, height) in pixels.
    """
    moves = np.random.default_rng(hash_id(row_id)).uniform(CUT - SHIFT, CUT + SHIFT, 2)
    x, y = (int(move * side) for move, side in zip(moves, size, strict=True))
    width, height = (max(1, round((1 - 2 * CUT) * side)) for side in size)
    return x, y, width, height


def crop(image: Image.Image, row_id: str) -> Image.Image:
    """Crop an image, and resize the crop to the size of the image.

    Args:
        image: The image.
        row_id: The id of the row.

    Returns:
        The crop, of the same size and mode as the image.
    """
    x, y, width, height = compute_window(image.size, row_id)
    return image.resize(image.size, Image.Resampling.BICUBIC, box=(x, y, x + width, y + height))


def recode(image: Image.Image) -> Image.Image:
    """Shrink an image slightly, enlarge it again, and encode it as JPEG with half of the resolution in colour.

    Args:
        image: The image.

    Returns:
        The image after decoding, of the same size, in mode RGB.
    """
    width, height = (max(1, round(SMALLER * side)) for side in image.size)
    rescaled = image.convert("RGB").resize((width, height), Image.Resampling.BICUBIC)
    data = io.BytesIO()
    rescaled.resize(image.size, Image.Resampling.BICUBIC).save(data, "JPEG", quality=QUALITY, subsampling="4:2:0")
    with Image.open(data) as decoded:
        return decoded.convert("RGB")


def crop_row(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Convert the boxes and masks of a row to the pixels of its cropped and enlarged image (`crop`).

    Args:
        row: The row.

    Returns:
        The changed row, or None if less than half of a box or region stays in view.

    Raises:
        KeyError: The row has boxes but no `width` and `height`.
    """
    moved = dict(row)
    for name in _MASKS:
        if row.get(name):
            moved[name] = crop_mask(row[name], row["id"])
            if name != "motion" and _is_lost(row[name], moved[name]):
                return None
    for name in _BOXES:
        if row.get(name):
            moved[name] = [_crop_box(box, (row["width"], row["height"]), row["id"]) for box in row[name]]
            if any(box["xywh"][2] <= 0 or box["xywh"][3] <= 0 for box in moved[name]):
                return None
    return moved


def crop_mask(mask: Mapping[str, Any], row_id: str) -> rle.Rle:
    """Crop and enlarge a mask as `crop` does with the image of the same row.

    Args:
        mask: The mask.
        row_id: The id of the row.

    Returns:
        The mask in the pixels of the cropped image, of the same size as before.
    """
    height, width = rle.get_size(mask)
    return rle.resize_mask(rle.crop_mask(mask, compute_window((width, height), row_id)), (height, width))


def _is_lost(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    enlarged = (1 - 2 * CUT) ** -2
    return rle.area(after) < MIN_VISIBLE * enlarged * rle.area(before)


def _crop_box(box: Mapping[str, Any], size: tuple[int, int], row_id: str) -> dict[str, Any]:
    """Convert a box to the pixels of the cropped and enlarged image; width and height 0 if too little stays in view.

    Too little is less than MIN_VISIBLE of its area.
    """
    x, y, width, height = compute_window(size, row_id)
    left, top, wide, high = box["xywh"]
    columns, lines = (
        np.clip([start - origin, start + length - origin], 0, limit)
        for start, length, origin, limit in ((left, wide, x, width), (top, high, y, height))
    )
    is_visible = (columns[1] - columns[0]) * (lines[1] - lines[0]) >= MIN_VISIBLE * wide * high
    scale = np.array([size[0] / width, size[1] / height])
    corner, extent = np.array([columns[0], lines[0]]) * scale, np.array([np.ptp(columns), np.ptp(lines)]) * scale
    return {**box, "xywh": [*map(float, corner), *map(float, extent if is_visible else 0 * extent)]}
