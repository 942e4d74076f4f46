"""Between lm-eval and CXR-ContraBench: rows in, prompt, three readings of one answer, metrics out.

The filters `b0`, `m1` and `m1_extended` read the same generation: as the model gave it, after QCCV-Neg with the literal
trigger and slot-0 replacement (as published), and after its paraphrase-aware, slot-agnostic extension (Appendix I).
"""

from __future__ import annotations

import json
import string
from collections.abc import Sequence
from typing import Any

import datasets

from medfaith.evaluate_metrics.confidence.score import Interval, bootstrap_mean
from medfaith.evaluate_metrics.polarity.answers import parse_answer
from medfaith.evaluate_metrics.polarity.verifier import verify
from medfaith.tasks.rows import load

INSTRUCTION = "Answer with the letter of the correct option."


def chexpert(**metadata: Any) -> dict[str, datasets.Dataset]:
    """`custom_dataset` of the CheXpert tasks."""
    return load("cxr-contrabench-chexpert", **metadata)


def openi(**metadata: Any) -> dict[str, datasets.Dataset]:
    """`custom_dataset` of the OpenI tasks."""
    return load("cxr-contrabench-openi", **metadata)


def prompt(doc: dict[str, Any]) -> str:
    """B0: all images of the study, the question, all options with letters (section 5.1)."""
    options = [f"{letter}. {option}" for letter, option in zip(string.ascii_uppercase, doc["options"], strict=False)]
    return "\n".join(["<image>" * len(doc["images"]), doc["question"], *options, INSTRUCTION])


def target(doc: dict[str, Any]) -> str:
    """The letter of the gold option."""
    return string.ascii_uppercase[doc["answer"]]


def b0(resps: Sequence[Sequence[str]], docs: Sequence[dict]) -> list[str]:
    """Filter: the answer as the model gave it."""
    return [json.dumps(_read(resp[0], doc)) for resp, doc in zip(resps, docs, strict=True)]


def m1(resps: Sequence[Sequence[str]], docs: Sequence[dict]) -> list[str]:
    """Filter: QCCV-Neg as published (section 4; Appendix B.2)."""
    return [json.dumps(_verified(r[0], d, "original", "slot0")) for r, d in zip(resps, docs, strict=True)]


def m1_extended(resps: Sequence[Sequence[str]], docs: Sequence[dict]) -> list[str]:
    """Filter: QCCV-Neg with the paraphrase-aware trigger and the slot-agnostic replacement (Appendix I, E.4)."""
    return [json.dumps(_verified(r[0], d, "extended", "slot_agnostic")) for r, d in zip(resps, docs, strict=True)]


def _read(text: str, doc: dict[str, Any]) -> dict[str, Any]:
    """What a filter hands on, as JSON in lm-eval's sample log: the choice and how it came about."""
    answer = parse_answer(text, doc["options"])
    return {"choice": answer.choice, "before": answer.choice, "outcome": answer.outcome, "verifier": "not_applied"}


def _verified(text: str, doc: dict[str, Any], trigger: Any, replacement: Any) -> dict[str, Any]:
    reading = _read(text, doc)
    verdict = verify(doc["question"], doc["options"], reading["choice"], trigger=trigger, replacement=replacement)
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
    if negated < 0:
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
