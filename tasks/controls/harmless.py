"""Changes after which what is right stays right: a crop, with which boxes and regions move, and a recoded image."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image

from ...loaders import rle
from .donors import number_of

CUT, SHIFT = 0.04, 0.03  # of a side: what is cut off at each end, and how much more at one and less at the other
SMALLER, QUALITY = 0.97, 75  # scale, and quality of the JPEG
KEPT = 0.5  # of each box and region that must stay in view
_BOXES, _MASKS = ("boxes", "described"), ("region", "target", "motion")  # columns that say where things are


def window_of(size: tuple[int, int], row_id: str) -> rle.Box:
    """(x, y, width, height) of what a crop keeps of an image of (width, height), where the row's id has moved it."""
    moves = np.random.default_rng(number_of(row_id)).uniform(CUT - SHIFT, CUT + SHIFT, 2)
    x, y = (int(move * side) for move, side in zip(moves, size, strict=True))
    width, height = (max(1, round((1 - 2 * CUT) * side)) for side in size)
    return x, y, width, height


def crop(image: Image.Image, row_id: str) -> Image.Image:
    """The window of an image, at the image's size."""
    x, y, width, height = window_of(image.size, row_id)
    return image.resize(image.size, Image.Resampling.BICUBIC, box=(x, y, x + width, y + height))


def recode(image: Image.Image) -> Image.Image:
    """The image made a little smaller, enlarged again, and saved as JPEG with half of the resolution in colour."""
    smaller = tuple(max(1, round(SMALLER * side)) for side in image.size)
    rescaled = image.convert("RGB").resize(smaller, Image.Resampling.BICUBIC)  # pyright: ignore[reportArgumentType]
    data = io.BytesIO()
    rescaled.resize(image.size, Image.Resampling.BICUBIC).save(data, "JPEG", quality=QUALITY, subsampling="4:2:0")
    with Image.open(data) as decoded:
        return decoded.convert("RGB")


def crop_row(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The row with its boxes and masks where a crop moves them; None where one of them leaves the image by half.

    Raises KeyError for a row with boxes but without `width` and `height`.
    """
    moved = dict(row)
    for name in _MASKS:
        if row.get(name):
            moved[name] = crop_mask(row[name], row["id"])
            if name != "motion" and _is_lost(row[name], moved[name]):
                return None
    for name in _BOXES:
        if row.get(name):
            moved[name] = [_moved(box, (row["width"], row["height"]), row["id"]) for box in row[name]]
            if any(box["xywh"][2] <= 0 or box["xywh"][3] <= 0 for box in moved[name]):
                return None
    return moved


def crop_mask(mask: Mapping[str, Any], row_id: str) -> rle.Rle:
    """A mask where a crop moves it."""
    height, width = rle.get_size(mask)
    return rle.resize_mask(rle.crop_mask(mask, window_of((width, height), row_id)), (height, width))


def _is_lost(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    enlarged = (1 - 2 * CUT) ** -2
    return rle.area(after) < KEPT * enlarged * rle.area(before)


def _moved(box: Mapping[str, Any], size: tuple[int, int], row_id: str) -> dict[str, Any]:
    """The box in the crop's pixels; without extent where less than KEPT of it stays in view."""
    x, y, width, height = window_of(size, row_id)
    left, top, wide, high = box["xywh"]
    columns, lines = (
        np.clip([start - first, start + length - first], 0, seen)
        for start, length, first, seen in ((left, wide, x, width), (top, high, y, height))
    )
    kept = (columns[1] - columns[0]) * (lines[1] - lines[0]) >= KEPT * wide * high
    scale = np.array([size[0] / width, size[1] / height])
    corner, extent = np.array([columns[0], lines[0]]) * scale, np.array([np.ptp(columns), np.ptp(lines)]) * scale
    return {**box, "xywh": [*map(float, corner), *map(float, extent if kept else 0 * extent)]}
