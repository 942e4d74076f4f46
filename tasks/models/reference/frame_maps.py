"""Heatmaps of a frame that need no model: the boxes, uniform, the centre or a corner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from medfaith.loaders import rle

KINDS = ("box", "uniform", "centre", "corner")
FIELDS = ("height", "width", "boxes")  # fields of a document that its heatmaps depend on


def draw_heatmap(kind: str, doc: Mapping[str, Any], name: str) -> np.ndarray:
    """Draw the heatmap of one class for a frame of SurgXBench.

    Args:
        kind: "box" is 1 on the boxes of the class's instrument (on all boxes if the frame does not show it), else 0;
            "uniform" is 1 everywhere; "centre" decreases with the distance from the centre; "corner" is 1 in the upper
            left corner, a tenth of each side.
        doc: The document of the frame.
        name: Name of the class.

    Returns:
        float32 (H, W).
    """
    height, width = doc["height"], doc["width"]
    if kind == "uniform":
        return np.ones((height, width), dtype=np.float32)
    if kind == "corner":
        pixels = np.zeros((height, width), dtype=np.float32)
        pixels[: max(1, height // 10), : max(1, width // 10)] = 1
        return pixels
    if kind == "centre":
        y = (np.arange(height, dtype=np.float32) + 0.5) / height - 0.5
        x = (np.arange(width, dtype=np.float32) + 0.5) / width - 0.5
        return np.exp(-8 * (y[:, None] ** 2 + x**2))
    instrument = name.split(",", maxsplit=1)[0]
    boxes = [box["xywh"] for box in doc["boxes"] if box["label"] == instrument] or [b["xywh"] for b in doc["boxes"]]
    pixels = np.zeros((height, width), dtype=np.float32)
    for encoded in rle.encode_boxes(np.array(boxes), (height, width)) if boxes else ():
        pixels[rle.decode(encoded)] = 1
    return pixels
