"""Two systems on the same examples: their difference, how sure it is, and what could have been found.

All functions that take rows resample or count whole groups (patient, study, video) as `score` does.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from .proportion import FEW, by_group, effective_n, normal_quantile, student_quantile, wilson
from .score import check_level, known_pairs, percentiles, resampled_means

POWER = 0.8


class Difference(NamedTuple):
    """Means of two systems over the n pairs where both are known, and mean(after) - mean(before) in [low, high].

    way: "bootstrap" or "wilson". n_nan: pairs left out; n_groups: units that are resampled; n_differ: those of them in
    which the two systems' sums differ. NaN where undefined.
    """

    before: float
    after: float
    difference: float
    low: float
    high: float
    way: str
    n: int
    n_nan: int
    n_groups: int
    n_differ: int


def paired_difference(
    after: Sequence[float] | np.ndarray,
    before: Sequence[float] | np.ndarray,
    *,
    groups: Sequence | np.ndarray | None = None,
    n_resamples: int = 2000,
    seed: int = 42,
    confidence_level: float = 0.95,
) -> Difference:
    """Interval of mean(after) - mean(before): bootstrap percentiles, or Wilson's scores where few groups differ.

    Args:
        after, before: shape (n,), two systems' numbers in [0, 1] on the same examples; pairs with a NaN are left out.
        groups: shape (n,), one label an example; whole groups are resampled.
        n_resamples, seed, confidence_level: see `score.bootstrap_mean`.

    Returns:
        the difference. Its interval is the expanded percentile one (`expanded_level`). With fewer than FEW groups that
        differ, or that do not differ wholly, it is Newcombe's, which has a width where all groups agree
        (`wilson_difference`), and is wider than need be for numbers between 0 and 1. low and high are NaN with fewer
        than two groups.

    Raises:
        ValueError: see `score.permutation_test`; or a number outside [0, 1].

    >>> found = paired_difference([1, 1, 1, 0], [1, 0, 1, 0])
    >>> found.difference, found.n_differ, found.way
    (0.25, 1, 'wilson')
    """
    check_level(confidence_level)
    after, before, labels, n_nan = known_pairs(after, before, groups)
    way, interval = difference_interval(after, before, labels, n_resamples, seed)
    return describe_difference(after, before, labels, n_nan, way, interval(confidence_level))


def describe_difference(
    after: np.ndarray,
    before: np.ndarray,
    labels: np.ndarray | None,
    n_nan: int,
    way: str,
    interval: tuple[float, float],
) -> Difference:
    """Put a difference together from its known pairs and its interval (`difference_interval`)."""
    sums, _ = by_group(after - before, labels)
    difference = float(np.mean(after - before)) if len(after) else math.nan
    first, second = (float(values.mean()) if len(values) else math.nan for values in (before, after))
    return Difference(first, second, difference, *interval, way, len(after), n_nan, len(sums), _n_differ(sums))


def equivalence_p(
    after: Sequence[float] | np.ndarray,
    before: Sequence[float] | np.ndarray,
    margin: float,
    *,
    groups: Sequence | np.ndarray | None = None,
    n_resamples: int = 2000,
    seed: int = 42,
) -> float:
    """The p-value of two one-sided tests that the difference lies within the margin (Schuirmann 1987).

    It is the smallest alpha at which `paired_difference` lies within the margin at `equivalence_level(alpha=alpha)`,
    rounded up to a grid of 1%, and at least 1 / (1 + n_resamples).

    Args:
        margin: in the unit of the numbers; the rest as `paired_difference` takes it.

    Returns:
        the p-value, 1 where the difference lies outside the margin; NaN with fewer than two groups.

    >>> equivalence_p([1, 0] * 100, [1, 0] * 100, 0.05) < 0.01
    True
    """
    how = {"groups": groups, "n_resamples": n_resamples, "seed": seed}
    return _inverted(after, before, equivalence_level, lambda low, high: -margin < low and high < margin, **how)


def superiority_p(
    after: Sequence[float] | np.ndarray,
    before: Sequence[float] | np.ndarray,
    margin: float = 0.0,
    *,
    groups: Sequence | np.ndarray | None = None,
    n_resamples: int = 2000,
    seed: int = 42,
) -> float:
    """The p-value of "mean(after) is above mean(before) by no more than the margin".

    It is the smallest alpha at which `paired_difference` lies above the margin at the level 1 - alpha, on the grid of
    `equivalence_p`; so it is two-sided, that is at half its level for this side. Arguments and result as there.

    >>> superiority_p([1] * 20, [0] * 20, 0.05) < 0.001
    True
    """
    how = {"groups": groups, "n_resamples": n_resamples, "seed": seed}
    return _inverted(after, before, lambda *, alpha: 1 - alpha, lambda low, high: low > margin, **how)


def _inverted(
    after: Sequence[float] | np.ndarray,
    before: Sequence[float] | np.ndarray,
    level: Callable[..., float],
    holds: Callable[[float, float], bool],
    *,
    groups: Sequence | np.ndarray | None,
    n_resamples: int,
    seed: int,
) -> float:
    """The smallest alpha at which something holds of low and high, the interval of the level that alpha gives."""
    after, before, labels, _ = known_pairs(after, before, groups)
    _, interval = difference_interval(after, before, labels, n_resamples, seed)
    if math.isnan(interval(0.95)[0]):
        return math.nan
    smallest = 1 / (1 + n_resamples)
    alphas = np.geomspace(smallest, 0.5, 1 + math.ceil(math.log(0.5 / smallest) / math.log(1.01)))
    first = bisect_left(alphas, True, key=lambda alpha: holds(*interval(level(alpha=alpha))))
    return float(alphas[first]) if first < len(alphas) else 1.0


def wilson_difference(
    after: np.ndarray, before: np.ndarray, labels: np.ndarray | None, confidence_level: float = 0.95
) -> tuple[float, float]:
    """Newcombe's interval of a paired difference (Statistics in Medicine 17, 1998, method 10).

    It joins the two means' Wilson intervals by their correlation. Numbers between 0 and 1 vary less than zeros and ones
    of the same mean, so that it is wide for them. In groups, n is the effective one (`proportion.effective_n`).

    Args:
        after, before: shape (n,), numbers in [0, 1] without NaN; labels: shape (n,), groups, or None.

    Returns:
        low and high; NaN with fewer than two groups.
    """
    n = effective_n(after - before, labels)
    if not n > 0:
        return math.nan, math.nan
    p, q = float(after.mean()), float(before.mean())
    (p_low, p_high), (q_low, q_high) = (wilson(mean, n, confidence_level) for mean in (p, q))
    together = float(np.mean(after * before)) - p * q
    if together > 0:  # the continuity correction of method 10
        together = max(0.0, together - 1 / (2 * n))
    spread = math.sqrt(max(0.0, p * (1 - p) * q * (1 - q)))
    phi = together / spread if spread else 0.0

    def joined(one: float, other: float) -> float:
        return math.sqrt(max(0.0, one**2 - 2 * phi * one * other + other**2))

    return p - q - joined(p - p_low, q_high - q), p - q + joined(p_high - p, q - q_low)


def holm(p_values: Sequence[float] | np.ndarray) -> np.ndarray:
    """p-values of one family, adjusted by Holm's step-down method (1979); NaN stays and counts as no test. Shape (m,).

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=float)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    adjusted = np.full(p.shape, np.nan)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)))
    return adjusted


