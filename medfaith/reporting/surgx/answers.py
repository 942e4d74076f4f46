"""Answers to SurgXBench, one figure a row."""

from __future__ import annotations

from collections.abc import Collection, Hashable

from medfaith.evaluate_metrics.reading.outcome import ANSWERED, DECLINED, UNREAD
from medfaith.tasks.stated_boxes import ASK

from ..answers import Answers, build_answers, compute_row_f1
from ..stated_boxes import get_stated, get_value, name_metric
from .runs import SOURCES, SurgXRun


def read_answers(run: SurgXRun) -> Answers:
    """Read the answers of a run.

    The figure of a frame is F1 for instruments, and for triplets the share of the true ones that the answer names. For
    stated boxes a row is one instrument of a frame, and its figure is the IoU, or the share of hits of a model that
    points.

    Args:
        run: The run; not one after occlusion.

    Returns:
        The answers.
    """
    gold = [row.gold for row in run.rows]
    readings: list[Hashable] = [None if row.predicted is None else frozenset(row.predicted) for row in run.rows]
    if run.setting.ask == "instruments":
        metric, values = "F1 of a frame", [compute_row_f1(row.predicted, row.gold) for row in run.rows]
    elif run.setting.ask == ASK:
        records = [row.stated for row in run.rows if row.stated is not None]
        metric, values = name_metric(records), [get_value(record) for record in records]
        readings = [get_stated(record) for record in records]
    else:
        metric, values = "triplets found", [_compute_found_share(row.predicted, row.gold) for row in run.rows]
    return build_answers(
        run,
        task=f"{SOURCES[run.setting.source]} {run.setting.ask.replace('_', ' ')}",
        metric=metric,
        ids=[row.id for row in run.rows],
        asked=gold,
        values=values,
        said=readings,
        outcomes=[DECLINED if row.declined else UNREAD if row.predicted is None else ANSWERED for row in run.rows],
        groups=run.videos,
        about=gold,
        is_present=[bool(names) for names in gold],
        subjects=[{name.split(",")[0] for name in names} for names in gold],
    )


def _compute_found_share(named: Collection[str] | None, gold: Collection[str]) -> float:
    """Compute the share of the gold names that the answer names; NaN without gold names."""
    return len({*(named or ())} & {*gold}) / len({*gold}) if gold else float("nan")
