"""Composition of tiles: a picture cut into tiles is restored, overlaps are averaged, and gaps stay empty."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.tasks.explain.tiles import Tile, bounds, compose, grid, select_channel

SIDES = st.tuples(st.integers(1, 4), st.integers(1, 4))


@given(SIDES, SIDES, st.floats(0.5, 40), st.floats(0.5, 40), st.randoms())
def test_tiles_of_equal_cells_are_the_picture_again(n_tiles, shape, height, width, random):
    """Tiles may come in any order."""
    (rows, columns), (h, w) = n_tiles, shape
    picture = np.random.default_rng(0).random((2, rows * h, columns * w)).astype(np.float32)
    numbers = np.arange(picture[0].size).reshape(picture.shape[1:])
    places = list(np.ndindex(rows, columns))
    random.shuffle(places)
    tiles, order = [], []
    for row, column in places:
        cut = np.s_[row * h : (row + 1) * h, column * w : (column + 1) * w]
        tiles.append(Tile(grid(h, w, len(order)), (column * width, row * height, width, height)))
        order += numbers[cut].ravel().tolist()
    composed = compose(picture.reshape(2, -1)[:, order], tiles)
    np.testing.assert_allclose(composed, picture, rtol=1e-5)
    assert bounds(tiles) == pytest.approx((0, 0, columns * width, rows * height))


@given(st.integers(1, 5), st.integers(1, 5), st.floats(1, 9), st.floats(1, 9), st.floats(-5, 9))
def test_cells_that_do_not_fit_are_averaged_by_area(n, m, width_1, width_2, start):
    """One dimension suffices: each cell is the mean of its stretches' values."""
    values = np.random.default_rng(n * m).random(n + m)
    tiles = [Tile(grid(1, n), (0, 0, width_1, 1)), Tile(grid(1, m, n), (start, 0, width_2, 1))]
    x, _, width, _ = bounds(tiles)
    composed = compose(values[None], tiles)[0, 0]

    def list_covering(at: float) -> list[float]:
        values_at = []
        for tile in tiles:
            left_edge, _, extent, _ = tile.window
            cell = int((at - left_edge) / extent * tile.tokens.shape[1])
            if left_edge <= at < left_edge + extent and cell < tile.tokens.shape[1]:
                values_at.append(values[tile.tokens[0, cell]])
        return values_at

    edges = np.linspace(x, x + width, len(composed) + 1)
    steps = sorted({*edges, *np.linspace(0, width_1, n + 1), *np.linspace(start, start + width_2, m + 1)})
    for cell, (left_edge, right_edge) in enumerate(itertools.pairwise(edges)):
        inside = [(a, b) for a, b in itertools.pairwise(steps) if a >= left_edge - 1e-12 and b <= right_edge + 1e-12]
        total = sum((b - a) * sum(list_covering((a + b) / 2)) for a, b in inside)
        area = sum((b - a) * len(list_covering((a + b) / 2)) for a, b in inside)
        if area > 1e-6:
            assert composed[cell] == pytest.approx(total / area, rel=1e-3, abs=1e-5)


def test_a_gap_between_tiles_is_nothing_and_separators_have_no_place():
    tiles = [Tile(grid(1, 2, gap=1), (0, 0, 2, 1)), Tile(grid(1, 2, 3), (3, 0, 2, 1))]
    values = np.array([[1, 2, 99, 3, 4]])
    assert compose(values, tiles).tolist() == [[[1, 2, 0, 3, 4]]]
    assert grid(2, 2, first_token=1, gap=1).tolist() == [[1, 2], [4, 5]]


def test_channels():
    tile, overview = Tile(grid(1, 1), (0, 0, 4, 4)), Tile(grid(1, 1, 1), (0, 0, 8, 8), overview=True)
    assert select_channel([overview, tile], "tiles") == [tile]
    assert select_channel([overview, tile], "overview") == [overview]
    assert select_channel([tile], "overview") == select_channel([tile], "tiles") == [tile]
