"""InternVL 3 in transformers: tiles of one size, in rows and columns, followed by a small overview of the image.

The image is resized to the grid of tiles whose aspect ratio is closest, so the tiles cover it.
"""

from __future__ import annotations

from ....explain.tiles import Tile, grid
from . import Family, Seen, make_tiling_error

NAME = "InternVL"


def tiles(encoded: Seen) -> list[Tile]:
    """Compute the tiles of the processor, in reading order, and the overview. A single tile covers the full image."""
    tokens_per_tile = encoded.processor.image_seq_length
    side, n_tiles = round(tokens_per_tile**0.5), encoded.n_tokens // tokens_per_tile
    rows, columns = _compute_arrangement(encoded) if n_tiles > 1 else (1, 1)
    n_overviews = int(n_tiles == rows * columns + 1)
    if side * side != tokens_per_tile or encoded.n_tokens != tokens_per_tile * (rows * columns + n_overviews):
        raise make_tiling_error(NAME, encoded)
    height, width = encoded.size[0] / rows, encoded.size[1] / columns
    tiles_in_order = [
        Tile(
            grid(side, side, tokens_per_tile * (row * columns + column)), (column * width, row * height, width, height)
        )
        for row in range(rows)
        for column in range(columns)
    ]
    full_window = 0.0, 0.0, float(encoded.size[1]), float(encoded.size[0])
    return (
        tiles_in_order
        + [Tile(grid(side, side, tokens_per_tile * rows * columns), full_window, overview=True)] * n_overviews
    )


def _compute_arrangement(encoded: Seen) -> tuple[int, int]:
    """Compute rows and columns by the processor's own rule; its output contains only their product."""
    from transformers.models.got_ocr2.image_processing_got_ocr2 import get_optimal_tiled_canvas

    image_processor = encoded.processor.image_processor
    tile = image_processor.size["height"], image_processor.size["width"]
    columns, rows = get_optimal_tiled_canvas(
        encoded.size, tile, image_processor.min_patches, image_processor.max_patches
    )
    return rows, columns


FAMILY = Family(NAME, "InternVL3, InternVL3.5", ("internvl",), "tiles, and an overview", tiles, decoded=True)
