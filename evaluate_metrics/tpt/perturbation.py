"""Answers that change from Yes to No when the question or the image is perturbed (HEAL-MedVQA, section 3.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..arguments.kinds import COUNT, FLAG, LABEL, LEVEL, SEED, TEXT, TEXTS, one_of, optional, rows_of, sequence
from ..arguments.schema import check_arguments
from ..confidence.score import bootstrap_mean
from ..reading.outcome import DECLINED, UNREAD
from ..reading.yes_no import YesNoOutcome, read_yes_no

ORIGINAL = "original"

REFERENCES = rows_of({"original_id": LABEL, "kind": TEXT, "image_id": LABEL})
PREDICTIONS = sequence(optional(TEXT), is_column=True)
QUESTIONS = optional(sequence(TEXT, is_column=True))
OUTCOMES = sequence(one_of(("yes", "no", DECLINED, UNREAD)), is_column=True)


@check_arguments(
    like="references",
    name=TEXT,
    kinds=TEXTS,
    predictions=PREDICTIONS,
    references=REFERENCES,
    questions=QUESTIONS,
)
def score_sensitivity(
    name: str,
    kinds: Sequence[str],
    predictions: Sequence[str | None],
    references: Sequence[Mapping[str, Any]],
    *,
    questions: Sequence[str] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Read responses, and score them by `score_sensitivity_of_outcomes`.

    Args:
        name: See `score_sensitivity_of_outcomes`.
        kinds: See `score_sensitivity_of_outcomes`.
        predictions: n responses, free text or "yes" / "no".
        references: See `score_sensitivity_of_outcomes`.
        questions: n questions; with them a sentence counts only if it is about the question.
        options: Further arguments of `score_sensitivity_of_outcomes`.

    Returns:
        See `score_sensitivity_of_outcomes`.

    Raises:
        ValueError: See `score_sensitivity_of_outcomes`, or another number of questions.
    """
    question_texts = questions if questions is not None else [""] * len(predictions)
    _find_originals(predictions, references, kinds)  # an error names a bad row before the responses are read
    outcomes: list[YesNoOutcome] = [
        read_yes_no(text, question) for text, question in zip(predictions, question_texts, strict=True)
    ]
    return score_sensitivity_of_outcomes(name, kinds, outcomes, references, **options)


