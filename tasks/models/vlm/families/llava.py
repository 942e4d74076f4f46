"""LLaVA-1.5: one square grid of patches over the image, which is cropped at the centre or padded to a square."""

from __future__ import annotations

from ....explain.geometry import compute_processor_geometry
from ....explain.tiles import Tile, grid
from . import Family, Seen, compute_patch_window, make_tiling_error

NAME = "LLaVA-1.5"


def tiles(encoded: Seen) -> list[Tile]:
    """Compute the single tile, which covers the part of the image that the processor keeps."""
    side = round(encoded.n_tokens**0.5)
    if side * side != encoded.n_tokens or len(encoded.inputs["pixel_values"]) != 1:
        raise make_tiling_error(NAME, encoded)
    window = compute_processor_geometry(encoded.processor.image_processor, encoded.size).window
    return [Tile(grid(side, side), compute_patch_window(window, encoded.config.vision_config))]


FAMILY = Family(
    NAME, "LLaVA-1.5, LLaVA-Med, BakLLaVA, ViP-LLaVA", ("llava", "vipllava"), "one square grid", tiles, decoded=True
)
