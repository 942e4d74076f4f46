"""Sample logs: one line a question and filter, 2 KB each, read into runs; those of CXR-ContraBench into arrays.

Of 135,754 questions under four filters, 1 GB of text, only the distinct texts and a few numbers a line stay in memory.
"""

from __future__ import annotations

import json
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np

from medfaith.loaders.errors import InputError

from .read import SampleFile
from .runs import Run, Setting

_OURS = {"protocol", "polarity", "options", "negated", "counterpart"}  # columns that tell our rows from others
_TEXTS = ("id", "study_id", "finding", "polarity", "cue")
_INDICES = (("answer", 0), ("negated", -1), ("counterpart", -1))  # with the lowest that each may be
_INTERNAL = re.compile(r"rexvqa_\d+k(?:_s\d+)?")  # ReXVQA slices: 1k, 5k, 10k, and the seeded 10k
_SPLITS = {"train": "train", "validation": "validation", "valid": "validation"}
_Run_co = TypeVar("_Run_co", covariant=True)
AGAIN = "copy the file again, or run the task again with --log_samples"


def read_runs(file: SampleFile, progress: Callable[[int], Any] = lambda n_bytes: None) -> list[Run]:
    """The runs in a sample log: one a setting, which is one for every task here; none for another benchmark's log.

    Args and Raises: as `read_lines`.
    """
    return read_lines(file, Lines, progress)


def read_lines(file: SampleFile, kind: type[Kept[_Run_co]], progress: Callable[[int], Any]) -> list[_Run_co]:
    """The runs in a sample log, one for each setting; none for another benchmark's log.

    Args:
        kind: what the lines of one setting are kept in.
        progress: called with the number of bytes of each line read.

    Raises:
        InputError: a line that is broken or lacks something, a question that stands twice under one filter or is
            missing under another, or fewer questions than lm-eval says it ran.
    """
    settings: dict[Any, Kept[_Run_co]] = {}
    with file.path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            progress(len(line))
            sample = _parsed(file.path, number, line)
            if not settings and not kind.holds(sample):
                return []
            try:
                settings.setdefault(kind.setting(sample["doc"], file.task), kind()).add(sample)
            except SampleError as error:
                raise _broken(file.path, number, error.found, column=error.column) from error
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                found = f"cannot be read ({type(error).__name__}: {str(error)[:100]})"
                raise _broken(file.path, number, found) from error
    n = sum(len(kept.rows) for kept in settings.values())
    if not n:
        raise InputError(file.path, "is empty", expected="a line for each question and filter", action=AGAIN)
    if file.n_run is not None and n < file.n_run:
        raise InputError(file.path, f"has {n} questions", expected=f"the {file.n_run} that lm-eval ran", action=AGAIN)
    return [kept.run(setting, file, single=len(settings) == 1) for setting, kept in settings.items()]


class SampleError(Exception):
    """What is wrong in a line, and in which of its fields; `read_lines` adds file and line."""

    def __init__(self, column: str, found: str) -> None:
        super().__init__(found)
        self.column, self.found = column, found


class Kept(Protocol[_Run_co]):
    """What the lines of one setting are kept in."""

    @property
    def rows(self) -> Sized:
        """One for each question."""
        ...

    @staticmethod
    def holds(sample: Any) -> bool:
        """Whether a log that begins with this sample is of the tasks that this class reads."""
        ...

    @staticmethod
    def setting(doc: Mapping[str, Any], task: str) -> Any: ...

    def add(self, sample: Mapping[str, Any]) -> None:
        """Raises SampleError, or what reading broken JSON raises."""
        ...

    def run(self, setting: Any, file: SampleFile, *, single: bool) -> _Run_co:
        """single: the log is of this setting alone, so that the size of its task is that of the setting."""
        ...


