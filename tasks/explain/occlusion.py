"""Attention-based occlusion (section 4.3.2): the region that a model looked at painted black."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from PIL import Image

from medfaith.evaluate_metrics.attention_alignment.regions import attention_region
from medfaith.loaders import rle

Window = tuple[float, float, float, float]


def attended(heatmap: np.ndarray, *, seen: Window | None = None, top_fraction: float = 0.2) -> np.ndarray | None:
    """The top `top_fraction` of a heatmap (H, W): bool (H, W); None where the heatmap has no top region.

    seen: (x, y, width, height), the part of the image that the model saw, of which the fraction is taken: of a model
    that crops, a fifth of the whole frame could be all that it sees. None is the whole image.

    Raises ValueError where the heatmap has a number that is not finite.
    """
    region = np.zeros(heatmap.shape, dtype=bool)
    rows, columns = _seen(seen, heatmap.shape)
    region[rows, columns] = attention_region(heatmap[None, rows, columns], top_fraction)[0]
    return region if region.any() else None


def occluded(image: Image.Image, region: np.ndarray) -> Image.Image:
    """The image with a region (H, W) in black. Raises ValueError where the region has another size than the image."""
    pixels = np.array(image.convert("RGB"))
    if region.shape != pixels.shape[:2]:
        raise ValueError(f"a region of {region.shape} for an image of {pixels.shape[:2]} (height, width)")
    pixels[region] = 0
    return Image.fromarray(pixels)


def compute_box_share(region: np.ndarray, boxes: Sequence[Sequence[float]], seen: Window | None = None) -> float | None:
    """The share of the boxes (xywh), as far as the model saw them, that lies in the region (H, W); None of nothing.

    seen: as of `attended`.
    """
    rows, columns = _seen(seen, region.shape)
    inside = np.zeros(region.shape, dtype=bool)
    for mask in rle.from_boxes(np.array(boxes), region.shape) if boxes else ():
        inside |= rle.decode(mask)
    visible = inside[rows, columns]
    return float(region[rows, columns][visible].mean()) if visible.any() else None


def _seen(window: Window | None, size: tuple[int, ...]) -> tuple[slice, slice]:
    """The rows and columns of pixels of which the window holds the centre."""
    if window is None:
        return slice(None), slice(None)
    x, y, width, height = window
    rows, columns = (
        slice(*(min(max(math.ceil(edge - 0.5), 0), pixels) for edge in (start, start + extent)))
        for start, extent, pixels in ((y, height, size[0]), (x, width, size[1]))
    )
    return rows, columns
