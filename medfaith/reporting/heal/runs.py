"""Runs of HEAL-MedVQA in sample logs: the answer to each question, and the scores of the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from medfaith.evaluate_metrics.medvqa_f1.score import closed_scores, open_scores
from medfaith.evaluate_metrics.reading.disease_names import list_classes
from medfaith.evaluate_metrics.reading.diseases import Extraction, extract_labels
from medfaith.evaluate_metrics.reading.outcome import DECLINED, UNREAD
from medfaith.evaluate_metrics.reading.yes_no import YesNoOutcome, read_yes_no
from medfaith.evaluate_metrics.tpt import score as tpt
from medfaith.evaluate_metrics.tpt.perturbation import ORIGINAL
from medfaith.evaluate_metrics.vpt import score as vpt
from medfaith.loaders.errors import InputError
from medfaith.logs.files import SampleFile
from medfaith.logs.lines import AGAIN, LoggedRows, Rows, SampleError, check_texts, read_lines
from medfaith.tasks.explain.token_relevancy import Relevancy
from medfaith.tasks.heal.adapter import CLOSED, OPEN
from medfaith.tasks.heal.localization import read_reply
from medfaith.tasks.outcomes import is_cut
from medfaith.tasks.stated_boxes import ASK

from ..relevancy import read_relevancy
from ..stated_boxes import find_outcome, read_record
from ..tables import SEED

PAPER = ("mimic", "vindr")  # the paper's sources, in its order
SOURCES = {"mimic": "MIMIC", "vindr": "VinDr", "nih": "NIH"}
_PAIRED = {"tpt": tpt, "vpt": vpt}
_SINGLE = {"positive": "closed", "hallucinated": "closed", "abnormal": "open", "normal": "open", ASK: ASK}
_KINDS = {*_SINGLE, ORIGINAL, *tpt.KINDS, *vpt.KINDS}


class HealSetting(NamedTuple):
    """The questions and their prompt.

    Attributes:
        config: The source.
        split: train, validation or test.
        prompt: The prompt.
        ask: closed, open, tpt, vpt or stated_boxes.
    """

    config: str
    split: str
    prompt: str
    ask: str


class HealRow(NamedTuple):
    """One question and its response.

    Attributes:
        id: Id of the question.
        image_id: Id of the image.
        original_id: Id of the original question.
        kind: Kind of question.
        answer: "yes" or "no"; "" for other questions than closed ones.
        diseases: Gold of an open question.
        response: The response without region.
        question: The question.
        dice: Dice of the answer's region and the anatomy; NaN for an unreadable region, None without one.
        anatomy: The anatomy.
        cut: Whether the response was cut at the token limit.
        stated: Record of the boxes that the response states; None for other questions.
        relevancy: The relevancy of image tokens and text tokens; None if the model gave none.
    """

    id: str
    image_id: str
    original_id: str
    kind: str
    answer: str
    diseases: tuple[str, ...]
    response: str
    question: str = ""
    dice: float | None = None
    anatomy: str = ""
    cut: bool = False
    stated: Mapping[str, Any] | None = None
    relevancy: Relevancy | None = None


@dataclass(frozen=True, eq=False)
class HealRun(LoggedRows):
    """One model's responses to one kind of question about one source, ordered by question id.

    Attributes:
        setting: The setting.
        rows: Questions and responses.
    """

    setting: HealSetting
    rows: tuple[HealRow, ...]

    @property
    def telling(self) -> list[str]:
        """Prompt and split that differ from the task's own."""
        names = [self.setting.prompt] * (self.setting.prompt != "b0")
        return names + [self.setting.split] * (self.setting.split != "test")

    def scores(self) -> dict[str, Any]:
        """Compute the scores of the metric of this kind of question, from answers read by words."""
        if self.setting.ask == "open":
            return self.open_scores(self.named)
        return self.closed_scores(self.said)

    @property
    def unread(self) -> list[str]:
        """Ids of the questions whose answers could not be read by words."""
        return self._list_ids(UNREAD)

    @property
    def declined(self) -> list[str]:
        """Ids of the questions that the model declined to answer."""
        return self._list_ids(DECLINED)

    def _list_ids(self, outcome: str) -> list[str]:
        """List the ids of the questions with an outcome."""
        outcomes: Sequence[str] = [find_outcome(row.stated) for row in self.rows if row.stated is not None]
        if self.setting.ask != ASK:
            outcomes = [reading.outcome for reading in self.named] if self.setting.ask == "open" else self.said
        return [row.id for row, reading in zip(self.rows, outcomes, strict=True) if reading == outcome]

    @cached_property
    def said(self) -> list[YesNoOutcome]:
        """The answer to each yes/no question, read by words."""
        return [read_yes_no(row.response, row.question, cut=row.cut) for row in self.rows]

    @cached_property
    def named(self) -> list[Extraction]:
        """The diseases in the answer to each open-ended question, read by words."""
        return [extract_labels(row.response, list_classes(row.id), cut=row.cut) for row in self.rows]

    def closed_scores(self, outcomes: Sequence[YesNoOutcome]) -> dict[str, Any]:
        """Compute the scores of yes/no answers.

        Args:
            outcomes: One reading a row.

        Returns:
            The scores.
        """
        if self.setting.ask == "closed":
            gold, images = [row.answer for row in self.rows], [row.image_id for row in self.rows]
            return closed_scores(outcomes, gold, groups=images, seed=SEED)
        return self._compute_paired_scores(outcomes)

    def changed(self) -> list[float]:
        """Compute for each row of TPT or VPT whether the answer to a true positive turned to No.

        Returns:
            1, 0, or NaN for rows that are not true positives.
        """
        samples = self._compute_paired_scores(self.said, n_resamples=1, per_sample=True)["per_sample"]
        return [float("nan") if sample["changed"] is None else float(sample["changed"]) for sample in samples]

    def _compute_paired_scores(self, outcomes: Sequence[YesNoOutcome], **options: Any) -> dict[str, Any]:
        """Compute TPT or VPT."""
        rows = [row._asdict() for row in self.rows]
        return _PAIRED[self.setting.ask].score_outcomes(outcomes, rows, seed=SEED, **options)

    def open_scores(self, extractions: Sequence[Extraction]) -> dict[str, Any]:
        """Compute the scores of open-ended answers.

        Args:
            extractions: One reading a row.

        Returns:
            The scores.
        """
        images = [row.image_id for row in self.rows]
        return open_scores(extractions, [row.diseases for row in self.rows], groups=images, seed=SEED)


