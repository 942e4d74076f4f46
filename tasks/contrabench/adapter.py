"""lm-eval's filters and metrics for CXR-ContraBench.

All filters read the same generation. `b0` is the model's own answer. `m1` is the answer after QCCV-Neg with the literal
trigger and slot-0 replacement, as published. `m1_slot_agnostic` finds the replacement by concept, and `m1_extended`
adds the paraphrase-aware trigger. On ReXVQA, `m2` is `m1` followed by the location repair. For the prompt `packet`,
`packet_b0` is the answer outside the packet, `y0` is that answer after the confidence fallback, and `packet_m1` is that
answer after QCCV-Neg. A verifier does not change a choice that was read from sentences.
"""

from __future__ import annotations

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
from medfaith.tasks.contrabench.readings import Reading, decode, encode
from medfaith.tasks.outcomes import is_cut
from medfaith.tasks.scoring import Scorer, collect_counts, counted, metric, repeat_record


def b0(resps: Sequence[Sequence[str]], docs: Sequence[dict]) -> list[str]:
    """Read the model's own answers. A filter of lm-eval.

    Args:
        resps: The generations of each row.
        docs: The documents of the rows.

    Returns:
        The reading of each row, as JSON text for `process_results`.
    """
    return _read_answers(resps, docs, _keep_choice)


def m1(resps: Sequence[Sequence[str]], docs: Sequence[dict]) -> list[str]:
    """Apply QCCV-Neg as published (section 4; Appendix B.2). A filter of lm-eval.

    Args:
        resps: The generations of each row.
        docs: The documents of the rows.

    Returns:
        The reading of each row, as JSON text for `process_results`.
    """
    return _read_answers(resps, docs, _apply_m1)


def m1_slot_agnostic(resps: Sequence[Sequence[str]], docs: Sequence[dict]) -> list[str]:
    """Apply the published trigger, and find the replacement by concept (Appendix E.4). A filter of lm-eval.

    Args:
        resps: The generations of each row.
        docs: The documents of the rows.

    Returns:
        The reading of each row, as JSON text for `process_results`.
    """
    return _read_answers(resps, docs, partial(_verify, trigger="original", replacement="slot_agnostic"))


def m1_extended(resps: Sequence[Sequence[str]], docs: Sequence[dict]) -> list[str]:
    """Apply QCCV-Neg with the paraphrase-aware trigger and slot-agnostic replacement (Appendix I). A filter of lm-eval.

    Args:
        resps: The generations of each row.
        docs: The documents of the rows.

    Returns:
        The reading of each row, as JSON text for `process_results`.
    """
    return _read_answers(resps, docs, partial(_verify, trigger="extended", replacement="slot_agnostic"))


def m2(resps: Sequence[Sequence[str]], docs: Sequence[dict]) -> list[str]:
    """Apply QCCV-Neg as published, then the location repair (section 4; Appendix D.3). A filter of lm-eval.

    The reason of a reading joins the reasons of both verifiers.

    Args:
        resps: The generations of each row.
        docs: The documents of the rows.

    Returns:
        The reading of each row, as JSON text for `process_results`.
    """
    return _read_answers(resps, docs, _apply_m2)


def packet_b0(resps: Sequence[Sequence[str]], docs: Sequence[dict]) -> list[str]:
    """Read the answers outside the packets. A filter of lm-eval.

    Args:
        resps: The generations of each row.
        docs: The documents of the rows.

    Returns:
        The reading of each row, as JSON text for `process_results`.
    """
    return _read_answers(resps, docs, _keep_choice, parse=_read_baseline)


def packet_m1(resps: Sequence[Sequence[str]], docs: Sequence[dict]) -> list[str]:
    """Apply QCCV-Neg as published to the answers outside the packets. A filter of lm-eval.

    Args:
        resps: The generations of each row.
        docs: The documents of the rows.

    Returns:
        The reading of each row, as JSON text for `process_results`.
    """
    return _read_answers(resps, docs, _apply_m1, parse=_read_baseline)


def y0(resps: Sequence[Sequence[str]], docs: Sequence[dict]) -> list[str]:
    """Apply the confidence fallback to the answers of the packets (section 4; Appendix B.2). A filter of lm-eval.

    Args:
        resps: The generations of each row.
        docs: The documents of the rows.

    Returns:
        The reading of each row, as JSON text for `process_results`.
    """
    return _read_distinct(resps, docs, _read_y0)


@lru_cache(maxsize=2**15)
def _parse_cached(text: str, options: tuple[str, ...], question: str, cut: bool) -> Answer:
    """Parse an answer, with a cache: lm-eval runs one filter after the other over the same answers."""
    return parse_answer(text, options, question, cut=cut)


def _read_answers(
    resps: Sequence[Sequence[str]],
    docs: Sequence[dict],
    repair: Callable[[str, Sequence[str], Answer], tuple[int | None, str]],
    parse: Callable[[str, tuple[str, ...], str, bool], Answer] = _parse_cached,
) -> list[str]:
    """Read all answers and apply a repair, which returns the new choice and its reason."""

    def read_row(text: str, question: str, options: Sequence[str], cut: bool) -> Reading:
        answer = parse(text, tuple(options), question, cut)
        return _build_reading(answer, *repair(question, options, answer))

    return _read_distinct(resps, docs, read_row)


def _read_distinct(
    resps: Sequence[Sequence[str]],
    docs: Sequence[dict],
    read_row: Callable[[str, str, Sequence[str], bool], Reading],
) -> list[str]:
    """Return the reading of each row as JSON for lm-eval's sample log. Each distinct combination is read once."""
    readings_by_input: dict[tuple, str] = {}
    row_readings = []
    for resp, doc in zip(resps, docs, strict=True):
        inputs = resp[0], doc["question"], tuple(doc["options"]), is_cut(doc)
        if inputs not in readings_by_input:
            readings_by_input[inputs] = encode(read_row(*inputs))
        row_readings.append(readings_by_input[inputs])
    return row_readings


