"""The noisy image of VCD (Leng et al. 2024, section 3.1): forward diffusion of the vision encoder's input."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import torch

STEPS = 1000


def compute_noise_scales(step: int) -> tuple[float, float]:
    """Compute the scales of image and noise after some of 1,000 diffusion steps.

    The betas increase from 1e-5 to 5e-3 along a sigmoid, as in VCD's code.

    Args:
        step: Number of the step.

    Returns:
        Factor of the image and factor of the noise; their squares sum to 1.
    """
    betas = torch.sigmoid(torch.linspace(-6, 6, STEPS, dtype=torch.float64)) * (5e-3 - 1e-5) + 1e-5
    signal = float(torch.cumprod(1 - betas, 0)[step])
    return signal**0.5, (1 - signal) ** 0.5


def add_noise(tiles: Iterable[torch.Tensor], step: int, seed: int, frames: int = 1) -> list[torch.Tensor]:
    """Add noise to each tile or image. The noise depends on its pixels and the seed only.

    Therefore a row has the same noise in every batch. Tiles of zeros are padding and stay unchanged.

    Args:
        tiles: Tiles or images.
        step: Number of diffusion steps.
        seed: The seed.
        frames: Number of times that a row of patches (n, channels x frames x pixels) repeats its frame. All repeats get
            the same noise.

    Returns:
        The noisy tiles, in the same order.
    """
    signal_scale, noise_scale = compute_noise_scales(step)
    return [
        signal_scale * tile + noise_scale * _draw_noise(tile, seed, frames) if tile.any() else tile for tile in tiles
    ]


def _draw_noise(tile: torch.Tensor, seed: int, frames: int) -> torch.Tensor:
    content = tile.detach().float().cpu().numpy().tobytes()
    tile_seed = int.from_bytes(hashlib.sha256(seed.to_bytes(8, "little") + content).digest()[:8], "little")
    generator = torch.Generator().manual_seed(tile_seed % 2**63)
    if frames == 1:
        noise = torch.randn(tile.shape, generator=generator)
    else:
        frame_noise = torch.randn(len(tile), 3, 1, tile.shape[1] // (3 * frames), generator=generator)
        noise = frame_noise.expand(-1, -1, frames, -1).reshape(tile.shape)
    return noise.to(tile.device, tile.dtype)
