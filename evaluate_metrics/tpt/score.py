"""Textual Perturbation Test (HEAL-MedVQA, section 3.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..arguments.schema import check_arguments
from ..reading.yes_no import YesNoOutcome
from .perturbation import OUTCOMES, PREDICTIONS, REFERENCES, score_sensitivity, score_sensitivity_of_outcomes

KINDS = ("anatomy", "disease")


@check_arguments(like="references", predictions=PREDICTIONS, references=REFERENCES)
def score_predictions(
    predictions: Sequence[str | None], references: Sequence[Mapping[str, Any]], **options: Any
) -> dict[str, Any]:
    """Compute TPT: of the Yes answers to positive questions, the share that becomes No when the question changes.

    The anatomy or the disease in the question is swapped, so that No is right.

    Args:
        predictions: n responses, to originals and to perturbed questions in any order.
        references: n dicts of original_id, kind ("original", "anatomy" or "disease") and image_id.
        options: questions, n_resamples, seed, confidence_level and per_sample of `perturbation.score_sensitivity`.

    Returns:
        See `perturbation.score_sensitivity`.

    >>> rows = [{"original_id": "q1", "kind": kind, "image_id": "i1"} for kind in ("original", *KINDS)]
    >>> scores = score_predictions(["Yes", "No", "Yes"], rows)
    >>> scores["tpt"], scores["n_pairs"]
    (0.5, 2)
    """
    return score_sensitivity("tpt", KINDS, predictions, references, **options)


@check_arguments(like="references", outcomes=OUTCOMES, references=REFERENCES)
def score_outcomes(
    outcomes: Sequence[YesNoOutcome], references: Sequence[Mapping[str, Any]], **options: Any
) -> dict[str, Any]:
    """Score responses that are read already, like `score_predictions`.

    Args:
        outcomes: n readings, "yes", "no", "declined" or "unread".
        references: See `score_predictions`.
        options: n_resamples, seed, confidence_level and per_sample of `perturbation.score_sensitivity_of_outcomes`.

    Returns:
        See `score_predictions`.

    >>> rows = [{"original_id": "q1", "kind": kind, "image_id": "i1"} for kind in ("original", *KINDS)]
    >>> score_outcomes(["yes", "no", "declined"], rows)["n_declined_perturbed"]
    1
    """
    return score_sensitivity_of_outcomes("tpt", KINDS, outcomes, references, **options)
