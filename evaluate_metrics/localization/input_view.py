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

from ..arguments.arrays import read_boxes, read_grid, read_size, read_window
from ..arguments.kinds import BOXES, GRID, SIZE, WINDOW, one_of
from ..arguments.schema import check_arguments

RESIZED, SIDE = 256, 224
UPSAMPLINGS = ("bilinear", "nearest")
UPSAMPLING = one_of(UPSAMPLINGS)

Size = tuple[int, int]
Window = tuple[float, float, float, float]


@check_arguments(size=SIZE)
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


@check_arguments(boxes=BOXES, size=SIZE)
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
    for x, y, w, h in read_boxes(boxes).tolist():
        inside[rows.find_pixels(y, h), columns.find_pixels(x, w)] = True
    return inside


@check_arguments(grid=GRID, size=SIZE, grid_window=WINDOW, upsampling=UPSAMPLING)
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
    cells = read_grid(grid, "", "a grid of attention").astype(np.float64)
    if not np.isfinite(cells).all():
        raise ValueError("a grid with NaN or infinity; expected a finite number per cell")
    vertical, horizontal = _compute_sides(size)
    x, y, w, h = read_window(grid_window)
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
    size = read_size(size)
    sides = []
    for pixels in size:
        resized = max(pixels * RESIZED // max(size), 1)
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
