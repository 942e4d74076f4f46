"""InternVL 3 as transformers has it: tiles of one size, in rows and columns, and then the whole image, made small.

The image is squashed to the grid of tiles that is nearest to its shape, so the tiles cover all of it.
"""

from __future__ import annotations

from ...explain.tiles import Tile, grid
from . import Family, Seen, not_as_known

NAME = "InternVL"


def tiles(seen: Seen) -> list[Tile]:
    """Those that the processor cuts, in reading order, and the overview; one alone is the whole image."""
    each = seen.processor.image_seq_length
    side, n_tiles = round(each**0.5), seen.n_tokens // each
    rows, columns = _arrangement(seen) if n_tiles > 1 else (1, 1)
    n_overviews = int(n_tiles == rows * columns + 1)
    if side * side != each or seen.n_tokens != each * (rows * columns + n_overviews):
        raise not_as_known(NAME, seen)
    height, width = seen.size[0] / rows, seen.size[1] / columns
    found = [
        Tile(grid(side, side, each * (row * columns + column)), (column * width, row * height, width, height))
        for row in range(rows)
        for column in range(columns)
    ]
    whole = 0.0, 0.0, float(seen.size[1]), float(seen.size[0])
    return found + [Tile(grid(side, side, each * rows * columns), whole, overview=True)] * n_overviews


def _arrangement(seen: Seen) -> tuple[int, int]:
    """Rows and columns, by the processor's own rule; its outputs have only their product."""
    from transformers.models.got_ocr2.image_processing_got_ocr2 import get_optimal_tiled_canvas

    images = seen.processor.image_processor
    tile = images.size["height"], images.size["width"]
    columns, rows = get_optimal_tiled_canvas(seen.size, tile, images.min_patches, images.max_patches)
    return rows, columns


FAMILY = Family(NAME, "InternVL3, InternVL3.5", ("internvl",), "tiles, and an overview", tiles, decoded=True)