@dataclass
class Rows(ABC):
    """What is kept of the lines of one setting in which each question has one line; subclasses read it."""

    columns: ClassVar[Collection[str]]  # of a document, which tell the benchmark's from others
    rows: dict[str, Any] = field(default_factory=dict)  # by question id
    n_skipped: int = 0

    @classmethod
    def holds(cls, sample: Any) -> bool:
        return has_columns(sample, cls.columns)

    @staticmethod
    @abstractmethod
    def row(sample: Mapping[str, Any]) -> Any:
        """The question and its answer, with an `id`; raises as `Kept.add`."""

    def add(self, sample: Mapping[str, Any]) -> None:
        row = self.row(sample)
        if row.id in self.rows:
            raise SampleError("doc.id", f"{row.id} stands twice")
        self.rows[row.id] = row
        self.n_skipped = max(self.n_skipped, int(sample["doc"].get("n_rows_skipped") or 0))

    def logged(self, file: SampleFile, *, single: bool) -> dict[str, Any]:
        """Of a run all but its setting, the rows ordered by id."""
        rows = tuple(self.rows[name] for name in sorted(self.rows))
        return _logged(file, len(rows), self.n_skipped, single=single) | {"rows": rows}


def _logged(file: SampleFile, n: int, n_skipped: int, *, single: bool) -> dict[str, Any]:
    """What `runs.Logged` keeps of a log with n questions; single: see `Kept.run`."""
    n_data = max((file.n_data or 0) if single else 0, n) + n_skipped
    return {
        "model": file.model, "adapter": file.adapter, "source": file, "n_data": n_data, "n_skipped": n_skipped,
    }  # fmt: skip


class Reading(NamedTuple):
    choice: int
    before: int
    outcome: str
    reason: str


@dataclass
class Lines:
    """What is kept of the lines of one setting."""

    number: dict[str, int] = field(default_factory=dict)  # question id -> its place in rows
    rows: list[tuple] = field(default_factory=list)  # _TEXTS, _INDICES, wording
    wordings: dict[tuple[str, tuple[str, ...]], int] = field(default_factory=dict)
    filters: dict[str, dict[int, Reading]] = field(default_factory=dict)  # filter -> place in rows -> reading
    readings: dict[tuple[str, int], Reading] = field(default_factory=dict)  # few are distinct; each is kept once
    n_skipped: int = 0

    @staticmethod
    def holds(sample: Any) -> bool:
        """Whether it answers a question of ours. Without a filter ("none") it scores options and chooses none."""
        return is_ours(sample) and sample.get("filter") != "none"

    @staticmethod
    def setting(doc: Mapping[str, Any], task: str) -> Setting:
        return _setting(doc, task)

    def add(self, sample: Mapping[str, Any]) -> None:
        read, place = self._place(sample)
        key = (sample["filtered_resps"][0], len(sample["doc"]["options"]))
        if key not in self.readings:
            self.readings[key] = _reading(*key)
        read[place] = self.readings[key]

    def _place(self, sample: Mapping[str, Any]) -> tuple[dict[int, Reading], int]:
        """What its filter has read, and the question's place there, which is still free."""
        doc, name = sample["doc"], sample["filter"]
        place = self.number.get(doc["id"])
        if place is None:
            self.rows.append(self._row(doc))
            place = self.number[self.rows[-1][0]] = len(self.rows) - 1
        read = self.filters.setdefault(name, {})
        if place in read:
            raise SampleError("doc.id", f"{doc['id']} stands twice under the filter {name!r}")
        return read, place

    def _row(self, doc: Mapping[str, Any]) -> tuple:
        doc = {"cue": "", **doc}
        options = tuple(doc["options"])
        for column in (*_TEXTS, "question"):
            if not isinstance(doc[column], str):
                raise SampleError(f"doc.{column}", f"{doc[column]!r} is not a text")
        if not options or not all(isinstance(option, str) for option in options):
            raise SampleError("doc.options", f"{doc['options']!r} is not a list of texts")
        for column, lowest in _INDICES:
            if type(doc[column]) is not int or not lowest <= doc[column] < len(options):
                raise SampleError(f"doc.{column}", f"{doc[column]!r} is no index into its {len(options)} options")
        self.n_skipped = max(self.n_skipped, int(doc.get("n_rows_skipped") or 0))
        wording = self.wordings.setdefault((doc["question"], options), len(self.wordings))
        return *(sys.intern(doc[column]) for column in _TEXTS), *(doc[column] for column, _ in _INDICES), wording

    def order(self) -> list[int]:
        """Places in `rows`, by question id."""
        return sorted(range(len(self.rows)), key=lambda place: self.rows[place][0])

    def run(self, setting: Setting, file: SampleFile, *, single: bool) -> Run:
        for name, read in self.filters.items():
            if len(read) != len(self.rows):
                found = f"the filter {name!r} has {len(read)} of {len(self.rows)} questions"
                raise InputError(file.path, found, expected="every question under every filter", action=AGAIN)
        order = self.order()
        columns = list(zip(*(self.rows[place] for place in order), strict=True))
        id_, study, finding, polarity, cue = (np.array(column, dtype=object) for column in columns[:5])
        answer, negated, counterpart, wording = (np.array(column, dtype=np.int32) for column in columns[5:])
        read = {name: [of_filter[place] for place in order] for name, of_filter in self.filters.items()}
        said = read[min(read)]  # every filter repeats what the model itself said
        return Run(
            **_logged(file, len(order), self.n_skipped, single=single),
            setting=setting,
            id=id_,
            study=study,
            finding=finding,
            polarity=polarity,
            cue=cue,
            outcome=np.array([reading.outcome for reading in said], dtype=object),
            answer=answer,
            negated=negated,
            counterpart=counterpart,
            base=np.array([reading.before for reading in said], dtype=np.int32),
            wording=wording,
            wordings=tuple(self.wordings),
            choice={name: np.array([r.choice for r in of_filter], dtype=np.int32) for name, of_filter in read.items()},
            reason={name: np.array([r.reason for r in of_filter], dtype=object) for name, of_filter in read.items()},
        )


