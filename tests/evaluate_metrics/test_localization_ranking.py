"""Ranking of pixels: against scikit-learn, with and without ties, undefined values, bad inputs."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, jaccard_score, precision_score, roc_auc_score

from medfaith.evaluate_metrics.localization.ranking import TIES, TOPS, localization, names

NAN = float("nan")


def compute_with_scikit_learn(scores, labels, tops=TOPS, precision_ties="included"):
    """Compute the scores with scikit-learn, straight from their definitions."""
    scores, labels = scores.ravel(), labels.ravel()
    if not labels.any():
        return [NAN] * (2 + 2 * len(tops))
    values = [NAN if labels.all() else roc_auc_score(labels, scores), average_precision_score(labels, scores)]
    bounds = [np.sort(scores)[: len(scores) - int(len(scores) * top / 100)].max() for top in tops]
    values += [jaccard_score(labels, scores > bound) for bound in bounds]
    undefined: dict = {"zero_division": NAN}
    top = np.greater_equal if precision_ties == "included" else np.greater
    return [*values, *(precision_score(labels, top(scores, bound), **undefined) for bound in bounds)]


@st.composite
def maps(draw):
    """Draw scores of every kind: all different, many tied, neighbours in the last bit, negative, of one value."""
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
@example(
    (np.random.default_rng(0).random((1, 224, 224)), np.random.default_rng(1).random((1, 224, 224)) < 0.3), TIES[0]
)
@example((np.ones((0, 4)), np.ones((0, 4), dtype=bool)), TIES[0])
def test_equals_scikit_learn(batch, ties):
    scores, labels = batch
    given_scores = scores.copy()
    result = localization(scores, labels, precision_ties=ties)
    assert tuple(result) == names()
    assert np.array_equal(scores, given_scores)
    for row in range(len(scores)):
        expected = compute_with_scikit_learn(scores[row].astype(np.float64), labels[row], precision_ties=ties)
        assert np.allclose([value[row] for value in result.values()], expected, rtol=0, atol=1e-12, equal_nan=True)


ONES, YES = np.ones((1, 2)), np.ones((1, 2), dtype=bool)


@pytest.mark.parametrize(
    ("scores", "labels", "options", "message"),
    [
        (np.ones((1, 2, 2)), np.ones((1, 2, 3), dtype=bool), {}, r"2, 2\) and bool labels of shape \(1, 2, 3\)"),
        (ONES, ONES, {}, "float64 labels"),
        (np.ones(2), np.ones(2, dtype=bool), {}, r"expected \(n, ...\)"),
        (np.array([[1, 2], [NAN, 1]]), np.ones((2, 2), dtype=bool), {}, "map 2: a score that is NaN"),
        (np.array([[1, np.inf]]), YES, {}, "map 1"),
        (ONES, YES, {"tops": (0,)}, r"tops \(0,\): expected percentages"),
        (ONES, YES, {"tops": (5, 100)}, "between 0 and 100"),
        (ONES, YES, {"precision_ties": "some"}, "precision_ties 'some': expected included or excluded"),
    ],
)
def test_bad_input_is_named(scores, labels, options, message):
    with pytest.raises(ValueError, match=message):
        localization(scores, labels, **options)
