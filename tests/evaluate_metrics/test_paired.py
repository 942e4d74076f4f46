"""Two systems on the same examples: against scipy, statsmodels and published intervals, and undefined cases."""

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import ttost_paired

from medfaith.evaluate_metrics.confidence import paired
from medfaith.evaluate_metrics.confidence.proportion import compute_wilson_interval
from medfaith.evaluate_metrics.confidence.wilson_difference import (
    compute_few_differing_interval,
    compute_wilson_difference,
)
from tests.support.tiers import keep_quick

NAN = math.nan


def expand_table(both_right, only_after, only_before, neither):
    """Expand a two-by-two table to the scores after and before."""
    counts = [both_right, only_after, only_before, neither]
    return np.repeat([1.0, 1.0, 0.0, 0.0], counts), np.repeat([1.0, 0.0, 1.0, 0.0], counts)


def make_clustered(seed, n_groups, shift=0.0, size=4):
    """Draw zeros and ones of two systems that correlate within a group."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), rng.integers(1, size + 1, size=n_groups))
    group_effects, noise = 2 * rng.normal(size=(2, n_groups))[:, groups], rng.normal(size=(2, len(groups)))
    return *((group_effects[i] + noise[i] > i * shift).astype(float) for i in (0, 1)), groups


@pytest.mark.parametrize(("mean", "n"), [(0.5, 20), (0.0, 7), (1.0, 300), (0.9, 10), (0.31, 12.7)])
def test_wilson_agrees_with_statsmodels(mean, n):
    expected = [proportion_confint(mean * n, n, alpha=alpha, method="wilson") for alpha in (0.05, 0.1)]
    assert [compute_wilson_interval(mean, n, level) for level in (0.95, 0.9)] == [
        pytest.approx(bounds, abs=1e-9) for bounds in expected
    ]


@pytest.mark.parametrize(("table", "printed"), [((14, 5, 0, 22), (0.011, 0.226)), ((14, 0, 5, 22), (-0.226, -0.011))])
def test_newcombes_interval_is_the_published_one(table, printed):
    """Altman et al., Statistics with Confidence (2000), Table 6.2, and the same with the systems exchanged."""
    assert tuple(round(bound, 3) for bound in compute_wilson_difference(*expand_table(*table), None)) == printed


@pytest.mark.parametrize("n", [50, 90, 100, 150, 250])
def test_a_rare_loss_is_rarely_called_equal(n):
    """A system loses 2 points, and gains nothing: in at most 7% of samples two one-sided tests of 5% say otherwise."""
    before, n_lost = np.repeat([1.0, 0.0], [n // 2, n - n // 2]), np.arange(n // 2)
    after = [np.where(np.arange(n) < lost, 0.0, before) for lost in n_lost]
    is_equal = [paired.compute_paired_difference(values, before, confidence_level=0.9).low > -0.02 for values in after]
    assert stats.binom.pmf(n_lost, n, 0.02) @ is_equal < 0.07


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_pairs_that_agree_have_no_part_in_the_interval_of_rare_differences(level):
    """Without a difference both ends are Wilson's of 0 of n, whatever the share of right answers."""
    for n_right in (0, 50, 97):
        same = np.repeat([1.0, 0.0], [n_right, 97 - n_right])
        low, high = compute_few_differing_interval(same, same, None, level)
        assert -low == high == pytest.approx(proportion_confint(0, 97, 1 - level, "wilson")[1])


