"""The options of a question in a form that can be found in a text, and what prose asserts or denies about them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from .clauses import split_clauses
from .markup import readable
from .negation import NEGATION_FORMS
from .option_kinds import classify_options
from .scope import find_standings, has_denial
from .shared_ends import build_shared_ends
from .words import words

CONFLICT = -1  # among the indices of options: "more than one reading"
MOST = 100  # most names in a clause, and lines, that are read; a text with more is noise

_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")  # written without blanks between words
_CJK_DENIAL = re.compile(r"未见|未发现|没有|無|无|不存在|不是|并非|非|排除|不支持|不明显|可能性小")
_CJK_CLAUSE_END = re.compile(r"[，。；！？,.;!?\n]")
_YES_NO_WORDS = {"yes": "yes", "no": "no", "true": "yes", "false": "no", "present": "yes", "absent": "no"}
_REPLY = re.compile(r"\s*(?:no|yes)\s*,", re.IGNORECASE)  # the "No" of "No, normal pupils" does not negate the rest
_BARE_DENIAL = re.compile(r"(?:none|no|not|yes|neither|nothing|absent|negative)(?: of (?:the above|these|them))?")


# Words that are too common in sentences to choose an option everywhere.
_SIDE = re.compile(r"left|right|both|same|bilateral")
# A side counts at the end of a clause, before "side", and before another side ("left or right").
_JOINED_SIDE = r"(?:(?:and|or|not|versus|vs|instead\s+of)\b\s*)?(?:(?:in|on)\s+)?(?:the\s+)?(?:left|right)\b"
_AFTER_SIDE = rf"(?=\s+side\b|\s*$|[\s,]*{_JOINED_SIDE})"
_OPENING = 600  # characters in which a text announces that it will discuss every option
_FINISHED = re.compile(r"[.!?)\]]\s*\Z")
_ANNOUNCES = re.compile(
    r"\b(?:each|every|all|the|these)(?: of the)?(?: \w+){0,2}? (?:options?|choices?|possibilit(?:y|ies)"
    r"|findings?)\b[^.:\n]{0,60}"
    r"[:.]|\b(?:one by one|step by step)\b",
    re.IGNORECASE,
)


class ProseReading(NamedTuple):
    """The options that prose asserts or denies.

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
        n: Number of options.
        kinds: The special options.
        shared_ends: Expressions of the ends that several options have.
        yes_no: "yes", "no" or None for each.
        are_yes_and_no: Whether one of them is yes and one no.
        findings: Each negated option's finding, "" for the others.
    """

    def __init__(self, options: Sequence[str]) -> None:
        texts = strip_option_letters(options)
        self.words = [words(readable(text)) for text in texts]
        self.n = len(self.words)
        self.kinds = classify_options(self.words)
        self.yes_no = [_YES_NO_WORDS.get(text) for text in self.words]
        self.are_yes_and_no = sorted(filter(None, self.yes_no)) == ["no", "yes"]
        self.findings = [
            "" if _REPLY.match(text) else _find_negated(own_words)
            for text, own_words in zip(texts, self.words, strict=True)
        ]
        self.shared_ends = build_shared_ends(
            [text for text, finding in zip(self.words, self.findings, strict=True) if not finding]
        )
        longest_first = sorted({*filter(None, self.words)}, key=len, reverse=True)
        names_pattern = "|".join(
            re.escape(name) if _CJK.search(name) else rf"\b{re.escape(name)}(?=(?:e?s)?\b)" for name in longest_first
        )
        self._names = _build_pattern(rf"(?P<name>{names_pattern})(?:e?s\b)?", names_pattern)
        loose_pattern = "|".join(map(_build_loose_pattern, longest_first))
        self._texts = _build_pattern(rf"(?<!\w)(?:{loose_pattern})(?!\w)", loose_pattern)
        stopped_pattern = "|".join(
            _build_loose_pattern(words(text)) for text in texts if re.search(r"[.;!?]\s?\w", text)
        )
        self._stopped = _build_pattern(rf"(?<!\w)(?:{stopped_pattern})(?!\w)", stopped_pattern)
        # In prose a negated option is found by its finding, which a clause asserts or denies.
        in_prose = {text for text, finding in zip(self.words, self.findings, strict=True) if text and not finding}
        in_prose = sorted({*in_prose, *filter(None, self.findings)}, key=len, reverse=True)
        prose_pattern = "|".join(
            text + _AFTER_SIDE if _SIDE.fullmatch(text) else _build_loose_pattern(text)
            for text in in_prose
            if not _BARE_DENIAL.fullmatch(text)
        )
        self._prose = _build_pattern(rf"(?<!\w)(?P<name>{prose_pattern})(?:e?s)?(?!\w)", prose_pattern)
        self._in_cjk = any(map(_CJK.search, self.words))
        lettered_pattern = "|".join(
            _build_loose_pattern(text)
            for text in longest_first
            if " " in text and re.search(r"(?<!\S)[a-z](?!\S)", text)
        )
        self._with_letters = _build_pattern(rf"(?<!\w)(?:{lettered_pattern})(?!\w)", lettered_pattern)
        self._echo = _build_pattern(
            "".join(map(_build_echo_pattern, range(min(self.n, 26)), self.words)), self.n > 1 and all(self.words)
        )

    def find_options(self, text: str) -> set[int]:
        """Find the options whose words are equal to a text.

        Args:
            text: The words, as `words.words` writes them.

        Returns:
            Indices of the options; several if options are equal.
        """
        return {index for index, own_words in enumerate(self.words) if own_words == text}

    def find_starting(self, text: str) -> set[int]:
        """Find the option with whose words a text begins; of two, the longer.

        Args:
            text: The text.

        Returns:
            Indices of the options.
        """
        match = self._names.match(words(text)) if self._names else None
        return self.find_options(match["name"]) if match else set()

    def find_beginning_with(self, beginning: str) -> set[int]:
        """Find the one option whose text continues these words ("28" for "28 cm").

        Args:
            beginning: The words.

        Returns:
            The index of the option; empty if there are several.
        """
        indices = {
            index for index, own_words in enumerate(self.words) if beginning and own_words.startswith(f"{beginning} ")
        }
        return indices if len(indices) == 1 else set()

    def find_places(self, text: str) -> list[tuple[int, int, set[int]]]:
        """Find every option's text in a text.

        Args:
            text: The text.

        Returns:
            (start, end, options), in positions of the text.
        """
        matches = islice(self._texts.finditer(text), MOST) if self._texts else ()
        return [(*match.span(), self.find_options(words(match[0]))) for match in matches]

    def find_names(self, clause: str) -> set[str]:
        """Find the words of every option, or of its denied finding, that a clause names.

        Args:
            clause: The clause.

        Returns:
            The words.
        """
        return {words(name["name"]) for name in islice(self._prose.finditer(clause), MOST)} if self._prose else set()

    def read_prose(self, text: str) -> ProseReading:
        """Read the options that the clauses of a text assert or deny; the longest text wins.

        Args:
            text: The text.

        Returns:
            The options.
        """
        reading = ProseReading(set(), set(), set())
        if self._in_cjk:
            for cjk_clause in _CJK_CLAUSE_END.split(text):
                for _, _, options in self.find_places(cjk_clause):
                    (reading.denied if _CJK_DENIAL.search(cjk_clause) else reading.asserted).update(options)
            return reading
        if self._stopped:  # a stop within an option's text does not end a sentence
            text = self._stopped.sub(lambda name: re.sub(r"[^\w\s]", " ", name[0]), text)
        for clause in split_clauses(text) if self._prose else ():
            if clause.act == "state":
                self.read_clause(clause.text, reading, denied=clause.denied)
        return reading

    def read_clause(self, clause: str, reading: ProseReading, *, denied: bool = False) -> None:
        """Add the options that one clause asserts or denies.

        Args:
            clause: The clause.
            reading: The reading to extend.
            denied: Whether a heading denies the clause.
        """
        names = list(islice(self._prose.finditer(clause), MOST)) if self._prose else []
        # A denial within an option's own text denies nothing.
        for name in names:
            if has_denial(name[0]):
                clause = clause[: name.start()] + "x" * len(name[0]) + clause[name.end() :]
        name_standings = find_standings(clause, [name.span() for name in names], denied=denied)
        text, end = "", 0
        for name, standing in zip(names, name_standings, strict=True):
            is_repeated = words(name["name"]) == text and not re.search(r"\w", clause[end : name.start()])
            text, end = words(name["name"]), name.end()
            if standing == "asserted" or is_repeated:  # "No edema, edema" denies and asserts it
                reading.asserted.update(self.find_options(text))
            elif standing == "denied":
                reading.denied.update(self.find_options(text))
                reading.negated.update(index for index, finding in enumerate(self.findings) if finding == text)

    def remove_echo(self, text: str) -> str:
        """Remove a list, in one line or several, that only repeats all options with their letters.

        Args:
            text: The text.

        Returns:
            The remaining text.
        """
        return self._echo.sub("\n", text) if self._echo else text

    def remove_unfinished_list(self, text: str) -> str:
        """Remove the items of a list that should discuss every option and ends before the last one.

        Args:
            text: The text.

        Returns:
            The remaining text; the same text if its last sentence is finished, or is an option.
        """
        announcement = _ANNOUNCES.search(text, 0, _OPENING)
        last_line = text[text.rfind("\n") + 1 :]
        if announcement is None or _FINISHED.search(text) or words(last_line)[2:] in self.words:
            return text
        remaining_lines, n_items = [text[: announcement.end()]], 0
        for line in text[announcement.end() :].split("\n"):
            if n_items < self.n and re.match(rf"[\W_]*{_build_item_pattern(n_items, self.words[n_items])}", line, re.I):
                n_items += 1
            else:
                remaining_lines.append(line)
        return "\n".join(remaining_lines) if 0 < n_items < self.n else text

    def remove_letter_texts(self, text: str) -> str:
        """Remove option texts that contain a separate letter ("E. coli", "A is closer").

        Args:
            text: The text.

        Returns:
            The remaining text.
        """
        return self._with_letters.sub(" ", text) if self._with_letters else text


def strip_option_letters(options: Sequence[str]) -> list[str]:
    """Remove the options' own letters; some sources store "Edema" in second place as "B. Edema".

    Args:
        options: The options in their order.

    Returns:
        The options without letters.

    >>> strip_option_letters(["A. Edema", "B) No edema"])
    ['Edema', 'No edema']
    """
    labels = [re.match(rf"\s*\(?{chr(65 + i)}[.):]\s+(?=\S)", text) for i, text in enumerate(options[:26])]
    if len(labels) == len(options) and all(labels):
        return [text[label.end() :] for text, label in zip(options, labels, strict=True) if label]
    return list(options)


def _find_negated(text: str) -> str:
    """Find the finding that an option denies; "" if it denies none."""
    form = next(filter(None, (form.match(text) for form in NEGATION_FORMS)), None)
    return form["concept"] if form and not has_denial(form["concept"]) else ""


def _build_pattern(pattern: str, is_needed: object) -> re.Pattern[str] | None:
    return re.compile(pattern, re.IGNORECASE) if is_needed else None


def _build_loose_pattern(text: str) -> str:
    """Build an expression for words with any signs between them."""
    return r"[\W_]{1,6}".join(map(re.escape, text.split()))


def _build_item_pattern(index: int, text: str) -> str:
    return rf"[(\[]?{chr(65 + index)} ?[.:)\]] ?{_build_loose_pattern(text)}"


def _build_echo_pattern(index: int, text: str) -> str:
    return rf"(?:^|(?<=\W)){_build_item_pattern(index, text)}[\s.,;|/]*(?:(?:and|or)\b\s*)?"
