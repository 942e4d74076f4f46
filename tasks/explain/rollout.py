"""Gradient-weighted attention rollout of a vision transformer (SurgXBench, appendix A.2, after Chefer et al., 2021).

The paper prints the recursion R(L) = I, R(l) = R(l+1) + T(l) R(l+1) from the last layer down, that is, R(0) = (I +
T(0)) (I + T(1)) ... (I + T(L-1)): its [CLS] row starts in the first layer. Chefer et al., whom the paper follows, go up
from the first layer, R = (I + T(L-1)) ... (I + T(0)): the [CLS] row starts in the last layer, which the score reads.
`order` chooses; with the last layer only, both are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from ...loaders.errors import MedfaithError

if TYPE_CHECKING:
    import torch

Order = Literal["printed", "forward"]


def relevance(
    attentions: Sequence[torch.Tensor] | None,
    scores: torch.Tensor,
    *,
    order: Order = "printed",
    last_only: bool = False,
) -> torch.Tensor:
    """Compute how much each patch token contributes to each score: R(0) from [CLS], the first token, to the patches.

    Args:
        attentions: One tensor per layer, from the first, (n, heads, N, N) after the softmax, in the graph of `scores`.
        scores: Shape (n, k), k scores for each image; images must not influence one another.
        order: `printed` as in the paper, `forward` as in Chefer et al. (see the module).
        last_only: Whether to use only the last layer.

    Returns:
        (n, k, N - 1), at least 0.

    Raises:
        MedfaithError: The model returns no attentions, or they have no gradients.
    """
    import torch

    if not attentions or any(attention is None for attention in attentions):
        raise MedfaithError(
            "the model gives no attentions to roll out\n"
            "  what to do: load it with attn_implementation='eager'; others do not return them"
        )
    layers = list(attentions)[-1:] if last_only else list(attentions)
    if not all(attention.requires_grad for attention in layers):
        raise MedfaithError(
            "the model's attentions have no gradients: its weights are frozen\n"
            "  what to do: let the pixels require gradients (pixels.requires_grad_())"
        )
    rows = []
    with torch.enable_grad():
        values = scores.sum(dim=0).unbind()  # images are independent: the sum's gradient has each image's gradient
    for value in values:
        gradients = torch.autograd.grad(value, layers, retain_graph=True)
        weighted = [weigh(attention.detach(), slope) for attention, slope in zip(layers, gradients, strict=True)]
        rows.append(compute_class_row(weighted, order)[:, 1:])
    empty = scores.new_zeros(len(scores), 0, layers[0].shape[-1] - 1)
    return torch.stack(rows, dim=1) if rows else empty


def weigh(attention: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """Compute T~ = ReLU(gradient * attention), averaged over heads as in Chefer et al.

    The paper does not mention heads.

    Args:
        attention: Shape (n, heads, N, N).
        gradient: Shape (n, heads, N, N).

    Returns:
        Shape (n, N, N).
    """
    return (gradient * attention).relu().mean(dim=1)


def compute_class_row(weighted: Sequence[torch.Tensor], order: Order = "printed") -> torch.Tensor:
    """Compute the first row of R(0). One row of a product of matrices needs only vectors, from the left.

    Args:
        weighted: Matrices (n, N, N), one per layer from the first.
        order: As in `relevance`.

    Returns:
        Shape (n, N).
    """
    row = weighted[0].new_zeros(weighted[0].shape[:2])
    row[:, 0] = 1
    for matrix in weighted if order == "printed" else reversed(weighted):
        row = multiply_row(row, matrix)
    return row


def multiply_row(row: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """Multiply a row of relevancies with I + T of one more layer.

    Args:
        row: Shape (n, N).
        matrix: T~ of the layer (n, N, N).

    Returns:
        Shape (n, N).
    """
    return row + (row[:, None] @ matrix)[:, 0]
