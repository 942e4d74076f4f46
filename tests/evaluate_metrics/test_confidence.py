"""Bootstrap intervals and permutation tests: against scipy, against the published tables, and undefined cases."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from medfaith.evaluate_metrics.confidence.proportion import FEW, compute_student_quantile, compute_wilson_interval
from medfaith.evaluate_metrics.confidence.score import bootstrap_mean, permutation_test, score_values
from tests.support.evaluate_metrics.resampling_error import NOISE, RESAMPLES, make_ones
from tests.support.tiers import keep_quick

NAN = math.nan
SHARE = (0, 1)


def make_clustered(rng, n_groups):
    """Draw groups of 1 to 6 records whose values correlate within a group."""
    sizes = rng.integers(1, 7, size=n_groups)
    groups = np.repeat(np.arange(n_groups), sizes)
    return rng.normal(size=n_groups)[groups] + 0.3 * rng.normal(size=len(groups)), groups


@pytest.mark.parametrize(
    "values",
    [
        make_ones(74, 235),
        make_ones(3, 500),
        np.random.default_rng(1).normal(3, 2, size=400),
        np.random.default_rng(2).exponential(size=150),
        np.random.default_rng(3).integers(-1, 2, size=5000),
        np.random.default_rng(4).normal(size=3000),
    ],
    ids=["accuracy", "rare", "normal", "skewed", "deltas", "more than one cell of 2**10"],
)
def test_interval_agrees_with_scipy(values):
    ours = bootstrap_mean(values, n_resamples=RESAMPLES)
    batch = max(1, 1_000_000 // len(values))
    scipys = stats.bootstrap((values,), np.mean, n_resamples=RESAMPLES, method="percentile", batch=batch, rng=1)
    low, high = scipys.confidence_interval
    tolerance = NOISE * float(np.std(values)) / math.sqrt(len(values)) + 1 / len(values)
    assert ours.mean == pytest.approx(np.mean(values))
    assert (ours.low, ours.high) == (pytest.approx(low, abs=tolerance), pytest.approx(high, abs=tolerance))


@pytest.mark.parametrize("kind", ["continuous", "binary"])
def test_clustered_interval_agrees_with_scipy(kind):
    values, groups = make_clustered(np.random.default_rng(5), 300)
    values = (values > 0.2).astype(float) if kind == "binary" else values
    ours = bootstrap_mean(values, groups=groups, n_resamples=RESAMPLES)
    pairs = np.bincount(groups, weights=values), np.bincount(groups).astype(float)

    options = {"paired": True, "n_resamples": RESAMPLES, "method": "percentile"}
    scipys = stats.bootstrap(pairs, lambda sums, sizes, axis: sums.sum(axis) / sizes.sum(axis), **options, rng=1)
    low, high = scipys.confidence_interval
    tolerance = NOISE * float(scipys.standard_error)
    assert (ours.low, ours.high) == (pytest.approx(low, abs=tolerance), pytest.approx(high, abs=tolerance))
    unclustered = bootstrap_mean(values, n_resamples=RESAMPLES)
    assert ours.high - ours.low > 1.3 * (unclustered.high - unclustered.low)  # records of a group are not independent
    assert (ours.n, ours.n_groups, unclustered.n_groups) == (len(values), 300, len(values))


@pytest.mark.parametrize(("equal", "by_count"), [(32, True), (31, False)])
def test_counts_are_drawn_from_32_equal_values_on(equal, by_count):
    count = np.random.default_rng(42).multinomial(2 * equal, [0.5, 0.5])[1]
    low = bootstrap_mean(make_ones(equal, 2 * equal), n_resamples=1).low
    assert bool(low == count / (2 * equal)) is by_count


@pytest.mark.parametrize(("count", "n"), [(0, 40), (40, 40), (39, 40), (14, 400), (1, 2)])
@pytest.mark.parametrize("level", [0.95, 0.8])
def test_a_share_near_0_or_1_has_statsmodels_wilson(count, n, level):
    values, expected = make_ones(count, n), proportion_confint(count, n, alpha=1 - level, method="wilson")
    interval = bootstrap_mean(values, bounds=SHARE, confidence_level=level)
    assert interval[:3] == pytest.approx((count / n, *expected), abs=1e-9)
    assert interval[3:] == (n, 0, n)
    percentiles = bootstrap_mean(values, confidence_level=level)
    assert (percentiles.low == percentiles.high) is (count in (0, n)), "without bounds as published"


def test_groups_that_agree_count_as_one_row_each():
    values, groups = np.ones(120), np.repeat(np.arange(40), 3)
    all_right = bootstrap_mean(values, groups=groups, bounds=SHARE)
    assert all_right.low == pytest.approx(proportion_confint(40, 40, method="wilson")[0], abs=0.01)
    assert bootstrap_mean(1 - values, groups=groups, bounds=SHARE).high == pytest.approx(1 - all_right.low)
    values[:3] = 0
    assert bootstrap_mean(values, groups=groups, bounds=SHARE)[1:3] == pytest.approx(
        proportion_confint(39, 40, method="wilson"), abs=0.01
    )


def test_percentiles_begin_where_enough_groups_differ():
    """The interval hardly changes at the switch; the published tables use percentiles unless all groups agree."""
    for n_wrong in (1, FEW - 1, FEW):
        values = make_ones(500 - n_wrong, 500)
        percentiles, interval = bootstrap_mean(values), bootstrap_mean(values, bounds=SHARE)
        assert (interval == percentiles) is (n_wrong == FEW)
        assert bootstrap_mean(values, bounds=SHARE, few=1) == bootstrap_mean(values, few=1)
        assert interval[1:3] == pytest.approx(percentiles[1:3], abs=0.011)
    assert bootstrap_mean(np.ones(500), bounds=SHARE, few=1).low == pytest.approx(compute_wilson_interval(1, 500)[0])
    graded = np.linspace(0.2, 0.9, FEW)
    assert bootstrap_mean(graded, bounds=SHARE) == bootstrap_mean(graded), "Wilson's would be far too wide"


@pytest.mark.parametrize("commoner", [0, 1])
def test_few_graded_values_away_from_a_bound_have_wilsons_interval(commoner):
    """Percentiles cover the mean 87 times in 100 if 3 of 60 scores are not perfect."""
    rng, held = np.random.default_rng(5), 0
    for seed in range(300):
        values = np.where(rng.random(60) < 0.05, rng.random(60), 1.0)
        interval = bootstrap_mean(values if commoner else 1 - values, bounds=SHARE, seed=seed, n_resamples=300)
        held += interval.low <= abs(0.025 - commoner) <= interval.high
    assert held >= 0.89 * 300


def test_few_groups_of_graded_values_have_students_interval_within_the_bounds():
    """Far from the bounds it is Student's of the groups' means; groups that agree count as their values alone."""
    means = np.array([0.46, 0.48, 0.5, 0.52, 0.54])
    values, groups = np.repeat(means, 6) + np.tile([-0.01, 0.01], 15), np.repeat(np.arange(5), 6)
    students = stats.t.interval(0.95, 4, 0.5, stats.sem(means))
    assert bootstrap_mean(values, groups=groups, bounds=SHARE)[1:3] == pytest.approx(students, abs=0.002)
    ratings = bootstrap_mean(1 + 4 * values, groups=groups, bounds=(1, 5))
    assert ratings[1:3] == pytest.approx([1 + 4 * end for end in students], abs=0.008)
    assert bootstrap_mean(values, groups=groups, bounds=SHARE, few=1) == bootstrap_mean(values, groups=groups, few=1)
    alike = bootstrap_mean(np.tile([0.2, 0.8], 10), groups=np.repeat(np.arange(5), 4), bounds=SHARE)
    assert alike[1:3] == pytest.approx(stats.t.interval(0.95, 4, 0.5, 0.3 / math.sqrt(20)), abs=0.03)


def test_few_groups_of_unbounded_values_have_students_interval():
    """Entropies, gaps and drops of similarity; `few=1` keeps the percentiles of the papers."""
    means = np.array([-3.0, 1.0, 2.0, 7.5])
    values, groups = np.repeat(means, 5), np.repeat(np.arange(4), 5)
    students = stats.t.interval(0.95, 3, means.mean(), stats.sem(means))
    assert bootstrap_mean(values, groups=groups)[1:3] == pytest.approx(students)
    assert bootstrap_mean(values, groups=groups, few=1).low > students[0]
    assert bootstrap_mean(means, confidence_level=0.8)[1:3] == pytest.approx(
        stats.t.interval(0.8, 3, means.mean(), stats.sem(means))
    )


@pytest.mark.parametrize("bounds", [None, (-4, 4)])
@pytest.mark.parametrize("n_groups", [15, 30])
def test_percentiles_are_expanded_unless_published(n_groups, bounds):
    """Normal numbers: the expanded percentiles are Student's interval, the plain ones are narrower."""
    values = stats.norm.ppf((np.arange(n_groups) + 0.5) / n_groups)
    student = float(stats.t.ppf(0.975, n_groups - 1) * stats.sem(values))
    interval = bootstrap_mean(values, bounds=bounds, n_resamples=20_000)
    assert (interval.high - interval.low) / 2 == pytest.approx(student, rel=0.03)
    published = bootstrap_mean(values, bounds=bounds, n_resamples=20_000, few=1)
    assert (published.high - published.low) / 2 == pytest.approx(1.96 * values.std() / math.sqrt(n_groups), rel=0.03)


