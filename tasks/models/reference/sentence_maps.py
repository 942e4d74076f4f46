"""Attention maps with derivable scores on That's the Wrong Lung!: ceiling, floor, and maps that ignore the text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image

from medfaith.evaluate_metrics.localization.input_view import RESIZED, SIDE, mask, window
from medfaith.loaders.errors import InputError
from medfaith.tasks.explain.geometry import Geometry

KINDS = ("box", "uniform", "image_only", "mirror")
READING = ("box", "mirror")  # kinds that follow the sentence's boxes
CELLS = 19  # side length of the published model's grid
SIZE = ("height", "width")
FIELDS = {
    "box": (*SIZE, "described"),
    "mirror": (*SIZE, "described"),
    "uniform": SIZE,
    "image_only": (*SIZE, "image_id"),
}


def attention(kind: str, doc: Mapping[str, Any]) -> tuple[np.ndarray, Geometry]:
    """Compute an attention map of sum 1 for a sentence's document, on the published input view.

    Args:
        kind: "box": uniform on the regions that the document's `described` lists (zeros if there are none); "mirror":
            the same, mirrored; "image_only": proportional to the brightness, whatever the sentence (opens the image);
            "uniform".
        doc: The document of the sentence.

    Returns:
        float32 (h, w) and its geometry.

    Raises:
        InputError: The kind is unknown.
    """
    size = (doc["height"], doc["width"])
    geometry = Geometry(size, window(size))
    if kind == "uniform":
        return _normalize(np.ones((CELLS, CELLS))), geometry
    if kind == "image_only":
        return _normalize(_compute_brightness(doc["images"][0], geometry)), geometry
    if kind in ("box", "mirror"):
        region = mask([box["xywh"] for box in doc["described"]], size)
        return _normalize(region[:, ::-1] if kind == "mirror" else region), geometry
    raise InputError(f"heatmap={kind}", "is none of a sentence", expected=f"one of {', '.join(KINDS)}")


def compute_similarity(kind: str, doc: Mapping[str, Any]) -> float | None:
    """Compute the similarity of sentence and image that the reference model reports.

    Args:
        kind: Kind of attention.
        doc: The document of the sentence.

    Returns:
        For the kind "box", 1 if the sentence is of the image and 0 if it is another image's (the perturbation
        random_sentences); None for the other kinds.
    """
    return float(doc["perturbation"] != "random_sentences") if kind == "box" else None


def _compute_brightness(image: Image.Image, geometry: Geometry) -> np.ndarray:
    """Compute the mean grey of each cell, from 1 to 256, so that each cell has attention."""
    height, width = geometry.size
    x, y, w, h = geometry.window
    longest = max(height, width)
    resized = image.convert("L").resize((max(1, width * RESIZED // longest), max(1, height * RESIZED // longest)))
    scale = (resized.width / width, resized.height / height)
    view = resized.transform(
        (SIDE, SIDE),
        Image.Transform.EXTENT,
        (x * scale[0], y * scale[1], (x + w) * scale[0], (y + h) * scale[1]),
        fillcolor=0,
    )
    return 1 + np.asarray(view.resize((CELLS, CELLS), Image.Resampling.BOX), dtype=np.float64)


def _normalize(grid: np.ndarray) -> np.ndarray:
    total = grid.sum()
    return (grid / total if total else grid).astype(np.float32)
