"""The options of a question, made ready to be found in a text, and whether a sentence asserts or denies them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from .markup import readable
from .negation import NEGATION_FORMS
from .words import words

CONFLICT = -1  # stands among the places of options for "more than one reading"
MOST = 100  # names in a sentence, and lines, that are looked at; a text with more is noise

_DENIES = (
    r"(?:no|not|without|never|neither|nor|none|absence|absent|negative|free|clear|lacks?|lacking|unlikely|inconsistent"
    r"|exclude|excludes|excluding|rules? out|ruling out|ruled out|eliminat\w+|differentiat\w+|mimic\w*|against"
    r"|unlike|than|instead of|compared (?:to|with)|in contrast (?:to|with)|opposed to|versus|vs"
    r"|kein\w*|nicht|ohne|pas|ni|aucune?|sans|sin|ning[uú]n\w*|tampoco|sem|nenhum\w*|não|không|senza|nessun\w*)"
)
_DENIED_BEFORE = re.compile(rf"\b{_DENIES}\b|未见|未发现|没有|無|无|不存在|不是|并非|非|排除|不支持")
_DENIED_AFTER = re.compile(
    r" ?(?:(?:is|are|was|were|can be|has been|have been|seems?|appears?|would be|also|both|all|clearly|very) ?){0,4}"
    rf"\b(?:{_DENIES}|excluded|ruled|missing|incorrect|wrong|false|less|doubtful|out|does not|do not"
    r"|(?:ist|sind|est|es|é) (?:nicht|pas|ausgeschlossen|exclue?|improbable|unwahrscheinlich)"
    r"|fehlt|fehlen|unwahrscheinlich|improbable)\b"
    r"|征?象?(?:未见|不明显|可排除|可能性小)"
)
# A denial before one of these does not reach what is behind it.
_SCOPE_END = re.compile(
    r"\b(?:but|however|although|instead|in keeping with|(?<!in)consistent with|compatible with|therefore"
    r"|hence|(?<!there )(?:is|are|was|were)|(?<!not )(?:shows?|suggests?|indicates?))\b"
)
_WINDOW = 120  # characters of words before a name in which its denial is looked for
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")  # written without blanks between words
_AS_YES_NO = {"yes": "yes", "no": "no", "true": "yes", "false": "no", "present": "yes", "absent": "no"}


class Said(NamedTuple):
    """asserted, denied: options by their texts. implied: those that deny what is denied here in other words ("there is
    no sign of edema" for "No edema").
    """

    asserted: set[int]
    denied: set[int]
    implied: set[int]


class Options:
    """words: each option's words, without its letter. yes_no: "yes", "no" or None of each."""

    def __init__(self, options: Sequence[str]) -> None:
        self.words = [words(readable(text)) for text in option_texts(options)]
        self.n = len(self.words)
        self.yes_no = [_AS_YES_NO.get(text) for text in self.words]
        self.are_yes_and_no = sorted(filter(None, self.yes_no)) == ["no", "yes"]
        self._denials: dict[str, set[int]] = {}  # what an option denies -> the option
        for index, text in enumerate(self.words):
            form = next(filter(None, (form.match(text) for form in NEGATION_FORMS)), None)
            if form:
                self._denials.setdefault(form["concept"], set()).add(index)
        longest_first = sorted({*filter(None, self.words), *self._denials}, key=len, reverse=True)
        names = "|".join(
            re.escape(name) if _CJK.search(name) else rf"\b{re.escape(name)}(?=(?:e?s)?\b)" for name in longest_first
        )
        self._names = _compiled(rf"(?P<name>{names})(?:e?s\b)?", names)
        texts = "|".join(map(_loosely, filter(None, longest_first)))
        self._texts = _compiled(rf"(?<!\w)(?:{texts})(?!\w)", texts)
        with_letters = "|".join(
            _loosely(text) for text in longest_first if " " in text and re.search(r"(?<!\S)[a-z](?!\S)", text)
        )
        self._with_letters = _compiled(rf"(?<!\w)(?:{with_letters})(?!\w)", with_letters)
        self._echo = _compiled(
            "".join(map(_echoed, range(min(self.n, 26)), self.words)), self.n > 1 and all(self.words)
        )

    def of(self, text: str) -> set[int]:
        """The options of these words."""
        return {index for index, own in enumerate(self.words) if own == text}

    def starting(self, text: str) -> set[int]:
        """The options that a text begins with; of two, the longer."""
        match = self._names.match(words(text)) if self._names else None
        return self.of(match["name"]) if match else set()

    def beginning_with(self, said: str) -> set[int]:
        """The one option whose text begins with these words and goes on ("28" for "28 cm"); none where several do."""
        found = {index for index, own in enumerate(self.words) if said and own.startswith(f"{said} ")}
        return found if len(found) == 1 else set()

    def places(self, text: str) -> list[tuple[int, int, set[int]]]:
        """(start, end, options) of every option's text in a text, in the text's own places."""
        found = islice(self._texts.finditer(text), MOST) if self._texts else ()
        return [(*match.span(), self.of(words(match[0]))) for match in found]

    def said_in(self, sentence: str) -> Said:
        """What a sentence says of the options; the longest text wins: "No edema", not "Edema"."""
        said = Said(set(), set(), set())
        for name, is_denied in self._named(sentence):
            (said.denied if is_denied else said.asserted).update(self.of(name))
            said.implied.update(self._denials.get(name, ()) if is_denied else ())
        return said

    def without_echo(self, text: str) -> str:
        """The text without a list, in a line or in lines, that only repeats all options with their letters."""
        return self._echo.sub("\n", text) if self._echo else text

    def without_letters(self, text: str) -> str:
        """The text without option texts in which a letter stands by itself ("E. coli", "A is closer")."""
        return self._with_letters.sub(" ", text) if self._with_letters else text

    def _named(self, sentence: str) -> list[tuple[str, bool]]:
        """(text, whether it is denied) of every option's text, and of what options deny."""
        if self._names is None:
            return []
        said = words(sentence)
        # A denial within an option's own text denies nothing behind it.
        others = self._names.sub(lambda name: "|" * len(name[0]) if says_denial(name[0]) else name[0], said)
        return [(match["name"], denied(others, *match.span())) for match in islice(self._names.finditer(said), MOST)]


def option_texts(options: Sequence[str]) -> list[str]:
    """The options without their own letters ("B. Edema" in second place is "Edema"; some sources store them so).

    >>> option_texts(["A. Edema", "B) No edema"])
    ['Edema', 'No edema']
    """
    labels = [re.match(rf"\s*\(?{chr(65 + i)}[.):]\s+(?=\S)", text) for i, text in enumerate(options[:26])]
    if len(labels) == len(options) and all(labels):
        return [text[label.end() :] for text, label in zip(options, labels, strict=True) if label]
    return list(options)


def denied(said: str, start: int, end: int) -> bool:
    """Whether words deny what stands at [start, end)."""
    if _DENIED_AFTER.match(said, end):
        return True
    before = said[max(start - _WINDOW, 0) : start]
    *_, scope = [0, *(match.end() for match in _SCOPE_END.finditer(before))]
    return bool(_DENIED_BEFORE.search(before, scope))


def says_denial(said: str) -> bool:
    """Whether words hold a word of denial."""
    return bool(_DENIED_BEFORE.search(said))


def _compiled(pattern: str, wanted: object) -> re.Pattern[str] | None:
    return re.compile(pattern, re.IGNORECASE) if wanted else None


def _loosely(text: str) -> str:
    """An expression for words with whatever stands between them."""
    return r"[\W_]{1,6}".join(map(re.escape, text.split()))


def _echoed(index: int, text: str) -> str:
    return rf"(?:^|(?<=\W))[(\[]?{chr(65 + index)} ?[.:)\]] ?{_loosely(text)}[\s.,;|/]*(?:(?:and|or)\b\s*)?"
