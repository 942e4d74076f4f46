"""Phi-4-multimodal: one grid of tiles without their padding, a separator, and then the whole image, made small.

The image lies in the upper left corner of a canvas of tiles. Behind each row of both grids stands a token for a new
line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...explain.geometry import Geometry
from ...explain.tiles import Tile, grid
from . import Family, Seen, not_as_known

NAME = "Phi-4-multimodal"


def positions(inputs: Mapping[str, Any], config: Any) -> np.ndarray:
    """As of other families; the token's id stands with the vision encoder."""
    return np.flatnonzero((inputs["input_ids"][0] == config.vision_config.image_token_id).cpu().numpy())


def tiles(seen: Seen) -> list[Tile]:
    """The grid of all tiles, and the overview, which shows the canvas with its padding, squashed to a tile."""
    vision = seen.config.vision_config
    side = -(-(vision.image_size // vision.patch_size) // 2)  # neighbours are merged
    canvas = seen.inputs["image_sizes"].reshape(-1, 2).tolist()[0]
    n_rows, n_columns = (extent // vision.crop_size for extent in canvas)
    # Every second patch's mask, tile by tile; the first is the overview's.
    mask = seen.inputs["image_attention_mask"][0, 1 : n_rows * n_columns + 1, ::2, ::2].cpu().numpy()
    whole = mask.reshape(n_rows, n_columns, side, side).swapaxes(1, 2).reshape(n_rows * side, n_columns * side)
    rows, columns = int(whole[:, 0].sum()), int(whole[0].sum())
    if seen.n_tokens != rows * (columns + 1) + 1 + side * (side + 1):
        raise not_as_known(NAME, seen)
    height, width = seen.size
    scale = min(canvas[0] / height, canvas[1] / width)
    on_canvas = Geometry(seen.size, (0.0, 0.0, canvas[1] / scale, canvas[0] / scale))
    shown = on_canvas.part((n_rows * side, n_columns * side), 0, 0, rows, columns)
    overview = Tile(grid(side, side, rows * (columns + 1) + 1, gap=1), on_canvas.window, overview=True)
    return [Tile(grid(rows, columns, gap=1), shown.window), overview]


FAMILY = Family(
    NAME,
    "Phi-4-multimodal-instruct as transformers has it",
    ("phi4_multimodal",),
    "one grid of tiles without padding, and an overview",
    tiles,
    positions=positions,
)
