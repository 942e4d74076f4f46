"""The published input view, in which attention and boxes are compared (That's the Wrong Lung!, section 2.3).

An image's longest side is resized to 256 pixels and the shorter side to the same scale (rounded down). Zeros pad it to
256 x 256, with the smaller half on the left or on top. The model sees, and the metric scores, the central 224 x 224.
Each side therefore has its own scale: the rounded number of pixels divided by the image's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

RESIZED, SIDE = 256, 224
UPSAMPLINGS = ("bilinear", "nearest")

Size = tuple[int, int]
Window = tuple[float, float, float, float]


def window(size: Size) -> Window:
    """Compute the part of an image that the view shows.

    Args:
        size: (height, width) of the image in pixels.

    Returns:
        (x, y, width, height) in the image's pixels; it extends beyond the image if the view shows padding.

    Raises:
        ValueError: A size that is not two positive integers.

    >>> window((256, 128))
    (-48.0, 16.0, 224.0, 224.0)
    """
    rows, columns = _compute_sides(size)
    return columns.start, rows.start, SIDE * columns.scale, SIDE * rows.scale


def mask(boxes: Sequence[Sequence[float]] | np.ndarray, size: Size) -> np.ndarray:
    """Mark the view's pixels whose centre is in a box: x <= column < x + width, and likewise for the rows.

    For boxes with integer coordinates this equals the drawn mask after nearest-neighbour resizing.

    Args:
        boxes: Shape (k, 4), [x, y, width, height] in the image's pixels.
        size: (height, width) of the image.

    Returns:
        Bool, shape (224, 224); parts outside the view are cut off.

    Raises:
        ValueError: Not (k, 4) finite numbers, a width or height that is not positive, or see `window`.

    >>> int(mask([[0, 0, 128, 256], [100, 0, 1, 1]], (256, 256)).sum()) == 112 * 224
    True
    """
    rows, columns = _compute_sides(size)
    inside = np.zeros((SIDE, SIDE), dtype=bool)
    for x, y, w, h in _require_boxes(boxes).tolist():
        inside[rows.find_pixels(y, h), columns.find_pixels(x, w)] = True
    return inside


def scores(grid: Any, size: Size, grid_window: Sequence[float], upsampling: str = UPSAMPLINGS[0]) -> np.ndarray:
    """Resample a grid of attention to the view's pixels.

    Args:
        grid: Shape (h, w), equal cells that cover `grid_window`.
        size: (height, width) of the image.
        grid_window: (x, y, width, height) in the image's pixels: the part that the model saw.
        upsampling: "bilinear" (the paper) interpolates between the cells' centres and extends the outermost values; if
            the model saw the view, it equals torch's interpolate with align_corners=False. "nearest" (the paper's code)
            takes the cell of the pixel's upper left corner, like torch's "nearest".

    Returns:
        float64, shape (224, 224); 0 where a pixel's centre is outside `grid_window`. The view's padding is scored, too.

    Raises:
        ValueError: A grid that is not (h, w) finite numbers, an empty window, another upsampling, or see `window`.

    >>> scores([[0, 1]], (256, 256), window((256, 256)))[0, [0, 56, 111, 112, 167, 223]].round(3)
    array([0.   , 0.004, 0.496, 0.504, 0.996, 1.   ])
    """
    cells = _require_grid(grid)
    if upsampling not in UPSAMPLINGS:
        raise ValueError(f"upsampling {upsampling!r}; expected {' or '.join(UPSAMPLINGS)}")
    if len(grid_window) != 4 or not all(map(math.isfinite, grid_window)) or min(grid_window[2:]) <= 0:
        raise ValueError(f"window {list(grid_window)}; expected [x, y, width, height], finite, of a positive size")
    vertical, horizontal = _compute_sides(size)
    x, y, w, h = grid_window
    rows, cells_above, row_weights = _find_places(vertical, y, h, cells.shape[0], upsampling)
    columns, cells_before, column_weights = _find_places(horizontal, x, w, cells.shape[1], upsampling)
    # Unlike a weighted sum, this form keeps equal neighbours exactly equal: ties stay ties.
    stretched = cells[cells_above] + row_weights[:, None] * np.diff(cells, axis=0, append=cells[-1:])[cells_above]
    pixel_scores = np.zeros((SIDE, SIDE))
    pixel_scores[rows, columns] = (
        stretched[:, cells_before]
        + column_weights * np.diff(stretched, axis=1, append=stretched[:, -1:])[:, cells_before]
    )
    return pixel_scores


@dataclass(frozen=True, slots=True)
class _Side:
    """The view along one side of an image.

    Attributes:
        pixels: The image's pixels.
        resized: The same pixels after resizing.
        offset: The resized pixel at which the view starts; negative in the padding.
    """

    pixels: int
    resized: int
    offset: int

    @property
    def scale(self) -> float:
        """Return the size of the view's pixels in pixels of the image."""
        return self.pixels / self.resized

    @property
    def start(self) -> float:
        """Return the start of the view in pixels of the image."""
        return self.offset * self.pixels / self.resized

    def find_pixels(self, start: float, extent: float) -> slice:
        """Find the view's pixels whose centre is in an interval: start <= centre < start + extent.

        The comparison is exact: a centre at (2 k + 1) / 2 * pixels / resized may be an edge of a box.

        Args:
            start: The start of the interval in pixels of the image.
            extent: The length of the interval.

        Returns:
            The pixels, as a slice of 0 to SIDE.
        """
        edges = (Fraction(float(start)), Fraction(float(start)) + Fraction(float(extent)))
        first, stop = (math.ceil(edge * self.resized / self.pixels - Fraction(1, 2)) - self.offset for edge in edges)
        return slice(min(max(first, 0), SIDE), min(max(stop, 0), SIDE))

    def compute_centres(self) -> np.ndarray:
        """Compute the centres of the view's pixels in pixels of the image."""
        return self.start + (np.arange(SIDE) + 0.5) * self.scale


