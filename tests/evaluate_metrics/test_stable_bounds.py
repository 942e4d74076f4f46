"""Bounds and p-values of equal data are equal: last bits, the order of rows and the names of groups change nothing."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.evaluate_metrics.confidence.image_use import compare_conditions
from medfaith.evaluate_metrics.confidence.paired import (
    compute_equivalence_p,
    compute_paired_difference,
    compute_superiority_p,
)
from medfaith.evaluate_metrics.confidence.place import Edited, measure_place_effect
from medfaith.evaluate_metrics.confidence.proportion import compute_mean, quantise
from medfaith.evaluate_metrics.confidence.reliance import compute_exceeding_p, reliance
from medfaith.evaluate_metrics.confidence.score import bootstrap_mean, permutation_test, score_values
from medfaith.reporting.wrong_lung.correlations import compute_r_interval
from tests.support.tiers import keep_quick

SHARE = (0, 1)
FEW_DRAWS = {"n_resamples": 60}
DRAWS = st.integers(0, 10**6)
SIZES = st.sampled_from([2, 5, 20, 40])


def draw_rows(seed, n_groups):
    """Draw fractions of two models in groups of 1 to 4 rows; many fractions and sums of groups are equal."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), rng.integers(1, 5, size=n_groups))
    denominators = rng.choice(([1], [1, 2, 3], [3, 7, 10])[rng.integers(3)], size=len(groups))
    after, before = rng.integers(0, denominators + 1, size=(2, len(groups))) / denominators
    return rng, after, np.where(rng.random(len(groups)) < rng.random(), after, before), groups


def move_last_bits(rng, values):
    """Move each value up or down by its last bit, or leave it."""
    return np.nextafter(values, values + rng.integers(-1, 2, size=len(values)))


def measure_place(after, before, groups):
    flips = (np.abs(after - before) > 0.15).astype(float)
    doses = {dose: Edited(before * dose / 100, after * dose / 100, flips) for dose in (50, 100)}
    is_present = np.abs(after + before - 1) > 0.45
    effect = measure_place_effect(doses, is_present, margin=0.05, groups=groups)
    return (*effect[3:8], effect.n_enough, effect.slope_low, effect.slope_high)


def measure_r(after, before, groups):
    x, y = after + 1, before - after
    return compute_r_interval(x, y, groups) if min(np.ptp(x), np.ptp(y)) > 0.01 else ()


def measure_metric(after, before, groups):
    scores = score_values(after, baseline=before, groups=groups, n_permutations=300, **FEW_DRAWS)
    return [scores[name] for name in ("low", "high", "difference_low", "difference_high", "p_value")]


# name -> the bounds or p-values of two models' values in groups
BOUNDS = {
    "mean": lambda after, _, groups: bootstrap_mean(10 * after, groups=groups, **FEW_DRAWS)[1:3],
    "rows": lambda after, *_: bootstrap_mean(after, **FEW_DRAWS)[1:3],
    "share": lambda after, _, groups: bootstrap_mean(after, groups=groups, bounds=SHARE, **FEW_DRAWS)[1:3],
    "difference": lambda *rows: compute_paired_difference(*rows[:2], groups=rows[2], **FEW_DRAWS)[3:5],
    "metric": measure_metric,
    "exchanged": lambda *rows: permutation_test(*rows[:2], groups=rows[2], n_resamples=300).p_value,
    "shuffled": lambda *rows: permutation_test(
        *rows[:2], n_resamples=300, permutation="independent", alternative="greater"
    ).p_value,
    "equivalence": lambda *rows: compute_equivalence_p(*rows[:2], 0.1, groups=rows[2], **FEW_DRAWS),
    "superiority": lambda *rows: compute_superiority_p(*rows[:2], 0.1, groups=rows[2], **FEW_DRAWS),
    "exceeding": lambda *rows: compute_exceeding_p(*rows[:2], 0.1, groups=rows[2], n_permutations=300),
    "audit": lambda *rows: compare_conditions(*rows[:2], groups=rows[2], margin=0.05, threshold=0.05)[1:],
    "reliance": lambda after, before, groups: reliance(after, {"none": before}, groups=groups, margin=0.05)[2:],
    "place": measure_place,
    "correlation": measure_r,
}  # fmt: skip


FULL = {"rows", "metric", "superiority", "exceeding", "reliance", "place"}  # parts of them are among the others


@pytest.mark.parametrize("name", keep_quick(BOUNDS, lambda name: name not in FULL))
@given(seed=DRAWS, n_groups=SIZES)
def test_last_bits_order_and_names_change_no_bound(name, seed, n_groups):
    rng, after, before, groups = draw_rows(seed, n_groups)
    bounds = BOUNDS[name](after, before, groups)
    order, names = rng.permutation(len(groups)), rng.permutation(n_groups).astype(str)
    is_moved = rng.random() < 0.5
    if is_moved:
        after, before = move_last_bits(rng, after), move_last_bits(rng, before)
    equal = BOUNDS[name](after[order], before[order], names[groups][order])
    # A bound that equals the mean moves with it by a last bit.
    assert equal == pytest.approx(bounds, rel=1e-15 * is_moved, abs=1e-15 * is_moved, nan_ok=True)


