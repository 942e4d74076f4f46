"""The noised image of VCD (Leng et al. 2024, section 3.1): forward diffusion of what the vision encoder gets."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import torch

STEPS = 1000


def compute_noise_scales(step: int) -> tuple[float, float]:
    """What is left of the image and how much noise is added after so many of 1,000 steps.

    The betas go from 1e-5 to 5e-3 along a sigmoid, as in VCD's code.
    """
    betas = torch.sigmoid(torch.linspace(-6, 6, STEPS, dtype=torch.float64)) * (5e-3 - 1e-5) + 1e-5
    left = float(torch.cumprod(1 - betas, 0)[step])
    return left**0.5, (1 - left) ** 0.5


def add_noise(parts: Iterable[torch.Tensor], step: int, seed: int, frames: int = 1) -> list[torch.Tensor]:
    """Each part, a tile or an image, with its own noise, which depends on its pixels and the seed alone.

    So a row has the same noise in every batch. A part that is all zeros is padding, and stays so. frames: how many
    times a row of patches, shape (n, channels x frames x pixels), repeats its frame; all repeats get the same noise.
    """
    keep, spread = compute_noise_scales(step)
    return [keep * part + spread * _noise(part, seed, frames) if part.any() else part for part in parts]


def _noise(part: torch.Tensor, seed: int, frames: int) -> torch.Tensor:
    content = part.detach().float().cpu().numpy().tobytes()
    own = int.from_bytes(hashlib.sha256(seed.to_bytes(8, "little") + content).digest()[:8], "little")
    generator = torch.Generator().manual_seed(own % 2**63)
    if frames == 1:
        drawn = torch.randn(part.shape, generator=generator)
    else:
        once = torch.randn(len(part), 3, 1, part.shape[1] // (3 * frames), generator=generator)
        drawn = once.expand(-1, -1, frames, -1).reshape(part.shape)
    return drawn.to(part.device, part.dtype)
