"""The metrics of a task, each named once, and one function that computes them all.

lm-eval asks for each metric alone: it collects what every row holds under that metric's name, and passes the list to
the metric's own function. Here a row holds one record under all names, and the first call computes the figures of all.

lm-eval's `class:` key could hold the same, but not for the tasks that a group lists in its own file: lm-eval makes
each of those a plain ConfigurableTask. A YAML file therefore names two things of an adapter, `process_results` and
`metric_list`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from .outcomes import OUTCOME, UNANSWERED

SKIPPED = "n_rows_skipped"
VIEWS = "views"  # column of a document: those of its images, as their source names them
SENT = "n_images_sent"  # column of a document: how many of its images its model was given
MISSING = "n_images_missing"
N_UNANSWERED = "n_unanswered"

Figures = Callable[[Sequence[Mapping[str, Any]]], Mapping[str, float]]


class Record(dict[str, Any]):
    """What one answer was worth. The first record of a task keeps the figures of all records, computed once."""

    scored: tuple[Figures, list[Record], Mapping[str, float]] | None = None


class Same(str):
    """Stands for a record under every metric but its first: a sample log shows an empty text there."""

    __slots__ = ("record",)  # half a million of them in a large run
    record: Record


def under_each(names: Sequence[str], record: Mapping[str, Any]) -> dict[str, Any]:
    """The record under each name; a sample log shows it under the first name only."""
    first = Record(record)
    same = Same()
    same.record = first
    return {name: same if number else first for number, name in enumerate(names)}


def logged_values(sample: Mapping[str, Any]) -> dict[str, Any]:
    """What `process_results` returned for a row, from its line in a sample log."""
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
        figures: all records of a task -> metric -> figure; it may return more figures than `names`.
        names: the metrics.
        lower: those of them of which less is better.
        counts: as `counted`; with none of them, the images that are missing are not counted either.
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
        self.names, self.lower, self._counts = tuple(names), frozenset(lower), tuple(counts)
        self.metric_list = [metric(name, _figure(figures, name), higher=name not in lower) for name in names]
        self.metric_list += counted(counts)

    def values(self, doc: Mapping[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
        """What `process_results` returns for a row: its record under each metric, and the counts of its document."""
        return under_each(self.names, record) | counts_of(doc, self._counts)


def metric(name: str, aggregation: str | Callable[[Sequence[Any]], float], *, higher: bool = True) -> dict[str, Any]:
    """An entry of lm-eval's `metric_list`. aggregation: lm-eval's name of it, or a function of the rows' values."""
    return {"metric": name, "aggregation": aggregation, "higher_is_better": higher}


def counted(counts: Sequence[str] = (SKIPPED,)) -> list[dict[str, Any]]:
    """Entries of the `metric_list` for counts of a task, for images that its model was not given, and unanswered rows.

    counts: columns of a document in which every row repeats a count.
    """
    of_task = [metric(name, largest, higher=False) for name in counts]
    return [*of_task, *(metric(name, known_total, higher=False) for name in (MISSING, N_UNANSWERED) if counts)]


def counts_of(doc: Mapping[str, Any], counts: Sequence[str] = (SKIPPED,)) -> dict[str, Any]:
    """What `process_results` returns for a row under the names of `counted`."""
    sent = doc.get(SENT)  # another harness does not say
    missing = None if sent is None else len(doc["images"]) - sent
    unanswered = int(doc.get(OUTCOME) == UNANSWERED)
    return {name: doc[name] for name in counts} | ({MISSING: missing, N_UNANSWERED: unanswered} if counts else {})


def known_total(items: Sequence[int | None]) -> float:
    """Aggregation: the sum of those that are known, NaN where none is."""
    known = [item for item in items if item is not None]
    return sum(known) if known else math.nan


def largest(items: Sequence[int]) -> int:
    """Aggregation of a count that every row repeats."""
    return max(items)


def _figure(figures: Figures, name: str) -> Callable[[Sequence[Record | Same]], float]:
    def aggregate(items: Sequence[Record | Same]) -> float:
        records = [item.record if isinstance(item, Same) else item for item in items]
        scored = records[0].scored
        if scored is None or scored[0] is not figures or scored[1] != records:
            scored = records[0].scored = (figures, records, figures(records))
        return scored[2][name]

    return aggregate
