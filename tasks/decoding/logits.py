"""What each decoder makes of a step's logits: pure functions of tensors of shape (n, vocabulary)."""

from __future__ import annotations

import math

import torch


def contrast_logits(plain: torch.Tensor, other: torch.Tensor, alpha: float) -> torch.Tensor:
    """(1 + alpha) plain - alpha other: VCD (Leng et al. 2024, equation 3), CRG (Wan et al. 2025) and ICD (Wang et al.
    2024, as its code has it).
    """
    return (1 + alpha) * plain - alpha * other


def mask_implausible(scores: torch.Tensor, plain: torch.Tensor, beta: float) -> torch.Tensor:
    """The adaptive plausibility constraint (Li et al. 2023; VCD, equation 4): -inf for tokens that are less likely than
    beta times the likeliest one in `plain`. beta 0 keeps all.
    """
    if beta == 0:
        return scores
    least = plain.amax(-1, keepdim=True) + math.log(beta)
    return scores.masked_fill(plain < least, -math.inf)


def compute_mutual_information(
    plain: torch.Tensor, blind: torch.Tensor, step: int, forgetting: float, confident: float
) -> torch.Tensor:
    """M3ID (Favero et al. 2024): l_c + (1 - gamma_t) / gamma_t (l_c - l_u), gamma_t = exp(-forgetting t), of
    log-probabilities with the image (l_c) and without it (l_u).

    A row whose likeliest token has a probability of `confident` or more stays as it is. step: t, 1 for the first token.
    """
    seen, unseen = plain.log_softmax(-1), blind.log_softmax(-1)
    weight = math.expm1(forgetting * step)  # (1 - gamma) / gamma
    unsure = seen.amax(-1, keepdim=True) < math.log(confident) if confident < 1 else torch.tensor(True)
    return torch.where(unsure.to(seen.device), seen + weight * (seen - unseen), seen)


def guide_logits(highlighted: torch.Tensor, plain: torch.Tensor, gamma: float) -> torch.Tensor:
    """gamma log p_highlighted - (gamma - 1) log p_plain (Zhang et al. 2024b; HEAL-MedVQA, equation 8, of which the text
    that we have lacks the symbols). gamma 1 is the highlighted branch alone, 0 the plain one.
    """
    with_light, without = highlighted.log_softmax(-1), plain.log_softmax(-1)
    return without + gamma * (with_light - without)


def biased(plain: torch.Tensor, tokens: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Adds a constant a row, shape (n, 1), to the logits of some tokens: what a shift to yes alone would do."""
    scores = plain.clone()
    scores[:, tokens] += bias
    return scores
