"""The device of a training."""

from __future__ import annotations

import torch

from medfaith.loaders.errors import InputError


def select_device(name: str) -> str:
    """Select "cpu" or "cuda".

    Args:
        name: The device, or "" for a GPU if there is one.

    Returns:
        Name of the device.

    Raises:
        InputError: The GPU is missing.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda", "is not there", action="train with --device cpu, or on a machine with a GPU")
    return name or ("cuda" if torch.cuda.is_available() else "cpu")
