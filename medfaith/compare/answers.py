"""One figure a row of each benchmark's runs: what is paired when two models are compared."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from medfaith.evaluate_metrics.reading.outcome import ANSWERED, DECLINED, UNREAD
from medfaith.evaluate_metrics.tpt.perturbation import ORIGINAL
from medfaith.logs.lines import Logged
from medfaith.report.contrabench_names import protocol_name
from medfaith.report.contrabench_option_scores import ScoredRun
from medfaith.report.contrabench_runs import Run
from medfaith.report.heal_runs import SOURCES as HEAL_SOURCES
from medfaith.report.heal_runs import HealRun
from medfaith.report.results import Results
from medfaith.report.surgx_runs import SOURCES as SURGX_SOURCES
from medfaith.report.surgx_runs import SurgXRun
from medfaith.report.wrong_lung_runs import GOLD, SYNTHETIC, TRIMMED, WrongLungRun

_PATIENT = re.compile(r"(?:^|/)(patient\d+|p\d{8})(?=/|$)")  # in the paths of CheXpert and of MIMIC-CXR
_ASKED = {"protocol", "split", "config", "ask", "source"}  # of a setting, what tells one task from another
_LUNG = (GOLD, SYNTHETIC, TRIMMED)  # the configs in which attention should follow the text as it is


class Answers(NamedTuple):
    """A model's answers to one task, a figure a row, in the order of the ids.

    model: its name; variant: its telling arguments. task, metric: what is compared only with its like. how: how it was
    put, which has to be equal, too. ids: shape (n,). asked: of each row what was asked, which tells rows of one id
    apart. values: shape (n,), in [0, 1], 1 best, NaN where a row has none. said: what was read of each answer, None of
    one that is unread or declined. outcomes: "answered", "declined" or "unread" of each answer, "" where no answer is
    read in words. groups: of each row its patient, or else the study, the image or the video. about: of each
    row its findings, instruments or kinds. views: of each row those of its images, or "". decoding:
    what decodes the model's answers, or "". is_present: of each row, whether what is asked about is in the image.
    subjects: of each row the findings, anatomies and instruments that it asks about.
    """

    model: str
    variant: str
    task: str
    metric: str
    how: dict[str, str]
    ids: Sequence[str]
    asked: Sequence[Hashable]
    values: np.ndarray
    said: Sequence[Hashable]
    outcomes: Sequence[str]
    groups: Sequence[Hashable]
    about: Sequence[Collection[str]]
    views: Sequence[str]
    is_present: Sequence[bool]
    subjects: Sequence[Collection[str]]
    decoding: str = ""


def all_answers(results: Results) -> tuple[list[Answers], list[str]]:
    """Those of all runs, and notes on runs that have no figure in which more is better."""
    surgx = [run for run in results.surgx if run.setting.ask != "occlusion"]
    lung = [run for run in results.wrong_lung if run.setting.config in _LUNG]
    found = [
        *map(_contrabench, (*results.runs, *results.scored)), *map(_heal, results.heal), *map(_surgx, surgx),
        *map(_wrong_lung, lung),
    ]  # fmt: skip
    others = [run for run in (*results.surgx, *results.wrong_lung) if run not in (*surgx, *lung)]
    return found, [f"{run.source.task} is left out: more is not better there" for run in others]


def patient(place: str) -> str:
    """The patient in the path of a study or an image of CheXpert or MIMIC-CXR; any other place is its own group.

    >>> patient("patient00001/study1"), patient("p10/p10000032/s50/a.jpg"), patient("CXR12")
    ('patient00001', 'p10000032', 'CXR12')
    """
    found = _PATIENT.search(place)
    return found[1] if found else place


def _contrabench(run: Run) -> Answers:
    metric = "accuracy of scores" if isinstance(run, ScoredRun) else "accuracy"
    asked = [run.wordings[wording] for wording in run.wording]
    said = [options[choice] if choice >= 0 else None for (_, options), choice in zip(asked, run.base, strict=True)]
    groups = [patient(study) for study in run.study]
    about = [[finding] for finding in run.finding]
    return _answers(
        run, protocol_name(run), metric, list(run.id), asked, run.correct(), said, run.outcome.tolist(), groups, about,
        [True] * len(about), about,
    )  # fmt: skip


def _heal(run: HealRun) -> Answers:
    """Of the perturbation tests the perturbed rows: without a Yes to its original, a row has no value."""
    ask, rows = run.setting.ask, run.rows
    if ask == "open":
        outcomes = [found.outcome for found in run.named]
        said = [found.labels if found.outcome == ANSWERED else None for found in run.named]
        metric, values = "F1 of a row", [_f1(labels, row.diseases) for labels, row in zip(said, rows, strict=True)]
    else:
        outcomes = [ANSWERED if outcome in ("yes", "no") else outcome for outcome in run.said]
        said = [outcome if outcome in ("yes", "no") else None for outcome in run.said]
        if ask == "closed":
            metric, values = "accuracy", [answer == row.answer for answer, row in zip(said, rows, strict=True)]
        else:
            metric = ask = ask.upper()
            perturbed = [n for n, row in enumerate(rows) if row.kind != ORIGINAL]
            changed = run.changed()
            rows, values = [rows[n] for n in perturbed], [changed[n] for n in perturbed]
            said, outcomes = [said[n] for n in perturbed], [outcomes[n] for n in perturbed]
    split = run.setting.split
    name = f"HEAL-MedVQA {HEAL_SOURCES[run.setting.config]} {ask}" + (f" ({split})" if split != "test" else "")
    asked = [(row.question, row.answer, row.diseases) for row in rows]
    groups = [patient(row.image_id) for row in rows]
    about = [row.diseases or ["nothing"] for row in rows]
    is_present = [row.answer != "no" and bool(row.diseases) for row in rows]
    subjects = [{*row.diseases, row.anatomy} - {""} for row in rows]
    return _answers(
        run, name, metric, [row.id for row in rows], asked, values, said, outcomes, groups, about, is_present, subjects
    )


def _surgx(run: SurgXRun) -> Answers:
    if run.setting.ask == "instruments":
        metric, values = "F1 of a frame", [_f1(row.predicted, row.gold) for row in run.rows]
    else:
        metric, values = "triplets found", [_found(row.predicted, row.gold) for row in run.rows]
    name = f"{SURGX_SOURCES[run.setting.source]} {run.setting.ask}"
    said = [None if row.predicted is None else frozenset(row.predicted) for row in run.rows]
    outcomes = [DECLINED if row.declined else UNREAD if row.predicted is None else ANSWERED for row in run.rows]
    gold, ids = [row.gold for row in run.rows], [row.id for row in run.rows]
    instruments = [{name.split(",")[0] for name in names} for names in gold]
    is_present = [bool(names) for names in gold]
    return _answers(run, name, metric, ids, gold, values, said, outcomes, run.videos, gold, is_present, instruments)


def _wrong_lung(run: WrongLungRun) -> Answers:
    """A row's subsets are what its log tells of what was asked. Attention says nothing in words."""
    rows = run.originals if run.setting.config == GOLD else run.changed
    values = [row["values"]["auroc"] for row in rows]
    asked = [tuple(row["subsets"].values()) for row in rows]
    name = f"That's the Wrong Lung! {run.setting.config}"
    about = [[subset for subset, is_in in row["subsets"].items() if is_in] for row in rows]
    ids, groups = ([row[column] for row in rows] for column in ("id", "cluster"))
    n = len(rows)
    return _answers(run, name, "AUROC", ids, asked, values, [None] * n, [""] * n, groups, about, [True] * n, [()] * n)