def _compute_sides(size: Size) -> list[_Side]:
    """Compute the view along rows and columns."""
    if len(size) != 2 or any(number != int(number) or number < 1 for number in size):
        raise ValueError(f"size {list(size)}; expected [height, width], whole numbers from 1")
    longest = max(size)
    sides = []
    for pixels in map(int, size):
        resized = max(pixels * RESIZED // int(longest), 1)
        padding_offset = (RESIZED - SIDE) // 2 - (RESIZED - resized) // 2
        sides.append(_Side(pixels, resized, padding_offset))
    return sides


def _find_places(
    side: _Side, start: float, extent: float, cells: int, upsampling: str
) -> tuple[slice, np.ndarray, np.ndarray]:
    """Find, along one side, the pixels centred in the grid's window, the cell before each, and the distance from it."""
    centres = side.compute_centres()
    visible = side.find_pixels(start, extent)
    if upsampling == "nearest":
        # A corner on a cell's edge belongs to the cell that begins there, despite rounding.
        positions = np.floor((centres[visible] - side.scale / 2 - start) * (cells / extent) + 1e-9)
    else:
        # If a pixel's centre is a cell's centre, rounding must not mix in the next cell.
        positions = (centres[visible] - start) * (cells / extent) - 0.5
        positions = np.where(abs(positions - positions.round()) < 1e-9, positions.round(), positions)
    positions = positions.clip(0, cells - 1)
    before = np.floor(positions).astype(np.intp)
    return visible, before, positions - before


def _require_grid(grid: Any) -> np.ndarray:
    try:
        cells = np.asarray(grid, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("no grid of attention; expected rows of numbers, all of one length") from None
    if cells.ndim != 2 or not cells.size:
        raise ValueError(f"a grid of shape {cells.shape}; expected (height, width)")
    if not np.isfinite(cells).all():
        raise ValueError("a grid with NaN or infinity; expected a finite number per cell")
    return cells


def _require_boxes(boxes: Any) -> np.ndarray:
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
