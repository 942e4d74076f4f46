"""The published input view, on which attention and boxes are compared (That's the Wrong Lung!, section 2.3).

An image's longest side is brought to 256 pixels, the shorter one to the same scale (rounded down); zeros fill it up to
256 x 256, the smaller half of them on the left or on top; the middle 224 x 224 are what the model sees and what is
scored. A side thus has a scale of its own: the rounded number of pixels over the image's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

RESIZED, SIDE = 256, 224
UPSAMPLINGS = ("bilinear", "nearest")

Size = tuple[int, int]
Window = tuple[float, float, float, float]


def window(size: Size) -> Window:
    """What of an image the view shows.

    Args:
        size: (height, width) of the image in pixels.

    Returns:
        (x, y, width, height) in the image's pixels; it reaches beyond the image where the view shows padding.

    Raises:
        ValueError: a size that is not two positive whole numbers.

    >>> window((256, 128))
    (-48.0, 16.0, 224.0, 224.0)
    """
    (y, height), (x, width) = ((first, SIDE * scale) for first, scale in _sides(size))
    return x, y, width, height


def mask(boxes: Sequence[Sequence[float]] | np.ndarray, size: Size) -> np.ndarray:
    """The view's pixels whose centre is in a box: x <= column < x + width, and so down the rows.

    For boxes on whole pixels this is what nearest-neighbour resizing makes of the drawn mask.

    Args:
        boxes: (k, 4) numbers [x, y, width, height] in the image's pixels.
        size: (height, width) of the image.

    Returns:
        bool (224, 224); what lies outside the view is cut off.

    Raises:
        ValueError: not (k, 4) finite numbers, a width or height that is not positive, or as `window`.

    >>> int(mask([[0, 0, 128, 256], [100, 0, 1, 1]], (256, 256)).sum()) == 112 * 224
    True
    """
    rows, columns = (_centres(first, scale) for first, scale in _sides(size))
    inside = np.zeros((SIDE, SIDE), dtype=bool)
    for x, y, w, h in _boxes(boxes):
        top, bottom = np.searchsorted(rows, (y, y + h))
        left, right = np.searchsorted(columns, (x, x + w))
        inside[top:bottom, left:right] = True
    return inside


def scores(grid: Any, size: Size, grid_window: Sequence[float], upsampling: str = UPSAMPLINGS[0]) -> np.ndarray:
    """A grid of attention on the view's pixels.

    Args:
        grid: (h, w) equal cells that cover `grid_window`.
        size: (height, width) of the image.
        grid_window: (x, y, width, height) in the image's pixels: the part that the model saw.
        upsampling: "bilinear" (the paper) between the cells' centres, beyond the outermost of which their value stays:
            where the model saw the view, torch's interpolate with align_corners=False. "nearest" (the paper's code):
            the cell of the pixel's upper left corner, as torch's "nearest".

    Returns:
        float64 (224, 224); 0 where a pixel's centre is outside `grid_window`. The view's padding is scored as all else.

    Raises:
        ValueError: no (h, w) of finite numbers, a window of no size, another upsampling, or as `window`.

    >>> scores([[0, 1]], (256, 256), window((256, 256)))[0, [0, 56, 111, 112, 167, 223]].round(3)
    array([0.   , 0.004, 0.496, 0.504, 0.996, 1.   ])
    """
    cells = _grid(grid)
    if upsampling not in UPSAMPLINGS:
        raise ValueError(f"upsampling {upsampling!r}; expected {' or '.join(UPSAMPLINGS)}")
    if len(grid_window) != 4 or not all(map(math.isfinite, grid_window)) or min(grid_window[2:]) <= 0:
        raise ValueError(f"window {list(grid_window)}; expected [x, y, width, height], finite, of a positive size")
    vertical, horizontal = _sides(size)
    x, y, w, h = grid_window
    rows, above, down = _places(*vertical, y, h, cells.shape[0], upsampling)
    columns, before, across = _places(*horizontal, x, w, cells.shape[1], upsampling)
    # This form, unlike a weighted sum, leaves equal neighbours exactly equal: ties stay ties.
    tall = cells[above] + down[:, None] * np.diff(cells, axis=0, append=cells[-1:])[above]
    found = np.zeros((SIDE, SIDE))
    found[rows, columns] = tall[:, before] + across * np.diff(tall, axis=1, append=tall[:, -1:])[:, before]
    return found


def _sides(size: Size) -> list[tuple[float, float]]:
    """Down and across: where the view begins and what one of its pixels spans, in pixels of the image."""
    if len(size) != 2 or any(number != int(number) or number < 1 for number in size):
        raise ValueError(f"size {list(size)}; expected [height, width], whole numbers from 1")
    longest = max(size)
    found = []
    for pixels in map(int, size):
        resized = max(pixels * RESIZED // int(longest), 1)
        first = (RESIZED - SIDE) // 2 - (RESIZED - resized) // 2
        found.append((first * pixels / resized, pixels / resized))
    return found


def _centres(first: float, scale: float) -> np.ndarray:
    return first + (np.arange(SIDE) + 0.5) * scale


def _places(
    first: float, scale: float, start: float, extent: float, cells: int, upsampling: str
) -> tuple[slice, np.ndarray, np.ndarray]:
    """Along one side: the pixels with a centre in the grid's window, the cell before each, and how far to the next."""
    centres = _centres(first, scale)
    seen = slice(*np.searchsorted(centres, (start, start + extent)).tolist())
    if upsampling == "nearest":
        # A corner meant to be on a cell's edge is in the cell that begins there, whatever the rounding.
        places = np.floor((centres[seen] - scale / 2 - start) * (cells / extent) + 1e-9)
    else:
        # Where a pixel's centre is meant to be a cell's, no rounding mixes in the next one.
        places = (centres[seen] - start) * (cells / extent) - 0.5
        places = np.where(abs(places - places.round()) < 1e-9, places.round(), places)
    places = places.clip(0, cells - 1)
    before = np.floor(places).astype(np.intp)
    return seen, before, places - before


def _grid(grid: Any) -> np.ndarray:
    try:
        cells = np.asarray(grid, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("no grid of attention; expected rows of numbers, all of one length") from None
    if cells.ndim != 2 or not cells.size:
        raise ValueError(f"a grid of shape {cells.shape}; expected (height, width)")
    if not np.isfinite(cells).all():
        raise ValueError("a grid with NaN or infinity; expected a finite number a cell")
    return cells


def _boxes(boxes: Any) -> np.ndarray:
    try:
        numbers = np.asarray(boxes, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("boxes that are not all four numbers; expected [x, y, width, height]") from None
    if not numbers.size:
        return np.empty((0, 4))
    if numbers.ndim != 2 or numbers.shape[1] != 4:
        raise ValueError(f"boxes of shape {numbers.shape}; expected (k, 4), [x, y, width, height] each")
    for number, box in enumerate(numbers, start=1):
        if not (np.isfinite(box).all() and box[2:].min() > 0):
            raise ValueError(f"box {number}: {box.tolist()}; expected [x, y, width, height], finite, with a size")
    return numbers
