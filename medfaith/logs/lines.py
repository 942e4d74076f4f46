"""Sample logs, line by line: the part that all benchmarks share.

A log has one line for each question and filter, 2 KB each. For 135,754 questions under four filters that is 1 GB of
text. Only the part that a benchmark's `Kept` needs stays in memory.
"""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from medfaith.evaluate_metrics.reading import reasoning
from medfaith.loaders import limits
from medfaith.loaders.errors import InputError
from medfaith.tasks.controls import DONORS
from medfaith.tasks.outcomes import OUTCOME, UNANSWERED, is_cut
from medfaith.tasks.scoring import VIEWS

from .files import SampleFile

IMAGES = "images"  # column of a document: the names of its images
AGAIN = "copy the file again, or run the task again with --log_samples"
_Run_co = TypeVar("_Run_co", covariant=True)


@dataclass(frozen=True, eq=False)
class Logged(ABC):
    """One sample log of one model in one setting.

    Attributes:
        model: Name of the model.
        adapter: Adapter and decoder, or "".
        setting: Setting of the benchmark.
        source: The log.
        n_data: Number of questions of the protocol.
        n_skipped: Number of questions that were skipped because images are missing.
    """

    model: str
    adapter: str
    setting: Any
    source: SampleFile
    n_data: int
    n_skipped: int

    in_words: ClassVar[bool] = True  # whether the answers are words; False for scores and attention

    @property
    def model_name(self) -> str:
        """The name of the model, with its adapter."""
        return f"{self.model} + {self.adapter}" if self.adapter else self.model

    @property
    def name(self) -> str:
        """The name of the model, with what distinguishes this run from the model's other runs."""
        return self.model_name

    @property
    @abstractmethod
    def ids(self) -> Collection[str]:
        """The ids of the questions."""


@dataclass(frozen=True, eq=False)
class LoggedRows(Logged):
    """A log with one row for each question, ordered by the rows' ids."""

    rows: tuple[Any, ...]

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.rows)

    @property
    def ids(self) -> Collection[str]:
        """The ids of the rows."""
        return [row.id for row in self.rows]

    @property
    def telling(self) -> list[str]:
        """The parts of the setting that distinguish this run from the model's other runs."""
        return []

    @property
    def name(self) -> str:
        """The name of the model, with `telling` in brackets."""
        return self.model_name + (f" ({', '.join(self.telling)})" if self.telling else "")


