"""Where an image's tokens lie on it: grids of equal cells on parts of the image, and their values put together.

A model with one grid of patches has one tile. A model that cuts an image up has a tile for each piece, and often one
more of the whole image made small, the overview.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

Window = tuple[float, float, float, float]  # x, y, width, height in pixels
CHANNELS = ("tiles", "overview")


class Tile(NamedTuple):
    """A grid of an image's tokens and its place.

    tokens: int64 (h, w), which of the image's tokens is each cell, from 0. window: the part of the image that the grid
    covers, in pixels of the image that the processor got; it may reach beyond it into padding. overview: whether it is
    the whole image beside tiles of it.
    """

    tokens: np.ndarray
    window: Window
    overview: bool = False


def grid(height: int, width: int, first: int = 0, gap: int = 0) -> np.ndarray:
    """Tokens in reading order from `first`, with `gap` tokens of no place behind each row: int64 (height, width)."""
    return first + np.arange(height)[:, None] * (width + gap) + np.arange(width)


def select_channel(tiles: Sequence[Tile], channel: str) -> list[Tile]:
    """The tiles without the overview, or the overview; an image that was not cut up is both."""
    chosen = [tile for tile in tiles if tile.overview == (channel == "overview")]
    return chosen or list(tiles)


def bounds(tiles: Sequence[Tile]) -> Window:
    """The window around all tiles."""
    windows = np.array([tile.window for tile in tiles], dtype=np.float64)
    start, end = windows[:, :2].min(axis=0), (windows[:, :2] + windows[:, 2:]).max(axis=0)
    x, y, width, height = (float(number) for number in (*start, *(end - start)))
    return x, y, width, height


def compose(values: np.ndarray, tiles: Sequence[Tile]) -> np.ndarray:
    """One grid over the `bounds` of all tiles, averaged by area where tiles overlap or cells differ in size.

    Args:
        values: (n, tokens), n values of each of the image's tokens.
        tiles: at least one.

    Returns:
        float32 (n, h, w), in cells as small as the smallest; 0 where no tile lies. Tiles that fit together keep their
        values.
    """
    if len(tiles) == 1:
        return values[:, tiles[0].tokens].astype(np.float32)
    windows = np.array([tile.window for tile in tiles], dtype=np.float64)
    cells = np.array([tile.tokens.shape for tile in tiles])
    smallest = (windows[:, 2:] / cells[:, ::-1]).min(axis=0)
    left, top, width, height = bounds(tiles)
    columns = np.linspace(left, left + width, 1 + round(width / smallest[0]))
    rows = np.linspace(top, top + height, 1 + round(height / smallest[1]))
    total, area = np.zeros((len(values), len(rows) - 1, len(columns) - 1)), np.zeros((len(rows) - 1, len(columns) - 1))
    for (x, y, w, h), (n_rows, n_columns), tile in zip(windows, cells, tiles, strict=True):
        down = _shared(rows, np.linspace(y, y + h, n_rows + 1))
        across = _shared(columns, np.linspace(x, x + w, n_columns + 1))
        total += down @ values[:, tile.tokens] @ across.T
        area += np.outer(down.sum(axis=1), across.sum(axis=1))
    seen = area > 1e-9 * area.max()  # not what two edges share by rounding
    return np.divide(total, area, out=np.zeros_like(total), where=seen).astype(np.float32)


def shares(region: np.ndarray, size: tuple[int, int], tile: Tile) -> np.ndarray:
    """How much of each cell of a tile a region covers: float64, as the tile's tokens.

    region: bool (H, W), of the whole image; size: (height, width) of the image in which the tile's window is.
    """
    x, y, width, height = tile.window
    n_rows, n_columns = tile.tokens.shape
    down, across = (
        _shared(np.linspace(0, extent, n + 1), np.linspace(start, start + length, cells + 1))
        for extent, n, start, length, cells in (
            (size[0], region.shape[0], y, height, n_rows), (size[1], region.shape[1], x, width, n_columns),
        )
    )  # fmt: skip
    return down.T @ region @ across / (height / n_rows * width / n_columns)


def _shared(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """The length that intervals share: (n, m), between n + 1 edges of ours and m + 1 of theirs."""
    start = np.maximum(ours[:-1, None], theirs[None, :-1])
    return (np.minimum(ours[1:, None], theirs[None, 1:]) - start).clip(0)
