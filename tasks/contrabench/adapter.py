"""Between lm-eval and CXR-ContraBench: readings of one answer, and metrics out.

The filters read the same generation: `b0` as the model gave it, `m1` after QCCV-Neg with the literal trigger and slot-0
replacement (as published), `m1_slot_agnostic` with the replacement found by concept, and `m1_extended` with the
paraphrase-aware trigger too. On ReXVQA, `m2` is `m1` with the location repair after it. Of the prompt `packet`,
`packet_b0` is the answer outside the packet, `y0` that answer after the confidence fallback, and `packet_m1` that
answer after QCCV-Neg.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.evaluate_metrics.polarity.fallback import fall_back, read_packet
from medfaith.evaluate_metrics.polarity.location import verify_location
from medfaith.evaluate_metrics.polarity.verifier import verify
from medfaith.evaluate_metrics.reading.choice import Answer, parse_answer
from medfaith.tasks.scoring import Scorer, counted, counts_of, metric, under_each


def b0(resps: Sequence[Sequence[str]], docs: Sequence[dict]) -> list[str]:
    """Filter: the answer as the model gave it."""
    return _readings(resps, docs, _as_given)


def m1(resps: Sequence[Sequence[str]], docs: Sequence[dict]) -> list[str]:
    """Filter: QCCV-Neg as published (section 4; Appendix B.2)."""
    return _readings(resps, docs, _m1)


def m1_slot_agnostic(resps: Sequence[Sequence[str]], docs: Sequence[dict]) -> list[str]:
    """Filter: the published trigger, with the replacement found by concept and not by place (Appendix E.4)."""
    return _readings(resps, docs, partial(_verified, trigger="original", replacement="slot_agnostic"))


def m1_extended(resps: Sequence[Sequence[str]], docs: Sequence[dict]) -> list[str]:
    """Filter: QCCV-Neg with the paraphrase-aware trigger and the slot-agnostic replacement (Appendix I)."""
    return _readings(resps, docs, partial(_verified, trigger="extended", replacement="slot_agnostic"))


def m2(resps: Sequence[Sequence[str]], docs: Sequence[dict]) -> list[str]:
    """Filter: QCCV-Neg as published, then the location repair (section 4; Appendix D.3). It gives both reasons."""
    return _readings(resps, docs, _m2)


def packet_b0(resps: Sequence[Sequence[str]], docs: Sequence[dict]) -> list[str]:
    """Filter: the answer outside the packet."""
    return _readings(resps, docs, _as_given, parse=_packet_baseline)


def packet_m1(resps: Sequence[Sequence[str]], docs: Sequence[dict]) -> list[str]:
    """Filter: QCCV-Neg as published, on the answer outside the packet."""
    return _readings(resps, docs, _m1, parse=_packet_baseline)


def y0(resps: Sequence[Sequence[str]], docs: Sequence[dict]) -> list[str]:
    """Filter: the confidence fallback to the packet's answer (section 4; Appendix B.2)."""
    return _distinct(resps, docs, _y0)


@lru_cache(maxsize=2**15)
def _parsed(text: str, options: tuple[str, ...], question: str) -> Answer:
    """`parse_answer`: lm-eval runs one filter after the other, each over the same answers."""
    return parse_answer(text, options, question)


def _readings(
    resps: Sequence[Sequence[str]],
    docs: Sequence[dict],
    repair: Callable[[str, Sequence[str], int | None], tuple[int | None, str]],
    parse: Callable[[str, tuple[str, ...], str], Answer] = _parsed,
) -> list[str]:
    """Readings of a repair: from question, options and choice to the choice after it and its reason."""

    def read(text: str, question: str, options: Sequence[str]) -> dict[str, Any]:
        answer = parse(text, tuple(options), question)
        choice, reason = repair(question, options, answer.choice)
        return _reading(answer, choice, reason)

    return _distinct(resps, docs, read)


def _distinct(
    resps: Sequence[Sequence[str]],
    docs: Sequence[dict],
    read: Callable[[str, str, Sequence[str]], dict[str, Any]],
) -> list[str]:
    """What a filter hands on for each row, as JSON in lm-eval's sample log: the choice and how it came about.

    Short answers to the same question and options recur by the thousand, so each distinct combination is read once.
    """
    known: dict[tuple, str] = {}
    readings = []
    for resp, doc in zip(resps, docs, strict=True):
        key = (resp[0], doc["question"], *doc["options"])
        if key not in known:
            known[key] = json.dumps(read(resp[0], doc["question"], doc["options"]))
        readings.append(known[key])
    return readings


