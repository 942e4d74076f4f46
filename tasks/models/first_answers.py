"""A check of the first answers of a run, which warns early if all of them have the same problem.

`medfaith.reporting.unread` gives the same warnings, with the same texts (`advice`), for complete runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...evaluate_metrics.polarity.fallback import read_packet
from ...evaluate_metrics.reading.choice import parse_answer
from ...evaluate_metrics.reading.disease_names import list_classes
from ...evaluate_metrics.reading.diseases import extract_labels
from ...evaluate_metrics.reading.free_answers import read_free_answer
from ...evaluate_metrics.reading.outcome import DECLINED, UNREAD, Outcome
from ...evaluate_metrics.reading.surgery import read_instruments, read_triplets
from ...evaluate_metrics.reading.yes_no import explain_yes_no
from ...loaders.progress import say
from ..outcomes import CUT, EMPTY, IF_DECLINED, UNANSWERED
from .advice import FEW, IF_SAME, IF_UNANSWERED, IF_UNREAD, MORE_TOKENS, join_lines, shortened
from .chat_form import Reply


class _AnsweredDocument(NamedTuple):
    doc: Mapping[str, Any]
    reply: Reply


class FirstAnswers:
    """Collects the first answers of a run, and warns on stderr if all of them have the same problem.

    Only the first `FEW` answers of a model count. Rows that a server left unanswered are not answers; if there are
    `FEW` of them before the first answer, the warning has the reason of the last one.
    """

    def __init__(self) -> None:
        self._answers: list[_AnsweredDocument] = []
        self._n_unanswered = 0

    def add(self, doc: Any, reply: Reply) -> None:
        """Add an answer.

        Args:
            doc: The document of lm-eval.
            reply: The reply to its question.
        """
        if reply.outcome == UNANSWERED:
            self._n_unanswered += 1
            if self._n_unanswered == FEW and not self._answers:
                fault = f"the first {FEW} rows have no answer ({reply.end})"
                say(f"medfaith: WARNING: {fault}. What to do: {IF_UNANSWERED}")
        elif len(self._answers) < FEW:
            self._answers.append(_AnsweredDocument(doc if isinstance(doc, Mapping) else {}, reply))
            if len(self._answers) == FEW and (fault := _describe_problem(self._answers)):
                say(f"medfaith: WARNING: {fault}")


def _describe_problem(answers: Sequence[_AnsweredDocument]) -> str:
    """Describe a problem that all answers have, and what to do; return "" if there is none."""
    outcomes = {answer.reply.outcome for answer in answers}
    texts = [join_lines(answer.reply.text) for answer in answers]
    subject, example = f"the first {FEW} answers", f"“{shortened(texts[-1])}”"
    if outcomes == {EMPTY}:
        return f"{subject} are all empty. What to do: {IF_SAME}"
    if outcomes == {CUT}:
        note = "of each only the opening statement is read"
        return f"{subject} are all cut at the limit of tokens, such as {example}; {note}. What to do: {MORE_TOKENS}"
    if len({*texts}) == 1:
        return f"{subject} are all {example}. What to do: {IF_SAME}"
    reading_outcomes = {
        read_outcome(answer.doc, answer.reply.scored, cut=answer.reply.outcome == CUT) for answer in answers
    }
    if reading_outcomes == {UNREAD}:
        return f"none of {subject} can be read, such as {example}. What to do: {IF_UNREAD}"
    if reading_outcomes == {DECLINED}:
        return f"{subject} all decline to answer, such as {example}. What to do: {IF_DECLINED}"
    return ""


def is_unread(doc: Mapping[str, Any], text: str) -> bool:
    """Check whether the reader of the document's task cannot read a text.

    Args:
        doc: The document of lm-eval.
        text: The text that is scored.

    Returns:
        True if the text is unread; False if it is read or declines.

    >>> is_unread({"options": ["Edema", "No edema"]}, "I see."), is_unread({"options": ["Yes", "No"]}, "Yes.")
    (True, False)
    >>> is_unread({"answer_kind": "open", "options": ["none"]}, "A cyst."), is_unread({"answer_kind": "open"}, "?")
    (False, True)
    >>> is_unread({"ask": "instruments"}, "What a day."), is_unread({"sentence": "The heart is wide."}, "I see.")
    (True, False)
    """
    return read_outcome(doc, text) == UNREAD


def read_outcome(doc: Mapping[str, Any], text: str, *, cut: bool = False) -> Outcome | None:
    """Read a text with the reader of the document's task.

    Documents of That's the Wrong Lung!, which scores attention, and of foreign tasks have no reader.

    Args:
        doc: The document of lm-eval.
        text: The text that is scored.
        cut: Whether the text was cut at the token limit.

    Returns:
        The outcome, or None if the task has no reader.
    """
    question, options = str(doc.get("question") or ""), doc.get("options")
    if doc.get("ask"):
        return (read_instruments if doc["ask"] == "instruments" else read_triplets)(text, cut=cut).outcome
    if doc.get("answer_kind") == "open":
        return read_free_answer(text, cut=cut).outcome
    if doc.get("question_type") == "open":
        return extract_labels(text, list_classes(str(doc.get("id"))), cut=cut).outcome
    if not options:
        return None
    if {option.casefold() for option in options} == {"yes", "no"}:
        return explain_yes_no(text, question, cut=cut).outcome
    packet_answer = read_packet(text, options, cut=cut).baseline.answer  # the prompt `packet` asks for two answers
    return (
        packet_answer.outcome
        if packet_answer.choice is not None
        else parse_answer(text, options, question, cut=cut).outcome
    )
