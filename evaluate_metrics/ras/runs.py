"""A mask from COCO's compressed run-length encoding, checked: the library itself trusts its input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

_LOWEST, _BITS, _MORE, _SIGN = 48, 5, 0x20, 0x10  # five bits a character, from "0" on


def decoded(mask: Mapping[str, Any], size: tuple[int, int], name: str) -> np.ndarray:
    """The pixels of a mask.

    Args:
        mask: {"size": [height, width], "counts": str}, the runs of 0 and 1 in turn, down the columns.
        size: (height, width) of the frame.
        name: of the sample, for errors.

    Returns:
        bool (height, width).

    Raises:
        ValueError: of another size than the frame, or counts that are no such text or do not fill it.
    """
    height, width = size
    given = mask["size"]
    if given is None or tuple(given) != (height, width):
        shown = given if given is None else list(given)
        raise ValueError(f"{name}: motion of size {shown}; expected that of the frame, {[height, width]}")
    runs = _runs(mask["counts"], name)
    if min(runs, default=0) < 0 or sum(runs) != height * width:
        raise ValueError(f"{name}: runs of motion over {sum(runs)} pixels; expected {height} x {width}, none negative")
    return np.repeat(np.arange(len(runs)) % 2 == 1, runs).reshape(width, height).T


def _runs(counts: Any, name: str) -> list[int]:
    """Run lengths; from the fourth on the text gives a run as the difference to the last but one."""
    codes = [ord(character) - _LOWEST for character in counts] if isinstance(counts, str) else [-1]
    if min(codes, default=0) < 0 or max(codes, default=0) >= 2 * _MORE:
        raise ValueError(f"{name}: counts of motion {str(counts)[:20]!r}; expected COCO's compressed text")
    runs: list[int] = []
    value = shift = 0
    for code in codes:
        value |= (code & (_MORE - 1)) << shift
        shift += _BITS
        if code & _MORE:
            continue
        if code & _SIGN:
            value -= 1 << shift
        runs.append(value + runs[-2] if len(runs) > 2 else value)
        value = shift = 0
    if shift:
        raise ValueError(f"{name}: counts of motion that end within a run; the text is cut")
    return runs
