"""Requests of lm-eval as it makes them of rows, and images for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from lm_eval.api.instance import Instance
from PIL import Image

GREEDY = {"until": [], "do_sample": False, "temperature": 0.0, "max_gen_toks": 64}


def shade(level: int, size: tuple[int, int] = (6, 4)) -> Image.Image:
    """One colour. size: (width, height)."""
    return Image.new("RGB", size, (level, level, 255 - level))


def noise(size: tuple[int, int] = (60, 60), seed: int = 0) -> Image.Image:
    """size: (width, height)."""
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def asked(
    prompt: Any,
    images: Any = (),
    number: int = 0,
    doc: Mapping[str, Any] | None = None,
    task: str = "task",
    **options: Any,
) -> Instance:
    """A row's request for an answer. doc: more of its document. how: settings other than `GREEDY`."""
    arguments = (prompt, {**GREEDY, **options}, {"visual": images})
    return Instance("generate_until", {"id": f"row {number}", **(doc or {})}, arguments, 0, (task, number, 1))


def scored(prompt: str, option: str, images: Sequence[Image.Image], number: int = 0, index: int = 0) -> Instance:
    """A row's request for the probability of one of its options."""
    arguments = (prompt, option, {"visual": images})
    return Instance("loglikelihood", {"id": f"row {number}"}, arguments, index, ("task", number, 1))
