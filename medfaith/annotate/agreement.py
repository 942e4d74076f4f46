"""Mean judgements of each model, and the agreement of annotators.

Means follow Figure 4, and Figure 13 for custom prompts. Agreement is measured on heatmaps of report sentences that
several annotators judged: weighted kappa (Cohen 1968, Psychological Bulletin 70) for two annotators, alpha
(Krippendorff 2004, Content Analysis, chapter 11) for more.
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
    """The mean judgements of one model.

    Attributes:
        model: The name of the model.
        custom: Whether the means are over custom prompts.
        n: The number of judgements.
        n_instances: The number of judged instances.
        n_annotators: The number of annotators.
        means: Question -> mean with its interval.
    """

    model: str
    custom: bool
    n: int
    n_instances: int
    n_annotators: int
    means: dict[str, Interval]


class Agreement(NamedTuple):
    """The agreement of annotators on one question.

    Attributes:
        question: The name of the question.
        measure: "kappa" or "alpha".
        value: The agreement; NaN if no heatmap was judged twice or the answers do not vary.
        n_annotators: The number of annotators.
        n_items: The number of heatmaps with two or more judgements.
    """

    question: str
    measure: str
    value: float
    n_annotators: int
    n_items: int


def compute_model_scores(judgements: Sequence[Judgement], seed: int) -> list[ModelScores]:
    """Compute the mean judgements of each model, report sentences before custom prompts.

    Args:
        judgements: The judgements of all annotators.
        seed: The seed of the bootstrap over patients.

    Returns:
        The means of each question with intervals, and counts of instances and annotators; a model without judgements is
        missing.
    """
    scores = []
    for custom in (False, True):
        for model in sorted({judgement.model for judgement in judgements if judgement.custom == custom}):
            own_judgements = [
                judgement for judgement in judgements if judgement.custom == custom and judgement.model == model
            ]
            groups = [judgement.patient_id for judgement in own_judgements]
            means = {
                name: bootstrap_mean(
                    [float(getattr(judgement, name)) for judgement in own_judgements],
                    groups=groups,
                    seed=seed,
                    bounds=(POINTS[0], POINTS[-1]),
                )
                for name in NAMES
            }
            counts = (
                len({judgement.instance for judgement in own_judgements}),
                len({judgement.annotator for judgement in own_judgements}),
            )
            scores.append(ModelScores(model, custom, len(own_judgements), *counts, means))
    return scores


def agreement(judgements: Sequence[Judgement]) -> list[Agreement]:
    """Compute the agreement on each question. The list is empty if only one annotator judged report sentences.

    Args:
        judgements: The judgements of all annotators.

    Returns:
        Weighted kappa for two annotators, Krippendorff's alpha for more, of each question.
    """
    report_judgements = [judgement for judgement in judgements if not judgement.custom]
    annotators = sorted({judgement.annotator for judgement in report_judgements})
    if len(annotators) < 2:
        return []
    items = sorted({judgement.item for judgement in report_judgements})
    agreements = []
    for name in NAMES:
        ratings = np.full((len(annotators), len(items)), np.nan)
        for judgement in report_judgements:
            ratings[annotators.index(judgement.annotator), items.index(judgement.item)] = getattr(judgement, name)
        shared = ratings[:, (~np.isnan(ratings)).sum(axis=0) >= 2]
        measure = "kappa" if len(annotators) == 2 else "alpha"
        value = compute_cohen_kappa(*shared, squared=True) if measure == "kappa" else compute_ordinal_alpha(shared)
        agreements.append(Agreement(name, measure, value, len(annotators), shared.shape[1]))
    return agreements


def compute_ordinal_alpha(ratings: np.ndarray) -> float:
    """Compute Krippendorff's alpha with the ordinal difference, for points from 1 to 5.

    Args:
        ratings: Shape (annotators, items), NaN if an annotator did not judge an item.

    Returns:
        Alpha; NaN if no item has two judgements or all judgements are equal.

    >>> compute_ordinal_alpha(np.array([[1, 2, 5], [1, 2, 5], [1, 2, np.nan]]))
    1.0
    """
    counts = np.stack([(ratings == points).sum(axis=0) for points in POINTS], axis=1).astype(np.float64)
    counts = counts[counts.sum(axis=1) >= 2]
    pairs = counts[:, :, None] * counts[:, None, :] - counts[:, :, None] * np.eye(len(POINTS))
    coincidences = (pairs / (counts.sum(axis=1) - 1)[:, None, None]).sum(axis=0)
    totals = coincidences.sum(axis=0)
    below = np.cumsum(totals) - totals / 2  # differences of two values: all points between them, and half of each
    difference = (below[:, None] - below[None, :]) ** 2
    expected = (np.outer(totals, totals) * difference).sum()
    if not expected:
        return float("nan")
    return float(1 - (totals.sum() - 1) * (coincidences * difference).sum() / expected)
