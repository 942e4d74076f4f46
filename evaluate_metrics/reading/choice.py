"""Reads free text as one of a question's options. What cannot be read is an outcome of its own; nothing is guessed.

Thinking (`<think>` and its like) is dropped first, and `<answer>` tags are preferred to what stands around them.
Then, in this order, the first kind that says anything decides:

1. the whole text is one option's text;
2. a "final answer" statement, then an "answer" / "correct option" statement, each together with a letter that stands
   alone on the last line;
3. the letter (or several lines' letters) that the text begins with;
4. every letter and every option text mentioned anywhere.

Two different options within the deciding kind, or a letter with another option's letter or text on its line, are
`ambiguous`. A hedged choice ("I think B", "could be B") is still the choice.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from .thinking import without_thinking
from .words import words

Outcome = Literal["parsed", "ambiguous", "out_of_range", "none"]


class Answer(NamedTuple):
    """choice: index into the options, None unless outcome is "parsed"."""

    choice: int | None
    outcome: Outcome


_CONFLICT = -1  # stands among option indices for "more than one reading"

_TAG = re.compile(r"<answer\s*>(.*?)</answer\s*>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"</?[A-Za-z_]{1,20}>")
_MARKUP = re.compile(r"\\(?:boxed|text|textbf|mathrm)\b|[*_`\"“”${}]")
_QUOTE = re.compile(r"(?<!\w)['‘’]|['‘’](?!\w)")  # an apostrophe within a word stays
_SENTENCE_END = re.compile(r"[.;!?。\n]+")
_REASON = re.compile(r"\b(?:because|since|as|due|given)\b", re.IGNORECASE)
_NO = re.compile(r"\b(no)\s*(?:[,:;.!—–]|-\s)(?=\s*\w)", re.IGNORECASE)  # "No, ...": a reply, not part of "No edema"

# What follows a letter in "A rather than B", and never follows the article.
_PREFERRED = r"(?:rather\s+than|instead\s+of|and\s+not|not)\s+(?:option\s+|choice\s+)?[(\[]?(?-i:[A-Z])\b"
# A letter that opens a text: bracketed, followed by a delimiter, alone, or followed by a reason or a contrast.
# The look-aheads keep out "e.g.", "i.e.", "A.P. view" and "X-ray".
_OPENING = re.compile(
    r"^[\s>#•\-]*(?:(?:option|choice)\s+)?[(\[]?\s*(?P<letter>[A-Za-z])"
    r"(?:\s*[)\]]\s*[.:,;]?|\s*[:,;!。]|\.(?![A-Za-z]\.|[a-z])|\s+[-–—=](?=\s)|\s*(?=\n|$)"
    rf"|\s+(?=(?:because|since|as|due|given|but|although|though|while)\b|{_PREFERRED}))(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_SEVERAL = re.compile(  # on one line
    r"^[\s(\[]*(?P<first>[A-Z])[)\]]?(?: *(?:,|/|&|\+|\band\b|\bor\b)[ ,]*(?:and|or)? *| +)"
    r"(?![AI]\s+[a-z])[(\[]?(?P<second>[A-Z])(?=[\s,.;:/)\]]|$)"
)
_LETTERED = re.compile(r"(?<![\w.'’-])([A-Z])\s*[.):\]]\s*(?=\w)")  # "B. No edema" after another option
_ALONE = re.compile(
    r"[\s>#•\-]*(?:(?:step\s*)?\d+\s*[.):\-]\s*)?(?:(?:option|choice)\s+)?[(\[]?\s*([A-Za-z])\s*[)\]]?\s*[.:,;!。]*\s*",
    re.IGNORECASE,
)
_BARE = re.compile(r"^\s*(?P<letter>[A-Z])\s+(?P<rest>\w.*)", re.DOTALL)
_STATEMENT = re.compile(
    r"(?:\b(?P<final>final\s+)?(?:answer|(?:correct|best|right)\s+(?:option|choice|answer))|答案)\s*"
    r"(?P<says>(?:is|was|would be|should be|must be)\b\s*[:=]?|[:=是为])?\s*(?:the\s+)?(?:option|choice|letter)?\s*",
    re.IGNORECASE,
)
_MENTIONS = tuple(
    re.compile(pattern)
    for pattern in (
        r"[(\[]\s*([A-Za-z])\s*[)\]]",
        r"\b(?:[Oo]ption|[Cc]hoice|[Ll]etter|[Cc]hoose|[Ss]elect|[Pp]ick|go with)\s+([A-Z])\b(?![-'’])",
        r"\b(?:[Oo]ption|[Cc]hoice|[Ll]etter)\s+([a-z])(?=\s*(?:$|[.,;:!])|\s+(?:is|seems|applies)\b)",
        r"(?<![\w.'’-])([A-Z])(?=[.)](?:\s|$))",
        r"(?<![\w.'’-])([A-Z])(?=\s*(?:\n|$))",
        r"(?<![\w.'’-])([A-Z])(?=\s+(?:is|seems)\s+(?:the\s+)?(?:most\s+)?(?:correct|right|best|answer|likely)\b)",
        r"(?<![\w.'’-])([A-Z])(?=\s+applies\b)",
        rf"(?<![\w.'’-])([A-Z])(?=\s+{_PREFERRED})",
        r"(?<![\w.'’-])([A-Z])(?=\s+(?:and|or)\s+[A-Z]\b(?![-'’]))",
        r"(?<=[A-Z]\s(?:and)\s)([A-Z])\b(?![-'’])",
        r"(?<=[A-Z]\s(?:or)\s)([A-Z])\b(?![-'’])",
    )
)
# "Hepatitis B", "Vitamin A and D": a letter after a capitalised word names something else, but for these words.
_NAME = re.compile(
    r"\b(?!(?:Option|Choice|Letter|Choose|Select|Pick|Answer|Both|Either|Neither|Only|Not|Is|So|Thus|Therefore|Hence)\b)"
    r"([A-Z][a-z]+) +[A-Z](?: *(?:,|/|\band\b|\bor\b) *[A-Z])*(?![\w'’-])"
)
_LETTER_DENIED_BEFORE = re.compile(
    r"\b(?:not|neither|nor|than|except|instead\s+of)\s+(?:(?:option|choice)\s+)?[(\[]?\s*$", re.IGNORECASE
)
_LETTER_DENIED_AFTER = re.compile(  # also "B and C are wrong"
    r"^\s*[)\]]?(?:\s*(?:,|and|or)\s+[A-Z]\b)*\s*(?:is|are|seems?)\s+(?:both\s+)?(?:not|wrong|incorrect|false)\b",
    re.IGNORECASE,
)

_DENIAL = re.compile(
    "no|not|without|never|neither|nor|absence|absent|negative|free|clear|lacks?|lacking|excludes|excluding|unlikely"
)
_DENIAL_AFTER = re.compile(_DENIAL.pattern + "|excluded|ruled|missing|incorrect|wrong")
_COPULA = re.compile("is|are|was|were")
_TURN = re.compile("but|however|although|instead|rather")  # a denial before it no longer holds


def option_texts(options: Sequence[str]) -> list[str]:
    """The options without their own letters ("B. Edema" in second place is "Edema"; some sources store them so).

    >>> option_texts(["A. Edema", "B) No edema"])
    ['Edema', 'No edema']
    """
    labels = [re.match(rf"\s*\(?{chr(65 + i)}[.):]\s+(?=\S)", text) for i, text in enumerate(options[:26])]
    if len(labels) == len(options) and all(labels):
        return [text[label.end() :] for text, label in zip(options, labels, strict=True) if label]
    return list(options)


def parse_answer(text: str | None, options: Sequence[str]) -> Answer:
    """The option that a model's text chooses.

    Args:
        text: the response: a letter, an option's text, or sentences.
        options: the answer set in the order shown, lettered from A.

    Returns:
        `parsed` with the index; `out_of_range` for a letter beyond the options; `ambiguous` for several different
        options, a letter and a text that disagree, or an option that is only mentioned to be denied; `none` where no
        option is named.

    >>> parse_answer("The answer is (B).", ["Edema", "No edema", "Atelectasis"])
    Answer(choice=1, outcome='parsed')
    >>> parse_answer("There is no edema.", ["Edema", "No edema", "Atelectasis"]).choice
    1
    >>> parse_answer("A. No edema", ["Edema", "No edema", "Atelectasis"])
    Answer(choice=None, outcome='ambiguous')
    """
    clean = _clean(without_thinking(text or ""))
    if not clean:
        return Answer(None, "none")
    choices = [words(option).split() for option in option_texts(options)]
    said = [] if _NO.search(clean) else words(clean).split()
    last = _last_line(clean, choices)
    readings = (
        lambda: {i for i, choice in enumerate(choices) if choice and choice == said},
        lambda: (final := _statements(clean, choices, final=True)) and final | last,
        lambda: _statements(clean, choices, final=False) | last,
        lambda: _openings(clean, choices),
        lambda: _mentions(clean, choices),
    )
    found = next(filter(None, (read() for read in readings)), set())
    return _settle(found, len(choices))


def _settle(found: set[int], n_options: int) -> Answer:
    if not found:
        return Answer(None, "none")
    if len(found) > 1 or _CONFLICT in found:
        return Answer(None, "ambiguous")
    (choice,) = found
    return Answer(choice, "parsed") if choice < n_options else Answer(None, "out_of_range")


def _clean(text: str) -> str:
    """Without markdown, LaTeX boxes, tags and quotation marks; full-width letters become plain ones."""
    text = _MARKUP.sub(" ", _TAG.sub(" ", unicodedata.normalize("NFKC", text)))
    return _QUOTE.sub(" ", text).strip()


def _index(letter: str) -> int:
    return ord(letter.upper()) - ord("A")


def _statements(text: str, choices: list[list[str]], *, final: bool) -> set[int]:
    found: set[int] = set()
    for match in _STATEMENT.finditer(text):
        is_final = match["final"] is not None
        # "To answer the question" states nothing; "Answer B" does at the very start, "final answer B" anywhere.
        if is_final != final or not (match["says"] or is_final or match.start() == 0):
            continue
        found |= _stated(text[match.end() :], choices)
    return found


def _stated(tail: str, choices: list[list[str]]) -> set[int]:
    found = _opening(tail, choices)
    if found:
        return found
    bare = _BARE.match(tail)
    if bare and bare["letter"] not in "AI":  # "The answer is B which ..."; A and I may be words there
        return _with_text(_index(bare["letter"]), bare["rest"], choices)
    return _mentions(_first_sentence(tail), choices)


def _last_line(text: str, choices: list[list[str]]) -> set[int]:
    """The letter alone on the last line, with what contradicts it: other such lines, or one option chosen before it."""
    *before, last = text.split("\n")
    if not _alone(last, choices):
        return set()
    alone = _alone(last, choices).union(*(_alone(line, choices) for line in before))
    opened = set[int]().union(*(_opening(line, choices) for line in before))
    return alone | opened if len(opened) == 1 else alone  # several: the options, listed before the choice


def _alone(line: str, choices: list[list[str]]) -> set[int]:
    match = _ALONE.fullmatch(line)
    if not match or (match[1] in "Ii" and len(choices) < 9):
        return set()
    return {_index(match[1])}


def _openings(text: str, choices: list[list[str]]) -> set[int]:
    """The letter that the text begins with, and those of its later lines (a list of all options decides nothing)."""
    first = _opening(text, choices)
    if not first:
        return set()
    later = (_opening(line, choices) for line in text.split("\n")[1:] if line.strip())
    return first.union(*later)


def _opening(text: str, choices: list[list[str]]) -> set[int]:
    several = _SEVERAL.match(text)
    if several and several["first"] != several["second"]:
        return {_CONFLICT}
    match = _OPENING.match(text)
    if match and match["letter"] in "Ii" and len(choices) < 9:
        return set()  # the pronoun
    if match:
        return _with_text(_index(match["letter"]), match["rest"], choices)
    bare = _BARE.match(text)
    if not bare:
        return set()
    letter = _index(bare["letter"])
    rest = words(bare["rest"]).split()
    begins = [i for i, choice in enumerate(choices) if choice and rest[: len(choice)] == choice]
    if letter in begins or (begins and bare["letter"] not in "AI"):
        return _with_text(letter, bare["rest"], choices)
    return set()


def _with_text(letter: int, rest: str, choices: list[list[str]]) -> set[int]:
    """The letter, unless the clause right after it names another option, or its line another letter."""
    asserted, _ = _named(_REASON.split(_first_sentence(rest))[0], choices)
    own = choices[letter] if letter < len(choices) else None
    line = rest.split("\n", maxsplit=1)[0]
    letters = {*_letters(_REASON.split(line)[0], choices), *_lettered(line, choices)}
    return {letter} if letters <= {letter} and all(choices[i] == own for i in asserted) else {letter, _CONFLICT}


def _lettered(line: str, choices: list[list[str]]) -> Iterable[int]:
    """Letters that stand before an option's text, as in a list of the options."""
    for match in _LETTERED.finditer(line):
        asserted, _ = _named(_first_sentence(line[match.end() :]), choices)
        if asserted and not _LETTER_DENIED_BEFORE.search(line[: match.start()][-24:]):
            yield _index(match[1])


