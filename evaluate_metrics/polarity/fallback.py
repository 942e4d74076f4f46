"""Y0: the confidence fallback of CXR-ContraBench (section 4, Appendices B.2 and D.3), as pure functions.

The paper gives the rule: the answer of a structured packet replaces the baseline answer only if the baseline's
confidence is below 0.80 and the packet's confidence is higher by at least 0.03. It prints neither the packet nor the
measurement of confidence. Here the model states both in one response, a JSON object:

    {"answer": "B", "confidence": 0.62, "packet": {"question_asks_for": "presence", "finding": "edema",
     "location": "", "answer": "C", "confidence": 0.85}}

The baseline is the answer outside the packet. An unreadable response is an outcome of its own and never leads to a
replacement.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, NamedTuple

from ..arguments.kinds import FLAG, SHARE, TEXT, TEXTS, instance, optional, read_later
from ..arguments.schema import check_arguments
from ..reading.choice import Answer, parse_answer
from ..reading.outcome import EVIDENCE
from ..reading.reasoning import extract_answer
from .verifier import Verdict

BASELINE_BELOW = 0.80
MARGIN = 0.03

REASONS = (
    "fired",
    "no_prediction",
    "no_packet",
    "packet_unreadable",
    "packet_answer_unreadable",
    "confidence_missing",
    "confidence_unreadable",
    "packet_confidence_missing",
    "packet_confidence_unreadable",
    "baseline_confident",
    "margin_too_small",
    "same_answer",
)


class Confidence(NamedTuple):
    """A stated confidence.

    Attributes:
        value: A fraction in [0, 1]; None unless outcome is "read".
        outcome: The outcome of reading.
    """

    value: float | None
    outcome: Literal["read", "missing", "unreadable"]


class Statement(NamedTuple):
    """An answer and its stated confidence.

    Attributes:
        answer: The answer.
        confidence: The confidence.
    """

    answer: Answer
    confidence: Confidence


class PacketResponse(NamedTuple):
    """A response with a baseline answer and a packet.

    Attributes:
        baseline: The statement outside the packet.
        packet: The statement of the packet; None unless outcome is "read".
        outcome: "none" for a response without a packet, "unreadable" for a broken packet.
    """

    baseline: Statement
    packet: Statement | None
    outcome: Literal["read", "none", "unreadable"]


_MISSING = Confidence(None, "missing")
_PACKET_KEY = re.compile(r"""["']packet["']\s*:""", re.IGNORECASE)
_VALUE_OF_A_KEY = re.compile(r"""["']\s*:\s*\Z""")
_BEFORE = 100  # characters before an object that may contain the end of its key
_NUMBER = re.compile(r"(?P<number>\d{1,3}(?:\.\d+)?|\.\d+)\s*(?P<percent>%|percent)?", re.IGNORECASE)


@check_arguments(text=optional(TEXT), options=TEXTS, cut=FLAG)
def read_packet(text: str | None, options: Sequence[str], *, cut: bool = False) -> PacketResponse:
    """Read the baseline answer, the packet's answer, and the confidence of each.

    Args:
        text: The response. The object may be inside a code fence or between sentences, and may be repeated. If two
            objects differ, no packet is read, and the baseline only if they agree on it. Without an object, the text
            before any packet is read as an answer.
        options: The answer set in the displayed order, lettered from A.
        cut: Whether the text is known to be truncated, for example by a token limit.

    Returns:
        The response.

    >>> options = ["Edema", "No edema", "Atelectasis"]
    >>> response = read_packet('{"answer": "B", "confidence": "62%", "packet": {"answer": "Atelectasis"}}', options)
    >>> response.baseline.answer.choice, response.baseline.confidence
    (1, Confidence(value=0.62, outcome='read'))
    >>> response.packet.answer.choice, response.packet.confidence
    (2, Confidence(value=None, outcome='missing'))
    >>> read_packet("B", options).outcome
    'none'
    """
    text = extract_answer(text or "")
    responses = [
        _build_response(statement, options)
        for statement in _iterate_objects(text)
        if "answer" in statement or "packet" in statement
    ]
    if len({_remove_evidence(response) for response in responses}) > 1:
        return PacketResponse(Statement(_select_baseline(responses), _MISSING), None, "unreadable")
    if responses:
        return min(responses, key=lambda response: _get_strength(response.baseline.answer))
    before, *packet_texts = _PACKET_KEY.split(text, maxsplit=1)
    baseline = Statement(_read_answer(before, options, cut=cut and not packet_texts), _MISSING)
    return PacketResponse(baseline, None, "unreadable" if packet_texts else "none")


@check_arguments(stated=read_later("stated"))
def read_confidence(stated: Any) -> Confidence:
    """Read a confidence as a fraction: 0.85, "0.85", 85, "85" and "85%" are equal.

    A number above 1 and up to 10 without a percent sign may have the scale ten or the scale a hundred: it is
    unreadable, like words, true and false, and numbers outside the scale.

    Args:
        stated: The stated value.

    Returns:
        The confidence.

    >>> read_confidence("85 %"), read_confidence(8).outcome, read_confidence(None).outcome
    (Confidence(value=0.85, outcome='read'), 'unreadable', 'missing')
    """
    if stated is None or stated == "":
        return _MISSING
    match = None if isinstance(stated, bool) else _NUMBER.fullmatch(str(stated).strip())
    number = Decimal(match["number"]) if match else None
    if match is None or number is None or number > 100 or (1 < number <= 10 and not match["percent"]):
        return Confidence(None, "unreadable")
    return Confidence(float(number / 100 if match["percent"] or number > 1 else number), "read")


@check_arguments(response=instance(PacketResponse), below=SHARE, margin=SHARE)
def fall_back(response: PacketResponse, *, below: float = BASELINE_BELOW, margin: float = MARGIN) -> Verdict:
    """Replace the baseline answer by the packet's if the baseline is unsure and the packet is surer (the rule Y0).

    Args:
        response: The result of `read_packet`. A baseline answer that could not be read stays unread.
        below: The baseline is replaced only if its confidence is less than this; a fraction from 0 to 1.
        margin: The packet's confidence must be higher by at least this; a fraction from 0 to 1.

    Returns:
        The verdict with one of `REASONS` of this module. Numbers are compared in their written form: 0.82 exceeds 0.79
        by 0.03, although the difference of the two floats is less.

    >>> response = read_packet('{"answer": "A", "confidence": 0.79, "packet": {"answer": "B", "confidence": 0.82}}',
    ...                        ["Edema", "No edema"])
    >>> fall_back(response)
    Verdict(choice=1, fired=True, reason='fired')
    """
    baseline, packet = response.baseline, response.packet
    refusal = _find_unread(response)
    if not refusal and packet is not None:
        baseline_confidence, packet_confidence = (
            _parse_exact(baseline.confidence.value),
            _parse_exact(packet.confidence.value),
        )
        refusals = (
            ("baseline_confident", baseline_confidence >= _parse_exact(below)),
            ("margin_too_small", packet_confidence - baseline_confidence < _parse_exact(margin)),
            ("same_answer", packet.answer.choice == baseline.answer.choice),
        )
        refusal = next((reason for reason, is_refused in refusals if is_refused), "")
    if refusal or packet is None:
        return Verdict(baseline.answer.choice, False, refusal)
    return Verdict(packet.answer.choice, True, "fired")


def _find_unread(response: PacketResponse) -> str:
    """Find the first unreadable value that the rule needs; "" if all are readable."""
    baseline, packet, outcome = response
    if baseline.answer.choice is None:
        return "no_prediction"
    if packet is None:
        return "no_packet" if outcome == "none" else "packet_unreadable"
    if packet.answer.choice is None:
        return "packet_answer_unreadable"
    if baseline.confidence.value is None:
        return f"confidence_{baseline.confidence.outcome}"
    return "" if packet.confidence.value is not None else f"packet_confidence_{packet.confidence.outcome}"


def _parse_exact(number: float | None) -> Decimal:
    """Convert the number to a decimal of its shortest written form."""
    return Decimal(str(number))


def _build_response(statement: dict[str, Any], options: Sequence[str]) -> PacketResponse:
    packet = statement.get("packet")
    baseline = _build_statement(statement, options)
    if isinstance(packet, dict):
        return PacketResponse(baseline, _build_statement(packet, options), "read")
    return PacketResponse(baseline, None, "none" if packet is None else "unreadable")


def _select_baseline(responses: Iterable[PacketResponse]) -> Answer:
    """Select the baseline answer on which all responses with an answer agree; an unread one if they differ."""
    answers = [response.baseline.answer for response in responses]
    stated_answers = [answer for answer in answers if answer.reason not in ("none", "empty")]
    if not stated_answers:
        return Answer(None, "unread", reason="none")
    if len({(answer.choice, answer.outcome, answer.reason) for answer in stated_answers}) > 1:
        return Answer(None, "unread", reason="ambiguous")
    return min(stated_answers, key=_get_strength)


def _remove_evidence(response: PacketResponse) -> PacketResponse:
    """Remove the evidence, because two statements of one answer, "B" and "B. No edema", differ in it."""

    def clear_evidence(statement: Statement) -> Statement:
        return statement._replace(answer=statement.answer._replace(evidence=""))

    packet = response.packet and clear_evidence(response.packet)
    return response._replace(baseline=clear_evidence(response.baseline), packet=packet)


def _get_strength(answer: Answer) -> int:
    """Return a sort key of answers by their source, the plainest first."""
    return EVIDENCE.index(answer.evidence) if answer.evidence else len(EVIDENCE)


def _build_statement(fields: dict[str, Any], options: Sequence[str]) -> Statement:
    """Build a statement from an object's answer and confidence."""
    answer = fields.get("answer")
    answer = answer if isinstance(answer, str) else None  # the number 2 may count from 0 or from 1
    return Statement(_read_answer(answer, options), read_confidence(fields.get("confidence")))


def _read_answer(text: str | None, options: Sequence[str], *, cut: bool = False) -> Answer:
    """Read an answer without its stage, by which two statements of one answer would differ."""
    return parse_answer(text, options, cut=cut)._replace(stage="")


def _iterate_objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the outermost JSON objects in a text, except those that follow a key, which a broken object may hold."""
    decoder = json.JSONDecoder(object_pairs_hook=_require_distinct_keys, parse_float=Decimal)
    start = text.find("{")
    while start >= 0:
        end = start + 1
        try:
            json_object, end = decoder.raw_decode(text, start)
        except (ValueError, InvalidOperation):
            json_object = None
        except RecursionError:  # any object that begins before the first end is nested in it
            json_object, end = None, text.find("}", start) + 1 or len(text)
        if json_object is not None and not _VALUE_OF_A_KEY.search(text, max(0, start - _BEFORE), start):
            yield json_object
        start = text.find("{", end)


def _require_distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Convert keys to lower case; raise ValueError if a key occurs twice."""
    lower_case = {key.strip().casefold(): value for key, value in pairs}
    if len(lower_case) < len(pairs):
        raise ValueError("a key occurs twice")
    return lower_case
