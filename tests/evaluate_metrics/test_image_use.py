"""Rule 2 of an audit: every verdict and its boundary, scipy and statsmodels, invariants, and models of known truth."""

import math
import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from medfaith.evaluate_metrics.confidence.image_use import Condition, compare_conditions, measure_image_use
from medfaith.evaluate_metrics.confidence.image_verdict import (
    compute_no_use_p,
    compute_uses_p,
    judge_findings,
    judge_image_use,
)
from tests.support.tiers import choose_size

NAN = math.nan
N = 100
ZOO = Path(__file__).parents[2] / "benchmarks" / "audit_zoo.py"


def make_condition(n_right, *, n=N, n_missing=0, changed=None, start=0):
    """Make a condition with `n_right` right answers from row `start` on; the last `n_missing` answers have no score."""
    scores = np.zeros(n)
    scores[start : start + n_right] = 1
    scores[n - n_missing :] = NAN
    return Condition(scores, np.ones(n, bool), None if changed is None else (np.arange(n) < changed) * 1.0)


def measure(with_image, with_donor, blind, harmless=None, groups=None, margin=0.05, donors=None):
    return measure_image_use(with_image, with_donor, blind, harmless or {}, margin=margin, groups=groups, donors=donors)


def judge(*arguments, **options):
    return judge_image_use([measure(*arguments, **options)])[0]


