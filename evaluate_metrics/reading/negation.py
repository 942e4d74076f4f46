"""Polarity of a question and negated options, by three vocabularies (CXR-ContraBench: B.2, Appendix I, the code)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

Polarity = Literal["presence", "absence"]


class Rules(NamedTuple):
    """The functions of one trigger vocabulary; each takes lower-case words (`words.words`).

    Attributes:
        polarity: Finds the polarity of a question; None if it is unclear.
        is_negated: Whether an option denies something.
        negated_concept: Finds the concept of a negated option; "" if it cannot be separated from the negation.
        is_ambiguous: Whether the options do not determine a replacement.
    """

    polarity: Callable[[str], Polarity | None]
    is_negated: Callable[[str], bool]
    negated_concept: Callable[[str], str]
    is_ambiguous: Callable[[list[str]], bool]


# The original, literal vocabulary. B.2 names "absent" as the question's cue and section 6.3 the phrase "least likely
# present", which the authors' public code lists among the absence cues. In options it recognizes the words below: "No
# evidence of X" and "Clear of X", not "Absence of X" or "X is not present" (Table 21). To find the concept it removes
# only a leading "No" (Table 20).
_ABSENT = re.compile(r"\bleast likely present\b|(?<!\bnot )\babsent\b")
_PRESENT = re.compile(r"(?<!\bnot )\bpresent\b")
_LITERAL_NEGATION = re.compile(r"\b(?:no|clear|absent|without|negative for|normal)\b")
_FUNCTION_WORD = re.compile(
    "an?|the|of|for|in|on|with|without|is|are|no|not|evidence|absence|absent|clear|negative|normal|present"
)


def _find_original_polarity(question: str) -> Polarity | None:
    remaining, n_absent = _ABSENT.subn(" ", question)
    presence = _PRESENT.search(remaining)
    if bool(n_absent) == bool(presence):
        return None
    return "absence" if n_absent else "presence"


def _has_shared_concept(options: list[str]) -> bool:
    """Whether all options of a set with a distractor have a content word in common.

    The casebook (Figure 14) leaves "No ascending aortic enlargement | Ascending aortic enlargement | Aortic knob
    enlargement" unrepaired, and repairs the same pair next to "Tracheal deviation".
    """
    content_words = [{word for word in option.split() if not _FUNCTION_WORD.fullmatch(word)} for option in options]
    return len(options) > 2 and bool(set.intersection(*content_words))


# The extended vocabulary reads more wordings, and rejects any wording that does not clearly have one polarity.
_SEEN = (
    "present|seen|visible|visuali[sz]ed|show|shows|shown|evident|demonstrate|demonstrates|demonstrated|identified"
    "|observed|detected|noted|depict|depicts|depicted|apparent|reveal|reveals|revealed|found|displayed"
)
_EVIDENCE = "evidence|sign|signs|indication|indications|trace|suggestion"
_UNSAFE = re.compile(
    r"\b(?:least|most|more|less|likely|unlikely|likelihood|probabl[ey]|possibl[ey]|suspected|suspicious|except"
    r"|excluding|excludes?|other than|besides|rather|instead|unless|if|may|might|could|would|should|false|incorrect"
    r"|wrong|untrue|inconsistent|contradict\w*|hardly|barely|rarely|partially)\b"
)
_ABSENCE_CUE = re.compile(
    rf"\b(?:not (?:be |been |to be )?(?:{_SEEN})|absent|missing|lack|lacks|lacking|excluded|ruled out"
    rf"|(?:(?:{_SEEN}) )?no (?:{_EVIDENCE})(?: of)?|negative(?: for)?|free of|clear of|without)\b"
)
_PRESENCE_CUE = re.compile(rf"\b(?:{_SEEN})\b")
_DENIAL = re.compile(r"\b(?:no|not|never|none|neither|nor|absence|nothing|fails?|failed)\b")

_ANY_NEGATION = re.compile(
    r"\b(?:no|not|never|none|neither|nor|without|absent|absence|clear|negative|free of|lack|lacks|lacking|normal"
    r"|unremarkable|excluded|ruled out|missing)\b"
)
NEGATION_FORMS = (
    re.compile(
        r"^(?:there (?:is|are) )?"
        r"(?:no|without|absent|absence of|lack of|negative for|(?:(?:\w+ ){1,3}(?:is|are) )?(?:clear|free) of)"
        rf"(?: any)?(?: (?:{_EVIDENCE}) of)? (?P<concept>.+?)(?:(?: (?:is|are))? (?:{_SEEN}))?$"
    ),
    re.compile(
        r"^(?P<concept>.+?)(?: (?:is|are|was|were))?"
        rf" (?:(?:can )?not (?:be )?(?:{_SEEN})|absent|missing|excluded|ruled out)$"
    ),
)


def _find_extended_polarity(question: str) -> Polarity | None:
    remaining, n_absent = _ABSENCE_CUE.subn(" ", question)
    if _UNSAFE.search(question) or _DENIAL.search(remaining):
        return None
    presence = _PRESENCE_CUE.search(remaining)
    if n_absent == 1 and not presence:
        return "absence"
    return "presence" if presence and not n_absent else None


def _find_extended_concept(option: str) -> str:
    """Find the concept of one plain negation; "" for double negation ("No absence of edema") and unknown wordings."""
    for form in NEGATION_FORMS:
        match = form.match(option)
        if match and not _ANY_NEGATION.search(match["concept"]):
            return match["concept"]
    return ""


# The vocabulary of the authors' published code (cxr_contrabench/verifier.py of github.com/fangzr/cxr-contrabench-code).
# It has more cues of absence than the paper names. Presence is decided first, by three phrases.
_AUTHORS_PRESENCE = re.compile(
    r"\b(?:which of the following findings is present|which finding is present|finding is present)\b"
)
_AUTHORS_ABSENCE = re.compile(
    r"\babsent|not (?:present|seen|visible|observed|demonstrated)|negative for|free of|without"
    r"|which (?:finding|abnormality) is not|least likely present"
)
_AUTHORS_NEGATION = re.compile(r"\b(?:no|normal|clear|absent|without|negative for)\b")
_AUTHORS_PREFIX = re.compile(r"^(?:no|without|absent|negative for|free of|lack of) ")


def _find_authors_polarity(question: str) -> Polarity | None:
    if _AUTHORS_PRESENCE.search(question):
        return "presence"
    return "absence" if _AUTHORS_ABSENCE.search(question) else None


RULES = {
    "original": Rules(
        polarity=_find_original_polarity,
        is_negated=lambda option: bool(_LITERAL_NEGATION.search(option)),
        negated_concept=lambda option: re.sub(r"^no\b ?", "", option),
        is_ambiguous=_has_shared_concept,
    ),
    "extended": Rules(
        polarity=_find_extended_polarity,
        is_negated=lambda option: bool(_ANY_NEGATION.search(option)),
        negated_concept=_find_extended_concept,
        is_ambiguous=lambda options: False,  # the exact concept decides, even if distractors share words
    ),
    "authors": Rules(
        polarity=_find_authors_polarity,
        is_negated=lambda option: bool(_AUTHORS_NEGATION.search(option)),
        negated_concept=lambda option: _AUTHORS_PREFIX.sub("", option),
        is_ambiguous=lambda options: False,
    ),
}
