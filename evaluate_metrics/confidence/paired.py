"""Two systems on the same examples: their difference, its interval, and the minimum detectable difference.

All functions that take rows resample or count whole groups (patient, study, video), like `score`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ..arguments.kinds import (
    COUNT,
    DIFFERENCE,
    FLOAT,
    LABELS,
    LEVEL,
    MARGIN,
    SEED,
    TEXT,
    UNIT,
    instance,
    one,
    optional,
    real,
)
from ..arguments.schema import check_arguments
from .proportion import (
    FEW,
    compute_expanded_level,
    compute_mean,
    compute_normal_quantile,
    keep_mean_inside,
    quantise,
    sum_by_group,
)
from .resampling import compute_percentiles, resample_means
from .score import select_known_pairs
from .wilson_difference import compute_few_differing_interval

POWER = 0.8

_GROUPS, _ARRAY = optional(LABELS), instance(np.ndarray)
_PAIRED = {"after": UNIT, "before": UNIT, "groups": _GROUPS, "n_resamples": COUNT, "seed": SEED}
_ALPHA = real("a share between 0 and 0.5", lambda value: 0 < value <= 0.5)
_ENDS = one("ends", "two numbers, low and high", lambda ends: isinstance(ends, tuple) and len(ends) == 2)


class Difference(NamedTuple):
    """The means of two systems over the pairs with both numbers, and their difference; NaN where undefined.

    Attributes:
        before: Mean of the first system.
        after: Mean of the second system.
        difference: mean(after) - mean(before).
        low: Lower end of the interval.
        high: Upper end of the interval.
        way: Method of the interval, "bootstrap" or "wilson".
        n: Number of pairs used.
        n_nan: Number of pairs left out because a number is NaN.
        n_groups: Number of units that are resampled.
        n_differ: Number of units in which the two systems' sums differ.
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

    @property
    def rounded(self) -> float:
        """The difference without its last digits, which must not decide a comparison."""
        return round(self.difference, 12)


@check_arguments(**_PAIRED, confidence_level=LEVEL)
def compute_paired_difference(
    after: Sequence[float] | np.ndarray,
    before: Sequence[float] | np.ndarray,
    *,
    groups: Sequence | np.ndarray | None = None,
    n_resamples: int = 2000,
    seed: int = 42,
    confidence_level: float = 0.95,
) -> Difference:
    """Compute the interval of mean(after) - mean(before): bootstrap, or Wilson's scores if few groups differ.

    Args:
        after: Shape (n,), the second system's numbers in [0, 1]; pairs with a NaN are left out.
        before: Shape (n,), the first system's numbers on the same examples.
        groups: Shape (n,), one label per example; whole groups are resampled.
        n_resamples: See `score.bootstrap_mean`.
        seed: See `score.bootstrap_mean`.
        confidence_level: See `score.bootstrap_mean`.

    Returns:
        The difference. Its interval is the expanded percentile one (`compute_expanded_level`). It is from Wilson scores
        (`compute_few_differing_interval`) if fewer than FEW groups differ, or differ less than fully, or if all differ
        by the same. That has a width even if all groups agree, and is too wide for numbers between 0 and 1. low and
        high are NaN with fewer than two groups.

    Raises:
        ValueError: See `score.permutation_test`; or a number outside [0, 1].

    >>> result = compute_paired_difference([1, 1, 1, 0], [1, 0, 1, 0])
    >>> result.difference, result.n_differ, result.way
    (0.25, 1, 'wilson')
    """
    after, before, labels, n_nan = select_known_pairs(after, before, groups)
    way, interval = choose_difference_interval(after, before, labels, n_resamples, seed)
    return describe_difference(after, before, labels, n_nan, way, interval(confidence_level))


@check_arguments(after=UNIT, before=UNIT, labels=_GROUPS, n_nan=SEED, way=TEXT, interval=_ENDS)
def describe_difference(
    after: np.ndarray,
    before: np.ndarray,
    labels: np.ndarray | None,
    n_nan: int,
    way: str,
    interval: tuple[float, float],
) -> Difference:
    """Build a difference from its known pairs and its interval (`choose_difference_interval`).

    Args:
        after: Shape (n,), the second system's numbers without NaN.
        before: Shape (n,), the first system's numbers.
        labels: Shape (n,), the group of each pair, or None.
        n_nan: Number of pairs left out.
        way: Method of the interval.
        interval: low and high.

    Returns:
        The difference.
    """
    sums, _ = sum_by_group(quantise(after, 1) - quantise(before, 1), labels)
    mean_before, mean_after, difference = (compute_mean(values) for values in (before, after, after - before))
    low, high = keep_mean_inside(difference, *interval, 1)
    return Difference(
        mean_before, mean_after, difference, low, high, way, len(after), n_nan, len(sums), _count_differing(sums)
    )


