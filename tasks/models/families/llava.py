"""LLaVA-1.5: one square grid of patches of the whole image, which is cropped at its centre, or padded to a square."""

from __future__ import annotations

from ...explain.geometry import of_processor
from ...explain.tiles import Tile, grid
from . import Family, Seen, not_as_known, of_patches

NAME = "LLaVA-1.5"


def tiles(seen: Seen) -> list[Tile]:
    """One, of the part of the image that the processor keeps."""
    side = round(seen.n_tokens**0.5)
    if side * side != seen.n_tokens or len(seen.inputs["pixel_values"]) != 1:
        raise not_as_known(NAME, seen)
    window = of_processor(seen.processor.image_processor, seen.size).window
    return [Tile(grid(side, side), of_patches(window, seen.config.vision_config))]


FAMILY = Family(
    NAME, "LLaVA-1.5, LLaVA-Med, BakLLaVA, ViP-LLaVA", ("llava", "vipllava"), "one square grid", tiles, decoded=True
)