def _parsed(path: Path, number: int, line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _broken(path, number, "not a whole line of JSON") from error


def is_ours(sample: Any) -> bool:
    """Whether it is of a CXR-ContraBench task."""
    return has_columns(sample, _OURS)


def has_columns(sample: Any, columns: Collection[str]) -> bool:
    """Whether it is a sample whose document has all of these."""
    doc = sample.get("doc") if isinstance(sample, dict) else None
    return isinstance(doc, dict) and set(doc) >= set(columns)


def _setting(doc: Mapping[str, Any], task: str) -> Setting:
    prompt = str(doc.get("prompt") or "b0")
    protocol = doc["protocol"]
    if protocol.startswith("rexvqa"):  # its own wordings; which slice it is, the protocol or else the task says
        named = _INTERNAL.search(protocol) or _INTERNAL.search(task)
        return Setting(named[0] if named else protocol, "test", prompt, "", "", "")
    split = _SPLITS.get(doc["id"].split("/")[1] if "/" in doc["id"] else "", "test")
    return Setting(protocol, split, prompt, doc["negation_form"], doc["question_form"], doc["layout"])


def _reading(text: str, n_options: int) -> Reading:
    """What a filter handed on (see `contrabench.adapter`)."""
    try:
        read = json.loads(text)
        choice, before = (-1 if read[key] is None else read[key] for key in ("choice", "before"))
        outcome, reason = sys.intern(read["outcome"]), sys.intern(read["verifier"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SampleError("filtered_resps", f"{text!r:.100} is not what a filter of ours writes") from error
    for index in (choice, before):
        if type(index) is not int or not -1 <= index < n_options:
            raise SampleError("filtered_resps", f"{index!r} is no index into the {n_options} options")
    return Reading(choice, before, outcome, reason)


def _broken(path: Path, number: int, found: str, *, column: str | None = None) -> InputError:
    expected = "a sample as lm-eval writes it for a task of this package"
    return InputError(path, found, row=number, column=column, expected=expected, action=AGAIN)
