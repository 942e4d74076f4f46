"""Wilson's interval of a proportion, also for clustered rows; it has a width even if every row is right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from ..arguments.kinds import BOUNDS, COUNT, FLOAT, INNER_LEVEL, LABELS, VALUES, optional, whole
from ..arguments.schema import check_arguments

FEW = 15  # the bootstrap's percentiles are too narrow if fewer groups differ
MANY = 100  # with fewer groups, percentiles are expanded
_BITS = 36  # bits of a value that count: about 11 significant digits
_ROUNDING = 1e-9  # a difference, relative to the largest value, that may be due to `quantise`

_GROUPS = optional(LABELS)


@check_arguments(mean=FLOAT, n=FLOAT, confidence_level=INNER_LEVEL)
def compute_wilson_interval(mean: float, n: float, confidence_level: float = 0.95) -> tuple[float, float]:
    """Compute Wilson's score interval of a proportion.

    Args:
        mean: The proportion, from 0 to 1.
        n: The number of examples, not necessarily an integer.
        confidence_level: Level of the interval.

    Returns:
        low and high; NaN if n is not above 0.

    >>> tuple(round(bound, 3) for bound in compute_wilson_interval(1.0, 10))
    (0.722, 1.0)
    """
    if not n > 0:
        return math.nan, math.nan
    z_squared = compute_normal_quantile(confidence_level) ** 2
    center = (mean + z_squared / (2 * n)) / (1 + z_squared / n)
    half_width = math.sqrt(z_squared * (mean * (1 - mean) / n + z_squared / (4 * n**2))) / (1 + z_squared / n)
    # The mean stays inside despite rounding.
    return min(mean, max(0.0, center - half_width)), max(mean, min(1.0, center + half_width))


@check_arguments(like="values", values=VALUES, labels=_GROUPS)
def compute_effective_n(values: np.ndarray, labels: np.ndarray | None) -> float:
    """Compute the number of independent examples with the information of the clustered ones.

    The method is by Korn and Graubard (Survey Methodology 24, 1998), with residuals of the jackknife.

    Args:
        values: Shape (n,), without NaN.
        labels: Shape (n,), the group of each value, or None.

    Returns:
        n divided by the design effect, with the groups' degrees of freedom; n without groups; one per group if no value
        differs; NaN with fewer than two groups.
    """
    sums, sizes = sum_by_group(values, labels)
    if len(sums) < 2:
        return math.nan
    n = len(values)
    if len(sums) == n:
        return n
    mean = compute_mean(values)
    n_per_group = n / len(sums)
    # A group of many rows draws the mean towards its own, so its residual is too small by its share (the jackknife).
    residuals = (sums - sizes * mean) * (1 - 1 / len(sums)) / (1 - sizes / n)
    value_variance, group_variance = compute_mean((values - mean) ** 2), compute_mean(residuals**2)
    design_effect = max(1.0, group_variance / value_variance / n_per_group) if value_variance > 0 else n_per_group
    return float(
        n / design_effect * (compute_student_quantile(0.95, n - 1) / compute_student_quantile(0.95, len(sums) - 1)) ** 2
    )


@check_arguments(like="values", values=VALUES, labels=_GROUPS, bounds=BOUNDS, few=COUNT)
def is_near_bound(values: np.ndarray, labels: np.ndarray | None, bounds: Sequence[float], few: int) -> bool:
    """Whether the percentiles of resampled means are too narrow for values within bounds.

    They are too narrow if all values are equal. They are also too narrow if every value equals one of the two bounds
    and fewer than `few` groups differ from the commoner bound. Numbers between the bounds vary less than Wilson's
    interval assumes.

    Args:
        values: Shape (n,), without NaN.
        labels: Shape (n,), the group of each value, or None.
        bounds: The lowest and the highest possible value.
        few: The smallest number of differing groups for which percentiles are wide enough.

    Returns:
        True if Wilson's interval is needed.
    """
    if not len(values) or values.min() == values.max():
        return bool(len(values))
    if not np.isin(values, bounds).all():
        return False
    n_differ = [int(np.count_nonzero(sum_by_group((values != bound).astype(float), labels)[0])) for bound in bounds]
    return min(n_differ) < few


@check_arguments(like="values", values=VALUES, labels=_GROUPS, bounds=BOUNDS, confidence_level=INNER_LEVEL)
def compute_bounded_interval(
    values: np.ndarray, labels: np.ndarray | None, bounds: Sequence[float], confidence_level: float
) -> tuple[float, float]:
    """Compute Wilson's interval, with the effective n, of a mean of values near a bound (`is_near_bound`).

    If all values are equal, Wilson's interval of 0 gives the largest possible share of other values. These values may
    be at either bound. For a share of 0 or 1 the result is Wilson's interval itself.

    Args:
        values: Shape (n,), without NaN.
        labels: Shape (n,), the group of each value, or None.
        bounds: The lowest and the highest possible value.
        confidence_level: Level of the interval.

    Returns:
        low and high.
    """
    lowest, highest = bounds
    n = compute_effective_n(values, labels)
    if values.min() == values.max():
        value, share = float(values[0]), compute_wilson_interval(0.0, n, confidence_level)[1]
        return value - share * (value - lowest), value + share * (highest - value)
    low, high = compute_wilson_interval(float(np.mean(values == highest)), n, confidence_level)
    return lowest + low * (highest - lowest), lowest + high * (highest - lowest)


@check_arguments(like="values", values=VALUES, labels=_GROUPS, bounds=optional(BOUNDS), confidence_level=INNER_LEVEL)
def compute_few_groups_interval(
    values: np.ndarray, labels: np.ndarray | None, bounds: Sequence[float] | None, confidence_level: float
) -> tuple[float, float]:
    """Compute the interval of a mean of few groups: Student's without bounds, Wilson's within bounds.

    The means of 3 or 5 groups that are drawn again are too rarely far from their mean. Student's interval takes the
    variance that the groups' sums show. Wilson's n is the number of zeros and ones whose mean has that variance, with
    Student's quantile for the number of groups.

    Args:
        values: Shape (n,), without NaN; within bounds not all equal.
        labels: Shape (n,), the group of each value, or None.
        bounds: The lowest and the highest possible value; None if there are no bounds.
        confidence_level: Level of the interval.

    Returns:
        low and high.
    """
    lowest, highest = bounds or (0.0, 1.0)
    shares = (values - lowest) / (highest - lowest)
    n, mean = len(shares), compute_mean(shares)
    sums, sizes = sum_by_group(shares, labels)
    n_groups = len(sizes)
    residuals = (sums - sizes * mean) * (1 - 1 / n_groups) / (1 - sizes / n)  # as in `compute_effective_n`
    clustered_variance = n_groups / (n_groups - 1) * n_groups * compute_mean(residuals**2) / n
    # Groups that agree by chance tell no more than as many single values.
    variance = max(clustered_variance, compute_mean((shares - mean) ** 2)) / n
    student = compute_student_quantile(confidence_level, n_groups - 1)
    if bounds is None:
        half_width = student * math.sqrt(variance)
        return mean - half_width, mean + half_width
    wilson_n = mean * (1 - mean) / variance / (student / compute_normal_quantile(confidence_level)) ** 2
    low, high = compute_wilson_interval(mean, wilson_n, confidence_level)
    return lowest + low * (highest - lowest), lowest + high * (highest - lowest)


@check_arguments(values=VALUES, scale=FLOAT)
def quantise(values: np.ndarray, scale: float = 0.0) -> np.ndarray:
    """Round values to a binary grid, so that the last bits of a value and the order of sums decide nothing.

    Two values that should be equal often differ in their last bits, as 0.1 + 0.2 and 0.3 do. Whether values are equal
    decides about ties, the method of an interval and the order of the draws. The grid has 2**36 steps up to the largest
    value, or fewer if there are many values: the sums of any of them are then exact in every order. No fraction with a
    small denominator is near the middle between two steps, where the last bit would decide again.

    Args:
        values: Shape (n,); NaN stays.
        scale: The size that the values can have; the largest absolute value if that is larger.

    Returns:
        Shape (n,), the rounded values. Whole numbers stay as they are, unless they are very large.

    >>> bool(quantise(np.array([0.1 + 0.2]), 1) == quantise(np.array([0.3]), 1))
    True
    """
    scale = max(scale, float(np.fmax.reduce(np.abs(values), initial=0.0)))
    if not scale:
        return values
    # The logarithm is rounded, not cut off, so that the grid is the same for 1 and the number just below it.
    step = round(math.log2(scale)) - min(_BITS, 52 - len(values).bit_length())
    return np.ldexp(np.rint(np.ldexp(values, -step)), step)


@check_arguments(values=VALUES)
def compute_mean(values: np.ndarray) -> float:
    """Compute the mean so that the order of the values does not change its last bits.

    Args:
        values: Shape (n,), without NaN.

    Returns:
        The mean; NaN without values.
    """
    if not len(values):
        return math.nan
    rounded = quantise(values)  # their sum is exact, and the sum of the remainders is too small for its order to count
    return float((rounded.sum() + (values - rounded).sum()) / len(values))


@check_arguments(mean=FLOAT, low=FLOAT, high=FLOAT, scale=FLOAT)
def keep_mean_inside(mean: float, low: float, high: float, scale: float) -> tuple[float, float]:
    """Move an end to the mean if only the rounding of values (`quantise`) has put it beyond the mean.

    Args:
        mean: The mean of the values before they were rounded.
        low: Lower end of the interval of the rounded values.
        high: Upper end.
        scale: The largest absolute value.

    Returns:
        low and high.
    """
    slack = _ROUNDING * scale
    return mean if 0 < low - mean <= slack else low, mean if 0 < mean - high <= slack else high


@check_arguments(like="values", values=VALUES, labels=_GROUPS)
def sum_by_group(values: np.ndarray, labels: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Compute the sum and the size of each group.

    Args:
        values: Shape (n,).
        labels: Shape (n,), the group of each value; None if each value is a group.

    Returns:
        Sums and sizes, each of shape (g,).
    """
    if labels is None:
        return values, np.ones(len(values))
    _, group_index = np.unique(labels, return_inverse=True)
    return np.bincount(group_index, weights=values), np.bincount(group_index).astype(float)


