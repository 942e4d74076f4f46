"""Qwen2-VL and later versions: one grid over the full image, whose rows and columns follow the size of the image."""

from __future__ import annotations

from ....explain.tiles import Tile, grid
from . import Family, Seen, make_tiling_error

NAME = "Qwen-VL"


def tiles(encoded: Seen) -> list[Tile]:
    """Compute the single tile. The processor reports the grid before patches are merged."""
    images = encoded.inputs["image_grid_thw"].tolist()
    merge = int(encoded.config.vision_config.spatial_merge_size)
    rows, columns = images[0][1] // merge, images[0][2] // merge
    if len(images) != 1 or images[0][0] != 1 or encoded.n_tokens != rows * columns:
        raise make_tiling_error(NAME, encoded)
    height, width = encoded.size
    return [Tile(grid(rows, columns), (0.0, 0.0, float(width), float(height)))]


FAMILY = Family(
    NAME,
    "Qwen2-VL, Qwen2.5-VL, Qwen3-VL, Lingshu",
    ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe"),
    "one grid, larger for larger images",
    tiles,
    decoded=True,
)
