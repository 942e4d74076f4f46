"""Scores of polarity protocols: accuracy, negated-option errors, and what the verifier changes (CXR-ContraBench)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..reading.choice import Answer, parse_answer
from ..reading.outcome import DECLINED, EVIDENCE, UNREAD
from .errors import ASKED, POLARITIES, Kind, can_err, chose_negated, is_error, is_from_prose
from .verifier import Verdict, verify_answer

# Why an answer is unread -> the key of its count; any other reason counts as unparsed.
FAILURES = {"ambiguous": "n_ambiguous", "out_of_range": "n_invalid", "cut": "n_cut"}


class Samples(NamedTuple):
    """One entry a question, all arrays of shape (n,).

    choice: predicted option index, -1 where nothing could be read; verified: the same after the verifier.
    answer, negated, counterpart: indices of the gold, the negated option and its positive counterpart, -1 for none.
    polarity: "presence", "absence" or "other"; finding: the target. outcome, reason, evidence: how reading went
    (`reading.outcome`): answered, declined or unread, why it is unread, and what the choice was read from.
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
        return Samples(*(column[mask] for column in self))


def score_predictions(
    predictions: Sequence[str | None],
    references: Sequence[Mapping[str, Any]],
    *,
    trigger: str = "original",
    replacement: str = "slot0",
    verify_prose: bool = False,
    per_sample: bool = False,
) -> dict[str, Any]:
    """Parse, verify and score.

    Args:
        predictions: n responses, free text or a letter.
        references: n rows with question, options, answer, negated, counterpart, polarity, finding (indices are 0-based,
            -1 for none).
        trigger, replacement, verify_prose: see `verifier.verify_answer`.
        per_sample: whether to return each question's reading and verdict as well.

    Returns:
        the keys of `polarity_scores` over all rows; "by_finding": {finding: the same keys}; on request "per_sample":
        n dicts of choice, outcome, stage, unread_reason, evidence, correct, verified_choice, verified_correct, fired,
        reason (of the verifier; choices None if unread or declined).

    Raises:
        ValueError: lengths differ, or a row is refused by `check_references`.
    """
    if len(predictions) != len(references):
        raise ValueError(f"{len(predictions)} predictions for {len(references)} references: give one for each")
    check_references(references)
    known: dict[tuple, tuple[Answer, Verdict]] = {}  # benchmarks repeat few wordings; each is read once
    read = []
    for text, reference in zip(predictions, references, strict=True):
        question, options = reference["question"], tuple(reference["options"])
        key = (text, question, options)
        if key not in known:
            answer = parse_answer(text, options, question)
            how = {"trigger": trigger, "replacement": replacement, "verify_prose": verify_prose}
            known[key] = (answer, verify_answer(question, options, answer, **how))
        read.append(known[key])
    samples = _samples(read, references)
    result: dict[str, Any] = {**polarity_scores(samples), "by_finding": scores_by_finding(samples)}
    if per_sample:
        correct, verified = samples.choice == samples.answer, samples.verified == samples.answer
        result["per_sample"] = [
            {
                "choice": answer.choice,
                "outcome": answer.outcome,
                "stage": answer.stage,
                "unread_reason": answer.reason,
                "evidence": answer.evidence,
                "correct": bool(correct[row]),
                "verified_choice": verdict.choice,
                "verified_correct": bool(verified[row]),
                "fired": verdict.fired,
                "reason": verdict.reason,
            }
            for row, (answer, verdict) in enumerate(read)
        ]
    return result


def check_references(references: Iterable[Mapping[str, Any]]) -> None:
    """Refuses rows whose values have another type or another meaning than the metric takes them for.

    Raises:
        ValueError: `options` is no list of texts, `polarity` is none of `errors.POLARITIES`, or `answer`, `negated` or
            `counterpart` is no integer that is an index into the options (0.5, True and "1" are none). The message
            names the row and the column.
    """
    for row, reference in enumerate(references):
        place = f"references, row {row + 1}, column"
        options = reference["options"]
        if not isinstance(options, Sequence | np.ndarray) or isinstance(options, str | bytes):
            raise ValueError(f"{place} 'options': {options!r}; expected a list of texts")
        if not all(isinstance(option, str) for option in options):
            raise ValueError(f"{place} 'options': {list(options)!r}; expected a list of texts")
        if reference["polarity"] not in POLARITIES:
            raise ValueError(f"{place} 'polarity': {reference['polarity']!r}; expected one of {', '.join(POLARITIES)}")
        for column, lowest in (("answer", 0), ("negated", -1), ("counterpart", -1)):
            value = reference[column]
            is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not is_integer or not lowest <= value < len(options):
                none = " or -1" if lowest else ""
                raise ValueError(
                    f"{place} {column!r}: {value!r}; expected an index into its {len(options)} options{none}"
                )