def _build_reading(answer: Answer, choice: int | None, verifier: str) -> Reading:
    """Build a reading: `before` is the choice of the answer, `choice` the choice after the verifier."""
    return Reading(choice, answer.choice, answer.outcome, answer.reason, answer.evidence, verifier)


def _keep_choice(question: str, options: Sequence[str], answer: Answer) -> tuple[int | None, str]:
    """Keep the choice of the answer."""
    return answer.choice, "not_applied"


def _verify(
    question: str, options: Sequence[str], answer: Answer, *, trigger: str, replacement: str
) -> tuple[int | None, str]:
    verdict = verify_answer(question, options, answer, trigger=trigger, replacement=replacement)
    return verdict.choice, verdict.reason


_apply_m1 = partial(_verify, trigger="original", replacement="slot0")


def _apply_m2(question: str, options: Sequence[str], answer: Answer) -> tuple[int | None, str]:
    choice, reason = _apply_m1(question, options, answer)
    verdict = verify_location(question, options, choice)
    if verdict.fired and is_from_prose(answer.evidence):
        return choice, f"{reason}/read_from_prose"
    return verdict.choice, f"{reason}/{verdict.reason}"


def _read_baseline(text: str, options: Sequence[str], _: str, cut: bool) -> Answer:
    return read_packet(text, options, cut=cut).baseline.answer


def _read_y0(text: str, question: str, options: Sequence[str], cut: bool) -> Reading:
    response = read_packet(text, options, cut=cut)
    verdict = fall_back(response)
    return _build_reading(response.baseline.answer, verdict.choice, verdict.reason)


def process_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Compute the metric values of a row. Metrics that do not apply to the row are missing.

    Reversals are errors on presence questions, contradictions are errors on absence questions (`polarity.errors`). A
    row that can have neither, as in the positive-only control, has no value for them. Errors that were read from
    sentences have their own counts. `always_a_accuracy` is the score of always answering A, and depends on the layout
    alone.

    Args:
        doc: The document.
        results: The reading of a filter.

    Returns:
        Metric -> value of the row.
    """
    reading, answer = decode(results[0]), doc["answer"]
    choice, before = reading.choice, reading.before
    values = with_interval("accuracy", choice == answer, doc["study_id"]) | {
        "parse_failure_rate": float(reading.outcome == UNREAD),
        "declined_rate": float(reading.outcome == DECLINED),
        "always_a_accuracy": float(answer == 0),
        "n_improved": int(before != answer and choice == answer),
        "n_worsened": int(before == answer and choice != answer),
        **collect_counts(doc),
    }
    question = {name: doc[name] for name in ("polarity", "negated", "answer")}
    for kind in ASKED:
        if can_err(kind, **question):
            error, from_prose = (
                bool(is_error(kind, -1 if choice is None else choice, **question)),
                bool(is_from_prose(reading.evidence)),
            )
            values |= with_interval(f"{kind}_rate", error and not from_prose, doc["study_id"]) | {
                f"n_{kind}s": int(error and not from_prose),
                f"{kind}_rate_from_prose": float(error and from_prose),
                f"n_{kind}s_from_prose": int(error and from_prose),
            }
    return values


def with_interval(name: str, holds: bool, study: str) -> dict[str, Any]:
    """Return a row's values for a rate and for both ends of its interval.

    Args:
        name: The metric.
        holds: Whether the row counts.
        study: The id of the study, the unit of resampling.

    Returns:
        The metric -> 0 or 1, and a record of value and study for each end of the interval.
    """
    value = float(holds)
    return {name: value} | repeat_record((f"{name}_ci_low", f"{name}_ci_high"), {"value": value, "study_id": study})


def rate(name: str, *, higher: bool) -> list[dict[str, Any]]:
    """Build the metrics of `with_interval`: lm-eval's mean, which has a standard error, and both ends of an interval.

    The interval is a 95% percentile bootstrap of the mean that resamples whole studies (Appendix C.2). Near 0 and 1 it
    is Wilson's (`bootstrap_mean`).

    Args:
        name: The metric.
        higher: Whether higher is better.

    Returns:
        Entries of lm-eval's `metric_list`: the mean, then the lower and the upper bound.
    """
    ends = (f"{name}_ci_low", f"{name}_ci_high")

    def compute_figures(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        values, studies = ([record[column] for record in records] for column in ("value", "study_id"))
        interval = bootstrap_mean(values, groups=studies, bounds=(0, 1))
        return dict(zip(ends, (interval.low, interval.high), strict=True))

    interval = Scorer(compute_figures, ends, lower=() if higher else ends, counts=())
    return [metric(name, "mean", higher=higher), *interval.metric_list]


def total(items: Sequence[int]) -> int:
    """Sum the values. An aggregation of lm-eval.

    Args:
        items: The values of all rows.

    Returns:
        The sum, 0 without values.
    """
    return sum(items)


def from_prose(kind: str) -> list[dict[str, Any]]:
    """Build the metrics of errors that were read from sentences.

    Args:
        kind: The kind of error.

    Returns:
        Entries of lm-eval's `metric_list`: the rate, then the count.
    """
    rate_name, count_name = f"{kind}_rate_from_prose", f"n_{kind}s_from_prose"
    return [metric(rate_name, "mean", higher=False), metric(count_name, total, higher=False)]


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
