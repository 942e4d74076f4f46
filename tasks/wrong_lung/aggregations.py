"""Aggregations over all rows of a task of That's the Wrong Lung!, one function a metric; rows are those of `adapter`.

A task's YAML names `auroc_one_lung_ci_low`: the metric, the subset (none: all rows) and the end of its interval (none:
the mean). There are a hundred such names; each is looked up here by its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from medfaith.evaluate_metrics.localization.pairs import candidate_accuracy, deltas, pairs, summarise
from medfaith.evaluate_metrics.localization.score import symmetric_kl
from medfaith.tasks.surgx.adapter import Unlogged
from medfaith.tasks.wrong_lung.adapter import ATTENTION, ENDS, GOLD, OF, RANDOM_SENTENCES, SIMILAR, unpacked

Row = dict[str, Any]
Rows = Sequence[Row | Unlogged]
Aggregation = Callable[[Rows], float]
NAMES = {*GOLD, *RANDOM_SENTENCES, "perturbed_auroc", "perturbed_average_precision"}


def __getattr__(name: str) -> Aggregation:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    metric, subset, end = parts(name)
    if metric.startswith("perturbed_"):
        return _mean(metric.removeprefix("perturbed_") + end, subset, _perturbed)
    if metric.startswith("delta_") or metric in ("n_pairs", "kl"):
        return _delta(metric + end, subset)
    if metric in SIMILAR:
        return _accuracy(metric + end, subset)
    if metric == "n_undefined":
        return n_undefined
    return _mean(metric + end, subset, plain)


def parts(name: str) -> tuple[str, str, str]:
    """Metric, subset and end of a name.

    >>> parts("delta_auroc_one_lung_ci_low"), parts("n_pairs")
    (('delta_auroc', 'one_lung', '_ci_low'), ('n_pairs', 'all', ''))
    """
    end = next((end for end in ENDS if end and name.endswith(end)), "")
    rest = name.removesuffix(end)
    of = next((of for of in OF if of and rest.endswith(of)), "")
    return rest.removesuffix(of), of.removeprefix("_") or "all", end


def plain(rows: Rows) -> list[Row]:
    """The rows themselves."""
    return [row.row if isinstance(row, Unlogged) else row for row in rows]


def with_divergence(rows: Sequence[Row]) -> list[Row]:
    """The rows without their attention; those of a pair that both have it with its divergence, `kl` (B.6)."""
    of_pair = {
        row["id"]: symmetric_kl(unpacked(original[ATTENTION]), unpacked(row[ATTENTION]))
        for row, original in pairs(rows)
        if original is not None and row.get(ATTENTION) and original.get(ATTENTION)
    }
    return [
        {key: value for key, value in row.items() if key != ATTENTION}
        | {"values": row["values"] | {"kl": of_pair.get(row["id"])}}
        for row in rows
    ]


def n_undefined(rows: Rows) -> int:
    """Pairs of which one has no AUROC: no attention, or no box, or a box that fills the view."""
    known = [pair for pair in pairs(plain(rows)) if pair[1] is not None]
    return sum(row["values"]["auroc"] is None or original["values"]["auroc"] is None for row, original in known)


def largest(items: Sequence[int]) -> int:
    """Aggregation of a count that every row repeats."""
    return max(items)


def _perturbed(rows: Rows) -> list[Row]:
    return [row for row in plain(rows) if row["perturbation"] is not None]


def _only(rows: Sequence[Row], key: str) -> list[Row]:
    """The rows with the one value that `key` is about: each metric is aggregated by itself, and intervals take time."""
    metric = parts(key)[0]
    return [row | {"values": {metric: row["values"].get(metric)}} for row in rows]


def _mean(key: str, subset: str, choose: Callable[[Rows], list[Row]]) -> Aggregation:
    def aggregate(rows: Rows) -> float:
        return summarise(_only(choose(rows), key), subset)[key]

    return aggregate


def _delta(key: str, subset: str) -> Aggregation:
    def aggregate(rows: Rows) -> float:
        given = with_divergence(plain(rows)) if key.startswith("kl") else plain(rows)
        found = deltas(_only(given, key.removeprefix("delta_")))
        for of_perturbation in found.values():
            return of_perturbation[subset].get(key, float("nan"))
        return 0 if key == "n_pairs" else float("nan")  # a limit that cuts the first pair

    return aggregate


def _accuracy(key: str, subset: str) -> Aggregation:
    def aggregate(rows: Rows) -> float:
        return candidate_accuracy(plain(rows))[subset][key]

    return aggregate
