"""What the models see of the images, prepared when a batch needs it: the silver dataset's do not fit into memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from medfaith.evaluate_metrics.localization.input_view import SIDE
from medfaith.loaders.images import locate, open_image
from medfaith.loaders.progress import Progress
from medfaith.tasks.models.gloria_image import normalised, view

BYTES = SIDE * SIDE  # of a view


class Views:
    """The published input views of images (`gloria_image.view`), each opened at first need.

    The first ones stay in memory, up to `cache` bytes of them. Training takes every image once a round, in an order
    drawn anew: to put newer ones in their place would only lose them before their turn.

    Args:
        references: ImageRefs. roots: of their sources. workers: images opened at a time.
    """

    def __init__(
        self, references: Sequence[Mapping[str, str]], roots: Mapping[str, Path], *, cache: int, workers: int = 1
    ) -> None:
        self._references, self._roots, self._workers = references, roots, workers
        self._n_kept = cache // BYTES
        self._kept: dict[int, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self._references)

    def check(self) -> None:
        """Raises MissingSourceError or ImageError where an image is not there, before hours of training."""
        for reference in Progress(self._references, title="looking for images", unit="images"):
            locate(reference, self._roots)

    def pixels(self, numbers: Sequence[int]) -> torch.Tensor:
        """What the model is given of some images, as `gloria_image.pixels`: (n, 3, 224, 224).

        Raises:
            ImageError: one that cannot be opened.
        """
        lacking = [number for number in dict.fromkeys(numbers) if number not in self._kept]
        with ThreadPoolExecutor(self._workers) as pool:
            opened = dict(zip(lacking, pool.map(self._open, lacking), strict=True))
        found = [self._kept[number] if number in self._kept else opened[number] for number in numbers]
        for number in lacking[: max(self._n_kept - len(self._kept), 0)]:
            self._kept[number] = opened[number]
        return normalised(np.stack(found))

    def _open(self, number: int) -> np.ndarray:
        return view(open_image(self._references[number], self._roots))
