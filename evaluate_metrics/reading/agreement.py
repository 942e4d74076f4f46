"""Agreement between two readings of the same answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .disease_names import CLASSES
from .diseases import Extraction

Figures = dict[str, float | int]


def compute_cohen_kappa(
    readings: Sequence[Any] | np.ndarray, other_readings: Sequence[Any] | np.ndarray, *, squared: bool = False
) -> float:
    """Compute Cohen's kappa of two readings: 1 minus the disagreement relative to that by chance.

    Args:
        readings: Shape (n,), the first reading.
        other_readings: Shape (n,), the second reading.
        squared: Whether values are numbers and the disagreement is the square of their difference (Cohen 1968,
            Psychological Bulletin 70); otherwise any two different values disagree (Cohen 1960, Educational and
            Psychological Measurement 20).

    Returns:
        Kappa; NaN without items, or if both readings have the same constant value.

    >>> compute_cohen_kappa(["yes", "no", "no"], ["yes", "no", "yes"])
    0.4
    """
    values, codes = np.unique(np.concatenate([np.asarray(readings), np.asarray(other_readings)]), return_inverse=True)
    n = len(readings)
    if not n:
        return float("nan")
    distance = (values[:, None] - values[None, :]) ** 2 if squared else 1.0 - np.eye(len(values))
    counts, other_counts = (
        np.bincount(reading_codes, minlength=len(values)) for reading_codes in (codes[:n], codes[n:])
    )
    observed_distance, chance_distance = distance[codes[:n], codes[n:]].sum() * n, counts @ distance @ other_counts
    return float(1 - observed_distance / chance_distance) if chance_distance else float("nan")


def compare_closed_readings(ours: Sequence[int | str | None], theirs: Sequence[int | str | None]) -> Figures:
    """Compare two readings of n closed answers.

    Args:
        ours: n readings; None is unread, which counts as a reading of its own.
        theirs: n readings of the same answers.

    Returns:
        same: The share of answers with the same reading; NaN without answers.
        kappa: Cohen's kappa over all answers; NaN where undefined.
        n, n_unread_ours, n_unread_theirs, n_only_ours, n_only_theirs: The counts of `agreement`.

    >>> compare_closed_readings([0, None, 1], [0, 1, 1])["n_only_theirs"]
    1
    """
    _require_same_length(ours, theirs)
    our_texts, their_texts = ([str(reading) for reading in readings] for readings in (ours, theirs))
    is_same = [our_text == their_text for our_text, their_text in zip(our_texts, their_texts, strict=True)]
    return {
        "same": float(np.mean(is_same)) if is_same else float("nan"),
        "kappa": compute_cohen_kappa(our_texts, their_texts),
        **_count_readings([reading is not None for reading in ours], [reading is not None for reading in theirs]),
    }


def agreement(ours: Sequence[Extraction], theirs: Sequence[Extraction], vocabulary: Sequence[str] = CLASSES) -> Figures:
    """Compare two readings of the diseases in n answers; unread and declined count as no label.

    Args:
        ours: n readings.
        theirs: n readings of the same answers.
        vocabulary: The labels.

    Returns:
        exact: The share of answers with the same labels; NaN without answers.
        jaccard: Labels in both readings over labels in either, counted over all answers; NaN without labels.
        kappa: Cohen's kappa over the n times len(vocabulary) decisions for a label; NaN where chance agreement is 1.
        n, n_unread_ours, n_unread_theirs: Numbers of answers, and of those that are unread or declined in a reading.
        n_only_ours, n_only_theirs: Numbers of answers that only one of the two reads.
    """
    _require_same_length(ours, theirs)
    our_labels, their_labels = (
        np.array([[label in extraction.labels for label in vocabulary] for extraction in readings], dtype=bool).reshape(
            len(readings), len(vocabulary)
        )
        for readings in (ours, theirs)
    )
    n_either = int(np.sum(our_labels | their_labels))
    return {
        "exact": float(np.mean(np.all(our_labels == their_labels, axis=1))) if len(ours) else float("nan"),
        "jaccard": int(np.sum(our_labels & their_labels)) / n_either if n_either else float("nan"),
        "kappa": compute_cohen_kappa(our_labels.ravel(), their_labels.ravel()),
        **_count_readings(
            *([extraction.outcome == "answered" for extraction in readings] for readings in (ours, theirs))
        ),
    }


def _require_same_length(ours: Sequence[Any], theirs: Sequence[Any]) -> None:
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} and {len(theirs)} readings: give two readings of the same answers")


def _count_readings(ours: Sequence[bool], theirs: Sequence[bool]) -> Figures:
    """Count the answers that each reading could read."""
    n_both = sum(is_ours and is_theirs for is_ours, is_theirs in zip(ours, theirs, strict=True))
    return {
        "n": len(ours),
        "n_unread_ours": len(ours) - sum(ours),
        "n_unread_theirs": len(theirs) - sum(theirs),
        "n_only_ours": sum(ours) - n_both,
        "n_only_theirs": sum(theirs) - n_both,
    }