@pytest.mark.parametrize(("n_groups", "size"), [(3, 20), (5, 20)])
def test_the_interval_of_few_groups_of_graded_values_covers_the_truth(n_groups, size):
    """Percentiles cover the truth 75 and 89 times in 100."""
    rng, groups, held = np.random.default_rng(3), np.repeat(np.arange(n_groups), size), 0
    for _ in range(300):
        values = rng.binomial(2, rng.beta(6, 3, size=n_groups)[groups]) / 2  # as F1 of frames
        interval = bootstrap_mean(values, groups=groups, bounds=SHARE)
        held += interval.low <= 2 / 3 <= interval.high
    assert held >= 0.915 * 300  # 2.8 standard errors below 95%


@pytest.mark.parametrize("graded", [False, True])
def test_a_patient_with_most_rows_decides_little(graded):
    """One of 10 patients has 60% of the rows or more: residuals alone cover the truth 73 and 70 times in 100."""
    rng, held = np.random.default_rng(5), 0
    for _ in range(300):
        groups = np.repeat(np.arange(10), [30, *rng.geometric(0.5, size=9)])
        z = 0.7 * (rng.normal(size=10)[groups] + rng.normal(size=len(groups)))
        interval = bootstrap_mean(1 / (1 + np.exp(-2 * z)) if graded else z > 0, groups=groups, bounds=SHARE)
        held += interval.low <= 0.5 <= interval.high
    assert held >= 0.87 * 300


