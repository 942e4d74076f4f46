"""Pixtral and Mistral Small 3: one grid of the whole image, in its shape, with a text token behind each row."""

from __future__ import annotations

from ...explain.geometry import Geometry
from ...explain.tiles import Tile, grid
from . import Family, Seen, not_as_known

NAME = "Pixtral"


def tiles(seen: Seen) -> list[Tile]:
    """One, of the whole image. The processor says the size of what it resized the image to."""
    sizes = seen.inputs["image_sizes"].tolist()
    cell = seen.config.vision_config.patch_size * getattr(seen.config, "spatial_merge_size", 1)
    rows, columns = (extent // cell for extent in sizes[0])
    if len(sizes) != 1 or seen.n_tokens != rows * columns:
        raise not_as_known(NAME, seen)
    return [Tile(grid(rows, columns), Geometry.whole(seen.size).window)]


FAMILY = Family(
    NAME,
    "Pixtral-12B, Mistral Small 3.1 and 3.2",
    ("pixtral", "mistral3"),  # the first is a LLaVA's vision encoder
    "one grid, larger for larger images",
    tiles,
)
