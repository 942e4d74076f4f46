"""A tiny randomly initialised UNITER, and pairs of regions and sentences for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from medfaith.tasks.models.alignment.uniter_regions import Regions, cut_regions

LAYERS, HEADS, HIDDEN = 2, 2, 16


def build_model(vocabulary: int, seed: int = 0) -> Any:
    """Build a model whose attention differs from region to region."""
    import torch

    from medfaith.tasks.models.alignment.uniter import Sizes, UniterModel

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = UniterModel(Sizes(vocabulary, LAYERS, HEADS, HIDDEN)).eval()
        for layer in model.encoder.encoder.layer:
            attention: Any = layer.attention
            attention.self.query.weight.data.normal_()
            attention.self.key.weight.data.normal_()
    return model


def draw_regions(counts: Sequence[int], seed: int = 0) -> list[Regions]:
    """Draw boxes in images of noise."""
    rng = np.random.default_rng(seed)
    images = []
    for count in counts:
        image = Image.fromarray(rng.integers(0, 256, (60, 80), dtype=np.uint8))
        starts = rng.integers(0, 30, (count, 2))
        ends = starts + rng.integers(5, 30, (count, 2))
        corners = {str(n): (*map(float, start), *map(float, end)) for n, (start, end) in enumerate(zip(starts, ends))}  # noqa: B905
        images.append(cut_regions(image, corners, "noise"))
    return images
