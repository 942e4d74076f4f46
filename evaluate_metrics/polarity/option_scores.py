"""Scores of answer options, and whether they favour the negated wording (CXR-ContraBench, Appendix A).

Needed are log-likelihoods of every option; the metric itself reads answers and does not use this file. Throughout,
`scores` has shape (n, k): n questions with up to k options, in nats, NaN where a question has fewer. `answer`,
`negated` and `counterpart` have shape (n,): the index of the gold option, of the option "No X" and of the positive
option "X", -1 for none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class Subsets(NamedTuple):
    """Masks of shape (n,): `safe` and `control` of Appendix A.3, disjoint, both within `gold_positive` (S_gold+)."""

    gold_positive: np.ndarray
    safe: np.ndarray
    control: np.ndarray


class StateSimilarity(NamedTuple):
    """Cosine similarities, shape (n,): of the positive option's state to the negated option's, and to the distractors'.

    `distractor` is the mean over the distractors; NaN where there is no pair, no distractor, or a state of length 0.
    """

    negated: np.ndarray
    distractor: np.ndarray


def stack_options(ids: ArrayLike, options: ArrayLike, values: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """One record an option, in any order, to one row a question: what the functions below take.

    Args:
        ids: shape (m,), the question of each record; options: shape (m,), the option's index in it.
        values: shape (m, ...), a score or a hidden state.

    Returns:
        the questions in order of their first record, shape (n,), and the values, shape (n, k, ...), NaN where missing.

    Raises:
        ValueError: arrays of another length, or two records of one option.

    >>> questions, scores = stack_options(["b", "a", "b"], [1, 0, 0], [6.2, 1.0, 5.3])
    >>> questions.tolist(), scores.tolist()
    (['b', 'a'], [[5.3, 6.2], [1.0, nan]])
    """
    ids, options, values = np.asarray(ids), np.asarray(options, dtype=np.int64), np.asarray(values, dtype=np.float64)
    if not (ids.shape == options.shape == values.shape[:1]) or (options < 0).any():
        raise ValueError("ids, options and values must have one entry a record, and options start at 0")
    names, first, row = np.unique(ids, return_index=True, return_inverse=True)
    order = first.argsort()
    row = order.argsort()[row]
    stacked = np.full((len(names), options.max(initial=-1) + 1, *values.shape[1:]), np.nan)
    taken, count = np.unique(np.stack([row, options]), axis=1, return_counts=True)
    if (count > 1).any():
        question, option = taken[:, count.argmax()]
        raise ValueError(
            f"{names[order][question]}: two records of option {option}; select those of one task and one run"
        )
    stacked[row, options] = values
    return names[order], stacked


def predicted(scores: ArrayLike) -> np.ndarray:
    """Index of the highest score of each question, shape (n,); the lowest index on a tie, -1 where all are NaN.

    >>> predicted([[5.3, 6.2, 3.8], [1.0, 1.0, float("nan")]])
    array([1, 0])
    """
    scores = _scores(scores)
    known = ~np.isnan(scores)
    best = np.where(known, scores, -np.inf).argmax(axis=1)
    return np.where(known.any(axis=1), best, -1)


def polarity_gap(scores: ArrayLike, negated: ArrayLike, counterpart: ArrayLike) -> np.ndarray:
    """How much the negated option outscores its positive counterpart, in nats, shape (n,); NaN where there is no pair.

    The example of Appendix A.2, "X", "No X" and a distractor:

    >>> polarity_gap([[5.3, 6.2, 3.8]], negated=[1], counterpart=[0]).round(6)
    array([0.9])

    Raises:
        ValueError: arrays of another shape, infinite scores, or an index outside 0..k-1 other than -1.
    """
    scores = _scores(scores)
    negated, counterpart = (_indices(column, scores.shape) for column in (negated, counterpart))
    return _take(scores, negated) - _take(scores, counterpart)


def concept_difference(contexts: ArrayLike, continued: ArrayLike) -> np.ndarray:
    """How much likelier the finding's words are after the negated context than after the positive one, in nats.

    By the chain rule, log p(words | context) = log p(context words) - log p(context). The paper gives the means of this
    difference (Appendix A.3) and not its contexts; see `tasks/contrabench/option_scores.py` for those taken here.

    Args:
        contexts: shape (n, 2), log p of the positive and of the negated context ("A.", "B. No"); NaN for none.
        continued: shape (n, 2), log p of each followed by the words ("A. Edema", "B. No edema").

    Returns:
        shape (n,); NaN where one of the four is.

    Raises:
        ValueError: arrays of another shape, or infinite scores.

    >>> concept_difference([[-2.0, -3.0], [-2.0, float("nan")]], [[-2.5, -3.25], [-2.5, -3.0]])
    array([0.25,  nan])
    """
    contexts, continued = _scores(contexts), _scores(continued)
    if contexts.shape[1] != 2 or contexts.shape != continued.shape:
        raise ValueError(f"expected two arrays of shape (n, 2), not {contexts.shape} and {continued.shape}")
    positive, negated = (continued - contexts).T
    return negated - positive


def subsets(
    scores: ArrayLike,
    answer: ArrayLike,
    negated: ArrayLike,
    counterpart: ArrayLike,
    *,
    predictions: ArrayLike | None = None,
) -> Subsets:
    """Which questions are repairable failures, and which are their matched control (Appendix A.1, A.3).

    gold_positive: a scored pair whose positive counterpart is the gold. Of these, `safe` are predicted as the negated
    option, so that the verifier recovers the gold, and `control` are predicted right.

    Args:
        predictions: option indices that a model generated, -1 where unread; without them, the highest score's.
            Scores may disagree with what was generated; then `safe` gaps can be negative and `control` gaps positive.

    Raises:
        ValueError: as `polarity_gap`.
    """
    scores = _scores(scores)
    answer, negated, counterpart = (_indices(column, scores.shape) for column in (answer, negated, counterpart))
    chosen = predicted(scores) if predictions is None else _indices(predictions, scores.shape)
    paired = ~np.isnan(_take(scores, negated) - _take(scores, counterpart)) & (negated != counterpart)
    gold_positive = paired & (answer == counterpart)
    return Subsets(gold_positive, gold_positive & (chosen == negated), gold_positive & (chosen == answer))


def gap_summary(
    scores: ArrayLike,
    answer: ArrayLike,
    negated: ArrayLike,
    counterpart: ArrayLike,
    *,
    predictions: ArrayLike | None = None,
) -> dict[str, float]:
    """The polarity gap on the repairable subset and on its control, as in Figure 5A.

    Args: see `subsets`.

    Returns:
        n: questions; n_valid: those with a gap (a pair, both scored); n_gold_positive: of these, those whose gold is
        the positive counterpart; and for each of `safe` and `control`: n_<subset>, mean_gap_<subset>,
        median_gap_<subset> (nats) and share_positive_<subset> (share of gaps above 0), NaN on an empty subset.

    >>> summary = gap_summary([[5.3, 6.2, 3.8], [5.0, 4.0, 3.0]], answer=[0, 0], negated=[1, 1], counterpart=[0, 0])
    >>> summary["n_safe"], round(summary["mean_gap_safe"], 6), summary["mean_gap_control"]
    (1, 0.9, -1.0)
    """
    gaps = polarity_gap(scores, negated, counterpart)
    parts = subsets(scores, answer, negated, counterpart, predictions=predictions)
    summary: dict[str, float] = {
        "n": len(gaps),
        "n_valid": int((~np.isnan(gaps)).sum()),
        "n_gold_positive": int(parts.gold_positive.sum()),
    }
    for name, mask in (("safe", parts.safe), ("control", parts.control)):
        part = gaps[mask]
        summary |= {
            f"n_{name}": len(part),
            f"mean_gap_{name}": float(part.mean()) if len(part) else float("nan"),
            f"median_gap_{name}": float(np.median(part)) if len(part) else float("nan"),
            f"share_positive_{name}": float((part > 0).mean()) if len(part) else float("nan"),
        }
    return summary


def state_similarity(states: ArrayLike, negated: ArrayLike, counterpart: ArrayLike) -> StateSimilarity:
    """Whether the hidden states of "X" and "No X" are more alike than those of "X" and a distractor (Figure 5B).

    Args:
        states: shape (n, k, d), one hidden state an option; NaN where a question has fewer than k options.

    Raises:
        ValueError: arrays of another shape, or an index outside 0..k-1 other than -1.

    >>> state_similarity([[[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]]], negated=[1], counterpart=[0]).negated.round(6)
    array([0.707107])
    """
    states = np.asarray(states, dtype=np.float64)
    if states.ndim != 3:
        raise ValueError(f"states must have shape (n, k, d), not {states.shape}")
    negated, counterpart = (_indices(column, states.shape[:2]) for column in (negated, counterpart))
    lengths = np.linalg.norm(states, axis=2, keepdims=True)
    directions = states / np.where(lengths > 0, lengths, np.nan)
    similarities = np.einsum("nd,nkd->nk", _take(directions, counterpart), directions)
    option = np.arange(states.shape[1])
    distractor = (option != negated[:, None]) & (option != counterpart[:, None]) & ~np.isnan(similarities)
    # Without a negated option the others are no distractors of a pair.
    count = np.where(negated >= 0, distractor.sum(axis=1), 0)
    total = np.where(distractor, similarities, 0.0).sum(axis=1)
    return StateSimilarity(_take(similarities, negated), np.where(count > 0, total / np.maximum(count, 1), np.nan))


def _take(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """values[i, index[i]] for each i; NaN where the index is -1."""
    taken = values[np.arange(len(values)), index]
    taken[index < 0] = np.nan
    return taken


def _scores(scores: ArrayLike) -> np.ndarray:
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 2 or scores.shape[1] == 0:
        raise ValueError(f"scores must have shape (n, k) with k >= 1, not {scores.shape}")
    if np.isinf(scores).any():
        raise ValueError("scores must be finite, or NaN where a question has fewer options")
    return scores


def _indices(column: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    column = np.asarray(column)
    if column.shape != shape[:1] or (column.size and column.dtype.kind not in "iu"):
        raise ValueError(f"expected {shape[0]} integers, not {column.dtype} of shape {column.shape}")
    if column.size and not (column.min() >= -1 and column.max() < shape[1]):
        raise ValueError(f"option indices must be between -1 (none) and {shape[1] - 1}")
    return column.astype(np.int64)
