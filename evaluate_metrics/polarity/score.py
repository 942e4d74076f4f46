"""Scores of polarity protocols: accuracy, negated-option errors, and the changes by the verifier (CXR-ContraBench)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arguments.arrays import is_whole, refuse
from ..arguments.kinds import (
    FLAG,
    TEXT,
    TEXTS,
    choices,
    indices,
    one_of,
    optional,
    read_later,
    record,
    rows_of,
    sequence,
)
from ..arguments.schema import check_arguments
from ..reading.choice import Answer, parse_answer
from ..reading.outcome import DECLINED, EVIDENCE, UNREAD
from .errors import ASKED, POLARITIES, Kind, can_err, chose_negated, is_error, is_from_prose
from .verifier import REPLACEMENT, TRIGGER, Verdict, verify_answer

# Reason of an unread answer -> the key of its count; any other reason counts as unparsed.
FAILURES = {"ambiguous": "n_ambiguous", "out_of_range": "n_invalid", "cut": "n_cut"}


_REFERENCES = rows_of(
    {
        "question": TEXT,
        "options": TEXTS,
        "answer": read_later("index"),
        "negated": read_later("index"),
        "counterpart": read_later("index"),
        "polarity": one_of(POLARITIES),
        "finding": TEXT,
    }
)


class Samples(NamedTuple):
    """One entry per question, all arrays of shape (n,).

    Attributes:
        choice: Predicted option index, -1 if nothing could be read.
        verified: The same after the verifier.
        answer: Index of the gold option.
        negated: Index of the negated option, -1 for none.
        counterpart: Index of its positive counterpart, -1 for none.
        polarity: "presence", "absence" or "other".
        outcome: Outcome of reading (`reading.outcome`): answered, declined or unread.
        reason: The reason if it is unread.
        evidence: The source of the choice.
        finding: The finding of the question.
    """

    choice: np.ndarray
    verified: np.ndarray
    answer: np.ndarray
    negated: np.ndarray
    counterpart: np.ndarray
    polarity: np.ndarray
    outcome: np.ndarray
    reason: np.ndarray
    evidence: np.ndarray
    finding: np.ndarray

    def where(self, mask: np.ndarray) -> Samples:
        """Select the samples of a mask.

        Args:
            mask: Bool, shape (n,), or indices.

        Returns:
            The selected samples.
        """
        return Samples(*(column[mask] for column in self))


_SAMPLES = record(
    Samples,
    choice=indices(-1),
    verified=indices(-1),
    answer=indices(0),
    negated=indices(-1),
    counterpart=indices(-1),
    polarity=choices(POLARITIES),
    evidence=choices(("", *EVIDENCE)),
)


@check_arguments(
    like="references",
    predictions=sequence(optional(TEXT), is_column=True),
    references=_REFERENCES,
    trigger=TRIGGER,
    replacement=REPLACEMENT,
    verify_prose=FLAG,
    per_sample=FLAG,
)
def score_predictions(
    predictions: Sequence[str | None],
    references: Sequence[Mapping[str, Any]],
    *,
    trigger: str = "original",
    replacement: str = "slot0",
    verify_prose: bool = False,
    per_sample: bool = False,
) -> dict[str, Any]:
    """Parse, verify and score responses.

    Args:
        predictions: n responses, free text or a letter.
        references: n rows with question, options, answer, negated, counterpart, polarity, finding (indices are 0-based,
            -1 for none).
        trigger: See `verifier.verify_answer`.
        replacement: See `verifier.verify_answer`.
        verify_prose: See `verifier.verify_answer`.
        per_sample: Whether to return each question's reading and verdict as well.

    Returns:
        The keys of `polarity_scores` over all rows; "by_finding": {finding: the same keys}; on request "per_sample": n
        dicts of choice, outcome, stage, unread_reason, evidence, correct, verified_choice, verified_correct, fired,
        reason (of the verifier; choices are None if unread or declined).

    Raises:
        ValueError: Different lengths, or a row that `check_references` rejects.
    """
    _require_indices(references)
    readings_by_key: dict[tuple, tuple[Answer, Verdict]] = {}  # each distinct wording is read once
    readings = []
    for text, reference in zip(predictions, references, strict=True):
        question, options = reference["question"], tuple(reference["options"])
        key = (text, question, options)
        if key not in readings_by_key:
            answer = parse_answer(text, options, question)
            verifier_options = {"trigger": trigger, "replacement": replacement, "verify_prose": verify_prose}
            readings_by_key[key] = (answer, verify_answer(question, options, answer, **verifier_options))
        readings.append(readings_by_key[key])
    samples = _build_samples(readings, references)
    result: dict[str, Any] = {**polarity_scores(samples), "by_finding": scores_by_finding(samples)}
    if per_sample:
        is_correct, is_verified_correct = samples.choice == samples.answer, samples.verified == samples.answer
        result["per_sample"] = [
            {
                "choice": answer.choice,
                "outcome": answer.outcome,
                "stage": answer.stage,
                "unread_reason": answer.reason,
                "evidence": answer.evidence,
                "correct": bool(is_correct[row]),
                "verified_choice": verdict.choice,
                "verified_correct": bool(is_verified_correct[row]),
                "fired": verdict.fired,
                "reason": verdict.reason,
            }
            for row, (answer, verdict) in enumerate(readings)
        ]
    return result


@check_arguments(references=_REFERENCES)
def check_references(references: Iterable[Mapping[str, Any]]) -> None:
    """Require rows with the types and meanings that the metric expects.

    Args:
        references: The rows.

    Raises:
        ValueError: `options` is not a list of texts, `polarity` is not one of `errors.POLARITIES`, or `answer`,
            `negated` or `counterpart` is not an integer index into the options (0.5, True and "1" are not). The message
            names the row and the column.
    """
    _require_indices(references)


def _require_indices(references: Iterable[Mapping[str, Any]]) -> None:
    for row, reference in enumerate(references):
        n_options = len(reference["options"])
        for column, lowest in (("answer", 0), ("negated", -1), ("counterpart", -1)):
            value = reference[column]
            if not is_whole(value) or not lowest <= value < n_options:
                none = " or -1" if lowest else ""
                place = f"references, row {row + 1}, column {column!r}"
                refuse(value, place, f"an index into its {n_options} options{none}")


@check_arguments(samples=_SAMPLES)
def polarity_scores(samples: Samples) -> dict[str, float | int]:
    """Aggregate samples to fractions in [0, 1], unrounded, with their counts (`n_...`).

    A fraction of nothing is NaN, and its denominator is 0. `n_reversals` and `n_contradictions` count the errors of
    `errors.is_error` that were read from a letter or an option's text, over the `n_presence` and `n_absence` questions
    that can have one; `n_..._from_prose` count the errors read from sentences, over the same questions.
    `n_wrong_with_negated` counts wrong answers that are the negated option, of any polarity, over `n_wrong` (section
    3.1, Table 11); errors from prose again have their own count. `n_repairable_reversals` are the reversals, without
    those from prose, that the verifier replaces by the row's one counterpart. Unread and declined responses are wrong:
    they stay in every denominator. `parse_failure_rate` counts the unread ones and `declined_rate` the declined ones.
    Keys ending in `_verified` are after the verifier.

    Args:
        samples: The samples.

    Returns:
        The scores and counts.
    """
    n = len(samples.choice)
    before, after = (_count_errors(samples, choice) for choice in (samples.choice, samples.verified))
    is_correct, is_correct_after = samples.choice == samples.answer, samples.verified == samples.answer
    is_repaired = (
        _find_errors(samples, "reversal", samples.choice)
        & ~is_from_prose(samples.evidence)
        & (samples.counterpart >= 0)
        & (samples.verified == samples.counterpart)
    )
    n_changed = int(np.sum(samples.choice != samples.verified))
    return {
        "n": n,
        **before,
        "n_repairable_reversals": int(np.sum(is_repaired)),
        **_count_outcomes(samples),
        **{f"{name}_verified": value for name, value in after.items() if name not in {"n_presence", "n_absence"}},
        "accuracy_delta": after["accuracy"] - before["accuracy"],
        "n_changed": n_changed,
        "coverage": _compute_fraction(n_changed, n),
        "n_improved": int(np.sum(~is_correct & is_correct_after)),
        "n_worsened": int(np.sum(is_correct & ~is_correct_after)),
    }


@check_arguments(samples=_SAMPLES)
def scores_by_finding(samples: Samples) -> dict[str, dict[str, float | int]]:
    """Compute `polarity_scores` of each finding's samples.

    Args:
        samples: The samples.

    Returns:
        finding -> scores, in alphabetical order.
    """
    return {
        str(finding): polarity_scores(samples.where(samples.finding == finding))
        for finding in np.unique(samples.finding)
    }


def _count_outcomes(samples: Samples) -> dict[str, float | int]:
    """Count unread responses by reason, declined responses, and answered ones by the source of their reading.

    The counts have also the shares of unread and of declined responses. `n_unparsed` counts the unread responses whose
    reason has no count of its own in FAILURES.
    """
    n, is_unread = len(samples.choice), samples.outcome == UNREAD
    failures = {name: int(np.sum(is_unread & (samples.reason == reason))) for reason, name in FAILURES.items()}
    n_unread, n_declined = int(np.sum(is_unread)), int(np.sum(samples.outcome == DECLINED))
    return {
        "n_unparsed": n_unread - sum(failures.values()),
        **failures,
        "parse_failure_rate": _compute_fraction(n_unread, n),
        "n_declined": n_declined,
        "declined_rate": _compute_fraction(n_declined, n),
        **{f"n_from_{name}": int(np.sum((samples.choice >= 0) & (samples.evidence == name))) for name in EVIDENCE},
    }


def _count_errors(samples: Samples, choice: np.ndarray) -> dict[str, float | int]:
    is_prose = is_from_prose(samples.evidence)
    is_wrong = choice != samples.answer
    n_correct, n_wrong = int(np.sum(~is_wrong)), int(np.sum(is_wrong))
    counts: dict[str, float | int] = {"n_correct": n_correct, "accuracy": _compute_fraction(n_correct, len(choice))}
    for kind, polarity in ASKED.items():
        n = int(np.sum(can_err(kind, polarity=samples.polarity, negated=samples.negated, answer=samples.answer)))
        is_kind_error = _find_errors(samples, kind, choice)
        counts |= {f"n_{polarity}": n, **_split_by_prose(f"n_{kind}s", f"{kind}_rate", is_kind_error, is_prose, n)}
    is_wrong_with_negated = is_wrong & chose_negated(choice, negated=samples.negated)
    return counts | {
        "n_wrong": n_wrong,
        **_split_by_prose("n_wrong_with_negated", "wrong_with_negated_rate", is_wrong_with_negated, is_prose, n_wrong),
    }


def _split_by_prose(
    count_name: str, rate_name: str, is_kind_error: np.ndarray, is_prose: np.ndarray, n: int
) -> dict[str, float | int]:
    """Count the errors of one kind and compute their share of `n`, apart for errors that were read from sentences."""
    n_errors, n_from_prose = int(np.sum(is_kind_error & ~is_prose)), int(np.sum(is_kind_error & is_prose))
    return {
        count_name: n_errors,
        rate_name: _compute_fraction(n_errors, n),
        f"{count_name}_from_prose": n_from_prose,
        f"{rate_name}_from_prose": _compute_fraction(n_from_prose, n),
    }


def _find_errors(samples: Samples, kind: Kind, choice: np.ndarray) -> np.ndarray:
    return is_error(kind, choice, polarity=samples.polarity, negated=samples.negated, answer=samples.answer)


def _compute_fraction(count: int, total: int) -> float:
    return count / total if total else float("nan")


def _build_samples(readings: Sequence[tuple], references: Sequence[Mapping[str, Any]]) -> Samples:
    def encode_index(choice: int | None) -> int:
        return -1 if choice is None else choice

    def build_integers(values) -> np.ndarray:
        return np.array(list(values), dtype=np.int64)

    def build_strings(values) -> np.ndarray:
        return np.array(list(values), dtype=str)

    return Samples(
        choice=build_integers(encode_index(answer.choice) for answer, _ in readings),
        verified=build_integers(encode_index(verdict.choice) for _, verdict in readings),
        answer=build_integers(reference["answer"] for reference in references),
        negated=build_integers(reference["negated"] for reference in references),
        counterpart=build_integers(reference["counterpart"] for reference in references),
        polarity=build_strings(reference["polarity"] for reference in references),
        outcome=build_strings(answer.outcome for answer, _ in readings),
        reason=build_strings(answer.reason for answer, _ in readings),
        evidence=build_strings(answer.evidence for answer, _ in readings),
        finding=build_strings(reference["finding"] for reference in references),
    )
