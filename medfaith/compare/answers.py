"""Answers to the rows of a benchmark, one figure a row: the input of a paired comparison of two models."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from medfaith.evaluate_metrics.reading.outcome import ANSWERED, DECLINED, UNREAD
from medfaith.evaluate_metrics.tpt.perturbation import ORIGINAL
from medfaith.logs.lines import Logged
from medfaith.reporting.contrabench.names import protocol_name
from medfaith.reporting.contrabench.option_scores import ScoredRun
from medfaith.reporting.contrabench.runs import Run
from medfaith.reporting.heal.runs import SOURCES as HEAL_SOURCES
from medfaith.reporting.heal.runs import HealRun
from medfaith.reporting.results import Results
from medfaith.reporting.surgx.runs import SOURCES as SURGX_SOURCES
from medfaith.reporting.surgx.runs import SurgXRun
from medfaith.reporting.wrong_lung.runs import GOLD, SYNTHETIC, TRIMMED, WrongLungRun

_PATIENT = re.compile(r"(?:^|/)(patient\d+|p\d{8})(?=/|$)")  # in the paths of CheXpert and of MIMIC-CXR
_ASKED = {"protocol", "split", "config", "ask", "source"}  # of a setting, what tells one task from another
_LUNG = (GOLD, SYNTHETIC, TRIMMED)  # configs with an unchanged text


class Answers(NamedTuple):
    """A model's answers to one task, one figure a row, in the order of the ids.

    Attributes:
        model: Name of the model.
        variant: The model's arguments that distinguish its runs.
        task: Title of the task; only equal tasks are compared.
        metric: Name of the figure; only equal metrics are compared.
        how: Prompt, layout and other settings; they have to be equal, too.
        ids: Shape (n,), ids of the rows.
        asked: Question of each row; it distinguishes rows of one id in two builds.
        values: Shape (n,), figures in [0, 1]; 1 is best, NaN is undefined.
        said: Reading of each answer; None if it is unread or declined.
        outcomes: "answered", "declined" or "unread" for each answer; "" for attention.
        groups: Patient of each row, or else the study, the image or the video.
        about: Findings, instruments or kinds of each row.
        views: Views of the images of each row, or "".
        is_present: Whether the image shows the finding or instrument of each row.
        subjects: Findings, anatomies and instruments in the question of each row.
        decoding: Decoder of the model's answers, or "".
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
    """Collect the answers of all runs that have a figure in which more is better.

    Args:
        results: Runs of all benchmarks.

    Returns:
        The answers, and notes on the runs that are left out.
    """
    surgx = [run for run in results.surgx if run.setting.ask != "occlusion"]
    lung = [run for run in results.wrong_lung if run.setting.config in _LUNG]
    answers = [
        *map(_read_contrabench, (*results.runs, *results.scored)), *map(_read_heal, results.heal),
        *map(_read_surgx, surgx), *map(_read_wrong_lung, lung),
    ]  # fmt: skip
    left_out = [run for run in (*results.surgx, *results.wrong_lung) if run not in (*surgx, *lung)]
    return answers, [f"{run.source.task} is left out: more is not better there" for run in left_out]


def patient(path: str) -> str:
    """Find the patient in the path of a study or an image of CheXpert or MIMIC-CXR; any other path is its own group.

    Args:
        path: Path of a study or an image.

    Returns:
        The patient, or the path.

    >>> patient("patient00001/study1"), patient("p10/p10000032/s50/a.jpg"), patient("CXR12")
    ('patient00001', 'p10000032', 'CXR12')
    """
    match = _PATIENT.search(path)
    return match[1] if match else path


def _read_contrabench(run: Run) -> Answers:
    metric = "accuracy of scores" if isinstance(run, ScoredRun) else "accuracy"
    questions = [run.wordings[wording] for wording in run.wording]
    readings = [
        options[choice] if choice >= 0 else None for (_, options), choice in zip(questions, run.base, strict=True)
    ]
    groups = [patient(study) for study in run.study]
    findings = [[finding] for finding in run.finding]
    return _make_answers(
        run, protocol_name(run), metric, list(run.id), questions, run.correct(), readings, run.outcome.tolist(), groups,
        findings, [True] * len(findings), findings,
    )  # fmt: skip


