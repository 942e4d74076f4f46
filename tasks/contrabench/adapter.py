"""Between lm-eval and CXR-ContraBench: readings of one answer, and metrics out.

The filters read the same generation: `b0` as the model gave it, `m1` after QCCV-Neg with the literal trigger and slot-0
replacement (as published), `m1_slot_agnostic` with the replacement found by concept, and `m1_extended` with the
paraphrase-aware trigger too. On ReXVQA, `m2` is `m1` with the location repair after it. Of the prompt `packet`,
`packet_b0` is the answer outside the packet, `y0` that answer after the confidence fallback, and `packet_m1` that
answer after QCCV-Neg. A verifier leaves a choice alone that was read from sentences.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.evaluate_metrics.polarity.errors import ASKED, can_err, is_error, is_from_prose
from medfaith.evaluate_metrics.polarity.fallback import fall_back, read_packet
from medfaith.evaluate_metrics.polarity.location import verify_location
from medfaith.evaluate_metrics.polarity.verifier import verify_answer
from medfaith.evaluate_metrics.reading.choice import Answer, parse_answer
from medfaith.evaluate_metrics.reading.outcome import DECLINED, UNREAD
from medfaith.tasks.outcomes import is_cut
from medfaith.tasks.scoring import Scorer, collect_counts, counted, metric, repeat_record


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
def _parsed(text: str, options: tuple[str, ...], question: str, cut: bool) -> Answer:
    """`parse_answer`: lm-eval runs one filter after the other, each over the same answers."""
    return parse_answer(text, options, question, cut=cut)


def _readings(
    resps: Sequence[Sequence[str]],
    docs: Sequence[dict],
    repair: Callable[[str, Sequence[str], Answer], tuple[int | None, str]],
    parse: Callable[[str, tuple[str, ...], str, bool], Answer] = _parsed,
) -> list[str]:
    """Readings of a repair: from question, options and answer to the choice after it and its reason."""

    def read(text: str, question: str, options: Sequence[str], cut: bool) -> dict[str, Any]:
        answer = parse(text, tuple(options), question, cut)
        return _reading(answer, *repair(question, options, answer))

    return _distinct(resps, docs, read)


def _distinct(
    resps: Sequence[Sequence[str]],
    docs: Sequence[dict],
    read: Callable[[str, str, Sequence[str], bool], dict[str, Any]],
) -> list[str]:
    """What a filter hands on for each row, as JSON in lm-eval's sample log: the choice and how it came about.

    Short answers to the same question and options recur by the thousand, so each distinct combination is read once.
    """
    known: dict[tuple, str] = {}
    readings = []
    for resp, doc in zip(resps, docs, strict=True):
        given = resp[0], doc["question"], tuple(doc["options"]), is_cut(doc)
        if given not in known:
            known[given] = json.dumps(read(*given))
        readings.append(known[given])
    return readings


def _reading(answer: Answer, choice: int | None, verifier: str) -> dict[str, Any]:
    """outcome, reason and evidence are those of reading the answer, `before` is the choice that was read."""
    return {
        "choice": choice,
        "before": answer.choice,
        "outcome": answer.outcome,
        "reason": answer.reason,
        "evidence": answer.evidence,
        "verifier": verifier,
    }


def _as_given(question: str, options: Sequence[str], answer: Answer) -> tuple[int | None, str]:
    return answer.choice, "not_applied"


def _verified(
    question: str, options: Sequence[str], answer: Answer, *, trigger: str, replacement: str
) -> tuple[int | None, str]:
    verdict = verify_answer(question, options, answer, trigger=trigger, replacement=replacement)
    return verdict.choice, verdict.reason


_m1 = partial(_verified, trigger="original", replacement="slot0")


def _m2(question: str, options: Sequence[str], answer: Answer) -> tuple[int | None, str]:
    choice, reason = _m1(question, options, answer)
    verdict = verify_location(question, options, choice)
    if verdict.fired and is_from_prose(answer.evidence):
        return choice, f"{reason}/read_from_prose"
    return verdict.choice, f"{reason}/{verdict.reason}"


def _packet_baseline(text: str, options: Sequence[str], _: str, cut: bool) -> Answer:
    return read_packet(text, options, cut=cut).baseline.answer


def _y0(text: str, question: str, options: Sequence[str], cut: bool) -> dict[str, Any]:
    response = read_packet(text, options, cut=cut)
    verdict = fall_back(response)
    return _reading(response.baseline.answer, verdict.choice, verdict.reason)


@lru_cache(maxsize=2**10)
def _read(reading: str) -> Mapping[str, Any]:
    """What a filter handed on. There are few different ones, and many rows of each."""
    return json.loads(reading)


def process_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Per-row values of the metrics that a row has.

    Reversals are errors of the presence side, contradictions of the absence side (`polarity.errors`); a row that can
    have neither, as in the positive-only control, has no value of them. Errors read from sentences count apart.
    `always_a_accuracy` is what always answering A would score: it tells the layout.
    """
    reading = _read(results[0])
    choice, before, answer = reading["choice"], reading["before"], doc["answer"]
    values = with_interval("accuracy", choice == answer, doc["study_id"]) | {
        "parse_failure_rate": float(reading["outcome"] == UNREAD),
        "declined_rate": float(reading["outcome"] == DECLINED),
        "always_a_accuracy": float(answer == 0),
        "n_improved": int(before != answer and choice == answer),
        "n_worsened": int(before == answer and choice != answer),
        **collect_counts(doc),
    }
    asked = {name: doc[name] for name in ("polarity", "negated", "answer")}
    for kind in ASKED:
        if can_err(kind, **asked):
            error, from_prose = bool(is_error(kind, choice, **asked)), bool(is_from_prose(reading["evidence"]))
            values |= with_interval(f"{kind}_rate", error and not from_prose, doc["study_id"]) | {
                f"n_{kind}s": int(error and not from_prose),
                f"{kind}_rate_from_prose": float(error and from_prose),
                f"n_{kind}s_from_prose": int(error and from_prose),
            }
    return values


