"""Between lm-eval and CXR-ContraBench: four readings of one answer, and metrics out.

The filters read the same generation: `b0` as the model gave it, `m1` after QCCV-Neg with the literal trigger and slot-0
replacement (as published), `m1_slot_agnostic` with the replacement found by concept, and `m1_extended` with the
paraphrase-aware trigger too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from medfaith.evaluate_metrics.confidence.score import Interval, bootstrap_mean
from medfaith.evaluate_metrics.polarity.answers import parse_answer
from medfaith.evaluate_metrics.polarity.verifier import verify


def b0(resps: Sequence[Sequence[str]], docs: Sequence[dict]) -> list[str]:
    """Filter: the answer as the model gave it."""
    return _readings(resps, docs, None)


def m1(resps: Sequence[Sequence[str]], docs: Sequence[dict]) -> list[str]:
    """Filter: QCCV-Neg as published (section 4; Appendix B.2)."""
    return _readings(resps, docs, ("original", "slot0"))


def m1_slot_agnostic(resps: Sequence[Sequence[str]], docs: Sequence[dict]) -> list[str]:
    """Filter: the published trigger, with the replacement found by concept and not by place (Appendix E.4)."""
    return _readings(resps, docs, ("original", "slot_agnostic"))


def m1_extended(resps: Sequence[Sequence[str]], docs: Sequence[dict]) -> list[str]:
    """Filter: QCCV-Neg with the paraphrase-aware trigger and the slot-agnostic replacement (Appendix I)."""
    return _readings(resps, docs, ("extended", "slot_agnostic"))


def _readings(resps: Sequence[Sequence[str]], docs: Sequence[dict], verifier: tuple[str, str] | None) -> list[str]:
    """What a filter hands on for each row, as JSON in lm-eval's sample log: the choice and how it came about.

    Short answers to the same question and options recur by the thousand, so each distinct combination is read once.
    """
    read: dict[tuple, str] = {}
    readings = []
    for resp, doc in zip(resps, docs, strict=True):
        key = (resp[0], doc["question"], *doc["options"])
        if key not in read:
            read[key] = json.dumps(_read(resp[0], doc["question"], doc["options"], verifier))
        readings.append(read[key])
    return readings


def _read(text: str, question: str, options: Sequence[str], verifier: tuple[str, str] | None) -> dict[str, Any]:
    answer = parse_answer(text, options)
    reading = {"choice": answer.choice, "before": answer.choice, "outcome": answer.outcome, "verifier": "not_applied"}
    if verifier is None:
        return reading
    trigger, replacement = verifier
    verdict = verify(question, options, answer.choice, trigger=trigger, replacement=replacement)
    return reading | {"choice": verdict.choice, "verifier": verdict.reason}


def process_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Per-row values of every metric; aggregation happens over a task's rows.

    Values for an interval are pairs (value, study): intervals resample whole studies (Appendix C.2).
    """
    reading = json.loads(results[0])
    choice, before, answer, negated = reading["choice"], reading["before"], doc["answer"], doc["negated"]
    values = _with_interval("accuracy", choice == answer, doc["study_id"]) | {
        "parse_failure_rate": float(reading["outcome"] != "parsed"),
        "n_rows_skipped": doc["n_rows_skipped"],
    }
    # ReXVQA keeps its own questions: of them, only those count whose wrong answer the negated option is.
    if negated in (-1, answer) or doc["polarity"] not in ("presence", "absence"):
        return values
    error = "contradiction" if doc["polarity"] == "absence" else "reversal"
    return (
        values
        | _with_interval(f"{error}_rate", choice == negated, doc["study_id"])
        | {
            f"n_{error}s": int(choice == negated),
            "n_improved": int(before != answer and choice == answer),
            "n_worsened": int(before == answer and choice != answer),
        }
    )


def _with_interval(metric: str, holds: bool, study: str) -> dict[str, Any]:
    value = float(holds)
    return {metric: value, f"{metric}_ci_low": [value, study], f"{metric}_ci_high": [value, study]}


def total(items: Sequence[int]) -> int:
    """Aggregation: the sum."""
    return sum(items)


def largest(items: Sequence[int]) -> int:
    """Aggregation of a count that every row repeats."""
    return max(items)


def ci_low(items: Sequence[tuple[float, str]]) -> float:
    """Aggregation: lower end of the 95% percentile bootstrap interval of the mean, clustered by study."""
    return _interval(items).low


def ci_high(items: Sequence[tuple[float, str]]) -> float:
    """Aggregation: upper end of the same interval."""
    return _interval(items).high


def _interval(items: Sequence[tuple[float, str]]) -> Interval:
    return bootstrap_mean([value for value, _ in items], groups=[study for _, study in items])
