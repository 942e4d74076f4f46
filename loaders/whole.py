"""Files and folders that are whole or absent: whoever is killed while writing one leaves what was there before."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Gives a path to write to, and puts what was written there in the place of `path` when the block ends well.

    Folders above `path` are made. The path to write to lies beside it, under a name that no other process takes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Gives an empty folder to write into, and puts it in the place of `path` when the block ends well.

    One process at a time may write a folder: what an earlier one left of it, killed, is removed. A link to a folder
    stays a link.
    """
    path = path.resolve()
    partial = path.with_name(f".{path.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        yield partial
        _replace(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _replace(new: Path, target: Path) -> None:
    """Puts the folder `new` in place of `target` so that a kill at any moment leaves one of the two under that name."""
    if not target.exists():
        new.rename(target)
    elif _exchange(new, target):
        shutil.rmtree(new, ignore_errors=True)
    else:  # no atomic exchange on this system: the name is absent for the instant between two renames
        old = target.with_name(f".{target.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        target.rename(old)
        new.rename(target)
        shutil.rmtree(old, ignore_errors=True)


def _exchange(a: Path, b: Path) -> bool:
    """Swaps two folders in one step where the system can (Linux renameat2); False where it cannot."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if os.name == "posix" else None
    at_cwd, exchange = -100, 2
    return renameat2 is not None and renameat2(at_cwd, bytes(a), at_cwd, bytes(b), exchange) == 0
