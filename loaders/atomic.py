"""Atomic writes of files and folders: a process that is killed while it writes leaves the previous version unchanged.

Temporary files of a killed process have a hidden name that ends in `.partial`, `.old` or `.lock`. The next process
that writes the same file or folder removes them.
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
    """Yield a temporary path to write to, and move it to `path` when the block ends without an error.

    Missing parent folders are created. The temporary file is in the folder of `path`. If several processes write the
    same file, each waits for the one before. A link to a file stays a link, and the permissions of an existing file
    stay as they are; a new file has those that the umask leaves.

    Args:
        path: The file to write.

    Yields:
        The temporary path.

    Raises:
        InputError: The path is a folder, a device or another special file.
    """
    path = Path(os.path.realpath(path))
    require_replaceable(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _build_partial_path(path)
    with exclusive_access(path, wait=True):
        try:
            yield partial
            _copy_permissions(path, partial)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield an empty temporary folder, and move it to `path` when the block ends without an error.

    Temporary files of an earlier process that was killed are removed. A link to a folder stays a link, and the
    permissions of an existing folder stay as they are.

    Args:
        path: The folder to write.

    Yields:
        The temporary folder.

    Raises:
        InputError: Another process is writing the same folder, or the current process runs in it and would continue to
            see the previous version.
    """
    path = path.resolve()
    require_elsewhere(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial, old = _build_partial_path(path), _build_old_path(path)
    with exclusive_access(path, wait=False):
        if old.exists() and not path.exists():  # killed between two renames
            old.rename(path)
        for leftover in (partial, old):
            shutil.rmtree(leftover, ignore_errors=True)
        try:
            partial.mkdir()
            yield partial
            _replace_folder(partial, path)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def require_replaceable(path: Path) -> None:
    """Require a path that is free or a regular file, before the work for the new file begins.

    Args:
        path: The file to write.

    Raises:
        InputError: It is a folder, or a special file such as /dev/null, which a new file would remove.
    """
    if path.exists() and not path.is_file():
        problem = "is a folder" if path.is_dir() else "is a device or another special file"
        raise InputError(path, problem, expected="a file to write", action="name a new file, or one to replace")


def require_elsewhere(path: Path) -> None:
    """Require that the current process does not run in a folder that it is going to replace.

    Args:
        path: The folder.

    Raises:
        InputError: It does. It would continue to see the previous version.
    """
    path = path.resolve()
    with suppress(OSError):  # the current folder is gone
        if Path.cwd().is_relative_to(path):
            action = "run the command from another folder, or choose another place"
            raise InputError(path, "would be replaced, and this command runs in it", action=action)


def remove_lock(path: Path) -> None:
    """Remove a stale lock that a process left because it was killed after it had finished writing.

    This is for commands that never overwrite: a writer removes a stale lock in any case. The lock of a running process
    stays.

    Args:
        path: The file or folder that the lock protects.
    """
    if _build_lock_path(path).exists():
        with suppress(InputError), exclusive_access(path, wait=False):
            pass


@contextmanager
def scratch_folder(where: Path | None = None) -> Iterator[Path]:
    """Yield an empty temporary folder and remove it when the block ends. Folders of killed processes are removed, too.

    Args:
        where: The parent folder; by default, the system's folder for temporary files.

    Yields:
        The folder.

    Raises:
        InputError: The system's folder for temporary files is full.
    """
    from filelock import FileLock, Timeout

    parent = Path(tempfile.gettempdir()) if where is None else where
    for leftover in parent.glob(f"{_SCRATCH}*.partial"):
        if _is_owned(leftover):
            with (
                suppress(OSError, Timeout),
                FileLock(leftover / ".lock", timeout=0),
            ):  # a running process holds the lock
                shutil.rmtree(leftover)
    with ExitStack() as stack:
        folder = _create_locked_folder(parent, stack)
        try:
            yield folder
        except OSError as error:
            if where is not None or error.errno not in NO_SPACE or not _is_possibly_inside(folder, error):
                raise
            action = "make space, or name another folder in the environment variable TMPDIR"
            raise InputError(parent, f"cannot be written ({os.strerror(error.errno)})", action=action) from error


def _create_locked_folder(parent: Path, stack: ExitStack) -> Path:
    """Create a folder inside a temporary folder with a lock; `stack` removes both."""
    from filelock import FileLock

    while True:
        with ExitStack() as cleanup:
            # Another process may try the lock during the removal and so add a file; it then removes the folder itself.
            outer = tempfile.TemporaryDirectory(
                prefix=_SCRATCH, suffix=".partial", dir=parent, ignore_cleanup_errors=True
            )
            folder = Path(cleanup.enter_context(outer)) / "files"
            with suppress(FileNotFoundError):  # another process removed it as a leftover before it had its lock
                cleanup.enter_context(FileLock(folder.with_name(".lock")))
                folder.mkdir()
                stack.enter_context(cleanup.pop_all())
                return folder


def require_writable(folder: Path) -> None:
    """Raise an error before hours of work if the folder cannot be written.

    Args:
        folder: The folder.

    Raises:
        OSError: A file cannot be created in the folder.
    """
    with tempfile.TemporaryFile(dir=folder):
        pass


def require_own(folder: Path, record: str) -> None:
    """Raise an error if a folder has content that is not ours.

    Args:
        folder: The folder; it may be missing or empty.
        record: The name of the file that each folder of ours has.

    Raises:
        InputError: The folder has files, but not `record`.
    """
    if not folder.exists() or (folder / record).exists():
        return
    if not folder.is_dir() or not all(is_partial(Path(path.name)) for path in folder.iterdir()):
        raise InputError(folder, f"holds other files, and no {record}", action="choose an empty or a new folder")


def is_partial(path: Path) -> bool:
    """Return whether a path is a temporary file of a running or killed writer.

    Args:
        path: The path.

    Returns:
        True if one of its names is hidden and ends in `.partial`, `.old` or `.lock`.
    """
    return any(name.startswith(".") and name.endswith((".partial", ".old", ".lock")) for name in path.parts)


def _build_partial_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial")


def _build_lock_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def _build_old_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.old")


def _is_possibly_inside(folder: Path, error: OSError) -> bool:
    """Return whether an error can concern a file in the folder. An error of a write does not name a file."""
    error_path = error.filename2 or error.filename  # `filename` is the original of a copy, `filename2` the copy
    return error_path is None or Path(str(error_path)).is_relative_to(folder)


def _is_owned(folder: Path) -> bool:
    """Return whether this user owns the folder and it is not a link, which could redirect the removal."""
    try:
        status = folder.lstat()
    except OSError:  # removed by another process
        return False
    return stat.S_ISDIR(status.st_mode) and (os.name != "posix" or status.st_uid == os.getuid())


@contextmanager
def exclusive_access(path: Path, *, wait: bool) -> Iterator[None]:
    """Let one process at a time work on a path. The lock is free as soon as its process has ended, killed or not.

    Args:
        path: The file or folder.
        wait: Whether to wait for another process.

    Yields:
        Nothing.

    Raises:
        InputError: Another process works on the path, and `wait` is false.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(_build_lock_path(path), timeout=-1 if wait else 0)
    try:
        lock.acquire()
    except Timeout:
        action = "wait until it has ended, or choose another place"
        raise InputError(path, "is being written by another process; nothing was changed", action=action) from None
    try:
        yield
    finally:
        with suppress(OSError):  # before the release: a process that waits for the removed file creates a new one
            Path(lock.lock_file).unlink()
        lock.release()


def _copy_permissions(old: Path, new: Path) -> None:
    """Give the new file or folder the permissions of the old one, if there is one: a private file stays private."""
    if old.exists():
        mode = stat.S_IMODE(old.stat().st_mode)
        if stat.S_IMODE(new.stat().st_mode) != mode:  # some file systems refuse even a chmod that changes nothing
            new.chmod(mode)


def _replace_folder(new: Path, target: Path) -> None:
    """Put the folder `new` in place of `target`. A kill at any moment leaves one of the two under that name."""
    _copy_permissions(target, new)
    if not target.exists():
        new.rename(target)
    elif _swap_folders(new, target):
        shutil.rmtree(new, ignore_errors=True)
    else:  # no exchange on this system: a kill between the renames leaves `.old`, which the next write renames back
        target.rename(_build_old_path(target))
        new.rename(target)
        shutil.rmtree(_build_old_path(target), ignore_errors=True)


def _swap_folders(a: Path, b: Path) -> bool:
    """Swap two folders in one step; return False if the system cannot.

    Python has no call for Linux' renameat2. Two renames instead leave no folder if a kill comes between them, until the
    next write: `tests/house/test_interruptions.py` then finds that `medfaith merge` has lost the earlier result.
    """
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if os.name == "posix" else None
    at_cwd, exchange = -100, 2
    return renameat2 is not None and renameat2(at_cwd, bytes(a), at_cwd, bytes(b), exchange) == 0
