"""Where a training runs."""

from __future__ import annotations

import torch

from medfaith.loaders.errors import InputError


def chosen(name: str) -> str:
    """ "cpu" or "cuda"; without a name a GPU where there is one. Raises InputError for a GPU that is not there."""
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda", "is not there", action="train with --device cpu, or on a machine with a GPU")
    return name or ("cuda" if torch.cuda.is_available() else "cpu")
