"""Results that lm-eval could not save are an error. lm-eval itself logs a warning, and ends as if they were saved."""

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
from unittest import mock

from ..loaders.atomic import require_writable, scratch_folder
from ..loaders.errors import MedfaithError


def output_folder(output: str | Path | None) -> Path | None:
    """The folder of lm-eval's --output_path, which may name a JSON file in it."""
    return None if output is None else Path(output).parent if str(output).endswith(".json") else Path(output)


@contextlib.contextmanager
def saved(output: str | Path | None) -> Iterator[list[Path]]:
    """Whatever lm-eval's EvaluationTracker saves in here below its --output_path `output` is saved whole.

    It writes into a folder of its own. When results and all their sample logs are there, they take their places one
    after the other: whoever is killed before leaves none of them. Gives a list, which then has their places.

    Raises OSError before anything runs, where the folder may not be written. At the end it raises MedfaithError with
    the reason, where a file could not be written: what was begun of that file is removed, and what was saved stays.
    """
    folder = output_folder(output)
    if folder is None:
        yield []
        return
    from lm_eval.loggers import EvaluationTracker

    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    require_writable(there)
    with contextlib.ExitStack() as last:
        saving = _Saving(folder, last)
        for name in ("save_results_aggregated", "save_results_samples"):
            whole = saving.whole(getattr(EvaluationTracker, name))
            last.enter_context(mock.patch.object(EvaluationTracker, name, whole))
        yield saving.places
        saving.put()
    if saving.failures:
        raise MedfaithError(
            f"{folder}: the results could not all be saved: {'; '.join(dict.fromkeys(saving.failures))}\n"
            "  what to do: make space or let the folder be written, and run the command again; answers that are in "
            "its store (answers.sqlite) are not asked for again"
        )


class _Saving:
    """What a run saves in a folder. places: of the files that stand there; failures: why others do not."""

    def __init__(self, folder: Path, last: contextlib.ExitStack) -> None:
        self._folder, self._last = folder, last
        self._left = 0  # sample logs that are still to come
        self.places: list[Path] = []
        self.failures: list[str] = []

    @cached_property
    def _begun(self) -> Path:
        """Where files are written. It is made when the first one comes, which may be hours after the start."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._last.enter_context(scratch_folder(self._folder))

    def whole(self, save: Callable[..., None]) -> Callable[..., None]:
        """`save`, whose files take their places with the others of the run."""
        is_first = save.__name__ == "save_results_aggregated"

        @wraps(save)
        def saving(tracker: Any, *given: Any, **named: Any) -> None:
            output = Path(tracker.output_path)
            tracker.output_path = str(self._begun / output.name if output.suffix == ".json" else self._begun)
            before = self._files()
            try:
                with _caught(save) as errors:
                    save(tracker, *given, **named)
                    while is_first and self._taken(before):  # its name is a moment's, and clocks are put back
                        save(tracker, *given, **named)
            finally:
                tracker.output_path = str(output)
            self._left = len(named.get("samples") or ()) if is_first else self._left - 1
            if errors:
                self.failures += errors
                for file in self._files() - before:
                    file.unlink()
            if not self._left:
                self.put()

        return saving

    def put(self) -> None:
        """Moves the files to their places, the results first."""
        for file in sorted(self._files(), key=lambda path: (path.name.startswith("samples_"), path.name)):
            place = self._place(file)
            place.parent.mkdir(parents=True, exist_ok=True)
            file.rename(place)
            self.places.append(place)

    def _taken(self, before: set[Path]) -> bool:
        """Whether another run has a file of the same name as a new one, which is then removed."""
        taken = [file for file in self._files() - before if self._place(file).exists()]
        for file in taken:
            file.unlink()
        return bool(taken)

    def _files(self) -> set[Path]:
        return {*self._begun.rglob("*.json*")} if "_begun" in vars(self) else set()

    def _place(self, file: Path) -> Path:
        return self._folder / file.relative_to(self._begun)


@contextlib.contextmanager
def _caught(save: Callable[..., None]) -> Iterator[list[str]]:
    """The errors that `save` catches and logs."""
    caught = _Caught()
    logger = logging.getLogger(save.__module__)
    level = logger.level
    logger.setLevel(min(logger.getEffectiveLevel(), logging.WARNING))  # baselines' runs are quiet
    logger.addHandler(caught)
    try:
        yield caught.errors
    finally:
        logger.removeHandler(caught)
        logger.setLevel(level)


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
