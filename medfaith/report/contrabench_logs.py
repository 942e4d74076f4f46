"""CXR-ContraBench's sample logs, read into arrays: the distinct texts and a few numbers of each line are kept."""

from __future__ import annotations

import json
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

from .contrabench_runs import Run, Setting

_OURS = {"protocol", "polarity", "options", "negated", "counterpart"}  # columns that tell our rows from others
_TEXTS = ("id", "study_id", "finding", "polarity", "cue")
_INDICES = (("answer", 0), ("negated", -1), ("counterpart", -1))  # with the lowest that each may be
_INTERNAL = re.compile(r"rexvqa_\d+k(?:_s\d+)?")  # ReXVQA slices: 1k, 5k, 10k, and the seeded 10k
_SPLITS = {"train": "train", "validation": "validation", "valid": "validation"}


def read_runs(file: SampleFile, progress: Callable[[int], Any] = lambda n_bytes: None) -> list[Run]:
    """The runs in a sample log: one a setting, which is one for every task here; none for another benchmark's log.

    Args and Raises: as `read_lines`.
    """
    return read_lines(file, Lines, progress)


# Logs of earlier versions know other outcomes, and neither a reason nor what an answer was read from. Their evidence
# is "", which is not known: polarity errors among these answers count as read from a letter or an option's text.
_EARLIER_OUTCOMES = {
    "parsed": (ANSWERED, ""),
    "none": (UNREAD, "none"),
    "ambiguous": (UNREAD, "ambiguous"),
    "out_of_range": (UNREAD, "out_of_range"),
}


class Reading(NamedTuple):
    """What a filter handed on. outcome, unread_reason, evidence: see `reading.outcome`; reason: the verifier's."""

    choice: int
    before: int
    outcome: str
    unread_reason: str
    evidence: str
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
            raise SampleError("doc.id", f"{doc['id']} is in the log twice under the filter {name!r}")
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
            **logged(file, len(order), self.n_skipped, single=single),
            setting=setting,
            id=id_,
            study=study,
            finding=finding,
            polarity=polarity,
            cue=cue,
            outcome=np.array([reading.outcome for reading in said], dtype=object),
            unread_reason=np.array([reading.unread_reason for reading in said], dtype=object),
            evidence=np.array([reading.evidence for reading in said], dtype=object),
            answer=answer,
            negated=negated,
            counterpart=counterpart,
            base=np.array([reading.before for reading in said], dtype=np.int32),
            wording=wording,
            wordings=tuple(self.wordings),
            choice={name: np.array([r.choice for r in of_filter], dtype=np.int32) for name, of_filter in read.items()},
            reason={name: np.array([r.reason for r in of_filter], dtype=object) for name, of_filter in read.items()},
        )


def is_ours(sample: Any) -> bool:
    """Whether it is of a CXR-ContraBench task."""
    return has_columns(sample, _OURS)


def _setting(doc: Mapping[str, Any], task: str) -> Setting:
    prompt, images = str(doc.get("prompt") or "b0"), str(doc.get("images_shown") or "all")
    protocol = doc["protocol"]
    if protocol.startswith("rexvqa"):  # its own wordings; which slice it is, the protocol or else the task says
        named = _INTERNAL.search(protocol) or _INTERNAL.search(task)
        return Setting(named[0] if named else protocol, "test", prompt, "", "", "", images)
    split = _SPLITS.get(doc["id"].split("/")[1] if "/" in doc["id"] else "", "test")
    return Setting(protocol, split, prompt, doc["negation_form"], doc["question_form"], doc["layout"], images)


def _reading(text: str, n_options: int) -> Reading:
    """What a filter handed on (see `contrabench.adapter`)."""
    try:
        read = json.loads(text)
        choice, before = (-1 if read[key] is None else read[key] for key in ("choice", "before"))
        outcome, unread_reason = _EARLIER_OUTCOMES.get(read["outcome"], (read["outcome"], read.get("reason", "")))
        words = [sys.intern(word) for word in (outcome, unread_reason, read.get("evidence", ""), read["verifier"])]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SampleError("filtered_resps", f"{text!r:.100} is not what a filter of ours writes") from error
    for index in (choice, before):
        if type(index) is not int or not -1 <= index < n_options:
            raise SampleError("filtered_resps", f"{index!r} is no index into the {n_options} options")
    if words[0] not in (ANSWERED, DECLINED, UNREAD):
        raise SampleError("filtered_resps", f"{words[0]!r:.100} is no outcome of reading an answer")
    return Reading(choice, before, *words)
