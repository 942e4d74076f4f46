"""A look at the first answers of a run: what is wrong with all of them is said while little time is lost.

`medfaith.report.unread` says the same of whole runs, in the same words (`advice`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...evaluate_metrics.polarity.fallback import read_packet
from ...evaluate_metrics.reading.choice import parse_answer
from ...evaluate_metrics.reading.diseases import extract_labels
from ...evaluate_metrics.reading.outcome import DECLINED, UNREAD, Outcome
from ...evaluate_metrics.reading.surgery import read_instruments, read_triplets
from ...evaluate_metrics.reading.yes_no import explain_yes_no
from ...loaders.progress import say
from ..outcomes import CUT, EMPTY, IF_DECLINED, UNANSWERED
from .advice import FEW, IF_SAME, IF_UNREAD, MORE_TOKENS, in_one_line, shortened
from .chat_form import Reply


class _Seen(NamedTuple):
    doc: Mapping[str, Any]
    reply: Reply


class FirstAnswers:
    """Is shown every answer of a run as it comes, and warns on stderr where something is wrong with all of the first.

    What counts is the first `FEW` that a model gave: rows that a server left unanswered are no answers.
    """

    def __init__(self) -> None:
        self._seen: list[_Seen] = []

    def see(self, doc: Any, reply: Reply) -> None:
        """An answer to the question of a document of lm-eval."""
        if len(self._seen) < FEW and reply.outcome != UNANSWERED:
            self._seen.append(_Seen(doc if isinstance(doc, Mapping) else {}, reply))
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
        how = "of each only the opening statement is read"
        return f"{first} are all cut at the limit of tokens, such as {example}; {how}. What to do: {MORE_TOKENS}"
    if len({*texts}) == 1:
        return f"{first} are all {example}. What to do: {IF_SAME}"
    read = {read_outcome(one.doc, one.reply.scored, cut=one.reply.outcome == CUT) for one in answers}
    if read == {UNREAD}:
        return f"none of {first} can be read, such as {example}. What to do: {IF_UNREAD}"
    if read == {DECLINED}:
        return f"{first} all decline to answer, such as {example}. What to do: {IF_DECLINED}"
    return ""


def is_unread(doc: Mapping[str, Any], text: str) -> bool:
    """Whether a text is unread by the reader of the document's task.

    >>> is_unread({"options": ["Edema", "No edema"]}, "I see."), is_unread({"options": ["Yes", "No"]}, "Yes.")
    (True, False)
    >>> is_unread({"ask": "instruments"}, "What a day."), is_unread({"sentence": "The heart is wide."}, "I see.")
    (True, False)
    """
    return read_outcome(doc, text) == UNREAD


def read_outcome(doc: Mapping[str, Any], text: str, *, cut: bool = False) -> Outcome | None:
    """What the reader of the document's task makes of a text; None where the task has no reader.

    Such documents are those of That's the Wrong Lung!, which scores where a model looks, and of other people's tasks.

    Args:
        doc: The document of lm-eval.
        text: The text that is scored.
        cut: Whether the text was cut at the limit of tokens.
    """
    question, options = str(doc.get("question") or ""), doc.get("options")
    if doc.get("ask"):
        return (read_instruments if doc["ask"] == "instruments" else read_triplets)(text, cut=cut).outcome
    if doc.get("question_type") == "open":
        return extract_labels(text, cut=cut).outcome
    if not options:
        return None
    if {option.casefold() for option in options} == {"yes", "no"}:
        return explain_yes_no(text, question, cut=cut).outcome
    of_packet = read_packet(text, options, cut=cut).baseline.answer  # the prompt `packet` wants two answers
    return of_packet.outcome if of_packet.choice is not None else parse_answer(text, options, question, cut=cut).outcome
