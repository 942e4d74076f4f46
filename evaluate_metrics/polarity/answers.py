"""Reads free text as one of a question's options. What cannot be read is an outcome of its own; nothing is guessed.

Read in this order, and the first kind that says anything decides:

1. the whole text is one option's text;
2. a "final answer" statement, then an "answer" / "correct option" statement;
3. the letter (or several lines' letters) that the text begins with;
4. every letter and every option text mentioned anywhere.

Two different options within the deciding kind, or a letter followed by another option's text, are `ambiguous`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

Outcome = Literal["parsed", "ambiguous", "out_of_range", "none"]


class Answer(NamedTuple):
    """choice: index into the options, None unless outcome is "parsed"."""

    choice: int | None
    outcome: Outcome


_CONFLICT = -1  # stands among option indices for "more than one reading"

_TAG = re.compile(r"</?[A-Za-z_]{1,20}>")
_MARKUP = re.compile(r"\\(?:boxed|text|textbf|mathrm)\b|[*_`\"“”${}]")
_WORD = re.compile(r"[^\W_]+")
_SENTENCE_END = re.compile(r"[.;!?\n]+")
_REASON = re.compile(r"\b(?:because|since|as|due|given)\b", re.IGNORECASE)

# A letter that opens a text: bracketed, followed by a delimiter, alone, or followed by a reason.
# The look-aheads keep out "e.g.", "i.e.", "A.P. view" and "X-ray".
_OPENING = re.compile(
    r"^[\s'‘’>#•\-]*(?:(?:option|choice)\s+)?[(\[]?\s*(?P<letter>[A-Za-z])"
    r"(?:\s*[)\]]\s*[.:,;]?|\s*[:,;]|\.(?![A-Za-z]\.|[a-z])|\s+[-–—=](?=\s)|\s*(?:\n|$)"
    r"|\s+(?=(?:because|since|as|due|given)\b))(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_SEVERAL = re.compile(
    r"^[\s(\[]*(?P<first>[A-Z])[)\]]?(?:\s*(?:,|/|&|\+|\band\b|\bor\b)[\s,]*(?:and|or)?\s*|\s+)"
    r"(?![AI]\s+[a-z])[(\[]?(?P<second>[A-Z])(?=[\s,.;:/)\]]|$)"
)
_BARE = re.compile(r"^\s*(?P<letter>[A-Z])\s+(?P<rest>\w.*)", re.DOTALL)
_STATEMENT = re.compile(
    r"\b(?P<final>final\s+)?(?:answer|(?:correct|best|right)\s+(?:option|choice|answer))\s*"
    r"(?P<says>(?:is|was|would be|should be|must be)\b\s*[:=]?|[:=])?\s*(?:the\s+)?(?:option|choice|letter)?\s*",
    re.IGNORECASE,
)
_MENTIONS = tuple(
    re.compile(pattern)
    for pattern in (
        r"[(\[]\s*([A-Za-z])\s*[)\]]",
        r"\b(?:[Oo]ption|[Cc]hoice|[Ll]etter|[Cc]hoose|[Ss]elect|[Pp]ick|go with)\s+([A-Z])\b(?![-'’])",
        r"(?<![\w.'’-])([A-Z])(?=[.)](?:\s|$))",
        r"(?<![\w.'’-])([A-Z])(?=\s*(?:\n|$))",
        r"(?<![\w.'’-])([A-Z])(?=\s+(?:is|seems)\s+(?:the\s+)?(?:correct|right|best|answer)\b)",
        r"(?<![\w.'’-])([A-Z])(?=\s+(?:and|or)\s+[A-Z]\b(?![-'’]))",
        r"(?<=[A-Z]\s(?:and)\s)([A-Z])\b(?![-'’])",
        r"(?<=[A-Z]\s(?:or)\s)([A-Z])\b(?![-'’])",
    )
)
_LETTER_DENIED_BEFORE = re.compile(
    r"\b(?:not|neither|nor|than|except)\s+(?:(?:option|choice)\s+)?[(\[]?\s*$", re.IGNORECASE
)
_LETTER_DENIED_AFTER = re.compile(r"^\s*[)\]]?\s*(?:is|seems)\s+(?:not|wrong|incorrect|false)\b", re.IGNORECASE)

_DENIAL = re.compile(
    "no|not|without|never|neither|nor|absence|absent|negative|free|clear|lacks?|lacking|excludes|excluding|unlikely"
)
_DENIAL_AFTER = re.compile(_DENIAL.pattern + "|excluded|ruled|missing|incorrect|wrong")
_COPULA = re.compile("is|are|was|were")
_TURN = re.compile("but|however|although|instead|rather")  # a denial before it no longer holds


def words(text: str) -> str:
    """Lower-case words of a text, one space between them: what texts are compared by.

    >>> words("Edema isn't  PRESENT.")
    'edema is not present'
    """
    text = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    text = text.replace("n't", " not").replace("cannot", "can not")
    return " ".join(_WORD.findall(text))


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
    clean = _clean(text or "")
    if not clean:
        return Answer(None, "none")
    choices = [words(option).split() for option in option_texts(options)]
    said = words(clean).split()
    readings = (
        lambda: {i for i, choice in enumerate(choices) if choice and choice == said},
        lambda: _statements(clean, choices, final=True),
        lambda: _statements(clean, choices, final=False),
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
    return _MARKUP.sub(" ", _TAG.sub(" ", unicodedata.normalize("NFKC", text))).strip()


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
    """The letter, unless the clause right after it names other options only."""
    clause = _REASON.split(_first_sentence(rest))[0]
    asserted, _ = _named(clause, choices)
    return {letter} if not asserted or letter in asserted else {_CONFLICT}


def _first_sentence(text: str) -> str:
    return next((part for part in _SENTENCE_END.split(text) if part.strip()), "")


def _mentions(text: str, choices: list[list[str]]) -> set[int]:
    asserted: set[int] = set()
    denied: set[int] = set()
    for sentence in _SENTENCE_END.split(text):
        here, not_here = _named(sentence, choices)
        asserted |= here
        denied |= not_here
    asserted |= set(_letters(text))
    if asserted:
        return asserted
    return {_CONFLICT} if denied else set()


def _letters(text: str) -> Iterable[int]:
    for pattern in _MENTIONS:
        for match in pattern.finditer(text):
            before, after = text[: match.start(1)], text[match.end(1) :]
            if match[1] == "I" and not match[0].startswith(("(", "[")):
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
