"""Intervals and tests for a mean over examples (CXR-ContraBench, Appendix C): bootstrap and permutation.

Both resample whole groups (study, patient, video) if groups are given, because records of one study are not
independent. Both draw counts of equal contributions instead of single examples if that has the same distribution and
needs less work: a resample of 135,754 zeros and ones is two numbers. Simpler ways would change the bounds of each seed
and are slower: scipy.stats.bootstrap takes 3 to 180 times as long, a loop over numpy's draws up to 9 times.

Bounds and p-values depend on the seed and on the contents of the groups: not on the order of the rows, on the labels of
the groups, or on the last bits of a value (`proportion.quantise`). The bounds of the negated values are the negated
bounds, so that model A against B mirrors B against A.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..arguments.kinds import (
    BOUNDS,
    COUNT,
    LABELS,
    LEVEL,
    ROUNDING,
    SEED,
    SHARE,
    VALUES,
    instance,
    numbers,
    one_of,
    optional,
)
from ..arguments.schema import check_arguments
from .proportion import (
    FEW,
    compute_bounded_interval,
    compute_mean,
    is_near_bound,
    keep_mean_inside,
    quantise,
    sum_by_group,
)

_CHUNK = 50_000  # numbers in one draw: they fit into the cache, and memory stays at a few megabytes
_CELL = 2**10  # units in one cell of a draw: they fit into the innermost cache
_LEAST_MANY = 32  # units whose draws cost about as much as one binomial draw

GROUPS = optional(LABELS)
ALTERNATIVE, PERMUTATION = one_of(("two-sided", "greater", "less")), one_of(("paired", "independent"))
_ARRAY = instance(np.ndarray)


class Interval(NamedTuple):
    """A mean and its interval [low, high]; NaN where undefined.

    Attributes:
        mean: The mean of the values.
        low: Lower end of the interval.
        high: Upper end of the interval.
        n: Number of values used.
        n_nan: Number of values left out because they are NaN.
        n_groups: Number of resampling units; n without groups.
    """

    mean: float
    low: float
    high: float
    n: int
    n_nan: int
    n_groups: int


class PermutationTest(NamedTuple):
    """The result of a permutation test.

    Attributes:
        difference: mean(after) - mean(before) over the n examples with both numbers.
        p_value: P-value of the test; NaN where undefined.
        n: Number of pairs used.
        n_nan: Number of pairs left out because a number is NaN.
        n_groups: Number of units that are exchanged; n without groups.
    """

    difference: float
    p_value: float
    n: int
    n_nan: int
    n_groups: int


@check_arguments(
    values=VALUES,
    groups=GROUPS,
    n_resamples=COUNT,
    seed=SEED,
    confidence_level=LEVEL,
    bounds=optional(BOUNDS),
    few=COUNT,
)
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
    """Compute the percentile bootstrap interval of a mean, or Wilson's interval of a share near 0 or 1.

    Percentiles have no width if all values are equal, and cover the truth too rarely if few values differ
    (benchmarks/share_coverage.py). With `bounds` the interval is then Wilson's with the effective n of the groups
    (`proportion.compute_bounded_interval`). Differences and other unbounded numbers have no bounds.

    Args:
        values: Shape (n,), one number per example; NaN, None and masked entries (undefined for that example) are left
            out and counted.
        groups: Shape (n,), one label per example. Whole groups are then drawn with replacement, and the mean of a
            resample is its sum divided by its size. Labels of different types, 1 and "1", are different groups; a
            missing label is refused.
        n_resamples: Number of resamples; 2,000 in the paper.
        seed: Seed of the generator.
        confidence_level: Level of the interval, between 0 and 1.
        bounds: The lowest and the highest possible value, (0, 1) for shares and scores; None if there are no bounds.
        few: Wilson's interval is used if all values are at the bounds and fewer groups than this differ from the
            commoner bound. 1 restricts it to values without any difference, for figures that a paper computes by
            percentiles.

    Returns:
        The interval. low and high are NaN with fewer than two groups, because a resample cannot show their spread.

    Raises:
        ValueError: Arrays of another shape, entries that are no numbers (texts, complex or infinite numbers), a missing
            label, or a parameter outside its range.

    >>> bootstrap_mean([0, 1, 1, 1, float("nan")]).mean
    0.75
    >>> [round(end, 3) for end in bootstrap_mean([1] * 10, bounds=(0, 1))[:3]]
    [1.0, 0.722, 1.0]
    """
    values, labels = np.asarray(values), _require_labels(groups, len(values))
    if bounds is not None:
        _require_bounds(values, bounds, "values")
    has_value = ~np.isnan(values)
    values, labels = values[has_value], None if labels is None else labels[has_value]
    mean = compute_mean(values)
    rounded = quantise(np.append(values, () if bounds is None else bounds))
    values, ends = rounded[: len(values)], rounded[len(values) :].tolist()
    sums, sizes = sum_by_group(values, labels)
    low = high = float("nan")
    if bounds is not None and len(sums) >= 2 and is_near_bound(values, labels, ends, few):
        low, high = compute_bounded_interval(values, labels, ends, confidence_level)
    elif len(sums) >= 2:
        means = resample_means(sums, sizes, n_resamples, np.random.default_rng(seed))
        low, high = compute_percentiles(means, confidence_level)
    low, high = keep_mean_inside(mean, low, high, float(np.abs(values).max(initial=0.0)))
    return Interval(mean, low, high, len(values), int(np.sum(~has_value)), len(sums))


@check_arguments(
    after=VALUES,
    before=VALUES,
    groups=GROUPS,
    n_resamples=COUNT,
    seed=SEED,
    alternative=ALTERNATIVE,
    permutation=PERMUTATION,
)
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
    """Run a permutation test of mean(after) - mean(before).

    Args:
        after: Shape (n,), the second system's numbers; pairs with a NaN are left out.
        before: Shape (n,), the first system's numbers on the same examples.
        groups: Shape (n,), one label per example; a whole group is then exchanged at once. Paired only.
        n_resamples: Number of random permutations.
        seed: Seed of the generator.
        alternative: "two-sided", "greater" (after above before) or "less".
        permutation: "paired" exchanges the two numbers of an example (or of all examples in a group) at random;
            "independent" shuffles all 2n numbers over the two systems, which ignores the pairing.

    Returns:
        The difference and p = (1 + permutations at least as extreme) / (1 + n_resamples).

    Raises:
        ValueError: Arrays of another shape, infinite values, or a parameter outside its range.

    >>> permutation_test([1, 1, 1, 1], [1, 1, 1, 1]).p_value
    1.0
    """
    if groups is not None and permutation == "independent":
        raise ValueError("groups: an independent permutation ignores the pairing and the groups; use paired")
    after, before, labels, n_nan = select_known_pairs(after, before, groups)
    n, difference = len(after), compute_mean(after - before)
    after, before = np.split(quantise(np.concatenate([after, before])), 2)
    sums, _ = sum_by_group(after - before, labels)
    if not n:
        return PermutationTest(difference, float("nan"), 0, n_nan, 0)
    rng = np.random.default_rng(seed)
    observed = float(sums.sum())
    if permutation == "paired":
        permuted = _compute_sign_flipped_sums(sums, n_resamples, rng)
    else:
        permuted = _shuffle_differences(after, before, n_resamples, rng)
    # Products of counts and sizes are rounded. Rounding must not decide a tie.
    slack = 1e-9 * max(1.0, float(np.abs(after).sum() + np.abs(before).sum()))
    is_extreme = {
        "two-sided": np.abs(permuted) >= abs(observed) - slack,
        "greater": permuted >= observed - slack,
        "less": permuted >= -observed - slack,  # both signs of a sum are as probable: "less" mirrors "greater"
    }[alternative]
    p_value = (1 + int(np.sum(is_extreme))) / (1 + n_resamples)
    return PermutationTest(difference, p_value, n, n_nan, len(sums))


@check_arguments(
    like="predictions",
    predictions=VALUES,
    groups=GROUPS,
    baseline=optional(numbers(is_column=True)),
    n_resamples=COUNT,
    n_permutations=COUNT,
    seed=SEED,
    confidence_level=LEVEL,
    alternative=ALTERNATIVE,
    permutation=PERMUTATION,
    bounds=optional(BOUNDS),
)
def score_values(  # noqa: PLR0913 (options of the metric)
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
    """Compute the result of the metric `confidence`: the mean with its interval and the difference from a baseline.

    Args:
        predictions: Shape (n,), a value per example; None or NaN where it is undefined.
        groups: See `bootstrap_mean`.
        baseline: Shape (n,), another model's values on the same examples; None for no comparison.
        n_resamples: Number of bootstrap resamples.
        n_permutations: Number of random permutations.
        seed: Seed of both.
        confidence_level: Level of the intervals.
        alternative: See `permutation_test`.
        permutation: See `permutation_test`.
        bounds: Bounds of the predictions (not of the difference); see `bootstrap_mean`.

    Returns:
        The fields of `Interval`; with a baseline also difference, difference_low, difference_high, p_value and n_pairs.

    Raises:
        ValueError: See `bootstrap_mean` and `permutation_test`.
    """
    values = np.asarray(predictions)
    if bounds is not None:
        _require_bounds(values, bounds, "predictions")
    options = {"groups": groups, "n_resamples": n_resamples, "seed": seed, "confidence_level": confidence_level}
    result = bootstrap_mean(values, bounds=bounds, **options)._asdict()
    if baseline is None:
        return result
    baseline_values = np.asarray(baseline)
    test = permutation_test(
        values, baseline_values, groups=groups, n_resamples=n_permutations, seed=seed, alternative=alternative,
        permutation=permutation,
    )  # fmt: skip
    after, before = np.split(quantise(np.concatenate([values, baseline_values])), 2)
    interval = bootstrap_mean(after - before, **options)
    return {
        **result,
        "difference": test.difference,
        "difference_low": interval.low,
        "difference_high": interval.high,
        "p_value": test.p_value,
        "n_pairs": test.n,
    }


@check_arguments(after=VALUES, before=VALUES, groups=GROUPS)
def select_known_pairs(
    after: Sequence[float] | np.ndarray, before: Sequence[float] | np.ndarray, groups: Sequence | np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, int]:
    """Select the pairs with both numbers.

    Args:
        after: Shape (n,), the second system's numbers.
        before: Shape (n,), the first system's numbers.
        groups: Shape (n,), one label per example, or None.

    Returns:
        The selected after, before and labels (or None), each of shape (k,), and the number of pairs left out.

    Raises:
        ValueError: Arrays of another shape, or infinite values.
    """
    after, before = np.asarray(after), np.asarray(before)
    if len(after) != len(before):
        raise ValueError(f"after has {len(after)} numbers and before {len(before)}: give both on the same examples")
    labels = _require_labels(groups, len(after))
    is_complete = ~(np.isnan(after) | np.isnan(before))
    return (
        after[is_complete],
        before[is_complete],
        None if labels is None else labels[is_complete],
        int(np.sum(~is_complete)),
    )


@check_arguments(means=_ARRAY, confidence_level=SHARE)
def compute_percentiles(means: np.ndarray, confidence_level: float) -> tuple[float, float]:
    """Compute the percentiles that enclose the middle of the resampled means.

    Args:
        means: Shape (r,), means of the resamples.
        confidence_level: Share of the means between the two percentiles.

    Returns:
        low and high.
    """
    tail = (1 - confidence_level) / 2
    # The upper percentile is the lower one of the negated means, to the last bit. Adding 0 turns -0.0 into 0.0.
    low, high = np.quantile(means, tail), -np.quantile(-means, tail)
    return float(low) + 0.0, float(high) + 0.0


@check_arguments(sums=_ARRAY, sizes=_ARRAY, n_resamples=COUNT, rng=instance(np.random.Generator))
def resample_means(sums: np.ndarray, sizes: np.ndarray, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Draw groups with replacement and compute the mean of each resample.

    The order of the groups has no effect. Means of the negated sums are the negated means: the draws are those of the
    sums whose sorted list is the greater one. Where the two lists are equal, each mean counts with both signs.

    Args:
        sums: Shape (g,), the total of each group, of values that `quantise` has rounded.
        sizes: Shape (g,), the number of values of each group.
        n_resamples: Number of resamples.
        rng: The generator.

    Returns:
        Shape (n_resamples,), the means; shape (2 * n_resamples,) if each counts with both signs.
    """
    sign = _choose_sign(sums, sizes)
    means = _draw_resample_means(sums * (sign or 1), sizes, n_resamples, rng)
    return means * sign if sign else np.concatenate([means, -means])


