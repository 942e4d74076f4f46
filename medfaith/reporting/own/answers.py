"""Answers to a user's own questions, one figure a row."""

from __future__ import annotations

from medfaith.tasks.own.rows import OPEN

from ..answers import Answers, build_answers
from .runs import KINDS, OwnRun


def read_answers(run: OwnRun) -> Answers:
    """Read the answers of a run.

    The figure of a row is whether the answer is right, or the F1 of the words of an open answer.

    Args:
        run: The run.

    Returns:
        The answers.
    """
    setting, rows = run.setting, run.rows
    figure, metric = ("f1", "F1 of a row") if setting.ask == OPEN else ("accuracy", "accuracy")
    return build_answers(
        run,
        task=f"{setting.source} {KINDS[setting.ask]}" + (f" ({setting.split})" if setting.split != "test" else ""),
        metric=metric,
        ids=[row.id for row in rows],
        asked=[(row.question, row.options, row.gold) for row in rows],
        values=[row.record[figure] for row in rows],
        said=[row.record["said"] for row in rows],
        outcomes=[row.record["outcome"] for row in rows],
        groups=[row.patient for row in rows],
        about=[[row.topic] for row in rows],
        is_present=[row.is_present for row in rows],
        subjects=[{row.topic, row.location} - {""} for row in rows],
    )