def test_values_that_are_all_equal_have_a_width_on_any_scale():
    for value in (0.0, 0.25, 1.0):
        interval, ratings = (
            bootstrap_mean([value] * 20, bounds=SHARE),
            bootstrap_mean([1 + 4 * value] * 20, bounds=(1, 5)),
        )
        assert ratings[:3] == pytest.approx([1 + 4 * end for end in interval[:3]])
        unseen = proportion_confint(0, 20, method="wilson")[1]  # a share of values at the other ends
        assert interval[1:3] == pytest.approx((value * (1 - unseen), value + (1 - value) * unseen))
    rounded = bootstrap_mean([1 + 1e-12] * 20, bounds=SHARE)
    assert rounded.low < 0.9 < rounded.high, "rounding is no value outside the bounds"


@pytest.mark.parametrize(("share", "n"), keep_quick([(0.97, 60), (0.99, 200)], lambda case: case == (0.97, 60)))
def test_the_interval_of_a_clustered_share_near_1_covers_the_truth(share, n):
    """A small part of benchmarks/share_coverage.py; percentiles alone cover the truth 76 and 85 times in 100."""
    rng, held = np.random.default_rng(3), 0
    for seed in range(200):
        groups = np.repeat(np.arange(n), rng.integers(1, 5, size=n))[:n]
        together = rng.normal(size=n)[groups] + rng.normal(size=n)
        right = (together < math.sqrt(2) * stats.norm.ppf(share)).astype(float)
        interval = bootstrap_mean(right, groups=groups, bounds=SHARE, seed=seed)
        held += interval.low <= share <= interval.high
    assert held >= 0.91 * 200  # 2.5 standard errors below 95%


def test_the_metric_has_bounds_for_its_predictions_alone():
    right = [1.0] * 30
    scores = score_values(right, baseline=right, bounds=SHARE)
    assert (scores["low"], scores["high"]) == (pytest.approx(compute_wilson_interval(1, 30)[0]), 1)
    assert (scores["difference_low"], scores["difference_high"]) == (0, 0)
    assert score_values(right)["low"] == 1


