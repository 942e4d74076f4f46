"""Pictures of a heatmap on its image, in the published input view (evaluate_metrics.localization.input_view)."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from medfaith.evaluate_metrics.localization.input_view import SIDE, Size, scores, window
from medfaith.tasks.explain.geometry import Geometry

SCALE = 3  # pixels of the picture for each of the view
OPACITY = 0.65
CORNER = 16  # side of the square that shows what the model attends to nowhere, in pixels of the view
BOX = (90, 220, 255)
COLOURS = np.array([[20, 0, 150], [190, 0, 150], [255, 110, 0], [255, 255, 80]], dtype=np.float64)  # 0 to 1, evenly


def colours(level: np.ndarray | float) -> np.ndarray:
    """Levels 0 to 1, of any shape, as float64 (..., 3) from 0 to 255."""
    places = np.linspace(0, 1, len(COLOURS))
    return np.stack([np.interp(level, places, channel) for channel in COLOURS.T], axis=-1)


def picture(image: Image.Image) -> Image.Image:
    """The view of an image, black where it reaches beyond it: mode RGB, 672 x 672."""
    x, y, w, h = window((image.height, image.width))
    left, top = math.floor(x), math.floor(y)
    canvas = image.convert("RGB").crop((left, top, math.ceil(x + w), math.ceil(y + h)))
    box = (x - left, y - top, x - left + w, y - top + h)
    return canvas.resize((SIDE * SCALE, SIDE * SCALE), Image.Resampling.LANCZOS, box=box)


def nowhere(attention: np.ndarray) -> float:
    """The share of attention that is nowhere on the image ("No Attn"): 1 less the sum, in [0, 1]."""
    return float(np.clip(1 - np.asarray(attention, dtype=np.float64).sum(), 0, 1))


def overlay(shown: Image.Image, attention: np.ndarray, geometry: Geometry) -> Image.Image:
    """A picture with attention on it.

    The heatmap is scaled to its highest cell and as much fainter as the model attends to nowhere; a square in the
    lower right corner is coloured by that share, of every model, so that it tells none apart. In the paper's interface
    both share one scale, and a large share hides the heatmap (section 5, appendix A.8).

    Args:
        shown: what `picture` makes of the image.
        attention: (h, w), at least 0, over the geometry's window.

    Raises:
        ValueError: as `evaluate_metrics.localization.input_view.scores`.
    """
    away = nowhere(attention)
    peak = float(np.max(attention))
    seen = scores(attention, geometry.size, geometry.window)
    level = seen * ((1 - away) / peak) if peak > 0 else seen
    fine = Image.fromarray(level.astype(np.float32)).resize(shown.size, Image.Resampling.BILINEAR)
    level = np.asarray(fine, dtype=np.float64).clip(0, 1)
    opacity = OPACITY * level[..., None]
    blended = np.asarray(shown) * (1 - opacity) + colours(level) * opacity
    drawn = Image.fromarray(np.rint(blended).astype(np.uint8))
    side = SIDE * SCALE
    corner = (side - CORNER * SCALE, side - CORNER * SCALE, side - 1, side - 1)
    fill = tuple(np.rint(colours(away) * away).astype(int).tolist())
    ImageDraw.Draw(drawn).rectangle(corner, fill=fill, outline="white")
    return drawn


def outlined(shown: Image.Image, boxes: Sequence[Sequence[float]], size: Size) -> Image.Image:
    """A picture with boxes (k, 4), xywh in pixels of the image of this (height, width), drawn on a copy of it."""
    left, top, width, height = window(size)
    across, down = shown.width / width, shown.height / height
    drawn = shown.copy()
    pen = ImageDraw.Draw(drawn)
    for x, y, w, h in boxes:
        start, end = ((x - left) * across, (y - top) * down), ((x + w - left) * across, (y + h - top) * down)
        pen.rectangle((*start, *end), outline="black", width=4)
        pen.rectangle((start[0] + 1, start[1] + 1, end[0] - 1, end[1] - 1), outline=BOX, width=2)
    return drawn


def png(image: Image.Image) -> bytes:
    """Its pixels and nothing else."""
    content = io.BytesIO()
    Image.frombytes(image.mode, image.size, image.tobytes()).save(content, "PNG")
    return content.getvalue()
