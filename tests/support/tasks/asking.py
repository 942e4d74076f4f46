"""Requests of lm-eval, built from rows, and test images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from lm_eval.api.instance import Instance
from PIL import Image

GREEDY = {"until": [], "do_sample": False, "temperature": 0.0, "max_gen_toks": 64}


def shade(level: int, size: tuple[int, int] = (6, 4)) -> Image.Image:
    """Create an image of one colour.

    Args:
        level: Red and green, 0 to 255; blue is its complement.
        size: Width and height in pixels.
    """
    return Image.new("RGB", size, (level, level, 255 - level))


def noise(size: tuple[int, int] = (60, 60), seed: int = 0) -> Image.Image:
    """Create an image of uniform noise.

    Args:
        size: Width and height in pixels.
        seed: Seed of the generator.
    """
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def asked(
    prompt: Any,
    images: Any = (),
    number: int = 0,
    doc: Mapping[str, Any] | None = None,
    task: str = "task",
    **options: Any,
) -> Instance:
    """Build the request to generate the answer to a row.

    Args:
        prompt: The prompt, or chat messages.
        images: Images of the row.
        number: Number of the row.
        doc: Further columns of the document.
        task: Name of the task.
        **options: Generation settings that differ from `GREEDY`.
    """
    arguments = (prompt, {**GREEDY, **options}, {"visual": images})
    return Instance("generate_until", {"id": f"row {number}", **(doc or {})}, arguments, 0, (task, number, 1))


def scored(prompt: str, option: str, images: Sequence[Image.Image], number: int = 0, index: int = 0) -> Instance:
    """Build the request to score one option of a row."""
    arguments = (prompt, option, {"visual": images})
    return Instance("loglikelihood", {"id": f"row {number}"}, arguments, index, ("task", number, 1))
