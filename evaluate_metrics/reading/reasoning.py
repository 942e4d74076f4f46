"""The answer within a model's output: without its reasoning, remains of the chat template, and the next turn.

Models mark their reasoning in many ways: `<think>...</think>` and tags with similar names, `[THINK]...[/THINK]`
(Mistral), `◁think▷...◁/think▷` (Kimi), `<unused94>thought...<unused95>` (MedGemma), channels (gpt-oss, also without the
tokens around their names), `## Thinking ... ## Final Response` (HuatuoGPT). A marker may be misspelt, or its end may be
missing.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_NAMES = r"(?:think|thinks|thinking|thoughts?|reasoning|reason|reflection|analysis|scratchpad|rationale|cot)"
_BEGIN = re.compile(
    rf"<\s?\|?(?:begin_of_|start_)?{_NAMES}(?:\s[^<>]{{0,40}})?\|?\s?>|\[{_NAMES}\]|◁\s?{_NAMES}\s?▷|<unused94>"
    r"|<\|channel\|>\s?analysis(?:<\|message\|>)?|\Aanalysis(?=(?-i:[A-Z]))"
    r"|^#{1,4} ?(?:thinking|reasoning)(?: process)?:? *$",
    re.IGNORECASE | re.MULTILINE,
)
_END = re.compile(
    rf"<\s?\|?\s?[/\\]\s?{_NAMES}\s?\|?\s?>|<\|end(?:_of)?_{_NAMES}\|>|\[\s?[/\\]\s?{_NAMES}\s?\]|◁\s?/\s?{_NAMES}\s?▷"
    r"|<unused95>|<\|channel\|>\s?final\s?(?:<\|message\|>)?|assistantfinal"
    r"|^#{1,4} ?(?:final response|final answer|answer):? *$",
    re.IGNORECASE | re.MULTILINE,
)
_ANSWER_NAMES = r"(?:final[ _]?answer|answer|solution|final)"
_ANSWER_BEGIN = re.compile(rf"<\s?{_ANSWER_NAMES}\s?>|<\|begin_of_(?:box|solution)\|>", re.IGNORECASE)
_ANSWER_END = re.compile(rf"<\s?/\s?{_ANSWER_NAMES}\s?>|<\|end_of_(?:box|solution)\|>", re.IGNORECASE)
# The end of a turn, or the beginning of another speaker's turn that the model invents.
_TURN_END = re.compile(
    r"<\|im_end\|>|<\|end\|>|<\|eot_id\|>|<\|endoftext\|>|<\|end_of_text\|>|<\|return\|>|<end_of_turn>"
    r"|<end_of_utterance>"
    r"|</s>|<eos>|<\|im_start\|>\s?user|<start_of_turn>\s?user"
    r"|(?<=[\s.>])(?-i:Question|Human|User|Instruction) ?:(?=\s)"
    r"|^(?:#{1,4} ?)?(?:user|human|instruction|question|q ?\d*)(?: ?\d{1,3})? ?:",
    re.IGNORECASE | re.MULTILINE,
)


# A text without one of these has no marked part.
_MARK = re.compile(
    r"[<\[◁]|#|assistantfinal|analysis|(?:question|human|user|instruction|q ?\d*)(?: ?\d{1,3})? ?:", re.IGNORECASE
)


class Span(NamedTuple):
    """The span of an answer, text[start:end].

    Attributes:
        start: Its start.
        end: Its end.
        kind: "whole", "after reasoning", "before reasoning", "open reasoning" or "tagged". "open reasoning" is a
            reasoning without an end and without text before it; it may contain an answer.
    """

    start: int
    end: int
    kind: str


LIMIT = 64 * 1024  # longest answer that is read, in characters; a model that repeats itself fills its token limit


def find_answer_span(text: str) -> Span:
    """Find the answer in a model's output.

    It is the text after the last end of a reasoning. Without an end, it is the text before the reasoning, or the open
    reasoning itself if there is no such text. Of that, it is the part up to the next turn, and of that the part in
    answer tags, from the first to the last of them. No span is longer than `LIMIT`: the rest is a repetition.

    Args:
        text: The output.

    Returns:
        The span.

    >>> find_answer_span("<think>No?</think>Yes.")
    Span(start=18, end=22, kind='after reasoning')
    >>> find_answer_span("<think>It shows a").kind, find_answer_span("A hook.").kind
    ('open reasoning', 'whole')
    """
    if not _MARK.search(text):
        return Span(0, min(len(text), LIMIT), "whole")
    start, end, kind = _find_answer(text)
    return Span(start, min(end, start + LIMIT), kind)


def exceeds_limit(text: str) -> bool:
    """Whether the answer in a text is longer than `LIMIT`.

    Args:
        text: The output.

    Returns:
        True if the answer is longer.

    >>> exceeds_limit("<think>" + "It may be. " * 10_000 + "</think>Yes."), exceeds_limit("yes " * 20_000)
    (False, True)
    """
    if len(text) <= LIMIT:
        return False
    start, end, _ = _find_answer(text)
    return end - start > LIMIT


def _find_answer(text: str) -> Span:
    """Find the answer without the limit of `find_answer_span`."""
    tag = _OPEN_TAG.search(text, max(len(text) - 20, 0))
    start, end, kind = 0, tag.start() if tag else len(text), "whole"
    last_end_match = None
    for last_end_match in _END.finditer(text):  # noqa: B007
        pass
    if last_end_match is not None:
        start, kind = last_end_match.end(), "after reasoning"
    begin = _BEGIN.search(text, start)
    if begin is not None:
        if _has_content(text, start, begin.start()):
            end, kind = begin.start(), "before reasoning"
        elif begin.end() < end:
            start, kind = begin.end(), "open reasoning"
    elif last_end_match is not None and not _has_content(text, start, end):
        # Nothing follows the reasoning, so the text before it may be the answer.
        first_beginning = _BEGIN.search(text)
        first_start = (
            first_beginning.start()
            if first_beginning is not None and first_beginning.start() < last_end_match.start()
            else 0
        )
        if not _has_content(text, 0, first_start) and is_truncated(text):
            # "...</think><answ": the reasoning is the only text.
            return Span(
                first_beginning.end() if first_beginning is not None else 0, last_end_match.start(), "open reasoning"
            )
        start, end, kind = 0, first_start, "before reasoning"
    end = _find_turn_end(text, start, end)
    return _find_tagged(text, Span(start, end, kind))


def extract_answer(text: str) -> str:
    """Extract the answer of a model's output, without its reasoning; only the text in answer tags if there are any.

    Args:
        text: The output.

    Returns:
        The answer; "" for an open reasoning.

    >>> extract_answer("<think>Perhaps no.</think>So: <answer>Yes</answer>")
    'Yes'
    """
    start, end, kind = find_answer_span(text)
    return "" if kind == "open reasoning" else text[start:end]


_OPEN_TAG = re.compile(r"<[/|]?[A-Za-z_]{0,15}\Z")
_MARKER = re.compile(r"(?:\A|\n)[^\S\n]*(?:[-*•+–]|\d{1,2}[.)])[*_\s]*\Z")
# The last line of a walk through the options: the next letter in order, without its text.
_WALK = re.compile(
    r"^(?P<bullet>[^\w\n]*)(?:[Oo]ption )?(?P<letter>[A-Z])\W[^\n]*\w[^\n]*"
    r"(?P<last>\n(?P=bullet)(?:[Oo]ption )?(?P<next>[A-Z])\W*)\Z",
    re.MULTILINE,
)
_SENTENCE_END = re.compile(r"[.!?;:。！？](?=[\s*)\]\"”»]|\Z)|\n")
_LAST_WORD = re.compile(r"\S+\s*\Z")
_BARE = re.compile(r"\W*(?:[A-Za-z]|yes|no)\W*", re.IGNORECASE)


def is_truncated(text: str) -> bool:
    r"""Whether a text ends on an open tag, on a list marker, or in the middle of a walk through the options.

    Args:
        text: The text.

    Returns:
        True if its end is unfinished.

    >>> is_truncated("It is C.\n- A: no\n- B"), is_truncated("It is\n\nC"), is_truncated("Yes.</think><answ")
    (True, False, True)
    """
    return _find_finished_end(text) < len(text)


def remove_unfinished(text: str, *, cut: bool = False) -> str:
    """Remove the unfinished end of a text; positions in the rest stay the same.

    Args:
        text: An answer, or any part of it.
        cut: Whether it is known to be truncated. Then an unfinished last sentence is also removed; of an only sentence
            just the last word. A single letter, yes or no stays, as in an answer of one token.

    Returns:
        The beginning of the text.

    >>> remove_unfinished("It is edema. The left l", cut=True), remove_unfinished("B. No ede", cut=True)
    ('It is edema.', 'B. No ')
    >>> remove_unfinished("C", cut=True)
    'C'
    """
    finished_end = _find_finished_end(text)
    if not cut or finished_end < len(text) or _BARE.fullmatch(text):
        return text[:finished_end]
    *_, end = [0, *(match.end() for match in _SENTENCE_END.finditer(text) if _has_content(text, 0, match.start()))]
    letters = re.fullmatch(r"\W*[A-Za-z]\W*", text[:end])  # "B. No ede"
    return text[:end] if end and not letters else _LAST_WORD.sub("", text)


def _find_finished_end(text: str) -> int:
    """Find the end of the finished part of a text."""
    tag = _OPEN_TAG.search(text, max(len(text) - 40, 0))
    if tag:
        return tag.start()
    tail = max(len(text) - 2000, 0)
    marker = _MARKER.search(text, tail)
    if marker and _has_content(text, 0, marker.start()):
        return marker.start()
    walk = _WALK.search(text, tail)
    return walk.start("last") if walk and ord(walk["next"]) == ord(walk["letter"]) + 1 else len(text)


def _has_content(text: str, start: int, end: int) -> bool:
    """Whether a part of a text has letters or digits outside of tags."""
    return any(character.isalnum() for character in re.sub(r"<(?!answer[ :=])[^<>]{0,40}>", "", text[start:end]))


def _find_turn_end(text: str, start: int, end: int) -> int:
    """Find the end of the first turn with content."""
    has_content = False
    for turn in _TURN_END.finditer(text, start, end):
        has_content = has_content or _has_content(text, start, turn.start())
        if has_content:
            return turn.start()
        start = turn.end()
    return end


def _find_tagged(text: str, span: Span) -> Span:
    """Find the span from the first to the last answer in tags; a tag may be unpaired."""
    begins = [match.end() for match in _ANSWER_BEGIN.finditer(text, span.start, span.end)]
    ends = [match.start() for match in _ANSWER_END.finditer(text, span.start, span.end)]
    if begins:
        begin, end = begins[0], ends[-1] if ends and ends[-1] > begins[-1] else span.end
    elif ends:  # "C: C</answer>": the line of the end tag
        begin, end = max(text.rfind("\n", span.start, ends[-1]) + 1, span.start), ends[-1]
    else:
        return span
    return Span(begin, end, "tagged") if _has_content(text, begin, end) else span
