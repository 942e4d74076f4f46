"""Rule 2 of an audit for the place: every verdict and its boundary, the floor, the dose, and models of known truth."""

import math
import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from medfaith.evaluate_metrics.confidence.place import (
    Edited,
    is_contradictory,
    judge_place,
    measure_place_effect,
)
from tests.support.tiers import choose_size

NAN = math.nan
N = 200  # the first half is present
PRESENT = np.arange(N) < N // 2
MARGIN = 0.05
ZOO = Path(__file__).parents[2] / "benchmarks" / "audit_zoo.py"


def make_edited(lost, gained=0, *, lost_elsewhere=0):
    """Make outcomes: present rows right and absent rows wrong, except `lost` and `gained` of 100 at the place."""
    at, elsewhere = PRESENT * 1.0, PRESENT * 1.0
    at[:lost], at[N // 2 : N // 2 + gained] = 0, 1
    elsewhere[N // 2 - lost_elsewhere : N // 2] = 0
    return Edited(at, elsewhere, (at != elsewhere) * 1.0)


def measure_effect(lost, gained=0, is_present=PRESENT, groups=None, **options):
    outcomes = make_edited(lost, gained, **options)
    return measure_place_effect({100: outcomes}, is_present, margin=MARGIN, groups=groups)


DEPENDS, SAME, ELSEWHERE = measure_effect(60), measure_effect(0), measure_effect(0, lost_elsewhere=60)
CASES = {
    "two kinds agree": ((DEPENDS, DEPENDS), "depends"),
    "the third kind contradicts": ((DEPENDS, DEPENDS, SAME), "open"),
    "two of three agree, the third says little": ((DEPENDS, DEPENDS, measure_effect(8)), "depends"),
    "one kind alone": ((DEPENDS,), "open"),
    "one kind of three": ((DEPENDS, measure_effect(8), measure_effect(8)), "open"),
    "the same": ((SAME, SAME), "no dependence"),
    "another place": ((ELSEWHERE, ELSEWHERE), "elsewhere"),
    "traces only": ((measure_effect(60, 60), measure_effect(60, 60)), "open"),  # net 0, but noisy
    "more than traces": ((measure_effect(90, 20), measure_effect(90, 20)), "depends"),
    "kinds contradict": ((DEPENDS, ELSEWHERE), "open"),
    "none was asked": ((), "undefined"),
}


@pytest.mark.parametrize(("n_absent", "n_patients"), [(50, 50), (20, 30), (30, 100)])
def test_the_rows_that_would_do_where_no_edit_changes_an_answer(n_absent, n_patients):
    """Each patient has two rows; the present or the absent rows, whichever have fewer patients, decide."""

    def judge_unchanged(factor):
        is_present = np.repeat([True, False], [2 * n_patients, 2 * n_absent]).repeat(factor)
        scores, groups = np.ones(len(is_present)), np.arange(len(is_present)) // 2
        unchanged = Edited(scores, scores, np.zeros(len(scores)))
        effect = measure_place_effect({100: unchanged}, is_present, margin=MARGIN, groups=groups)
        return judge_place([dict.fromkeys("abc", effect)], [True], MARGIN)[0]

    verdict = judge_unchanged(1)
    factor = math.ceil(verdict.n_enough / (2 * n_patients + 2 * n_absent))
    assert (verdict.name, judge_unchanged(factor).name) == ("open", "no dependence")
    assert factor == math.ceil(72 / min(n_absent, n_patients))


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case):
    effects, name = CASES[case]
    verdict = judge_place([{str(kind): result for kind, result in enumerate(effects)}], [True], MARGIN)[0]
    assert verdict.name == name
    assert math.isnan(verdict.n_enough) or verdict.name == "open"


def test_contradiction_needs_two_kinds_that_are_sure():
    assert is_contradictory({"a": DEPENDS, "b": ELSEWHERE}, MARGIN)
    assert not is_contradictory({"a": DEPENDS, "b": measure_effect(8)}, MARGIN)
    assert math.isnan(judge_place([{"a": DEPENDS, "b": ELSEWHERE}], [True], MARGIN)[0].n_enough)
    assert judge_place([{"a": measure_effect(8), "b": measure_effect(8)}], [True], MARGIN)[0].n_enough > N


def test_an_effect_without_the_full_dose_is_refused():
    with pytest.raises(ValueError, match=r"doses \[50\]: expected 100 among them"):
        measure_place_effect({50: make_edited(60)}, PRESENT, margin=MARGIN)


def test_effect_floor_and_net_are_counted_by_hand():
    result = measure_effect(30, 10)
    assert result.floor is not None
    assert (result.effect.difference, result.floor.difference) == pytest.approx((0.3, 0.1))
    assert result.net == pytest.approx(0.2)
    assert (result.flips.value, result.placebo_flips.value) == (0.3, 0.1)
    # MOVER of the two intervals (Zou and Donner 2008), by hand
    low = result.net - math.hypot(0.3 - result.effect.low, result.floor.high - 0.1)
    assert result.low == pytest.approx(low)


def test_without_absent_rows_there_is_no_floor():
    outcomes = Edited(*(values[PRESENT] for values in make_edited(30)))
    result = measure_place_effect({100: outcomes}, PRESENT[PRESENT], margin=MARGIN)
    assert result.floor is None
    assert (result.net, result.placebo_flips.n) == (pytest.approx(0.3), 0)


@pytest.mark.parametrize(
    ("n_patients", "n_absent", "name"),
    [(10, 100, "no dependence"), (20, 100, "open"), (50, 100, "open"), (60, 100, "no dependence"), (N, 1, "open")],
)
def test_equality_counts_patients_where_nothing_changes(n_patients, n_absent, name):
    """0.95^60 < 5% < 0.95^50, of the rows with the finding and of those without; see `test_image_use`."""
    n = 240
    scores, is_present = np.arange(n) % 2 * 1.0, np.arange(n) >= n_absent
    outcomes = Edited(scores, scores, np.zeros(n))
    effect = measure_place_effect({100: outcomes}, is_present, margin=MARGIN, groups=np.arange(n) % n_patients)
    assert judge_place([{"a": effect, "b": effect}], [True], MARGIN)[0].name == name


@pytest.mark.parametrize(("n_patients", "name"), [(2, "open"), (4, "open"), (5, "elsewhere")])
def test_fewer_than_five_patients_show_no_other_place(n_patients, name):
    groups = np.repeat(np.arange(n_patients), 400)
    n = len(groups)
    at, elsewhere, is_present = np.ones(n), (np.arange(n) % 4 > 1) * 1.0, np.arange(n) % 2 == 0
    outcomes = Edited(at, elsewhere, (at != elsewhere) * 1.0)
    effect = measure_place_effect({100: outcomes}, is_present, margin=MARGIN, groups=groups)
    assert effect.high < -MARGIN
    assert judge_place([{"a": effect, "b": effect}], [True], MARGIN)[0].name == name


def test_without_present_rows_nothing_can_be_told():
    result = measure_effect(0, is_present=np.zeros(N, bool))
    assert math.isnan(result.net)
    assert judge_place([{"a": result, "b": result}], [True], MARGIN)[0].name == "open"


def test_without_answers_nothing_can_be_told():
    """A model whose format cannot be read gives an open verdict."""
    missing = np.full(N, NAN)
    result = measure_place_effect({100: Edited(missing, missing, missing)}, PRESENT, margin=MARGIN)
    assert (result.effect.n, math.isnan(result.p_above), math.isnan(result.p_equal)) == (0, True, True)
    assert judge_place([{"a": result, "b": result}], [False], MARGIN)[0].name == "open"


def test_nothing_depends_on_the_place_of_an_image_that_is_not_used():
    """The model guesses with 70% accuracy, and answers no to any paint at the place."""
    says_yes = np.arange(N) % 10 < np.where(PRESENT, 7, 3)
    own_scores, at = (says_yes == PRESENT) * 1.0, ~PRESENT * 1.0
    result = measure_place_effect({100: Edited(at, own_scores, (at != own_scores) * 1.0)}, PRESENT, margin=MARGIN)
    assert result.net == pytest.approx(0.4)
    effects_by_kind = [{"a": result, "b": result}] * 2
    assert [verdict.name for verdict in judge_place(effects_by_kind, [True, False], MARGIN)] == ["depends", "open"]


def test_nothing_depends_on_another_place_of_an_image_that_is_not_used():
    """The model names one finding (30% accuracy), and names none for any paint at the place."""
    own_scores, at = np.arange(N) % 10 < 3 * PRESENT, ~PRESENT * 1.0
    result = measure_place_effect({100: Edited(at, own_scores * 1.0, np.ones(N))}, PRESENT, margin=MARGIN)
    assert result.net == pytest.approx(-0.7)
    effects_by_kind = [{"a": result, "b": result}] * 2
    assert [verdict.name for verdict in judge_place(effects_by_kind, [True, False], MARGIN)] == ["elsewhere", "open"]


@pytest.mark.parametrize("slope", [0.2, 0.8])
def test_the_slope_is_the_effect_of_the_whole_place(slope):
    doses = {dose: make_edited(round(slope * dose), round(0.1 * dose)) for dose in (25, 50, 75, 100)}
    result = measure_place_effect(doses, PRESENT, margin=MARGIN)
    assert result.slope == pytest.approx(slope - 0.1, abs=0.011)
    assert result.slope_low < result.slope < result.slope_high
    assert result.by_dose[50] == pytest.approx((slope - 0.1) / 2, abs=0.011)
    x, y = np.array(list(result.by_dose)) / 100, np.array(list(result.by_dose.values()))
    assert result.slope == pytest.approx(np.linalg.lstsq(x[:, None], y, rcond=None)[0][0])


def test_p_is_scipys_on_the_excess_of_each_row_and_of_one_against():
    result = measure_effect(14, 2)
    outcomes = make_edited(14, 2)
    gaps = outcomes.elsewhere - outcomes.at
    excess = np.append((gaps - np.where(PRESENT, MARGIN, 0)) / (N // 2), -(2 + MARGIN) / N)
    scipys = stats.permutation_test(
        (excess,), np.sum, permutation_type="samples", alternative="greater", vectorized=True, rng=1
    )
    assert 0.005 < result.p_above < 0.5
    assert result.p_above == pytest.approx(float(scipys.pvalue), abs=0.02)


@settings(max_examples=choose_size(8, 20), deadline=None)
@given(st.lists(st.tuples(*[st.sampled_from([0.0, 1.0, 0.5, NAN])] * 2, st.booleans()), min_size=10, max_size=40))
def test_places_exchanged_and_patients_renamed(values):
    at, elsewhere, is_present = (np.array(column) for column in zip(*values, strict=True))
    flips, patients = np.where(np.isnan(at + elsewhere), NAN, at != elsewhere), np.arange(len(at)) // 2
    options = {"is_present": is_present, "margin": MARGIN}
    result = measure_place_effect({100: Edited(at, elsewhere, flips)}, groups=patients, **options)
    renamed = measure_place_effect(
        {100: Edited(at, elsewhere, flips)}, groups=[f"{label:03}" for label in patients], **options
    )
    assert str(result) == str(renamed)
    mirrored = measure_place_effect({100: Edited(elsewhere, at, flips)}, groups=patients, **options)
    assert mirrored.net == pytest.approx(-result.net, nan_ok=True)
    assert mirrored.p_above == pytest.approx(result.p_below, nan_ok=True)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("looks", "depends"), ("detects paint at the place", "open"), ("looks_elsewhere", "elsewhere"),
        ("always_yes", "no dependence"),
    ],
)  # fmt: skip
def test_a_small_part_of_the_zoo(model, name):
    judge_once, n = runpy.run_path(str(ZOO))["judge_once"], choose_size(1, 3)
    assert [judge_once(model, 400, repetition, ("place",)).place for repetition in range(n)] == [name] * n
