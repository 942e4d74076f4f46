"""Boxes as whole pixels of a frame, and the union of boxes as rectangles that do not overlap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Rectangle = tuple[int, int, int, int]  # left, top, right, bottom in pixels; right and bottom are outside


def pixel_rectangles(xywh: Sequence | np.ndarray, size: tuple[int, int], name: str = "boxes") -> list[Rectangle]:
    """The pixels of each box whose centre is inside it: x <= column + 1/2 < x + width, and so down the rows.

    Args:
        xywh: (k, 4) numbers, pixels from the frame's top-left corner.
        size: (height, width) of the frame; what lies outside is cut off.
        name: of the sample, for errors.

    Returns:
        the rectangles that hold a pixel; a box outside the frame, or too narrow for a centre, has none.

    Raises:
        ValueError: not (k, 4) finite numbers, or a width or height that is not positive.

    >>> pixel_rectangles([[-2, 1, 4, 2.6], [9, 9, 5, 5]], (6, 8))
    [(0, 1, 2, 4)]
    """
    height, width = size
    found = []
    for number, (x, y, w, h) in enumerate(_numbers(xywh, name), start=1):
        if not (math.isfinite(x + y + w + h) and w > 0 and h > 0):
            raise ValueError(
                f"{name}, box {number}: [{x}, {y}, {w}, {h}]; expected [x, y, width, height], finite, with a size"
            )
        left, top = max(math.ceil(x - 0.5), 0), max(math.ceil(y - 0.5), 0)
        right, bottom = min(math.ceil(x + w - 0.5), width), min(math.ceil(y + h - 0.5), height)
        if left < right and top < bottom:
            found.append((left, top, right, bottom))
    return found


def disjoint(rectangles: Sequence[Rectangle]) -> list[Rectangle]:
    """Rectangles that cover the same pixels, each pixel once.

    >>> disjoint([(0, 0, 4, 4), (2, 1, 6, 3)])
    [(0, 0, 4, 4), (4, 1, 6, 3)]
    """
    kept: list[Rectangle] = []
    for rectangle in rectangles:
        pieces = [rectangle]
        for other in kept:
            pieces = [part for piece in pieces for part in _without(piece, other)]
        kept += pieces
    return kept


def _without(piece: Rectangle, other: Rectangle) -> list[Rectangle]:
    """What is left of a rectangle: the bands above and below the other one, and between them the sides."""
    left, top, right, bottom = piece
    inner_left, inner_top = max(left, other[0]), max(top, other[1])
    inner_right, inner_bottom = min(right, other[2]), min(bottom, other[3])
    if inner_left >= inner_right or inner_top >= inner_bottom:
        return [piece]
    parts = [
        (left, top, right, inner_top),
        (left, inner_bottom, right, bottom),
        (left, inner_top, inner_left, inner_bottom),
        (inner_right, inner_top, right, inner_bottom),
    ]
    return [part for part in parts if part[0] < part[2] and part[1] < part[3]]


def _numbers(xywh: Any, name: str) -> list[list[float]]:
    try:
        boxes = np.asarray(xywh, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: boxes that are not all four numbers; expected [x, y, width, height]") from None
    if boxes.size == 0:
        return []
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise ValueError(f"{name}: boxes of shape {boxes.shape}; expected (k, 4), [x, y, width, height] each")
    return boxes.tolist()