def _reading(answer: Answer, choice: int | None, reason: str) -> dict[str, Any]:
    return {"choice": choice, "before": answer.choice, "outcome": answer.outcome, "verifier": reason}


def _as_given(question: str, options: Sequence[str], choice: int | None) -> tuple[int | None, str]:
    return choice, "not_applied"


def _verified(
    question: str, options: Sequence[str], choice: int | None, *, trigger: str, replacement: str
) -> tuple[int | None, str]:
    verdict = verify(question, options, choice, trigger=trigger, replacement=replacement)
    return verdict.choice, verdict.reason


_m1 = partial(_verified, trigger="original", replacement="slot0")


def _m2(question: str, options: Sequence[str], choice: int | None) -> tuple[int | None, str]:
    choice, reason = _m1(question, options, choice)
    verdict = verify_location(question, options, choice)
    return verdict.choice, f"{reason}/{verdict.reason}"


def _packet_baseline(text: str, options: Sequence[str], _: str) -> Answer:
    return read_packet(text, options).baseline.answer


def _y0(text: str, question: str, options: Sequence[str]) -> dict[str, Any]:
    response = read_packet(text, options)
    verdict = fall_back(response)
    return _reading(response.baseline.answer, verdict.choice, verdict.reason)


@lru_cache(maxsize=2**10)
def _read(reading: str) -> Mapping[str, Any]:
    """What a filter handed on. There are few different ones, and many rows of each."""
    return json.loads(reading)


def process_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Per-row values of the metrics that a row has.

    Reversals are errors of the presence side, contradictions of the absence side; the positive-only control has
    neither (sections 3.1 and 3.2). `always_a_accuracy` is what always answering A would score: it tells the layout.
    """
    reading = _read(results[0])
    choice, before, answer, negated = reading["choice"], reading["before"], doc["answer"], doc["negated"]
    values = with_interval("accuracy", choice == answer, doc["study_id"]) | {
        "parse_failure_rate": float(reading["outcome"] != "parsed"),
        "always_a_accuracy": float(answer == 0),
        **counts_of(doc),
    }
    # ReXVQA keeps its own questions. Only those count that have a negated option which is wrong.
    if negated in (-1, answer) or doc["polarity"] not in ("presence", "absence"):
        return values
    error = "contradiction" if doc["polarity"] == "absence" else "reversal"
    return (
        values
        | with_interval(f"{error}_rate", choice == negated, doc["study_id"])
        | {
            f"n_{error}s": int(choice == negated),
            "n_improved": int(before != answer and choice == answer),
            "n_worsened": int(before == answer and choice != answer),
        }
    )


def with_interval(name: str, holds: bool, study: str) -> dict[str, Any]:
    """Per-row values of a rate and of the two ends of its interval."""
    value = float(holds)
    return {name: value} | under_each((f"{name}_ci_low", f"{name}_ci_high"), {"value": value, "study_id": study})


def rate(name: str, *, higher: bool) -> list[dict[str, Any]]:
    """The metrics of `with_interval`: lm-eval's mean, for the sake of its standard error, and the ends of an interval.

    The interval is a 95% percentile bootstrap of the mean that resamples whole studies (Appendix C.2).
    """
    ends = (f"{name}_ci_low", f"{name}_ci_high")

    def figures(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        values, studies = ([record[column] for record in records] for column in ("value", "study_id"))
        interval = bootstrap_mean(values, groups=studies)
        return dict(zip(ends, (interval.low, interval.high), strict=True))

    interval = Scorer(figures, ends, lower=() if higher else ends, counts=())
    return [metric(name, "mean", higher=higher), *interval.metric_list]


def total(items: Sequence[int]) -> int:
    """Aggregation: the sum."""
    return sum(items)


metrics = [
    *rate("accuracy", higher=True),
    *rate("reversal_rate", higher=False),
    metric("n_reversals", total, higher=False),
    *rate("contradiction_rate", higher=False),
    metric("n_contradictions", total, higher=False),
    metric("n_improved", total),
    metric("n_worsened", total, higher=False),
    metric("parse_failure_rate", "mean", higher=False),
    metric("always_a_accuracy", "mean"),
    *counted(),
]
