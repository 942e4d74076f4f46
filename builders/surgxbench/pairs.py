"""Pairs of frames, and where the optical flow between them comes from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np


class Pair(NamedTuple):
    """A frame and its successor. frame: the first one's number. first, second: what names the two images, `source/key`
    or the like. size: (height, width) in pixels, where it is known.
    """

    frame: int
    first: str
    second: str
    size: tuple[int, int] | None = None


Flows = tuple[np.ndarray, np.ndarray]  # forward and backward, each (2, H, W) float32


class Flow(Protocol):
    """Where flow comes from."""

    def identity(self, video: str, pairs: Sequence[Pair]) -> str:
        """What the flow of these pairs depends on beside their images."""
        ...

    def flows(self, video: str, pairs: Sequence[Pair]) -> Iterator[Flows]:
        """The flow of each pair in turn."""
        ...
