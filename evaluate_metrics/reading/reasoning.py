"""Which part of what a model wrote is its answer: not its reasoning, not what a chat template left, not a next turn.

Models mark their reasoning in many ways: `<think>...</think>` and tags of like names, `[THINK]...[/THINK]` (Mistral),
`◁think▷...◁/think▷` (Kimi), `<unused94>thought...<unused95>` (MedGemma), channels (gpt-oss, also without the tokens
around their names), `## Thinking ... ## Final Response` (HuatuoGPT). A mark may be misspelt, or its end may be missing.
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
# What ends a turn, and what a model writes that goes on with a turn of somebody else.
_TURN_END = re.compile(
    r"<\|im_end\|>|<\|end\|>|<\|eot_id\|>|<\|endoftext\|>|<\|end_of_text\|>|<\|return\|>|<end_of_turn>"
    r"|<end_of_utterance>"
    r"|</s>|<eos>|<\|im_start\|>\s?user|<start_of_turn>\s?user"
    r"|(?<=[\s.>])(?-i:Question|Human|User|Instruction) ?:(?=\s)"
    r"|^(?:#{1,4} ?)?(?:user|human|instruction|question|q ?\d*)(?: ?\d{1,3})? ?:",
    re.IGNORECASE | re.MULTILINE,
)


class Span(NamedTuple):
    """The answer is text[start:end]; how: "whole", "after reasoning", "before reasoning", "open reasoning", "tagged".

    "open reasoning": nothing but the beginning of a reasoning that never ends; it may hold an answer or none.
    """

    start: int
    end: int
    how: str


LIMIT = 64 * 1024  # characters that are read of an answer; a model that repeats itself fills its limit of tokens


def answer_span(text: str) -> Span:
    """Where the answer stands in what a model wrote.

    What follows the last end of a reasoning; without an end, what stands before its beginning, or the open reasoning
    itself where nothing does. Of that, the part up to the next turn, and of that what is in answer tags, from the
    first to the last of them. No span is longer than `LIMIT`: what goes on is a repetition.

    >>> answer_span("<think>No?</think>Yes.")
    Span(start=18, end=22, how='after reasoning')
    >>> answer_span("<think>It shows a").how, answer_span("A hook.").how
    ('open reasoning', 'whole')
    """
    start, end, how = _answer(text)
    return Span(start, min(end, start + LIMIT), how)


def is_cut(text: str) -> bool:
    """Whether the answer in a text is longer than what is read of it.

    >>> is_cut("<think>" + "It may be. " * 10_000 + "</think>Yes."), is_cut("yes " * 20_000)
    (False, True)
    """
    if len(text) <= LIMIT:
        return False
    start, end, _ = _answer(text)
    return end - start > LIMIT


def _answer(text: str) -> Span:
    """`answer_span` before it is cut."""
    start, end, how = 0, len(text), "whole"
    last = None
    for last in _END.finditer(text):  # noqa: B007
        pass
    if last is not None:
        start, how = last.end(), "after reasoning"
    begin = _BEGIN.search(text, start)
    if begin is not None:
        if _says_something(text, start, begin.start()):
            end, how = begin.start(), "before reasoning"
        elif begin.end() < end:
            start, how = begin.end(), "open reasoning"
    elif last is not None and not _says_something(text, start, end):
        # Nothing follows the reasoning: what stands before it may be the answer.
        first = _BEGIN.search(text)
        stop = first.start() if first is not None and first.start() < last.start() else 0
        start, end, how = 0, stop, "before reasoning"
    end = _end_of_turn(text, start, end)
    return _tagged(text, Span(start, end, how))


def answer_part(text: str) -> str:
    """What a model wrote without its reasoning; of that, what stands in answer tags where there are any.

    >>> answer_part("<think>Perhaps no.</think>So: <answer>Yes</answer>")
    'Yes'
    """
    start, end, how = answer_span(text)
    return "" if how == "open reasoning" else text[start:end]


def _says_something(text: str, start: int, end: int) -> bool:
    return any(character.isalnum() for character in re.sub(r"<[^<>]{0,40}>", "", text[start:end]))


def _end_of_turn(text: str, start: int, end: int) -> int:
    said = False
    for turn in _TURN_END.finditer(text, start, end):
        said = said or _says_something(text, start, turn.start())
        if said:
            return turn.start()
        start = turn.end()
    return end


def _tagged(text: str, span: Span) -> Span:
    """The span from the first to the last answer in tags; a tag may miss its partner."""
    begins = [match.end() for match in _ANSWER_BEGIN.finditer(text, span.start, span.end)]
    ends = [match.start() for match in _ANSWER_END.finditer(text, span.start, span.end)]
    if begins:
        begin, end = begins[0], ends[-1] if ends and ends[-1] > begins[-1] else span.end
    elif ends:  # "C: C</answer>": the line that the end stands on
        begin, end = max(text.rfind("\n", span.start, ends[-1]) + 1, span.start), ends[-1]
    else:
        return span
    return Span(begin, end, "tagged") if _says_something(text, begin, end) else span
