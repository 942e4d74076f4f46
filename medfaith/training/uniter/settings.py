"""Options of a training of UNITER. This module needs no torch: the command lists the defaults in its help."""

from __future__ import annotations

from dataclasses import dataclass

from ..recipes import Options

ROUNDS, PATIENCE = 50, 10  # epochs; the patience is the paper's (section 4.1)


@dataclass(frozen=True)
class UniterOptions(Options):
    """Options of a training of UNITER.

    Attributes:
        batch_size: Sentences a batch, each with its image.
        accumulate: Batches a step of the optimizer.
        dropout: The dropout of hidden states and of attention.
        patience: Epochs without a lower validation loss before the training stops.
        abnormal: Whether the model learns from sentences about an abnormality only.
    """

    batch_size: int = 32
    accumulate: int = 1
    dropout: float = 0.1  # of UNITER's released configuration
    patience: int = PATIENCE
    abnormal: bool = False
