"""Scores of polarity protocols: accuracy, negated-option errors, and what the verifier changes (CXR-ContraBench)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..reading.choice import parse_answer
from .verifier import verify

FAILURES = {"none": "n_unparsed", "ambiguous": "n_ambiguous", "out_of_range": "n_invalid"}


class Samples(NamedTuple):
    """One entry a question, all arrays of shape (n,).

    choice: predicted option index, -1 where nothing could be read; verified: the same after the verifier.
    answer, negated, counterpart: indices of the gold, the negated option and its positive counterpart, -1 for none.
    polarity: "presence", "absence" or "other"; outcome: how reading went (`choice.Outcome`); finding: the target.
    """

    choice: np.ndarray
    verified: np.ndarray
    answer: np.ndarray
    negated: np.ndarray
    counterpart: np.ndarray
    polarity: np.ndarray
    outcome: np.ndarray
    finding: np.ndarray

    def where(self, mask: np.ndarray) -> Samples:
        return Samples(*(column[mask] for column in self))


def score_predictions(
    predictions: Sequence[str | None],
    references: Sequence[Mapping[str, Any]],
    *,
    trigger: str = "original",
    replacement: str = "slot0",
    per_sample: bool = False,
) -> dict[str, Any]:
    """Parse, verify and score.

    Args:
        predictions: n responses, free text or a letter.
        references: n rows with question, options, answer, negated, counterpart, polarity, finding (indices are 0-based,
            -1 for none).
        trigger, replacement: see `verifier.verify`.
        per_sample: whether to return each question's reading and verdict as well.

    Returns:
        the keys of `polarity_scores` over all rows; "by_finding": {finding: the same keys}; on request "per_sample":
        n dicts of choice, outcome, correct, verified_choice, verified_correct, fired, reason (choices None if unread).

    Raises:
        ValueError: lengths differ, or a row whose answer, negated or counterpart is not one of its options.
    """
    if len(predictions) != len(references):
        raise ValueError(f"{len(predictions)} predictions for {len(references)} references: give one for each")
    seen: dict[tuple, tuple] = {}  # benchmarks repeat few wordings; each is read once
    read = []
    for row, (text, reference) in enumerate(zip(predictions, references, strict=True)):
        options = tuple(reference["options"])
        _check_row(row, reference, len(options))
        key = (text, reference["question"], options)
        if key not in seen:
            answer = parse_answer(text, options, reference["question"])
            verdict = verify(reference["question"], options, answer.choice, trigger=trigger, replacement=replacement)
            seen[key] = (answer, verdict)
        read.append(seen[key])
    samples = _samples(read, references)
    result: dict[str, Any] = {**polarity_scores(samples), "by_finding": scores_by_finding(samples)}
    if per_sample:
        correct, verified = samples.choice == samples.answer, samples.verified == samples.answer
        result["per_sample"] = [
            {
                "choice": answer.choice,
                "outcome": answer.outcome,
                "correct": bool(correct[row]),
                "verified_choice": verdict.choice,
                "verified_correct": bool(verified[row]),
                "fired": verdict.fired,
                "reason": verdict.reason,
            }
            for row, (answer, verdict) in enumerate(read)
        ]
    return result


def polarity_scores(samples: Samples) -> dict[str, float | int]:
    """Aggregates over samples: fractions in [0, 1], unrounded, beside the counts (`n_...`) behind them.

    A fraction of nothing is NaN; its denominator says so. `n_reversals` counts the negated option chosen on a presence
    question and `n_contradictions` on an absence question, over `n_presence` and `n_absence` questions that have one;
    `n_wrong_with_negated` counts those of any polarity that are also incorrect, over `n_wrong` (section 3.1, Table 11).
    `n_repairable_reversals` are the incorrect reversals that the verifier remaps to the row's one counterpart.
    Unread responses stay in every denominator. Keys ending in `_verified` are after the verifier.
    """
    n = len(samples.choice)
    before, after = (_counts(samples, choice) for choice in (samples.choice, samples.verified))
    correct, correct_after = samples.choice == samples.answer, samples.verified == samples.answer
    reversal = (samples.polarity == "presence") & (samples.negated >= 0) & (samples.choice == samples.negated)
    repaired = reversal & ~correct & (samples.counterpart >= 0) & (samples.verified == samples.counterpart)
    changed = int(np.sum(samples.choice != samples.verified))
    failures = {name: int(np.sum(samples.outcome == outcome)) for outcome, name in FAILURES.items()}
    return {
        "n": n,
        **before,
        "n_repairable_reversals": int(np.sum(repaired)),
        **failures,
        "parse_failure_rate": _fraction(sum(failures.values()), n),
        **{f"{name}_verified": value for name, value in after.items() if name not in {"n_presence", "n_absence"}},
        "accuracy_delta": after["accuracy"] - before["accuracy"],
        "n_changed": changed,
        "coverage": _fraction(changed, n),
        "n_improved": int(np.sum(~correct & correct_after)),
        "n_worsened": int(np.sum(correct & ~correct_after)),
    }


def scores_by_finding(samples: Samples) -> dict[str, dict[str, float | int]]:
    """`polarity_scores` of each finding's samples, findings in alphabetical order."""
    return {
        str(finding): polarity_scores(samples.where(samples.finding == finding))
        for finding in np.unique(samples.finding)
    }