def benjamini_yekutieli(p_values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Adjust p-values of one family for the false discovery rate under any dependence (Annals of Statistics 29, 2001).

    NaN stays and counts as no test. Shape (m,).

    >>> benjamini_yekutieli([0.01, 0.02, float("nan")]).tolist()
    [0.03, 0.03, nan]
    """
    p = np.asarray(p_values, dtype=float)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(-p[known], kind="stable")]  # the largest first
    ranks = np.arange(len(order), 0, -1)
    adjusted = np.full(p.shape, np.nan)
    adjusted[order] = np.minimum(1, np.minimum.accumulate(p[order] * len(order) * np.sum(1 / ranks) / ranks))
    return adjusted


def equivalence_level(n_tests: int = 1, alpha: float = 0.05) -> float:
    """Confidence level of the interval that has to lie within the margin for two systems to count as equal.

    That is the pair of one-sided tests at level alpha (Schuirmann 1987), by Bonferroni where there are several.

    >>> equivalence_level()
    0.9
    """
    return 1 - 2 * alpha / n_tests


def expanded_level(confidence_level: float, n_groups: int) -> float:
    """Level of the bootstrap's percentiles that hold the mean as often as Student's interval of n_groups does.

    Percentiles alone are as narrow as the normal distribution with the variance of the sample (Hesterberg, American
    Statistician 69, 2015, section 5.3); that tells below about 100 groups.
    """
    student = student_quantile(confidence_level, n_groups - 1) * math.sqrt(n_groups / (n_groups - 1))
    return 2 * NormalDist().cdf(student) - 1


def detectable(low: float, high: float, confidence_level: float = 0.95, power: float = POWER) -> float:
    """The smallest true difference that a two-sided test finds with this power, from the width of the interval.

    >>> round(detectable(-0.05, 0.05), 4)
    0.0715
    """
    z = normal_quantile(confidence_level)
    return (high - low) / 2 * (1 + NormalDist().inv_cdf(power) / z)


def enough(n: int, found: float, wanted: float) -> float:
    """How many examples would find a difference `wanted` as surely as n of them find one of `found`; NaN if undefined.

    >>> enough(100, 0.1, 0.05)
    400
    """
    return math.nan if math.isnan(found) or wanted <= 0 else math.ceil(round(n * (found / wanted) ** 2, 6))


def difference_interval(
    after: np.ndarray, before: np.ndarray, labels: np.ndarray | None, n_resamples: int, seed: int
) -> tuple[str, Callable[[float], tuple[float, float]]]:
    """Choose the method for the interval of a paired difference.

    Returns:
        The method's name, and a function from a confidence level to low and high; see `paired_difference`.
    """
    for name, values in (("after", after), ("before", before)):
        if len(values) and (values.min() < 0 or values.max() > 1):
            raise ValueError(f"{name}: {values.min():g} to {values.max():g}; expected numbers in [0, 1]")
    sums, sizes = by_group(after - before, labels)
    if min(_n_differ(sums - bound * sizes) for bound in (-1, 0, 1)) < FEW:
        return "wilson", lambda level: wilson_difference(after, before, labels, level)
    means = np.sort(resampled_means(sums, sizes, n_resamples, np.random.default_rng(seed)))
    return "bootstrap", lambda level: percentiles(means, expanded_level(level, len(sums)))


def _n_differ(sums: np.ndarray) -> int:
    """Groups whose two sums differ by more than rounding."""
    return int(np.sum(np.abs(sums) > 1e-12))
