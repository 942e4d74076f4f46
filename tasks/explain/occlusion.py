"""Attention-based occlusion (section 4.3.2): the region that a model looked at painted black."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image

from medfaith.evaluate_metrics.attention_alignment.score import attention_region

Window = tuple[float, float, float, float]


def occluded(
    image: Image.Image, heatmap: np.ndarray, *, seen: Window | None = None, top_fraction: float = 0.2
) -> Image.Image | None:
    """The image with the top `top_fraction` of its heatmap (H, W) in black; None where the heatmap has no top region.

    seen: (x, y, width, height), the part of the image that the model saw, of which the fraction is taken: of a model
    that crops, a fifth of the whole frame could be all that it sees. None is the whole image.

    Raises ValueError where the heatmap has another size than the image, or a number that is not finite.
    """
    pixels = np.array(image.convert("RGB"))
    if heatmap.shape != pixels.shape[:2]:
        raise ValueError(f"a heatmap of {heatmap.shape} for an image of {pixels.shape[:2]} (height, width)")
    rows, columns = _seen(seen, heatmap.shape)
    (region,) = attention_region(heatmap[None, rows, columns], top_fraction)
    if not region.any():
        return None
    pixels[rows, columns][region] = 0
    return Image.fromarray(pixels)


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
