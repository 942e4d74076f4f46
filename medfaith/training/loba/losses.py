"""The losses of LobA (HEAL-MedVQA, section 4.1, equations 2-4)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.nn import functional


class Loss(NamedTuple):
    """The loss of equation 4 and its parts, all scalars.

    Attributes:
        total: The loss.
        text: The cross entropy of the answer's tokens (equation 2).
        bce: The binary cross entropy of the mask.
        dice: The Dice loss of the mask.
    """

    total: torch.Tensor
    text: torch.Tensor
    bce: torch.Tensor
    dice: torch.Tensor


def objective(text: torch.Tensor, logits: torch.Tensor, masks: torch.Tensor, weight: float) -> Loss:
    """Compute equations 3 and 4: text + weight * (BCE + Dice). The paper does not print its weight, lambda.

    Args:
        text: A scalar, the cross entropy of the text.
        logits: (n, h, w), the predicted masks.
        masks: (n, h, w), 0 or 1.
        weight: The weight of the mask losses.

    Returns:
        The total and its three parts, scalars.
    """
    bce, dice = bce_loss(logits, masks), dice_loss(logits, masks)
    return Loss(text + weight * (bce + dice), text, bce, dice)


def bce_loss(logits: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
    """Compute the mean binary cross entropy over all pixels, in nats.

    Args:
        logits: (n, h, w), the predicted masks.
        masks: (n, h, w), 0 or 1.

    Returns:
        A scalar.
    """
    return functional.binary_cross_entropy_with_logits(logits, masks.to(logits.dtype))


def dice_loss(logits: torch.Tensor, masks: torch.Tensor, smooth: float = 1.0) -> torch.Tensor:
    """Compute the mean over n of 1 - (2 I + smooth) / (P + G + smooth), from 0 to 1.

    I, P and G are the sums over the pixels of p * g, p and g, with p = sigmoid(logits) and g = masks. With `smooth` 1,
    the loss of an empty mask falls to 0 with the prediction: P / (P + 1). With 0, the plain formula, it is 1 for every
    prediction and teaches nothing.

    Args:
        logits: (n, h, w), the predicted masks.
        masks: (n, h, w), 0 or 1.
        smooth: The smoothing term, in pixels.

    Returns:
        A scalar.

    >>> nothing, empty = torch.full((1, 2, 2), -50.0), torch.zeros(1, 2, 2)
    >>> round(float(dice_loss(nothing, empty)), 4), round(float(dice_loss(-nothing, empty)), 4)
    (0.0, 0.8)
    """
    probabilities, masks = logits.sigmoid().flatten(1), masks.to(logits.dtype).flatten(1)
    shared = (probabilities * masks).sum(1)
    return (1 - (2 * shared + smooth) / (probabilities.sum(1) + masks.sum(1) + smooth)).mean()
