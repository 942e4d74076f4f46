"""Patches of a vision encoder that show a region: the model's own processor encodes the region as a picture.

A picture that is white in the region and black elsewhere is split exactly like the image. The level of each patch
between black and white is the share that the region covers. Tiles, padding, crops and windows need no separate
geometry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image

COVERED, LEAST = 0.5, 0.1  # minimum share of a patch in the region, or of the fallback patch
Encode = Callable[[list[list[Image.Image]]], Mapping[str, Any]]


def coverage(
    regions: Sequence[np.ndarray | None], shown_images: Sequence[Sequence[Image.Image]], encode: Encode, config: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the share of each patch that a region covers, in the vision encoder's order of patches.

    Args:
        regions: Region of each row, bool (H, W) in pixels of its first image, or None for no region.
        shown_images: Images of each row, as the processor receives them.
        encode: Function that encodes the rows' images for the model (`pixel_values`).
        config: Configuration of the model.

    Returns:
        Shares from 0 to 1, float32 (units, patches), and whether a unit is real, bool (units,). Units are images or
        tiles; units that pad a batch are not real. A model with one sequence of patches (Qwen-VL) has one unit.
    """
    pictures = [
        [_draw_region(region if number == 0 else None, image) for number, image in enumerate(images)]
        for region, images in zip(regions, shown_images, strict=True)
    ]
    black, white, region_values = (
        encode(rows)["pixel_values"].float()
        for rows in (_draw_uniform(shown_images, 0), _draw_uniform(shown_images, 255), pictures)
    )
    span = white - black
    share = torch.where(span.abs() > 1e-6, (region_values - black) / torch.where(span == 0, 1, span), 0)
    if share.ndim == 2:  # one sequence of patches
        return share.mean(1)[None].clamp(0, 1), torch.tensor([True])
    units = share.reshape(-1, *share.shape[-3:]).mean(1, keepdim=True)
    size = config.vision_config.patch_size
    patch_shares = torch.nn.functional.avg_pool2d(units, size if isinstance(size, int) else tuple(size))
    return patch_shares.flatten(1).clamp(0, 1), white.reshape(-1, white.shape[-3:].numel()).any(1)


def find_covered(shares: torch.Tensor, threshold: float = COVERED) -> torch.Tensor:
    """Find the patches that belong to the region.

    If the region covers no patch of a unit sufficiently, the patch with the largest share belongs to it, if that share
    is at least `LEAST`.

    Args:
        shares: Share of each patch, the last axis being the patches of a unit.
        threshold: Minimum share.

    Returns:
        bool, of the same shape.
    """
    is_covered = shares >= threshold
    is_fallback = (shares == shares.amax(-1, keepdim=True)) & (shares >= LEAST)
    return torch.where(is_covered.any(-1, keepdim=True), is_covered, is_fallback)


def _draw_region(region: np.ndarray | None, image: Image.Image) -> Image.Image:
    if region is None:
        return Image.new("RGB", image.size)
    mask = Image.fromarray(np.where(region, 255, 0).astype(np.uint8))
    return mask.resize(image.size, Image.Resampling.NEAREST).convert("RGB")


def _draw_uniform(image_rows: Sequence[Sequence[Image.Image]], level: int) -> list[list[Image.Image]]:
    return [[Image.new("RGB", image.size, (level,) * 3) for image in images] for images in image_rows]


def sort_by_window(shares: torch.Tensor, inputs: Mapping[str, Any], config: Any) -> torch.Tensor:
    """Sort values of Qwen-VL's patches by the order in which its attention receives them.

    Qwen2.5-VL orders patches by windows; the other models keep the processor's order.

    Args:
        shares: Values (1, patches).
        inputs: Inputs of the model.
        config: Configuration of the model.

    Returns:
        The values (1, patches) in the order of the attention.
    """
    vision = config.vision_config
    if not getattr(vision, "window_size", None):
        return shares
    from transformers.vision_utils import get_vision_window_index

    merge = vision.spatial_merge_size
    order, _ = get_vision_window_index(inputs["image_grid_thw"], merge, vision.window_size, vision.patch_size)
    return shares.reshape(-1, merge * merge)[order.to(shares.device)].reshape(1, -1)