def polarity_scores(samples: Samples) -> dict[str, float | int]:
    """Aggregates over samples: fractions in [0, 1], unrounded, beside the counts (`n_...`) behind them.

    A fraction of nothing is NaN; its denominator says so. `n_reversals` and `n_contradictions` count the errors of
    `errors.is_error` that were read from a letter or an option's text, over the `n_presence` and `n_absence` questions
    that can have one; `n_..._from_prose` count those read from sentences, over the same questions.
    `n_wrong_with_negated` counts wrong answers that are the negated option, of any polarity, over `n_wrong` (section
    3.1, Table 11), and again those from prose apart. `n_repairable_reversals` are the reversals, without those from
    prose, that the verifier remaps to the row's one counterpart. Unread and declined responses are wrong: they stay in
    every denominator. `parse_failure_rate` counts the unread ones and `declined_rate` the declined ones. Keys ending in
    `_verified` are after the verifier.
    """
    n = len(samples.choice)
    before, after = (_counts(samples, choice) for choice in (samples.choice, samples.verified))
    correct, correct_after = samples.choice == samples.answer, samples.verified == samples.answer
    repaired = (
        _errors(samples, "reversal", samples.choice)
        & ~is_from_prose(samples.evidence)
        & (samples.counterpart >= 0)
        & (samples.verified == samples.counterpart)
    )
    changed = int(np.sum(samples.choice != samples.verified))
    return {
        "n": n,
        **before,
        "n_repairable_reversals": int(np.sum(repaired)),
        **_outcome_counts(samples),
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


def _outcome_counts(samples: Samples) -> dict[str, float | int]:
    """How the responses were read: why some are unread, how many decline, and what the others were read from."""
    n, unread = len(samples.choice), samples.outcome == UNREAD
    failures = {name: int(np.sum(unread & (samples.reason == reason))) for reason, name in FAILURES.items()}
    n_unread, n_declined = int(np.sum(unread)), int(np.sum(samples.outcome == DECLINED))
    return {
        "n_unparsed": n_unread - sum(failures.values()),
        **failures,
        "parse_failure_rate": _fraction(n_unread, n),
        "n_declined": n_declined,
        "declined_rate": _fraction(n_declined, n),
        **{f"n_from_{name}": int(np.sum((samples.choice >= 0) & (samples.evidence == name))) for name in EVIDENCE},
    }


def _counts(samples: Samples, choice: np.ndarray) -> dict[str, float | int]:
    from_prose = is_from_prose(samples.evidence)
    wrong = choice != samples.answer
    n_correct, n_wrong = int(np.sum(~wrong)), int(np.sum(wrong))
    counts: dict[str, float | int] = {"n_correct": n_correct, "accuracy": _fraction(n_correct, len(choice))}
    for kind, polarity in ASKED.items():
        n = int(np.sum(can_err(kind, polarity=samples.polarity, negated=samples.negated, answer=samples.answer)))
        errors = _errors(samples, kind, choice)
        counts |= {f"n_{polarity}": n, **_apart(f"n_{kind}s", f"{kind}_rate", errors, from_prose, n)}
    wrong_with_negated = wrong & chose_negated(choice, negated=samples.negated)
    return counts | {
        "n_wrong": n_wrong,
        **_apart("n_wrong_with_negated", "wrong_with_negated_rate", wrong_with_negated, from_prose, n_wrong),
    }


def _apart(count: str, rate: str, errors: np.ndarray, from_prose: np.ndarray, n: int) -> dict[str, float | int]:
    """Counts and rates of errors without those read from prose, and of those read from prose."""
    n_errors, n_from_prose = int(np.sum(errors & ~from_prose)), int(np.sum(errors & from_prose))
    return {
        count: n_errors,
        rate: _fraction(n_errors, n),
        f"{count}_from_prose": n_from_prose,
        f"{rate}_from_prose": _fraction(n_from_prose, n),
    }


def _errors(samples: Samples, kind: Kind, choice: np.ndarray) -> np.ndarray:
    return is_error(kind, choice, polarity=samples.polarity, negated=samples.negated, answer=samples.answer)


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
        reason=strings(answer.reason for answer, _ in read),
        evidence=strings(answer.evidence for answer, _ in read),
        finding=strings(reference["finding"] for reference in references),
    )
