"""How far two readings of the same answers agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .disease_names import CLASSES
from .diseases import Extraction

Figures = dict[str, float | int]


def cohen_kappa(
    first: Sequence[Any] | np.ndarray, second: Sequence[Any] | np.ndarray, *, squared: bool = False
) -> float:
    """Cohen's kappa of two readings, each of shape (n,): 1 less the disagreement as a share of that by chance.

    squared: values are numbers, and disagreement grows with the square of their difference (Cohen 1968, Psychological
    Bulletin 70); else any two different values disagree (Cohen 1960, Educational and Psychological Measurement 20).
    NaN without items, or where both gave one and the same value to all of them.

    >>> cohen_kappa(["yes", "no", "no"], ["yes", "no", "yes"])
    0.4
    """
    values, codes = np.unique(np.concatenate([np.asarray(first), np.asarray(second)]), return_inverse=True)
    n = len(first)
    if not n:
        return float("nan")
    distance = (values[:, None] - values[None, :]) ** 2 if squared else 1.0 - np.eye(len(values))
    of_first, of_second = (np.bincount(part, minlength=len(values)) for part in (codes[:n], codes[n:]))
    observed, by_chance = distance[codes[:n], codes[n:]].sum() * n, of_first @ distance @ of_second
    return float(1 - observed / by_chance) if by_chance else float("nan")


def closed_agreement(ours: Sequence[int | str | None], theirs: Sequence[int | str | None]) -> Figures:
    """Of two readings of n closed answers; None: unread, which is a reading of its own.

    Returns:
        same: share of answers with the same reading; kappa: of all answers; both NaN where undefined. With the counts
        of `agreement`.

    >>> closed_agreement([0, None, 1], [0, 1, 1])["n_only_theirs"]
    1
    """
    _check(ours, theirs)
    first, second = ([str(reading) for reading in side] for side in (ours, theirs))
    same = [one == other for one, other in zip(first, second, strict=True)]
    return {
        "same": float(np.mean(same)) if same else float("nan"),
        "kappa": cohen_kappa(first, second),
        **_counts([reading is not None for reading in ours], [reading is not None for reading in theirs]),
    }


def agreement(ours: Sequence[Extraction], theirs: Sequence[Extraction], vocabulary: Sequence[str] = CLASSES) -> Figures:
    """Of two readings of the diseases in n answers; unread and declined count as no label.

    Returns:
        exact: share of texts with the same labels; jaccard: labels in both over labels in either, counted over all
        texts; kappa: over the n times len(vocabulary) decisions whether a label is there; each NaN where undefined (no
        text; no label at all; chance agreement of 1). With n, n_unread_ours and n_unread_theirs, and n_only_ours and
        n_only_theirs: answers that only one of them reads.
    """
    _check(ours, theirs)
    first, second = (
        np.array([[label in extraction.labels for label in vocabulary] for extraction in side], dtype=bool).reshape(
            len(side), len(vocabulary)
        )
        for side in (ours, theirs)
    )
    either = int(np.sum(first | second))
    return {
        "exact": float(np.mean(np.all(first == second, axis=1))) if len(ours) else float("nan"),
        "jaccard": int(np.sum(first & second)) / either if either else float("nan"),
        "kappa": cohen_kappa(first.ravel(), second.ravel()),
        **_counts(*([extraction.outcome == "answered" for extraction in side] for side in (ours, theirs))),
    }


def _check(ours: Sequence[Any], theirs: Sequence[Any]) -> None:
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} and {len(theirs)} readings: give both of the same answers")


def _counts(ours: Sequence[bool], theirs: Sequence[bool]) -> Figures:
    """Of which answers each could read."""
    both = sum(one and other for one, other in zip(ours, theirs, strict=True))
    return {
        "n": len(ours),
        "n_unread_ours": len(ours) - sum(ours),
        "n_unread_theirs": len(theirs) - sum(theirs),
        "n_only_ours": sum(ours) - both,
        "n_only_theirs": sum(theirs) - both,
    }
