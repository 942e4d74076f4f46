"""PaliGemma: one square grid of the whole image; the prompt's tokens see one another, the answer's only what is before.

Its processor ends a prompt with a new line, and says with `token_type_ids` what is prompt (0) and what is answer (1).
"""

from __future__ import annotations

from ...explain.geometry import Geometry
from ...explain.tiles import Tile, grid
from . import Family, Seen, not_as_known

NAME = "PaliGemma"


def tiles(seen: Seen) -> list[Tile]:
    """One, of the whole image, which is squashed to a square."""
    side = round(seen.processor.image_seq_length**0.5)
    if side * side != seen.n_tokens:
        raise not_as_known(NAME, seen)
    return [Tile(grid(side, side), Geometry.whole(seen.size).window)]


FAMILY = Family(
    NAME, "PaliGemma, PaliGemma 2", ("paligemma",), "one square grid", tiles, answer_type=1, prompt_end="\n"
)
