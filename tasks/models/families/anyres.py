"""LLaVA-NeXT and LLaVA-OneVision: the whole image, made small, and then one grid of tiles without their padding.

The image is made as large as fits on a canvas of tiles, in its shape, and lies in the middle. The rows or columns of
patches that show padding alone are dropped, and behind each row that is left stands a token for a new line. OneVision
puts a grid of more than `anyres_max_9` tiles on fewer cells.

Cells are taken to be equal on the canvas. Where patches do not fill a tile (SigLIP's of 14 pixels in 384), the last
pixels of each tile are in no patch. The grid begins half of these earlier, so that a cell lies at most 3 pixels off.
"""

from __future__ import annotations

import math

from ...explain.geometry import Geometry
from ...explain.tiles import Tile, grid
from . import Family, Seen, not_as_known, of_patches

NAME = "LLaVA-NeXT"
MUCH = 1.1  # OneVision keeps a grid up to so many times as long as the largest


def tiles(seen: Seen) -> list[Tile]:
    """The overview, which comes first, and the grid of all tiles."""
    from transformers.image_processing_utils import select_best_resolution

    vision = seen.config.vision_config
    side = vision.image_size // vision.patch_size
    canvas = select_best_resolution(seen.size, seen.config.image_grid_pinpoints)
    n_rows, n_columns = (extent // vision.image_size * side for extent in canvas)
    above, before = _padding(seen.size, n_rows, n_columns)
    rows, columns = _shrunk(seen, side, n_rows - 2 * above, n_columns - 2 * before)
    if seen.n_tokens != side * side + rows * (columns + 1):
        raise not_as_known(NAME, seen)
    # What is left of the canvas, in its pixels, and then in those of the image.
    down, across = canvas[0] / n_rows, canvas[1] / n_columns
    left = (vision.image_size - side * vision.patch_size) / 2
    place = above * down - left, before * across - left, (n_rows - 2 * above) * down, (n_columns - 2 * before) * across
    window = _on_canvas(seen.size, canvas).part(canvas, *place).window
    overview = Tile(grid(side, side), of_patches(Geometry.whole(seen.size).window, vision), overview=True)
    return [overview, Tile(grid(rows, columns, side * side, gap=1), window)]


def _padding(size: tuple[int, int], n_rows: int, n_columns: int) -> tuple[int, int]:
    """How many rows of padding are dropped above and below, and how many columns before and behind."""
    height, width = size
    if width / height > n_columns / n_rows:
        return (n_rows - int(round(height * n_columns / width, 7))) // 2, 0
    return 0, (n_columns - int(round(width * n_rows / height, 7))) // 2


def _shrunk(seen: Seen, side: int, rows: int, columns: int) -> tuple[int, int]:
    """Rows and columns that a grid of tiles becomes."""
    limit = getattr(seen.config, "vision_aspect_ratio", None)
    if limit is None:
        return rows, columns
    ratio = math.sqrt(rows * columns / (int(limit.removeprefix("anyres_max_")) * side**2))
    return (int(rows // ratio), int(columns // ratio)) if ratio > MUCH else (rows, columns)


def _on_canvas(size: tuple[int, int], canvas: tuple[int, int]) -> Geometry:
    """The whole canvas, with the image in its middle."""
    scale = min(canvas[0] / size[0], canvas[1] / size[1])
    resized = [min(math.ceil(extent * scale), limit) for extent, limit in zip(size, canvas, strict=True)]
    top, left = ((limit - extent) // 2 for limit, extent in zip(canvas, resized, strict=True))
    return Geometry.whole(size).part((resized[0], resized[1]), -top, -left, *canvas)


FAMILY = Family(
    NAME,
    "LLaVA-NeXT (1.6), LLaVA-OneVision",
    ("llava_next", "llava_onevision"),
    "an overview, and one grid of tiles without padding",
    tiles,
    decoded=True,
)
