"""Answers to HEAL-MedVQA, one figure a row."""

from __future__ import annotations

from typing import Any

from medfaith.evaluate_metrics.reading.outcome import ANSWERED
from medfaith.evaluate_metrics.tpt.perturbation import ORIGINAL
from medfaith.tasks.stated_boxes import ASK

from ..answers import Answers, build_answers, compute_row_f1, find_patient
from ..stated_boxes import find_outcome, get_stated, get_value, name_metric
from .runs import SOURCES, HealRun


def read_answers(run: HealRun) -> Answers:
    """Read the answers of a run.

    The figure of a row is F1 for an open-ended question and accuracy for a yes/no question. For stated boxes it is the
    IoU, or the share of hits of a model that points. For a perturbed question it is whether the answer changes. It is
    undefined if the model does not say Yes to the original.

    Args:
        run: The run.

    Returns:
        The answers.
    """
    ask, rows = run.setting.ask, run.rows
    values: list[Any]
    readings: list[Any]
    outcomes: list[str]
    if ask == "open":
        outcomes = [answer_labels.outcome for answer_labels in run.named]
        readings = [answer_labels.labels if answer_labels.outcome == ANSWERED else None for answer_labels in run.named]
        metric = "F1 of a row"
        values = [compute_row_f1(labels, row.diseases) for labels, row in zip(readings, rows, strict=True)]
    elif ask == ASK:
        records = [row.stated for row in rows if row.stated is not None]
        metric, values = name_metric(records), [get_value(record) for record in records]
        outcomes, readings = [find_outcome(record) for record in records], [get_stated(record) for record in records]
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
    split, ask = run.setting.split, ask.replace("_", " ")
    return build_answers(
        run,
        task=f"HEAL-MedVQA {SOURCES[run.setting.config]} {ask}" + (f" ({split})" if split != "test" else ""),
        metric=metric,
        ids=[row.id for row in rows],
        asked=[(row.question, row.answer, row.diseases) for row in rows],
        values=values,
        said=readings,
        outcomes=outcomes,
        groups=[find_patient(row.image_id) for row in rows],
        about=[[row.anatomy] if row.stated else row.diseases or ["nothing"] for row in rows],
        is_present=[row.stated is not None or (row.answer != "no" and bool(row.diseases)) for row in rows],
        subjects=[{*row.diseases, row.anatomy} - {""} for row in rows],
    )
