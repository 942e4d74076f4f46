"""Questions for one of several exclusive values: a place, a number, a plane, a modality, a change, a size.

"Is the effusion on the left?" asks where it is, not whether there is one. A sentence without a place leaves it open.
"""

from __future__ import annotations

import re
from math import inf
from typing import Literal, NamedTuple

from .lung_regions import REGION_WORDS

Groups = tuple[re.Pattern[str], ...]


class Value(NamedTuple):
    """The value that a question asks for.

    Attributes:
        kind: A place, a number, or one of a group of exclusive values.
        low: The smallest number that affirms the question.
        high: The largest number that affirms it.
        noun: The counted noun.
        asked: The expression of the value that the question names.
        others: The expressions of the values that exclude it.
    """

    kind: Literal["place", "number", "group"]
    low: float = 0
    high: float = inf
    noun: str = ""
    asked: re.Pattern[str] | None = None
    others: Groups = ()


_NUMBERS: dict[str, float] = {
    word: number
    for number, word in enumerate(("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"))
}
_MANY = ("multiple", "several", "numerous", "many")
_NUMBER = (
    r"(?P<number>\d{1,3}(?! ?(?:mm|cm|x|th|st|nd|rd|percent)\b)|an? (?:single|solitary|lone)|single|solitary|lone|"
    + "|".join((*_NUMBERS, *_MANY))
    + r")"
)
_ASKS_NUMBER = re.compile(
    r"(?:(?:is|are|was|were) there|(?:do|can) you see|(?:is|are|was|were)|(?:does|do) .{1,60} (?:show|have|contain))"
    rf" (?P<bound>more than|at least|over|fewer than|less than|exactly|only)? ?\b(?!no\b){_NUMBER}"
    r" (?P<nouns>[a-z ]+?)(?= (?:visible|present|seen|shown|in|on|at|within|here)\b|$)"
)
_ASKS_PLACE = re.compile(
    r"(?:is|are|was|were) (?:the|this|that|these|those)(?: (?!visible|seen|present|shown|there|evident)\w+){1,4}?"
    r" (?:in|on|at|within) (?:the )?"
    rf"(?:{'|'.join(sorted(REGION_WORDS))})\b"
)
_SUBJECT_REGION = re.compile(rf"(?:is|are|was|were) \w+ (?:{'|'.join(sorted(REGION_WORDS))}|lungs?|heart)\b")
_VOLUME = r"(?:(?:lung )?volumes?|lungs?)(?: (?:is|are|appears?|remains?))?"
_GROUPS: tuple[Groups, ...] = tuple(
    tuple(re.compile(rf"\b(?:{pattern})\b") for pattern in group)
    for group in (
        (r"axial|transverse|transaxial", r"coronal", r"sagittal"),
        (
            r"ct|computed tomogra\w+|cat scan",
            r"mri|mr image|mr scan|magnetic resonance(?: imag\w+)?",
            r"x ?ray|radiogra\w+|plain film",
            r"ultraso\w+|sonogra\w+",
        ),
        (
            r"larger|bigger|increased|increase in size|grown|(?:has|have) progressed",
            r"smaller|decreased|decrease in size|reduced|shrunk|(?:has|have) (?:improved|resolved)",
            r"unchanged|stable|the same|similar|no (?:\w+ )?change|not changed",
        ),
        (
            r"bilateral|bilaterally|both (?:lungs|sides|hemithora\w+|lung \w+)",
            r"unilateral|(?:confined|limited|restricted) to the (?:left|right)|(?:one|a single) (?:lung|side)",
        ),
        (r"midline|central|centrally placed", r"deviat\w+|shift\w*|displac\w+"),
        (
            r"(?:good|satisfactory|appropriate|correct|adequate|proper|acceptable|standard|expected) position"
            r"|(?:well|appropriately|correctly|adequately|properly) (?:positioned|placed)",
            r"mal ?position\w*|misplaced|too (?:high|low|deep)|(?:in|into) the (?:\w+ )?(?:main ?stem|main) bronchus",
        ),
        (
            r"contrast (?:\w+ )?(?:given|used|administered|injected)|contrast enhanced|with contrast|post contrast",
            r"unenhanced|non ?contrast|without contrast|non ?enhanced",
        ),
        (
            r"hyper ?(?:inflat|expan|aerat)\w+|over ?(?:inflat|expan)\w+",
            rf"(?:low|reduced|normal) (?:lung )?volumes?|{_VOLUME} (?:low|reduced|normal|normally \w+|well \w+)",
        ),
        (
            r"enlarged|large|dilated|widened|\w+megaly",
            r"(?:normal|within normal limits|wnl|unremarkable)(?: (?:in )?(?:size|width|caliber|contour))?|small"
            r"|(?:size|width|contours?|caliber)(?: (?:is|are))? (?:normal|within normal limits|wnl|unremarkable)",
        ),
    )
)
_IS = re.compile(r"(?:is|are|was|were|has|have) (?!there\b)")
_AFTER_VALUE = re.compile(
    r"(?: (?:plane|image|scan|slice|view|section|study|film|position|in size|in width)s?)?"
    r"(?: (?:of|than|compared|since|to the (?:left|right)|from|here|now)\b.*)?$"
)


