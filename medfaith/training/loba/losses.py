"""The losses of LobA (HEAL-MedVQA, section 4.1, equations 2-4)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.nn import functional


class Loss(NamedTuple):
    """Equation 4 and its parts, scalars. text: the cross entropy of the answer's tokens (equation 2)."""

    total: torch.Tensor
    text: torch.Tensor
    bce: torch.Tensor
    dice: torch.Tensor


def objective(text: torch.Tensor, logits: torch.Tensor, masks: torch.Tensor, weight: float) -> Loss:
    """text + weight * (BCE + Dice): equations 3 and 4. The paper does not print its weight, lambda.

    Args:
        text: scalar. logits: (n, h, w). masks: (n, h, w), 0 or 1.
    """
    bce, dice = bce_loss(logits, masks), dice_loss(logits, masks)
    return Loss(text + weight * (bce + dice), text, bce, dice)


def bce_loss(logits: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
    """The mean over all pixels of the cross entropy between sigmoid(logits) and masks, both (n, h, w), in nats."""
    return functional.binary_cross_entropy_with_logits(logits, masks.to(logits.dtype))


def dice_loss(logits: torch.Tensor, masks: torch.Tensor, smooth: float = 1.0) -> torch.Tensor:
    """The mean over n of 1 - (2 I + smooth) / (P + G + smooth), from 0 to 1.

    I, P and G are the sums over the pixels of p * g, p and g, where p = sigmoid(logits) and g = masks, both (n, h, w).
    smooth is in pixels. With 1 an empty mask has a loss that falls to 0 with the prediction: P / (P + 1). With 0,
    where the formula is the plain one, it is 1 for each prediction and teaches nothing.

    >>> nothing, empty = torch.full((1, 2, 2), -50.0), torch.zeros(1, 2, 2)
    >>> round(float(dice_loss(nothing, empty)), 4), round(float(dice_loss(-nothing, empty)), 4)
    (0.0, 0.8)
    """
    probabilities, masks = logits.sigmoid().flatten(1), masks.to(logits.dtype).flatten(1)
    shared = (probabilities * masks).sum(1)
    return (1 - (2 * shared + smooth) / (probabilities.sum(1) + masks.sum(1) + smooth)).mean()