def read_heal_runs(file: SampleFile, progress: Callable[[int], Any] = lambda n_bytes: None) -> list[HealRun]:
    """Read the runs of a sample log, one for each source and kind of question.

    Args:
        file: The log.
        progress: Called with the number of bytes of each line read.

    Returns:
        The runs; [] for a log of another benchmark.

    Raises:
        InputError: As `logs.lines.read_lines`.
    """
    return read_lines(file, _HealLines, progress)


class _HealLines(Rows):
    columns = ("original_id", "image_id", "kind", "question_type", "diseases")

    @staticmethod
    def setting(doc: Mapping[str, Any], task: str) -> HealSetting:
        """Read the setting of a line; an original may belong to either perturbation test, which `run` decides."""
        config, split = (*doc["id"].split("/"), "")[:2]
        if config not in SOURCES:
            raise SampleError("doc.id", f"{doc['id']!r} begins with none of {', '.join(SOURCES)}")
        if doc["kind"] not in _KINDS:
            raise SampleError("doc.kind", f"{doc['kind']!r} is none of {', '.join(sorted(_KINDS))}")
        return HealSetting(config, split, str(doc.get("prompt") or "b0"), _SINGLE.get(doc["kind"], "paired"))

    @staticmethod
    def row(sample: Mapping[str, Any]) -> HealRow:
        row = _read_row(sample["doc"], sample["filtered_resps"][0], _read_dice(sample))
        return row._replace(stated=read_record(sample)) if row.kind == ASK else row

    def run(self, setting: HealSetting, file: SampleFile, *, single: bool) -> HealRun:
        if setting.ask == "paired":
            setting = setting._replace(ask=self._find_test(file))
        return HealRun(setting=setting, **self.logged(file, single=single))

    def _find_test(self, file: SampleFile) -> str:
        """Return the name of the log's test, TPT or VPT: by the kinds of its rows, or by its task if all are originals.

        Raise InputError for rows of both or of neither.
        """
        kinds = {row.kind for row in self.rows.values()}
        tests = [name for name, test in _PAIRED.items() if kinds & {*test.KINDS}]
        tests = tests or [name for name in _PAIRED if file.task.endswith(f"_{name}")]
        if len(tests) != 1:
            problem = f"its perturbed questions are of {' and '.join(tests) or 'neither test'}"
            raise InputError(file.path, problem, expected="those of one test, TPT or VPT", action=AGAIN)
        return tests[0]


def _read_dice(sample: Mapping[str, Any]) -> float | None:
    """Read the Dice that the task recorded under its first metric; None without a record."""
    for metric in (CLOSED.names[0], OPEN.names[0]):
        record = sample.get(metric)
        if isinstance(record, dict) and "dice" in record:
            dice = record["dice"]
            if not isinstance(dice, float | int) or dice < 0 or dice > 1:  # False for NaN
                raise SampleError(f"{metric}.dice", f"{dice!r} is not a number from 0 to 1, nor NaN")
            return dice
    return None


def _read_row(doc: Mapping[str, Any], response: Any, dice: float | None) -> HealRow:
    check_texts(doc, ("id", "image_id", "original_id"), "doc")
    if not isinstance(response, str):
        raise SampleError("filtered_resps", f"{str(response)[:100]} is not a text")
    if doc["kind"] == ORIGINAL and doc["id"] != doc["original_id"]:
        raise SampleError("doc.original_id", f"{doc['original_id']!r} is not the id of this original")
    question_type = _SINGLE.get(doc["kind"], "closed")
    is_closed = question_type == "closed"
    if doc["question_type"] != question_type:
        raise SampleError("doc.question_type", f"{doc['question_type']!r} does not fit the kind {doc['kind']!r}")
    classes = list_classes(doc["id"])
    unknown = sorted({*doc["diseases"]} - {*classes})
    if not is_closed and unknown:
        raise SampleError("doc.diseases", f"{unknown[0]!r} is none of the {len(classes)} classes")
    answer = "" if not is_closed else str(dict(enumerate(doc["options"])).get(doc["answer"])).casefold()
    if is_closed and answer not in {"yes", "no"}:
        raise SampleError("doc.answer", f"{answer!r} is neither Yes nor No")
    names = (doc["id"], doc["image_id"], doc["original_id"], doc["kind"])
    reply = read_reply(response)
    question, anatomy = (str(doc.get(column) or "") for column in ("question", "anatomy"))
    return HealRow(
        *names, answer, tuple(doc["diseases"]), reply.text, question, dice, anatomy, is_cut(doc),
        relevancy=read_relevancy(reply.relevancy),
    )  # fmt: skip
