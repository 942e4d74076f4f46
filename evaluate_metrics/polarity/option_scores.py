"""Scores of answer options, and their preference for the negated wording (CXR-ContraBench, Appendix A).

The functions need log-likelihoods of every option; the metric itself reads answers and does not use this file.
Throughout, `scores` has shape (n, k): n questions with up to k options, in nats, NaN for missing options. `answer`,
`negated` and `counterpart` have shape (n,): the index of the gold option, of the option "No X" and of the positive
option "X", -1 for none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from ..arguments.arrays import read_labels, read_numbers, refuse
from ..arguments.kinds import indices, numbers, optional, read_later
from ..arguments.schema import check_arguments

_SCORES = numbers("a finite number, or NaN for a missing option", shape="(n, k)")
_INDICES = indices(-1, is_column=True)
_PAIR = {"negated": _INDICES, "counterpart": _INDICES}


class Subsets(NamedTuple):
    """Masks of shape (n,).

    Attributes:
        gold_positive: Questions whose gold is the positive counterpart (S_gold+).
        safe: The repairable failures of Appendix A.3, within `gold_positive`.
        control: Their matched control, within `gold_positive` and disjoint from `safe`.
    """

    gold_positive: np.ndarray
    safe: np.ndarray
    control: np.ndarray


class StateSimilarity(NamedTuple):
    """Cosine similarities of hidden states, shape (n,); NaN without a pair, without distractors or at length 0.

    Attributes:
        negated: Similarity of the positive option's state to the negated option's.
        distractor: Mean similarity of the positive option's state to the distractors'.
    """

    negated: np.ndarray
    distractor: np.ndarray


@check_arguments(ids=read_later("labels"), options=indices(0), values=read_later("array"))
def stack_options(ids: ArrayLike, options: ArrayLike, values: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Stack records of one option each, in any order, to one row per question.

    Args:
        ids: Shape (m,), the question of each record.
        options: Shape (m,), the option's index in the question.
        values: Shape (m, ...), a score or a hidden state.

    Returns:
        The questions in order of their first record, shape (n,), and the values, shape (n, k, ...), NaN where missing.

    Raises:
        ValueError: Arrays of another length, or two records of one option.

    >>> questions, scores = stack_options(["b", "a", "b"], [1, 0, 0], [6.2, 1.0, 5.3])
    >>> questions.tolist(), scores.tolist()
    (['b', 'a'], [[5.3, 6.2], [1.0, nan]])
    """
    options, values = np.asarray(options), read_numbers(values, "values").astype(np.float64)
    codes = read_labels(ids, "ids")
    if not (codes.shape == options.shape == values.shape[:1]):
        raise ValueError("ids, options and values must have one entry a record")
    _, first_index, row = np.unique(codes, return_index=True, return_inverse=True)
    order = first_index.argsort()
    row = order.argsort()[row]
    is_mixed = not isinstance(ids, np.ndarray) and len(set(map(type, cast(Sequence, ids)))) > 1
    names = np.array(ids, dtype=object if is_mixed else None)[first_index[order]]  # numpy would join 1 and "1"
    stacked = np.full((len(names), options.max(initial=-1) + 1, *values.shape[1:]), np.nan)
    row_options, counts = np.unique(np.stack([row, options]), axis=1, return_counts=True)
    if (counts > 1).any():
        question, option = row_options[:, counts.argmax()]
        raise ValueError(
            f"{names[question]}: two records of option {option}; select the records of one task and one run"
        )
    stacked[row, options] = values
    return names, stacked


@check_arguments(scores=_SCORES)
def predicted(scores: ArrayLike) -> np.ndarray:
    """Find the index of the highest score of each question; the lowest index on a tie.

    Args:
        scores: Shape (n, k).

    Returns:
        Shape (n,), -1 if all scores are NaN.

    >>> predicted([[5.3, 6.2, 3.8], [1.0, 1.0, float("nan")]])
    array([1, 0])
    """
    scores = _require_scores(scores)
    is_known = ~np.isnan(scores)
    best = np.where(is_known, scores, -np.inf).argmax(axis=1)
    return np.where(is_known.any(axis=1), best, -1)


