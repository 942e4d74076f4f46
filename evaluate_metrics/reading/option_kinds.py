"""Options of a special kind, and the words of an answer that name them.

"None of these" chooses the option "None of the above", "left and right lungs" chooses "Both lungs", "two" chooses "2",
"on the left" chooses "Left lung", and an answer that cannot be told chooses "Cannot be determined".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from .lung_regions import find_levels, find_sides
from .words import build_word_set


class OptionKinds(NamedTuple):
    """The special options of a question.

    Attributes:
        none_of_them: The words of the option that denies all others, "" without one.
        both: The words of the option for both sides.
        undetermined: The index of the option that says that the answer cannot be told; None without one.
        are_numbers: Whether all options are whole numbers.
        noun: The last word that options of two words share ("lung" for "left lung" and "right lung").
        firsts: Their first words, if they name a side, a level or a view.
        regions: The words of the options that name a side or a level.
        quadrant_noun: The noun that follows side and level in options ("lobe" for "left lower lobe consolidation").
    """

    none_of_them: str
    both: str
    undetermined: int | None
    are_numbers: bool
    noun: str
    firsts: tuple[str, ...]
    regions: tuple[str, ...]
    quadrant_noun: str


_NONE_OF_THEM = re.compile(
    r"(?:none|neither)(?: of (?:the above|these|them|those|the (?:options|choices|answers)))?(?: above)?"
)
_BOTH = re.compile(r"both(?: \w+){0,2}|bilateral(?:ly)?")
_UNDETERMINED = re.compile(
    r"(?:it |this )?(?:(?:can ?not|can t|could not) be|not) (?:determined|assessed|told|judged|answered|known)(?: .*)?"
    r"|(?:unable|impossible|not possible) to (?:determine|tell|assess|say|know)(?: .*)?"
    r"|undetermined|indeterminate|uncertain|unclear|unknown|not sure|(?:insufficient|not enough) \w+(?: .*)?"
)
_FIRSTS = build_word_set("left right upper lower middle frontal lateral oblique anterior posterior superior inferior")
_DIGITS: dict[str, str] = {
    word: str(number)
    for number, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    )
}
_NUMBER_WORD = re.compile(  # "no one", "the one" and "one of them" count nothing
    r"(?<!\bno )(?<!\bthe )(?<!\bthis )(?<!\bthat )(?<!\bwhich )(?<!\beach )(?<!\bother )"
    rf"\b(?P<word>{'|'.join(_DIGITS)})\b(?! of\b)|\ba single\b",
    re.IGNORECASE,
)
_NO_NUMBER = re.compile(r"\A\W*(?:there (?:is|are) )?(?:none|no \w+(?: (?:is|are) \w+)?)\W*\Z", re.IGNORECASE)
_COMPARED_NUMBER = re.compile(r"\b(?:more|less|fewer|greater|other|higher|lower) than \d+\b", re.IGNORECASE)
_COUNTED = re.compile(r"\A(?P<total>\W*(?:there are |i (?:see|count) )?\d+ \w+) ?:.*", re.IGNORECASE | re.DOTALL)
_NONE_WORDS = re.compile(
    r"\b(?:none|neither) of (?:these|them|those|the (?:above|options|choices|answers))(?: options| choices)?\b"
    r"|\A\W*(?:none|neither)(?: \w+)?(?=\W*\Z)",
    re.IGNORECASE,
)
_BOTH_WORD = re.compile(r"\bbilateral(?:ly)?\b", re.IGNORECASE)
_TWO_SIDES = re.compile(  # "left and right", "the left lung and the right lung"
    r"\b(?:both )?(?:the )?(?P<first>left|right)(?: lungs?| sides?)?(?:,| and|,? as well as| &|\+)"
    r"(?: (?:in|on|also))?(?: the)? (?!(?P=first))(?:left|right)(?: lungs?| sides?)?(?=\W*(?:\Z|[.,;]))",
    re.IGNORECASE,
)
_SIDE_NOUN = re.compile(r"\b(?P<side>left|right) (?:lung|hemithorax|chest)(?=\W*(?:\Z|[.,;]))", re.IGNORECASE)
_BOTH_NOUN = re.compile(
    r"\bboth (?:lungs|sides)(?: (?:are|seem|appear) (?:affected|involved|abnormal|diseased))?(?=\W*(?:\Z|[.,;]))",
    re.IGNORECASE,
)
_LOBES = {"lul": "left upper", "lll": "left lower", "rul": "right upper", "rml": "right middle", "rll": "right lower"}
_SHORT_LOBE = re.compile(r"\b(?:[LR][UL]L|RML)(?: lobe)?\b")  # "LLL", in capital letters
# The noun, unless another level follows ("left upper and lower lobes").
_AFTER_REGION = (
    r"(?: (?:lung (?:zones?|fields?)|lungs?|lobes?|zones?|fields?)\b"
    r"|(?! ?(?:and|or|to|lungs?|lobes?|zones?)\b| ?[/&]))"
)
_REGION = re.compile(  # "lower left lung", "right base", "left lower zone"
    rf"\b(?:(?P<level>upper|middle|mid|lower) (?P<side>left|right)\b{_AFTER_REGION}"
    rf"|(?P<side2>left|right) (?P<level2>upper|middle|mid|lower)\b{_AFTER_REGION}"
    r"|(?P<side3>left|right)(?: lung)? (?P<level3>apex|apical|base|basal|basilar)\b(?: region| zone)?)",
    re.IGNORECASE,
)
_QUADRANT = re.compile(r"\b(?:left|right) (?:upper|middle|lower) (?P<noun>lung|lobe|zone)\b")
_LEVEL = {"mid": "middle", "apex": "upper", "apical": "upper", "base": "lower", "basal": "lower", "basilar": "lower"}
_UNKNOWN_WORD = re.compile(
    r"\W*(?:undetermined|not determined|indeterminate|unknown|unclear|uncertain)\W*", re.IGNORECASE
)
_REFUSES = re.compile(
    r"\b(?:sorry|apologi[sz]e|as an? (?:ai|artificial|language|large)|not qualified|not comfortable|upload|attach"
    r"|consult"
    r"|(?:can ?not|can't|won't|will not|unable to) (?:help|assist|provide|diagnose|comment|speculate|view|see"
    r"|process|analy[sz]e)"
    r"|(?:can ?not|can't|could not|unable to) (?:\w+ly )?(?:identify|recogni[sz]e|find|detect)"
    r"|no (?:\w+ )?(?:image|picture|x-?ray|scan)|image (?:is|was) (?:not|missing|black|blank))\b",
    re.IGNORECASE,
)
_REPLIES = re.compile(r"\W*(?:yes|no)\b", re.IGNORECASE)  # "Yes, although its cause cannot be determined"


def classify_options(option_words: Sequence[str]) -> OptionKinds:
    """Classify the options of a question.

    Args:
        option_words: The words of each option (`options.Options.words`).

    Returns:
        Their kinds.
    """
    pairs = [text.split() for text in option_words if len(text.split()) == 2]
    nouns = {noun for first, noun in pairs if first in _FIRSTS}
    noun = nouns.pop() if len(nouns) == 1 else ""
    undetermined = [place for place, text in enumerate(option_words) if _UNDETERMINED.fullmatch(text)]
    return OptionKinds(
        next((text for text in option_words if _NONE_OF_THEM.fullmatch(text)), ""),
        next((text for text in option_words if _BOTH.fullmatch(text)), ""),
        undetermined[0] if len(undetermined) == 1 else None,
        bool(option_words) and all(text.isdecimal() for text in option_words),
        noun,
        tuple(first for first, second in pairs if first in _FIRSTS and second == noun),
        tuple(text for text in option_words if (find_sides(text) or find_levels(text)) and not _BOTH.fullmatch(text)),
        _find_quadrant_noun(option_words),
    )


def write_out_options(text: str, kinds: OptionKinds, question: str) -> str:
    """Write the special options out as a text names them.

    Args:
        text: The readable text.
        kinds: The kinds of the options.
        question: The question.

    Returns:
        The text, with the options' own words.

    >>> kinds = classify_options(["left lung", "right lung", "both lungs"])
    >>> write_out_options("In the left and right lung.", kinds, "")
    'In both lungs.'
    >>> write_out_options("There are two.", classify_options(["1", "2"]), "")
    'There are 2.'
    """
    if kinds.none_of_them:
        text = _NONE_WORDS.sub(kinds.none_of_them, text)
    if kinds.undetermined is not None and _UNKNOWN_WORD.fullmatch(text):
        return "cannot be determined"
    if kinds.are_numbers:
        text = _NO_NUMBER.sub("0", text)
        text = _NUMBER_WORD.sub(lambda match: _DIGITS[match["word"].lower()] if match["word"] else "1", text)
        text = _COUNTED.sub(r"\g<total>", _COMPARED_NUMBER.sub(" ", text))
    if kinds.quadrant_noun:
        text = _write_out_quadrants(text, kinds.quadrant_noun)
    if kinds.both:
        text = _BOTH_WORD.sub(kinds.both, text)
    if len(kinds.firsts) > 1:
        text = _write_out_regions(text, kinds)
    elif {"left", "right"} <= set(kinds.regions):
        text = _write_out_sides(text, kinds)
    if kinds.regions and not re.search(r"\b(?:normal|clear|healthy|unaffected|spared|not)\b", question, re.IGNORECASE):
        text = _build_cleared_pattern(kinds.regions).sub(" ", text)  # "The left lung is clear", asked where it is
    return text


def is_undetermined(text: str) -> bool:
    """Whether a text that declines says that the answer cannot be told, without a refusal to answer, a yes or a no.

    Args:
        text: The readable text.

    Returns:
        True if it does.
    """
    return not (_REFUSES.search(text) or _REPLIES.match(text))


def _find_quadrant_noun(option_words: Sequence[str]) -> str:
    """Find the noun after side and level in the options; "" if there is none, or several."""
    matches = [_QUADRANT.search(text) for text in option_words]
    nouns = {match["noun"] for match in matches if match}
    return nouns.pop() if len(nouns) == 1 else ""


def _write_out_quadrants(text: str, noun: str) -> str:
    """Write a region of the lungs as the options name it: "LLL", "lower left lung", "right base"."""

    def write(match: re.Match[str]) -> str:
        side = match["side"] or match["side2"] or match["side3"]
        level = match["level"] or match["level2"] or match["level3"]
        return f"{side} {_LEVEL.get(level.lower(), level)} {noun}"

    return _REGION.sub(write, _SHORT_LOBE.sub(lambda match: f"{_LOBES[match[0][:3].lower()]} {noun}", text))


def _write_out_sides(text: str, kinds: OptionKinds) -> str:
    """Write sides as the options "left", "right" and "both" name them: "the left lung", "left and right"."""
    if kinds.both == "both":
        text = _BOTH_NOUN.sub("both", _TWO_SIDES.sub("both", text))
    return _SIDE_NOUN.sub(r"\g<side> side", text)


def _write_out_regions(text: str, kinds: OptionKinds) -> str:
    """Give each first word the noun of its option: "left and right lungs", "on the left", "the view is lateral"."""
    joined, alone, predicate = _build_region_patterns(kinds.firsts, kinds.noun)
    both = kinds.both

    def write_joined(match: re.Match[str]) -> str:
        is_both = both and match["word"] == "and" and match["first"].lower() != match["second"].lower()
        return both if is_both else f"{match['first']} {kinds.noun} {match['word']} {match['second']} {kinds.noun}"

    text = joined.sub(write_joined, text)
    text = predicate.sub(lambda match: f"{match['verb']} {match['first']} {kinds.noun}", text)
    return alone.sub(lambda match: f"{match[0]} {kinds.noun}", text)


@lru_cache(maxsize=64)
def _build_region_patterns(
    firsts: tuple[str, ...], noun: str
) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    names = "|".join(firsts)
    joined = (
        rf"(?:\b(?:both )?(?:the )?)(?P<first>{names})(?: {noun})?,? (?P<word>and|or)(?: (?:in|on|also))?(?: the)?"
        rf" (?P<second>{names}) {noun}s?\b"
    )
    alone = (
        rf"(?:\A\W*(?:an? |the )?|\b(?:on|in|at|of|towards?) (?:the )?|\ba )(?:{names})"
        rf"(?=\W*(?:\Z|[.,;]|\bside\b|\bnot\b|>)| (?:chest )?(?:x-?ray|radiograph|image|film|projection)\b)"
    )
    predicate = rf"\bthe {noun} (?P<verb>is|appears to be|seems to be) (?P<first>{names})(?=\W*(?:\Z|[.,;]))"
    return re.compile(joined, re.I), re.compile(alone, re.I), re.compile(predicate, re.I)


@lru_cache(maxsize=64)
def _build_cleared_pattern(regions: tuple[str, ...]) -> re.Pattern[str]:
    names = "|".join(map(re.escape, sorted(regions, key=len, reverse=True)))
    cleared = r"(?:clear|normal|unremarkable|unaffected|spared|healthy|uninvolved|free)"
    return re.compile(
        rf"\b(?:the )?(?:{names})(?: side| lung)?(?: (?:is|appears|looks|seems|remains)| ?:) (?:\w+ly )?{cleared}\b"
        rf"|\b{cleared} (?:{names})(?: side| lung)?(?=\W*(?:\Z|[.,;]))",
        re.IGNORECASE,
    )