@given(seed=DRAWS, n_groups=SIZES, is_continuous=st.booleans())
def test_model_a_against_b_mirrors_b_against_a(seed, n_groups, is_continuous):
    rng, after, before, groups = draw_rows(seed, n_groups)
    if is_continuous:
        after, before = rng.random((2, len(groups)))
    options = {"groups": groups, "n_resamples": 60}
    difference, mirrored = (
        compute_paired_difference(*models, **options) for models in ((after, before), (before, after))
    )
    assert (difference.low, difference.high) == (-mirrored.high, -mirrored.low) or math.isnan(difference.low)
    assert difference.difference == -mirrored.difference
    assert difference[5:] == mirrored[5:]
    interval, negated = bootstrap_mean(after - before, **options), bootstrap_mean(before - after, **options)
    assert (interval.low, interval.mean, interval.high) == (-negated.high, -negated.mean, -negated.low)
    assert interval.low <= interval.mean <= interval.high
    for permutation in ("paired", "independent"):
        tests = [
            permutation_test(*models, n_resamples=300, permutation=permutation, alternative=alternative).p_value
            for models, alternative in (((after, before), "greater"), ((before, after), "less"))
        ]
        assert tests[0] == tests[1]


def test_the_bounds_of_data_that_mirror_themselves_are_symmetric():
    values = np.repeat([-1.0, -0.25, 0.25, 1.0], [50, 40, 40, 50])
    interval = bootstrap_mean(values)
    assert interval.low == -interval.high
    assert interval.high == pytest.approx(1.96 * np.std(values) / math.sqrt(len(values)), rel=0.1)


JUST_BELOW_1, POINT_3 = np.nextafter(1, 0), 0.1 + 0.2  # the sum is the number above 0.3
FIVE = np.repeat(np.arange(5), 2)


@pytest.mark.parametrize(
    ("values", "moved", "options"),
    [
        ([1, 1, 1, 1, 1, 0, 1, 1, 1, 0], [JUST_BELOW_1, 1, 1, 1, 1, 0, 1, 1, 1, 0], {"groups": FIVE, "bounds": SHARE}),
        ([0.3] * 10, [POINT_3] + [0.3] * 9, {"groups": FIVE, "bounds": SHARE}),
        ([0.9, 0.3, 0.6, 0.5, 0.1], [np.nextafter(0.9, 1), 0.3, 0.6, 0.5, 0.1], {"groups": [0, 1, 1, 2, 3]}),
        ([0] * 40 + [0.3] * 40 + [1] * 40, [0] * 40 + [0.3, POINT_3] * 20 + [1] * 40, {}),
        ([0, 0.9, 0.5, 0], [1e-17, 0.9, 0.5, -1e-17], {"groups": [0, 1, 2, 2]}),
    ],
    ids=["a score next to 1", "equal scores", "equal sums of other sizes", "many equal values", "zeros"],
)
def test_five_patients_keep_their_bounds_when_a_last_bit_moves(values, moved, options):
    interval, moved_interval = bootstrap_mean(values, **options), bootstrap_mean(moved, **options)
    assert moved_interval[1:3] == interval[1:3]
    assert interval.low < interval.mean < interval.high
    assert moved_interval.mean == pytest.approx(interval.mean, abs=1e-15)


@pytest.mark.parametrize("seed", range(4))
def test_the_draws_depend_on_the_seed_and_the_number_of_groups(seed):
    """Powers of 6 show how often each of 5 groups is drawn; the draws of other groups in that order are the same."""
    total = round(5 * bootstrap_mean(6.0 ** np.arange(5), n_resamples=1, seed=seed, few=1).low)
    counts = [total // 6**place % 6 for place in range(5)]
    assert sum(counts) == 5
    sums, sizes = np.array([0.5, 1.5, 2.25, 2.5, 6]), np.array([2, 4, 3, 5, 1])
    values, groups = np.repeat(sums / sizes, sizes), np.repeat([4, 0, 3, 1, 2], sizes)
    low = bootstrap_mean(values, groups=groups, n_resamples=1, seed=seed, few=1).low
    assert low == pytest.approx(counts @ sums / (counts @ sizes), abs=1e-9)


def test_scores_above_1_by_rounding_are_scores():
    assert compute_paired_difference([1 + 2**-52, 0.5], [1, 0.25]).difference == pytest.approx(0.125)
    assert bootstrap_mean([1 + 2**-52, 1, 1], bounds=SHARE).high == 1


@given(st.lists(st.floats(-1e6, 1e6), max_size=60), st.randoms())
def test_a_mean_is_that_of_exact_sums_in_every_order(values, random):
    mean = compute_mean(np.array(values))
    random.shuffle(values)
    assert str(compute_mean(np.array(values))) == str(mean)
    assert mean == pytest.approx(math.fsum(values) / len(values) if values else math.nan, rel=1e-15, nan_ok=True)
    rounded = quantise(np.array(values))
    assert np.array_equal(quantise(rounded), rounded)
    assert rounded == pytest.approx(np.array(values), rel=0, abs=1e-10 * max(map(abs, values), default=0))
    assert rounded.sum() == math.fsum(rounded)


def test_rounding_keeps_whole_numbers_and_what_is_undefined():
    assert quantise(np.array([0.0, -7.0, 1e5, math.nan])).tolist() == pytest.approx([0, -7, 1e5, math.nan], nan_ok=True)
    assert quantise(np.array([0.0, -0.0, math.nan])).tolist() == pytest.approx([0, 0, math.nan], nan_ok=True)
    assert quantise(np.array([1e-310, 0])).tolist() == pytest.approx([1e-310, 0], rel=1e-10, abs=0)
    assert quantise(np.array([1e308, -1e308])).tolist() == pytest.approx([1e308, -1e308])
