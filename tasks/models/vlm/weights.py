"""A hash that distinguishes the weights of models."""

from __future__ import annotations

from hashlib import blake2b

import torch

SAMPLED = 256  # numbers per weight that enter the hash


def hash_weights(model: torch.nn.Module) -> str:
    """Hash the name and shape of every weight, and numbers spread over it.

    Args:
        model: The model.

    Returns:
        A hexadecimal digest of 64 bits.
    """
    digest = blake2b(digest_size=8)
    for name, weight in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(weight.shape)}".encode())
        digest.update(_sample_numbers(model, name, weight).double().cpu().numpy().tobytes())
    return digest.hexdigest()


def _sample_numbers(model: torch.nn.Module, name: str, weight: torch.Tensor) -> torch.Tensor:
    """Sample numbers spread over a weight, including weights that are offloaded to disk or main memory."""
    if weight.is_meta:
        from accelerate.utils import align_module_device

        owner, _, own_name = name.rpartition(".")
        module = model.get_submodule(owner)
        with align_module_device(module):
            return _sample_numbers(model, name, getattr(module, own_name))
    flat = weight.detach().reshape(-1)
    return flat[:: max(1, flat.numel() // SAMPLED)].clone()
