"""A disk that is full, for this process."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_file_above(n_bytes: int) -> Iterator[None]:
    """Limit the size of files in the kernel, which then fails like a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    compiling, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # half of a compiled module would stay
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = compiling