def _first_sentence(text: str) -> str:
    return _SENTENCE_END.split(text.lstrip(" \t\r\n.;!?。"), maxsplit=1)[0]


def _mentions(text: str, choices: list[list[str]]) -> set[int]:
    asserted: set[int] = set()
    denied: set[int] = set()
    for sentence in _SENTENCE_END.split(_NO.sub(r"\1. ", text)):
        here, not_here = _named(sentence, choices)
        asserted |= here
        denied |= not_here
    if _NO.search(text) and not all(any(map(_DENIAL.fullmatch, choices[i])) for i in asserted):
        return {_CONFLICT}  # "No, edema" denies and names
    asserted |= set(_letters(text, choices))
    if asserted:
        return asserted
    return {_CONFLICT} if denied else set()


def _letters(text: str, choices: list[list[str]]) -> Iterable[int]:
    own = {word for choice in choices for word in choice}
    text = _NAME.sub(lambda name: name[0] if name[1].casefold() in own else " ", text)
    for pattern in _MENTIONS:
        for match in pattern.finditer(text):
            before, after = text[: match.start(1)], text[match.end(1) :]
            if match[1] in "Ii" and not match[0].startswith(("(", "[")):
                continue  # the pronoun
            if not (_LETTER_DENIED_BEFORE.search(before[-24:]) or _LETTER_DENIED_AFTER.match(after)):
                yield _index(match[1])


