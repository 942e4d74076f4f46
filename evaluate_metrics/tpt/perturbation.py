"""Answers that turn from Yes to No when the question or the image is perturbed (HEAL-MedVQA, section 3.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..confidence.score import bootstrap_mean
from ..reading.outcome import DECLINED, UNREAD
from ..reading.yes_no import YesNoOutcome, read_yes_no

ORIGINAL = "original"


def sensitivity(
    name: str,
    kinds: Sequence[str],
    predictions: Sequence[str | None],
    references: Sequence[Mapping[str, Any]],
    *,
    questions: Sequence[str] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """`sensitivity_of` responses that are read here.

    Args:
        name, kinds, references, options: see `sensitivity_of`.
        predictions: n responses, free text or "yes" / "no".
        questions: n questions; with them a sentence counts only where it speaks of what was asked.

    Raises:
        ValueError: as `sensitivity_of`, or another number of questions.
    """
    asked = questions if questions is not None else [""] * len(predictions)
    if len(asked) != len(predictions):
        raise ValueError(f"{len(asked)} questions for {len(predictions)} predictions: give one for each")
    _originals(predictions, references, kinds)  # a bad row is named before anything is read
    outcomes: list[YesNoOutcome] = [
        read_yes_no(text, question) for text, question in zip(predictions, asked, strict=True)
    ]
    return sensitivity_of(name, kinds, outcomes, references, **options)


def sensitivity_of(
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
    """Share of (true positive, perturbed) pairs whose perturbed answer is No.

    A true positive is an original, a closed question whose gold is Yes, that the model answers Yes. An original that is
    unread or declined is no true positive. A perturbed answer that is unread or declined did not turn to No: its pair
    stays in the denominator, and is counted.

    Args:
        name: of the score, the prefix of its keys.
        kinds: of perturbation; with more than one, each has a score of its own too.
        outcomes: n readings, "yes", "no", "declined" or "unread".
        references: n dicts of original_id, kind ("original" or one of kinds) and image_id of the original's image.
        n_resamples, seed, confidence_level: of the bootstrap interval, which draws whole images.
        per_sample: whether to return each response's reading as well.

    Returns:
        unrounded shares in [0, 1], NaN where there is no pair, beside the counts (`n_...`) behind them; on request
        "per_sample": n dicts of outcome, true_positive (None for a perturbed one) and changed (None outside a pair).

    Raises:
        ValueError: lengths differ, a kind is unknown, or two originals have one id.
    """
    rows, images = _originals(outcomes, references, kinds)
    positive = {original for original, row in rows.items() if outcomes[row] == "yes"}
    suffixes = _pairs(references, kinds, positive)
    how = {"n_resamples": n_resamples, "seed": seed, "confidence_level": confidence_level}
    scores: dict[str, Any] = {}
    for suffix, members in suffixes.items():
        originals = [references[row]["original_id"] for row in members]
        interval = bootstrap_mean(
            [outcomes[row] == "no" for row in members],
            groups=[images[original] for original in originals],
            bounds=(0, 1),
            **how,
        )
        scores |= {
            f"{name}{suffix}": interval.mean,
            f"{name}{suffix}_ci_low": interval.low,
            f"{name}{suffix}_ci_high": interval.high,
            f"n_pairs{suffix}": len(members),
            f"n_changed{suffix}": sum(outcomes[row] == "no" for row in members),
            f"n_unparsed_perturbed{suffix}": sum(outcomes[row] == UNREAD for row in members),
            f"n_declined_perturbed{suffix}": sum(outcomes[row] == DECLINED for row in members),
            f"n_without_partner{suffix}": len(positive - set(originals)),
            f"n_images{suffix}": interval.n_groups,
        }
    scores |= {
        "n_originals": len(rows),
        "n_true_positives": len(positive),
        "n_unparsed_originals": sum(outcomes[row] == UNREAD for row in rows.values()),
        "n_declined_originals": sum(outcomes[row] == DECLINED for row in rows.values()),
        "n_without_original": sum(reference["original_id"] not in rows for reference in references),
    }
    if per_sample:
        scores["per_sample"] = _samples(outcomes, references, set(suffixes[""]))
    return scores


def _pairs(
    references: Sequence[Mapping[str, Any]], kinds: Sequence[str], positive: Collection[str]
) -> dict[str, list[int]]:
    """Rows of the perturbed answers to true positives, by the ending of their score: all, and each of several kinds."""
    of = {
        kind: [
            row
            for row, reference in enumerate(references)
            if reference["kind"] == kind and reference["original_id"] in positive
        ]
        for kind in kinds
    }
    return {"": [row for rows in of.values() for row in rows]} | (
        {f"_{kind}": rows for kind, rows in of.items()} if len(kinds) > 1 else {}
    )


def _samples(
    outcomes: Sequence[str], references: Sequence[Mapping[str, Any]], paired: Collection[int]
) -> list[dict[str, Any]]:
    return [
        {
            "outcome": outcome,
            "true_positive": outcome == "yes" if reference["kind"] == ORIGINAL else None,
            "changed": outcome == "no" if row in paired else None,
        }
        for row, (outcome, reference) in enumerate(zip(outcomes, references, strict=True))
    ]


def _originals(
    predictions: Sequence[str | None], references: Sequence[Mapping[str, Any]], kinds: Sequence[str]
) -> tuple[dict[str, int], dict[str, str]]:
    """Row and image of each original, by its id."""
    if len(predictions) != len(references):
        raise ValueError(f"{len(predictions)} predictions for {len(references)} references: give one for each")
    for row, reference in enumerate(references):
        if reference["kind"] not in {ORIGINAL, *kinds}:
            raise ValueError(
                f"references, row {row + 1}, column 'kind': {reference['kind']!r}; "
                f"expected one of {', '.join([ORIGINAL, *kinds])}"
            )
    rows = {reference["original_id"]: row for row, reference in enumerate(references) if reference["kind"] == ORIGINAL}
    counts = Counter(reference["original_id"] for reference in references if reference["kind"] == ORIGINAL)
    twice = next((original for original, count in counts.items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"references, column 'original_id': {twice!r} has {counts[twice]} originals; expected one")
    return rows, {original: references[row]["image_id"] for original, row in rows.items()}
