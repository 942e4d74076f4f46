"""Llama 3.2 Vision: tiles of a canvas, the image in its upper left corner, seen through layers of cross-attention.

No token of the prompt stands for the image. What the language model sees of it are the states that its layers of
cross-attention read: those of every patch of every tile, each tile's class token in front.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...explain.geometry import Geometry
from ...explain.tiles import Tile, grid
from . import Family, Seen, not_as_known

NAME = "Llama 3.2 Vision"


def states(inputs: Mapping[str, Any], config: Any) -> np.ndarray:
    """Those of the image's own tiles, which come first; the others that are read are masked."""
    return np.arange(int(inputs["aspect_ratio_mask"].sum()) * _in_a_tile(config.vision_config))


def tiles(seen: Seen) -> list[Tile]:
    """Those of the canvas, in reading order; they reach beyond the image where the canvas does."""
    from transformers.models.mllama.image_processing_mllama import get_image_size_fit_to_canvas

    vision = seen.config.vision_config
    numbers = seen.inputs["aspect_ratio_ids"].flatten().tolist()
    rows, columns = vision.supported_aspect_ratios[numbers[0] - 1]
    if len(numbers) != 1 or seen.n_tokens != rows * columns * _in_a_tile(vision):
        raise not_as_known(NAME, seen)
    side, tile = vision.image_size // vision.patch_size, vision.image_size
    resized = get_image_size_fit_to_canvas(*seen.size, rows * tile, columns * tile, tile)
    whole, canvas = Geometry.whole(seen.size), (int(resized[0]), int(resized[1]))
    return [
        Tile(
            grid(side, side, (row * columns + column) * _in_a_tile(vision) + 1),
            whole.part(canvas, row * tile, column * tile, tile, tile).window,
        )
        for row in range(rows)
        for column in range(columns)
    ]


def _in_a_tile(vision: Any) -> int:
    return (vision.image_size // vision.patch_size) ** 2 + 1


FAMILY = Family(NAME, "Llama 3.2 Vision 11B, 90B", ("mllama",), "tiles, by cross-attention", tiles, positions=states)
