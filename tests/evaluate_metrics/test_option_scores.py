"""Polarity gaps and state similarities (CXR-ContraBench, Appendix A): its example, its propositions, and oracles."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity

from medfaith.evaluate_metrics.polarity import option_scores as options

NAN = float("nan")
NUMBERS = st.floats(-50, 50).map(lambda x: round(x, 3))


def test_example_of_appendix_a2():
    scores = [[5.0 + 0.3, 5.0 + 1.2, 3.0 + 0.8]]
    assert options.predicted(scores).tolist() == [1]
    assert options.polarity_gap(scores, [1], [0]) == pytest.approx([0.9])
    names = ("n_safe", "n_control", "share_positive_safe", "mean_gap_safe", "mean_gap_control")
    names += ("median_gap_control", "share_positive_control")
    summary = options.gap_summary(scores, [0], [1], [0])
    assert [summary[name] for name in names] == pytest.approx([1, 0, 1, 0.9, NAN, NAN, NAN], nan_ok=True)


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
    np.testing.assert_allclose(options.polarity_gap([scores], [negated], [counterpart]), [gap])
    subsets = options.subsets([scores], [answer], [negated], [counterpart])
    assert (bool(subsets.safe[0]), bool(subsets.control[0])) == (subset == "safe", subset == "control")
    summary = options.gap_summary([scores], [answer], [negated], [counterpart])
    assert summary["n_valid"] == (not np.isnan(gap))


@given(
    contexts=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=6),
    conditional=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=6, max_size=6),
    missing=st.tuples(st.integers(0, 1), st.integers(0, 1)),
)
def test_concept_difference_is_that_of_the_conditional_probabilities(contexts, conditional, missing):
    """The difference ignores the contexts' own scores, and changes its sign if the contexts are exchanged."""
    log_probs = np.array([contexts, np.add(contexts, conditional[: len(contexts)])])
    expected = [negated - positive for positive, negated in conditional[: len(contexts)]]
    np.testing.assert_allclose(options.concept_difference(*log_probs), expected, atol=1e-9)
    np.testing.assert_allclose(options.concept_difference(*log_probs[..., ::-1]), np.negative(expected), atol=1e-9)
    log_probs[missing[0], 0, missing[1]] = NAN
    difference = options.concept_difference(*log_probs)
    assert np.isnan(difference).tolist() == [True, *[False] * (len(contexts) - 1)]


def test_generated_predictions_can_disagree_with_the_scores():
    scores, columns = [[2.0, 3.0, 1.0], [3.0, 2.0, 1.0], [3.0, 2.0, 1.0]], ([0] * 3, [1] * 3, [0] * 3)
    summary = options.gap_summary(scores, *columns, predictions=[0, 1, -1])
    values = {
        subset: [summary[f"{name}_{subset}"] for name in ("n", "mean_gap", "share_positive")]
        for subset in ("safe", "control")
    }
    assert values == {"safe": [1, -1.0, 0.0], "control": [1, 1.0, 1.0]}


@st.composite
def questions(draw):
    """Draw (scores, answer, negated, counterpart) of 1 to 12 questions with 3 to 5 options and one pair each."""
    k, n = draw(st.integers(3, 5)), draw(st.integers(1, 12))
    pairs = [draw(st.permutations(range(k)))[:2] for _ in range(n)]
    scores = draw(st.lists(st.lists(NUMBERS, min_size=k, max_size=k), min_size=n, max_size=n))
    answers = draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n))
    return np.array(scores), np.array(answers), *np.array(pairs).T


@given(questions())
@example((np.empty((0, 4)), [], [], []))
def test_summary_agrees_with_a_loop(rows):
    gaps: dict[str, list[float]] = {"safe": [], "control": []}
    for scores, answer, negated, counterpart in zip(*rows, strict=True):
        best = max(range(len(scores)), key=lambda i: (scores[i], -i))
        if answer == counterpart and best in {negated, answer}:
            gaps["safe" if best == negated else "control"].append(float(scores[negated] - scores[counterpart]))
    summary = options.gap_summary(*rows)
    for name, values in gaps.items():
        assert summary[f"n_{name}"] == len(values)
        aggregates = [summary[f"{statistic}_{name}"] for statistic in ("mean_gap", "median_gap", "share_positive")]
        positive = [value > 0 for value in values]
        expected = (
            [statistics.fmean(values), statistics.median(values), statistics.fmean(positive)] if values else [NAN] * 3
        )
        assert aggregates == pytest.approx(expected, abs=1e-9, nan_ok=True)
    assert summary["n_safe"] + summary["n_control"] <= summary["n_gold_positive"] <= summary["n_valid"] == summary["n"]


@given(rows=questions())
def test_proposition_a1(rows):
    """If the pair outranks the distractors and the residual favours "neg", the prediction is the negated option."""
    scores, _, negated, counterpart = rows
    subsets = options.subsets(scores, counterpart, negated, counterpart)
    gaps, best = options.polarity_gap(scores, negated, counterpart), options.predicted(scores)
    for i, line in enumerate(scores):
        positive, negative = line[[counterpart[i], negated[i]]]
        assert gaps[i] == pytest.approx(negative - positive, abs=1e-9)
        if negative > positive and negative > np.delete(line, [counterpart[i], negated[i]]).max():
            assert (best[i], subsets.safe[i]) == (negated[i], True)