def read_lines(file: SampleFile, kind: type[Kept[_Run_co]], progress: Callable[[int], Any]) -> list[_Run_co]:
    """Read the runs in a sample log, one for each setting; none for another benchmark's log.

    Args:
        file: The log.
        kind: Class that collects the lines of one setting.
        progress: Called with the number of bytes of each line.

    Returns:
        The runs.

    Raises:
        InputError: A line is broken or incomplete, a question is repeated or missing under a filter, or there are fewer
            questions than lm-eval ran.
    """
    settings: dict[Any, Kept[_Run_co]] = {}
    left_out: set[str] = set()
    unanswered: dict[Any, set[str]] = {}  # each filter repeats a row
    cut: dict[Any, set[str]] = {}
    too_long: dict[Any, set[str]] = {}
    has_donors = dict(file.told).get("control") in DONORS
    texts: dict[str, dict[Any, dict[str, str]]] = {VIEWS: {}} | ({IMAGES: {}} if has_donors else {})
    try:
        limits.require_file(file.path)
    except OSError as error:
        raise InputError(file.path, f"cannot be read ({error.strerror})", action=AGAIN) from None
    with file.path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            progress(len(line))
            sample = _parse_line(file.path, number, line)
            if not settings and not kind.holds(sample):
                return []
            try:
                if file.rows is not None and not _is_selected(sample["doc"], file.rows):
                    left_out.add(sample["doc"]["id"])
                    _get_response(sample)  # `responses` finds one in each line
                    continue
                setting = kind.setting(sample["doc"], file.task)
                settings.setdefault(setting, kind()).add(sample)
                response = _get_response(sample)
                _add_texts(texts, setting, sample["doc"])
                if sample["doc"].get(OUTCOME) == UNANSWERED:
                    unanswered.setdefault(setting, set()).add(sample["doc"]["id"])
                if is_cut(sample["doc"]):
                    cut.setdefault(setting, set()).add(sample["doc"]["id"])
                if len(line) > reasoning.LIMIT and reasoning.exceeds_limit(response):
                    too_long.setdefault(setting, set()).add(sample["doc"]["id"])
            except SampleError as error:
                raise _make_line_error(file.path, number, error.found, column=error.column) from error
            except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
                fault = f"cannot be read ({type(error).__name__}: {str(error)[:100]})"
                raise _make_line_error(file.path, number, fault) from error
    n = sum(len(kept_lines.rows) for kept_lines in settings.values()) + len(left_out)
    if not n:
        raise InputError(file.path, "is empty", expected="a line for each question and filter", action=AGAIN)
    if file.n_run is not None and n < file.n_run:
        raise InputError(file.path, f"has {n} questions", expected=f"the {file.n_run} that lm-eval ran", action=AGAIN)
    files = {
        setting: file._replace(
            n_unanswered=len(unanswered.get(setting, ())),
            n_cut=len(cut.get(setting, ())),
            n_too_long=len(too_long.get(setting, ())),
            views=texts[VIEWS].get(setting, {}),
            other_images=texts.get(IMAGES, {}).get(setting, {}),
        )
        for setting in settings
    }
    return [
        kept_lines.run(setting, files[setting], single=len(settings) == 1) for setting, kept_lines in settings.items()
    ]


def _add_texts(texts: Mapping[str, dict[Any, dict[str, str]]], setting: Any, doc: Mapping[str, Any]) -> None:
    """Add the columns of a document that are texts of few values, by the id of its row."""
    for column, texts_by_setting in texts.items():
        if text := doc.get(column):
            texts_by_setting.setdefault(setting, {})[doc["id"]] = sys.intern(str(text))


def _is_selected(doc: Mapping[str, Any], rows: Collection[str]) -> bool:
    """Whether the row, or the one that it is paired with, is among those that count."""
    return doc["id"] in rows or doc.get("original_id") in rows


class SampleError(Exception):
    """A fault in a field of a line; `read_lines` adds file and line."""

    def __init__(self, column: str, found: str) -> None:
        super().__init__(found)
        self.column, self.found = column, found


class Kept(Protocol[_Run_co]):
    """A collector of the lines of one setting."""

    @property
    def rows(self) -> Sized:
        """The questions."""
        ...

    @staticmethod
    def holds(sample: Any) -> bool:
        """Return whether this class reads logs that begin with this sample.

        Args:
            sample: The first line of a log, parsed.

        Returns:
            True if the class reads the log.
        """
        ...

    @staticmethod
    def setting(doc: Mapping[str, Any], task: str) -> Any:
        """Read the setting of a document.

        Args:
            doc: The document of a line.
            task: Name of the task.

        Returns:
            The setting. Lines with another setting belong to another run.
        """
        ...

    def add(self, sample: Mapping[str, Any]) -> None:
        """Add a line.

        Args:
            sample: The line, parsed.

        Raises:
            SampleError: A field is wrong; broken JSON raises other errors.
        """
        ...

    def run(self, setting: Any, file: SampleFile, *, single: bool) -> _Run_co:
        """Build the run of a setting.

        Args:
            setting: The setting.
            file: The log.
            single: Whether the log has no other setting, so that n_data is the task's.

        Returns:
            The run.
        """
        ...