def _choose_sign(sums: np.ndarray, sizes: np.ndarray) -> int:
    """Return 1 or -1, the sign with which the sorted groups are the greater list; 0 if both signs give one list."""
    if not (sums < 0).any():
        return 1
    groups, negated_groups = (np.sort(signed_sums + 1j * sizes) for signed_sums in (sums, -sums))
    is_other = groups != negated_groups
    if not is_other.any():
        return 0
    first = np.argmax(is_other)
    return 1 if groups[first] > negated_groups[first] else -1


def _draw_resample_means(sums: np.ndarray, sizes: np.ndarray, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    if np.all(sizes == sizes[0]):
        return _draw_resample_totals(sums, n_resamples, rng) / sizes.sum()
    pairs = sums + 1j * sizes  # one number per group, so that one addition gives both totals
    totals = _draw_resample_totals(pairs, n_resamples, rng)
    return np.real(totals) / np.imag(totals)


def _draw_resample_totals(units: np.ndarray, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Compute totals of resamples of units, shape (g,), with replacement; the order of the units has no effect.

    Equal units that are many form one cell. The other units form cells of 2**k units. The number of units drawn from
    each cell is multinomial. k random bits choose each unit within a cell of the second kind.
    """
    distinct_units, frequency = np.unique(units, return_counts=True)
    is_many = frequency >= _LEAST_MANY
    rare_units = np.repeat(distinct_units[~is_many], frequency[~is_many])
    sizes = [_CELL] * (len(rare_units) // _CELL) + [2**k for k in range(16) if len(rare_units) % _CELL >> k & 1]
    cells = np.split(rare_units, np.cumsum(sizes)[:-1]) if sizes else []
    cell_share = np.concatenate([frequency[is_many], sizes]) / len(units)
    totals = np.empty(n_resamples, dtype=units.dtype)
    step = max(1, 4 * _CHUNK // len(cell_share))
    for start in range(0, n_resamples, step):
        counts = rng.multinomial(len(units), cell_share, size=min(step, n_resamples - start))
        step_totals = counts[:, : is_many.sum()] @ distinct_units[is_many]
        for cell, cell_counts in zip(cells, counts[:, is_many.sum() :].T, strict=True):
            step_totals += _draw_totals(cell, cell_counts, rng)
        totals[start : start + step] = step_totals
    return totals


def _draw_totals(cell: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Compute totals of counts[i] units that are drawn from the cell of 2**k units; counts, totals: shape (r,)."""
    totals = np.zeros(len(counts), dtype=cell.dtype)
    step = max(1, _CHUNK // len(cell))
    for start in range(0, len(counts), step):
        step_counts = counts[start : start + step]
        bits = rng.integers(2**16, size=step_counts.sum(), dtype=np.uint16) & np.uint16(len(cell) - 1)
        is_drawn = step_counts > 0
        starts = (np.cumsum(step_counts) - step_counts)[is_drawn]
        totals[start : start + step][is_drawn] = np.add.reduceat(cell.take(bits, mode="clip"), starts)
    return totals


def _compute_sign_flipped_sums(differences: np.ndarray, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Sum the differences under random signs: m equal sizes keep their sign Binomial(m, 1/2) times."""
    sizes, counts = np.unique(np.abs(differences[differences != 0]), return_counts=True)
    is_single = counts == 1  # one random bit decides such a sign, which is much cheaper than a binomial draw
    sums = np.full(n_resamples, -(counts @ sizes))
    step = max(1, _CHUNK // max(1, len(sizes)))
    for start in range(0, n_resamples, step):
        step_sums = sums[start : start + step]
        n_kept = _draw_coin_flips(counts[~is_single], len(step_sums), rng)
        bits = rng.integers(256, size=(len(step_sums), -(-int(is_single.sum()) // 8)), dtype=np.uint8)
        step_sums += 2 * (
            n_kept @ sizes[~is_single] + np.unpackbits(bits, axis=1, count=int(is_single.sum())) @ sizes[is_single]
        )
    return sums


def _draw_coin_flips(counts: np.ndarray, n_draws: int, rng: np.random.Generator) -> np.ndarray:
    """Draw Binomial(counts, 1/2), shape (n_draws, k); small counts use counted bits, which is ten times as fast."""
    flips = np.empty((n_draws, len(counts)), dtype=np.int64)
    is_small = counts <= 64
    random_bits = rng.integers(2**64, size=(n_draws, int(is_small.sum())), dtype=np.uint64)
    flips[:, is_small] = np.bitwise_count(random_bits >> (64 - counts[is_small]).astype(np.uint64))
    flips[:, ~is_small] = rng.binomial(counts[~is_small], 0.5, size=(n_draws, int(np.sum(~is_small))))
    return flips


def _shuffle_differences(
    after: np.ndarray, before: np.ndarray, n_resamples: int, rng: np.random.Generator
) -> np.ndarray:
    """Compute sum(after) - sum(before) for shuffled pooled numbers, by draws without replacement."""
    pooled = np.concatenate([after, before])
    distinct_values, counts = np.unique(pooled, return_counts=True)
    sums = np.empty(n_resamples)
    step = max(1, _CHUNK // len(distinct_values))
    for start in range(0, n_resamples, step):
        stop = min(start + step, n_resamples)
        drawn_counts = rng.multivariate_hypergeometric(counts, len(after), size=stop - start, method="marginals")
        sums[start:stop] = 2 * (drawn_counts @ distinct_values) - pooled.sum()
    return sums


def _require_labels(groups: Sequence | np.ndarray | None, n: int) -> np.ndarray | None:
    if groups is None:
        return None
    labels = np.asarray(groups)
    if labels.shape != (n,):
        raise ValueError(f"groups: shape {labels.shape}; expected one label per value, shape ({n},)")
    return labels


def _require_bounds(values: np.ndarray, bounds: Sequence[float], name: str) -> None:
    is_outside = (values < bounds[0] - ROUNDING) | (values > bounds[1] + ROUNDING)
    if is_outside.any():
        row = int(np.argmax(is_outside))
        raise ValueError(f"{name}, row {row + 1}: {values[row]:g}; expected a number from {bounds[0]} to {bounds[1]}")
