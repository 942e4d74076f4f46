"""Gemma 3 and MedGemma: one square grid over the full image.

The processor crops (pan and scan) only on request in each call, and lm-eval does not request it.
"""

from __future__ import annotations

from ....explain.tiles import Tile, grid
from . import Family, Seen, make_tiling_error

NAME = "Gemma 3"


def tiles(encoded: Seen) -> list[Tile]:
    """Compute the single tile, which covers the full image after resizing to a square."""
    side = round(encoded.config.mm_tokens_per_image**0.5)
    if side * side != encoded.n_tokens:
        raise make_tiling_error(NAME, encoded)
    height, width = encoded.size
    return [Tile(grid(side, side), (0.0, 0.0, float(width), float(height)))]


FAMILY = Family(NAME, "Gemma 3, MedGemma", ("gemma3",), "one square grid", tiles, decoded=True)