@check_arguments(
    like="references",
    name=TEXT,
    kinds=TEXTS,
    outcomes=OUTCOMES,
    references=REFERENCES,
    n_resamples=COUNT,
    seed=SEED,
    confidence_level=LEVEL,
    per_sample=FLAG,
)
def score_sensitivity_of_outcomes(  # noqa: PLR0913 (options of the metric)
    name: str,
    kinds: Sequence[str],
    outcomes: Sequence[YesNoOutcome],
    references: Sequence[Mapping[str, Any]],
    *,
    n_resamples: int = 2000,
    seed: int = 42,
    confidence_level: float = 0.95,
    per_sample: bool = False,
) -> dict[str, Any]:
    """Compute the share of (true positive, perturbed) pairs whose perturbed answer is No.

    A true positive is an original, a closed question with the gold answer Yes, that the model answers Yes. An unread or
    declined original is no true positive. An unread or declined perturbed answer did not change to No: its pair stays
    in the denominator, and is counted.

    Args:
        name: Name of the score, the prefix of its keys.
        kinds: Kinds of perturbation; if there are several, each also has its own score.
        outcomes: n readings, "yes", "no", "declined" or "unread".
        references: n dicts of original_id, kind ("original" or one of kinds) and image_id of the original's image.
        n_resamples: Number of bootstrap resamples; they draw whole images.
        seed: Seed of the resampling.
        confidence_level: Level of the intervals, between 0 and 1.
        per_sample: Whether to return each response's reading as well.

    Returns:
        Unrounded shares in [0, 1], NaN without a pair, with their counts (`n_...`); on request "per_sample": n dicts of
        outcome, true_positive (None for a perturbed response) and changed (None outside a pair).

    Raises:
        ValueError: Different lengths, an unknown kind, or two originals with the same id.
    """
    rows, images = _find_originals(outcomes, references, kinds)
    true_positives = {original_id for original_id, row in rows.items() if outcomes[row] == "yes"}
    rows_by_suffix = _select_pairs(references, kinds, true_positives)
    options = {"n_resamples": n_resamples, "seed": seed, "confidence_level": confidence_level}
    scores: dict[str, Any] = {}
    for suffix, pair_rows in rows_by_suffix.items():
        original_ids = [references[row]["original_id"] for row in pair_rows]
        interval = bootstrap_mean(
            [outcomes[row] == "no" for row in pair_rows],
            groups=[images[original_id] for original_id in original_ids],
            bounds=(0, 1),
            **options,
        )
        scores |= {
            f"{name}{suffix}": interval.mean,
            f"{name}{suffix}_ci_low": interval.low,
            f"{name}{suffix}_ci_high": interval.high,
            f"n_pairs{suffix}": len(pair_rows),
            f"n_changed{suffix}": sum(outcomes[row] == "no" for row in pair_rows),
            f"n_unparsed_perturbed{suffix}": sum(outcomes[row] == UNREAD for row in pair_rows),
            f"n_declined_perturbed{suffix}": sum(outcomes[row] == DECLINED for row in pair_rows),
            f"n_without_partner{suffix}": len(true_positives - set(original_ids)),
            f"n_images{suffix}": interval.n_groups,
        }
    scores |= {
        "n_originals": len(rows),
        "n_true_positives": len(true_positives),
        "n_unparsed_originals": sum(outcomes[row] == UNREAD for row in rows.values()),
        "n_declined_originals": sum(outcomes[row] == DECLINED for row in rows.values()),
        "n_without_original": sum(reference["original_id"] not in rows for reference in references),
    }
    if per_sample:
        scores["per_sample"] = _build_samples(outcomes, references, set(rows_by_suffix[""]))
    return scores


def _select_pairs(
    references: Sequence[Mapping[str, Any]], kinds: Sequence[str], true_positives: Collection[str]
) -> dict[str, list[int]]:
    """Select the rows of the perturbed answers to true positives, by the suffix of their score: all, and each kind."""
    rows_by_kind = {
        kind: [
            row
            for row, reference in enumerate(references)
            if reference["kind"] == kind and reference["original_id"] in true_positives
        ]
        for kind in kinds
    }
    return {"": [row for rows in rows_by_kind.values() for row in rows]} | (
        {f"_{kind}": rows for kind, rows in rows_by_kind.items()} if len(kinds) > 1 else {}
    )


def _build_samples(
    outcomes: Sequence[str], references: Sequence[Mapping[str, Any]], pair_rows: Collection[int]
) -> list[dict[str, Any]]:
    return [
        {
            "outcome": outcome,
            "true_positive": outcome == "yes" if reference["kind"] == ORIGINAL else None,
            "changed": outcome == "no" if row in pair_rows else None,
        }
        for row, (outcome, reference) in enumerate(zip(outcomes, references, strict=True))
    ]


def _find_originals(
    predictions: Sequence[str | None], references: Sequence[Mapping[str, Any]], kinds: Sequence[str]
) -> tuple[dict[str, int], dict[str, str]]:
    """Return the row and the image of each original, by its id.

    Raise ValueError for a reference of another kind, or for two originals of one id.
    """
    for row, reference in enumerate(references):
        if reference["kind"] not in {ORIGINAL, *kinds}:
            raise ValueError(
                f"references, row {row + 1}, column 'kind': {reference['kind']!r}; "
                f"expected one of {', '.join([ORIGINAL, *kinds])}"
            )
    rows = {reference["original_id"]: row for row, reference in enumerate(references) if reference["kind"] == ORIGINAL}
    counts = Counter(reference["original_id"] for reference in references if reference["kind"] == ORIGINAL)
    repeated_id = next((original_id for original_id, count in counts.items() if count > 1), None)
    if repeated_id is not None:
        raise ValueError(
            f"references, column 'original_id': {repeated_id!r} has {counts[repeated_id]} originals; expected one"
        )
    return rows, {original_id: references[row]["image_id"] for original_id, row in rows.items()}