@check_arguments(**_PAIRED, margin=MARGIN)
def compute_equivalence_p(
    after: Sequence[float] | np.ndarray,
    before: Sequence[float] | np.ndarray,
    margin: float,
    *,
    groups: Sequence | np.ndarray | None = None,
    n_resamples: int = 2000,
    seed: int = 42,
) -> float:
    """Compute the p-value of two one-sided tests for a difference within the margin (Schuirmann 1987).

    It is the smallest alpha at which `compute_paired_difference` is within the margin at
    `compute_equivalence_level(alpha=alpha)`, rounded up to a grid of 1%, and at least 1 / (1 + n_resamples).

    Args:
        after: See `compute_paired_difference`.
        before: See `compute_paired_difference`.
        margin: Equivalence margin, in the unit of the numbers.
        groups: See `compute_paired_difference`.
        n_resamples: See `compute_paired_difference`.
        seed: See `compute_paired_difference`.

    Returns:
        The p-value, 1 if the difference is outside the margin; NaN with fewer than two groups.

    >>> compute_equivalence_p([1, 0] * 100, [1, 0] * 100, 0.05) < 0.01
    True
    """
    options = {"groups": groups, "n_resamples": n_resamples, "seed": seed}
    return _find_smallest_alpha(
        after, before, compute_equivalence_level, lambda low, high: -margin < low and high < margin, **options
    )


@check_arguments(**_PAIRED, margin=DIFFERENCE)
def compute_superiority_p(
    after: Sequence[float] | np.ndarray,
    before: Sequence[float] | np.ndarray,
    margin: float = 0.0,
    *,
    groups: Sequence | np.ndarray | None = None,
    n_resamples: int = 2000,
    seed: int = 42,
) -> float:
    """Compute the p-value of "mean(after) is above mean(before) by no more than the margin".

    It is the smallest alpha at which `compute_paired_difference` is above the margin at the level 1 - alpha, on the
    grid of `compute_equivalence_p`. It is therefore two-sided: half its level applies to this side.

    Args:
        after: See `compute_paired_difference`.
        before: See `compute_paired_difference`.
        margin: The margin, in the unit of the numbers.
        groups: See `compute_paired_difference`.
        n_resamples: See `compute_paired_difference`.
        seed: See `compute_paired_difference`.

    Returns:
        The p-value, 1 if the difference is not above the margin; NaN with fewer than two groups.

    >>> compute_superiority_p([1] * 20, [0] * 20, 0.05) < 0.001
    True
    """
    options = {"groups": groups, "n_resamples": n_resamples, "seed": seed}
    return _find_smallest_alpha(after, before, lambda *, alpha: 1 - alpha, lambda low, high: low > margin, **options)


def _find_smallest_alpha(
    after: Sequence[float] | np.ndarray,
    before: Sequence[float] | np.ndarray,
    level: Callable[..., float],
    holds: Callable[[float, float], bool],
    *,
    groups: Sequence | np.ndarray | None,
    n_resamples: int,
    seed: int,
) -> float:
    """Find the smallest alpha whose interval, at the level `level(alpha=alpha)`, satisfies `holds`."""
    after, before, labels, _ = select_known_pairs(after, before, groups)
    _, interval = choose_difference_interval(after, before, labels, n_resamples, seed)
    if math.isnan(interval(0.95)[0]):
        return math.nan
    difference = compute_mean(quantise(after, 1) - quantise(before, 1))
    if not holds(difference, difference):  # the middle of the resamples may be on the other side of the margin
        return 1.0
    smallest = 1 / (1 + n_resamples)
    alphas = np.geomspace(smallest, 0.5, 1 + math.ceil(math.log(0.5 / smallest) / math.log(1.01)))
    index = bisect_left(alphas, True, key=lambda alpha: holds(*interval(level(alpha=alpha))))
    return float(alphas[index]) if index < len(alphas) else 1.0


@check_arguments(p_values=UNIT)
def apply_holm(p_values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Adjust the p-values of one family by Holm's step-down method (1979).

    Args:
        p_values: Shape (m,); NaN stays NaN and does not count as a test.

    Returns:
        Shape (m,), the adjusted p-values.

    >>> apply_holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    raw_p = np.asarray(p_values)
    known_index = np.flatnonzero(~np.isnan(raw_p))
    order = known_index[np.argsort(raw_p[known_index], kind="stable")]
    adjusted = np.full(raw_p.shape, np.nan)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(raw_p[order] * np.arange(len(order), 0, -1)))
    return adjusted


