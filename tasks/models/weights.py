"""What tells the weights of one model from those of another."""

from __future__ import annotations

from hashlib import blake2b

import torch

SAMPLED = 256  # numbers of each weight that tell one model from another


def weights_digest(model: torch.nn.Module) -> str:
    """Tells models of one name apart: a hash of every weight's name and shape, and of numbers spread over it."""
    digest = blake2b(digest_size=8)
    for name, weight in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(weight.shape)}".encode())
        digest.update(_numbers(model, name, weight).double().cpu().numpy().tobytes())
    return digest.hexdigest()


def _numbers(model: torch.nn.Module, name: str, weight: torch.Tensor) -> torch.Tensor:
    """Numbers spread over a weight, also over one that lies on disk or in main memory until it is used."""
    if weight.is_meta:
        from accelerate.utils import align_module_device

        owner, _, own_name = name.rpartition(".")
        module = model.get_submodule(owner)
        with align_module_device(module):
            return _numbers(model, name, getattr(module, own_name))
    flat = weight.detach().reshape(-1)
    return flat[:: max(1, flat.numel() // SAMPLED)].clone()
