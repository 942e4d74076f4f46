"""Llama 3.2 Vision: tiles of a canvas, with the image in the upper left corner, read by cross-attention layers.

No token of the prompt represents the image. The language model reads the states of all patches of all tiles, each tile
preceded by its class token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ....explain.geometry import Geometry
from ....explain.tiles import Tile, grid
from . import Family, Seen, make_tiling_error

NAME = "Llama 3.2 Vision"


def list_states(inputs: Mapping[str, Any], config: Any) -> np.ndarray:
    """List the states of the image's own tiles, which come first. The remaining states are masked.

    Args:
        inputs: Output of the processor for one prompt.
        config: Configuration of the model.

    Returns:
        Positions from 0, int64.
    """
    return np.arange(int(inputs["aspect_ratio_mask"].sum()) * _count_tile_states(config.vision_config))


def tiles(encoded: Seen) -> list[Tile]:
    """Compute the tiles of the canvas, in reading order. They extend beyond the image if the canvas does."""
    from transformers.models.mllama.image_processing_mllama import get_image_size_fit_to_canvas

    vision = encoded.config.vision_config
    ratio_ids = encoded.inputs["aspect_ratio_ids"].flatten().tolist()
    rows, columns = vision.supported_aspect_ratios[ratio_ids[0] - 1]
    if len(ratio_ids) != 1 or encoded.n_tokens != rows * columns * _count_tile_states(vision):
        raise make_tiling_error(NAME, encoded)
    side, tile = vision.image_size // vision.patch_size, vision.image_size
    resized = get_image_size_fit_to_canvas(*encoded.size, rows * tile, columns * tile, tile)
    geometry, canvas = Geometry.whole(encoded.size), (int(resized[0]), int(resized[1]))
    return [
        Tile(
            grid(side, side, (row * columns + column) * _count_tile_states(vision) + 1),
            geometry.part(canvas, row * tile, column * tile, tile, tile).window,
        )
        for row in range(rows)
        for column in range(columns)
    ]


def _count_tile_states(vision: Any) -> int:
    """Count the states of one tile: its patches and the class token."""
    return (vision.image_size // vision.patch_size) ** 2 + 1


FAMILY = Family(
    NAME, "Llama 3.2 Vision 11B, 90B", ("mllama",), "tiles, by cross-attention", tiles, positions=list_states
)