SAME = {"none": make_condition(50), "blank": make_condition(50)}
NOT_ASKED = Condition(np.full(N, NAN), np.zeros(N, bool))
CASES = {
    "better than both": ((make_condition(80), make_condition(50), SAME), "uses", ""),
    "better than another image only": ((make_condition(50), make_condition(20), SAME), "open", ""),
    "better than blind only": ((make_condition(80), make_condition(80), SAME), "reacts", ""),
    "follows another image": (
        (make_condition(50), make_condition(50, changed=60), SAME, {"cropped": make_condition(50, changed=2)}),
        "reacts", ""),
    "follows as much after a harmless change": (
        (make_condition(50), make_condition(50, changed=60), SAME, {"cropped": make_condition(50, changed=58)}),
        "no use", ""),
    "the same": ((make_condition(50), make_condition(50), SAME), "no use", ""),
    "the same, blind declines 90 rows": (
        (make_condition(50), make_condition(50), {"none": make_condition(50, n_missing=90)}), "no use", ""),
    "better, blind declines all: (a) alone": (
        (make_condition(80), make_condition(50), {"none": make_condition(0, n_missing=N)}), "uses", ""),
    "worse than another image": ((make_condition(50), make_condition(80), SAME), "harmed", ""),
    "worse than blind": ((make_condition(20), make_condition(20), SAME), "harmed", ""),
    "worse than one blind condition": (
        (make_condition(50), make_condition(50), {"none": make_condition(80), "blank": make_condition(50)}),
        "open", ""),
    "recalled": ((make_condition(90), make_condition(10), SAME, {"cropped": make_condition(50)}), "recalls", ""),
    "recalled, blind declines all": (
        (make_condition(90), make_condition(20), {"none": make_condition(0, n_missing=N)},
         {"cropped": make_condition(50)}), "recalls", ""),
    "easy questions, all of the gain lost, blind declines all": (
        (make_condition(94), make_condition(34), {"none": make_condition(0, n_missing=N)},
         {"cropped": make_condition(85)}), "open", "cropped"),
    "easy questions, a fifth of the gain lost, blind declines all": (
        (make_condition(94), make_condition(34), {"none": make_condition(0, n_missing=N)},
         {"cropped": make_condition(92)}), "uses", ""),
    "a tenth lost": ((make_condition(90), make_condition(40), SAME, {"cropped": make_condition(86)}), "uses", ""),
    "most lost, too few rows": (
        (make_condition(59), make_condition(35), SAME, {"cropped": make_condition(51)}), "open", "cropped"),
    "declines after a harmless change": (
        (make_condition(N), make_condition(0), SAME, {"cropped": make_condition(0, n_missing=N)}), "recalls", ""),
    "declines other rows after a harmless change": (
        (make_condition(90, n_missing=10), make_condition(0), SAME,
         {"cropped": Condition(np.repeat([NAN, 1.0], [10, 90]), np.ones(N, bool))}), "uses", ""),
    "better than another image, worse than the blind answers that are given": (
        (make_condition(50), make_condition(30), {"none": make_condition(94, n_missing=6)}), "harmed", ""),
    "the same, and better than another blind condition": (
        (make_condition(50), make_condition(20),
         {"none": make_condition(94, n_missing=6), "blank": make_condition(20)}), "open", "none"),
    "worse than the few blind answers that are given": (
        (make_condition(10, start=10), make_condition(10, start=10), {"none": make_condition(20, n_missing=80)}),
        "no use", ""),
    "a little better": ((make_condition(58), make_condition(50), SAME), "open", "other"),
    "half unanswered": ((make_condition(40, n_missing=50), make_condition(10), {"none": make_condition(10)}),
        "uses", ""),
    "more unanswered": ((make_condition(40, n_missing=51), make_condition(10), {"none": make_condition(10)}),
        "unanswered", ""),
    "no other image": ((make_condition(80), None, SAME), "undefined", ""),
    "no blind condition": ((make_condition(80), make_condition(50), {}), "undefined", ""),
    "blind condition not asked": (
        (make_condition(80), make_condition(50), {"none": NOT_ASKED}), "undefined", ""),
    "one blind condition not asked": ((make_condition(80), make_condition(50), {"none": NOT_ASKED, **SAME}),
        "uses", ""),
    "the last blind condition not asked": (
        (make_condition(50), make_condition(50), {**SAME, "noise": NOT_ASKED}), "no use", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case):
    arguments, name, failed = CASES[case]
    verdict = judge(*arguments)
    assert verdict.name == name
    if failed:
        assert verdict.failed == failed
    assert (verdict.failed == "") == (name != "open")


def test_one_group_shows_nothing():
    assert judge(make_condition(80), make_condition(50), SAME, groups=np.zeros(N)).name == "open"


@pytest.mark.parametrize(("n_patients", "name"), [(2, "open"), (4, "open"), (5, "harmed")])
def test_fewer_than_five_patients_show_no_harm(n_patients, name):
    groups = np.repeat(np.arange(n_patients), 400)
    full, quarter = np.ones(len(groups), bool), np.arange(len(groups)) % 4
    own, other = (Condition((quarter < n) * 1.0, full) for n in (1, 3))
    assert compare_conditions(own.scores, other.scores, margin=0.05, threshold=0, groups=groups).difference.high < -0.05
    assert judge(own, other, {"none": own}, groups=groups).name == name


@pytest.mark.parametrize(("n_donors", "name"), [(None, "uses"), (100, "uses"), (10, "open"), (1, "open")])
def test_few_other_images_are_few_observations(n_donors, name):
    """Each of ten images has one answer, because its brightness decides: seven answers happen to be wrong."""
    rows = np.arange(N)
    own, other = (Condition(scores * 1.0, np.ones(N, bool)) for scores in (rows % 2, rows % 10 > 6))
    donors = None if n_donors is None else rows % n_donors
    blind = {"none": Condition((rows % 10 > 6) * 1.0, np.ones(N, bool))}
    assert judge(own, other, blind, donors=donors).name == name


@pytest.mark.parametrize(("n_donors", "is_over_donors"), [(1, True), (4, True), (5, False)])
def test_too_few_other_images_are_named_even_if_they_agree(n_donors, is_over_donors):
    """With each of the other images the loss is alike, so that the interval over them is the narrower one."""
    rows = np.arange(N)
    patients, donors = rows // (N // 5), rows % n_donors
    full = np.ones(N, bool)
    other = Condition(patients % 2 * 1.0, full)
    against_other = measure(make_condition(N), other, SAME, groups=patients, donors=donors).other
    assert against_other is not None
    assert against_other.is_over_donors == is_over_donors


@pytest.mark.parametrize("n_donors", [1, 5, 60])
def test_other_images_that_change_no_answer_need_not_be_many(n_donors):
    same = make_condition(50)
    assert judge(same, same, SAME, donors=np.arange(N) % n_donors).name == "no use"


@pytest.mark.parametrize("n_donors", [6, 20, 60])
def test_a_model_that_reads_is_seen_with_few_other_images(n_donors):
    assert judge(make_condition(95), make_condition(10), SAME, donors=np.arange(N) % n_donors).name == "uses"


def test_a_blind_condition_that_can_settle_is_the_best_one():
    blind = {"none": make_condition(58, n_missing=10), "blank": make_condition(50)}
    image_use = measure(make_condition(50), make_condition(50), blind)
    assert (image_use.blind["none"].is_hidden, image_use.best) == (True, "blank")


def test_more_rows_do_not_help_where_the_image_is_worse_than_a_blind_condition():
    verdict = judge(make_condition(50), make_condition(20), {"none": make_condition(80), "blank": make_condition(20)})
    assert (verdict.name, verdict.failed) == ("open", "none")
    assert math.isnan(verdict.n_enough)


@pytest.mark.parametrize(("n_patients", "name"), [(10, "no use"), (20, "open"), (50, "open"), (60, "no use")])
def test_equality_counts_patients_where_nothing_changes(n_patients, name):
    """0.95^60 < 5% < 0.95^50. Fewer than 15 groups are videos: their rows count."""
    groups = np.arange(240) % n_patients
    same = make_condition(120, n=240)
    assert judge(same, same, {"none": same}, groups=groups).name == name


@pytest.mark.parametrize(("n_missing", "is_hidden"), [(0, False), (5, False), (6, True), (100, True)])
def test_a_blind_condition_is_hidden_if_more_than_the_margin_is_declined(n_missing, is_hidden):
    blind = measure(make_condition(80), make_condition(50), {"none": make_condition(50, n_missing=n_missing)}).blind[
        "none"
    ]
    assert (blind.n_unanswered, blind.n, blind.is_hidden) == (n_missing, N, is_hidden)


def test_declined_blind_rows_have_the_score_that_hurts_the_claim():
    """Count by hand: 50 right with the image; blind 40 right and 4 declined, so 40 to 44 right."""
    with_image, blind = make_condition(50), make_condition(40, n_missing=4)
    comparison = measure(with_image, make_condition(50), {"none": blind}).blind["none"].comparison
    high, low = (np.where(np.isnan(blind.scores), bound, blind.scores) for bound in (1.0, 0.0))
    options = {"margin": 0.05, "threshold": 0.0}
    assert comparison.p_above == compare_conditions(with_image.scores, high, **options).p_above
    assert comparison.p_below == compare_conditions(with_image.scores, low, **options).p_below
    assert comparison.p_equal == max(
        compare_conditions(with_image.scores, bound, **options).p_equal for bound in (low, high)
    )
    assert comparison.difference.n == 96


def test_only_rows_that_are_answered_with_the_image_count():
    image_use = measure(
        make_condition(40, n_missing=20), make_condition(20), {"none": make_condition(20, n_missing=30)}
    )
    assert (image_use.blind["none"].n, image_use.blind["none"].n_unanswered) == (80, 10)
    assert image_use.share_unanswered == 0.2


@pytest.mark.parametrize(("n_right", "n"), [(58, 100), (270, 500)])
def test_the_rows_that_would_do_are_enough(n_right, n):
    """The same shares in `n_enough` rows settle the verdict."""
    verdict = judge(make_condition(n_right, n=n), make_condition(n // 2, n=n), {"none": make_condition(n // 2, n=n)})
    assert verdict.name == "open"
    assert verdict.n_enough > n
    share, enough = n_right / n, int(1.5 * verdict.n_enough)
    more = [make_condition(round(accuracy * enough), n=enough) for accuracy in (share, 0.5)]
    assert judge(more[0], more[1], {"none": more[1]}).name != "open"


@pytest.mark.parametrize("noise", [0.05, 0.1])
def test_the_rows_that_would_do_settle_equality_four_times_in_five(noise):
    """Answers change at random, as often for the better as for the worse."""

    def compare(n, seed):
        rng = np.random.default_rng([seed, n])
        own, other = ((rng.random(n) < noise) * 1.0 for _ in range(2))
        return compare_conditions(own, other, margin=0.05, threshold=0.05)

    first = [compare(80, seed) for seed in range(choose_size(20, 100))]
    n_enough = int(np.median([comparison.n_enough for comparison in first if comparison.p_equal >= 0.05]))
    settled = [compare(n_enough, seed).p_equal < 0.05 for seed in range(choose_size(60, 300))]
    assert np.mean(settled) >= 0.75


def test_p_of_no_effect_is_scipys():
    rng = np.random.default_rng(3)
    groups = np.sort(rng.integers(60, size=120))
    with_image, with_donor = rng.random(120) * 0.9 + 0.1, rng.random(120)
    sums = np.bincount(groups, weights=with_image - with_donor)
    scipys = stats.permutation_test(
        (sums[np.unique(groups)],), np.sum, permutation_type="samples", alternative="greater", vectorized=True, rng=1
    )
    full = np.ones(120, bool)
    image_use = measure(
        Condition(with_image, full), Condition(with_donor, full), {"none": Condition(with_donor, full)}, groups=groups
    )
    assert 0.001 < image_use.p_no_effect < 0.9
    assert image_use.p_no_effect == pytest.approx(float(scipys.pvalue), abs=0.02)


def test_findings_are_adjusted_as_statsmodels_does():
    image_uses = [measure(make_condition(right), make_condition(50), SAME) for right in (62, 66, 68, 70, 90)]
    same = make_condition(50, n=200)
    image_uses.append(measure(same, same, {"none": same}))
    verdicts = judge_findings(image_uses)
    all_uses, all_no_use = (
        multipletests([p_value(finding) for finding in image_uses], method="fdr_by")[1]
        for p_value in (compute_uses_p, compute_no_use_p)
    )
    for verdict, p_uses, p_no_use in zip(verdicts, all_uses, all_no_use, strict=True):
        assert verdict.p_holm == pytest.approx(min(p_uses, p_no_use))
        assert verdict.name == ("uses" if p_uses < 0.05 else "no use" if p_no_use < 0.05 else "open")
    assert {finding.name for finding in verdicts} == {"uses", "no use", "open"}
    assert judge_findings([measure(make_condition(80), None, SAME)])[0].name == "undefined"
    assert judge_findings([measure(make_condition(4, n_missing=90), make_condition(5), SAME)])[0].name == "unanswered"


def test_a_family_is_corrected():
    weak = measure(make_condition(65), make_condition(50), SAME)
    assert judge_image_use([weak])[0].name == "uses"
    assert [verdict.name for verdict in judge_image_use([weak] * 40)] == ["open"] * 40


scores = st.lists(st.tuples(*[st.sampled_from([0.0, 1.0, 0.5, NAN])] * 3), min_size=12, max_size=40)


@settings(max_examples=choose_size(8, 25), deadline=None)
@given(scores, st.randoms(use_true_random=False))
def test_order_and_names_of_rows_do_not_matter(values, random):
    columns, full = np.array(values).T, np.ones(len(values), bool)
    groups = np.arange(len(values)) // 2
    order = list(range(len(values)))
    random.shuffle(order)
    with_image, with_donor, blind = (Condition(column, full) for column in columns)
    image_use = measure(with_image, with_donor, {"none": blind}, groups=groups)
    with_image, with_donor, blind = (Condition(column[order], full) for column in columns)
    shuffled_use = measure(with_image, with_donor, {"none": blind}, groups=[f"p{label}" for label in groups[order]])
    assert image_use.other is not None
    assert shuffled_use.other is not None
    assert image_use.other.difference.difference == pytest.approx(shuffled_use.other.difference.difference, nan_ok=True)
    for name in ("p_above", "p_below", "p_equal"):  # other random numbers, so not the very same
        assert getattr(image_use.other, name) == pytest.approx(getattr(shuffled_use.other, name), abs=0.06, nan_ok=True)


@settings(max_examples=choose_size(8, 25), deadline=None)
@given(scores)
def test_own_and_other_exchanged_mirror_each_other(values):
    with_image, with_donor, _ = np.array(values).T
    options = {"margin": 0.05, "threshold": 0.05}
    comparison, mirrored = (
        compare_conditions(with_image, with_donor, **options),
        compare_conditions(with_donor, with_image, **options),
    )
    assert comparison.p_above == pytest.approx(mirrored.p_below, nan_ok=True)
    assert comparison.p_equal == pytest.approx(mirrored.p_equal, nan_ok=True)


@settings(max_examples=choose_size(8, 25), deadline=None)
@given(st.integers(20, 100), st.integers(0, 5), st.integers(0, 5))
def test_a_declined_blind_row_never_makes_use_more_certain(n_right, n_declined, more):
    """The invariant holds for any declined rows while the condition can still settle the verdict."""
    with_image, with_donor = make_condition(n_right), make_condition(20)
    p_values = []
    for n_missing in (n_declined, min(5, n_declined + more)):
        image_use = measure(with_image, with_donor, {"none": make_condition(20, n_missing=n_missing)})
        p_values.append(image_use.blind["none"].comparison.p_above)
    assert p_values[0] <= p_values[1] + 0.01


WANTED = {  # of 6 audits of 300 rows, or 20: fewest and most "uses"
    "declines 98% of blind rows": (0, 0), "declines 25% of blind rows": (0, 0), "shifts its prior when blank": (0, 0),
    "memorised": (0, 0), "memorised 30%": (0, 0), "memorised, declines blind rows": (0, 0),
    "reads the wrong side": (0, 1), "looks": (6, 6), "reads, declines blind rows": (6, 6),
}  # fmt: skip


@pytest.mark.parametrize("name", WANTED)
def test_a_small_part_of_the_zoo(name):
    judge_once = runpy.run_path(str(ZOO))["judge_once"]
    names = [
        judge_once(name, 300, repetition, ("rule_2",)).rule_2
        for repetition in range(choose_size(3, 20) if name == "memorised 30%" else choose_size(1, 6))
    ]
    fewest, most = WANTED[name]
    assert names.count("uses") <= most
    assert names.count("uses") >= min(fewest, len(names))
    assert not (fewest and "no use" in names)
