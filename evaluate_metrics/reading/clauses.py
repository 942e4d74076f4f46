"""Clauses of a model's answer and what they deny, in the answer's own character positions.

Every step keeps the length of the text: what is of no interest becomes blanks, so that a span found here is a span of
the answer as written, and can be led back to the tokens that wrote it.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .thinking import FINISHED, UNFINISHED


class Clause(NamedTuple):
    """text: a part of `plain(answer)`; start: where it begins; denied: it stands under a heading that denies."""

    text: str
    start: int
    denied: bool


_ANSWER_TAG = re.compile(r"</?answer\s*>", re.IGNORECASE)
_DASH = re.compile(r"(?<=[^\W_])([*_]{0,2})[^\S\n][-–—]+(?=\s)")  # between words; at the start of a line it is a bullet
_LOOSE_QUOTE = re.compile(r"(?<![^\W_])'|'(?![^\W_])")
_NOISE = re.compile(r"[^\w\s.,;:!?'\"]|_")
_LINE = re.compile(r"[^\n]+")
_BULLET = re.compile(r"\s*(?:[-*•+–]|\d+[.)])\s")
_ITEM_END = re.compile(r"(\"\s*),(?=\s*\")")  # of a JSON or Python list: each item is a sentence
_SENTENCE = re.compile(r"[^.;!?\n]+[.;!?\n]?")
_WHETHER = re.compile(r"\b(?:whether|if)\b.*", re.DOTALL)
_VERB = (
    r"(?:is|are|was|were|has|have|can|could|may|might|shows?|contains?|i see|i can see|appears?|seems?|"
    r"(?:is|are|was|were|do|does|did|has|have|could|should|would|ca)n't)"
)
_CLAUSE_END = re.compile(
    r"\b(?:but|however|although|though|except(?: for)?|whereas|while|yet|apart from|aside from|other than|besides)\b"
    r"|\b(?:only|just|merely)\b"
    r"|\b(?:instead(?! of)|rather(?! than))\b"
    r"|,\s*(?=(?:with|showing|there|the|it|this|i|we)\b)"
    rf"|(?P<list>,)(?!\s*(?:or|nor|and|{_VERB})\b)(?=[^,]*\b{_VERB}\b)"
    r"|\band\s+(?=(?:there|the|it|i|we)\b)"
    r"|(?<=^no),"  # "No, ...": a reply
)
_NEUTRAL = re.compile(  # words that look like denials
    r"\bnot (?:only|just|merely)\b|\bno doubt\b|\bwithout (?:a |any )?doubt\b"
    r"|\b(?:not|cannot|can't)\s+(?:be\s+|been\s+)?(?:\w+ly\s+)?(?:rule out|ruled out|excluded?)\b"
    r"|\bnot (?:\w+ly )?(?:sure|certain|clear)\b|\bnot (?:fully|completely|entirely)\b"
)
_SCOPE_END = re.compile(r"\b(?:shows|contains|reveals|includes|has|depicts|features)\b")
_SEEN = (
    r"(?:seen|present|visible|visuali[sz]ed|identified|noted|observed|evident|detected|found|apparent|there|used|shown|"
    r"in (?:the|this) (?:image|picture|frame|view|scene))"
)
_OF_ALL = re.compile(r"\b(?:none of|neither)\b")
_DENIED_BEFORE = re.compile(
    rf"\b(?:no|not(?!\s+(?:be\s+|\w+ly\s+)*{_SEEN}\s*,)|cannot|\w+n't|without|absence of|absent:|missing:|never|"
    r"neither|nor|none of|lack(?:s|ing|ed)?(?: of)?|rather than|instead of|unlike)(?=\W|$)"
)
_NOT_SEEN = rf"(?:(?:not|never|no longer)(?:\s*$|\s+(?:be\s+|been\s+|\w+ly\s+)*{_SEEN}\b)|(?:absent|missing)\b)"
_DENIED_AT_ONCE = re.compile(
    rf"\s*[:=]?\s*(?:(?:no|none|false|absent|n)(?=\s*(?:$|[,:]))|{_NOT_SEEN}"
    rf"|(?:is|are|was|were|can|could)\s+{_NOT_SEEN}|(?:is|are|was|were|ca|could)n't\s+(?:be\s+)?{_SEEN}\b)"
)
# "The grasper and the hook are not visible": one denial for all names of a subject.
_DENIED_TOGETHER = re.compile(
    rf"(?:(?!{_VERB}\b|{_SEEN}\b)\b\w+\b|[\s,])*\b(?:(?:is|are|was|were|can|could)\s+{_NOT_SEEN}"
    rf"|(?:is|are|was|were|ca|could)n't\s+(?:be\s+)?{_SEEN}\b)"
    rf"|\s+(?:and|or)\s+(?:\w+\s+){{1,2}}{_NOT_SEEN}"
)
_STATES = re.compile(rf"\b(?:{_VERB}|see|visible|seen)\b")
_REACH = 300  # characters after a name in which its denial is looked for


def plain(text: str) -> str:
    """The text in lower case, thinking, markup and underscores as blanks, quotation marks as ", in the same length.

    >>> plain("**Grasper**, “cystic_duct”")
    '  grasper  , "cystic duct"'
    """
    if "<" in text:
        for pattern in (FINISHED, UNFINISHED, _ANSWER_TAG):
            text = pattern.sub(_blanks, text)
    text = text if text.isascii() else "".join(map(_simple, text))
    text = _DASH.sub(lambda match: f"{':':<{len(match[0])}}", text.lower())
    return _NOISE.sub(" ", _LOOSE_QUOTE.sub('"', text))


def _blanks(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _simple(character: str) -> str:
    if character in "’‘":
        return "'"
    if character in "“”«»":
        return '"'
    folded = unicodedata.normalize("NFKC", character).lower()
    return folded if len(folded) == 1 else character if len(character.lower()) == 1 else " "


def clauses(text: str) -> Iterator[Clause]:
    """The clauses of a text that state something: no questions, nothing after "whether" and "if"."""
    words = plain(text)
    under_denial = False
    for line in _LINE.finditer(text):
        written = words[line.start() : line.end()]
        if not _BULLET.match(line[0]):
            heading = written.rstrip(' "').endswith(":")
            under_denial = bool(heading and _DENIED_BEFORE.search(_NEUTRAL.sub(_blanks, written)))
        for clause, start in _of_line(_ITEM_END.sub(r"\1.", written)):
            yield Clause(clause, line.start() + start, under_denial)


def _of_line(line: str) -> Iterator[tuple[str, int]]:
    for sentence in _SENTENCE.finditer(line):
        if sentence[0].endswith("?"):
            continue
        words = _WHETHER.sub(_blanks, _NEUTRAL.sub(_blanks, sentence[0]))
        words = words.replace('"', " ")
        start = len(words) - len(words.lstrip())  # "No, ..." begins a sentence even after a blank
        for end in [*_CLAUSE_END.finditer(words, start), None]:
            if end and end[0].startswith("and") and not _STATES.search(words, start, end.start()):
                continue  # "The grasper and the hook are ...": one subject
            if end and end["list"] and not _ends_a_denial(words[start : end.start()]):
                continue  # "Grasper, hook, bag are not visible", "None of grasper, hook, bag are visible": one list
            part = words[start : end.start() if end else len(words)]
            if part.strip():
                yield part.rstrip(".;!\n"), sentence.start() + start
            start = end.end() if end else start


def _ends_a_denial(words: str) -> bool:
    """Whether a comma and a new verb after these words begin another statement: "no hook, a grasper is visible"."""
    return bool(_DENIED_BEFORE.search(words)) and not _OF_ALL.search(words)


def denials(clause: Clause, spans: Sequence[tuple[int, int]]) -> list[bool]:
    """For each [start, end) of the text, which begins in the clause: whether the clause denies what stands there."""
    if clause.denied:
        return [True] * len(spans)
    words = clause.text
    cues = [cue.end() for cue in _DENIED_BEFORE.finditer(words)]
    scope_ends = [end.start() for end in _SCOPE_END.finditer(words)]
    statement = _STATES.search(words)
    denied = []
    for start, end in ((start - clause.start, end - clause.start) for start, end in spans):
        nearest = bisect_right(cues, start)
        before = nearest > 0 and bisect_left(scope_ends, start) == bisect_left(scope_ends, cues[nearest - 1])
        after = words[end : end + _REACH]
        alone = statement is not None and statement.end() <= start
        denied.append(
            before or bool(_DENIED_AT_ONCE.match(after)) or (not alone and bool(_DENIED_TOGETHER.match(after)))
        )
    return denied
