"""Atomic saving of lm-eval results. A failed save is an error here; lm-eval only logs a warning."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sys
from collections.abc import Callable, Iterator
from functools import cached_property, wraps
from pathlib import Path
from typing import Any

from ..loaders.atomic import require_writable, scratch_folder
from ..loaders.errors import MedfaithError
from . import lm_eval_internals


def output_folder(output: str | Path | None) -> Path | None:
    """Return the folder of lm-eval's --output_path.

    Args:
        output: The option, a folder or a JSON file in it.

    Returns:
        The folder, or None without the option.
    """
    return None if output is None else Path(output).parent if str(output).endswith(".json") else Path(output)


@contextlib.contextmanager
def saved(output: str | Path | None) -> Iterator[list[Path]]:
    """Save all files of lm-eval's EvaluationTracker below its --output_path as one atomic write.

    lm-eval writes into a scratch folder. When the results and all their sample logs exist, the files are moved to their
    places, one by one. A process that is killed before leaves no file.

    Args:
        output: lm-eval's --output_path.

    Yields:
        A list. At the end it holds the paths of the saved files.

    Raises:
        OSError: The folder is not writable. Nothing has run yet.
        MedfaithError: A file could not be written, for the reason in the message. The incomplete file is removed, and
            the other saved files are kept.
    """
    folder = output_folder(output)
    if folder is None:
        yield []
        return
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    require_writable(existing)
    with contextlib.ExitStack() as stack:
        saving = _Saving(folder, stack)
        stack.enter_context(lm_eval_internals.wrap_saves(saving.wrap_save))
        yield saving.places
        saving.move_files()
    if saving.failures:
        raise MedfaithError(
            f"{folder}: the results could not all be saved: {'; '.join(dict.fromkeys(saving.failures))}\n"
            "  what to do: make space or let the folder be written, and run the command again; answers that are in "
            "its store (answers.sqlite) are not asked for again"
        )


class _Saving:
    """The files of one run: `places` of the files that were moved, `failures` with the reasons for missing files."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._n_pending = 0  # number of sample logs that are not written yet
        self.places: list[Path] = []
        self.failures: list[str] = []

    @cached_property
    def _scratch(self) -> Path:
        """The scratch folder. It is created with the first file, which may come hours after the start."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._stack.enter_context(scratch_folder(self._folder))

    def wrap_save(self, save: Callable[..., None]) -> Callable[..., None]:
        """Wrap `save` so that its files move to their places together with the run's other files."""
        is_first = save.__name__ == "save_results_aggregated"

        @wraps(save)
        def save_atomically(tracker: Any, *args: Any, **kwargs: Any) -> None:
            output = Path(tracker.output_path)
            tracker.output_path = str(self._scratch / output.name if output.suffix == ".json" else self._scratch)
            before = self._list_files()
            try:
                with _collect_errors(save) as errors:
                    save(tracker, *args, **kwargs)
                    # The name is a time, and clocks may be set back.
                    while is_first and self._remove_duplicates(before):
                        save(tracker, *args, **kwargs)
            finally:
                tracker.output_path = str(output)
            self._n_pending = len(kwargs.get("samples") or ()) if is_first else self._n_pending - 1
            if errors:
                self.failures += errors
                for file in self._list_files() - before:
                    file.unlink()
            if not self._n_pending:
                self.move_files()

        return save_atomically

    def move_files(self) -> None:
        """Move the files to their places, the results first."""
        for file in sorted(self._list_files(), key=lambda path: (path.name.startswith("samples_"), path.name)):
            place = self._get_place(file)
            place.parent.mkdir(parents=True, exist_ok=True)
            file.rename(place)
            self.places.append(place)

    def _remove_duplicates(self, before: set[Path]) -> bool:
        """Remove new files whose names another run has used already, and return whether there were some."""
        duplicates = [file for file in self._list_files() - before if self._get_place(file).exists()]
        for file in duplicates:
            file.unlink()
        return bool(duplicates)

    def _list_files(self) -> set[Path]:
        return {*self._scratch.rglob("*.json*")} if "_scratch" in vars(self) else set()

    def _get_place(self, file: Path) -> Path:
        return self._folder / file.relative_to(self._scratch)


@contextlib.contextmanager
def _collect_errors(save: Callable[..., None]) -> Iterator[list[str]]:
    """Collect the errors that `save` catches and logs."""
    handler = _ErrorHandler()
    logger = logging.getLogger(save.__module__)
    level = logger.level
    logger.setLevel(min(logger.getEffectiveLevel(), logging.WARNING))  # baselines' runs are quiet
    logger.addHandler(handler)
    try:
        yield handler.errors
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class _ErrorHandler(logging.Handler):
    """A log handler that keeps the errors of `except` blocks."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the current exception."""
        error = sys.exc_info()[1]
        if error is None:
            return
        if isinstance(error, OSError) and error.strerror:
            self.errors.append(f"{error.strerror} ({error.filename})" if error.filename else error.strerror)
        else:
            self.errors.append(f"{type(error).__name__}: {error}")
