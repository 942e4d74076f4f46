"""Attention to the sentences of That's the Wrong Lung!, one figure a row."""

from __future__ import annotations

from ..answers import Answers, build_answers
from .runs import GOLD, SYNTHETIC, TRIMMED, WrongLungRun

SCORED = (GOLD, SYNTHETIC, TRIMMED)  # configs with an unchanged text


def read_answers(run: WrongLungRun) -> Answers:
    """Read the AUROC of a run's attention; the subsets of a row stand for its question, and attention has no words.

    Args:
        run: The run, of one of the configs in SCORED.

    Returns:
        The answers.
    """
    rows = run.originals if run.setting.config == GOLD else run.changed
    n = len(rows)
    return build_answers(
        run,
        task=f"That's the Wrong Lung! {run.setting.config}",
        metric="AUROC",
        ids=[row["id"] for row in rows],
        asked=[tuple(row["subsets"].values()) for row in rows],
        values=[row["values"]["auroc"] for row in rows],
        said=[None] * n,
        outcomes=[""] * n,
        groups=[row["cluster"] for row in rows],
        about=[[subset for subset, is_in in row["subsets"].items() if is_in] for row in rows],
        is_present=[True] * n,
        subjects=[()] * n,
    )