@given(rows=questions())
def test_proposition_a2(rows):
    """With the counterpart as gold, "No X" is predicted iff the concept is right and the polarity wrong."""
    scores, _, negated, counterpart = rows
    best = options.predicted(scores)
    right_concept = (best == negated) | (best == counterpart)  # every other option has a concept of its own
    flipped = right_concept & (best != counterpart)
    np.testing.assert_array_equal(options.subsets(scores, counterpart, negated, counterpart).safe, flipped)


@given(rows=questions(), shift=NUMBERS, extra=st.integers(1, 3))
def test_gaps_ignore_a_common_shift_and_padding(rows, shift, extra):
    scores, answer, negated, counterpart = rows
    padded = np.pad(scores, [(0, 0), (0, extra)], constant_values=NAN)
    np.testing.assert_allclose(
        options.polarity_gap(padded + shift, negated, counterpart), options.polarity_gap(*rows[:1], *rows[2:])
    )
    assert options.gap_summary(padded, answer, negated, counterpart) == pytest.approx(
        options.gap_summary(*rows), nan_ok=True
    )


@given(rows=questions(), d=st.integers(1, 6), seed=st.integers(0, 1000))
def test_state_similarity_agrees_with_scikit_learn(rows, d, seed):
    _, _, negated, counterpart = rows
    n, k = rows[0].shape
    states = np.random.default_rng(seed).normal(size=(n, k, d)).astype(np.float32)
    similarity = options.state_similarity(
        np.pad(states, [(0, 0), (0, 1), (0, 0)], constant_values=NAN), negated, counterpart
    )
    for i in range(n):
        table = cosine_similarity(states[i].astype(np.float64))[counterpart[i]]
        distractors = [table[j] for j in range(k) if j not in (negated[i], counterpart[i])]
        assert similarity.negated[i] == pytest.approx(table[negated[i]], abs=1e-9)
        assert similarity.distractor[i] == pytest.approx(np.mean(distractors), abs=1e-9)


@given(rows=questions(), d=st.integers(1, 3), random=st.randoms())
def test_records_in_any_order_become_rows(rows, d, random):
    n, k = rows[0].shape
    values = np.random.default_rng(0).normal(size=(n, k, d))
    records = [(f"row-{i}", j, values[i, j]) for i in range(n) for j in range(k) if (i + j) % 4]
    random.shuffle(records)
    ids, stacked = options.stack_options(*(list(column) for column in zip(*records, strict=True)))
    assert ids.tolist() == list(dict.fromkeys(name for name, _, _ in records))
    for name, row in zip(ids, stacked, strict=True):
        i = int(name.removeprefix("row-"))
        for j in range(stacked.shape[1]):
            np.testing.assert_array_equal(row[j], values[i, j] if (i + j) % 4 else [NAN] * d)


def test_undefined_similarities_are_nan():
    states = np.array([[[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]], [[1.0, 0.0], [2.0, 0.0], [NAN, NAN]], [[1.0, 0.0]] * 3])
    similarity = options.state_similarity(states, negated=[1, 1, -1], counterpart=[0, 0, 0])
    np.testing.assert_allclose(similarity.negated, [NAN, 1.0, NAN])
    np.testing.assert_allclose(similarity.distractor, [0.5**0.5, NAN, NAN])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: options.predicted([1.0, 2.0]), "shape"),
        (lambda: options.predicted(np.empty((2, 0))), "shape"),
        (lambda: options.predicted([[1.0, float("inf")]]), "finite"),
        (lambda: options.polarity_gap([[1.0, 2.0]], [0, 1], [1, 0]), "2 negated for 1 scores"),
        (lambda: options.polarity_gap([[1.0, 2.0]], [0.5], [1]), r"negated, row 1: 0\.5; expected a whole number"),
        (lambda: options.polarity_gap([[1.0, 2.0]], [2], [1]), "between -1"),
        (lambda: options.polarity_gap([[1.0, 2.0]] * 2, 0, [1, 1]), r"negated: shape \(\); expected 2 whole numbers"),
        (
            lambda: options.polarity_gap([[1.0, 2.0]] * 2, np.zeros((2, 1), dtype=int), [1, 1]),
            r"negated: shape \(2, 1\); expected one entry or shape \(n,\)",
        ),
        (
            lambda: options.polarity_gap([[1.0, 2.0]], [0], [-2]),
            "counterpart, row 1: -2; expected a whole number of at least -1",
        ),
        (lambda: options.subsets([[1.0, 2.0]], [0], [1], [0], predictions=[7]), "between -1"),
        (lambda: options.stack_options(["a"], [0, 1], [1.0, 2.0]), "one entry a record"),
        (
            lambda: options.stack_options(["a"], [-1], [1.0]),
            "options, row 1: -1; expected a whole number of at least 0",
        ),
        (lambda: options.stack_options(["b", "a", "a"], [2, 1, 1], [1.0, 2.0, 3.0]), "a: two records of option 1"),
        (lambda: options.state_similarity([[1.0, 2.0]], [0], [1]), r"\(n, k, d\)"),
        (lambda: options.concept_difference([[1.0]], [[1.0]]), "shape"),
        (lambda: options.concept_difference([[1.0, 2.0]], [[1.0, 2.0]] * 2), "shape"),
        (lambda: options.concept_difference([1.0, 2.0], [1.0, 2.0]), "shape"),
        (lambda: options.concept_difference([[1.0, -np.inf]], [[1.0, 2.0]]), "finite"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
