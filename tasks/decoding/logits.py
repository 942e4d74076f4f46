"""The functions of logits of all decoders: pure functions of tensors of shape (n, vocabulary)."""

from __future__ import annotations

import math

import torch


def contrasted(plain: torch.Tensor, contrast: torch.Tensor, alpha: float) -> torch.Tensor:
    """Compute (1 + alpha) plain - alpha contrast.

    VCD (Leng et al. 2024, equation 3), CRG (Wan et al. 2025) and ICD (Wang et al. 2024, in its code) use this contrast.

    Args:
        plain: Logits of the prompt.
        contrast: Logits of the contrast.
        alpha: Weight of the contrast.

    Returns:
        Scores of the shape of `plain`.
    """
    return (1 + alpha) * plain - alpha * contrast


def mask_implausible(scores: torch.Tensor, plain: torch.Tensor, beta: float) -> torch.Tensor:
    """Set scores to -inf for tokens less likely than beta times the likeliest token of `plain`.

    This is the adaptive plausibility constraint (Li et al. 2023; VCD, equation 4).

    Args:
        scores: Scores to mask.
        plain: Logits of the prompt.
        beta: Cutoff; 0 masks no token.

    Returns:
        Scores of the shape of `scores`.
    """
    if beta == 0:
        return scores
    minimum = plain.amax(-1, keepdim=True) + math.log(beta)
    return scores.masked_fill(plain < minimum, -math.inf)


def compute_mutual_information(
    plain: torch.Tensor, blind: torch.Tensor, step: int, forgetting: float, confident: float
) -> torch.Tensor:
    """Compute M3ID's scores (Favero et al. 2024).

    The scores are l_c + (1 - gamma_t) / gamma_t (l_c - l_u) with gamma_t = exp(-forgetting t), for log-probabilities
    with the image (l_c) and without it (l_u). A row whose likeliest token has a probability of at least `confident`
    stays unchanged.

    Args:
        plain: Logits with the image.
        blind: Logits without the image.
        step: t, 1 for the first token.
        forgetting: Rate of forgetting.
        confident: Probability from which a row stays unchanged.

    Returns:
        Scores of the shape of `plain`; the log-probabilities with the image for an unchanged row.
    """
    conditional, unconditional = plain.log_softmax(-1), blind.log_softmax(-1)
    weight = math.expm1(forgetting * step)  # (1 - gamma) / gamma
    unsure = conditional.amax(-1, keepdim=True) < math.log(confident) if confident < 1 else torch.tensor(True)
    return torch.where(unsure.to(conditional.device), conditional + weight * (conditional - unconditional), conditional)


def guide_logits(highlighted: torch.Tensor, plain: torch.Tensor, gamma: float) -> torch.Tensor:
    """Compute gamma log p_highlighted - (gamma - 1) log p_plain.

    Source: Zhang et al. 2024b; HEAL-MedVQA, equation 8, whose symbols are missing in our copy of the text.

    Args:
        highlighted: Logits of the highlighted branch.
        plain: Logits of the plain branch.
        gamma: Weight; 1 yields the highlighted branch, 0 the plain one.

    Returns:
        Scores of the shape of `plain`.
    """
    with_light, without = highlighted.log_softmax(-1), plain.log_softmax(-1)
    return without + gamma * (with_light - without)


def add_bias(plain: torch.Tensor, tokens: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Add a constant per row to the logits of some tokens, which is a pure shift towards yes.

    Args:
        plain: Logits of the prompt.
        tokens: Ids of the tokens.
        bias: Constants (n, 1).

    Returns:
        A copy of the logits with the constants.
    """
    scores = plain.clone()
    scores[:, tokens] += bias
    return scores
