"""Letters that name an option, and letters that do not: articles, pronouns, "hepatitis B", "point A", "E. coli"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from .options import MOST, Options
from .scope import standings
from .words import words

# What may stand before a letter that names an option; after any other word it names something else.
_BEFORE_LETTER = (
    r"(?:options?|choices?|letters?|answers?|choose|select|pick|chose|is|be|with|and|or|nor|than|not|neither"
    r"|either|both|only"
    r"|so|thus|s|think|say|believe|guess|to|therefore|hence|of|but|for|likely|probably|was|are|diagnosis|correct"
    r"|maybe|it)"
)
_NAME = re.compile(
    rf"\b(?=[A-Za-z]+ [A-Z])(?!(?i:{_BEFORE_LETTER})\b)[A-Za-z]+ [A-Z](?: ?(?:,|/|\band\b|\bor\b) ?[A-Z])*(?![\w'’-])"
)
# "N/A"; and what only tells what an option says.
_NO_LETTER = re.compile(
    r"\bN/A\b|\be\.g\. [A-Z]\b|\b(?:[Oo]ption|[Cc]hoice) [A-Z](?= (?:states|says|means|claims|describes|refers"
    r"|reads)\b)"
)
_ANY = re.compile(r"\b[A-Z]\b|[(\[] ?[a-z] ?[)\]]|\b(?i:option|choice|letter) [a-z]\b")  # most texts have none
_LIST = re.compile(  # "A, B, C or D": all of them, none in particular
    r"[(\[]?\b[A-Z][)\]]?(?: ?[,/] ?(?:and |or )?[(\[]?[A-Z]\b[)\]]?)+(?: ?,? ?(?:and|or|&) [(\[]?[A-Z]\b[)\]]?)?"
)
_FORMS = tuple(
    re.compile(pattern)
    for pattern in (
        r"[(\[] ?(?P<letter>[A-Za-z]) ?[)\]]",
        r"\b(?:[Oo]ption|[Cc]hoice|[Ll]etter|[Cc]hoose|[Ss]elect|[Pp]ick|go with)s? (?P<letter>[A-Z])\b(?![-'’])",
        r"\b(?:[Oo]ption|[Cc]hoice|[Ll]etter) (?P<letter>[a-z])(?= ?(?:$|[.,;:!])| (?:is|seems|applies)\b)",
        r"(?<![\w.'’-])(?P<letter>[A-Z])(?=[.)](?:\s|$)|\s?(?:\n|$)|\s(?:is|seems|applies|fits|matches)\b"
        r"|,? (?:rather than|instead of|and not|not)\b| (?:and|or) [A-Z]\b(?![-'’]))",
        r"(?<=[A-Z] and )(?P<letter>[A-Z])\b(?![-'’])",
        r"(?<=[A-Z] or )(?P<letter>[A-Z])\b(?![-'’])",
    )
)
_DENIED_BEFORE = re.compile(
    r"\b(?:not|neither|nor|than|except|instead of|rather than|eliminate|exclude|rule out|ruling out|unlike|to)"
    r" (?:(?:the )?(?:option|choice)s? )?[(\[]? ?$",
    re.IGNORECASE,
)
_DENIED_AFTER = re.compile(  # also "B and C are wrong"
    r" ?[)\]]?(?:(?:,|,? and|,? or) (?:option )?[A-Z]\b){0,6} ?(?:[^.,;\n]{0,40}? )?"
    r"(?:is|are|seems?|can be|was|does|do|would|could|may|might|has|have) (?:both |all |clearly |also )?"
    r"(?:not|wrong|incorrect|false|less|unlikely|ruled out|excluded|eliminated|show|be|apply)\b",
    re.IGNORECASE,
)
_BESIDE_TEXT = re.compile(r"(?<![\w.'’-])(?P<letter>[A-Z]) ?[.):\]] ?(?=\w)")
_REACH = 200  # characters behind a letter in which its option's text may stand


def index(letter: str) -> int:
    """The option's place: 0 for A."""
    return ord(letter.upper()) - ord("A")


def is_denied_before(text: str, start: int) -> bool:
    """Whether what begins at start is denied by the words right before it."""
    return bool(_DENIED_BEFORE.search(text[max(start - 40, 0) : start]))


def letters_in(text: str, options: Options) -> set[int]:
    """The options whose letters a text names and does not deny."""
    text = _LIST.sub(lambda match: match[0] if match[0].count(" ") < 3 else " ", options.without_letters(text))
    found: set[int] = set()
    for start, end, place in letter_places(text):
        if place not in found and not is_denied_before(text, start) and not _DENIED_AFTER.match(text, end):
            found.add(place)
    return found


def letter_places(text: str) -> Iterator[tuple[int, int, int]]:
    """(start, end, option) of every letter in a text that names an option."""
    text = _NO_LETTER.sub(lambda name: "·" * len(name[0]), _NAME.sub(lambda name: "·" * len(name[0]), text))
    for form in _FORMS if _ANY.search(text) else ():
        for match in form.finditer(text):
            pronoun = match["letter"] in "Ii" and match[0][0] not in "(["
            if not pronoun:
                yield *match.span("letter"), index(match["letter"])


def letters_beside_texts(line: str, options: Options, *, prefix: bool = False) -> set[int]:
    """Find letters that stand before their option's text, as in a list of the options, and are not denied.

    Args:
        line: A line, or a sentence.
        options: The question's options.
        prefix: The first two words of a longer text are enough, and the letter must stand behind other words.
    """
    found: set[int] = set()
    for match in islice(_BESIDE_TEXT.finditer(line), MOST):
        place = index(match["letter"])
        text = options.words[place] if place < options.n else ""
        said = words(line[match.end() : match.end() + _REACH])
        if prefix and not said.startswith(text):
            text = " ".join(text.split()[:2])
        if (
            text
            and f"{said} ".startswith(f"{text} ")
            and (not prefix or (re.search(r"\w", line[: match.start()]) and (" " in text or text in options.words)))
            and standings(said, [(0, len(text))]) == ["asserted"]
            and not is_denied_before(line, match.start())
        ):
            found.add(place)
    return found
