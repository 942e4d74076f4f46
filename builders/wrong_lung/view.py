"""Boxes on the published input view, where the paper compares them (That's the Wrong Lung!, section 2.3).

An image's longest side is brought to 256 pixels, the shorter one to the same scale (rounded down); zeros fill it up to
256 x 256, the smaller half of them on the left or on top; the middle 224 x 224 are what the model sees.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

RESIZED, SIDE = 256, 224


def mask(boxes: Iterable[Sequence[float]], size: tuple[int, int]) -> np.ndarray:
    """The view's pixels whose centre is in a box; what lies outside the view is cut off.

    Args:
        boxes: [x, y, width, height] each, in pixels of the image. size: (height, width) of the image.

    Returns:
        bool (224, 224).

    >>> int(mask([[0, 0, 128, 256], [100, 0, 1, 1]], (256, 256)).sum()) == 112 * 224
    True
    """
    rows, columns = (_centres(side, max(size)) for side in size)
    inside = np.zeros((SIDE, SIDE), dtype=bool)
    for x, y, width, height in boxes:
        top, bottom = np.searchsorted(rows, (y, y + height))
        left, right = np.searchsorted(columns, (x, x + width))
        inside[top:bottom, left:right] = True
    return inside


def _centres(side: int, longest: int) -> np.ndarray:
    """Where the centres of the view's pixels lie along one side of the image, in its pixels."""
    resized = max(side * RESIZED // longest, 1)
    first = (RESIZED - SIDE) // 2 - (RESIZED - resized) // 2
    return first * side / resized + (np.arange(SIDE) + 0.5) * (side / resized)
