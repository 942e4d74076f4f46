"""Word-region alignment of UNITER: the optimal transport of words to regions (Chen et al., ECCV 2020, section 3.2)."""

from __future__ import annotations

import torch
from torch.nn.functional import normalize

BETA, N_ITERATIONS = 0.5, 50  # of the released code


def compute_distance(
    words: torch.Tensor, regions: torch.Tensor, word_mask: torch.Tensor, region_mask: torch.Tensor
) -> torch.Tensor:
    """Compute the cost of transporting words to regions. The gradient flows through the costs, not the plan.

    Args:
        words: States of the word pieces (n, t, d).
        regions: States of the regions (n, k, d).
        word_mask: Shape (n, t), 0 for padding.
        region_mask: Shape (n, k), 0 for padding.

    Returns:
        Shape (n,), the sum of the plan times one minus the cosine.
    """
    costs = 1 - normalize(words, dim=-1) @ normalize(regions, dim=-1).transpose(1, 2)
    return (find_plan(costs.detach(), word_mask, region_mask) * costs).sum(dim=(1, 2))


def find_plan(costs: torch.Tensor, word_mask: torch.Tensor, region_mask: torch.Tensor) -> torch.Tensor:
    """Find a transport plan by the inexact proximal point method (Xie et al., UAI 2019).

    Args:
        costs: Shape (n, t, k).
        word_mask: Shape (n, t), 0 for padding.
        region_mask: Shape (n, k), 0 for padding.

    Returns:
        Shape (n, t, k). Each word has the same mass, and so has each region, with the sum 1.
    """
    is_pair = (word_mask[:, :, None] * region_mask[:, None]).to(costs.dtype)
    word_mass, region_mass = (mask.to(costs.dtype) / mask.sum(dim=1, keepdim=True) for mask in (word_mask, region_mask))
    kernel = torch.exp(-costs / BETA) * is_pair
    plan, region_scale = is_pair, region_mass
    for _ in range(N_ITERATIONS):
        proximal = kernel * plan
        word_scale = _divide(word_mass, (proximal @ region_scale[..., None])[..., 0])
        region_scale = _divide(region_mass, (word_scale[:, None] @ proximal)[:, 0])
        plan = word_scale[..., None] * proximal * region_scale[:, None]
    return plan


def _divide(mass: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    """Divide, with 0 for padding."""
    return torch.where(mass > 0, mass / total.clamp_min(torch.finfo(total.dtype).tiny), 0)
