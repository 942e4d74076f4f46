"""A mask in COCO's compressed run-length encoding: {"size": [height, width], "counts": its column-wise runs}."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pycocotools import mask as coco

from ..arguments.arrays import read_size
from ..arguments.kinds import MASK, SIZE, TEXT
from ..arguments.schema import check_arguments

_LOWEST, _BITS, _MORE, _SIGN = 48, 5, 0x20, 0x10  # COCO's text form: five bits per character, beginning with "0"


@check_arguments(mask=MASK, size=SIZE, name=TEXT)
def decode_mask(mask: Mapping[str, Any], size: tuple[int, int], name: str) -> np.ndarray:
    """Decode the pixels of a mask.

    Args:
        mask: The encoded mask.
        size: The required (height, width).
        name: Name of the mask, for errors.

    Returns:
        Bool, shape (height, width).

    Raises:
        ValueError: Another size, or see `require_mask`.
    """
    size, encoded = read_size(size, f"{name}: "), require_mask(mask, name)
    if tuple(encoded["size"]) != size:
        raise ValueError(f"{name}: size {encoded['size']}; expected that of the frame, {list(size)}")
    return coco.decode(encoded).astype(bool)


@check_arguments(mask=MASK, name=TEXT)
def require_mask(mask: Mapping[str, Any] | None, name: str) -> Any:
    """Require a valid encoding, because pycocotools checks nothing.

    Args:
        mask: The encoded mask.
        name: Name of the mask, for errors.

    Returns:
        The mask in the form that pycocotools takes.

    Raises:
        ValueError: The encoding is invalid.
    """
    if not isinstance(mask, Mapping) or mask.get("size") is None:
        raise ValueError(f"{name}: {mask}; expected a mask of size [height, width] and counts")
    size, counts = mask["size"], mask.get("counts")
    height, width = read_size(size, f"{name}: ")
    if not isinstance(counts, str):
        raise ValueError(f"{name}: counts of type {type(counts).__name__}; expected COCO's compressed text")
    pixels = sum(_runs(counts, name))
    if pixels != height * width:
        raise ValueError(f"{name}: the runs cover {pixels} pixels; expected {height} x {width} = {height * width}")
    return {"size": [height, width], "counts": counts}


def _runs(counts: str, name: str) -> list[int]:
    """Read the run lengths of COCO's text form; from the fourth on it stores the difference to the last run but one."""
    runs: list[int] = []
    value = shift = 0
    for character in counts:
        bits = ord(character) - _LOWEST
        if not 0 <= bits < 2 * _MORE:
            raise ValueError(f"{name}: {character!r} in counts; expected COCO's compressed text")
        value |= (bits & (_MORE - 1)) << shift
        shift += _BITS
        if bits & _MORE:
            continue
        if bits & _SIGN:
            value -= 1 << shift
        runs.append(value + runs[-2] if len(runs) > 2 else value)
        if runs[-1] < 0:
            raise ValueError(f"{name}: a run of {runs[-1]} pixels in counts; expected COCO's compressed text")
        value = shift = 0
    if shift:
        raise ValueError(f"{name}: counts end within a run; the text is cut")
    return runs
