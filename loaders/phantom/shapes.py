"""Soft shapes on the unit square: every function returns coverage 0..1 as float32 (h, w); x runs right, y runs down.

Coordinates are x (1, w) and y (h, 1), or (h, w) where they are bent; numpy broadcasts them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

Point = tuple[float, float]


def around(rng: np.random.Generator) -> Callable[[float, float], float]:
    """Build a function of a value and a spread: the value, moved by at most the spread to either side.

    Args:
        rng: The generator.

    Returns:
        The function. Each call draws a new offset.
    """
    return lambda value, spread: value + spread * rng.uniform(-1, 1)


def grid(size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Compute x (1, w) and y (h, 1) of the pixel centres of an image.

    Args:
        size: Height and width.

    Returns:
        x and y as fractions of width and height.
    """
    height, width = size
    x, y = np.arange(width, dtype=np.float32)[None, :], np.arange(height, dtype=np.float32)[:, None]
    return (x + 0.5) / width, (y + 0.5) / height


def extent(mask: np.ndarray) -> tuple[slice, slice]:
    """Compute the rows and columns of the tightest box around a mask; empty slices for an empty mask.

    Args:
        mask: Shape (h, w).

    Returns:
        Slices of rows and of columns.
    """
    return _span(mask.any(axis=1)), _span(mask.any(axis=0))


def _span(flags: np.ndarray | np.bool) -> slice:
    """Return the slice from the first true flag to the last; an empty one if none is true."""
    indices = np.flatnonzero(flags)
    return slice(int(indices[0]), int(indices[-1]) + 1) if indices.size else slice(0, 0)


def crop(array: np.ndarray, window: tuple[slice, slice]) -> np.ndarray:
    """Return the part of an array in a window, for an array that broadcasts to the window's grid.

    Args:
        array: Shape (h, w), (1, w) or (h, 1).
        window: Slices of rows and of columns.

    Returns:
        A view of the part; an axis of length 1 stays.
    """
    rows, columns = (part if side > 1 else slice(None) for part, side in zip(window, array.shape, strict=True))
    return array[rows, columns]


def step(distance: np.ndarray, edge: float) -> np.ndarray:
    """Compute 1 where `distance` is well above 0, 0 well below, and a smooth rise from -2.5 to 2.5 times `edge`.

    Args:
        distance: Shape (h, w), at least 0 inside a shape.
        edge: Width of the rise.

    Returns:
        Coverage of the same shape, from 0 to 1.
    """
    t = distance / (5 * edge)
    t += 0.5  # in place from here on: drawings spend most of their time in this function
    np.minimum(np.maximum(t, 0, out=t), 1, out=t)  # takes half as long as np.clip where arrays are small
    rise = t * t
    t *= -2
    t += 3
    rise *= t
    return rise


def ellipse(
    x: np.ndarray,
    y: np.ndarray,
    centre: Point,
    axes: Point,
    *,
    tilt: float = 0.0,
    power: float = 2.0,
    edge: float = 0.03,
) -> np.ndarray:
    """Draw a filled ellipse.

    Args:
        x: Coordinates of the columns, which broadcast with `y` to (h, w).
        y: Coordinates of the rows.
        centre: The centre (x, y).
        axes: The half axes.
        tilt: The rotation in radians.
        power: 2 for an ellipse; a larger power makes it boxier.
        edge: Width of the rise at the edge.

    Returns:
        Coverage (h, w), from 0 to 1.
    """
    dx, dy = x - centre[0], y - centre[1]
    # The coverage is 0 from a radius of 1 + 2.5 edge / min(axes) on: powers, which take the time, are needed within.
    radius = 1.01 + 2.6 * edge / min(axes)
    reach = (math.hypot(*axes),) * 2 if tilt else axes
    window = _span((np.abs(dy) < radius * reach[1]).any(axis=1)), _span((np.abs(dx) < radius * reach[0]).any(axis=0))
    coverage = np.zeros(np.broadcast_shapes(dx.shape, dy.shape), dx.dtype)
    dx, dy = crop(dx, window), crop(dy, window)
    cos, sin = math.cos(tilt), math.sin(tilt)
    along, across = (dx * cos + dy * sin, dy * cos - dx * sin) if tilt else (dx, dy)
    total = np.abs(along / axes[0]) ** power + np.abs(across / axes[1]) ** power
    coverage[window] = step((1 - total ** (1 / power)) * min(axes), edge)
    return coverage


def band(distance: np.ndarray, half_width: float, edge: float) -> np.ndarray:
    """Draw a stripe where the absolute distance is below `half_width`.

    Args:
        distance: Shape (h, w), the signed distance from the middle line.
        half_width: Half of the width.
        edge: Width of the rise at the edges.

    Returns:
        Coverage (h, w), from 0 to 1.
    """
    return step(half_width - np.abs(distance), edge)


