"""Effect of an image against blind controls: against scipy and statsmodels, known models, and undefined cases."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from medfaith.evaluate_metrics.confidence.proportion import compute_wilson_interval
from medfaith.evaluate_metrics.confidence.reliance import compute_exceeding_p, reliance, share, verdicts
from tests.support.tiers import choose_size

NAN = math.nan


def draw_patients(rng, n):
    return np.repeat(np.arange(n), rng.integers(1, 5, size=n))[:n]


def draw_right(rng, groups, share_right):
    """Draw zeros and ones that correlate within a patient; a share of `share_right` is 1."""
    z = rng.normal(size=len(groups))[groups] + rng.normal(size=len(groups))
    return (z < math.sqrt(2) * stats.norm.ppf(share_right)) * 1.0


@pytest.mark.parametrize(("n_hits", "n"), [(0, 40), (40, 40), (13, 40), (59, 60)])
def test_a_share_without_groups_is_statsmodels_wilson(n_hits, n):
    hits = np.repeat([1.0, 0.0, NAN], [n_hits, n - n_hits, 3])
    interval = share(hits)
    assert interval[1:3] == pytest.approx(proportion_confint(n_hits, n, method="wilson"), abs=1e-9)
    assert (interval.value, interval.n_hits, interval.n, interval.n_groups) == (n_hits / n, n_hits, n, n)
    assert str(share(hits, range(len(hits)))) == str(interval)  # singleton groups equal no groups


def test_rows_of_a_patient_that_agree_count_as_one():
    hits, groups = np.repeat(np.arange(40) % 4 == 0, 3), np.repeat(np.arange(40), 3)
    interval, unclustered = share(hits, groups), share(hits[::3])
    assert (interval.value, interval.n, interval.n_groups) == (0.25, 120, 40)
    assert interval[1:3] == pytest.approx(unclustered[1:3], abs=0.01)
    all_right = share(np.ones(120), groups)
    assert all_right.low == pytest.approx(
        compute_wilson_interval(1, 40)[0], abs=0.01
    )  # no spread to see: a patient is one row


def test_p_is_scipys_on_the_excess_of_each_patient_and_of_one_against():
    rng = np.random.default_rng(2)
    groups = draw_patients(rng, 150)
    after, before = draw_right(rng, groups, 0.75), draw_right(rng, groups, 0.55)
    sums, sizes = np.bincount(groups, weights=after - before), np.bincount(groups)
    excess = np.append(sums - 0.05 * sizes, -1.05 * sizes.mean())
    scipys = stats.permutation_test((excess,), np.sum, permutation_type="samples", vectorized=True, rng=1)
    ours = compute_exceeding_p(after, before, 0.05, groups=groups)
    assert 0.02 < ours < 0.8
    assert ours == pytest.approx(float(scipys.pvalue), abs=0.02)


def judge(image, controls, margin, groups=None, seed=42):
    return verdicts([reliance(image, controls, margin=margin, groups=groups, seed=seed)])[0].name


def test_one_side_has_half_of_the_p_value_of_two_where_few_groups_leave_it_to_the_interval():
    groups = np.repeat(np.arange(8), 10)
    after, before = np.tile([1.0] * 7 + [0.0] * 3, 8), np.tile([1.0] * 4 + [0.0] * 6, 8)
    after[:10], before[:10] = before[:10].copy(), after[:10].copy()
    two_sided, greater = (
        compute_exceeding_p(after, before, 0.02, groups=groups, alternative=side) for side in ("two-sided", "greater")
    )
    assert 0 < two_sided < 1
    assert greater == two_sided / 2
    reversed_p = compute_exceeding_p(before, after, 0.02, groups=groups, alternative="greater")
    assert reversed_p == 1


@pytest.mark.parametrize(("n_groups", "verdict"), [(2, "open"), (4, "open"), (5, "uses"), (29, "uses")])
def test_how_many_patients_who_all_agree_are_a_proof(n_groups, verdict):
    groups = np.repeat(np.arange(n_groups), 50)
    ones, zeros = np.ones(len(groups)), {"blank": np.zeros(len(groups))}
    assert reliance(ones, zeros, margin=0.02, groups=groups).found.difference == 1
    assert [judge(ones, zeros, 0.02, group_ids) for group_ids in (groups, None)] == [verdict, "uses"]


@pytest.mark.parametrize(("n_videos", "verdict"), [(4, "open"), (5, "uses")])
def test_four_videos_show_nothing_however_clear_their_rows_are(n_videos, verdict):
    """The interval is above the margin, since rows correlate no more within a video than across videos."""
    blind, groups = {"blank": np.tile([0.0, 0.0, 1.0], 20)}, np.repeat(np.arange(n_videos), 60 // n_videos)
    assert reliance(np.ones(60), blind, margin=0.02, groups=groups).found.low > 0.02
    assert judge(np.ones(60), blind, 0.02, groups) == verdict


@pytest.mark.parametrize(("n", "changed", "verdict"), [(80, 0, "no use"), (40, 0, "open"), (80, 1, "open")])
def test_where_no_row_differs_rows_count_singly(n, changed, verdict):
    """Five videos with unchanged rows: the interval is wide, although no difference occurs in 80 rows."""
    scores, groups = np.tile([0.0, 1.0, 0.5, 0.5], n // 4), np.arange(n) % 5
    controls = {"none": scores, "blank": np.where(np.arange(n) < changed, 1.0, scores)}
    result = reliance(scores, controls, margin=0.05, groups=groups)
    assert result.found.low < -0.05
    assert changed or result.p_equal == pytest.approx(0.95**n)
    assert judge(scores, controls, 0.05, groups) == verdict


def test_a_rare_great_loss_that_is_not_seen_is_allowed_for():
    """60 rows each gain 0.03 more than the margin; a total loss in 1 of 50 rows is unseen a third of the time."""
    assert judge(np.full(60, 0.88), {"blank": np.full(60, 0.8)}, 0.05) == "open"


def test_the_best_blind_control_decides():
    """The image has to score above every control; a weak control proves nothing."""
    rng = np.random.default_rng(1)
    groups = draw_patients(rng, 400)
    image, weak, strong = (draw_right(rng, groups, p) for p in (0.8, 0.3, 0.8))
    result = reliance(image, {"none": weak, "other": strong}, margin=0.05, groups=groups)
    weak_result = reliance(image, {"none": weak}, margin=0.05, groups=groups)
    assert (result.best, weak_result.best) == ("other", "none")
    assert [verdict.name for verdict in verdicts([result, weak_result])] == ["open", "uses"]
    assert judge(weak, {"none": image, "other": strong}, 0.05, groups) == "harmed"
    assert result.n_enough == math.ceil(result.found.n * (result.could_find / 0.05) ** 2) > result.found.n


def test_no_use_is_paid_for_by_every_control_and_says_how_many_rows_do():
    image = np.repeat([1.0, 0.0], 150)
    blind = np.where(np.random.default_rng(4).random(300) < 0.04, 1 - image, image)
    single, triple = (reliance(image, dict.fromkeys(names, blind), margin=0.05) for names in ("a", "abc"))
    assert triple.p_equal == pytest.approx(3 * single.p_equal)
    assert verdicts([single])[0].name == "no use"
    assert single.could_find < 0.05
    assert single.n_enough == math.ceil(300 * (single.could_find / (0.05 - abs(single.found.difference))) ** 2)


@pytest.mark.parametrize(
    ("p_above", "p_below", "p_equal", "names", "p_holm"),
    [
        ([0.01, 0.04], [1, 1], [1, 1], ["uses", "uses"], [0.02, 0.04]),
        ([0.03, 0.04], [1, 1], [1, 1], ["open", "open"], [0.06, 0.06]),
        ([0.01, NAN], [1, NAN], [1, NAN], ["uses", "undefined"], [0.01, NAN]),
        ([0.01, 1, 1], [1, 0.001, 1], [1, 1, 0.02], ["uses", "harmed", "open"], [0.03, 0.003, 0.06]),
        ([1, 1], [1, 1], [0.02, 0.3], ["no use", "open"], [0.04, 0.3]),
        ([], [], [], [], []),
    ],
)
def test_a_verdict_holds_over_all_benchmarks(p_above, p_below, p_equal, names, p_holm):
    result = reliance([1.0, 0.0], {"blank": [1.0, 0.0]}, margin=0.1)
    results = [
        result._replace(p_above=above, p_below=below, p_equal=equal)
        for above, below, equal in zip(p_above, p_below, p_equal, strict=True)
    ]
    verdict = verdicts(results)
    assert [result.name for result in verdict] == names
    assert [result.p_holm for result in verdict] == pytest.approx(p_holm, nan_ok=True)


def test_what_is_undefined_is_nan_and_rows_without_a_value_are_left_out():
    image, blind = [1.0, NAN, 0.0, 1.0], [0.0, 1.0, NAN, 1.0]
    result = reliance(image, {"blank": blind}, margin=0.05)
    assert (result.found.n, result.found.n_nan, result.found.difference) == (2, 2, 0.5)
    for scores, groups in (([NAN] * 4, None), (blind, ["a"] * 4)):
        undefined = reliance(image, {"blank": scores}, margin=0.05, groups=groups)
        assert np.isnan([undefined.p_above, undefined.p_below, undefined.p_equal, undefined.n_enough]).all()
        assert verdicts([undefined])[0].name == "undefined"
    assert judge(image, {"blank": blind, "other": [NAN] * 4}, 0.05) == "undefined"
    assert np.isnan([*share([NAN])[:3], share([1, 0], ["a", "a"]).low]).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: share([0.5]), "hits, row 1: 0.5; expected 1 or 0, or NaN"),
        (lambda: reliance([1.0], {}, margin=0.05), "blind: no control"),
        (lambda: reliance([1.0], {"blank": [1.0, 0.0]}, margin=0.05), "after has 1 numbers and before 2"),
        (lambda: reliance([7.0], {"blank": [1.0]}, margin=0.05), "image, row 1: 7; expected a number from 0 to 1"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def select_numbers(interval):
    return [value for value in interval if not isinstance(value, str)]


scores = st.lists(st.sampled_from([0.0, 1.0, 0.25, NAN]), min_size=24, max_size=24)


@settings(max_examples=choose_size(8, 25), deadline=None)
@given(scores, scores, st.permutations(range(24)), st.sampled_from([1, 3]))
def test_invariants(image, blind, order, size):
    groups = [i // size for i in range(24)]
    options = {"margin": 0.125, "groups": groups}
    result = reliance(image, {"blank": blind}, **options)
    shuffled = [[values[i] for i in order] for values in (image, blind, groups)]
    renamed = [f"patient {-group}" for group in shuffled[2]]
    shuffled_result = reliance(shuffled[0], {"blank": shuffled[1]}, margin=0.125, groups=renamed)
    assert select_numbers(shuffled_result.found) == pytest.approx(select_numbers(result.found), nan_ok=True)
    assert shuffled_result[2:] == pytest.approx(result[2:], rel=0.011, nan_ok=True)  # p_equal has a grid of 1%
    mirrored = reliance(blind, {"blank": image}, **options)
    assert (mirrored.p_above, mirrored.p_below) == pytest.approx((result.p_below, result.p_above), nan_ok=True)
    assert mirrored.found.difference == pytest.approx(-result.found.difference, nan_ok=True)
    assert verdicts([reliance(image, {"blank": blind, "same": image}, **options)])[0].name != "uses"
    assert reliance(image, {"same": image}, **options).found.difference == 0 or np.isnan(image).all()


@pytest.mark.parametrize(("accuracy", "fewest", "most"), [(0.5, 0, 1), (0.9, 8, 10)])
def test_a_model_that_guesses_anew_rarely_seems_to_see_and_one_that_sees_does(accuracy, fewest, most):
    """A small part of benchmarks/audit_coverage.py."""
    rng = np.random.default_rng(0)
    groups = draw_patients(rng, 120)
    names = []
    for seed in range(10):
        image, no_image, blank = (draw_right(rng, groups, p) for p in (accuracy, 0.5, 0.5))
        names.append(judge(image, {"none": no_image, "blank": blank}, 0.05, groups, seed))
    assert fewest <= names.count("uses") <= most
