"""Idefics 3 and SmolVLM: tiles in rows and columns, each behind a text that says its place, and then the whole image.

The image is squashed to whole tiles, so they cover all of it. An image that is not split is the whole image alone.
"""

from __future__ import annotations

import re

import numpy as np

from ...explain.tiles import Tile, grid
from . import Family, Seen, not_as_known

NAME = "Idefics 3"
_PLACE = re.compile(r"<row_(\d+)_col_(\d+)>")


def tiles(seen: Seen) -> list[Tile]:
    """Those that the prompt names, and the overview."""
    each = seen.processor.image_seq_len
    side = round(each**0.5)
    before = _texts_before(seen, each)
    if side * side != each or len(before) * each != seen.n_tokens:
        raise not_as_known(NAME, seen)
    places = [(int(row), int(column)) for row, column in _PLACE.findall("".join(before))]
    rows, columns = (max(place[axis] for place in places) for axis in (0, 1)) if places else (0, 0)
    if len(places) != rows * columns or len(before) != len(places) + 1 or _PLACE.search(before[-1]):
        raise not_as_known(NAME, seen)
    height, width = seen.size
    found = [
        Tile(
            grid(side, side, number * each),
            ((column - 1) * width / columns, (row - 1) * height / rows, width / columns, height / rows),
        )
        for number, (row, column) in enumerate(places)
    ]
    whole = grid(side, side, len(places) * each), (0.0, 0.0, float(width), float(height))
    return [*found, Tile(*whole, overview=bool(places))]


def _texts_before(seen: Seen, each: int) -> list[str]:
    """What the prompt says in front of each tile."""
    ids = seen.inputs["input_ids"][0].tolist()
    places = np.flatnonzero(np.array(ids) == seen.config.image_token_id)
    starts = places[::each]
    ends = [0, *(starts[:-1] + each)]
    return [seen.processor.tokenizer.decode(ids[end:start]) for end, start in zip(ends, starts, strict=True)]


FAMILY = Family(
    NAME, "Idefics3, SmolVLM, SmolVLM2", ("idefics3", "smolvlm"), "tiles, and an overview", tiles, decoded=True
)
