"""Pictures of a heatmap on its image, in the published input view (evaluate_metrics.localization.input_view)."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from medfaith.evaluate_metrics.localization.input_view import SIDE, Size, scores, window
from medfaith.tasks.explain.geometry import Geometry

SCALE = 3  # pixels of the picture for each pixel of the view
OPACITY = 0.65
CORNER = 16  # side of the square for the attention to nowhere, in pixels of the view
BOX = (90, 220, 255)
COLOURS = np.array([[20, 0, 150], [190, 0, 150], [255, 110, 0], [255, 255, 80]], dtype=np.float64)  # 0 to 1, evenly


def colours(level: np.ndarray | float) -> np.ndarray:
    """Map levels to colours.

    Args:
        level: Levels from 0 to 1, of any shape.

    Returns:
        float64 (..., 3) from 0 to 255.
    """
    places = np.linspace(0, 1, len(COLOURS))
    return np.stack([np.interp(level, places, channel) for channel in COLOURS.T], axis=-1)


def picture(image: Image.Image) -> Image.Image:
    """Render the view of an image, black beyond the image: mode RGB, 672 x 672.

    Args:
        image: The image.

    Returns:
        The picture.
    """
    x, y, w, h = window((image.height, image.width))
    x0, y0 = math.floor(x), math.floor(y)
    canvas = image.convert("RGB").crop((x0, y0, math.ceil(x + w), math.ceil(y + h)))
    box = (x - x0, y - y0, x - x0 + w, y - y0 + h)
    return canvas.resize((SIDE * SCALE, SIDE * SCALE), Image.Resampling.LANCZOS, box=box)


def nowhere(attention: np.ndarray) -> float:
    """Compute the share of attention to nowhere ("No Attn"): 1 minus the sum, in [0, 1].

    Args:
        attention: The attention to the image.

    Returns:
        The share.
    """
    return float(np.clip(1 - np.asarray(attention, dtype=np.float64).sum(), 0, 1))


def overlay(base: Image.Image, attention: np.ndarray, geometry: Geometry) -> Image.Image:
    """Draw attention on a picture.

    The heatmap is scaled to its highest cell, and faded by the share of attention to nowhere. A square in the lower
    right corner has the colour of that share. Every model has the square, which therefore identifies none. In the
    paper's interface both share one scale, and a large share hides the heatmap (section 5, appendix A.8).

    Args:
        base: The result of `picture`.
        attention: Shape (h, w), at least 0, over the window of the geometry.
        geometry: The geometry of the attention.

    Returns:
        A new picture of the size of `base`.

    Raises:
        ValueError: As in `evaluate_metrics.localization.input_view.scores`.
    """
    nowhere_share = nowhere(attention)
    peak = float(np.max(attention))
    view_scores = scores(attention, geometry.size, geometry.window)
    level = view_scores * ((1 - nowhere_share) / peak) if peak > 0 else view_scores
    fine = Image.fromarray(level.astype(np.float32)).resize(base.size, Image.Resampling.BILINEAR)
    level = np.asarray(fine, dtype=np.float64).clip(0, 1)
    opacity = OPACITY * level[..., None]
    blended = np.asarray(base) * (1 - opacity) + colours(level) * opacity
    result = Image.fromarray(np.rint(blended).astype(np.uint8))
    side = SIDE * SCALE
    corner = (side - CORNER * SCALE, side - CORNER * SCALE, side - 1, side - 1)
    fill = tuple(np.rint(colours(nowhere_share) * nowhere_share).astype(int).tolist())
    ImageDraw.Draw(result).rectangle(corner, fill=fill, outline="white")
    return result


def draw_boxes(base: Image.Image, boxes: Sequence[Sequence[float]], size: Size) -> Image.Image:
    """Draw boxes on a copy of a picture.

    Args:
        base: The picture.
        boxes: Shape (k, 4), xywh in pixels of the image.
        size: (height, width) of the image.

    Returns:
        The copy.
    """
    x0, y0, width, height = window(size)
    across, down = base.width / width, base.height / height
    result = base.copy()
    pen = ImageDraw.Draw(result)
    for x, y, w, h in boxes:
        start, end = ((x - x0) * across, (y - y0) * down), ((x + w - x0) * across, (y + h - y0) * down)
        pen.rectangle((*start, *end), outline="black", width=4)
        pen.rectangle((start[0] + 1, start[1] + 1, end[0] - 1, end[1] - 1), outline=BOX, width=2)
    return result


def png(image: Image.Image) -> bytes:
    """Encode the pixels of an image as PNG, without metadata.

    Args:
        image: The image.

    Returns:
        The content of the file.
    """
    content = io.BytesIO()
    Image.frombytes(image.mode, image.size, image.tobytes()).save(content, "PNG")
    return content.getvalue()
