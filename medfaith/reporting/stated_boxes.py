"""Answers that state boxes or points: records in sample logs, and the table of the tasks `..._stated_boxes`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from medfaith.evaluate_metrics.reading.outcome import ANSWERED, DECLINED, UNREAD
from medfaith.logs.lines import SampleError
from medfaith.tasks.stated_boxes import COUNTS, EMPTY, ENDS, FIGURES, OVERLAP, compute_figures

from .tables import MODEL, SEED, SIZE, Column, Table, fraction_interval, share_of

OUTCOMES = (ANSWERED, UNREAD, DECLINED, EMPTY)
_FIRST_METRIC = FIGURES[0]
_TITLES = {"iou": "IoU", "iou_50": f"IoU ≥ {OVERLAP}", "hit": "Hit"}
_COUNTED = {"n_unparsed": "unread", "n_declined": "declined", "n_empty": "empty"}


class StatedRow(Protocol):
    """A row with the record of an answer."""

    @property
    def stated(self) -> Mapping[str, Any] | None:
        """The record; None for a row of another task."""
        ...


class StatedRun(NamedTuple):
    """A run with what its row of the table begins with.

    Attributes:
        name: Name of the run.
        source: Title of the source.
        n_data: Number of questions of the protocol.
        task: Name of the task.
        rows: The rows.
    """

    name: str
    source: str
    n_data: int
    task: str
    rows: Sequence[StatedRow]


def read_record(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read the record of an answer.

    Args:
        sample: A line of a sample log.

    Returns:
        The record.

    Raises:
        SampleError: The record is missing or broken.
    """
    record = sample.get(_FIRST_METRIC)
    if not isinstance(record, dict):
        raise SampleError(_FIRST_METRIC, f"{str(record)[:100]!r} is not the record that the task logs")
    if record["outcome"] not in OUTCOMES:
        raise SampleError(f"{_FIRST_METRIC}.outcome", f"{record['outcome']!r} is none of {', '.join(OUTCOMES)}")
    for name in ("iou", "hit"):
        value = record[name]
        if not (name == "iou" and value is None) and (not isinstance(value, float | int) or not 0 <= value <= 1):
            raise SampleError(f"{_FIRST_METRIC}.{name}", f"{value!r} is not a number from 0 to 1")
    return record


def find_outcome(record: Mapping[str, Any]) -> str:
    """Return the outcome of reading an answer; an empty answer is unread.

    Args:
        record: The record.

    Returns:
        "answered", "declined" or "unread".
    """
    return UNREAD if record["outcome"] == EMPTY else record["outcome"]


def name_metric(records: Iterable[Mapping[str, Any]]) -> str:
    """Name the figure of a row.

    Args:
        records: The records of a run.

    Returns:
        The IoU; the share of hits for a model that points.
    """
    return "hit" if any(record["iou"] is None for record in records) else "IoU"


def get_value(record: Mapping[str, Any]) -> float:
    """Get the figure of a row.

    Args:
        record: The record.

    Returns:
        The IoU; the share of hits for a model that points.
    """
    return record["hit"] if record["iou"] is None else record["iou"]


def get_stated(record: Mapping[str, Any]) -> tuple | None:
    """Get the stated boxes of an answer.

    Args:
        record: The record.

    Returns:
        The boxes [x, y, width, height]; None without a readable one.
    """
    return tuple(map(tuple, record["boxes"])) if record["outcome"] == ANSWERED else None


def build_stated_table(prefix: str, title: str, runs: Sequence[StatedRun], interval_note: str) -> list[Table]:
    """Build the table of stated boxes.

    Args:
        prefix: Beginning of the table's name.
        title: Title of the benchmark.
        runs: The runs.
        interval_note: A sentence on the intervals.

    Returns:
        The table; none without runs.
    """
    rows = []
    for run in runs:
        scores = compute_figures([row.stated for row in run.rows if row.stated is not None], seed=SEED)
        n = len(run.rows)
        counts = [number for name in COUNTS for number in (scores[name], n)]
        figures = [scores[f"{name}{end}"] for name in FIGURES for end in ENDS]
        rows.append([run.name, run.source, n, run.n_data, *figures, *counts, run.task])
    columns = [
        MODEL, Column("Source", ("source",)), SIZE,
        *(Column(f"{_TITLES[name]} [95% CI]", tuple(f"{name}{end}" for end in ENDS), fraction_interval)
          for name in FIGURES),
        *(Column(_COUNTED[name], (name, f"{name}_of"), share_of) for name in COUNTS),
        Column(None, ("task",)),
    ]  # fmt: skip
    note = (
        "IoU: of all boxes that an answer states and all boxes of its row, in pixels; a region is the box around "
        f"it. IoU ≥ {OVERLAP}: share of the answers. Hit: mean share of an answer's points, or of the middles of its "
        "boxes, that lie in a box of the row. Answers that are unread, declined or empty score 0. A model that points "
        f"has no IoU. {interval_note}"
    )
    return [Table(f"{prefix}_stated_boxes", f"{title}: stated boxes", columns, rows, [note])] if rows else []
