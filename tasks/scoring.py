"""The metrics of a task, each with its name, and one function that computes them all.

lm-eval aggregates each metric separately: it collects the values of all rows under the metric's name, and passes the
list to the metric's own function. Here a row holds the same record under all names, and the first call computes the
figures of all metrics.

lm-eval's `class:` key could do the same, but not for tasks that a group defines in its own file: lm-eval makes each of
them a plain ConfigurableTask. A YAML file therefore names two members of an adapter, `process_results` and
`metric_list`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from .outcomes import OUTCOME, UNANSWERED

SKIPPED = "n_rows_skipped"
VIEWS = "views"  # column of a document: the views of its images in the source's terms
SENT = "n_images_sent"  # column of a document: the number of images that its model was given
MISSING = "n_images_missing"
N_UNANSWERED = "n_unanswered"

Figures = Callable[[Sequence[Mapping[str, Any]]], Mapping[str, float]]


class Record(dict[str, Any]):
    """The score values of one answer. The first record of a task caches the figures of all records."""

    scored: tuple[Figures, list[Record], Mapping[str, float]] | None = None


class Same(str):
    """A reference to a record, under every metric but the first. A sample log shows it as an empty text."""

    __slots__ = ("record",)  # a large run has half a million instances
    record: Record


def repeat_record(names: Sequence[str], record: Mapping[str, Any]) -> dict[str, Any]:
    """Repeat a record under each metric name. A sample log shows it under the first name only.

    Args:
        names: The metrics.
        record: The record of a row.

    Returns:
        Metric -> the record; every metric after the first has a reference to it.
    """
    first_record = Record(record)
    reference = Same()
    reference.record = first_record
    return {name: reference if position else first_record for position, name in enumerate(names)}


def read_logged_values(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Read the values that `process_results` returned for a row from its sample in a sample log.

    Args:
        sample: One line of a sample log.

    Returns:
        Metric -> value; metrics that share a record refer to the same one.
    """
    values, record = {}, Record()
    for name in sample["metrics"]:
        value = sample[name]
        if isinstance(value, dict):
            value = record = Record(value)
        elif value == "":
            value = Same()
            value.record = record
        values[name] = value
    return values


class Scorer:
    """The metrics of a task in the order of its results.

    Args:
        figures: Returns metric -> figure, given all records of a task. It may return more figures than `names`.
        names: The metrics.
        lower: The metrics for which lower is better.
        counts: As in `counted`. Without counts, missing images are not counted either.
    """

    def __init__(
        self,
        figures: Figures,
        names: Sequence[str],
        *,
        lower: Collection[str] = (),
        counts: Sequence[str] = (SKIPPED,),
    ) -> None:
        if unknown := set(lower) - set(names):
            raise ValueError(f"lower: {sorted(unknown)} are no names of the scorer")
        self.figures, self.names, self.lower, self._counts = figures, tuple(names), frozenset(lower), tuple(counts)
        self.metric_list = [metric(name, _build_aggregation(figures, name), higher=name not in lower) for name in names]
        self.metric_list += counted(counts)

    def values(self, doc: Mapping[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
        """Return what `process_results` returns for a row: its record under each metric, and its document's counts.

        Args:
            doc: The document.
            record: The record of the row.

        Returns:
            Metric or count -> value.
        """
        return repeat_record(self.names, record) | collect_counts(doc, self._counts)


def metric(name: str, aggregation: str | Callable[[Sequence[Any]], float], *, higher: bool = True) -> dict[str, Any]:
    """Build an entry of lm-eval's `metric_list`.

    Args:
        name: The metric.
        aggregation: lm-eval's name of an aggregation, or a function of the values of all rows.
        higher: Whether higher is better.

    Returns:
        The entry.
    """
    return {"metric": name, "aggregation": aggregation, "higher_is_better": higher}


def counted(counts: Sequence[str] = (SKIPPED,)) -> list[dict[str, Any]]:
    """Build entries of the `metric_list` for counts of a task, missing images and unanswered rows.

    Args:
        counts: Columns of a document in which every row repeats the same count.

    Returns:
        The entries; an empty list if `counts` is empty.
    """
    repeated = [metric(name, find_largest, higher=False) for name in counts]
    return [*repeated, *(metric(name, sum_known, higher=False) for name in (MISSING, N_UNANSWERED) if counts)]


def collect_counts(doc: Mapping[str, Any], counts: Sequence[str] = (SKIPPED,)) -> dict[str, Any]:
    """Return a row's values of the metrics that `counted` builds: its counts, missing images, and 1 if unanswered.

    Args:
        doc: The document.
        counts: As in `counted`.

    Returns:
        Name of the count -> value; None for missing images if it is unknown how many the model got.
    """
    sent = doc.get(SENT)  # missing in other harnesses
    missing = None if sent is None else len(doc["images"]) - sent
    unanswered = int(doc.get(OUTCOME) == UNANSWERED)
    return {name: doc[name] for name in counts} | ({MISSING: missing, N_UNANSWERED: unanswered} if counts else {})


def sum_known(items: Sequence[int | None]) -> float:
    """Sum the known values; NaN if all are unknown. An aggregation of lm-eval.

    Args:
        items: The values of all rows; None if unknown.

    Returns:
        The sum.
    """
    values = [item for item in items if item is not None]
    return sum(values) if values else math.nan


def find_largest(items: Sequence[int]) -> int:
    """Return the largest value. An aggregation of lm-eval for a count that every row repeats.

    Args:
        items: The values of all rows.

    Returns:
        The largest value.
    """
    return max(items)


def _build_aggregation(figures: Figures, name: str) -> Callable[[Sequence[Record | Same]], float]:
    def aggregate(items: Sequence[Record | Same]) -> float:
        records = [item.record if isinstance(item, Same) else item for item in items]
        scored = records[0].scored
        if scored is None or scored[0] is not figures or scored[1] != records:
            scored = records[0].scored = (figures, records, figures(records))
        return scored[2][name]

    return aggregate