@pytest.mark.parametrize("degrees", [1, 2, 3, 7, 30, 199, 135_753])
def test_students_quantile_is_scipys(degrees):
    levels = [0.01, 0.5, 0.9, 0.95, 0.999]
    expected = [stats.t.ppf((1 + level) / 2, degrees) for level in levels]
    assert [compute_student_quantile(level, degrees) for level in levels] == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("n", [3, 5, 7, 41])
def test_a_resample_has_as_many_values_as_the_sample(n):
    """The size holds if a block of the draw has only one value or is empty: the mean of values around 1 is 1."""
    assert bootstrap_mean(1 + 1e-9 * np.arange(n))[1:3] == pytest.approx((1, 1))


# "greater" against the exact p: test_confidence_published.py.
@pytest.mark.parametrize("alternative", keep_quick(["two-sided", "greater", "less"], lambda name: name == "two-sided"))
@pytest.mark.parametrize("kind", ["binary", "continuous"])
@pytest.mark.parametrize(("permutation", "scipys_name"), [("paired", "samples"), ("independent", "independent")])
def test_p_value_agrees_with_scipy(permutation, scipys_name, kind, alternative):
    rng = np.random.default_rng(7)
    before = rng.normal(size=60)
    after = before + rng.normal(0.25, 1, size=60)
    if kind == "binary":
        before, after = (before > 0).astype(float), (after > 0).astype(float)
    ours = permutation_test(after, before, alternative=alternative, permutation=permutation)
    options = {"permutation_type": scipys_name, "n_resamples": 10_000, "alternative": alternative, "vectorized": True}
    scipys = stats.permutation_test((after, before), lambda a, b, axis: a.mean(axis) - b.mean(axis), **options, rng=1)
    assert ours.difference == pytest.approx(scipys.statistic)
    p = float(scipys.pvalue)
    # scipy doubles the smaller tail; the two-sided statistic here is the size of the difference.
    noise = (2 if alternative == "two-sided" else 1) * 4 * math.sqrt(2 * p * (1 - p) / 10_000) + 1e-3
    assert ours.p_value == pytest.approx(p, abs=noise)


def test_clustered_p_value_agrees_with_scipy_on_group_sums():
    rng = np.random.default_rng(8)
    before, groups = make_clustered(rng, 40)
    after = before + rng.normal(0.3, 1, size=40)[groups]
    ours = permutation_test(after, before, groups=groups)
    sums = np.bincount(groups, weights=after - before)
    scipys = stats.permutation_test((sums,), np.sum, permutation_type="samples", n_resamples=10_000, rng=1)
    assert ours.p_value == pytest.approx(float(scipys.pvalue), abs=0.02)
    assert ours.n_groups == 40


@pytest.mark.parametrize(
    ("after", "before", "options", "p_value"),
    [
        (np.ones(1000), np.zeros(1000), {"n_resamples": 99}, 1 / 100),  # never 0
        ([1.0, 0.0], [1.0, 0.0], {}, 1),
        # One sign pattern of sixteen is as extreme as all plus; its sum, in another order, rounds just below.
        ([0.3, 0.8, 0.7, 0.1], np.zeros(4), {"alternative": "greater"}, pytest.approx(1 / 16, abs=0.01)),
    ],
)
def test_p_values_by_hand(after, before, options, p_value):
    assert permutation_test(after, before, **options).p_value == p_value


