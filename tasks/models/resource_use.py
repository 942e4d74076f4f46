"""What the answers of a run took: seconds of the model, and memory of its GPU (HEAL-MedVQA, Table 6)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_MIB = 2**20


class Work:
    """Counts the answers that a model gives, and the seconds that it is busy with them.

    Preparing the images for the model counts, opening their files does not. Answers that a store had kept take nothing.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._answers, self._seconds = 0, 0.0
        self._since: float | None = None

    @contextmanager
    def busy(self, answers: int = 0) -> Iterator[None]:
        """Counts the time within, once where one stands inside another. answers: how many are given there."""
        outermost = self._since is None
        if outermost:
            if not self._seconds and self._device.type == "cuda":
                torch.cuda.reset_peak_memory_stats(self._device)
            self._since = time.perf_counter()
        try:
            yield
        finally:
            self._answers += answers
            if outermost and self._since is not None:
                self._seconds += time.perf_counter() - self._since
                self._since = None

    def told(self) -> dict[str, Any]:
        """As the results keep it; the next run begins at 0. peak_memory: MiB of the GPU, None without one."""
        on_gpu = self._device.type == "cuda"
        found = {
            "answers": self._answers,
            "seconds": self._seconds,
            "peak_memory": torch.cuda.max_memory_allocated(self._device) / _MIB if on_gpu else None,
            "on": torch.cuda.get_device_name(self._device) if on_gpu else self._device.type,
        }
        self._answers, self._seconds = 0, 0.0
        return found
