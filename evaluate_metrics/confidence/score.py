"""Intervals and tests for a mean over examples (CXR-ContraBench, Appendix C): bootstrap and permutation.

Both resample whole groups where groups are given (study, patient, video), so that records of one study are not taken
for independent. Both draw counts of equal contributions instead of single examples where that is the same
distribution and less work: a resample of 135,754 zeros and ones is two numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .proportion import FEW, bounded_interval, by_group, is_near_bound

_CHUNK = 50_000  # numbers drawn at once: they stay in the cache, and memory stays a few megabytes
_CELL = 2**10  # units that are drawn from together: they stay in the innermost cache
_ROUNDING = 1e-9  # by which a share may lie above 1
_MANY = 32  # a binomial draw costs about as much as so many drawn units


class Interval(NamedTuple):
    """mean and its interval [low, high]; NaN where undefined.

    n: values used; n_nan: values left out as NaN; n_groups: resampling units (n without groups).
    """

    mean: float
    low: float
    high: float
    n: int
    n_nan: int
    n_groups: int


class PermutationTest(NamedTuple):
    """difference: mean(after) - mean(before) over the n examples where both are known; p_value: NaN where undefined."""

    difference: float
    p_value: float
    n: int
    n_nan: int
    n_groups: int


def bootstrap_mean(
    values: Sequence[float] | np.ndarray,
    *,
    groups: Sequence | np.ndarray | None = None,
    n_resamples: int = 2000,
    seed: int = 42,
    confidence_level: float = 0.95,
    bounds: Sequence[float] | None = None,
    few: int = FEW,
) -> Interval:
    """Percentile bootstrap interval of a mean; Wilson's interval of a share near 0 or 1, if the bounds are known.

    Percentiles have no width where all values are equal, and hold the truth too rarely where few differ
    (benchmarks/share_coverage.py). With bounds the interval is then Wilson's with the effective n of the groups
    (`proportion.bounded_interval`). Differences and other unbounded numbers have no bounds.

    Args:
        values: shape (n,), one number an example; NaN (undefined for that example) is left out and counted.
        groups: shape (n,), one label an example. Whole groups are then drawn with replacement, all their records
            included, and the mean of a resample is its sum over its size.
        n_resamples: number of resamples; 2,000 as published.
        seed: seed of the generator.
        confidence_level: between 0 and 1.
        bounds: the lowest and the highest number that a value can be, (0, 1) of shares and scores; None if there are
            no such numbers.
        few: groups that differ from the commoner bound, below which values that are all 0 or 1 (all at the bounds) get
            Wilson's interval; 1: only where none differs, for figures that a paper prints by percentiles.

    Returns:
        the interval; low and high are NaN with fewer than two groups, whose spread no resample can show.

    Raises:
        ValueError: arrays of another shape, infinite values, or a parameter out of its range.

    >>> bootstrap_mean([0, 1, 1, 1, float("nan")]).mean
    0.75
    >>> [round(end, 3) for end in bootstrap_mean([1] * 10, bounds=(0, 1))[:3]]
    [1.0, 0.722, 1.0]
    """
    values = _vector(values, "values")
    labels = _labels(groups, len(values))
    if n_resamples < 1:
        raise ValueError(f"n_resamples {n_resamples}: expected at least 1")
    check_level(confidence_level)
    known = ~np.isnan(values)
    values, labels = values[known], None if labels is None else labels[known]
    if bounds is not None:
        _check_bounds(values, bounds)
    sums, sizes = by_group(values, labels)
    low = high = float("nan")
    if bounds is not None and len(sums) >= 2 and is_near_bound(values, labels, bounds, few):
        low, high = bounded_interval(values, labels, bounds, confidence_level)
    elif len(sums) >= 2:
        means = resampled_means(sums, sizes, n_resamples, np.random.default_rng(seed))
        low, high = percentiles(means, confidence_level)
    mean = float(sums.sum() / sizes.sum()) if len(sums) else float("nan")
    return Interval(mean, low, high, len(values), int(np.sum(~known)), len(sums))


def permutation_test(
    after: Sequence[float] | np.ndarray,
    before: Sequence[float] | np.ndarray,
    *,
    groups: Sequence | np.ndarray | None = None,
    n_resamples: int = 10_000,
    seed: int = 42,
    alternative: str = "two-sided",
    permutation: str = "paired",
) -> PermutationTest:
    """Permutation test of mean(after) - mean(before).

    Args:
        after, before: shape (n,), the two systems' numbers on the same examples; pairs with a NaN are left out.
        groups: shape (n,), one label an example; a whole group is then exchanged at once. Paired only.
        n_resamples, seed: number of random permutations, and the seed of the generator.
        alternative: "two-sided", "greater" (after above before) or "less".
        permutation: "paired" exchanges the two numbers of an example (or of all examples in a group) at random;
            "independent" shuffles all 2n numbers over the two systems, which ignores the pairing.

    Returns:
        the difference and p = (1 + permutations at least as extreme) / (1 + n_resamples).

    Raises:
        ValueError: arrays of another shape, infinite values, or a parameter out of its range.

    >>> permutation_test([1, 1, 1, 1], [1, 1, 1, 1]).p_value
    1.0
    """
    _check_test(n_resamples, alternative, permutation, groups is not None)
    after, before, labels, n_nan = known_pairs(after, before, groups)
    n = len(after)
    sums, _ = by_group(after - before, labels)
    if not n:
        return PermutationTest(float("nan"), float("nan"), 0, n_nan, 0)
    rng = np.random.default_rng(seed)
    observed = float(sums.sum())
    if permutation == "paired":
        permuted = _sign_flipped_sums(sums, n_resamples, rng)
    else:
        permuted = _shuffled_differences(after, before, n_resamples, rng)
    # Sums of the same numbers in another order differ by rounding; that must not decide a tie.
    slack = 1e-9 * max(1.0, float(np.abs(after).sum() + np.abs(before).sum()))
    extreme = {
        "two-sided": np.abs(permuted) >= abs(observed) - slack,
        "greater": permuted >= observed - slack,
        "less": permuted <= observed + slack,
    }[alternative]
    p_value = (1 + int(np.sum(extreme))) / (1 + n_resamples)
    return PermutationTest(observed / n, p_value, n, n_nan, len(sums))


def score_values(
    predictions: Sequence[float | None],
    *,
    groups: Sequence | np.ndarray | None = None,
    baseline: Sequence[float | None] | None = None,
    n_resamples: int = 2000,
    n_permutations: int = 10_000,
    seed: int = 42,
    confidence_level: float = 0.95,
    alternative: str = "two-sided",
    permutation: str = "paired",
    bounds: Sequence[float] | None = None,
) -> dict[str, float]:
    """What the metric `confidence` returns: the mean with its interval and, with a baseline, their difference.

    Args:
        predictions: shape (n,), a value an example; None or NaN where it has none. baseline: another model's, in the
            same order. bounds: of the predictions, not of the difference. The others: of `bootstrap_mean` and
            `permutation_test`.

    Raises ValueError: as these.
    """
    values = [np.nan if value is None else float(value) for value in predictions]
    how = {"groups": groups, "n_resamples": n_resamples, "seed": seed, "confidence_level": confidence_level}
    result = bootstrap_mean(values, bounds=bounds, **how)._asdict()
    if baseline is None:
        return result
    other = [np.nan if value is None else float(value) for value in baseline]
    test = permutation_test(
        values, other, groups=groups, n_resamples=n_permutations, seed=seed, alternative=alternative,
        permutation=permutation,
    )  # fmt: skip
    interval = bootstrap_mean([a - b for a, b in zip(values, other, strict=True)], **how)
    return {
        **result,
        "difference": test.difference,
        "difference_low": interval.low,
        "difference_high": interval.high,
        "p_value": test.p_value,
        "n_pairs": test.n,
    }


def known_pairs(
    after: Sequence[float] | np.ndarray, before: Sequence[float] | np.ndarray, groups: Sequence | np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, int]:
    """after, before and groups where both numbers are known, shape (k,), and how many pairs are left out.

    Raises:
        ValueError: arrays of another shape, or infinite values.
    """
    after, before = _vector(after, "after"), _vector(before, "before")
    if len(after) != len(before):
        raise ValueError(f"after has {len(after)} numbers and before {len(before)}: give both on the same examples")
    labels = _labels(groups, len(after))
    known = ~(np.isnan(after) | np.isnan(before))
    return after[known], before[known], None if labels is None else labels[known], int(np.sum(~known))


def check_level(confidence_level: float) -> None:
    if not 0 < confidence_level < 1:
        raise ValueError(f"confidence_level {confidence_level}: expected a share between 0 and 1, as 0.95")


def percentiles(means: np.ndarray, confidence_level: float) -> tuple[float, float]:
    """low and high, between which the middle of the resampled means lies."""
    tail = (1 - confidence_level) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def resampled_means(sums: np.ndarray, sizes: np.ndarray, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Means of resamples of groups; sums, sizes: shape (g,), each group's total and number of values."""
    if np.all(sizes == sizes[0]):
        return _resampled_totals(sums, n_resamples, rng) / sizes.sum()
    pairs = sums + 1j * sizes  # one number a group: totals of both are then added up in one go
    totals = _resampled_totals(pairs, n_resamples, rng)
    return np.real(totals) / np.imag(totals)


