"""Model inputs of the training images, loaded when a batch needs them: silver's images do not fit into memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from medfaith.evaluate_metrics.localization.input_view import SIDE
from medfaith.loaders.images import locate, open_image
from medfaith.loaders.progress import Progress
from medfaith.tasks.models.alignment.gloria_image import normalised, view

BYTES = SIDE * SIDE  # bytes of a view


class Views:
    """The published input views of images (`gloria_image.view`), each opened on first use.

    A subclass may prepare other inputs from the images (`prepare`).

    The first views stay in memory, up to `cache` bytes. Training uses every image once a round, in a new random order.
    Replacing cached views by newer ones would only lose them before their next use.

    Args:
        references: The references of the images.
        roots: Source id -> folder of the images.
        cache: The bytes of memory for views.
        workers: The number of images that are opened at a time.
    """

    n_bytes = BYTES  # of a prepared input

    def __init__(
        self, references: Sequence[Mapping[str, str]], roots: Mapping[str, Path], *, cache: int, workers: int = 1
    ) -> None:
        self._references, self._roots, self._workers = references, roots, workers
        self._n_cached = cache // self.n_bytes
        self._cache: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self._references)

    def check(self) -> None:
        """Require that every image exists, before hours of training.

        Raises:
            MissingSourceError: The root of an image is unknown.
            ImageError: An image is missing.
        """
        for reference in Progress(self._references, title="looking for images", unit="images"):
            locate(reference, self._roots)

    def pixels(self, numbers: Sequence[int]) -> torch.Tensor:
        """Load the model input of some images, as in `gloria_image.pixels`.

        Args:
            numbers: The indices of the images.

        Returns:
            Shape (n, 3, 224, 224).

        Raises:
            ImageError: An image cannot be opened.
        """
        return normalised(np.stack(self.load(numbers)))

    def load(self, numbers: Sequence[int]) -> list[Any]:
        """Load what `prepare` makes of some images.

        Args:
            numbers: The indices of the images.

        Returns:
            One input for each index.

        Raises:
            ImageError: An image cannot be opened.
        """
        uncached = [number for number in dict.fromkeys(numbers) if number not in self._cache]
        with ThreadPoolExecutor(self._workers) as pool:
            opened = dict(zip(uncached, pool.map(self._open, uncached), strict=True))
        inputs = [self._cache[number] if number in self._cache else opened[number] for number in numbers]
        for number in uncached[: max(self._n_cached - len(self._cache), 0)]:
            self._cache[number] = opened[number]
        return inputs

    def prepare(self, image: Image.Image, key: str) -> Any:
        """Prepare the input of one image.

        Args:
            image: The image.
            key: The key of the image in its source.

        Returns:
            The view.
        """
        return view(image)

    def _open(self, number: int) -> Any:
        reference = self._references[number]
        return self.prepare(open_image(reference, self._roots), reference["key"])