@pytest.mark.parametrize(
    ("p", "q", "n_groups", "size"),
    keep_quick([(0.9, 0.8, 12, 1), (0.8, 0.6, 10, 5), (0.95, 0.95, 20, 3)], lambda case: case[-1] == 5),
)
def test_the_interval_of_few_groups_covers_the_truth(p, q, n_groups, size):
    """With correlated answers within patients, the interval covers the truth about 95 times in 100."""
    rng, labels, hits = np.random.default_rng(7), np.repeat(np.arange(n_groups), size), 0
    for _ in range(300):
        shared = rng.normal(size=(n_groups, 1)) * 0.7
        after, before = (shared + rng.normal(size=(n_groups, size)) * math.sqrt(0.51) for _ in range(2))
        after, before = (after < stats.norm.ppf(p)).ravel() * 1.0, (before < stats.norm.ppf(q)).ravel() * 1.0
        low, high = compute_wilson_difference(after, before, labels)
        hits += low <= p - q <= high
    assert hits >= 0.92 * 300  # 2.5 standard errors below 95%


def test_the_clustered_bootstrap_agrees_with_scipy():
    after, before, groups = make_clustered(1, 300, shift=0.3)
    ours = paired.compute_paired_difference(after, before, groups=groups)
    sums = np.bincount(groups, weights=after - before), np.bincount(groups).astype(float)
    options = {"paired": True, "n_resamples": 2000, "method": "percentile"}
    scipys = stats.bootstrap(sums, lambda total, size, axis: total.sum(axis) / size.sum(axis), **options, rng=1)
    assert (ours.way, ours.n, ours.n_groups) == ("bootstrap", len(groups), 300)
    assert ours.difference == pytest.approx(ours.after - ours.before) == pytest.approx(np.mean(after - before))
    assert ours[3:5] == pytest.approx(scipys.confidence_interval, abs=0.3 * float(scipys.standard_error))
    unclustered = paired.compute_paired_difference(after, before)
    assert ours.high - ours.low > 1.3 * (unclustered.high - unclustered.low)  # records of a group are not independent


def test_wilson_and_bootstrap_meet_where_enough_groups_differ():
    """The method switches at FEW differing groups, and the interval hardly changes."""
    differences = [
        paired.compute_paired_difference(*expand_table(200, few, 10, 100)) for few in (paired.FEW - 11, paired.FEW - 10)
    ]
    assert [difference.way for difference in differences] == ["wilson", "bootstrap"]
    assert differences[0][3:5] == pytest.approx(differences[1][3:5], abs=0.012)


def test_where_nothing_differs_the_interval_has_a_width():
    for n in (5, 50):
        difference = paired.compute_paired_difference(np.ones(n), np.ones(n))
        assert difference.low == pytest.approx(-difference.high) == compute_wilson_interval(1, n)[0] - 1
    shared = paired.compute_paired_difference(np.full(25, 0.8), np.full(25, 0.1))  # [0.7, 0.7] would be certain
    assert shared.way == "wilson"
    assert shared.low < 0.65
    assert shared.high > 0.75
    many = paired.compute_paired_difference(np.ones(20), np.ones(20), groups=np.repeat(np.arange(5), 4))
    assert (
        many.high > paired.compute_paired_difference(np.ones(5), np.ones(5)).high * 0.99
    )  # five patients say no more than five rows


@pytest.mark.parametrize(
    "p_values", [[0.01, 0.04, 0.03, 0.005], [0.2, 0.2, 0.9], np.random.default_rng(0).random(40) ** 3]
)
def test_holm_agrees_with_statsmodels(p_values):
    expected = np.append(NAN, multipletests(p_values, method="holm")[1])
    assert paired.apply_holm([NAN, *p_values]) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("margin", [0.005, 0.02, 0.03, 0.05, 0.1])
def test_the_interval_decides_as_two_one_sided_tests_do(margin):
    """Skip cases near p = 0.05, since a resampled bound may fall on either side."""
    decided = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        before = rng.random(800) < 0.6
        after = np.where(rng.random(800) < 0.85, before, rng.random(800) < 0.6)
        p = ttost_paired(after * 1.0, before * 1.0, -margin, margin)[0]
        interval = paired.compute_paired_difference(after, before, confidence_level=paired.compute_equivalence_level())
        ours = paired.compute_equivalence_p(after, before, margin)
        assert ours == pytest.approx(p, rel=0.3, abs=0.015) or p > 0.5  # steps of 1 / 800, 2,000 resamples
        if not 0.035 < p < 0.07:
            decided += 1
            assert (-margin < interval.low and interval.high < margin) == (p < 0.05) == (ours < 0.05), (seed, p)
    assert decided >= 4


