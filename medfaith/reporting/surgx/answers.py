"""Answers to SurgXBench, one figure a row."""

from __future__ import annotations

from collections.abc import Collection

from medfaith.evaluate_metrics.reading.outcome import ANSWERED, DECLINED, UNREAD

from ..answers import Answers, build_answers, compute_row_f1
from .runs import SOURCES, SurgXRun


def read_answers(run: SurgXRun) -> Answers:
    """Read the answers of a run.

    The figure of a frame is F1 for instruments, and for triplets the share of the true ones that the answer names.

    Args:
        run: The run; not one after occlusion.

    Returns:
        The answers.
    """
    gold = [row.gold for row in run.rows]
    if run.setting.ask == "instruments":
        metric, values = "F1 of a frame", [compute_row_f1(row.predicted, row.gold) for row in run.rows]
    else:
        metric, values = "triplets found", [_compute_found_share(row.predicted, row.gold) for row in run.rows]
    return build_answers(
        run,
        task=f"{SOURCES[run.setting.source]} {run.setting.ask}",
        metric=metric,
        ids=[row.id for row in run.rows],
        asked=gold,
        values=values,
        said=[None if row.predicted is None else frozenset(row.predicted) for row in run.rows],
        outcomes=[DECLINED if row.declined else UNREAD if row.predicted is None else ANSWERED for row in run.rows],
        groups=run.videos,
        about=gold,
        is_present=[bool(names) for names in gold],
        subjects=[{name.split(",")[0] for name in names} for names in gold],
    )


def _compute_found_share(named: Collection[str] | None, gold: Collection[str]) -> float:
    """Compute the share of the gold names that the answer names; NaN without gold names."""
    return len({*(named or ())} & {*gold}) / len({*gold}) if gold else float("nan")
