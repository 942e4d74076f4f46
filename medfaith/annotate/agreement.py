"""What annotators said of each model, and how far they agree.

Means as in Figure 4, and of custom prompts apart as in Figure 13. Agreement is measured on heatmaps of report sentences
that several annotators judged: weighted kappa (Cohen 1968, Psychological Bulletin 70) of two annotators, alpha
(Krippendorff 2004, Content Analysis, chapter 11) of more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from medfaith.evaluate_metrics.confidence.score import Interval, bootstrap_mean
from medfaith.evaluate_metrics.reading.agreement import compute_cohen_kappa

from .answers import POINTS, Judgement
from .wording import QUESTIONS

NAMES = tuple(question.name for question in QUESTIONS)


class ModelScores(NamedTuple):
    """One model's means; n: judgements, of how many instances, by how many annotators."""

    model: str
    custom: bool
    n: int
    n_instances: int
    n_annotators: int
    means: dict[str, Interval]


class Agreement(NamedTuple):
    """measure: kappa or alpha; value: NaN where nobody's answers vary, or no heatmap was judged twice."""

    question: str
    measure: str
    value: float
    n_annotators: int
    n_items: int


def model_scores(judgements: Sequence[Judgement], seed: int) -> list[ModelScores]:
    """Of each model, report sentences before custom prompts. Intervals: bootstrap over patients."""
    found = []
    for custom in (False, True):
        for model in sorted({one.model for one in judgements if one.custom == custom}):
            of = [one for one in judgements if one.custom == custom and one.model == model]
            groups = [one.patient_id for one in of]
            means = {
                name: bootstrap_mean(
                    [float(getattr(one, name)) for one in of], groups=groups, seed=seed, bounds=(POINTS[0], POINTS[-1])
                )
                for name in NAMES
            }
            counts = (len({one.instance for one in of}), len({one.annotator for one in of}))
            found.append(ModelScores(model, custom, len(of), *counts, means))
    return found


def agreement(judgements: Sequence[Judgement]) -> list[Agreement]:
    """Of each question; empty where only one annotator judged report sentences."""
    of_report = [one for one in judgements if not one.custom]
    annotators = sorted({one.annotator for one in of_report})
    if len(annotators) < 2:
        return []
    items = sorted({one.item for one in of_report})
    found = []
    for name in NAMES:
        ratings = np.full((len(annotators), len(items)), np.nan)
        for one in of_report:
            ratings[annotators.index(one.annotator), items.index(one.item)] = getattr(one, name)
        shared = ratings[:, (~np.isnan(ratings)).sum(axis=0) >= 2]
        measure = "kappa" if len(annotators) == 2 else "alpha"
        value = compute_cohen_kappa(*shared, squared=True) if measure == "kappa" else ordinal_alpha(shared)
        found.append(Agreement(name, measure, value, len(annotators), shared.shape[1]))
    return found


def ordinal_alpha(ratings: np.ndarray) -> float:
    """Krippendorff's alpha with the ordinal difference, of points from 1 to 5.

    Args:
        ratings: (annotators, items), NaN where an annotator did not judge an item.

    Returns:
        NaN where no item has two judgements, or all of them are equal.

    >>> ordinal_alpha(np.array([[1, 2, 5], [1, 2, 5], [1, 2, np.nan]]))
    1.0
    """
    counts = np.stack([(ratings == points).sum(axis=0) for points in POINTS], axis=1).astype(np.float64)
    counts = counts[counts.sum(axis=1) >= 2]
    pairs = counts[:, :, None] * counts[:, None, :] - counts[:, :, None] * np.eye(len(POINTS))
    coincidences = (pairs / (counts.sum(axis=1) - 1)[:, None, None]).sum(axis=0)
    totals = coincidences.sum(axis=0)
    below = np.cumsum(totals) - totals / 2  # of two values, what lies between them and half of each
    difference = (below[:, None] - below[None, :]) ** 2
    expected = (np.outer(totals, totals) * difference).sum()
    if not expected:
        return float("nan")
    return float(1 - (totals.sum() - 1) * (coincidences * difference).sum() / expected)
