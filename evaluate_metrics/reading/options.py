"""The options of a question, made ready to be found in a text, and what prose asserts or denies of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from .clauses import split_clauses
from .markup import readable
from .negation import NEGATION_FORMS
from .scope import says_denial, standings
from .words import words

CONFLICT = -1  # stands among the places of options for "more than one reading"
MOST = 100  # names in a clause, and lines, that are looked at; a text with more is noise

_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")  # written without blanks between words
_CJK_DENIAL = re.compile(r"未见|未发现|没有|無|无|不存在|不是|并非|非|排除|不支持|不明显|可能性小")
_CJK_CLAUSE_END = re.compile(r"[，。；！？,.;!?\n]")
_AS_YES_NO = {"yes": "yes", "no": "no", "true": "yes", "false": "no", "present": "yes", "absent": "no"}
_REPLY = re.compile(r"\s*(?:no|yes)\s*,", re.IGNORECASE)  # "No, normal pupils": no negation of what follows
_BARE_DENIAL = re.compile(r"(?:none|no|not|yes|neither|nothing|absent|negative)(?: of (?:the above|these|them))?")


_SIDE = re.compile(r"left|right|both|same|bilateral")  # words that stand in too many sentences to choose in all of them


class Said(NamedTuple):
    """What prose says of a question's options.

    Attributes:
        asserted: Options whose texts it asserts.
        denied: Options whose texts it denies.
        negated: Negated options ("No edema") whose finding it denies.
    """

    asserted: set[int]
    denied: set[int]
    negated: set[int]


class Options:
    """The options of one question.

    Attributes:
        words: Each option's words, without its letter.
        n: How many there are.
        yes_no: "yes", "no" or None for each.
        are_yes_and_no: Whether one of them is yes and one no.
        findings: Each negated option's finding, "" for the others.
    """

    def __init__(self, options: Sequence[str]) -> None:
        texts = option_texts(options)
        self.words = [words(readable(text)) for text in texts]
        self.n = len(self.words)
        self.yes_no = [_AS_YES_NO.get(text) for text in self.words]
        self.are_yes_and_no = sorted(filter(None, self.yes_no)) == ["no", "yes"]
        self.findings = [
            "" if _REPLY.match(text) else _negated(own) for text, own in zip(texts, self.words, strict=True)
        ]
        longest_first = sorted({*filter(None, self.words)}, key=len, reverse=True)
        names = "|".join(
            re.escape(name) if _CJK.search(name) else rf"\b{re.escape(name)}(?=(?:e?s)?\b)" for name in longest_first
        )
        self._names = _compiled(rf"(?P<name>{names})(?:e?s\b)?", names)
        loose = "|".join(map(_loosely, longest_first))
        self._texts = _compiled(rf"(?<!\w)(?:{loose})(?!\w)", loose)
        stopped = "|".join(_loosely(words(text)) for text in texts if re.search(r"[.;!?]\s?\w", text))
        self._stopped = _compiled(rf"(?<!\w)(?:{stopped})(?!\w)", stopped)
        # In prose a negated option is found by its finding, which a clause asserts or denies.
        in_prose = {text for text, finding in zip(self.words, self.findings, strict=True) if text and not finding}
        in_prose = sorted({*in_prose, *filter(None, self.findings)}, key=len, reverse=True)
        prose = "|".join(
            rf"{text}(?=\s+side\b|\s*$)" if _SIDE.fullmatch(text) else _loosely(text)
            for text in in_prose
            if not _BARE_DENIAL.fullmatch(text)
        )
        self._prose = _compiled(rf"(?<!\w)(?P<name>{prose})(?:e?s)?(?!\w)", prose)
        self._in_cjk = any(map(_CJK.search, self.words))
        lettered = "|".join(
            _loosely(text) for text in longest_first if " " in text and re.search(r"(?<!\S)[a-z](?!\S)", text)
        )
        self._with_letters = _compiled(rf"(?<!\w)(?:{lettered})(?!\w)", lettered)
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

    def names_in(self, clause: str) -> set[str]:
        """The words of every option, or of what one denies, that a clause names."""
        return {words(name["name"]) for name in islice(self._prose.finditer(clause), MOST)} if self._prose else set()

    def read_prose(self, text: str) -> Said:
        """Read what the clauses of a text that assert or deny say of the options; the longest text wins."""
        said = Said(set(), set(), set())
        if self._in_cjk:
            for part in _CJK_CLAUSE_END.split(text):
                for _, _, options in self.places(part):
                    (said.denied if _CJK_DENIAL.search(part) else said.asserted).update(options)
            return said
        if self._stopped:  # a stop within an option's text ends no sentence
            text = self._stopped.sub(lambda name: re.sub(r"[^\w\s]", " ", name[0]), text)
        for clause in split_clauses(text) if self._prose else ():
            if clause.act == "state":
                self.read_clause(clause.text, said, denied=clause.denied)
        return said

    def read_clause(self, clause: str, said: Said, *, denied: bool = False) -> None:
        """Add what one clause says of the options."""
        names = list(islice(self._prose.finditer(clause), MOST)) if self._prose else []
        # A denial within an option's own text denies nothing.
        for name in names:
            if says_denial(name[0]):
                clause = clause[: name.start()] + "x" * len(name[0]) + clause[name.end() :]
        found = standings(clause, [name.span() for name in names], denied=denied)
        text, end = "", 0
        for name, standing in zip(names, found, strict=True):
            again = words(name["name"]) == text and not re.search(r"\w", clause[end : name.start()])
            text, end = words(name["name"]), name.end()
            if standing == "asserted" or again:  # "No edema, edema" says both
                said.asserted.update(self.of(text))
            elif standing == "denied":
                said.denied.update(self.of(text))
                said.negated.update(index for index, finding in enumerate(self.findings) if finding == text)

    def without_echo(self, text: str) -> str:
        """The text without a list, in a line or in lines, that only repeats all options with their letters."""
        return self._echo.sub("\n", text) if self._echo else text

    def without_letters(self, text: str) -> str:
        """The text without option texts in which a letter stands by itself ("E. coli", "A is closer")."""
        return self._with_letters.sub(" ", text) if self._with_letters else text


def option_texts(options: Sequence[str]) -> list[str]:
    """The options without their own letters ("B. Edema" in second place is "Edema"; some sources store them so).

    >>> option_texts(["A. Edema", "B) No edema"])
    ['Edema', 'No edema']
    """
    labels = [re.match(rf"\s*\(?{chr(65 + i)}[.):]\s+(?=\S)", text) for i, text in enumerate(options[:26])]
    if len(labels) == len(options) and all(labels):
        return [text[label.end() :] for text, label in zip(options, labels, strict=True) if label]
    return list(options)


def _negated(text: str) -> str:
    """The finding that an option denies, "" where it denies none."""
    form = next(filter(None, (form.match(text) for form in NEGATION_FORMS)), None)
    return form["concept"] if form and not says_denial(form["concept"]) else ""


def _compiled(pattern: str, wanted: object) -> re.Pattern[str] | None:
    return re.compile(pattern, re.IGNORECASE) if wanted else None


def _loosely(text: str) -> str:
    """An expression for words with whatever stands between them."""
    return r"[\W_]{1,6}".join(map(re.escape, text.split()))


def _echoed(index: int, text: str) -> str:
    return rf"(?:^|(?<=\W))[(\[]?{chr(65 + index)} ?[.:)\]] ?{_loosely(text)}[\s.,;|/]*(?:(?:and|or)\b\s*)?"
