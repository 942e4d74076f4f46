"""Intervals and tests for a mean over examples (CXR-ContraBench, Appendix C): bootstrap and permutation.

Both resample whole groups (study, patient, video) if groups are given, because records of one study are not
independent. `resampling` draws.

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
    VALUES,
    numbers,
    one_of,
    optional,
)
from ..arguments.schema import check_arguments
from .proportion import (
    FEW,
    MANY,
    compute_bounded_interval,
    compute_expanded_level,
    compute_few_groups_interval,
    compute_mean,
    is_near_bound,
    keep_mean_inside,
    quantise,
    sum_by_group,
)
from .resampling import compute_percentiles, compute_sign_flipped_sums, resample_means, shuffle_differences

GROUPS = optional(LABELS)
ALTERNATIVE, PERMUTATION = one_of(("two-sided", "greater", "less")), one_of(("paired", "independent"))


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
    """Compute the percentile bootstrap interval of a mean, or one by formula if there are few groups.

    Percentiles have no width if all values are equal, and cover the truth too rarely if few values differ or there are
    few groups (benchmarks/share_coverage.py). With `bounds` the interval is then Wilson's with an effective n
    (`proportion.compute_bounded_interval`, `proportion.compute_few_groups_interval`). Without bounds the interval of
    few groups is Student's, which may reach beyond all values. From `few` to 99 groups the percentiles are expanded to
    Student's quantile (`proportion.compute_expanded_level`).

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
        few: Wilson's interval is used if there are fewer groups than this, or if fewer groups than this differ from one
            of the bounds. Without bounds Student's takes its place. 1 restricts it to values without any difference,
            and percentiles are not expanded, for figures that a paper computes so.

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
    n_differ = min([len(sums), *(np.count_nonzero(sums - end * sizes) for end in ends)])  # groups away from each bound
    if bounds is not None and len(sums) >= 2 and is_near_bound(values, labels, ends, few):
        low, high = compute_bounded_interval(values, labels, ends, confidence_level)
    elif len(sums) >= 2 and n_differ < few:
        low, high = compute_few_groups_interval(values, labels, ends or None, confidence_level)
    elif len(sums) >= 2:
        means = resample_means(sums, sizes, n_resamples, np.random.default_rng(seed))
        is_expanded = few > 1 and len(sums) < MANY
        level = compute_expanded_level(confidence_level, len(sums)) if is_expanded else confidence_level
        low, high = compute_percentiles(means, level)
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
        permuted = compute_sign_flipped_sums(sums, n_resamples, rng)
    else:
        permuted = shuffle_differences(after, before, n_resamples, rng)
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
