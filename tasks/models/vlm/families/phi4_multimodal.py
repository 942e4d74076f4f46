"""Phi-4-multimodal: one grid of tiles without padding, a separator, and a small overview of the image.

The image occupies the upper left corner of a canvas of tiles. A newline token follows each row of both grids.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ....explain.geometry import Geometry
from ....explain.tiles import Tile, grid
from . import Family, Seen, make_tiling_error

NAME = "Phi-4-multimodal"


def find_positions(inputs: Mapping[str, Any], config: Any) -> np.ndarray:
    """Return the positions of the image's tokens. The token id belongs to the vision encoder's configuration.

    Args:
        inputs: Output of the processor for one prompt.
        config: Configuration of the model.

    Returns:
        Positions from 0, int64.
    """
    return np.flatnonzero((inputs["input_ids"][0] == config.vision_config.image_token_id).cpu().numpy())


def tiles(encoded: Seen) -> list[Tile]:
    """Compute the tile of the full grid and the overview, which shows the padded canvas at the size of one tile."""
    vision = encoded.config.vision_config
    side = -(-(vision.image_size // vision.patch_size) // 2)  # neighbours are merged
    canvas = encoded.inputs["image_sizes"].reshape(-1, 2).tolist()[0]
    n_rows, n_columns = (extent // vision.crop_size for extent in canvas)
    # The mask of every second patch, tile by tile; the first tile is the overview.
    mask = encoded.inputs["image_attention_mask"][0, 1 : n_rows * n_columns + 1, ::2, ::2].cpu().numpy()
    full_mask = mask.reshape(n_rows, n_columns, side, side).swapaxes(1, 2).reshape(n_rows * side, n_columns * side)
    rows, columns = int(full_mask[:, 0].sum()), int(full_mask[0].sum())
    if encoded.n_tokens != rows * (columns + 1) + 1 + side * (side + 1):
        raise make_tiling_error(NAME, encoded)
    height, width = encoded.size
    scale = min(canvas[0] / height, canvas[1] / width)
    canvas_geometry = Geometry(encoded.size, (0.0, 0.0, canvas[1] / scale, canvas[0] / scale))
    grid_geometry = canvas_geometry.part((n_rows * side, n_columns * side), 0, 0, rows, columns)
    overview = Tile(grid(side, side, rows * (columns + 1) + 1, gap=1), canvas_geometry.window, overview=True)
    return [Tile(grid(rows, columns, gap=1), grid_geometry.window), overview]


FAMILY = Family(
    NAME,
    "Phi-4-multimodal-instruct as transformers has it",
    ("phi4_multimodal",),
    "one grid of tiles without padding, and an overview",
    tiles,
    positions=find_positions,
)
