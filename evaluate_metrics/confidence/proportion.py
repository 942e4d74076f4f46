"""Wilson's interval of a proportion, also of clustered rows: what has a width where every row is right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np

FEW = 15  # groups that differ, below which the bootstrap's percentiles are too narrow


def wilson(mean: float, n: float, confidence_level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a proportion among n, which need not be whole; NaN without any.

    >>> tuple(round(bound, 3) for bound in wilson(1.0, 10))
    (0.722, 1.0)
    """
    if not n > 0:
        return math.nan, math.nan
    z2 = normal_quantile(confidence_level) ** 2
    middle = (mean + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (mean * (1 - mean) / n + z2 / (4 * n**2))) / (1 + z2 / n)
    return min(mean, max(0.0, middle - half)), max(mean, min(1.0, middle + half))  # rounding leaves the mean inside


def effective_n(values: np.ndarray, labels: np.ndarray | None) -> float:
    """How many independent examples tell as much as clustered ones (Korn and Graubard, Survey Methodology 24, 1998).

    Args:
        values: shape (n,), without NaN. labels: shape (n,), groups, or None.

    Returns:
        n over the design effect, with the groups' degrees of freedom; n without groups, one a group where no value
        differs; NaN with fewer than two groups.
    """
    sums, sizes = by_group(values, labels)
    if len(sums) < 2:
        return math.nan
    n = len(values)
    if len(sums) == n:
        return n
    mean = values.mean()
    alone, together = np.sum((values - mean) ** 2), np.sum((sums - sizes * mean) ** 2)
    effect = max(1.0, together / alone) if alone > 0 else n / len(sums)
    return float(n / effect * (student_quantile(0.95, n - 1) / student_quantile(0.95, len(sums) - 1)) ** 2)


def is_near_bound(values: np.ndarray, labels: np.ndarray | None, bounds: Sequence[float], few: int) -> bool:
    """Whether the percentiles of resampled means are too narrow for values that lie within bounds.

    They are where all values are equal, and where every value is one of the two bounds and fewer than `few` groups have
    another one than the commoner bound. Numbers between the bounds vary less than Wilson's interval allows for.
    """
    if not len(values) or values.min() == values.max():
        return bool(len(values))
    if not np.isin(values, bounds).all():
        return False
    n_other = [int(np.count_nonzero(by_group((values != bound).astype(float), labels)[0])) for bound in bounds]
    return min(n_other) < few


def bounded_interval(
    values: np.ndarray, labels: np.ndarray | None, bounds: Sequence[float], confidence_level: float
) -> tuple[float, float]:
    """Interval of a mean of values near a bound (`is_near_bound`): Wilson's, with the effective n.

    Where all values are equal, Wilson's interval of 0 says how large a share of other values may be; these may lie at
    either bound. For a share of 0 or 1 that is Wilson's interval itself.
    """
    lowest, highest = bounds
    n = effective_n(values, labels)
    if values.min() == values.max():
        value, share = float(values[0]), wilson(0.0, n, confidence_level)[1]
        return value - share * (value - lowest), value + share * (highest - value)
    low, high = wilson(float(np.mean(values == highest)), n, confidence_level)
    return lowest + low * (highest - lowest), lowest + high * (highest - lowest)


def by_group(values: np.ndarray, labels: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Sum and size of each group, shape (g,); every value is one without labels."""
    if labels is None:
        return values, np.ones(len(values))
    _, group = np.unique(labels, return_inverse=True)
    return np.bincount(group, weights=values), np.bincount(group).astype(float)


def normal_quantile(confidence_level: float) -> float:
    """z, of which the normal distribution has the share `confidence_level` between -z and z."""
    return NormalDist().inv_cdf((1 + confidence_level) / 2)


@lru_cache(maxsize=1000)
def student_quantile(confidence_level: float, degrees: int) -> float:
    """t, of which Student's distribution has the share `confidence_level` between -t and t.

    It is sqrt(degrees) * tan(angle), where the integral of cos**(degrees - 1) from 0 to the angle is that share of the
    one to pi / 2. The integral is concave, so that Newton's method climbs to the angle from the normal quantile. What
    is published on the Hub needs no scipy for it.

    >>> round(student_quantile(0.95, 4), 3)
    2.776
    """
    nodes, weights = np.polynomial.legendre.leggauss(64)
    wanted = confidence_level * math.sqrt(math.pi) / 2 * math.exp(
        math.lgamma(degrees / 2) - math.lgamma((degrees + 1) / 2)
    )  # fmt: skip
    angle = math.atan(normal_quantile(confidence_level) / math.sqrt(degrees))
    for _ in range(50):
        integral = angle / 2 * float(weights @ np.cos(angle / 2 * (1 + nodes)) ** (degrees - 1))
        angle += (wanted - integral) / math.cos(angle) ** (degrees - 1)
    return math.sqrt(degrees) * math.tan(angle)
