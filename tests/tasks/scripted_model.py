"""An lm-eval model that answers each kind of question of the synthetic ReXVQA as a test of Y0 and M2 needs it."""

from __future__ import annotations

import json
import string
from typing import Any

from tests.tasks.evaluating import Says


class Scripted(Says):
    """Right, but for location questions (a wrong side) and where a negated option is wrong (it is taken).

    Asked for a packet it answers by the row's kind, its number modulo 5: 0 sure and right, with another answer in the
    packet; 1 a bare letter; 2 unsure and wrong, with the right answer in the packet; 3 a response that breaks off;
    4 unsure and right, with another answer 0.03 surer in the packet.
    """

    def __init__(self, **_: Any) -> None:
        super().__init__(lambda doc: self._packet(doc) if doc["prompt"] == "packet" else self._letter(doc))

    def _letter(self, doc: dict[str, Any]) -> str:
        if kind(doc) == 2:
            return "The answer is " + _other(doc)
        return string.ascii_uppercase[doc["negated"] if doc["negated"] >= 0 else doc["answer"]]

    def _packet(self, doc: dict[str, Any]) -> str:
        right, wrong = string.ascii_uppercase[doc["answer"]], _other(doc)
        if kind(doc) == 1:
            return string.ascii_uppercase[doc["negated"]]
        direct, sure, in_packet, surer = {
            0: (right, 0.8, wrong, 0.95),
            2: (wrong, "40%", right, "90%"),
            3: (right, 0.5, wrong, 0.9),
            4: (right, 0.79, wrong, 0.82),
        }[kind(doc)]
        packet = {"question_asks_for": "other", "finding": "", "location": "", "answer": in_packet, "confidence": surer}
        text = json.dumps({"answer": direct, "confidence": sure, "packet": packet})
        return f"```json\n{text}\n```" if kind(doc) != 3 else text[:-20]


def kind(doc: dict[str, Any]) -> int:
    return int(doc["id"].rsplit("_", 1)[1]) % 5


def _other(doc: dict[str, Any]) -> str:
    """The letter of a wrong option; with two sides and a third option, of the other side."""
    return string.ascii_uppercase[1 if doc["answer"] == 0 else 0]