def test_undefined_values_are_left_out_and_counted():
    values, groups = [1.0, NAN, 0.0, NAN, 1.0, 0.0], ["a", "a", "b", "c", "d", "d"]
    interval = bootstrap_mean(values, groups=groups)
    assert (interval.mean, interval.n, interval.n_nan, interval.n_groups) == (0.5, 4, 2, 3)
    assert interval[:3] == bootstrap_mean([1.0, 0.0, 1.0, 0.0], groups=["a", "b", "d", "d"])[:3]
    test = permutation_test(values, [NAN, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert (test.n, test.n_nan, test.difference) == (3, 3, pytest.approx(1 / 3))


@pytest.mark.parametrize(
    ("values", "groups", "mean"),
    [([], None, NAN), ([NAN], None, NAN), ([1.0], None, 1), ([1.0, 0.0, 1.0], ["s"] * 3, 2 / 3)],
)
def test_nothing_has_no_mean_and_one_unit_no_interval(values, groups, mean):
    assert bootstrap_mean(values, groups=groups)[:3] == pytest.approx((mean, NAN, NAN), nan_ok=True)
    test = permutation_test([NAN] * len(values), values)
    assert (test.n, *map(math.isnan, (test.difference, test.p_value))) == (0, True, True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bootstrap_mean([[1.0]]), r"values: shape \(1, 1\)"),
        (lambda: bootstrap_mean([0.0, math.inf]), "values, row 2: infinite"),
        (lambda: bootstrap_mean([1.0, 0.0], groups=["a"]), r"groups: shape \(1,\)"),
        (lambda: bootstrap_mean([1.0], n_resamples=0), "n_resamples 0: expected at least 1"),
        (lambda: bootstrap_mean([1.0], confidence_level=95), "confidence_level 95: expected a share"),
        (lambda: bootstrap_mean([1.0, NAN, 1.5], bounds=SHARE), "values, row 3: 1.5; expected a number from 0 to 1"),
        (lambda: bootstrap_mean([0.0, -1.0], bounds=SHARE), "values, row 2: -1; expected a number from 0 to 1"),
        (lambda: bootstrap_mean([1.0], bounds=(1, 0)), r"bounds \(1, 0\): expected the lowest and the highest"),
        (lambda: bootstrap_mean([1.0], bounds=(0, 1, 2)), r"bounds \(0, 1, 2\): expected the lowest"),
        (lambda: permutation_test([1.0], [1.0, 2.0]), "after has 1 numbers and before 2"),
        (lambda: permutation_test([1.0], [1.0], n_resamples=0), "n_resamples 0: expected at least 1"),
        (lambda: permutation_test([1.0], [1.0], alternative="both"), "alternative 'both'"),
        (lambda: permutation_test([1.0], [1.0], permutation="none"), "permutation 'none'"),
        (lambda: permutation_test([1.0], [1.0], groups=["a"], permutation="independent"), "groups"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


numbers = st.lists(st.sampled_from([0.0, 1.0, 0.25, -3.5, float("nan")]), min_size=1, max_size=40)


@given(numbers, st.integers(0, 5), st.data())
def test_interval_invariants(values, seed, data):
    groups = data.draw(st.lists(st.sampled_from("abcdef"), min_size=len(values), max_size=len(values)))
    options = {"n_resamples": 50, "seed": seed}
    interval = bootstrap_mean(values, groups=groups, **options)
    names = [f"study {group}" for group in groups]  # neither labels nor the order of the rows say anything
    backwards = bootstrap_mean(values[::-1], groups=names[::-1], **options)
    assert str(interval) == str(backwards)
    defined = [value for value in values if not math.isnan(value)]
    assert interval.n + interval.n_nan == len(values)
    if not math.isnan(interval.low):
        percentiles = bootstrap_mean(values, groups=groups, few=1, **options)
        assert min(defined) - 1e-9 <= percentiles.low <= percentiles.high <= max(defined) + 1e-9
    singletons = bootstrap_mean(values, groups=range(len(values)), **options)
    assert str(singletons) == str(bootstrap_mean(values, **options))  # singleton groups equal no groups
    wider = bootstrap_mean(values, groups=groups, confidence_level=0.99, **options)
    assert math.isnan(interval.low) or wider.low <= interval.low <= interval.high <= wider.high


shares = st.lists(st.sampled_from([0.0, 1.0, 1.0, 1.0, NAN]), min_size=1, max_size=40)


@given(shares, st.data())
def test_invariants_of_a_share(values, data):
    groups = data.draw(st.lists(st.sampled_from("abcdef"), min_size=len(values), max_size=len(values)))
    interval = bootstrap_mean(values, groups=groups, bounds=SHARE)
    order = data.draw(st.permutations(range(len(values))))
    shuffled = bootstrap_mean(
        [values[i] for i in order], groups=[f"patient {groups[i]}" for i in order], bounds=SHARE, few=FEW
    )
    assert shuffled == pytest.approx(interval, nan_ok=True)
    if interval.n_groups < 2:
        assert np.isnan([interval.low, interval.high]).all()
        return
    assert 0 <= interval.low <= interval.mean <= interval.high <= 1
    assert interval.low < interval.high, "never without a width"
    mirrored = bootstrap_mean([1 - value for value in values], groups=groups, bounds=SHARE)
    assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((interval.low, interval.high))
    wider = bootstrap_mean(values, groups=groups, bounds=SHARE, confidence_level=0.99)
    assert wider.low <= interval.low <= interval.high <= wider.high