def bands(
    y: np.ndarray,
    curves: Sequence[np.ndarray],
    half_width: float,
    edge: float,
    *,
    strength: np.ndarray,
    lower: float = 0.0,
) -> np.ndarray:
    """Draw stripes along curves, computing only the rows that each can reach.

    Args:
        y: Coordinates of the rows (h, 1).
        curves: The middle line y(x) of each stripe, shape (1, w).
        half_width: Half of the width.
        edge: Width of the rise at the edges.
        strength: The coverage in the middle of a stripe, shape (1, w).
        lower: How far below their curves the stripes lie.

    Returns:
        Coverage (h, w), from 0 to the strength.
    """
    middles = np.concatenate(curves)
    heights, margin = middles[:, strength[0] > 0] + lower, half_width + 3 * edge
    starts = np.searchsorted(y[:, 0], heights.min(axis=1) - margin)
    stops = np.searchsorted(y[:, 0], heights.max(axis=1) + margin)
    length = int((stops - starts).max())
    starts = np.minimum(starts, len(y) - length)
    distances = y[starts[:, None] + np.arange(length)] - middles[:, None] - lower
    stripes = strength * band(distances, half_width, edge)
    coverage = np.zeros((len(y), middles.shape[1]), stripes.dtype)
    for start, stripe in zip(starts.tolist(), stripes, strict=True):
        rows = coverage[start : start + length]
        np.maximum(rows, stripe, out=rows)
    return coverage


def line(
    x: np.ndarray, y: np.ndarray, path: tuple[np.ndarray, np.ndarray], half_width: float, edge: float
) -> np.ndarray:
    """Draw a line through the points of a path, which are closer to each other than the line is wide.

    Args:
        x: Coordinates of the columns (1, w).
        y: Coordinates of the rows (h, 1).
        path: x (n,) and y (n,) of the points.
        half_width: Half of the width.
        edge: Width of the rise at the edges.

    Returns:
        Coverage (h, w), from 0 to 1.
    """
    margin = half_width + 3 * edge
    rows, columns = (
        _span((axis.ravel() > points.min() - margin) & (axis.ravel() < points.max() + margin))
        for axis, points in ((y, path[1]), (x, path[0]))
    )
    distances = np.hypot(x[:, columns, None] - path[0], y[rows, :, None] - path[1])
    coverage = np.zeros((len(y), x.shape[1]), distances.dtype)
    coverage[rows, columns] = band(np.min(distances, axis=-1), half_width, edge)
    return coverage


def between(values: np.ndarray, low: float, high: float, edge: float) -> np.ndarray:
    """Compute 1 where low < values < high, and 0 elsewhere.

    Args:
        values: Shape (h, w).
        low: Lower limit.
        high: Upper limit.
        edge: Width of the rise at the limits.

    Returns:
        Coverage (h, w), from 0 to 1.
    """
    return step(values - low, edge) * step(high - values, edge)


def haze(x: np.ndarray, y: np.ndarray, centre: Point, axes: Point) -> np.ndarray:
    """Draw a blob without an edge, a Gaussian.

    Args:
        x: Coordinates of the columns, which broadcast with `y` to (h, w).
        y: Coordinates of the rows.
        centre: The centre (x, y).
        axes: The standard deviations.

    Returns:
        Coverage (h, w), 1 at the centre.
    """
    return np.exp(-0.5 * (((x - centre[0]) / axes[0]) ** 2 + ((y - centre[1]) / axes[1]) ** 2))


def texture(rng: np.random.Generator, size: tuple[int, int], cells: int) -> np.ndarray:
    """Draw smooth random patches in -1..1 (h, w).

    Args:
        rng: The random numbers.
        size: (height, width).
        cells: The number of patches along each side.

    Returns:
        Float32 of shape (h, w).
    """
    height, width = size
    coarse = rng.uniform(-1, 1, (cells + 1, cells + 1)).astype(np.float32)
    rows, columns = np.linspace(0, cells, height, dtype=np.float32), np.linspace(0, cells, width, dtype=np.float32)
    row_cell, column_cell = np.minimum(rows.astype(int), cells - 1), np.minimum(columns.astype(int), cells - 1)
    v, u = (rows - row_cell.astype(np.float32))[:, None], (columns - column_cell.astype(np.float32))[None, :]
    v, u = v * v * (3 - 2 * v), u * u * (3 - 2 * u)
    upper = coarse[row_cell][:, column_cell] * (1 - u) + coarse[row_cell][:, column_cell + 1] * u
    lower = coarse[row_cell + 1][:, column_cell] * (1 - u) + coarse[row_cell + 1][:, column_cell + 1] * u
    return upper * (1 - v) + lower * v


def paint(canvas: np.ndarray, coverage: np.ndarray, value: float | np.ndarray) -> np.ndarray:
    """Paint a value on a canvas to the degree of its coverage; the arguments stay unchanged.

    Args:
        canvas: Shape (h, w).
        coverage: Shape (h, w), from 0 to 1.
        value: The value, or values (h, w).

    Returns:
        A new canvas (h, w).
    """
    return canvas + coverage * (value - canvas)
