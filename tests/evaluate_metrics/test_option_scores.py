"""Polarity gaps and state similarities (CXR-ContraBench, Appendix A): its example, its propositions, and oracles."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity

from medfaith.evaluate_metrics.polarity.option_scores import (
    concept_difference,
    gap_summary,
    polarity_gap,
    predicted,
    stack_options,
    state_similarity,
    subsets,
)

NAN = float("nan")
NUMBERS = st.floats(-50, 50).map(lambda x: round(x, 3))


def test_example_of_appendix_a2():
    support, residual = {"x": 5.0, "z": 3.0}, {("x", "pos"): 0.3, ("x", "neg"): 1.2, ("z", "pos"): 0.8}
    scores = [[support[concept] + v for (concept, _), v in residual.items()]]
    assert scores[0] == pytest.approx([5.3, 6.2, 3.8])
    assert predicted(scores).tolist() == [1]
    assert polarity_gap(scores, [1], [0]) == pytest.approx([0.9])
    summary = gap_summary(scores, [0], [1], [0])
    assert (summary["n_safe"], summary["n_control"], summary["share_positive_safe"]) == (1, 0, 1.0)
    assert summary["mean_gap_safe"] == pytest.approx(0.9)
    assert np.isnan(
        [summary["mean_gap_control"], summary["median_gap_control"], summary["share_positive_control"]]
    ).all()


@pytest.mark.parametrize(
    ("scores", "answer", "negated", "counterpart", "gap", "subset"),
    [
        ([2.0, 3.0, 1.0], 0, 1, 0, 1.0, "safe"),
        ([3.0, 2.0, 1.0], 0, 1, 0, -1.0, "control"),
        ([1.0, 2.0, 3.0], 0, 1, 0, 1.0, None),  # a distractor wins: neither
        ([2.0, 3.0, 1.0], 1, 1, 0, 1.0, None),  # "No X" is right
        ([2.0, 3.0, 1.0], 2, 1, 0, 1.0, None),  # a distractor is right: replacing does not repair
        ([2.0, 3.0, 1.0], 0, 1, -1, NAN, None),  # no counterpart
        ([2.0, 3.0, 1.0], 0, -1, -1, NAN, None),
        ([2.0, 3.0, 1.0], 0, -1, 0, NAN, None),
        ([NAN, 3.0, 1.0], 0, 1, 0, NAN, None),  # the counterpart was not scored
        ([2.0, 2.0, 1.0], 0, 1, 0, 0.0, "control"),  # a tie goes to the lowest index
        ([1.0, 2.0, 2.0], 2, 1, 2, 0.0, "safe"),
        ([NAN, NAN, NAN], 0, 1, 0, NAN, None),
    ],
)
def test_one_question(scores, answer, negated, counterpart, gap, subset):
    np.testing.assert_allclose(polarity_gap([scores], [negated], [counterpart]), [gap])
    parts = subsets([scores], [answer], [negated], [counterpart])
    assert (bool(parts.safe[0]), bool(parts.control[0])) == (subset == "safe", subset == "control")
    summary = gap_summary([scores], [answer], [negated], [counterpart])
    assert summary["n_valid"] == (not np.isnan(gap))


@given(
    contexts=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=6),
    conditional=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=6, max_size=6),
    shift=st.tuples(NUMBERS, NUMBERS),
)
def test_concept_difference_is_that_of_the_conditional_probabilities(contexts, conditional, shift):
    """Whatever the contexts themselves are worth, and with the contexts exchanged it changes its sign."""
    contexts, conditional = np.array(contexts), np.array(conditional[: len(contexts)])
    expected = [negated - positive for positive, negated in conditional]
    for given_contexts in (contexts, contexts + shift):
        found = concept_difference(given_contexts, given_contexts + conditional)
        np.testing.assert_allclose(found, expected, atol=1e-9)
        exchanged = concept_difference(given_contexts[:, ::-1], (given_contexts + conditional)[:, ::-1])
        np.testing.assert_allclose(exchanged, -found, atol=1e-9)


@pytest.mark.parametrize("place", range(4))
def test_concept_difference_of_a_missing_score_is_undefined(place):
    values = np.array([-1.0, -2.0, -3.0, -4.5])
    values[place] = NAN
    assert np.isnan(concept_difference([values[:2]], [values[2:]])).all()


@pytest.mark.parametrize(
    ("contexts", "continued"),
    [([[1.0]], [[1.0]]), ([[1.0, 2.0]], [[1.0, 2.0]] * 2), ([1.0, 2.0], [1.0, 2.0]), ([[1.0, -np.inf]], [[1.0, 2.0]])],
)
def test_concept_difference_refuses_other_arrays(contexts, continued):
    with pytest.raises(ValueError, match=r"shape|finite"):
        concept_difference(contexts, continued)


def test_mean_and_median_differ():
    scores = [[0.0, gap, -9.0] for gap in (1.0, 2.0, 6.0)]
    summary = gap_summary(scores, [0] * 3, [1] * 3, [0] * 3)
    assert (summary["mean_gap_safe"], summary["median_gap_safe"]) == (3.0, 2.0)


def test_generated_predictions_can_disagree_with_the_scores():
    scores, columns = [[2.0, 3.0, 1.0], [3.0, 2.0, 1.0], [3.0, 2.0, 1.0]], ([0] * 3, [1] * 3, [0] * 3)
    summary = gap_summary(scores, *columns, predictions=[0, 1, -1])
    assert (summary["n_safe"], summary["mean_gap_safe"], summary["share_positive_safe"]) == (1, -1.0, 0.0)
    assert (summary["n_control"], summary["mean_gap_control"], summary["share_positive_control"]) == (1, 1.0, 1.0)


@st.composite
def questions(draw):
    """(scores, answer, negated, counterpart) of 1 to 12 questions with 3 to 5 options, a pair in each."""
    k = draw(st.integers(3, 5))
    rows = []
    for _ in range(draw(st.integers(1, 12))):
        negated, counterpart = draw(st.permutations(range(k)))[:2]
        rows.append(
            (draw(st.lists(NUMBERS, min_size=k, max_size=k)), draw(st.integers(0, k - 1)), negated, counterpart)
        )
    return tuple(np.array(column) for column in zip(*rows, strict=True))


@given(questions())
def test_summary_agrees_with_a_loop(rows):
    gaps: dict[str, list[float]] = {"safe": [], "control": []}
    for scores, answer, negated, counterpart in zip(*rows, strict=True):
        best = max(range(len(scores)), key=lambda i: (scores[i], -i))
        if answer == counterpart and best in {negated, answer}:
            gaps["safe" if best == negated else "control"].append(float(scores[negated] - scores[counterpart]))
    summary = gap_summary(*rows)
    for name, values in gaps.items():
        assert summary[f"n_{name}"] == len(values)
        if values:
            assert summary[f"mean_gap_{name}"] == pytest.approx(statistics.fmean(values), abs=1e-9)
            assert summary[f"median_gap_{name}"] == pytest.approx(statistics.median(values), abs=1e-9)
            assert summary[f"share_positive_{name}"] == sum(v > 0 for v in values) / len(values)
    assert summary["n_safe"] + summary["n_control"] <= summary["n_gold_positive"] <= summary["n_valid"] == summary["n"]


@given(
    u=st.lists(NUMBERS, min_size=2, max_size=4),
    v=st.lists(NUMBERS, min_size=5, max_size=5),
    order=st.permutations(range(5)),
)
def test_proposition_a1(u, v, order):
    """Where the pair outranks the distractors and the residual favours "neg", the prediction is the negated option."""
    scores = [u[0] + v[0], u[0] + v[1], *(support + residual for support, residual in zip(u[1:], v[2:], strict=False))]
    place = [i for i in order if i < len(scores)]  # any layout
    shown = [scores[i] for i in place]
    positive, negated = place.index(0), place.index(1)
    gap = polarity_gap([shown], [negated], [positive])[0]
    assert gap == pytest.approx(v[1] - v[0], abs=1e-9)
    if max(scores[:2]) > max(scores[2:]) and scores[1] > scores[0]:
        assert predicted([shown]).tolist() == [negated]
        assert subsets([shown], [positive], [negated], [positive]).safe.all()
        assert gap > 0


@given(rows=questions())
def test_proposition_a2(rows):
    """With the counterpart as gold, "No X" is predicted iff the concept is right and the polarity wrong."""
    scores, _, negated, counterpart = rows
    concept = np.tile(np.arange(1, scores.shape[1] + 1), (len(scores), 1))
    row = np.arange(len(scores))
    concept[row, negated] = concept[row, counterpart]  # every other option has a concept of its own
    is_negative = np.zeros(scores.shape, dtype=bool)
    is_negative[row, negated] = True
    chosen = predicted(scores)
    flipped = (concept[row, chosen] == concept[row, counterpart]) & (
        is_negative[row, chosen] != is_negative[row, counterpart]
    )
    np.testing.assert_array_equal(subsets(scores, counterpart, negated, counterpart).safe, flipped)


@given(rows=questions(), shift=NUMBERS, extra=st.integers(1, 3))
def test_gaps_ignore_a_common_shift_and_padding(rows, shift, extra):
    scores, answer, negated, counterpart = rows
    padded = np.pad(scores, [(0, 0), (0, extra)], constant_values=NAN)
    np.testing.assert_allclose(polarity_gap(padded + shift, negated, counterpart), polarity_gap(*rows[:1], *rows[2:]))
    assert gap_summary(padded, answer, negated, counterpart) == pytest.approx(gap_summary(*rows), nan_ok=True)


@given(rows=questions(), d=st.integers(1, 6), seed=st.integers(0, 1000))
def test_state_similarity_agrees_with_scikit_learn(rows, d, seed):
    _, _, negated, counterpart = rows
    n, k = rows[0].shape
    states = np.random.default_rng(seed).normal(size=(n, k, d)).astype(np.float32)
    found = state_similarity(np.pad(states, [(0, 0), (0, 1), (0, 0)], constant_values=NAN), negated, counterpart)
    for i in range(n):
        table = cosine_similarity(states[i].astype(np.float64))[counterpart[i]]
        others = [table[j] for j in range(k) if j not in (negated[i], counterpart[i])]
        assert found.negated[i] == pytest.approx(table[negated[i]], abs=1e-9)
        assert found.distractor[i] == pytest.approx(np.mean(others), abs=1e-9)


@given(rows=questions(), d=st.integers(1, 3), random=st.randoms())
def test_records_in_any_order_become_rows(rows, d, random):
    n, k = rows[0].shape
    values = np.random.default_rng(0).normal(size=(n, k, d))
    records = [(f"row-{i}", j, values[i, j]) for i in range(n) for j in range(k) if (i + j) % 4]
    random.shuffle(records)
    ids, stacked = stack_options(*(list(column) for column in zip(*records, strict=True)))
    assert ids.tolist() == list(dict.fromkeys(name for name, _, _ in records))
    for name, row in zip(ids, stacked, strict=True):
        i = int(name.removeprefix("row-"))
        for j in range(stacked.shape[1]):
            np.testing.assert_array_equal(row[j], values[i, j] if (i + j) % 4 else [NAN] * d)


def test_undefined_similarities_are_nan():
    states = np.array([[[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]], [[1.0, 0.0], [2.0, 0.0], [NAN, NAN]], [[1.0, 0.0]] * 3])
    found = state_similarity(states, negated=[1, 1, -1], counterpart=[0, 0, 0])
    np.testing.assert_allclose(found.negated, [NAN, 1.0, NAN])
    np.testing.assert_allclose(found.distractor, [0.5**0.5, NAN, NAN])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: predicted([1.0, 2.0]), "shape"),
        (lambda: predicted(np.empty((2, 0))), "shape"),
        (lambda: predicted([[1.0, float("inf")]]), "finite"),
        (lambda: polarity_gap([[1.0, 2.0]], [0, 1], [1, 0]), "expected 1 integers"),
        (lambda: polarity_gap([[1.0, 2.0]], [0.5], [1]), "expected 1 integers"),
        (lambda: polarity_gap([[1.0, 2.0]], [2], [1]), "between -1"),
        (lambda: polarity_gap([[1.0, 2.0]], [0], [-2]), "between -1"),
        (lambda: subsets([[1.0, 2.0]], [0], [1], [0], predictions=[7]), "between -1"),
        (lambda: stack_options(["a"], [0, 1], [1.0, 2.0]), "one entry a record"),
        (lambda: stack_options(["a"], [-1], [1.0]), "start at 0"),
        (lambda: stack_options(["b", "a", "a"], [2, 1, 1], [1.0, 2.0, 3.0]), "a: two records of option 1"),
        (lambda: state_similarity([[1.0, 2.0]], [0], [1]), r"\(n, k, d\)"),
    ],
)
def test_bad_input_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_nothing_to_score():
    summary = gap_summary(np.empty((0, 4)), [], [], [])
    assert (summary["n"], summary["n_safe"]) == (0, 0)
    assert np.isnan(summary["mean_gap_safe"])
