"""Results that lm-eval could not save are an error. lm-eval itself logs a warning, and ends as if they were saved."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any
from unittest import mock

from ..loaders.errors import MedfaithError


def output_folder(output: str | Path | None) -> Path | None:
    """The folder of lm-eval's --output_path, which may name a JSON file in it."""
    return None if output is None else Path(output).parent if str(output).endswith(".json") else Path(output)


@contextlib.contextmanager
def saved(output: str | Path | None) -> Iterator[list[Path]]:
    """Whatever lm-eval's EvaluationTracker saves in here below its --output_path `output` is saved whole.

    Gives the list of the files, which grows as they are saved.

    Raises OSError before anything runs, where the folder may not be written. At the end it raises MedfaithError with
    the reason, where a file could not be written: what was begun of that file is removed, and what was saved stays.
    """
    folder = output_folder(output)
    written: list[Path] = []
    if folder is None:
        yield written
        return
    from lm_eval.loggers import EvaluationTracker

    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    with tempfile.TemporaryFile(dir=there):  # hours later would be late
        pass
    failures: list[str] = []
    with contextlib.ExitStack() as patches:
        for name in ("save_results_aggregated", "save_results_samples"):
            whole = _whole(getattr(EvaluationTracker, name), folder, written, failures)
            patches.enter_context(mock.patch.object(EvaluationTracker, name, whole))
        yield written
    if failures:
        raise MedfaithError(
            f"{folder}: the results could not all be saved: {'; '.join(dict.fromkeys(failures))}\n"
            "  what to do: make space or let the folder be written, and run the command again; answers that are in "
            "its store (answers.sqlite) are not asked for again"
        )


def _whole(save: Callable[..., None], folder: Path, written: list[Path], failures: list[str]) -> Callable[..., None]:
    """`save`, which adds its file to `written`; where it fails, it removes it and adds its error to `failures`."""

    @wraps(save)
    def saving(*given: Any, **named: Any) -> None:
        before = {*folder.rglob("*.json*")}
        caught = _Caught()
        logger = logging.getLogger(save.__module__)
        level = logger.level
        logger.setLevel(min(logger.getEffectiveLevel(), logging.WARNING))  # baselines' runs are quiet
        logger.addHandler(caught)
        try:
            save(*given, **named)
        finally:
            logger.removeHandler(caught)
            logger.setLevel(level)
        date = getattr(given[0], "date_id", "")  # other runs may write into the folder, too
        new = {*folder.rglob(f"*_{date}.json*")} - before
        if caught.errors:
            failures.extend(caught.errors)
            for path in new:
                path.unlink()
        else:
            written.extend(sorted(new))

    return saving


class _Caught(logging.Handler):
    """Errors that are logged as they are caught."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if error is None:
            return
        if isinstance(error, OSError) and error.strerror:
            self.errors.append(f"{error.strerror} ({error.filename})" if error.filename else error.strerror)
        else:
            self.errors.append(f"{type(error).__name__}: {error}")
