"""Boxes in the published input view, where the paper compares them (That's the Wrong Lung!, section 2.3).

The longest side of an image is resized to 256 pixels and the shorter side to the same scale (rounded down). Zeros pad
it to 256 x 256, with the smaller half on the left or at the top. The model sees the middle 224 x 224 pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

RESIZED, SIDE = 256, 224


def mask(boxes: Iterable[Sequence[float]], size: tuple[int, int]) -> np.ndarray:
    """Draw boxes as a mask of the view: the pixels whose centre is in a box.

    Args:
        boxes: x, y, width and height of each box, in pixels of the image.
        size: Height and width of the image in pixels.

    Returns:
        bool (224, 224).

    >>> int(mask([[0, 0, 128, 256], [100, 0, 1, 1]], (256, 256)).sum()) == 112 * 224
    True
    """
    rows, columns = (_compute_centres(side, max(size)) for side in size)
    is_covered = np.zeros((SIDE, SIDE), dtype=bool)
    for x, y, width, height in boxes:
        y1, y2 = np.searchsorted(rows, (y, y + height))
        x1, x2 = np.searchsorted(columns, (x, x + width))
        is_covered[y1:y2, x1:x2] = True
    return is_covered


def _compute_centres(side: int, longest: int) -> np.ndarray:
    """Compute the positions of the view's pixel centres along one side of the image, in its pixels."""
    resized = max(side * RESIZED // longest, 1)
    offset = (RESIZED - SIDE) // 2 - (RESIZED - resized) // 2
    return offset * side / resized + (np.arange(SIDE) + 0.5) * (side / resized)
