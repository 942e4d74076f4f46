"""Summaries of records: a mean with its interval and the five numbers of its box plot, groups, and a count."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..arguments.kinds import LABELS, TEXT, UNIT, instance, sequence
from ..arguments.schema import check_arguments
from ..confidence.score import bootstrap_mean


@check_arguments(like="values", name=TEXT, values=UNIT, groups=LABELS)
def spread(name: str, values: Sequence[float], groups: Sequence[str], **options: Any) -> dict[str, float]:
    """Compute the mean of shares of pixels, with its interval and the numbers of a box plot.

    Args:
        name: Name of the score, the prefix of its keys.
        values: n numbers in [0, 1]; NaN, undefined for that sample, is left out.
        groups: n labels; the interval draws whole groups.
        options: n_resamples, seed and confidence_level of `confidence.bootstrap_mean`.

    Returns:
        name (the mean) and, with these suffixes, _ci_low, _ci_high (NaN with fewer than two groups), _q1, _median, _q3
        (linear quantiles), _whisker_low and _whisker_high (the outermost values within 1.5 times q3 - q1 of the box).
        NaN without any value.

    >>> spread("ac", [0.0, 0.25, 0.5, float("nan")], ["42", "43", "43", "43"])["ac_median"]
    0.25
    """
    interval = bootstrap_mean(np.asarray(values, dtype=float), groups=groups, bounds=(0, 1), **options)
    known_values = np.asarray([value for value in values if not np.isnan(value)])
    box_plot = _compute_box_plot(known_values) if known_values.size else [float("nan")] * 5
    suffixes = ("_q1", "_median", "_q3", "_whisker_low", "_whisker_high")
    return {name: interval.mean, f"{name}_ci_low": interval.low, f"{name}_ci_high": interval.high} | {
        name + suffix: number for suffix, number in zip(suffixes, box_plot, strict=True)
    }


@check_arguments(records=sequence(instance(Mapping)), key=TEXT)
def group_records(records: Sequence[Mapping[str, Any]], key: str) -> dict[Any, list[Mapping[str, Any]]]:
    """Group the records by their value of a key, the groups sorted by this value.

    Args:
        records: The records.
        key: The key.

    Returns:
        Value -> records.
    """
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for record in records:
        groups.setdefault(record[key], []).append(record)
    return dict(sorted(groups.items()))


@check_arguments(records=sequence(instance(Mapping)))
def count_cut_at_zero(records: Sequence[Mapping[str, Any]]) -> float:
    """Count the records whose maps lose pixels to `L > 0`.

    Args:
        records: The records of `score_frame`.

    Returns:
        The number; NaN if a record, from the log of an earlier version, does not say.
    """
    return sum(record.get("cut_at_zero", math.nan) for record in records)


def _compute_box_plot(values: np.ndarray) -> list[float]:
    q1, median, q3 = (float(number) for number in np.quantile(values, [0.25, 0.5, 0.75]))
    reach = 1.5 * (q3 - q1)
    # A quartile may be between two values. The inner one may then be the outermost value within reach.
    low = min(q1, float(values[values >= q1 - reach].min()))
    high = max(q3, float(values[values <= q3 + reach].max()))
    return [q1, median, q3, low, high]
