"""Runs on a user's own questions in sample logs; the task's own function reads and scores each answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from medfaith.evaluate_metrics.reading.outcome import DECLINED, UNREAD
from medfaith.logs.files import SampleFile
from medfaith.logs.lines import LoggedRows, Rows, SampleError, check_texts, read_lines
from medfaith.tasks.own.adapter import read_record
from medfaith.tasks.own.rows import CHOICE, OPEN, YES_NO

KINDS = {YES_NO: "yes/no", CHOICE: "choice", OPEN: "open"}


class OwnSetting(NamedTuple):
    """The questions and their prompt.

    Attributes:
        source: The name of the data set, with which the ids of its rows begin.
        split: train, validation or test.
        prompt: The prompt.
        ask: A key of KINDS.
    """

    source: str
    split: str
    prompt: str
    ask: str


class OwnRow(NamedTuple):
    """One question and its answer.

    Attributes:
        id: Id of the row.
        patient: The patient.
        question: The question.
        topic: What it asks about; the question without a topic.
        location: The anatomy, or "".
        options: The options of a choice.
        gold: The right answer.
        is_present: Whether the image shows what a yes/no question asks about.
        record: The record of `adapter.read_record`.
    """

    id: str
    patient: str
    question: str
    topic: str
    location: str
    options: tuple[str, ...]
    gold: str
    is_present: bool
    record: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class OwnRun(LoggedRows):
    """One model's answers to one kind of question, ordered by the ids.

    Attributes:
        setting: The setting.
        rows: Questions and answers.
    """

    setting: OwnSetting
    rows: tuple[OwnRow, ...]

    @property
    def telling(self) -> list[str]:
        """A prompt that differs from the task's own."""
        return [self.setting.prompt] * (self.setting.prompt != "b0")

    @property
    def unread(self) -> list[str]:
        """Ids of the questions whose answers could not be read."""
        return [row.id for row in self.rows if row.record["outcome"] == UNREAD]

    @property
    def declined(self) -> list[str]:
        """Ids of the questions that the model declined to answer."""
        return [row.id for row in self.rows if row.record["outcome"] == DECLINED]


def read_own_runs(file: SampleFile, progress: Callable[[int], Any] = lambda n_bytes: None) -> list[OwnRun]:
    """Read the runs of a sample log.

    Args:
        file: The log.
        progress: Called with the number of bytes of each line read.

    Returns:
        The runs; [] for a log of another benchmark.

    Raises:
        InputError: As `logs.lines.read_lines`.
    """
    return read_lines(file, _OwnLines, progress)


class _OwnLines(Rows):
    columns = ("answer_kind", "patient_id", "gold", "topic")

    @staticmethod
    def setting(doc: Mapping[str, Any], task: str) -> OwnSetting:
        source, split = (*doc["id"].split("/"), "", "")[:2]
        if doc["answer_kind"] not in KINDS:
            raise SampleError("doc.answer_kind", f"{doc['answer_kind']!r} is none of {', '.join(KINDS)}")
        return OwnSetting(source, split, str(doc.get("prompt") or "b0"), doc["answer_kind"])

    @staticmethod
    def row(sample: Mapping[str, Any]) -> OwnRow:
        doc, response = sample["doc"], sample["filtered_resps"][0]
        check_texts(doc, ("id", "patient_id", "question", "topic", "location"), "doc")
        if not isinstance(response, str):
            raise SampleError("filtered_resps", f"{str(response)[:100]} is not a text")
        gold = doc["gold"]
        if not isinstance(gold, list) or not gold or not all(isinstance(text, str) for text in gold):
            raise SampleError("doc.gold", f"{gold!r:.100} is not a list of texts")
        if not isinstance(doc["answer"], int) or not 0 <= doc["answer"] < len(doc["options"]):
            raise SampleError("doc.answer", f"{doc['answer']!r} is the place of no option")
        options = tuple(doc["options"]) if doc["answer_kind"] == CHOICE else ()
        record = read_record(doc, response)
        is_present = doc["answer_kind"] != YES_NO or record["gold"] == doc["options"][0]
        names = (doc["id"], doc["patient_id"], doc["question"], doc["topic"], doc["location"])
        return OwnRow(*names, options, record["gold"], is_present, record)

    def run(self, setting: OwnSetting, file: SampleFile, *, single: bool) -> OwnRun:
        return OwnRun(setting=setting, **self.logged(file, single=single))
