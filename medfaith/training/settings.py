"""Numbers of a fine-tuning. Nothing here needs torch: the command lists the defaults in its help."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """lr: of AdamW. epochs: passes over the rows; not used where `steps` is given. batch: rows of a step on the device,
    times `accumulate`. warmup: steps. save_every: steps between checkpoints. bf16: mixed precision.
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
    """rank: 16, as CXR-ContraBench prints (Appendix H). alpha and dropout are ours: neither paper prints them."""

    rank: int = 16
    alpha: int = 32
    dropout: float = 0.05
