"""Boxes as integer pixel rectangles of a frame, and the union of boxes as disjoint rectangles."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..arguments.arrays import read_boxes, read_size
from ..arguments.kinds import BOXES, SIZE, TEXT, instance, sequence
from ..arguments.schema import check_arguments

Rectangle = tuple[int, int, int, int]  # left, top, right, bottom in pixels; right and bottom are exclusive


@check_arguments(xywh=BOXES, size=SIZE, name=TEXT)
def find_pixel_rectangles(xywh: Sequence | np.ndarray, size: tuple[int, int], name: str = "boxes") -> list[Rectangle]:
    """Find the pixels of each box whose centre is inside it: x <= column + 1/2 < x + width, likewise for the rows.

    Args:
        xywh: Shape (k, 4), pixels from the frame's top-left corner.
        size: (height, width) of the frame; parts outside are cut off.
        name: Name of the sample, for errors.

    Returns:
        The rectangles with at least one pixel; a box outside the frame, or too narrow for a centre, has none.

    Raises:
        ValueError: Not (k, 4) finite numbers, or a width or height that is not positive.

    >>> find_pixel_rectangles([[-2, 1, 4, 2.6], [9, 9, 5, 5]], (6, 8))
    [(0, 1, 2, 4)]
    """
    height, width = read_size(size, f"{name}: ")
    rectangles = []
    for x, y, w, h in read_boxes(xywh, name).tolist():
        left, top = max(math.ceil(x - 0.5), 0), max(math.ceil(y - 0.5), 0)
        right, bottom = min(math.ceil(x + w - 0.5), width), min(math.ceil(y + h - 0.5), height)
        if left < right and top < bottom:
            rectangles.append((left, top, right, bottom))
    return rectangles


@check_arguments(rectangles=sequence(instance(tuple)))
def split_disjoint(rectangles: Sequence[Rectangle]) -> list[Rectangle]:
    """Split rectangles so that they cover the same pixels, each pixel once.

    Args:
        rectangles: The rectangles, which may overlap.

    Returns:
        Disjoint rectangles.

    >>> split_disjoint([(0, 0, 4, 4), (2, 1, 6, 3)])
    [(0, 0, 4, 4), (4, 1, 6, 3)]
    """
    disjoint_rectangles: list[Rectangle] = []
    for rectangle in rectangles:
        pieces = [rectangle]
        for covered in disjoint_rectangles:
            pieces = [outside for piece in pieces for outside in _split_outside(piece, covered)]
        disjoint_rectangles += pieces
    return disjoint_rectangles


def _split_outside(piece: Rectangle, covered: Rectangle) -> list[Rectangle]:
    """Split a rectangle outside another: the bands above and below it, and between them the sides."""
    left, top, right, bottom = piece
    inner_left, inner_top = max(left, covered[0]), max(top, covered[1])
    inner_right, inner_bottom = min(right, covered[2]), min(bottom, covered[3])
    if inner_left >= inner_right or inner_top >= inner_bottom:
        return [piece]
    pieces = [
        (left, top, right, inner_top),
        (left, inner_bottom, right, bottom),
        (left, inner_top, inner_left, inner_bottom),
        (inner_right, inner_top, right, inner_bottom),
    ]
    return [rectangle for rectangle in pieces if rectangle[0] < rectangle[2] and rectangle[1] < rectangle[3]]
