"""Sample logs of CXR-ContraBench as arrays: only distinct texts and a few numbers of each line stay in memory."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from medfaith.evaluate_metrics.reading.outcome import ANSWERED, DECLINED, UNREAD
from medfaith.loaders.errors import InputError
from medfaith.logs.files import SampleFile
from medfaith.logs.lines import AGAIN, SampleError, has_columns, logged, read_lines
from medfaith.tasks.contrabench.readings import decode

from .runs import Run, Setting

_COLUMNS = {"protocol", "polarity", "options", "negated", "counterpart"}  # columns that identify rows of this benchmark
_TEXTS = ("id", "study_id", "finding", "polarity", "cue")
_INDICES = (("answer", 0), ("negated", -1), ("counterpart", -1))  # column and its lowest value
_INTERNAL = re.compile(r"rexvqa_\d+k(?:_s\d+)?")  # ReXVQA slices: 1k, 5k, 10k, and the seeded 10k
_SPLITS = {"train": "train", "validation": "validation", "valid": "validation"}


def read_runs(file: SampleFile, progress: Callable[[int], Any] = lambda n_bytes: None) -> list[Run]:
    """Read the runs of a sample log, one for each setting; the tasks of this package have one setting each.

    Args:
        file: The log.
        progress: Called with the number of bytes of each line read.

    Returns:
        The runs; [] for a log of another benchmark.

    Raises:
        InputError: As `read_lines`.
    """
    return read_lines(file, Lines, progress)


# Logs of earlier versions have other outcomes and neither reason nor evidence (`contrabench.readings.decode`): polarity
# errors among these answers count as read from a letter or an option's text.
_EARLIER_OUTCOMES = {
    "parsed": (ANSWERED, ""),
    "none": (UNREAD, "none"),
    "ambiguous": (UNREAD, "ambiguous"),
    "out_of_range": (UNREAD, "out_of_range"),
}


class Reading(NamedTuple):
    """Output of a filter for one answer.

    Attributes:
        choice: Option after the filter, -1 for none.
        before: Option before the filter, -1 for none.
        outcome: See `reading.outcome`.
        unread_reason: See `reading.outcome`.
        evidence: See `reading.outcome`.
        reason: The verifier's reason.
    """

    choice: int
    before: int
    outcome: str
    unread_reason: str
    evidence: str
    reason: str


@dataclass
class Lines:
    """The lines of one setting.

    Attributes:
        number: Question id -> its index in `rows`.
        rows: Values of _TEXTS, of _INDICES and the index of the wording.
        wordings: (question, options) -> its index.
        filters: Filter -> index in `rows` -> reading.
        readings: Distinct outputs of filters, each stored once.
        n_skipped: Number of questions left out because images are missing.
    """

    number: dict[str, int] = field(default_factory=dict)
    rows: list[tuple] = field(default_factory=list)
    wordings: dict[tuple[str, tuple[str, ...]], int] = field(default_factory=dict)
    filters: dict[str, dict[int, Reading]] = field(default_factory=dict)
    readings: dict[tuple[str, int], Reading] = field(default_factory=dict)
    n_skipped: int = 0

    @staticmethod
    def holds(sample: Any) -> bool:
        """Whether the line is an answer of this benchmark; lines without a filter ("none") score options only.

        Args:
            sample: The line.

        Returns:
            True for an answer.
        """
        return is_ours(sample) and sample.get("filter") != "none"

    @staticmethod
    def setting(doc: Mapping[str, Any], task: str) -> Setting:
        """Read the setting of a line.

        Args:
            doc: The row.
            task: Name of the task.

        Returns:
            The setting.
        """
        return _read_setting(doc, task)

    def add(self, sample: Mapping[str, Any]) -> None:
        """Add a line.

        Args:
            sample: The line.

        Raises:
            SampleError: The line is broken, or its question is there twice under one filter.
        """
        filter_readings, place = self._find_place(sample)
        key = (sample["filtered_resps"][0], len(sample["doc"]["options"]))
        if key not in self.readings:
            self.readings[key] = _parse_reading(*key)
        filter_readings[place] = self.readings[key]

    def _find_place(self, sample: Mapping[str, Any]) -> tuple[dict[int, Reading], int]:
        """Return the readings of the line's filter so far, and the index of its question, a new one if it is new.

        Raise SampleError if the filter has a line of this question already.
        """
        doc, name = sample["doc"], sample["filter"]
        place = self.number.get(doc["id"])
        if place is None:
            self.rows.append(self._check_row(doc))
            place = self.number[self.rows[-1][0]] = len(self.rows) - 1
        filter_readings = self.filters.setdefault(name, {})
        if place in filter_readings:
            raise SampleError("doc.id", f"{doc['id']} is in the log twice under the filter {name!r}")
        return filter_readings, place

    def _check_row(self, doc: Mapping[str, Any]) -> tuple:
        """Check a row and return its texts, indices and wording."""
        doc = {"cue": "", **doc}
        options = tuple(doc["options"])
        for column in (*_TEXTS, "question"):
            if not isinstance(doc[column], str):
                raise SampleError(f"doc.{column}", f"{doc[column]!r} is not a text")
        if not options or not all(isinstance(option, str) for option in options):
            raise SampleError("doc.options", f"{doc['options']!r} is not a list of texts")
        for column, lowest in _INDICES:
            if type(doc[column]) is not int or not lowest <= doc[column] < len(options):
                raise SampleError(f"doc.{column}", f"{doc[column]!r} is not an index into its {len(options)} options")
        self.n_skipped = max(self.n_skipped, int(doc.get("n_rows_skipped") or 0))
        wording = self.wordings.setdefault((doc["question"], options), len(self.wordings))
        return *(sys.intern(doc[column]) for column in _TEXTS), *(doc[column] for column, _ in _INDICES), wording

    def sort_places(self) -> list[int]:
        """Sort the indices in `rows` by question id."""
        return sorted(range(len(self.rows)), key=lambda place: self.rows[place][0])

    def run(self, setting: Setting, file: SampleFile, *, single: bool) -> Run:
        """Build the run from all lines.

        Args:
            setting: The setting.
            file: The log.
            single: Whether the log has one setting only.

        Returns:
            The run.

        Raises:
            InputError: A filter does not have all questions.
        """
        for name, readings in self.filters.items():
            if len(readings) != len(self.rows):
                problem = f"the filter {name!r} has {len(readings)} of {len(self.rows)} questions"
                raise InputError(file.path, problem, expected="every question under every filter", action=AGAIN)
        sort_places = self.sort_places()
        columns = list(zip(*(self.rows[place] for place in sort_places), strict=True))
        id_, study, finding, polarity, cue = (np.array(column, dtype=object) for column in columns[:5])
        answer, negated, counterpart, wording = (np.array(column, dtype=np.int32) for column in columns[5:])
        readings = {
            name: [filter_readings[place] for place in sort_places] for name, filter_readings in self.filters.items()
        }
        first_readings = readings[min(readings)]  # every filter repeats the reading before it
        return Run(
            **logged(file, len(sort_places), self.n_skipped, single=single),
            setting=setting,
            id=id_,
            study=study,
            finding=finding,
            polarity=polarity,
            cue=cue,
            outcome=np.array([reading.outcome for reading in first_readings], dtype=object),
            unread_reason=np.array([reading.unread_reason for reading in first_readings], dtype=object),
            evidence=np.array([reading.evidence for reading in first_readings], dtype=object),
            answer=answer,
            negated=negated,
            counterpart=counterpart,
            base=np.array([reading.before for reading in first_readings], dtype=np.int32),
            wording=wording,
            wordings=tuple(self.wordings),
            choice={
                name: np.array([r.choice for r in filter_readings], dtype=np.int32)
                for name, filter_readings in readings.items()
            },
            reason={
                name: np.array([r.reason for r in filter_readings], dtype=object)
                for name, filter_readings in readings.items()
            },
        )


def is_ours(sample: Any) -> bool:
    """Whether the line belongs to a task of CXR-ContraBench.

    Args:
        sample: The line.

    Returns:
        True if it has the benchmark's columns.
    """
    return has_columns(sample, _COLUMNS)


def _read_setting(doc: Mapping[str, Any], task: str) -> Setting:
    prompt, images = str(doc.get("prompt") or "b0"), str(doc.get("images_shown") or "all")
    protocol = doc["protocol"]
    if protocol.startswith("rexvqa"):  # the slice is in the protocol or in the task's name
        slice_match = _INTERNAL.search(protocol) or _INTERNAL.search(task)
        return Setting(slice_match[0] if slice_match else protocol, "test", prompt, "", "", "", images)
    split = _SPLITS.get(doc["id"].split("/")[1] if "/" in doc["id"] else "", "test")
    return Setting(protocol, split, prompt, doc["negation_form"], doc["question_form"], doc["layout"], images)


def _parse_reading(text: str, n_options: int) -> Reading:
    """Parse and check the output of a filter (see `contrabench.adapter`)."""
    try:
        logged_reading = decode(text)
        choice, before = (-1 if index is None else index for index in logged_reading[:2])
        outcome, unread_reason = _EARLIER_OUTCOMES.get(
            logged_reading.outcome, (logged_reading.outcome, logged_reading.reason)
        )
        words = (outcome, unread_reason, logged_reading.evidence, logged_reading.verifier)
        texts = [sys.intern(word) for word in words]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SampleError("filtered_resps", f"{text!r:.100} is not the output of a medfaith filter") from error
    for index in (choice, before):
        if type(index) is not int or not -1 <= index < n_options:
            raise SampleError("filtered_resps", f"{index!r} is not an index into the {n_options} options")
    if texts[0] not in (ANSWERED, DECLINED, UNREAD):
        raise SampleError("filtered_resps", f"{texts[0]!r:.100} is not an outcome of reading an answer")
    return Reading(choice, before, *texts)
