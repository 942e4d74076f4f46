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


# Without one of these nothing marks a part of a text.
_MARK = re.compile(
    r"[<\[◁]|#|assistantfinal|analysis|(?:question|human|user|instruction|q ?\d*)(?: ?\d{1,3})? ?:", re.IGNORECASE
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
    if not _MARK.search(text):
        return Span(0, min(len(text), LIMIT), "whole")
    start, end, how = _answer(text)
    return Span(start, min(end, start + LIMIT), how)


def exceeds_limit(text: str) -> bool:
    """Whether the answer in a text is longer than what is read of it.

    >>> exceeds_limit("<think>" + "It may be. " * 10_000 + "</think>Yes."), exceeds_limit("yes " * 20_000)
    (False, True)
    """
    if len(text) <= LIMIT:
        return False
    start, end, _ = _answer(text)
    return end - start > LIMIT


def _answer(text: str) -> Span:
    """`answer_span` before it is cut."""
    tag = _OPEN_TAG.search(text, max(len(text) - 20, 0))
    start, end, how = 0, tag.start() if tag else len(text), "whole"
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
        if not _says_something(text, 0, stop) and looks_cut(text):
            # "...</think><answ": what was thought is all there is
            return Span(first.end() if first is not None else 0, last.start(), "open reasoning")
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


_OPEN_TAG = re.compile(r"<[/|]?[A-Za-z_]{0,15}\Z")
_MARKER = re.compile(r"(?:\A|\n)[^\S\n]*(?:[-*•+–]|\d{1,2}[.)])[*_\s]*\Z")
# The last line of a walk through the options: the letter that follows the one before it, and nothing of its text.
_WALK = re.compile(
    r"^(?P<bullet>[^\w\n]*)(?:[Oo]ption )?(?P<letter>[A-Z])\W[^\n]*\w[^\n]*"
    r"(?P<last>\n(?P=bullet)(?:[Oo]ption )?(?P<next>[A-Z])\W*)\Z",
    re.MULTILINE,
)
_SENTENCE_END = re.compile(r"[.!?;:。！？](?=[\s*)\]\"”»]|\Z)|\n")
_LAST_WORD = re.compile(r"\S+\s*\Z")
_BARE = re.compile(r"\W*(?:[A-Za-z]|yes|no)\W*", re.IGNORECASE)


def looks_cut(text: str) -> bool:
    """Whether a text ends on an open tag, on a list marker, or in the middle of a walk through the options.

    >>> looks_cut("It is C.\\n- A: no\\n- B"), looks_cut("It is\\n\\nC"), looks_cut("Yes.</think><answ")
    (True, False, True)
    """
    return _end_before_cut(text) < len(text)


def without_cut(text: str, *, cut: bool = False) -> str:
    """The text without what its end leaves unfinished: its beginning, so that places in it stay the same.

    Args:
        text: An answer, or any part of one.
        cut: It is known to be cut. Then the last sentence goes, too, if it does not end; of the first one only the last
            word. A lone letter, yes or no stays, as in an answer of one token.

    >>> without_cut("It is edema. The left l", cut=True), without_cut("B. No ede", cut=True), without_cut("C", cut=True)
    ('It is edema.', 'B. No ', 'C')
    """
    whole_to = _end_before_cut(text)
    if not cut or whole_to < len(text) or _BARE.fullmatch(text):
        return text[:whole_to]
    *_, end = [0, *(match.end() for match in _SENTENCE_END.finditer(text) if _says_something(text, 0, match.start()))]
    letters = re.fullmatch(r"\W*[A-Za-z]\W*", text[:end])  # "B. No ede"
    return text[:end] if end and not letters else _LAST_WORD.sub("", text)


def _end_before_cut(text: str) -> int:
    tag = _OPEN_TAG.search(text, max(len(text) - 40, 0))
    if tag:
        return tag.start()
    tail = max(len(text) - 2000, 0)
    marker = _MARKER.search(text, tail)
    if marker and _says_something(text, 0, marker.start()):
        return marker.start()
    walk = _WALK.search(text, tail)
    return walk.start("last") if walk and ord(walk["next"]) == ord(walk["letter"]) + 1 else len(text)


def _says_something(text: str, start: int, end: int) -> bool:
    return any(character.isalnum() for character in re.sub(r"<(?!answer[ :=])[^<>]{0,40}>", "", text[start:end]))


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
