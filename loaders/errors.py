"""The errors a user can act on. A command prints them and exits with status 2; they never show a traceback."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from .escaping import escape_controls


class MedfaithError(Exception):
    """Base of every error that is the input's or the environment's, not the program's."""


class InputError(MedfaithError):
    """A file, row or column is not what the official release has.

    Args:
        where: the file or folder (as the user named it).
        found: what is wrong there.
        expected: what should be there.
        action: what the user can do.
        row: 1-based data row (the header is not counted), when one row is at fault.
        column: column name, when one column is at fault.
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
        return _input_error, state


def _input_error(where, found, expected, action, row, column) -> InputError:
    return InputError(where, found, expected=expected, action=action, row=row, column=column)


class MissingSourceError(MedfaithError):
    """A licensed source is not on this machine; the message carries how to get access (sources.toml)."""


class ImageError(MedfaithError):
    """An image that a row references cannot be opened: missing, truncated, or outside its source's root."""


def exit_status(job: Callable[[], int | None]) -> int:
    """Runs what a command does: its own status, or 2 where the input or the environment has to be mended first.

    What has to be mended goes to stderr.
    """
    try:
        return job() or 0
    except MedfaithError as error:
        _say(str(error))
        return 2
    except KeyboardInterrupt as interrupt:
        _say("interrupted")
        raise SystemExit(130) from interrupt
    except BrokenPipeError:  # the reader of our output (head, less) has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        action = _advice(error)
        if action is None:
            raise
        place = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
        said = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
        _say(f"{place}{said}\n  what to do: {action}")
        return 2


def _say(error: str) -> None:
    print(f"medfaith: {escape_controls(error)}", file=sys.stderr)  # it may name files and quote what they hold


def end_as_ours() -> None:
    """From here on, a MedfaithError that nobody catches ends a program of others (lm_eval) as it ends medfaith."""
    if sys.excepthook is sys.__excepthook__:  # nobody else has a say in it
        sys.excepthook = _end


def _end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not isinstance(error, MedfaithError):
        sys.__excepthook__(kind, error, trace)
        return
    _say(str(error))
    raise SystemExit(2)


_NETWORK = ("aiohttp", "httpcore", "httpx", "httpx2", "huggingface_hub", "openai", "requests", "tenacity", "urllib3")


NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})  # what a file system says when it is full
STILL_THERE = "check that the disk or share it lies on is still there, and run it again"
_AWAY = (errno.EIO, errno.ENODEV, errno.ENOTCONN, errno.ESTALE, errno.EHOSTDOWN)

_PATHS = {  # what pathlib says of a path, and what to do
    "Could not determine home": "a path begins with ~: name a user of this machine behind it, or write the whole path",
    "Symlink loop": "the link leads to itself: name another path, or mend the link",  # before Python 3.13
}


def _advice(error: Exception) -> str | None:
    """What a user can do about an error of the network, of a library that reads models, or of the disk; None: a bug."""
    libraries = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    if isinstance(error, ConnectionError | TimeoutError) or libraries & {*_NETWORK}:
        return "check the address or the name, that the server runs and answers, and the key if it takes one"
    if isinstance(error, RuntimeError) and (known := [words for words in _PATHS if str(error).startswith(words)]):
        return _PATHS[known[0]]
    if "safetensors" in "".join(libraries) or re.search(
        r"inline_container(?!.*Reader)", str(error)
    ):  # torch's own writer
        return "check that the folder may be written and has space left"
    if not isinstance(error, OSError):
        return None
    if error.errno is None:  # a library's own words, such as transformers' about a model without weights
        return "check the name or folder of what could not be loaded, and that it is complete"
    is_away = error.errno in _AWAY
    return STILL_THERE if is_away else "check that the folder exists, may be written and has space left"
