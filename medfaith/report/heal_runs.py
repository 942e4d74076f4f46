"""HEAL-MedVQA's runs in sample logs: what a model answered to each question, and the scores of its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from medfaith.evaluate_metrics.medvqa_f1.score import closed_scores, open_scores
from medfaith.evaluate_metrics.reading.disease_names import CLASSES
from medfaith.evaluate_metrics.reading.diseases import Extraction, extract_labels
from medfaith.evaluate_metrics.reading.outcome import DECLINED, UNREAD
from medfaith.evaluate_metrics.reading.yes_no import YesNoOutcome, read_yes_no
from medfaith.evaluate_metrics.tpt import score as tpt
from medfaith.evaluate_metrics.tpt.perturbation import ORIGINAL
from medfaith.evaluate_metrics.vpt import score as vpt
from medfaith.loaders.errors import InputError
from medfaith.logs.files import SampleFile
from medfaith.logs.lines import AGAIN, LoggedRows, Rows, SampleError, check_texts, read_lines
from medfaith.tasks.heal.adapter import CLOSED, OPEN
from medfaith.tasks.heal.localization import read_reply
from medfaith.tasks.outcomes import is_cut

from .tables import SEED

SOURCES = {"mimic": "MIMIC", "vindr": "VinDr"}  # the paper's names, in its order
_PAIRED = {"tpt": tpt, "vpt": vpt}
_SINGLE = {"positive": "closed", "hallucinated": "closed", "abnormal": "open", "normal": "open"}
_KINDS = {*_SINGLE, ORIGINAL, *tpt.KINDS, *vpt.KINDS}


class HealSetting(NamedTuple):
    """What was asked. ask: closed, open, tpt or vpt; split: train, validation or test."""

    config: str
    split: str
    prompt: str
    ask: str


class HealRow(NamedTuple):
    """One question and its response.

    answer: "yes", "no", or "" of an open question, whose gold is `diseases`. dice: of the region that the model gives
    and the anatomy's; NaN where its region cannot be read, None where it gives none. cut: whether the log says that the
    response was cut at the limit of tokens.
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


@dataclass(frozen=True, eq=False)
class HealRun(LoggedRows):
    """One model's responses to one kind of question about one source, ordered by question id."""

    setting: HealSetting
    rows: tuple[HealRow, ...]

    @property
    def telling(self) -> list[str]:
        """Prompt and split where they are not the task's own."""
        own = [self.setting.prompt] * (self.setting.prompt != "b0")
        return own + [self.setting.split] * (self.setting.split != "test")

    def scores(self) -> dict[str, Any]:
        """Of the metric that the setting asks for, of answers read by words."""
        if self.setting.ask == "open":
            return self.open_scores(self.named)
        return self.closed_scores(self.said)

    @property
    def unread(self) -> list[str]:
        """The ids of the questions whose answers could not be read by words."""
        return self._with_outcome(UNREAD)

    @property
    def declined(self) -> list[str]:
        """The ids of the questions that the model declined to answer."""
        return self._with_outcome(DECLINED)

    def _with_outcome(self, outcome: str) -> list[str]:
        outcomes = [of.outcome for of in self.named] if self.setting.ask == "open" else self.said
        return [row.id for row, of in zip(self.rows, outcomes, strict=True) if of == outcome]

    @cached_property
    def said(self) -> list[YesNoOutcome]:
        """What words say to each yes/no question."""
        return [read_yes_no(row.response, row.question, cut=row.cut) for row in self.rows]

    @cached_property
    def named(self) -> list[Extraction]:
        """What diseases words name in answer to each open-ended question."""
        return [extract_labels(row.response, cut=row.cut) for row in self.rows]

    def closed_scores(self, outcomes: Sequence[YesNoOutcome]) -> dict[str, Any]:
        """Of yes/no answers as somebody read them, one outcome a row."""
        if self.setting.ask == "closed":
            gold, images = [row.answer for row in self.rows], [row.image_id for row in self.rows]
            return closed_scores(outcomes, gold, groups=images, seed=SEED)
        return self._paired_scores(outcomes)

    def changed(self) -> list[float]:
        """Of each row of TPT or VPT 1 where the answer to a true positive turned to No, 0 where not; else NaN."""
        samples = self._paired_scores(self.said, n_resamples=1, per_sample=True)["per_sample"]
        return [float("nan") if sample["changed"] is None else float(sample["changed"]) for sample in samples]

    def _paired_scores(self, outcomes: Sequence[YesNoOutcome], **options: Any) -> dict[str, Any]:
        rows = [row._asdict() for row in self.rows]
        return _PAIRED[self.setting.ask].score_outcomes(outcomes, rows, seed=SEED, **options)

    def open_scores(self, extractions: Sequence[Extraction]) -> dict[str, Any]:
        """Of open-ended answers as somebody read them, one extraction a row."""
        images = [row.image_id for row in self.rows]
        return open_scores(extractions, [row.diseases for row in self.rows], groups=images, seed=SEED)


