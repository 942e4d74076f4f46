"""Idefics 3 and SmolVLM: tiles in rows and columns, then an overview. A text before each tile names its position.

The image is resized to a multiple of the tile size, so the tiles cover it. An image that is not split has one tile.
"""

from __future__ import annotations

import re

import numpy as np

from ....explain.tiles import Tile, grid
from . import Family, Seen, make_tiling_error

NAME = "Idefics 3"
_POSITION = re.compile(r"<row_(\d+)_col_(\d+)>")


def tiles(encoded: Seen) -> list[Tile]:
    """Compute the tiles that the prompt names, and the overview."""
    tokens_per_tile = encoded.processor.image_seq_len
    side = round(tokens_per_tile**0.5)
    labels = _decode_tile_labels(encoded, tokens_per_tile)
    if side * side != tokens_per_tile or len(labels) * tokens_per_tile != encoded.n_tokens:
        raise make_tiling_error(NAME, encoded)
    positions = [(int(row), int(column)) for row, column in _POSITION.findall("".join(labels))]
    rows, columns = (max(position[axis] for position in positions) for axis in (0, 1)) if positions else (0, 0)
    if len(positions) != rows * columns or len(labels) != len(positions) + 1 or _POSITION.search(labels[-1]):
        raise make_tiling_error(NAME, encoded)
    height, width = encoded.size
    tiles_in_order = [
        Tile(
            grid(side, side, number * tokens_per_tile),
            ((column - 1) * width / columns, (row - 1) * height / rows, width / columns, height / rows),
        )
        for number, (row, column) in enumerate(positions)
    ]
    overview = grid(side, side, len(positions) * tokens_per_tile), (0.0, 0.0, float(width), float(height))
    return [*tiles_in_order, Tile(*overview, overview=bool(positions))]


def _decode_tile_labels(encoded: Seen, tokens_per_tile: int) -> list[str]:
    """Decode the text before each tile."""
    ids = encoded.inputs["input_ids"][0].tolist()
    image_positions = np.flatnonzero(np.array(ids) == encoded.config.image_token_id)
    starts = image_positions[::tokens_per_tile]
    ends = [0, *(starts[:-1] + tokens_per_tile)]
    return [encoded.processor.tokenizer.decode(ids[end:start]) for end, start in zip(ends, starts, strict=True)]


FAMILY = Family(
    NAME, "Idefics3, SmolVLM, SmolVLM2", ("idefics3", "smolvlm"), "tiles, and an overview", tiles, decoded=True
)
