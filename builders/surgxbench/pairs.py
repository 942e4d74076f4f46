"""Pairs of frames, and the protocol for sources of the optical flow between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np


class Pair(NamedTuple):
    """A frame and its successor.

    Attributes:
        frame: The number of the first frame.
        first_image: The name of the first image: `source/key` or the like.
        second_image: The name of the second image.
        size: Height and width in pixels; None if they are unknown.
    """

    frame: int
    first_image: str
    second_image: str
    size: tuple[int, int] | None = None


Flows = tuple[np.ndarray, np.ndarray]  # forward and backward, each (2, H, W) float32


class Flow(Protocol):
    """A source of optical flow."""

    def identity(self, video: str, pairs: Sequence[Pair]) -> str:
        """Describe the dependencies of the flow of pairs, except for their images.

        Args:
            video: The name of the video.
            pairs: Its pairs of frames.

        Returns:
            The text.
        """
        ...

    def flows(self, video: str, pairs: Sequence[Pair]) -> Iterator[Flows]:
        """Compute the flow of each pair in turn.

        Args:
            video: The name of the video.
            pairs: Its pairs of frames.

        Returns:
            Forward and backward flow of each pair.
        """
        ...
