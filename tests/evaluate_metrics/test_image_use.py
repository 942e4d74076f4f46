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

NAN = math.nan
N = 100
ZOO = Path(__file__).parents[2] / "benchmarks" / "audit_zoo.py"


def answered(n_right, *, n=N, n_missing=0, changed=None, first=0):
    """n_right right answers from row `first` on; the last n_missing are asked and have no score."""
    scores = np.zeros(n)
    scores[first : first + n_right] = 1
    scores[n - n_missing :] = NAN
    return Condition(scores, np.ones(n, bool), None if changed is None else (np.arange(n) < changed) * 1.0)


def measured(own, other, blind, harmless=None, groups=None, margin=0.05):
    return measure_image_use(own, other, blind, harmless or {}, margin=margin, groups=groups)


def judged(*arguments, **options):
    return judge_image_use([measured(*arguments, **options)])[0]


SAME = {"none": answered(50), "blank": answered(50)}
NOT_ASKED = Condition(np.full(N, NAN), np.zeros(N, bool))
CASES = {
    "better than both": ((answered(80), answered(50), SAME), "uses", ""),
    "better than another image only": ((answered(50), answered(20), SAME), "open", ""),
    "better than blind only": ((answered(80), answered(80), SAME), "reacts", ""),
    "follows another image": (
        (answered(50), answered(50, changed=60), SAME, {"cropped": answered(50, changed=2)}), "reacts", ""),
    "follows as much after a harmless change": (
        (answered(50), answered(50, changed=60), SAME, {"cropped": answered(50, changed=58)}), "no use", ""),
    "the same": ((answered(50), answered(50), SAME), "no use", ""),
    "the same, blind declines 90 rows": (
        (answered(50), answered(50), {"none": answered(50, n_missing=90)}), "no use", ""),
    "better, blind declines all: (a) alone": (
        (answered(80), answered(50), {"none": answered(0, n_missing=N)}), "uses", ""),
    "worse than another image": ((answered(50), answered(80), SAME), "harmed", ""),
    "worse than blind": ((answered(20), answered(20), SAME), "harmed", ""),
    "worse than one blind condition": (
        (answered(50), answered(50), {"none": answered(80), "blank": answered(50)}), "open", ""),
    "recalled": ((answered(90), answered(10), SAME, {"cropped": answered(50)}), "recalls", ""),
    "recalled, blind declines all": (
        (answered(90), answered(20), {"none": answered(0, n_missing=N)}, {"cropped": answered(50)}), "recalls", ""),
    "a tenth lost": ((answered(90), answered(40), SAME, {"cropped": answered(86)}), "uses", ""),
    "most lost, too few rows": (
        (answered(59), answered(35), SAME, {"cropped": answered(51)}), "open", "cropped"),
    "a little better": ((answered(58), answered(50), SAME), "open", "other"),
    "half unanswered": ((answered(40, n_missing=50), answered(10), {"none": answered(10)}), "uses", ""),
    "more unanswered": ((answered(40, n_missing=51), answered(10), {"none": answered(10)}), "unanswered", ""),
    "no other image": ((answered(80), None, SAME), "undefined", ""),
    "no blind condition": ((answered(80), answered(50), {}), "undefined", ""),
    "blind condition not asked": (
        (answered(80), answered(50), {"none": NOT_ASKED}), "undefined", ""),
    "one blind condition not asked": ((answered(80), answered(50), {"none": NOT_ASKED, **SAME}), "uses", ""),
    "the last blind condition not asked": (
        (answered(50), answered(50), {**SAME, "noise": NOT_ASKED}), "no use", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case):
    arguments, name, failed = CASES[case]
    verdict = judged(*arguments)
    assert verdict.name == name
    if failed:
        assert verdict.failed == failed
    assert (verdict.failed == "") == (name != "open")


def test_one_group_shows_nothing():
    assert judged(answered(80), answered(50), SAME, groups=np.zeros(N)).name == "open"


@pytest.mark.parametrize(("n_patients", "name"), [(10, "no use"), (20, "open"), (50, "open"), (60, "no use")])
def test_equality_counts_patients_where_nothing_changes(n_patients, name):
    """0.95^60 < 5% < 0.95^50. Fewer than 15 groups are videos: their rows count."""
    groups = np.arange(240) % n_patients
    same = answered(120, n=240)
    assert judged(same, same, {"none": same}, groups=groups).name == name


@pytest.mark.parametrize(("n_missing", "is_hidden"), [(0, False), (5, False), (6, True), (100, True)])
def test_a_blind_condition_is_hidden_if_more_than_the_margin_is_declined(n_missing, is_hidden):
    blind = measured(answered(80), answered(50), {"none": answered(50, n_missing=n_missing)}).blind["none"]
    assert (blind.n_unanswered, blind.n, blind.is_hidden) == (n_missing, N, is_hidden)


def test_declined_blind_rows_have_the_score_that_hurts_the_claim():
    """Counted by hand: own 50 right; blind 40 right, 4 declined. They may be right (44) or wrong (40)."""
    own, blind = answered(50), answered(40, n_missing=4)
    found = measured(own, answered(50), {"none": blind}).blind["none"].comparison
    high, low = (np.where(np.isnan(blind.scores), bound, blind.scores) for bound in (1.0, 0.0))
    how = {"margin": 0.05, "threshold": 0.0}
    assert found.p_above == compare_conditions(own.scores, high, **how).p_above
    assert found.p_below == compare_conditions(own.scores, low, **how).p_below
    assert found.p_equal == max(compare_conditions(own.scores, bound, **how).p_equal for bound in (low, high))
    assert found.difference.n == 96


def test_only_rows_that_are_answered_with_the_image_count():
    found = measured(answered(40, n_missing=20), answered(20), {"none": answered(20, n_missing=30)})
    assert (found.blind["none"].n, found.blind["none"].n_unanswered) == (80, 10)
    assert found.share_unanswered == 0.2


@pytest.mark.parametrize(("n_right", "n"), [(58, 100), (270, 500)])
def test_the_rows_that_would_do_are_enough(n_right, n):
    """The same shares in as many rows as `n_enough` settle it."""
    verdict = judged(answered(n_right, n=n), answered(n // 2, n=n), {"none": answered(n // 2, n=n)})
    assert verdict.name == "open"
    assert verdict.n_enough > n
    share, enough = n_right / n, int(1.5 * verdict.n_enough)
    more = [answered(round(of * enough), n=enough) for of in (share, 0.5)]
    assert judged(more[0], more[1], {"none": more[1]}).name != "open"


def test_p_of_no_effect_is_scipys():
    rng = np.random.default_rng(3)
    groups = np.sort(rng.integers(60, size=120))
    own, other = rng.random(120) * 0.9 + 0.1, rng.random(120)
    sums = np.bincount(groups, weights=own - other)
    scipys = stats.permutation_test(
        (sums[np.unique(groups)],), np.sum, permutation_type="samples", alternative="greater", vectorized=True, rng=1
    )
    full = np.ones(120, bool)
    found = measured(Condition(own, full), Condition(other, full), {"none": Condition(other, full)}, groups=groups)
    assert 0.001 < found.p_no_effect < 0.9
    assert found.p_no_effect == pytest.approx(float(scipys.pvalue), abs=0.02)


def test_findings_are_adjusted_as_statsmodels_does():
    found = [measured(answered(right), answered(50), SAME) for right in (62, 66, 68, 70, 90)]
    same = answered(50, n=200)
    found.append(measured(same, same, {"none": same}))
    verdicts = judge_findings(found)
    all_uses, all_no_use = (
        multipletests([p_value(of) for of in found], method="fdr_by")[1]
        for p_value in (compute_uses_p, compute_no_use_p)
    )
    for verdict, p_uses, p_no_use in zip(verdicts, all_uses, all_no_use, strict=True):
        assert verdict.p_holm == pytest.approx(min(p_uses, p_no_use))
        assert verdict.name == ("uses" if p_uses < 0.05 else "no use" if p_no_use < 0.05 else "open")
    assert {of.name for of in verdicts} == {"uses", "no use", "open"}
    assert judge_findings([measured(answered(80), None, SAME)])[0].name == "undefined"
    assert judge_findings([measured(answered(4, n_missing=90), answered(5), SAME)])[0].name == "unanswered"


def test_a_family_is_corrected():
    weak = measured(answered(65), answered(50), SAME)
    assert judge_image_use([weak])[0].name == "uses"
    assert [of.name for of in judge_image_use([weak] * 40)] == ["open"] * 40


scores = st.lists(st.tuples(*[st.sampled_from([0.0, 1.0, 0.5, NAN])] * 3), min_size=12, max_size=40)


@settings(max_examples=25, deadline=None)
@given(scores, st.randoms(use_true_random=False))
def test_order_and_names_of_rows_do_not_matter(values, random):
    columns, full = np.array(values).T, np.ones(len(values), bool)
    groups = np.arange(len(values)) // 2
    order = list(range(len(values)))
    random.shuffle(order)
    own, other, none = (Condition(column, full) for column in columns)
    first = measured(own, other, {"none": none}, groups=groups)
    own, other, none = (Condition(column[order], full) for column in columns)
    second = measured(own, other, {"none": none}, groups=[f"p{label}" for label in groups[order]])
    assert first.other is not None
    assert second.other is not None
    assert first.other.difference.difference == pytest.approx(second.other.difference.difference, nan_ok=True)
    for name in ("p_above", "p_below", "p_equal"):  # other random numbers, so not the very same
        assert getattr(first.other, name) == pytest.approx(getattr(second.other, name), abs=0.06, nan_ok=True)


@settings(max_examples=25, deadline=None)
@given(scores)
def test_own_and_other_exchanged_mirror_each_other(values):
    own, other, _ = np.array(values).T
    how = {"margin": 0.05, "threshold": 0.05}
    one, mirrored = compare_conditions(own, other, **how), compare_conditions(other, own, **how)
    assert one.p_above == pytest.approx(mirrored.p_below, nan_ok=True)
    assert one.p_equal == pytest.approx(mirrored.p_equal, nan_ok=True)


@settings(max_examples=25, deadline=None)
@given(st.integers(20, 100), st.integers(0, 5), st.integers(0, 5))
def test_a_declined_blind_row_never_makes_use_more_certain(n_right, n_declined, more):
    """As long as the condition stays one that can settle it, whatever the rows are that it declines."""
    own, other = answered(n_right), answered(20)
    p_values = []
    for n_missing in (n_declined, min(5, n_declined + more)):
        found = measured(own, other, {"none": answered(20, n_missing=n_missing)})
        p_values.append(found.blind["none"].comparison.p_above)
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
        for repetition in range(20 if name == "memorised 30%" else 6)
    ]
    fewest, most = WANTED[name]
    assert names.count("uses") <= most
    assert names.count("uses") >= min(fewest, len(names))
    assert not (fewest and "no use" in names)
