"""Heatmaps of a frame that need no model: where the boxes are, everywhere, in the middle, in a corner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from medfaith.loaders import rle

KINDS = ("box", "uniform", "centre", "corner")
FIELDS = ("height", "width", "boxes")  # of a document, what its heatmaps are drawn from


def heatmap(kind: str, doc: Mapping[str, Any], name: str) -> np.ndarray:
    """A heatmap (H, W) of one class for a frame of SurgXBench.

    kind: "box": 1 on the boxes of the class's instrument, else 0 (for a class that the frame has not: on all boxes);
    "uniform": 1 everywhere, which is to look nowhere; "centre": falls with the distance from the centre; "corner": 1
    in the upper left corner, a tenth of each side.
    """
    height, width = doc["height"], doc["width"]
    if kind == "uniform":
        return np.ones((height, width), dtype=np.float32)
    if kind == "corner":
        drawn = np.zeros((height, width), dtype=np.float32)
        drawn[: max(1, height // 10), : max(1, width // 10)] = 1
        return drawn
    if kind == "centre":
        y = (np.arange(height, dtype=np.float32) + 0.5) / height - 0.5
        x = (np.arange(width, dtype=np.float32) + 0.5) / width - 0.5
        return np.exp(-8 * (y[:, None] ** 2 + x**2))
    instrument = name.split(",", maxsplit=1)[0]
    boxes = [box["xywh"] for box in doc["boxes"] if box["label"] == instrument] or [b["xywh"] for b in doc["boxes"]]
    drawn = np.zeros((height, width), dtype=np.float32)
    for encoded in rle.encode_boxes(np.array(boxes), (height, width)) if boxes else ():
        drawn[rle.decode(encoded)] = 1
    return drawn
