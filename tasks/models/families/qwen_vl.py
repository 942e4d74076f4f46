"""Qwen2-VL and those after it: one grid of the whole image, of as many rows and columns as the image is large."""

from __future__ import annotations

from ...explain.tiles import Tile, grid
from . import Family, Seen, not_as_known

NAME = "Qwen-VL"


def tiles(seen: Seen) -> list[Tile]:
    """One, of the whole image. The processor says the grid before the vision encoder merges neighbours."""
    images = seen.inputs["image_grid_thw"].tolist()
    merge = int(seen.config.vision_config.spatial_merge_size)
    rows, columns = images[0][1] // merge, images[0][2] // merge
    if len(images) != 1 or images[0][0] != 1 or seen.n_tokens != rows * columns:
        raise not_as_known(NAME, seen)
    height, width = seen.size
    return [Tile(grid(rows, columns), (0.0, 0.0, float(width), float(height)))]


FAMILY = Family(
    NAME,
    "Qwen2-VL, Qwen2.5-VL, Qwen3-VL, Lingshu",
    ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe"),
    "one grid, larger for larger images",
    tiles,
    decoded=True,
)