@dataclass
class Rows(ABC):
    """A collector of logs in which each question has one line; subclasses read the line."""

    columns: ClassVar[Collection[str]]  # of a document, which tell the benchmark's from others
    rows: dict[str, Any] = field(default_factory=dict)  # by question id
    n_skipped: int = 0

    @classmethod
    def holds(cls, sample: Any) -> bool:
        """Return whether the documents of a log have the columns of this class.

        Args:
            sample: The first line of a log, parsed.

        Returns:
            True if the class reads the log.
        """
        return has_columns(sample, cls.columns)

    @staticmethod
    @abstractmethod
    def row(sample: Mapping[str, Any]) -> Any:
        """Read the question and its answer, with an `id`; raises the errors of `Kept.add`.

        Args:
            sample: The line, parsed.

        Returns:
            The row.
        """

    def add(self, sample: Mapping[str, Any]) -> None:
        """Add a line, and count skipped rows.

        Args:
            sample: The line, parsed.
        """
        row = self.row(sample)
        if row.id in self.rows:
            raise SampleError("doc.id", f"{row.id} is in the log twice")
        self.rows[row.id] = row
        self.n_skipped = max(self.n_skipped, int(sample["doc"].get("n_rows_skipped") or 0))

    def logged(self, file: SampleFile, *, single: bool) -> dict[str, Any]:
        """Return all fields of a run but its setting; the rows are sorted by id.

        Args:
            file: The log.
            single: As in `Kept.run`.

        Returns:
            Name of the field -> value.
        """
        rows = tuple(self.rows[name] for name in sorted(self.rows))
        return logged(file, len(rows), self.n_skipped, single=single) | {"rows": rows}


def logged(file: SampleFile, n: int, n_skipped: int, *, single: bool) -> dict[str, Any]:
    """Build the fields of `Logged` for a log.

    Args:
        file: The log.
        n: Number of questions.
        n_skipped: Number of rows that the task left out.
        single: As in `Kept.run`.

    Returns:
        Name of the field -> value.
    """
    n_data = max((file.n_data or 0) if single and file.rows is None else 0, n) + n_skipped
    return {
        "model": file.model, "adapter": file.adapter, "source": file, "n_data": n_data, "n_skipped": n_skipped,
    }  # fmt: skip


def _parse_line(path: Path, number: int, line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _make_line_error(path, number, "not a whole line of JSON") from error


def responses(path: Path) -> Iterator[tuple[str, str]]:
    """Read the question id and the answer of each line of a log; filters repeat them.

    Args:
        path: The log.

    Yields:
        (id, answer) of each line.
    """
    with path.open("rb") as lines:  # bytes: a text may begin with a byte order mark or have other line ends
        for line in lines:
            sample = json.loads(line)
            yield sample["doc"]["id"], _get_response(sample)


def _get_response(sample: Mapping[str, Any]) -> str:
    responses = sample.get("resps") or [sample["filtered_resps"]]
    return str(responses[0][0])


def check_texts(record: Mapping[str, Any], columns: Iterable[str], where: str) -> None:
    """Raise SampleError if a column, below `where` in the sample, is not a text.

    Args:
        record: Column -> value.
        columns: The columns to check.
        where: Path of the record in the sample.
    """
    for column in columns:
        if not isinstance(record[column], str):
            raise SampleError(f"{where}.{column}", f"{record[column]!r} is not a text")


def has_columns(sample: Any, columns: Collection[str]) -> bool:
    """Return whether a sample has a document with all these columns.

    Args:
        sample: The line, parsed.
        columns: Names of columns.

    Returns:
        False also if the sample has no document.
    """
    doc = sample.get("doc") if isinstance(sample, dict) else None
    return isinstance(doc, dict) and set(doc) >= set(columns)


def has_document(path: Path) -> bool:
    """Return whether the first sample of a log has a document.

    Args:
        path: The log.

    Returns:
        True for the log of any task.

    Raises:
        InputError: The first line is not JSON.
    """
    with path.open("rb") as lines:
        return has_columns(_parse_line(path, 1, lines.readline()), ())


def _make_line_error(path: Path, number: int, fault: str, *, column: str | None = None) -> InputError:
    expected = "a sample as lm-eval writes it for a task of this package"
    return InputError(path, fault, row=number, column=column, expected=expected, action=AGAIN)
