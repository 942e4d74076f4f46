"""A look at the first answers of a run: what is wrong with all of them is said while little time is lost.

`medfaith.report.unread` says the same of whole runs, in the same words (`advice`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...evaluate_metrics.polarity.fallback import read_packet
from ...evaluate_metrics.reading.choice import parse_answer
from ...evaluate_metrics.reading.diseases import extract_labels
from ...evaluate_metrics.reading.surgery import read_instruments, read_triplets
from ...evaluate_metrics.reading.yes_no import read_yes_no
from ...loaders.progress import say
from ..outcomes import CUT, EMPTY, UNANSWERED
from .advice import FEW, IF_SAME, IF_UNREAD, MORE_TOKENS, in_one_line, shortened
from .chat_form import Reply


class _Seen(NamedTuple):
    doc: Mapping[str, Any]
    reply: Reply
    scored: str


class FirstAnswers:
    """Is shown every answer of a run as it comes, and warns on stderr where something is wrong with all of the first.

    What counts is the first `FEW` that a model gave: rows that a server left unanswered are no answers.
    """

    def __init__(self) -> None:
        self._seen: list[_Seen] = []

    def see(self, doc: Any, reply: Reply, scored: str) -> None:
        """An answer to the question of a document of lm-eval, and the text of it that is scored."""
        if len(self._seen) < FEW and reply.outcome != UNANSWERED:
            self._seen.append(_Seen(doc if isinstance(doc, Mapping) else {}, reply, scored))
            if len(self._seen) == FEW and (fault := _fault(self._seen)):
                say(f"medfaith: WARNING: {fault}")


def _fault(answers: Sequence[_Seen]) -> str:
    """What is wrong with all answers, and what to do; "" where nothing is."""
    outcomes = {one.reply.outcome for one in answers}
    texts = [in_one_line(one.reply.text) for one in answers]
    first, example = f"the first {FEW} answers", f"“{shortened(texts[-1])}”"
    if outcomes == {EMPTY}:
        return f"{first} are all empty. What to do: {IF_SAME}"
    if outcomes == {CUT}:
        return f"{first} are all cut at the limit of tokens, such as {example}. What to do: {MORE_TOKENS}"
    if len({*texts}) == 1:
        return f"{first} are all {example}. What to do: {IF_SAME}"
    if all(is_unread(one.doc, one.scored) for one in answers):
        return f"none of {first} can be read, such as {example}. What to do: {IF_UNREAD}"
    return ""


def is_unread(doc: Mapping[str, Any], text: str) -> bool:
    """Whether the reader of the document's task finds no answer in a text. Of documents that have none: False.

    They are those of That's the Wrong Lung!, which scores where a model looks, and of other people's tasks.

    >>> is_unread({"options": ["Edema", "No edema"]}, "I see."), is_unread({"options": ["Yes", "No"]}, "Yes.")
    (True, False)
    >>> is_unread({"ask": "instruments"}, "What a day."), is_unread({"sentence": "The heart is wide."}, "I see.")
    (True, False)
    """
    question, options = str(doc.get("question") or ""), doc.get("options")
    if doc.get("ask"):
        return (read_instruments if doc["ask"] == "instruments" else read_triplets)(text).outcome == "unparsed"
    if doc.get("question_type") == "open":
        return extract_labels(text).outcome == "unreadable"
    if not options:
        return False
    if {option.casefold() for option in options} == {"yes", "no"}:
        return read_yes_no(text, question) not in ("yes", "no")
    of_packet = read_packet(text, options).baseline.answer  # the prompt `packet` wants an object with two answers
    return parse_answer(text, options, question).choice is None and of_packet.choice is None
