"""Attention-based occlusion (section 4.3.2): the region that a model attends to is painted black."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from PIL import Image

from medfaith.evaluate_metrics.attention_alignment.regions import find_attention_region
from medfaith.loaders import rle

Window = tuple[float, float, float, float]


def attended(heatmap: np.ndarray, *, window: Window | None = None, top_fraction: float = 0.2) -> np.ndarray | None:
    """Select the top fraction of a heatmap.

    Args:
        heatmap: Shape (H, W).
        window: (x, y, width, height) that the model saw, or None for the full image. The fraction refers to this part:
            for a model that crops, a fifth of the full frame could be its complete view.
        top_fraction: The fraction.

    Returns:
        bool (H, W), or None if the heatmap has no top region.

    Raises:
        ValueError: The heatmap has a value that is not finite.
    """
    region = np.zeros(heatmap.shape, dtype=bool)
    rows, columns = _select_visible(window, heatmap.shape)
    region[rows, columns] = find_attention_region(heatmap[None, rows, columns], top_fraction)[0]
    return region if region.any() else None


def occluded(image: Image.Image, region: np.ndarray) -> Image.Image:
    """Paint a region of an image black.

    Args:
        image: The image.
        region: bool (H, W).

    Returns:
        A copy in mode RGB.

    Raises:
        ValueError: The sizes of region and image differ.
    """
    pixels = np.array(image.convert("RGB"))
    if region.shape != pixels.shape[:2]:
        raise ValueError(f"a region of {region.shape} for an image of {pixels.shape[:2]} (height, width)")
    pixels[region] = 0
    return Image.fromarray(pixels)


def compute_box_share(
    region: np.ndarray, boxes: Sequence[Sequence[float]], window: Window | None = None
) -> float | None:
    """Compute the share of the boxes' visible pixels that the region covers.

    Args:
        region: bool (H, W).
        boxes: Boxes, xywh.
        window: As in `attended`.

    Returns:
        The share, or None if no pixel is visible.
    """
    rows, columns = _select_visible(window, region.shape)
    inside = np.zeros(region.shape, dtype=bool)
    for mask in rle.encode_boxes(np.array(boxes), region.shape) if boxes else ():
        inside |= rle.decode(mask)
    visible = inside[rows, columns]
    return float(region[rows, columns][visible].mean()) if visible.any() else None


def _select_visible(window: Window | None, size: tuple[int, ...]) -> tuple[slice, slice]:
    """Select the rows and columns of pixels whose centre is in the window."""
    if window is None:
        return slice(None), slice(None)
    x, y, width, height = window
    rows, columns = (
        slice(*(min(max(math.ceil(edge - 0.5), 0), pixels) for edge in (start, start + extent)))
        for start, extent, pixels in ((y, height, size[0]), (x, width, size[1]))
    )
    return rows, columns