def with_interval(name: str, holds: bool, study: str) -> dict[str, Any]:
    """Per-row values of a rate and of the two ends of its interval."""
    value = float(holds)
    return {name: value} | repeat_record((f"{name}_ci_low", f"{name}_ci_high"), {"value": value, "study_id": study})


def rate(name: str, *, higher: bool) -> list[dict[str, Any]]:
    """The metrics of `with_interval`: lm-eval's mean, for the sake of its standard error, and the ends of an interval.

    The interval is a 95% percentile bootstrap of the mean that resamples whole studies (Appendix C.2); near 0 and 1
    it is Wilson's (`bootstrap_mean`).
    """
    ends = (f"{name}_ci_low", f"{name}_ci_high")

    def figures(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        values, studies = ([record[column] for record in records] for column in ("value", "study_id"))
        interval = bootstrap_mean(values, groups=studies, bounds=(0, 1))
        return dict(zip(ends, (interval.low, interval.high), strict=True))

    interval = Scorer(figures, ends, lower=() if higher else ends, counts=())
    return [metric(name, "mean", higher=higher), *interval.metric_list]


def total(items: Sequence[int]) -> int:
    """Aggregation: the sum."""
    return sum(items)


def from_prose(kind: str) -> list[dict[str, Any]]:
    """The metrics of the errors that were read from sentences."""
    rate_of, n = f"{kind}_rate_from_prose", f"n_{kind}s_from_prose"
    return [metric(rate_of, "mean", higher=False), metric(n, total, higher=False)]


metrics = [
    *rate("accuracy", higher=True),
    *rate("reversal_rate", higher=False),
    metric("n_reversals", total, higher=False),
    *from_prose("reversal"),
    *rate("contradiction_rate", higher=False),
    metric("n_contradictions", total, higher=False),
    *from_prose("contradiction"),
    metric("n_improved", total),
    metric("n_worsened", total, higher=False),
    metric("parse_failure_rate", "mean", higher=False),
    metric("declined_rate", "mean", higher=False),
    metric("always_a_accuracy", "mean"),
    *counted(),
]