@check_arguments(confidence_level=INNER_LEVEL)
def compute_normal_quantile(confidence_level: float) -> float:
    """Compute z: a standard normal number is between -z and z with the probability `confidence_level`.

    Args:
        confidence_level: A probability between 0 and 1.

    Returns:
        z.
    """
    return NormalDist().inv_cdf((1 + confidence_level) / 2)


@lru_cache(maxsize=1000)
def compute_student_quantile(confidence_level: float, degrees: int) -> float:
    """Compute t: Student's distribution has the share `confidence_level` between -t and t.

    t is sqrt(degrees) * tan(angle). The integral of cos**(degrees - 1) from 0 to the angle is the share
    `confidence_level` of the integral to pi / 2. The integral is concave, so Newton's method climbs from the normal
    quantile to the angle. The metrics on the Hub therefore need no scipy.

    Args:
        confidence_level: A probability between 0 and 1.
        degrees: Degrees of freedom.

    Returns:
        t.

    >>> round(compute_student_quantile(0.95, 4), 3)
    2.776
    """
    nodes, weights = np.polynomial.legendre.leggauss(64)
    target_integral = confidence_level * math.sqrt(math.pi) / 2 * math.exp(
        math.lgamma(degrees / 2) - math.lgamma((degrees + 1) / 2)
    )  # fmt: skip
    angle = math.atan(compute_normal_quantile(confidence_level) / math.sqrt(degrees))
    for _ in range(50):
        integral = angle / 2 * float(weights @ np.cos(angle / 2 * (1 + nodes)) ** (degrees - 1))
        angle += (target_integral - integral) / math.cos(angle) ** (degrees - 1)
    return math.sqrt(degrees) * math.tan(angle)


@check_arguments(confidence_level=INNER_LEVEL, n_groups=whole(2))
def compute_expanded_level(confidence_level: float, n_groups: int) -> float:
    """Compute the level of bootstrap percentiles that cover the mean as often as Student's interval of n_groups.

    Plain percentiles are as narrow as the normal distribution with the variance of the sample (Hesterberg, American
    Statistician 69, 2015, section 5.3), which matters below about 100 groups.

    Args:
        confidence_level: The nominal level.
        n_groups: Number of groups, at least 2.

    Returns:
        The level of the percentiles.
    """
    student = compute_student_quantile(confidence_level, n_groups - 1) * math.sqrt(n_groups / (n_groups - 1))
    return 2 * NormalDist().cdf(student) - 1