def _resampled_totals(units: np.ndarray, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Totals of resamples of units, shape (g,), with replacement; the order of the units makes no difference.

    Units that are equal and many are one cell, and the others lie in cells of 2**k units. How many units are drawn from
    each cell is multinomial. Which ones, in the second kind of cell, is k random bits each.
    """
    kinds, frequency = np.unique(units, return_counts=True)
    many = frequency >= _MANY
    others = np.repeat(kinds[~many], frequency[~many])
    sizes = [_CELL] * (len(others) // _CELL) + [2**k for k in range(16) if len(others) % _CELL >> k & 1]
    cells = np.split(others, np.cumsum(sizes)[:-1]) if sizes else []
    share = np.concatenate([frequency[many], sizes]) / len(units)
    totals = np.empty(n_resamples, dtype=units.dtype)
    step = max(1, 4 * _CHUNK // len(share))
    for start in range(0, n_resamples, step):
        counts = rng.multinomial(len(units), share, size=min(step, n_resamples - start))
        part = counts[:, : many.sum()] @ kinds[many]
        for cell, drawn in zip(cells, counts[:, many.sum() :].T, strict=True):
            part += _drawn_totals(cell, drawn, rng)
        totals[start : start + step] = part
    return totals


def _drawn_totals(cell: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Totals of counts[i] units, each drawn from the cell of 2**k units; counts, totals: shape (r,)."""
    totals = np.zeros(len(counts), dtype=cell.dtype)
    step = max(1, _CHUNK // len(cell))
    for start in range(0, len(counts), step):
        count = counts[start : start + step]
        bits = rng.integers(2**16, size=count.sum(), dtype=np.uint16) & np.uint16(len(cell) - 1)
        some = count > 0
        starts = (np.cumsum(count) - count)[some]
        totals[start : start + step][some] = np.add.reduceat(cell.take(bits, mode="clip"), starts)
    return totals


def _sign_flipped_sums(differences: np.ndarray, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Sums of differences under random signs: m differences of one size keep their sign Binomial(m, 1/2) times."""
    size, count = np.unique(np.abs(differences[differences != 0]), return_counts=True)
    once = count == 1  # such a sign is one random bit, much cheaper than a binomial draw
    sums = np.full(n_resamples, -(count @ size))
    step = max(1, _CHUNK // max(1, len(size)))
    for start in range(0, n_resamples, step):
        part = sums[start : start + step]
        kept = _coin_flips(count[~once], len(part), rng)
        bits = rng.integers(256, size=(len(part), -(-int(once.sum()) // 8)), dtype=np.uint8)
        part += 2 * (kept @ size[~once] + np.unpackbits(bits, axis=1, count=int(once.sum())) @ size[once])
    return sums


def _coin_flips(counts: np.ndarray, n_draws: int, rng: np.random.Generator) -> np.ndarray:
    """Binomial(counts, 1/2) draws, shape (n_draws, k): small ones are counted bits, which is ten times as fast."""
    flips = np.empty((n_draws, len(counts)), dtype=np.int64)
    is_small = counts <= 64
    words = rng.integers(2**64, size=(n_draws, int(is_small.sum())), dtype=np.uint64)
    flips[:, is_small] = np.bitwise_count(words >> (64 - counts[is_small]).astype(np.uint64))
    flips[:, ~is_small] = rng.binomial(counts[~is_small], 0.5, size=(n_draws, int(np.sum(~is_small))))
    return flips


def _shuffled_differences(
    after: np.ndarray, before: np.ndarray, n_resamples: int, rng: np.random.Generator
) -> np.ndarray:
    """sum(after) - sum(before) when the pooled numbers are dealt out again: a draw without replacement."""
    pooled = np.concatenate([after, before])
    kinds, count = np.unique(pooled, return_counts=True)
    sums = np.empty(n_resamples)
    step = max(1, _CHUNK // len(kinds))
    for start in range(0, n_resamples, step):
        stop = min(start + step, n_resamples)
        drawn = rng.multivariate_hypergeometric(count, len(after), size=stop - start, method="marginals")
        sums[start:stop] = 2 * (drawn @ kinds) - pooled.sum()
    return sums


def _vector(values: Sequence[float] | np.ndarray, name: str) -> np.ndarray:
    vector = np.asarray(values, dtype=float)
    if vector.ndim != 1:
        raise ValueError(f"{name}: shape {vector.shape}; expected one number an example, shape (n,)")
    if np.isinf(vector).any():
        raise ValueError(f"{name}, row {int(np.argmax(np.isinf(vector))) + 1}: infinite; expected a number or NaN")
    return vector


def _labels(groups: Sequence | np.ndarray | None, n: int) -> np.ndarray | None:
    if groups is None:
        return None
    labels = np.asarray(groups)
    if labels.shape != (n,):
        raise ValueError(f"groups: shape {labels.shape}; expected one label a value, shape ({n},)")
    return labels


def _check_bounds(values: np.ndarray, bounds: Sequence[float]) -> None:
    if len(bounds) != 2 or not bounds[0] < bounds[1]:
        raise ValueError(f"bounds {bounds}: expected the lowest and the highest number, as (0, 1)")
    lowest, highest = bounds[0] - _ROUNDING, bounds[1] + _ROUNDING
    if len(values) and (values.min() < lowest or values.max() > highest):
        ends = f"{values.min():g} to {values.max():g}"
        raise ValueError(f"values: {ends}; expected numbers from {bounds[0]} to {bounds[1]}")


def _check_test(n_resamples: int, alternative: str, permutation: str, grouped: bool) -> None:
    if n_resamples < 1:
        raise ValueError(f"n_resamples {n_resamples}: expected at least 1")
    if alternative not in {"two-sided", "greater", "less"}:
        raise ValueError(f"alternative {alternative!r}: expected two-sided, greater or less")
    if permutation not in {"paired", "independent"}:
        raise ValueError(f"permutation {permutation!r}: expected paired or independent")
    if grouped and permutation == "independent":
        raise ValueError("groups: an independent permutation ignores the pairing and the groups; use paired")