def _counts(samples: Samples, choice: np.ndarray) -> dict[str, float | int]:
    has_negated = samples.negated >= 0
    presence = has_negated & (samples.polarity == "presence")
    absence = has_negated & (samples.polarity == "absence")
    chose_negated = has_negated & (choice == samples.negated)
    wrong = choice != samples.answer
    n_correct, n_wrong = int(np.sum(~wrong)), int(np.sum(wrong))
    n_presence, n_absence = int(np.sum(presence)), int(np.sum(absence))
    n_reversals, n_contradictions = int(np.sum(presence & chose_negated)), int(np.sum(absence & chose_negated))
    n_wrong_with_negated = int(np.sum(wrong & chose_negated))
    return {
        "n_correct": n_correct,
        "accuracy": _fraction(n_correct, len(choice)),
        "n_presence": n_presence,
        "n_reversals": n_reversals,
        "reversal_rate": _fraction(n_reversals, n_presence),
        "n_absence": n_absence,
        "n_contradictions": n_contradictions,
        "contradiction_rate": _fraction(n_contradictions, n_absence),
        "n_wrong": n_wrong,
        "n_wrong_with_negated": n_wrong_with_negated,
        "wrong_with_negated_rate": _fraction(n_wrong_with_negated, n_wrong),
    }


def _fraction(count: int, total: int) -> float:
    return count / total if total else float("nan")


def _samples(read: Sequence[tuple], references: Sequence[Mapping[str, Any]]) -> Samples:
    def index(choice: int | None) -> int:
        return -1 if choice is None else choice

    def integers(values) -> np.ndarray:
        return np.array(list(values), dtype=np.int64)

    def strings(values) -> np.ndarray:
        return np.array(list(values), dtype=str)

    return Samples(
        choice=integers(index(answer.choice) for answer, _ in read),
        verified=integers(index(verdict.choice) for _, verdict in read),
        answer=integers(reference["answer"] for reference in references),
        negated=integers(reference["negated"] for reference in references),
        counterpart=integers(reference["counterpart"] for reference in references),
        polarity=strings(reference["polarity"] for reference in references),
        outcome=strings(answer.outcome for answer, _ in read),
        finding=strings(reference["finding"] for reference in references),
    )


def _check_row(row: int, reference: Mapping[str, Any], n_options: int) -> None:
    for column, lowest in (("answer", 0), ("negated", -1), ("counterpart", -1)):
        value = reference[column]
        if not lowest <= value < n_options:
            raise ValueError(
                f"references, row {row + 1}, column {column!r}: {value}; expected an index into its {n_options} options"
                + (" or -1" if lowest else "")
            )
