"""Sums over records: a mean with its interval and the five numbers of its box plot, groups, a count."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..confidence.score import bootstrap_mean


def spread(name: str, values: Sequence[float], groups: Sequence[str], **options: Any) -> dict[str, float]:
    """The mean of the values that are known, shares of pixels, and how they spread.

    Args:
        name: of the score, the beginning of its keys.
        values: n numbers in [0, 1]; NaN, undefined for that sample, is left out.
        groups: n labels; the interval draws whole groups.
        options: n_resamples, seed and confidence_level of `confidence.bootstrap_mean`.

    Returns:
        name (the mean) and, with these endings, _ci_low, _ci_high (NaN with fewer than two groups), _q1, _median, _q3
        (linear quantiles), _whisker_low and _whisker_high (the outermost values within 1.5 times q3 - q1 of the box).
        NaN without any value.

    >>> spread("ac", [0.0, 0.25, 0.5, float("nan")], ["42", "43", "43", "43"])["ac_median"]
    0.25
    """
    interval = bootstrap_mean(np.asarray(values, dtype=float), groups=groups, bounds=(0, 1), **options)
    known = np.asarray([value for value in values if not np.isnan(value)])
    five = _box_plot(known) if known.size else [float("nan")] * 5
    endings = ("_q1", "_median", "_q3", "_whisker_low", "_whisker_high")
    return {name: interval.mean, f"{name}_ci_low": interval.low, f"{name}_ci_high": interval.high} | {
        name + ending: number for ending, number in zip(endings, five, strict=True)
    }


def sum_by_group(records: Sequence[Mapping[str, Any]], key: str) -> dict[Any, list[Mapping[str, Any]]]:
    """The records by what they have under a key, in order of the keys."""
    found: dict[Any, list[Mapping[str, Any]]] = {}
    for record in records:
        found.setdefault(record[key], []).append(record)
    return dict(sorted(found.items()))


def n_cut_at_zero(records: Sequence[Mapping[str, Any]]) -> float:
    """How many records' maps `L > 0` takes pixels from; NaN where one, of an earlier version's log, does not say."""
    return sum(record.get("cut_at_zero", math.nan) for record in records)


def _box_plot(values: np.ndarray) -> list[float]:
    first, median, third = (float(number) for number in np.quantile(values, [0.25, 0.5, 0.75]))
    reach = 1.5 * (third - first)
    # A quartile may lie between two values, of which the inner one is then the outermost within reach.
    low = min(first, float(values[values >= first - reach].min()))
    high = max(third, float(values[values <= third + reach].max()))
    return [first, median, third, low, high]
