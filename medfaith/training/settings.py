"""Settings of a fine-tuning. This module does not need torch: the command lists the defaults in its help."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Settings of a training.

    Attributes:
        lr: The learning rate of AdamW.
        epochs: Passes over the rows; ignored if `steps` is given.
        steps: Steps of the training.
        batch: Rows a batch on the device.
        accumulate: Batches a step.
        warmup: Warm-up steps.
        save_every: Steps between checkpoints.
        log_every: Steps between log entries.
        workers: Processes that load rows.
        bf16: Whether to use mixed precision.
        seed: The seed.
    """

    lr: float = 2e-4
    epochs: float = 1.0
    steps: int | None = None
    batch: int = 4
    accumulate: int = 1
    warmup: int = 0
    save_every: int = 500
    log_every: int = 10
    workers: int = 0
    bf16: bool = False
    seed: int = 0


@dataclass(frozen=True)
class Lora:
    """Settings of LoRA. Alpha and dropout are ours: neither paper prints them.

    Attributes:
        rank: The rank; CXR-ContraBench prints 16 (Appendix H).
        alpha: The scale of the matrices is alpha / rank.
        dropout: The dropout of LoRA's inputs.
    """

    rank: int = 16
    alpha: int = 32
    dropout: float = 0.05