@check_arguments(like="scores", scores=_SCORES, **_PAIR)
def polarity_gap(scores: ArrayLike, negated: ArrayLike, counterpart: ArrayLike) -> np.ndarray:
    """Compute the score of the negated option minus that for its positive counterpart, in nats.

    Args:
        scores: Shape (n, k).
        negated: Shape (n,).
        counterpart: Shape (n,).

    Returns:
        Shape (n,); NaN without a pair.

    Raises:
        ValueError: Arrays of another shape, infinite scores, or an index outside 0..k-1 other than -1.

    The example of Appendix A.2, "X", "No X" and a distractor:

    >>> polarity_gap([[5.3, 6.2, 3.8]], negated=[1], counterpart=[0]).round(6)
    array([0.9])
    """
    scores = _require_scores(scores)
    negated = _require_indices("negated", negated, scores.shape)
    counterpart = _require_indices("counterpart", counterpart, scores.shape)
    return _select_columns(scores, negated) - _select_columns(scores, counterpart)


@check_arguments(contexts=_SCORES, continued=_SCORES)
def concept_difference(contexts: ArrayLike, continued: ArrayLike) -> np.ndarray:
    """Compute the log-likelihood gain of the finding's words after the negated context over the positive one, in nats.

    By the chain rule, log p(words | context) = log p(context words) - log p(context). The paper gives the means of this
    difference (Appendix A.3) and not its contexts; see `tasks/contrabench/option_scores.py` for our contexts.

    Args:
        contexts: Shape (n, 2), log p of the positive and of the negated context ("A.", "B. No"); NaN for none.
        continued: Shape (n, 2), log p of each context followed by the words ("A. Edema", "B. No edema").

    Returns:
        Shape (n,); NaN if one of the four is NaN.

    Raises:
        ValueError: Arrays of another shape, or infinite scores.

    >>> concept_difference([[-2.0, -3.0], [-2.0, float("nan")]], [[-2.5, -3.25], [-2.5, -3.0]])
    array([0.25,  nan])
    """
    contexts, continued = np.asarray(contexts), np.asarray(continued)
    if contexts.shape[1] != 2 or contexts.shape != continued.shape:
        raise ValueError(
            f"contexts of shape {contexts.shape} and continued of shape {continued.shape}; expected (n, 2) both"
        )
    positive, negated = (continued - contexts).T
    return negated - positive


@check_arguments(like="scores", scores=_SCORES, answer=_INDICES, **_PAIR, predictions=optional(_INDICES))
def subsets(
    scores: ArrayLike,
    answer: ArrayLike,
    negated: ArrayLike,
    counterpart: ArrayLike,
    *,
    predictions: ArrayLike | None = None,
) -> Subsets:
    """Select the failures that the verifier can repair, and the right answers to compare them with (Appendix A.1, A.3).

    - gold_positive: The positive counterpart is the gold answer, it and the negated option are two different options,
      and both have a score.
    - safe: Among these, the prediction is the negated option, so the verifier would recover the gold answer.
    - control: Among these, the prediction is the gold answer.

    Args:
        scores: Shape (n, k).
        answer: Shape (n,).
        negated: Shape (n,).
        counterpart: Shape (n,).
        predictions: Option indices that a model generated, -1 where unread; by default the highest score's. Scores may
            disagree with the generated answers; then `safe` gaps can be negative and `control` gaps positive.

    Returns:
        The masks.

    Raises:
        ValueError: See `polarity_gap`.
    """
    scores = _require_scores(scores)
    answer = _require_indices("answer", answer, scores.shape)
    negated = _require_indices("negated", negated, scores.shape)
    counterpart = _require_indices("counterpart", counterpart, scores.shape)
    choices = predicted(scores) if predictions is None else _require_indices("predictions", predictions, scores.shape)
    has_pair = ~np.isnan(_select_columns(scores, negated) - _select_columns(scores, counterpart)) & (
        negated != counterpart
    )
    gold_positive = has_pair & (answer == counterpart)
    return Subsets(gold_positive, gold_positive & (choices == negated), gold_positive & (choices == answer))