@check_arguments(p_values=UNIT)
def apply_benjamini_yekutieli(p_values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Adjust the p-values of one family for the false discovery rate under any dependence.

    The method is by Benjamini and Yekutieli (Annals of Statistics 29, 2001).

    Args:
        p_values: Shape (m,); NaN stays NaN and does not count as a test.

    Returns:
        Shape (m,), the adjusted p-values.

    >>> apply_benjamini_yekutieli([0.01, 0.02, float("nan")]).tolist()
    [0.03, 0.03, nan]
    """
    raw_p = np.asarray(p_values)
    known_index = np.flatnonzero(~np.isnan(raw_p))
    order = known_index[np.argsort(-raw_p[known_index], kind="stable")]  # the largest first
    ranks = np.arange(len(order), 0, -1)
    adjusted = np.full(raw_p.shape, np.nan)
    adjusted[order] = np.minimum(1, np.minimum.accumulate(raw_p[order] * len(order) * np.sum(1 / ranks) / ranks))
    return adjusted


@check_arguments(n_tests=COUNT, alpha=_ALPHA)
def compute_equivalence_level(n_tests: int = 1, alpha: float = 0.05) -> float:
    """Compute the level of the interval that must be within the margin for two systems to count as equal.

    It is the pair of one-sided tests at level alpha (Schuirmann 1987), with Bonferroni's correction for several tests.

    Args:
        n_tests: Number of tests.
        alpha: Level of each one-sided test.

    Returns:
        The confidence level.

    >>> compute_equivalence_level()
    0.9
    """
    return 1 - 2 * alpha / n_tests


@check_arguments(low=FLOAT, high=FLOAT, confidence_level=LEVEL, power=LEVEL)
def compute_detectable_difference(
    low: float, high: float, confidence_level: float = 0.95, power: float = POWER
) -> float:
    """Compute the smallest true difference that a two-sided test detects, from the width of the interval.

    Args:
        low: Lower end of the interval.
        high: Upper end of the interval.
        confidence_level: Level of the interval.
        power: Probability of a detection.

    Returns:
        The minimum detectable difference.

    >>> round(compute_detectable_difference(-0.05, 0.05), 4)
    0.0715
    """
    z = compute_normal_quantile(confidence_level)
    return (high - low) / 2 * (1 + NormalDist().inv_cdf(power) / z)


@check_arguments(n=SEED, detectable_difference=FLOAT, target_difference=FLOAT)
def enough(n: int, detectable_difference: float, target_difference: float) -> float:
    """Compute the number of examples that would detect a smaller difference with the same power.

    Args:
        n: The present number of examples.
        detectable_difference: The difference that they detect.
        target_difference: The difference to detect.

    Returns:
        The number of examples; NaN if undefined.

    >>> enough(100, 0.1, 0.05)
    400
    """
    return (
        math.nan
        if math.isnan(detectable_difference) or target_difference <= 0
        else math.ceil(round(n * (detectable_difference / target_difference) ** 2, 6))
    )


@check_arguments(after=UNIT, before=UNIT, labels=_GROUPS, n_resamples=COUNT, seed=SEED)
def choose_difference_interval(
    after: np.ndarray, before: np.ndarray, labels: np.ndarray | None, n_resamples: int, seed: int
) -> tuple[str, Callable[[float], tuple[float, float]]]:
    """Choose the method for the interval of a paired difference.

    Args:
        after: Shape (n,), the second system's numbers in [0, 1] without NaN.
        before: Shape (n,), the first system's numbers.
        labels: Shape (n,), the group of each pair, or None.
        n_resamples: Number of resamples.
        seed: Seed of the generator.

    Returns:
        The method's name, and a function from a confidence level to low and high; see `compute_paired_difference`.

    Raises:
        ValueError: A number outside [0, 1].
    """
    after, before = quantise(after, 1), quantise(before, 1)
    sums, sizes = sum_by_group(after - before, labels)
    common = sums.sum() / sizes.sum() if len(sums) else 0.0  # a difference that all groups share has no percentiles
    is_few = min(_count_differing(sums - bound * sizes) for bound in (-1, 0, 1)) < FEW
    if is_few or not _count_differing(sums - common * sizes):
        return "wilson", lambda level: compute_few_differing_interval(after, before, labels, level)
    means = np.sort(resample_means(sums, sizes, n_resamples, np.random.default_rng(seed)))
    return "bootstrap", lambda level: compute_percentiles(means, compute_expanded_level(level, len(sums)))


def _count_differing(sums: np.ndarray) -> int:
    """Count groups whose two sums differ; `sums` are of values that `quantise` has rounded."""
    return int(np.count_nonzero(sums))
