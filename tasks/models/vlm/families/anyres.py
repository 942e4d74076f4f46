"""LLaVA-NeXT and LLaVA-OneVision: a small overview of the image, followed by one grid of tiles without padding.

The processor scales the image to fit a canvas of tiles, keeps its aspect ratio and centres it. It drops rows and
columns of patches that contain only padding. A newline token follows each remaining row. OneVision reduces a grid of
more than `anyres_max_9` tiles to fewer cells.

The code assumes cells of equal size on the canvas. If patches do not fill a tile (SigLIP's of 14 pixels in 384), the
last pixels of each tile belong to no patch. The grid then starts half of these pixels earlier, so that the error of a
cell's position is at most 3 pixels.
"""

from __future__ import annotations

import math

from ....explain.geometry import Geometry
from ....explain.tiles import Tile, grid
from . import Family, Seen, compute_patch_window, make_tiling_error

NAME = "LLaVA-NeXT"
MUCH = 1.1  # OneVision keeps a grid up to this many times as long as the largest


def tiles(encoded: Seen) -> list[Tile]:
    """Compute the overview tile and the tile of the full grid, in this order."""
    from transformers.image_processing_utils import select_best_resolution

    vision = encoded.config.vision_config
    side = vision.image_size // vision.patch_size
    canvas = select_best_resolution(encoded.size, encoded.config.image_grid_pinpoints)
    n_rows, n_columns = (extent // vision.image_size * side for extent in canvas)
    above, before = _compute_padding(encoded.size, n_rows, n_columns)
    rows, columns = _compute_grid_size(encoded, side, n_rows - 2 * above, n_columns - 2 * before)
    if encoded.n_tokens != side * side + rows * (columns + 1):
        raise make_tiling_error(NAME, encoded)
    # The remaining part of the canvas, first in canvas pixels, then in image pixels.
    down, across = canvas[0] / n_rows, canvas[1] / n_columns
    margin = (vision.image_size - side * vision.patch_size) / 2
    crop = (
        above * down - margin,
        before * across - margin,
        (n_rows - 2 * above) * down,
        (n_columns - 2 * before) * across,
    )
    window = _compute_canvas_geometry(encoded.size, canvas).part(canvas, *crop).window
    overview = Tile(grid(side, side), compute_patch_window(Geometry.whole(encoded.size).window, vision), overview=True)
    return [overview, Tile(grid(rows, columns, side * side, gap=1), window)]


def _compute_padding(size: tuple[int, int], n_rows: int, n_columns: int) -> tuple[int, int]:
    """Compute the dropped padding: rows at the top and at the bottom, and columns at the left and at the right."""
    height, width = size
    if width / height > n_columns / n_rows:
        return (n_rows - int(round(height * n_columns / width, 7))) // 2, 0
    return 0, (n_columns - int(round(width * n_rows / height, 7))) // 2


def _compute_grid_size(encoded: Seen, side: int, rows: int, columns: int) -> tuple[int, int]:
    """Compute the rows and columns of the grid after OneVision's reduction."""
    limit = getattr(encoded.config, "vision_aspect_ratio", None)
    if limit is None:
        return rows, columns
    ratio = math.sqrt(rows * columns / (int(limit.removeprefix("anyres_max_")) * side**2))
    return (int(rows // ratio), int(columns // ratio)) if ratio > MUCH else (rows, columns)


def _compute_canvas_geometry(size: tuple[int, int], canvas: tuple[int, int]) -> Geometry:
    """Compute the geometry of the canvas with the image at its centre."""
    scale = min(canvas[0] / size[0], canvas[1] / size[1])
    resized = [min(math.ceil(extent * scale), limit) for extent, limit in zip(size, canvas, strict=True)]
    y_offset, x_offset = ((limit - extent) // 2 for limit, extent in zip(canvas, resized, strict=True))
    return Geometry.whole(size).part((resized[0], resized[1]), -y_offset, -x_offset, *canvas)


FAMILY = Family(
    NAME,
    "LLaVA-NeXT (1.6), LLaVA-OneVision",
    ("llava_next", "llava_onevision"),
    "an overview, and one grid of tiles without padding",
    tiles,
    decoded=True,
)
