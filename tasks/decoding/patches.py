"""Which patches of a vision encoder show a region: the region goes through the model's own processor, as a picture.

So tiles, padding, crops and windows need no geometry of their own: a picture that is white in the region and black
elsewhere is cut up exactly as the image is, and between black and white lies how much of each patch the region covers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image

COVERED, LEAST = 0.5, 0.1  # of a patch, from which it counts as part of the region, or as the nearest to it
Encode = Callable[[list[list[Image.Image]]], Mapping[str, Any]]


def coverage(
    regions: Sequence[np.ndarray | None], shown: Sequence[Sequence[Image.Image]], encode: Encode, config: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """How much of each patch a region covers, from 0 to 1, in the order in which the vision encoder gets them.

    Args:
        regions: of each row, bool (H, W) in pixels of its first image; None: nothing.
        shown: of each row, its images as the processor gets them.
        encode: of the rows' images, what the processor makes for the model (`pixel_values`).
        config: the model's.

    Returns:
        float32 (units, patches), where units are images, or tiles of one; and which of them are real, bool (units,): a
        unit that fills up a batch is not. A model that gets all patches as one sequence (Qwen-VL) has one unit.
    """
    pictures = [
        [_picture(region if number == 0 else None, image) for number, image in enumerate(images)]
        for region, images in zip(regions, shown, strict=True)
    ]
    black, white, inside = (
        encode(of)["pixel_values"].float() for of in (_plain(shown, 0), _plain(shown, 255), pictures)
    )
    span = white - black
    share = torch.where(span.abs() > 1e-6, (inside - black) / torch.where(span == 0, 1, span), 0)
    if share.ndim == 2:  # patches in a row
        return share.mean(1)[None].clamp(0, 1), torch.tensor([True])
    units = share.reshape(-1, *share.shape[-3:]).mean(1, keepdim=True)
    size = config.vision_config.patch_size
    each = torch.nn.functional.avg_pool2d(units, size if isinstance(size, int) else tuple(size))
    return each.flatten(1).clamp(0, 1), white.reshape(-1, white.shape[-3:].numel()).any(1)


def covered(shares: torch.Tensor, threshold: float = COVERED) -> torch.Tensor:
    """Which patches of a unit belong to the region: bool, of the same shape.

    A unit of which the region covers no patch by so much has the patch that it covers most, if that is `LEAST`.
    """
    chosen = shares >= threshold
    most = (shares == shares.amax(-1, keepdim=True)) & (shares >= LEAST)
    return torch.where(chosen.any(-1, keepdim=True), chosen, most)


def _picture(region: np.ndarray | None, image: Image.Image) -> Image.Image:
    if region is None:
        return Image.new("RGB", image.size)
    mask = Image.fromarray(np.where(region, 255, 0).astype(np.uint8))
    return mask.resize(image.size, Image.Resampling.NEAREST).convert("RGB")


def _plain(shown: Sequence[Sequence[Image.Image]], level: int) -> list[list[Image.Image]]:
    return [[Image.new("RGB", image.size, (level,) * 3) for image in images] for images in shown]


def sort_by_window(shares: torch.Tensor, inputs: Mapping[str, Any], config: Any) -> torch.Tensor:
    """Values of Qwen-VL's patches, shape (1, patches), in the order in which its attention gets them.

    Qwen2.5-VL reorders them by windows; the others leave them as the processor has them.
    """
    vision = config.vision_config
    if not getattr(vision, "window_size", None):
        return shares
    from transformers.vision_utils import get_vision_window_index

    merge = vision.spatial_merge_size
    order, _ = get_vision_window_index(inputs["image_grid_thw"], merge, vision.window_size, vision.patch_size)
    return shares.reshape(-1, merge * merge)[order.to(shares.device)].reshape(1, -1)