def parse_value(question_words: str) -> Value | None:
    """Parse the value that a question asks for.

    Args:
        question_words: The words of the question (`words.words`).

    Returns:
        The value; None if the question asks for none.

    >>> value = parse_value("are there more than three nodules")
    >>> value.low, value.high, value.noun
    (4, inf, 'nodules')
    >>> parse_value("is the effusion on the left").kind, parse_value("is there an effusion on the left")
    ('place', None)
    """
    number = _ASKS_NUMBER.match(question_words)
    if number:
        low, high = read_number(number["number"])
        bound = number["bound"] or ""
        if bound in ("more than", "over"):
            low, high = high + 1, inf
        elif bound == "at least":
            high = inf
        elif bound in ("fewer than", "less than"):
            low, high = 0, low - 1
        return Value("number", low, high, number["nouns"].rsplit(" ", 1)[-1])
    if _ASKS_PLACE.match(question_words) and not _SUBJECT_REGION.match(question_words):
        return Value("place")
    for group in _GROUPS if _IS.match(question_words) else ():
        matches = [(pattern, match) for pattern in group if (match := pattern.search(question_words))]
        if len(matches) != 1 or not _AFTER_VALUE.match(question_words, matches[0][1].end()):
            continue
        asked, match = matches[0]
        if not match[0].endswith(("normal", "unremarkable")):  # "Is the lung normal?" asks for any abnormality
            return Value("group", asked=asked, others=tuple(pattern for pattern in group if pattern is not asked))
    return None


def read_number(word: str) -> tuple[float, float]:
    """Read the smallest and the largest number that a word means.

    Args:
        word: The word.

    Returns:
        The bounds.

    >>> read_number("two"), read_number("several"), read_number("a single"), read_number("12")
    ((2, 2), (2, inf), (1, 1), (12, 12))
    """
    if word in _MANY:
        return 2, inf
    number = float(word) if word.isdecimal() else _NUMBERS.get(word, 1)
    return int(number), int(number)


def find_numbers(clause: str, noun_form: str) -> list[tuple[float, float]]:
    """Find the numbers of a noun in a clause.

    Args:
        clause: The clause in lower case.
        noun_form: A regular expression of the noun.

    Returns:
        The bounds of each number.
    """
    counted = rf"\b{_NUMBER} (?:(?!and\b|or\b|of\b)[\w-]+ ){{0,3}}?{noun_form}"
    alone = rf"^\W*(?:(?:there|they) (?:is|are) |i (?:see|count) )?(?:\w+ly )?{_NUMBER}\W*$"
    return [read_number(match["number"]) for pattern in (counted, alone) for match in re.finditer(pattern, clause)]
