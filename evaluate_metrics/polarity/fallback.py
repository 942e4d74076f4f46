"""Y0: the confidence fallback of CXR-ContraBench (section 4, Appendices B.2 and D.3), as pure functions.

The paper gives the rule: the answer of a structured packet replaces the baseline answer only when the baseline's
confidence is below 0.80 and the packet's exceeds it by at least 0.03. It prints neither the packet nor how confidence
is measured. Here both are stated by the model in one response, a JSON object:

    {"answer": "B", "confidence": 0.62, "packet": {"question_asks_for": "presence", "finding": "edema",
     "location": "", "answer": "C", "confidence": 0.85}}

The baseline is the answer outside the packet. What cannot be read is an outcome of its own and never leads to a
replacement.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, NamedTuple

from ..reading.choice import Answer, parse_answer
from ..reading.outcome import EVIDENCE
from ..reading.reasoning import answer_part
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
    """value: a fraction in [0, 1], None unless outcome is "read"."""

    value: float | None
    outcome: Literal["read", "missing", "unreadable"]


class Statement(NamedTuple):
    """An answer and how sure of it the model says it is."""

    answer: Answer
    confidence: Confidence


class PacketResponse(NamedTuple):
    """packet: None unless outcome is "read"; "none" is a response without one, "unreadable" one with a broken one."""

    baseline: Statement
    packet: Statement | None
    outcome: Literal["read", "none", "unreadable"]


_MISSING = Confidence(None, "missing")
_PACKET_KEY = re.compile(r"""["']packet["']\s*:""", re.IGNORECASE)
_VALUE_OF_A_KEY = re.compile(r"""["']\s*:\s*\Z""")
_BEFORE = 100  # characters before an object in which its key ends
_NUMBER = re.compile(r"(?P<number>\d{1,3}(?:\.\d+)?|\.\d+)\s*(?P<percent>%|percent)?", re.IGNORECASE)


def read_packet(text: str | None, options: Sequence[str], *, cut: bool = False) -> PacketResponse:
    """The baseline answer, the packet's answer, and the confidence of each.

    Args:
        text: the response. The object may stand in a code fence or between sentences, and may be repeated; of two
            different ones no packet is read, and no baseline unless they agree on it. Without an object, the text in
            front of any packet is read as an answer.
        options: the answer set in the order shown, lettered from A.
        cut: the text is known to be cut, as at a limit of tokens.

    >>> options = ["Edema", "No edema", "Atelectasis"]
    >>> response = read_packet('{"answer": "B", "confidence": "62%", "packet": {"answer": "Atelectasis"}}', options)
    >>> response.baseline.answer.choice, response.baseline.confidence
    (1, Confidence(value=0.62, outcome='read'))
    >>> response.packet.answer.choice, response.packet.confidence
    (2, Confidence(value=None, outcome='missing'))
    >>> read_packet("B", options).outcome
    'none'
    """
    text = answer_part(text or "")
    read = [_response(found, options) for found in _objects(text) if "answer" in found or "packet" in found]
    if len({_without_evidence(response) for response in read}) > 1:
        return PacketResponse(Statement(_only(read), _MISSING), None, "unreadable")
    if read:
        return min(read, key=lambda response: _strength(response.baseline.answer))
    before, *broken = _PACKET_KEY.split(text, maxsplit=1)
    baseline = Statement(_read(before, options, cut=cut and not broken), _MISSING)
    return PacketResponse(baseline, None, "unreadable" if broken else "none")


def read_confidence(stated: Any) -> Confidence:
    """A confidence as a fraction: 0.85, "0.85", 85, "85" and "85%" are the same.

    A number above 1 and up to 10 without a percent sign may count out of ten or out of a hundred: it is unreadable, as
    are words, true and false, and what lies outside the scale.

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


def fall_back(response: PacketResponse, *, below: float = BASELINE_BELOW, margin: float = MARGIN) -> Verdict:
    """The answer after Y0, and why the packet's did or did not replace it.

    Args:
        response: what `read_packet` returns. A baseline answer that could not be read stays unread.
        below: the baseline is replaced only if its confidence is less than this.
        margin: the packet's confidence must be at least this much higher.

    Returns:
        The verdict with one of `REASONS` of this module. Numbers are compared as they are written: 0.82 exceeds 0.79 by
        0.03, although the difference of the two floats is less.

    >>> response = read_packet('{"answer": "A", "confidence": 0.79, "packet": {"answer": "B", "confidence": 0.82}}',
    ...                        ["Edema", "No edema"])
    >>> fall_back(response)
    Verdict(choice=1, fired=True, reason='fired')
    """
    baseline, packet = response.baseline, response.packet
    refusal = _unread(response)
    if not refusal and packet is not None:
        sure, surer = _exact(baseline.confidence.value), _exact(packet.confidence.value)
        refusals = (
            ("baseline_confident", sure >= _exact(below)),
            ("margin_too_small", surer - sure < _exact(margin)),
            ("same_answer", packet.answer.choice == baseline.answer.choice),
        )
        refusal = next((reason for reason, refused in refusals if refused), "")
    if refusal or packet is None:
        return Verdict(baseline.answer.choice, False, refusal)
    return Verdict(packet.answer.choice, True, "fired")


def _unread(response: PacketResponse) -> str:
    """The first thing that the rule needs and that could not be read; "" where all could."""
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


def _exact(number: float | None) -> Decimal:
    """The number as it is written in its shortest form."""
    return Decimal(str(number))


def _response(found: dict[str, Any], options: Sequence[str]) -> PacketResponse:
    packet = found.get("packet")
    baseline = _statement(found, options)
    if isinstance(packet, dict):
        return PacketResponse(baseline, _statement(packet, options), "read")
    return PacketResponse(baseline, None, "none" if packet is None else "unreadable")


def _only(responses: Iterable[PacketResponse]) -> Answer:
    """The baseline answer that all of them give that give one; an unread one where they give several."""
    answers = [response.baseline.answer for response in responses]
    given = [answer for answer in answers if answer.reason not in ("none", "empty")]
    if not given:
        return Answer(None, "unread", reason="none")
    if len({(answer.choice, answer.outcome, answer.reason) for answer in given}) > 1:
        return Answer(None, "unread", reason="ambiguous")
    return min(given, key=_strength)


def _without_evidence(response: PacketResponse) -> PacketResponse:
    """The response by which two statements of one answer are equal: "B" and "B. No edema" differ in their evidence."""
    statements = [
        of and of._replace(answer=of.answer._replace(evidence="")) for of in (response.baseline, response.packet)
    ]
    return PacketResponse(*statements, response.outcome)  # pyright: ignore


def _strength(answer: Answer) -> int:
    """Sorts answers by what they were read from, the plainest first."""
    return EVIDENCE.index(answer.evidence) if answer.evidence else len(EVIDENCE)


def _statement(found: dict[str, Any], options: Sequence[str]) -> Statement:
    answer = found.get("answer")
    answer = answer if isinstance(answer, str) else None  # 2 may count from 0 or from 1
    return Statement(_read(answer, options), read_confidence(found.get("confidence")))


def _read(text: str | None, options: Sequence[str], *, cut: bool = False) -> Answer:
    """The answer without the stage that decided, by which two statements of one answer would differ."""
    return parse_answer(text, options, cut=cut)._replace(stage="")


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The outermost JSON objects in a text; of a broken one, what is nested in it is not taken for one."""
    decoder = json.JSONDecoder(object_pairs_hook=_unambiguous, parse_float=Decimal)
    start = text.find("{")
    while start >= 0:
        end = start + 1
        try:
            found, end = decoder.raw_decode(text, start)
        except (ValueError, InvalidOperation):
            found = None
        except RecursionError:  # whatever begins before the first end is nested in it
            found, end = None, text.find("}", start) + 1 or len(text)
        if found is not None and not _VALUE_OF_A_KEY.search(text, max(0, start - _BEFORE), start):
            yield found
        start = text.find("{", end)


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Keys in lower case; an object that has one of them twice says two things."""
    found = {key.strip().casefold(): value for key, value in pairs}
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found
