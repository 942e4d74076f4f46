"""Places of an image's tokens: grids of equal cells on parts of the image, and their combined values.

A model with one grid of patches has one tile. A model that splits images has a tile for each part, and often an
overview, a tile of the full image at low resolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

Window = tuple[float, float, float, float]  # x, y, width, height in pixels
CHANNELS = ("tiles", "overview")


class Tile(NamedTuple):
    """A grid of an image's tokens and its place.

    Attributes:
        tokens: int64 (h, w), index of each cell's token among the image's tokens.
        window: Part of the image that the grid covers, in pixels of the processor's input; it may extend into padding.
        overview: Whether the tile shows the full image in addition to tiles of its parts.
    """

    tokens: np.ndarray
    window: Window
    overview: bool = False


def grid(height: int, width: int, first_token: int = 0, gap: int = 0) -> np.ndarray:
    """Number tokens in reading order.

    Args:
        height: Rows of the grid.
        width: Columns of the grid.
        first_token: Index of the first token.
        gap: Number of tokens without place after each row.

    Returns:
        int64 (height, width).
    """
    return first_token + np.arange(height)[:, None] * (width + gap) + np.arange(width)


def select_channel(tiles: Sequence[Tile], channel: str) -> list[Tile]:
    """Select the tiles without the overview, or the overview. An image with one tile has this tile in both channels.

    Args:
        tiles: The tiles.
        channel: One of `CHANNELS`.

    Returns:
        The selected tiles, in their order.
    """
    selected = [tile for tile in tiles if tile.overview == (channel == "overview")]
    return selected or list(tiles)


def bounds(tiles: Sequence[Tile]) -> Window:
    """Compute the window around all tiles.

    Args:
        tiles: The tiles.

    Returns:
        (x, y, width, height) in pixels of the frame.
    """
    windows = np.array([tile.window for tile in tiles], dtype=np.float64)
    start, end = windows[:, :2].min(axis=0), (windows[:, :2] + windows[:, 2:]).max(axis=0)
    x, y, width, height = (float(number) for number in (*start, *(end - start)))
    return x, y, width, height


def compose(values: np.ndarray, tiles: Sequence[Tile]) -> np.ndarray:
    """Combine the values of tiles in one grid over their `bounds`.

    Values are averaged by area where tiles overlap or cells differ in size.

    Args:
        values: n values of each image token (n, tokens).
        tiles: At least one tile.

    Returns:
        float32 (n, h, w), with cells of the smallest size; 0 outside of all tiles. Tiles that fit together keep their
        values.
    """
    if len(tiles) == 1:
        return values[:, tiles[0].tokens].astype(np.float32)
    windows = np.array([tile.window for tile in tiles], dtype=np.float64)
    cells = np.array([tile.tokens.shape for tile in tiles])
    smallest = (windows[:, 2:] / cells[:, ::-1]).min(axis=0)
    x_min, y_min, width, height = bounds(tiles)
    columns = np.linspace(x_min, x_min + width, 1 + round(width / smallest[0]))
    rows = np.linspace(y_min, y_min + height, 1 + round(height / smallest[1]))
    weighted_sum, covered_area = (
        np.zeros((len(values), len(rows) - 1, len(columns) - 1)),
        np.zeros((len(rows) - 1, len(columns) - 1)),
    )
    for (x, y, w, h), (n_rows, n_columns), tile in zip(windows, cells, tiles, strict=True):
        down = _compute_overlaps(rows, np.linspace(y, y + h, n_rows + 1))
        across = _compute_overlaps(columns, np.linspace(x, x + w, n_columns + 1))
        weighted_sum += down @ values[:, tile.tokens] @ across.T
        covered_area += np.outer(down.sum(axis=1), across.sum(axis=1))
    is_covered = covered_area > 1e-9 * covered_area.max()  # excludes overlaps due to rounding
    return np.divide(weighted_sum, covered_area, out=np.zeros_like(weighted_sum), where=is_covered).astype(np.float32)


def shares(region: np.ndarray, size: tuple[int, int], tile: Tile) -> np.ndarray:
    """Compute the share of each cell of a tile that a region covers.

    Args:
        region: bool (H, W), of the full image.
        size: (height, width) of the image that has the tile's window.
        tile: The tile.

    Returns:
        float64, of the shape of the tile's tokens.
    """
    x, y, width, height = tile.window
    n_rows, n_columns = tile.tokens.shape
    down, across = (
        _compute_overlaps(np.linspace(0, extent, n + 1), np.linspace(start, start + length, cells + 1))
        for extent, n, start, length, cells in (
            (size[0], region.shape[0], y, height, n_rows), (size[1], region.shape[1], x, width, n_columns),
        )
    )  # fmt: skip
    return down.T @ region @ across / (height / n_rows * width / n_columns)


def _compute_overlaps(left_edges: np.ndarray, right_edges: np.ndarray) -> np.ndarray:
    """Compute the overlap of intervals: (n, m), for n + 1 and m + 1 edges."""
    start = np.maximum(left_edges[:-1, None], right_edges[None, :-1])
    return (np.minimum(left_edges[1:, None], right_edges[None, 1:]) - start).clip(0)
