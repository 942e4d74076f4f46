"""Optical flow by RAFT (section 3.4.2) in torchvision's implementation."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ...loaders.errors import InputError, MedfaithError
from .pairs import Flows, Pair

WEIGHTS = "C_T_SKHT_V2"  # torchvision's default for raft_large
MULTIPLE, LEAST = 8, 128  # pixels: sizes that RAFT's encoder and correlation pyramid require


class Raft:
    """torchvision's raft_large. The model is loaded when the first flow is computed.

    Args:
        open_pairs: Yields the two images of each of a video's pairs in turn: RGB, uint8 (H, W, 3), or PIL. It is read
            one batch at a time. Its errors are passed on.
        weights: A state dict of torchvision's raft_large in a file; None downloads torchvision's default, C_T_SKHT_V2.
        device: The device; None takes the GPU if there is one.
        batch_size: Pairs at a time, in both directions: about 0.5 GB a pair for frames of 480x854.
        updates: Number of refinements of the flow; RAFT's own default is 12.

    Raises:
        InputError: The file of weights is missing.
    """

    def __init__(
        self,
        open_pairs: Callable[[str, Sequence[Pair]], Iterator[tuple[Any, Any]]],
        *,
        weights: Path | None = None,
        device: str | None = None,
        batch_size: int = 4,
        updates: int = 12,
    ) -> None:
        if weights is not None and not weights.is_file():
            raise InputError(weights, "no such file", expected="a state dict of torchvision's raft_large")
        self.open_pairs, self.weights, self.batch_size, self.updates = open_pairs, weights, batch_size, updates
        self._device = device

    def identity(self, video: str, pairs: Sequence[Pair]) -> str:
        """Describe the model, its weights and its number of updates.

        Args:
            video: Not used.
            pairs: Not used.

        Returns:
            The text.
        """
        return f"raft_large, {self._weights_name}, {self.updates} updates"

    def flows(self, video: str, pairs: Sequence[Pair]) -> Iterator[Flows]:
        """Compute the flow of each pair in turn, in batches.

        Args:
            video: The name of the video.
            pairs: Its pairs of frames.

        Yields:
            Forward and backward flow.

        Raises:
            InputError: The frames are not RGB uint8 images of one size.
        """
        opened = zip(pairs, self.open_pairs(video, pairs), strict=True)
        while batch := [_check_pair(video, *item) for item in islice(opened, self.batch_size)]:
            sizes = sorted({first.shape[:2] for first, _ in batch})
            if len(sizes) > 1:
                raise InputError(f"video {video}", f"frames of several sizes (height, width): {sizes}")
            first, second = (np.stack(images) for images in zip(*batch, strict=True))
            yield from zip(*self.between(first, second), strict=True)

    def between(self, first: np.ndarray, second: np.ndarray) -> Flows:
        """Compute the flow of N pairs of images.

        Args:
            first: The first images: uint8 (N, H, W, 3).
            second: The second images: uint8 (N, H, W, 3).

        Returns:
            Forward and backward flow: float32 (N, 2, H, W) each.
        """
        torch = _import_torch()
        n, (height, width) = len(first), first.shape[1:3]
        images = torch.from_numpy(np.concatenate([first, second])).to(self.device).permute(0, 3, 1, 2)
        left, right, top, bottom = padding((height, width))
        with torch.no_grad():
            scaled = images.float() / 127.5 - 1
            padded = torch.nn.functional.pad(scaled, (left, right, top, bottom), mode="replicate")
            flow = self._model(padded, padded.roll(n, 0), num_flow_updates=self.updates)[-1]
            cropped = flow[..., top : top + height, left : left + width].cpu().numpy()
        return cropped[:n], cropped[n:]

    @cached_property
    def device(self) -> str:
        """The device of the model."""
        return self._device or ("cuda" if _import_torch().cuda.is_available() else "cpu")

    @cached_property
    def _weights_name(self) -> str:
        if self.weights is None:
            return WEIGHTS
        with self.weights.open("rb") as file:
            return f"sha256 {hashlib.file_digest(file, 'sha256').hexdigest()}"

    @property
    def _model(self) -> Any:
        return _load_model(self.weights, self._weights_name, self.device)


@lru_cache(maxsize=1)
def _load_model(weights: Path | None, name: str, device: str) -> Any:
    """Load the model with these weights. A worker caches it for its next tasks."""
    _import_torch()
    from torchvision.models.optical_flow import Raft_Large_Weights, raft_large

    model = raft_large(weights=None, progress=False)
    if weights is None:
        try:
            state = Raft_Large_Weights[name].get_state_dict(progress=False, check_hash=True)
        except (OSError, RuntimeError) as error:
            raise MedfaithError(
                f"RAFT's weights {name} cannot be downloaded: {error}\n"
                "  what to do: name a file of them (--raft-weights FILE), or a folder of flow files (--flow DIR)"
            ) from error
        model.load_state_dict(state)
    else:
        _load_state(model, weights)
    return model.eval().to(device)


def padding(size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Compute the padding to multiples of 8 pixels and at least 128, split evenly between the sides.

    Args:
        size: Height and width in pixels.

    Returns:
        Pixels on the left, right, top and bottom.

    >>> padding((480, 854))
    (1, 1, 0, 0)
    """
    height, width = (max(LEAST, -(-n // MULTIPLE) * MULTIPLE) - n for n in size)
    return width // 2, width - width // 2, height // 2, height - height // 2


def _import_torch() -> Any:
    try:
        import torch
        import torchvision  # noqa: F401
    except ImportError as error:
        raise MedfaithError(
            "RAFT needs torch and torchvision\n  what to do: uv pip install 'medfaith[hf]', or give flow files"
        ) from error
    return torch


def _load_state(model: Any, path: Path) -> None:
    expected = "a state dict of torchvision's raft_large, as torch.save writes it"
    try:
        state = _import_torch().load(path, map_location="cpu", weights_only=True)
        model.load_state_dict(state)
    except Exception as error:  # a damaged file can raise any error in torch.load
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(path, f"cannot be loaded: {reason}", expected=expected) from error


def _check_pair(video: str, pair: Pair, opened: tuple[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    first_image, second_image = (np.asarray(image) for image in opened)
    for image, name in ((first_image, pair.first_image), (second_image, pair.second_image)):
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
            raise InputError(name, f"an image of shape {image.shape}, {image.dtype}", expected="(H, W, 3), uint8")
    if first_image.shape != second_image.shape:
        problem = (
            f"{pair.first_image} is of {first_image.shape[:2]}, "
            f"{pair.second_image} of {second_image.shape[:2]} (height, width)"
        )
        raise InputError(f"video {video}", problem, row=f"frame {pair.frame}", expected="frames of one size")
    return first_image, second_image
