"""Work of worker processes, which import this module and none of the tests' heavy ones."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def compute_squares(task: range, *, fault: Exception | None = None, killed: Path | None = None) -> list[int]:
    """Compute squares; at 13, raise `fault`, or kill the process once if the file `killed` does not exist yet."""
    if 13 in task and fault is not None:
        raise fault
    if 13 in task and killed is not None and not killed.exists():
        killed.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return [number * number for number in task]


def get_pids(task: range) -> list[int]:
    return [os.getpid()] * len(task)


def is_deaf(task: range) -> list[int]:
    return [signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())] * len(task)


def wait_and_square(file: Path, task: range) -> list[int]:
    while not file.exists():
        time.sleep(0.01)
    return compute_squares(task)
