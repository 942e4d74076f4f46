"""Files and folders that are whole or absent: whoever is killed while writing one leaves what was there before.

What a killed process left of its work has a hidden name that ends in `.partial`, `.old` or `.lock`, and the next one
that does the same work removes it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from .errors import NO_SPACE, InputError

_SCRATCH = ".medfaith-"


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Gives a path to write to, and puts what was written there in the place of `path` when the block ends well.

    Folders above `path` are made. The path to write to lies beside it. Of several processes that write the same file
    each waits for the one before.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(path)
    with _alone(path, wait=True):
        try:
            yield partial
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Gives an empty folder to write into, and puts it in the place of `path` when the block ends well.

    What an earlier process left of it, killed, is removed. A link to a folder stays a link.

    Raises InputError where another process is writing the same folder, and where this one runs in it: whoever stays
    there would go on seeing the old one.
    """
    path = path.resolve()
    with suppress(OSError):  # the folder that this runs in is gone
        if Path.cwd().is_relative_to(path):
            action = "run the command from another folder, or choose another place"
            raise InputError(path, "would be replaced, and this command runs in it", action=action)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial, old = _partial(path), _old(path)
    with _alone(path, wait=False):
        if old.exists() and not path.exists():  # killed between two renames
            old.rename(path)
        for left in (partial, old):
            shutil.rmtree(left, ignore_errors=True)
        try:
            partial.mkdir()
            yield partial
            _replace(partial, path)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def remove_lock(path: Path) -> None:
    """Removes the lock of a file or folder that is whole, which a process left that was killed after its last step.

    For commands that write over nothing: the next writer removes it in any case. That of a living one stays.
    """
    if _lock(path).exists():
        with suppress(InputError), _alone(path, wait=False):
            pass


@contextmanager
def scratch_folder(where: Path | None = None) -> Iterator[Path]:
    """Gives an empty folder, which is gone when the block ends. Those of killed processes are removed, too.

    where: the folder that it lies in; None: the system's for temporary files.

    Raises InputError where the latter is full.
    """
    from filelock import FileLock, Timeout

    lies_in = Path(tempfile.gettempdir()) if where is None else where
    for left in lies_in.glob(f"{_SCRATCH}*.partial"):
        if _is_ours(left):
            with suppress(OSError, Timeout), FileLock(left / ".lock", timeout=0):  # whoever lives holds it
                shutil.rmtree(left)
    with ExitStack() as last:
        folder = _locked(lies_in, last)
        try:
            yield folder
        except OSError as error:
            if where is not None or error.errno not in NO_SPACE or not _may_be_in(folder, error):
                raise
            action = "make space, or name another folder in the environment variable TMPDIR"
            raise InputError(lies_in, f"cannot be written ({os.strerror(error.errno)})", action=action) from error


def _locked(lies_in: Path, last: ExitStack) -> Path:
    """A new folder in one with a lock; both go with `last`."""
    from filelock import FileLock

    while True:
        with ExitStack() as made:
            outer = tempfile.TemporaryDirectory(prefix=_SCRATCH, suffix=".partial", dir=lies_in)
            folder = Path(made.enter_context(outer)) / "files"
            with suppress(FileNotFoundError):  # another process took it for a left one before it had its lock
                made.enter_context(FileLock(folder.with_name(".lock")))
                folder.mkdir()
                last.enter_context(made.pop_all())
                return folder


def require_writable(folder: Path) -> None:
    """Raises OSError for a folder that may not be written: hours later would be late."""
    with tempfile.TemporaryFile(dir=folder):
        pass


def require_own(folder: Path, record: str) -> None:
    """Raises InputError for a folder that holds something, but not `record`, the file that is in all that we write."""
    if not folder.exists() or (folder / record).exists():
        return
    if not folder.is_dir() or not all(is_partial(Path(path.name)) for path in folder.iterdir()):
        raise InputError(folder, f"holds other files, and no {record}", action="choose an empty or a new folder")


def is_partial(path: Path) -> bool:
    """Whether a file belongs to what somebody writes, or was killed while writing."""
    return any(name.startswith(".") and name.endswith((".partial", ".old", ".lock")) for name in path.parts)


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial")


def _lock(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def _old(path: Path) -> Path:
    return path.with_name(f".{path.name}.old")


def _may_be_in(folder: Path, error: OSError) -> bool:
    """Whether it is of a file in the folder, as far as it says: one of a write names no file."""
    named = error.filename2 or error.filename  # what is copied is named before its copy
    return named is None or Path(str(named)).is_relative_to(folder)


def _is_ours(folder: Path) -> bool:
    """Whether it is a folder of this user, where nobody else can have put a link."""
    try:
        told = folder.lstat()
    except OSError:  # gone, meanwhile
        return False
    return stat.S_ISDIR(told.st_mode) and (os.name != "posix" or told.st_uid == os.getuid())


@contextmanager
def _alone(path: Path, *, wait: bool) -> Iterator[None]:
    """One process at a time is in here for a path. Its lock is free when it has ended, killed or not."""
    from filelock import FileLock, Timeout

    lock = FileLock(_lock(path), timeout=-1 if wait else 0)
    try:
        lock.acquire()
    except Timeout:
        action = "wait until it has ended, or choose another place"
        raise InputError(path, "is being written by another process; nothing was changed", action=action) from None
    try:
        yield
    finally:
        with suppress(OSError):  # before the release: whoever waits for a file that is gone makes a new one
            Path(lock.lock_file).unlink()
        lock.release()


def _replace(new: Path, target: Path) -> None:
    """Puts the folder `new` in place of `target` so that a kill at any moment leaves one of the two under that name."""
    if not target.exists():
        new.rename(target)
    elif _exchange(new, target):
        shutil.rmtree(new, ignore_errors=True)
    else:  # no atomic exchange on this system: the name is absent for the instant between two renames
        target.rename(_old(target))
        new.rename(target)
        shutil.rmtree(_old(target), ignore_errors=True)


def _exchange(a: Path, b: Path) -> bool:
    """Swaps two folders in one step where the system can (Linux renameat2); False where it cannot."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if os.name == "posix" else None
    at_cwd, exchange = -100, 2
    return renameat2 is not None and renameat2(at_cwd, bytes(a), at_cwd, bytes(b), exchange) == 0
