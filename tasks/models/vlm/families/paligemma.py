"""PaliGemma: one square grid over the full image. Prompt tokens attend to one another, answer tokens to earlier tokens.

The processor ends a prompt with a newline. `token_type_ids` marks the prompt (0) and the answer (1).
"""

from __future__ import annotations

from ....explain.geometry import Geometry
from ....explain.tiles import Tile, grid
from . import Family, Seen, make_tiling_error

NAME = "PaliGemma"


def tiles(encoded: Seen) -> list[Tile]:
    """Compute the single tile, which covers the full image after resizing to a square."""
    side = round(encoded.processor.image_seq_length**0.5)
    if side * side != encoded.n_tokens:
        raise make_tiling_error(NAME, encoded)
    return [Tile(grid(side, side), Geometry.whole(encoded.size).window)]


FAMILY = Family(
    NAME, "PaliGemma, PaliGemma 2", ("paligemma",), "one square grid", tiles, answer_type=1, prompt_end="\n"
)
