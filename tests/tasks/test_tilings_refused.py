"""Images whose number of tokens does not fit the tiling of their family: no heatmap is made of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from medfaith.loaders.errors import MedfaithError
from medfaith.tasks.explain.tiles import Tile, grid
from medfaith.tasks.models.vlm.families import Family, Seen, compute_tiles, llava, mllama, paligemma, qwen_vl

MLLAMA = SimpleNamespace(supported_aspect_ratios=[[1, 1], [1, 2]], image_size=28, patch_size=14)
IMAGE = torch.zeros(1, 3, 28, 28)


def make_family(*places: int) -> Family:
    """Make a family whose tile names these tokens."""
    tokens = grid(1, len(places)) * 0 + list(places)
    return cast(Any, SimpleNamespace)(name="Toy", tiles=lambda encoded: [Tile(tokens, (0.0, 0.0, 8.0, 6.0))])


@pytest.mark.parametrize(
    ("family", "n_tokens", "inputs"),
    [
        (llava.FAMILY, 5, {"pixel_values": IMAGE}),
        (llava.FAMILY, 4, {"pixel_values": IMAGE.repeat(2, 1, 1, 1)}),
        (mllama.FAMILY, 6, {"aspect_ratio_ids": torch.tensor([[1]])}),
        (mllama.FAMILY, 5, {"aspect_ratio_ids": torch.tensor([[2]])}),
        (paligemma.FAMILY, 5, {}),
        (qwen_vl.FAMILY, 5, {"image_grid_thw": torch.tensor([[1, 4, 4]])}),
        (qwen_vl.FAMILY, 4, {"image_grid_thw": torch.tensor([[2, 4, 4]])}),
        (make_family(0, 5), 5, {}),
        (make_family(-1, 0), 5, {}),
        (make_family(1, 1), 5, {}),
        (make_family(), 5, {}),
    ],
)
def test_tokens_in_another_arrangement_are_refused(family: Family, n_tokens: int, inputs: dict[str, Any]):
    vision = SimpleNamespace(spatial_merge_size=2, **vars(MLLAMA))
    processor = SimpleNamespace(image_seq_length=4)
    encoded = Seen(n_tokens, (6, 8), inputs, SimpleNamespace(vision_config=vision), processor)
    message = f"^{family.name}: an image of 8 x 6 pixels has {n_tokens} tokens, in another(.|\n)*medfaith-hf-vlm"
    with pytest.raises(MedfaithError, match=message):
        compute_tiles(family, encoded)
