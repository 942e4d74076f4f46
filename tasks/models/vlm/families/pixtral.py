"""Pixtral and Mistral Small 3: one grid over the full image, with its aspect ratio and a text token after each row."""

from __future__ import annotations

from ....explain.geometry import Geometry
from ....explain.tiles import Tile, grid
from . import Family, Seen, make_tiling_error

NAME = "Pixtral"


def tiles(encoded: Seen) -> list[Tile]:
    """Compute the single tile, which covers the full image. The processor reports the size after resizing."""
    sizes = encoded.inputs["image_sizes"].tolist()
    cell = encoded.config.vision_config.patch_size * getattr(encoded.config, "spatial_merge_size", 1)
    rows, columns = (extent // cell for extent in sizes[0])
    if len(sizes) != 1 or encoded.n_tokens != rows * columns:
        raise make_tiling_error(NAME, encoded)
    return [Tile(grid(rows, columns), Geometry.whole(encoded.size).window)]


FAMILY = Family(
    NAME,
    "Pixtral-12B, Mistral Small 3.1 and 3.2",
    ("pixtral", "mistral3"),  # the first is the vision encoder of a LLaVA
    "one grid, larger for larger images",
    tiles,
)
