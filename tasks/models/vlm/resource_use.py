"""Resources that the answers of a run take: seconds of the model and GPU memory (HEAL-MedVQA, Table 6)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_MIB = 2**20


class Work:
    """Counts the answers of a model and the seconds that it needs for them.

    Preprocessing of images counts, opening their files does not. Stored answers take no resources.

    Args:
        device: Device of the model.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._answers, self._seconds = 0, 0.0
        self._start: float | None = None

    @contextmanager
    def busy(self, answers: int = 0) -> Iterator[None]:
        """Count the time of a block. Nested blocks count once.

        Args:
            answers: Number of answers that the block generates.

        Yields:
            Nothing.
        """
        outermost = self._start is None
        if outermost:
            if not self._seconds and self._device.type == "cuda":
                torch.cuda.reset_peak_memory_stats(self._device)
            self._start = time.perf_counter()
        try:
            yield
        finally:
            self._answers += answers
            if outermost and self._start is not None:
                self._seconds += time.perf_counter() - self._start
                self._start = None

    def describe(self) -> dict[str, Any]:
        """Build the record for the results, with peak_memory in MiB (None without GPU), and reset the counts."""
        on_gpu = self._device.type == "cuda"
        record = {
            "answers": self._answers,
            "seconds": self._seconds,
            "peak_memory": torch.cuda.max_memory_allocated(self._device) / _MIB if on_gpu else None,
            "on": torch.cuda.get_device_name(self._device) if on_gpu else self._device.type,
        }
        self._answers, self._seconds = 0, 0.0
        return record