def _read_heal(run: HealRun) -> Answers:
    """Read HEAL-MedVQA; a perturbed row has no value if the model does not say Yes to its original."""
    ask, rows = run.setting.ask, run.rows
    if ask == "open":
        outcomes = [answer_labels.outcome for answer_labels in run.named]
        readings = [answer_labels.labels if answer_labels.outcome == ANSWERED else None for answer_labels in run.named]
        metric, values = (
            "F1 of a row",
            [_compute_f1(labels, row.diseases) for labels, row in zip(readings, rows, strict=True)],
        )
    else:
        outcomes = [ANSWERED if outcome in ("yes", "no") else outcome for outcome in run.said]
        readings = [outcome if outcome in ("yes", "no") else None for outcome in run.said]
        if ask == "closed":
            metric, values = "accuracy", [answer == row.answer for answer, row in zip(readings, rows, strict=True)]
        else:
            metric = ask = ask.upper()
            perturbed = [n for n, row in enumerate(rows) if row.kind != ORIGINAL]
            changed = run.changed()
            rows, values = [rows[n] for n in perturbed], [changed[n] for n in perturbed]
            readings, outcomes = [readings[n] for n in perturbed], [outcomes[n] for n in perturbed]
    split = run.setting.split
    name = f"HEAL-MedVQA {HEAL_SOURCES[run.setting.config]} {ask}" + (f" ({split})" if split != "test" else "")
    questions = [(row.question, row.answer, row.diseases) for row in rows]
    groups = [patient(row.image_id) for row in rows]
    diseases = [row.diseases or ["nothing"] for row in rows]
    is_present = [row.answer != "no" and bool(row.diseases) for row in rows]
    subjects = [{*row.diseases, row.anatomy} - {""} for row in rows]
    return _make_answers(
        run,
        name,
        metric,
        [row.id for row in rows],
        questions,
        values,
        readings,
        outcomes,
        groups,
        diseases,
        is_present,
        subjects,
    )


def _read_surgx(run: SurgXRun) -> Answers:
    if run.setting.ask == "instruments":
        metric, values = "F1 of a frame", [_compute_f1(row.predicted, row.gold) for row in run.rows]
    else:
        metric, values = "triplets found", [_compute_found_share(row.predicted, row.gold) for row in run.rows]
    name = f"{SURGX_SOURCES[run.setting.source]} {run.setting.ask}"
    readings = [None if row.predicted is None else frozenset(row.predicted) for row in run.rows]
    outcomes = [DECLINED if row.declined else UNREAD if row.predicted is None else ANSWERED for row in run.rows]
    gold, ids = [row.gold for row in run.rows], [row.id for row in run.rows]
    instruments = [{name.split(",")[0] for name in names} for names in gold]
    is_present = [bool(names) for names in gold]
    return _make_answers(
        run, name, metric, ids, gold, values, readings, outcomes, run.videos, gold, is_present, instruments
    )


def _read_wrong_lung(run: WrongLungRun) -> Answers:
    """Read That's the Wrong Lung!; the subsets of a row stand for its question, and attention has no words."""
    rows = run.originals if run.setting.config == GOLD else run.changed
    values = [row["values"]["auroc"] for row in rows]
    questions = [tuple(row["subsets"].values()) for row in rows]
    name = f"That's the Wrong Lung! {run.setting.config}"
    subsets = [[subset for subset, is_in in row["subsets"].items() if is_in] for row in rows]
    ids, groups = ([row[column] for row in rows] for column in ("id", "cluster"))
    n = len(rows)
    return _make_answers(
        run, name, "AUROC", ids, questions, values, [None] * n, [""] * n, groups, subsets, [True] * n, [()] * n
    )


def _make_answers(
    run: Logged, task: str, metric: str, ids: Sequence[str], questions: Sequence[Hashable], values: Any,
    readings: Sequence[Hashable], outcomes: Sequence[str], groups: Sequence[Hashable],
    topics: Sequence[Collection[str]], is_present: Sequence[bool], subjects: Sequence[Collection[str]],
) -> Answers:  # fmt: skip
    setting = {name: str(value) for name, value in run.setting._asdict().items()}
    variant = setting.pop("variant", "")
    conditions = {name: value for name, value in setting.items() if name not in _ASKED} | dict(run.source.told)
    views = [run.source.views.get(row_id, "") for row_id in ids]
    values = np.array(values, dtype=float)  # None becomes NaN
    return Answers(
        run.model_name, variant, task, metric, conditions, ids, questions, values, readings, outcomes, groups, topics,
        views, is_present, subjects, run.source.decoding,
    )  # fmt: skip


def _compute_f1(named: Collection[str] | None, gold: Collection[str]) -> float:
    """Compute F1 of one row: 1 if nothing is present and nothing is named, 0 for an unread or declined answer."""
    if named is None:
        return 0.0
    total = len({*named}) + len({*gold})
    return 2 * len({*named} & {*gold}) / total if total else 1.0


def _compute_found_share(named: Collection[str] | None, gold: Collection[str]) -> float:
    """Compute the share of the gold names that the answer names; NaN without gold names."""
    return len({*(named or ())} & {*gold}) / len({*gold}) if gold else float("nan")