def read_heal_runs(file: SampleFile, progress: Callable[[int], Any] = lambda n_bytes: None) -> list[HealRun]:
    """The runs in a sample log, one for each source and kind of question; none for another benchmark's log.

    Args and Raises: as `logs.lines.read_lines`.
    """
    return read_lines(file, _HealLines, progress)


class _HealLines(Rows):
    columns = ("original_id", "image_id", "kind", "question_type", "diseases")

    @staticmethod
    def setting(doc: Mapping[str, Any], task: str) -> HealSetting:
        """An original is one of either perturbation test: `run` says which."""
        config, split = (*doc["id"].split("/"), "")[:2]
        if config not in SOURCES:
            raise SampleError("doc.id", f"{doc['id']!r} begins with none of {', '.join(SOURCES)}")
        if doc["kind"] not in _KINDS:
            raise SampleError("doc.kind", f"{doc['kind']!r} is none of {', '.join(sorted(_KINDS))}")
        return HealSetting(config, split, str(doc.get("prompt") or "b0"), _SINGLE.get(doc["kind"], "paired"))

    @staticmethod
    def row(sample: Mapping[str, Any]) -> HealRow:
        return _row(sample["doc"], sample["filtered_resps"][0], _dice(sample))

    def run(self, setting: HealSetting, file: SampleFile, *, single: bool) -> HealRun:
        if setting.ask == "paired":
            setting = setting._replace(ask=self._test(file))
        return HealRun(setting=setting, **self.logged(file, single=single))

    def _test(self, file: SampleFile) -> str:
        """Which perturbation test it is; a log that --limit left with originals only has its task's name to tell."""
        kinds = {row.kind for row in self.rows.values()}
        tests = [name for name, test in _PAIRED.items() if kinds & {*test.KINDS}]
        tests = tests or [name for name in _PAIRED if file.task.endswith(f"_{name}")]
        if len(tests) != 1:
            found = f"its perturbed questions are of {' and '.join(tests) or 'neither test'}"
            raise InputError(file.path, found, expected="those of one test, TPT or VPT", action=AGAIN)
        return tests[0]


def _dice(sample: Mapping[str, Any]) -> float | None:
    """What the task measured of a reply with a region, in the record under its first metric."""
    for where in (CLOSED.names[0], OPEN.names[0]):
        record = sample.get(where)
        if isinstance(record, dict) and "dice" in record:
            dice = record["dice"]
            if not isinstance(dice, float | int) or dice < 0 or dice > 1:  # NaN is neither
                raise SampleError(f"{where}.dice", f"{dice!r} is not a number from 0 to 1, nor NaN")
            return dice
    return None


def _row(doc: Mapping[str, Any], response: Any, dice: float | None) -> HealRow:
    check_texts(doc, ("id", "image_id", "original_id"), "doc")
    if not isinstance(response, str):
        raise SampleError("filtered_resps", f"{str(response)[:100]} is not a text")
    if doc["kind"] == ORIGINAL and doc["id"] != doc["original_id"]:
        raise SampleError("doc.original_id", f"{doc['original_id']!r} is not the id of this original")
    opened = _SINGLE.get(doc["kind"]) == "open"
    if doc["question_type"] != ("open" if opened else "closed"):
        raise SampleError("doc.question_type", f"{doc['question_type']!r} for a question of kind {doc['kind']!r}")
    unknown = sorted({*doc["diseases"]} - {*CLASSES})
    if opened and unknown:
        raise SampleError("doc.diseases", f"{unknown[0]!r} is none of the {len(CLASSES)} classes")
    answer = "" if opened else str(dict(enumerate(doc["options"])).get(doc["answer"])).casefold()
    if not opened and answer not in {"yes", "no"}:
        raise SampleError("doc.answer", f"{answer!r} is neither Yes nor No")
    names = (doc["id"], doc["image_id"], doc["original_id"], doc["kind"])
    text = read_reply(response).text
    question, anatomy = (str(doc.get(column) or "") for column in ("question", "anatomy"))
    return HealRow(*names, answer, tuple(doc["diseases"]), text, question, dice, anatomy, is_cut(doc))