@pytest.mark.parametrize("n_groups", [16, 30, 400])
def test_percentiles_are_expanded_to_students_interval(n_groups):
    """Use normal numbers: their bootstrapped mean is normal with the variance of the sample."""
    values = np.random.default_rng(3).normal(0.5, 0.1, size=n_groups)
    level = paired.compute_expanded_level(0.95, n_groups)
    bootstrapped = stats.norm.interval(level, values.mean(), values.std() / math.sqrt(n_groups))
    students = stats.t.interval(0.95, n_groups - 1, values.mean(), stats.sem(values))
    assert bootstrapped == pytest.approx(students)
    difference = paired.compute_paired_difference(values, np.full(n_groups, 0.2))
    assert difference.way == "bootstrap"
    assert difference.high - difference.low == pytest.approx(students[1] - students[0], rel=0.12)


@pytest.mark.parametrize("n", [10, 200])
def test_the_equivalence_p_is_where_the_interval_just_fits(n):
    """Cover the Wilson interval (n = 10) and the bootstrap (n = 200)."""
    rng = np.random.default_rng(4)
    before = (rng.random(n) < 0.6) * 1.0
    after = np.where(rng.random(n) < 0.7, before, 1 - before)
    margin = float(abs(np.mean(after - before))) + 0.1
    p = paired.compute_equivalence_p(after, before, margin)
    for alpha, fits in ((1.001 * p, True), (p / 1.02, False)):
        difference = paired.compute_paired_difference(
            after, before, confidence_level=paired.compute_equivalence_level(alpha=alpha)
        )
        assert (-margin < difference.low and difference.high < margin) is fits
    assert paired.compute_equivalence_p(after, before, abs(np.mean(after - before)) / 2) == 1
    assert math.isnan(paired.compute_equivalence_p(after, before, margin, groups=np.zeros(n)))


def test_what_could_be_found_agrees_with_the_power_of_a_t_test():
    after, before = expand_table(500, 120, 100, 280)
    difference = paired.compute_paired_difference(after, before)
    effect = TTestPower().solve_power(effect_size=None, nobs=1000, alpha=0.05, power=0.8)
    expected = float(effect) * np.std(after - before)
    detectable = paired.compute_detectable_difference(difference.low, difference.high)
    assert detectable == pytest.approx(expected, rel=0.08)  # the interval's width is resampled
    needed = TTestPower().solve_power(effect_size=0.02 / np.std(after - before), nobs=None, alpha=0.05, power=0.8)
    assert paired.enough(1000, detectable, 0.02) == pytest.approx(float(np.squeeze(needed)), rel=0.16)


def test_undefined_values_are_left_out_and_counted():
    interval = paired.compute_paired_difference([1, NAN, 0, 1], [0, 1, NAN, 1], groups=["a", "a", "b", "c"])
    assert (interval.n, interval.n_nan, interval.n_groups, interval.n_differ, interval.difference) == (2, 2, 2, 1, 0.5)
    for values, groups in (([], None), ([NAN], None), ([1.0], None), ([1.0, 0.0], ["a", "a"])):
        assert math.isnan(paired.compute_paired_difference(values, values, groups=groups).low)
    assert np.isnan([paired.compute_paired_difference([], []).difference, paired.enough(0, NAN, 0.1)]).all()


@pytest.mark.parametrize(
    ("after", "before", "message"),
    [([2.0], [1.0], "after, row 1: 2; expected a number from 0 to 1"), ([1.0], [1.0, 0.0], "after has 1 numbers")],
)
def test_bad_input_is_named(after, before, message):
    with pytest.raises(ValueError, match=message):
        paired.compute_paired_difference(after, before)
