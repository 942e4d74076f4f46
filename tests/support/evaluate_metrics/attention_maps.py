"""Heatmaps, boxes and a plain implementation of the attention region."""

import numpy as np
from hypothesis import strategies as st
from pycocotools import mask as coco

from medfaith.evaluate_metrics.attention_alignment.frames import to_frame
from medfaith.loaders import rle

NAN = float("nan")


def find_plain_region(heatmap, top_fraction=0.2):
    """Return the attention region, computed straight from its definition."""
    if heatmap.max() == heatmap.min():
        return np.zeros(heatmap.shape, dtype=bool)
    return (heatmap >= np.quantile(heatmap, 1 - top_fraction)) & (heatmap > 0)


def draw_plain_union(boxes, size):
    """Return the mask of the boxes' union, drawn by the COCO tools."""
    masks = rle.encode_boxes(np.asarray(boxes, dtype=float).reshape(-1, 4), size)
    return coco.decode(coco.merge(masks)).astype(bool) if masks else np.zeros(size, dtype=bool)


def compute_plain_share(heatmap, boxes, top_fraction=0.2, motion=None):
    region, inside = find_plain_region(heatmap, top_fraction), draw_plain_union(boxes, heatmap.shape)
    inside = inside if motion is None else inside | motion
    return (region & inside).sum() / region.sum() if region.any() else NAN


KINDS = ["noise", "smooth", "sparse", "few_values", "signed", "negative", "constant", "zero", "spike"]


def make_heatmap(kind, size, rng):
    height, width = size
    noise = rng.random(size, dtype=np.float32)
    if kind == "smooth":
        cells = np.maximum(rng.normal(size=(5, 7)), 0).tolist()
        return to_frame(cells, size, [0, 0, width, height])
    if kind == "spike":
        noise[:] = 0
        noise[rng.integers(height), rng.integers(width)] = 3
    return {
        "sparse": np.where(noise > 0.9, noise, np.float32(0)),
        "few_values": np.floor(noise * 4),
        "signed": noise - np.float32(0.85),
        "negative": -noise,
        "constant": np.full(size, 0.3, dtype=np.float32),
        "zero": np.zeros(size, dtype=np.float32),
    }.get(kind, noise)


@st.composite
def batches(draw, largest=70):
    """Draw maps of one size, two lists of boxes for each map, and motion masks."""
    size = draw(st.integers(1, largest)), draw(st.integers(1, largest))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    maps = np.stack([make_heatmap(kind, size, rng) for kind in kinds])
    sides = np.array([size[1], size[0], size[1], size[0]])

    def draw_boxes():
        corners = (rng.random((rng.integers(0, 5), 4)) * 1.4 - 0.2) * sides
        corners[:, 2:] = np.abs(corners[:, 2:])
        corners = np.round(corners, rng.integers(0, 3))  # whole numbers and halves, too
        corners[:, 2:] += 0.01
        return corners

    return maps, [draw_boxes() for _ in maps], [draw_boxes() for _ in maps], rng.random(maps.shape) < 0.3


fractions = st.sampled_from([0.2, 0.2, 0.05, 0.5, 0.9, 1.0, 1e-6])


def make_bright(size, y_min, x_min, y_max, x_max, value=1.0):
    heatmap = np.zeros(size, dtype=np.float32)
    heatmap[y_min:y_max, x_min:x_max] = value
    return heatmap


def convert_to_lists(predictions):
    """Convert the heatmaps to lists, the input type of `evaluate`."""
    return [
        row | {"maps": [None if heatmap is None else np.asarray(heatmap).tolist() for heatmap in row["maps"]]}
        for row in predictions
    ]


SIZE = (20, 30)