@check_arguments(like="scores", scores=_SCORES, answer=_INDICES, **_PAIR, predictions=optional(_INDICES))
def gap_summary(
    scores: ArrayLike,
    answer: ArrayLike,
    negated: ArrayLike,
    counterpart: ArrayLike,
    *,
    predictions: ArrayLike | None = None,
) -> dict[str, float]:
    """Summarize the polarity gap on the repairable subset and on its control (Figure 5A).

    Args:
        scores: See `subsets`.
        answer: See `subsets`.
        negated: See `subsets`.
        counterpart: See `subsets`.
        predictions: See `subsets`.

    Returns:
        n: questions; n_valid: questions with a gap (a pair, both scored); n_gold_positive: valid questions with the
        positive counterpart as gold; and for each of `safe` and `control`: n_<subset>, mean_gap_<subset>,
        median_gap_<subset> (nats) and share_positive_<subset> (share of gaps above 0), NaN for an empty subset.

    >>> summary = gap_summary([[5.3, 6.2, 3.8], [5.0, 4.0, 3.0]], answer=[0, 0], negated=[1, 1], counterpart=[0, 0])
    >>> summary["n_safe"], round(summary["mean_gap_safe"], 6), summary["mean_gap_control"]
    (1, 0.9, -1.0)
    """
    gaps = polarity_gap(scores, negated, counterpart)
    masks = subsets(scores, answer, negated, counterpart, predictions=predictions)
    summary: dict[str, float] = {
        "n": len(gaps),
        "n_valid": int((~np.isnan(gaps)).sum()),
        "n_gold_positive": int(masks.gold_positive.sum()),
    }
    for name, mask in (("safe", masks.safe), ("control", masks.control)):
        subset_gaps = gaps[mask]
        summary |= {
            f"n_{name}": len(subset_gaps),
            f"mean_gap_{name}": float(subset_gaps.mean()) if len(subset_gaps) else float("nan"),
            f"median_gap_{name}": float(np.median(subset_gaps)) if len(subset_gaps) else float("nan"),
            f"share_positive_{name}": float((subset_gaps > 0).mean()) if len(subset_gaps) else float("nan"),
        }
    return summary


@check_arguments(
    like="states",
    states=numbers("a finite number, or NaN for a missing option", shape="(n, k, d)"),
    **_PAIR,
)
def state_similarity(states: ArrayLike, negated: ArrayLike, counterpart: ArrayLike) -> StateSimilarity:
    """Compare the hidden states of "X" and "No X" with those for "X" and a distractor (Figure 5B).

    Args:
        states: Shape (n, k, d), one hidden state per option; NaN for missing options.
        negated: Shape (n,).
        counterpart: Shape (n,).

    Returns:
        The similarities.

    Raises:
        ValueError: Arrays of another shape, or an index outside 0..k-1 other than -1.

    >>> state_similarity([[[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]]], negated=[1], counterpart=[0]).negated.round(6)
    array([0.707107])
    """
    states = np.asarray(states)
    negated = _require_indices("negated", negated, states.shape[:2])
    counterpart = _require_indices("counterpart", counterpart, states.shape[:2])
    lengths = np.linalg.norm(states, axis=2, keepdims=True)
    directions = states / np.where(lengths > 0, lengths, np.nan)
    similarities = np.einsum("nd,nkd->nk", _select_columns(directions, counterpart), directions)
    option_index = np.arange(states.shape[1])
    is_distractor = (
        (option_index != negated[:, None]) & (option_index != counterpart[:, None]) & ~np.isnan(similarities)
    )
    # Without a negated option there is no pair, so the other options are not distractors.
    n_distractors = np.where(negated >= 0, is_distractor.sum(axis=1), 0)
    total = np.where(is_distractor, similarities, 0.0).sum(axis=1)
    return StateSimilarity(
        _select_columns(similarities, negated),
        np.where(n_distractors > 0, total / np.maximum(n_distractors, 1), np.nan),
    )


def _select_columns(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Select values[i, index[i]] for each i; NaN where the index is -1."""
    selected = values[np.arange(len(values)), index]
    selected[index < 0] = np.nan
    return selected


def _require_scores(scores: ArrayLike, name: str = "scores") -> np.ndarray:
    scores = np.asarray(scores)
    if scores.shape[1] == 0:
        raise ValueError(f"{name}: shape {scores.shape}; expected (n, k) with k of at least 1")
    return scores


def _require_indices(name: str, column: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    column = np.asarray(column)
    if column.shape != shape[:1]:
        raise ValueError(f"{name}: shape {column.shape}; expected {shape[0]} whole numbers, one for each question")
    if (column >= shape[1]).any():
        row = int(np.argmax(column >= shape[1]))
        refuse(column[row], f"{name}, row {row + 1}", f"an option index between -1 (none) and {shape[1] - 1}")
    return column.astype(np.int64)