def _named(sentence: str, choices: list[list[str]]) -> tuple[set[int], set[int]]:
    """Options whose text stands in a sentence, (asserted, denied). The longest match wins: "No edema", not "Edema"."""
    said = words(sentence).split()
    spans = [
        (start, start + len(choice), i)
        for i, choice in enumerate(choices)
        if choice
        for start in range(len(said) - len(choice) + 1)
        if said[start : start + len(choice)] == choice
    ]
    spans = [
        (start, end, i)
        for start, end, i in spans
        if not any(s <= start and end <= e and e - s > end - start for s, e, _ in spans)
    ]
    own = {place for start, end, _ in spans for place in range(start, end)}  # words that are an option's own
    asserted: set[int] = set()
    denied: set[int] = set()
    for start, end, i in spans:
        (denied if _denied(said, start, end, own) else asserted).add(i)
    return asserted, denied


def _denied(said: list[str], start: int, end: int, own: set[int]) -> bool:
    after = [word for word in said[end : end + 4] if not _COPULA.fullmatch(word)]
    if after and _DENIAL_AFTER.fullmatch(after[0]):
        return True
    for place in range(start - 1, -1, -1):
        word = said[place]
        if place in own:
            continue
        # "The finding that is not present is edema" asserts edema; "there is no edema" does not.
        if _TURN.fullmatch(word) or (_COPULA.fullmatch(word) and said[place - 1 : place] != ["there"]):
            return False
        if _DENIAL.fullmatch(word):
            return True
    return False
