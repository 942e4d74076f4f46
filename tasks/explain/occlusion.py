"""Attention-based occlusion (section 4.3.2): the region that a model looked at painted black."""

from __future__ import annotations

import numpy as np
from PIL import Image

from medfaith.evaluate_metrics.attention_alignment.score import attention_region


def occluded(image: Image.Image, heatmap: np.ndarray, *, top_fraction: float = 0.2) -> Image.Image | None:
    """The image with the top `top_fraction` of its heatmap (H, W) in black; None where the heatmap has no top region.

    Raises ValueError where the heatmap has another size than the image, or a number that is not finite.
    """
    pixels = np.array(image.convert("RGB"))
    if heatmap.shape != pixels.shape[:2]:
        raise ValueError(f"a heatmap of {heatmap.shape} for an image of {pixels.shape[:2]} (height, width)")
    (region,) = attention_region(heatmap[None], top_fraction)
    if not region.any():
        return None
    pixels[region] = 0
    return Image.fromarray(pixels)
