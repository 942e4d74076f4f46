"""Ranking of pixels: against scikit-learn, ties and all, undefined values, bad inputs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, jaccard_score, precision_score, roc_auc_score

from medfaith.evaluate_metrics.localization.ranking import TIES, TOPS, localization, names

NAN = float("nan")


def plain(scores, labels, tops=TOPS, precision_ties="included"):
    """As one would write it down with scikit-learn."""
    scores, labels = scores.ravel(), labels.ravel()
    if not labels.any():
        return [NAN] * (2 + 2 * len(tops))
    found = [NAN if labels.all() else roc_auc_score(labels, scores), average_precision_score(labels, scores)]
    kept = [np.sort(scores)[: len(scores) - int(len(scores) * top / 100)].max() for top in tops]
    found += [jaccard_score(labels, scores > bound) for bound in kept]
    undefined: dict = {"zero_division": NAN}
    top = np.greater_equal if precision_ties == "included" else np.greater
    return [*found, *(precision_score(labels, top(scores, bound), **undefined) for bound in kept)]


@st.composite
def maps(draw):
    """Scores of every kind: all different, many tied, neighbours in the last bit, negative, of one value."""
    shape = draw(st.integers(1, 3)), draw(st.integers(1, 12)), draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["different", "tied", "last bit", "negative", "zeros", "one", "tiny", "float32"]))
    scores = {
        "different": rng.random(shape), "tied": rng.integers(0, 4, shape) / 7,
        "last bit": 1 + rng.integers(0, 4, shape) * 2.0**-52, "negative": rng.integers(-3, 4, shape) / 7,
        "zeros": np.where(rng.random(shape) < 0.5, 0.0, -0.0), "one": np.full(shape, 0.1),
        "tiny": rng.integers(0, 9, shape) * 5e-324, "float32": rng.random(shape).astype(np.float32),
    }[kind]  # fmt: skip
    return scores, rng.random(shape) < draw(st.sampled_from([0, 0.1, 0.5, 1]))


@given(maps(), st.sampled_from(TIES))
def test_equals_scikit_learn(batch, ties):
    scores, labels = batch
    given_scores = scores.copy()
    found = localization(scores, labels, precision_ties=ties)
    assert tuple(found) == names()
    assert np.array_equal(scores, given_scores)
    for row in range(len(scores)):
        expected = plain(scores[row].astype(np.float64), labels[row], precision_ties=ties)
        assert np.allclose([value[row] for value in found.values()], expected, rtol=0, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize(
    ("scores", "labels", "expected"),
    [
        # AUROC, AP, IoU, precision with the pixels at the threshold, and without them
        ([4, 3, 2, 1], [1, 1, 0, 0], (1, 1, 1, 2 / 3, 1)),  # the threshold is a pixel's, the best of the lower half
        ([1, 2, 3, 4], [1, 1, 0, 0], (0, (1 / 3 + 2 / 4) / 2, 0, 1 / 3, 0)),
        ([1, 1, 1, 1], [1, 1, 0, 0], (0.5, 0.5, 0, 0.5, NAN)),  # nothing is above the threshold
        ([3, 2, 2, 1], [1, 1, 0, 0], (0.875, (1 + 2 / 3) / 2, 0.5, 2 / 3, 1)),  # the tie leaves one pixel above
        ([4, 3, 2, 1], [1, 1, 1, 1], (NAN, 1, 0.5, 1, 1)),
        ([4, 3, 2, 1], [0, 0, 0, 0], (NAN, NAN, NAN, NAN, NAN)),
    ],
)
def test_cases_worked_out_by_hand(scores, labels, expected):
    batch = np.array([scores], dtype=float), np.array([labels], dtype=bool)
    for ties, precision in zip(TIES, expected[3:], strict=True):
        found = localization(*batch, tops=(50,), precision_ties=ties)
        assert np.allclose([value[0] for value in found.values()], (*expected[:3], precision), equal_nan=True)


def test_sizes_of_the_view():
    rng = np.random.default_rng(0)
    scores, labels = rng.random((2, 224, 224)), rng.random((2, 224, 224)) < 0.3
    predicted = [int(50176 * top / 100) for top in TOPS]  # all scores differ
    for ties, more in zip(TIES, (1, 0), strict=True):
        found = localization(scores, labels, precision_ties=ties)
        for top, count in zip(TOPS, predicted, strict=True):
            true = found[f"precision_{top}"] * (count + more)
            assert np.allclose(true, true.round(), rtol=0, atol=1e-6)
    found = localization(scores, labels)
    assert np.allclose([value[1] for value in found.values()], plain(scores[1], labels[1]), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("scores", "labels", "tops", "message"),
    [
        (np.ones((1, 2, 2)), np.ones((1, 2, 3), dtype=bool), TOPS, r"2, 2\) and bool labels of shape \(1, 2, 3\)"),
        (np.ones((1, 2)), np.ones((1, 2)), TOPS, "float64 labels"),
        (np.ones(2), np.ones(2, dtype=bool), TOPS, r"expected \(n, ...\)"),
        (np.array([[1, 2], [NAN, 1]]), np.ones((2, 2), dtype=bool), TOPS, "map 2: a score that is NaN"),
        (np.array([[1, np.inf]]), np.ones((1, 2), dtype=bool), TOPS, "map 1"),
        (np.ones((1, 2)), np.ones((1, 2), dtype=bool), (0,), r"tops \[0\]; expected percentages"),
        (np.ones((1, 2)), np.ones((1, 2), dtype=bool), (5, 100), "between 0 and 100"),
    ],
)  # fmt: skip
def test_bad_input_is_named(scores, labels, tops, message):
    with pytest.raises(ValueError, match=message):
        localization(scores, labels, tops)


def test_another_word_for_ties_is_named():
    with pytest.raises(ValueError, match="precision_ties 'some'; expected included or excluded"):
        localization(np.ones((1, 2)), np.ones((1, 2), dtype=bool), precision_ties="some")


def test_no_maps():
    assert all(len(value) == 0 for value in localization(np.ones((0, 4)), np.ones((0, 4), dtype=bool)).values())
