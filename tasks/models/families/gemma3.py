"""Gemma 3 and MedGemma: one square grid of the whole image.

Its processor never crops (pan and scan) unless each call asks for it, and lm-eval's do not.
"""

from __future__ import annotations

from ...explain.tiles import Tile, grid
from . import Family, Seen, not_as_known

NAME = "Gemma 3"


def tiles(seen: Seen) -> list[Tile]:
    """One, of the whole image, which is squashed to a square."""
    side = round(seen.config.mm_tokens_per_image**0.5)
    if side * side != seen.n_tokens:
        raise not_as_known(NAME, seen)
    height, width = seen.size
    return [Tile(grid(side, side), (0.0, 0.0, float(width), float(height)))]


FAMILY = Family(NAME, "Gemma 3, MedGemma", ("gemma3",), "one square grid", tiles, decoded=True)