def _answers(
    run: Logged, task: str, metric: str, ids: Sequence[str], asked: Sequence[Hashable], values: Any,
    said: Sequence[Hashable], outcomes: Sequence[str], groups: Sequence[Hashable], about: Sequence[Collection[str]],
    is_present: Sequence[bool], subjects: Sequence[Collection[str]],
) -> Answers:  # fmt: skip
    setting = {name: str(value) for name, value in run.setting._asdict().items()}
    variant = setting.pop("variant", "")
    how = {name: value for name, value in setting.items() if name not in _ASKED} | dict(run.source.told)
    views = [run.source.views.get(row_id, "") for row_id in ids]
    values = np.array(values, dtype=float)  # None becomes NaN
    return Answers(
        run.model_name, variant, task, metric, how, ids, asked, values, said, outcomes, groups, about, views,
        is_present, subjects, run.source.decoding,
    )  # fmt: skip


def _f1(said: Collection[str] | None, gold: Collection[str]) -> float:
    """Of one row: 1 where nothing is there and nothing is named, 0 of an answer that is unread or declined."""
    if said is None:
        return 0.0
    total = len({*said}) + len({*gold})
    return 2 * len({*said} & {*gold}) / total if total else 1.0


def _found(said: Collection[str] | None, gold: Collection[str]) -> float:
    """The share of the gold names that are among those said; NaN without any."""
    return len({*(said or ())} & {*gold}) / len({*gold}) if gold else float("nan")
