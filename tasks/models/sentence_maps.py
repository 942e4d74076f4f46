"""Attention whose scores on That's the Wrong Lung! can be derived: ceiling, floor, and what ignores the text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image

from medfaith.evaluate_metrics.localization.input_view import RESIZED, SIDE, mask, window
from medfaith.loaders.errors import InputError
from medfaith.tasks.explain.geometry import Geometry

KINDS = ("box", "uniform", "image_only", "mirror")
READING = ("box", "mirror")  # those that know where a sentence's boxes are
CELLS = 19  # a side of the published model's grid
SIZE = ("height", "width")
FIELDS = {
    "box": (*SIZE, "described"),
    "mirror": (*SIZE, "described"),
    "uniform": SIZE,
    "image_only": (*SIZE, "image_id"),
}


def attention(kind: str, doc: Mapping[str, Any]) -> tuple[np.ndarray, Geometry]:
    """Attention (h, w) of sum 1 for a sentence's document, and where it lies: on the published input view.

    kind: "box": all on what the sentence names, as the document's `described` says (zeros where the image has nothing
    of it); "mirror": the same on the other side; "image_only": the brighter, the more, whatever the sentence (opens the
    image); "uniform": everywhere the same.

    Raises InputError for another kind.
    """
    size = (doc["height"], doc["width"])
    geometry = Geometry(size, window(size))
    if kind == "uniform":
        return _normalised(np.ones((CELLS, CELLS))), geometry
    if kind == "image_only":
        return _normalised(_brightness(doc["images"][0], geometry)), geometry
    if kind in ("box", "mirror"):
        named = mask([box["xywh"] for box in doc["described"]], size)
        return _normalised(named[:, ::-1] if kind == "mirror" else named), geometry
    raise InputError(f"heatmap={kind}", "is none of a sentence", expected=f"one of {', '.join(KINDS)}")


def similarity(kind: str, doc: Mapping[str, Any]) -> float | None:
    """1 for a sentence of the image and 0 for a random one, where the model reads sentences; else None."""
    return float(doc["perturbation"] != "random_sentences") if kind == "box" else None


def _brightness(image: Image.Image, geometry: Geometry) -> np.ndarray:
    """Mean grey of each cell, 1 to 256: none is without attention."""
    height, width = geometry.size
    x, y, w, h = geometry.window
    longest = max(height, width)
    shown = image.convert("L").resize((max(1, width * RESIZED // longest), max(1, height * RESIZED // longest)))
    scale = (shown.width / width, shown.height / height)
    view = shown.transform(
        (SIDE, SIDE),
        Image.Transform.EXTENT,
        (x * scale[0], y * scale[1], (x + w) * scale[0], (y + h) * scale[1]),
        fillcolor=0,
    )
    return 1 + np.asarray(view.resize((CELLS, CELLS), Image.Resampling.BOX), dtype=np.float64)


def _normalised(grid: np.ndarray) -> np.ndarray:
    total = grid.sum()
    return (grid / total if total else grid).astype(np.float32)
