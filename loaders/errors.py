"""The errors a user can act on. A command prints them and exits with status 2; they never show a traceback."""

from __future__ import annotations

import errno
import os
import re
import select
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from .escaping import escape_controls


class MedfaithError(Exception):
    """Base of every error that the input or the environment causes, rather than the program."""


class InputError(MedfaithError):
    """A file, row or column that differs from the official release.

    Args:
        where: The file or folder, as the user named it.
        found: What is wrong there.
        expected: What should be there.
        action: What the user can do.
        row: 1-based data row (the header does not count), if one row is at fault.
        column: Column name, if one column is at fault.
    """

    def __init__(
        self,
        where: str | Path,
        found: str,
        *,
        expected: str = "",
        action: str = "",
        row: int | str | None = None,
        column: str | None = None,
    ) -> None:
        self.where, self.found, self.expected, self.action = str(where), found, expected, action
        self.row, self.column = row, column
        place = [self.where]
        if row is not None:
            place.append(f"row {row}")
        if column is not None:
            place.append(f"column {column!r}")
        lines = [f"{', '.join(place)}: {found}"]
        if expected:
            lines.append(f"  expected: {expected}")
        if action:
            lines.append(f"  what to do: {action}")
        super().__init__("\n".join(lines))

    def __reduce__(self):  # keyword arguments survive the way back from a worker process
        state = (self.where, self.found, self.expected, self.action, self.row, self.column)
        return _build_input_error, state


def _build_input_error(where, found, expected, action, row, column) -> InputError:
    return InputError(where, found, expected=expected, action=action, row=row, column=column)


class MissingSourceError(MedfaithError):
    """A licensed source is missing on this machine; the message says how to get access (sources.toml)."""


class ImageError(MedfaithError):
    """An image that a row references cannot be opened: missing, truncated, or outside its source's root."""


def exit_status(job: Callable[[], int | None]) -> int:
    """Run the job of a command and return its exit status.

    An error that the user can fix is printed to stderr, without a traceback, and gives status 2. If the reader of the
    output has gone, as after `| head`, the status is 0.

    Args:
        job: The command; it returns its own exit status, or None for success.

    Returns:
        The status of the job, or 2 if the user has to fix the input or the environment first.

    Raises:
        SystemExit: The user interrupted the job (status 130).
    """
    try:
        return job() or 0
    except MedfaithError as error:
        _print_error(str(error))
        return 2
    except KeyboardInterrupt as interrupt:
        _print_error("interrupted")
        raise SystemExit(130) from interrupt
    except Exception as error:
        if _is_out_of_memory(error):
            reason = (str(error) or type(error).__name__).splitlines()[0]
            _print_error(f"memory is full ({reason})\n  what to do: {MORE_MEMORY}")
            return 2
        if isinstance(error, BrokenPipeError) and _has_lost_reader():  # such as head or less
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        action = _find_advice(error)
        if action is None:
            raise
        place = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
        message = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
        _print_error(f"{place}{message}\n  what to do: {action}")
        return 2


def _has_lost_reader() -> bool:
    """Return whether stdout or stderr is a pipe that nobody reads any more, such as that of `| head`.

    If it is not, a BrokenPipeError comes from a connection or from the pipe of a worker.
    """
    if not hasattr(select, "poll"):  # Windows
        return True
    poll = select.poll()
    for stream in (sys.stdout, sys.stderr):
        poll.register(stream, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def _print_error(error: str) -> None:
    from .secrets import mask_users  # which raises errors of this module

    message = mask_users(error)  # the message of a library may quote an address
    print(f"medfaith: {escape_controls(message)}", file=sys.stderr)  # it may also quote names and content of files


def install_excepthook() -> None:
    """Install an excepthook that ends any program, such as lm_eval, with message and status 2 on a MedfaithError."""
    if sys.excepthook is sys.__excepthook__:  # no other library has installed a hook
        sys.excepthook = _handle_uncaught


def _handle_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not isinstance(error, MedfaithError):
        sys.__excepthook__(kind, error, trace)
        return
    _print_error(str(error))
    raise SystemExit(2)


_NETWORK = ("aiohttp", "httpcore", "httpx", "httpx2", "huggingface_hub", "openai", "requests", "tenacity", "urllib3")


NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})  # error numbers of a full file system
MORE_MEMORY = (
    "lower what takes memory (--workers of a build, batch_size of a model, --image-cache of a training, --max-cases of "
    "a report), or use a machine with more"
)
STILL_THERE = "check that its disk or share is still there, and run it again"
_AWAY = (errno.EIO, errno.ENODEV, errno.ENOTCONN, errno.ESTALE, errno.EHOSTDOWN)

_KINDS = {  # error number of a path that cannot be used -> what to do
    errno.EACCES: "ask its owner for permission to read it, or to write to it if it is an output",
    errno.EISDIR: "name a file: there is a folder of this name",
    errno.ENOTDIR: "name another path: one of its folders is a file",
    errno.EEXIST: "name another path: there is something of this name, or one of its folders is a file",
}
_PATHS = {  # message of pathlib -> what to do
    "Could not determine home": "a path begins with ~: name a user of this machine after it, or write the full path",
    "Symlink loop": "the link leads to itself: name another path, or fix the link",  # before Python 3.13
}


def _is_out_of_memory(error: Exception) -> bool:
    """Return whether memory is full: Python's, numpy's and Arrow's error, and torch's of a GPU and of a CPU."""
    is_torch = type(error).__name__ == "OutOfMemoryError" or "DefaultCPUAllocator" in str(error)
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and is_torch)


def _find_advice(error: Exception) -> str | None:
    """Return the advice on an error of the network, a model library or the disk; None if the error is a bug."""
    libraries = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    if isinstance(error, ConnectionError | TimeoutError) or libraries & {*_NETWORK}:
        return "check the address or the name, that the server runs and answers, and the key if it takes one"
    if isinstance(error, RuntimeError) and (prefixes := [prefix for prefix in _PATHS if str(error).startswith(prefix)]):
        return _PATHS[prefixes[0]]
    if "safetensors" in "".join(libraries) or re.search(
        r"inline_container(?!.*Reader)", str(error)
    ):  # torch's own writer
        return "check that the folder may be written and has space left"
    if not isinstance(error, OSError):
        return None
    if error.errno is None:  # a library's own message, such as transformers' about a model without weights
        return "check the name or folder of what could not be loaded, and that it is complete"
    advice = _KINDS | dict.fromkeys(_AWAY, STILL_THERE)
    return advice.get(error.errno, "check that the folder exists, may be written and has space left")
