"""QCCV-Neg, the deterministic verifier of CXR-ContraBench (section 4 and Appendix B.2), as a pure function.

It replaces a prediction only when four conditions hold: the answer set has exactly one explicitly negated option; the
prediction is that option; the question is safely about absence or about presence; and the replacement is determined
without concept ambiguity. It looks at words only, never at an image or at the gold answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from .answers import option_texts, words

Polarity = Literal["presence", "absence"]

REASONS = (
    "fired",
    "no_prediction",
    "no_negated_option",
    "several_negated_options",
    "not_the_negated_option",
    "polarity_unclear",
    "ambiguous_options",
    "no_counterpart",
    "several_counterparts",
)


class Verdict(NamedTuple):
    """choice: the index after verification (the given one unless fired); reason: one of `REASONS`."""

    choice: int | None
    fired: bool
    reason: str


class _Rules(NamedTuple):
    """What one trigger vocabulary reads: each takes lower-case words (`answers.words`)."""

    polarity: Callable[[str], Polarity | None]
    is_negated: Callable[[str], bool]
    negated_concept: Callable[[str], str]  # "" where the concept cannot be told from the negation
    is_ambiguous: Callable[[list[str]], bool]


def verify(
    question: str,
    options: Sequence[str],
    choice: int | None,
    *,
    trigger: str = "original",
    replacement: str = "slot0",
) -> Verdict:
    """The prediction after QCCV-Neg, and why it was or was not replaced.

    Args:
        question: the question as asked.
        options: the answer set in the order shown.
        choice: the predicted index; None or an index outside the options passes through.
        trigger: "original", the published literal words, or "extended", the paraphrase-aware ones (Appendix I).
        replacement: "slot0" puts the first positive option on absence questions and the concept's positive
            counterpart on presence questions, as published; "slot_agnostic" puts the counterpart on both
            (Appendix E.4).

    Raises:
        ValueError: an unknown trigger or replacement.

    >>> question = "Which of the following findings is present on this chest X-ray study?"
    >>> verify(question, ["Edema", "No edema", "Atelectasis"], 1)
    Verdict(choice=0, fired=True, reason='fired')
    >>> verify(question, ["Edema", "Absence of edema", "Atelectasis"], 1)
    Verdict(choice=1, fired=False, reason='no_negated_option')
    >>> verify(question, ["Edema", "Absence of edema", "Atelectasis"], 1, trigger="extended").choice
    0
    """
    if trigger not in _RULES:
        raise ValueError(f"trigger {trigger!r}: expected one of {', '.join(_RULES)}")
    if replacement not in {"slot0", "slot_agnostic"}:
        raise ValueError(f"replacement {replacement!r}: expected slot0 or slot_agnostic")
    texts = [words(text) for text in option_texts(options)]
    rules = _RULES[trigger]
    polarity = rules.polarity(words(question))
    refusal = _refusal(rules, polarity, texts, choice)
    if refusal or choice is None:
        return Verdict(choice, False, refusal)
    found = _replacements(rules, texts, choice, first=polarity == "absence" and replacement == "slot0")
    if len(found) != 1:
        return Verdict(choice, False, "several_counterparts" if found else "no_counterpart")
    return Verdict(found[0], True, "fired")


def _refusal(rules: _Rules, polarity: Polarity | None, texts: list[str], choice: int | None) -> str:
    """The first condition that does not hold, in the paper's order; "" where all do."""
    negated = [i for i, text in enumerate(texts) if rules.is_negated(text)]
    refusals = (
        ("no_prediction", choice is None or not 0 <= choice < len(texts)),
        ("no_negated_option", not negated),
        ("several_negated_options", len(negated) > 1),
        ("not_the_negated_option", choice not in negated),
        ("polarity_unclear", polarity is None),
        ("ambiguous_options", rules.is_ambiguous(texts)),
    )
    return next((reason for reason, refused in refusals if refused), "")


def _replacements(rules: _Rules, texts: list[str], negated: int, *, first: bool) -> list[int]:
    """Options that may stand in for the negated one: the first positive one, or those of its concept."""
    concept = _key(rules.negated_concept(texts[negated]))
    positive = [i for i in range(len(texts)) if i != negated]
    if not concept:
        return []
    return positive[:1] if first else [i for i in positive if _key(texts[i]) == concept]


def _key(concept: str) -> str:
    """What two concepts are compared by: their words without articles."""
    return " ".join(word for word in concept.split() if word not in {"a", "an", "the"})


# The original, literal-surface vocabulary. B.2 names "absent" as the question's cue and section 6.3 the phrase "least
# likely present", which the authors' public code lists among the absence cues. On options it knows the words below
# (so it sees "No evidence of X" and "Clear of X", not "Absence of X" or "X is not present": Table 21), but to find
# the concept it takes off a leading "No" only (Table 20).
_ABSENT = re.compile(r"\bleast likely present\b|(?<!\bnot )\babsent\b")
_PRESENT = re.compile(r"(?<!\bnot )\bpresent\b")
_LITERAL_NEGATION = re.compile(r"\b(?:no|clear|absent|without|negative for|normal)\b")
_FUNCTION_WORD = re.compile(
    "an?|the|of|for|in|on|with|without|is|are|no|not|evidence|absence|absent|clear|negative|normal|present"
)


def _original_polarity(question: str) -> Polarity | None:
    rest, n_absent = _ABSENT.subn(" ", question)
    present = _PRESENT.search(rest)
    if bool(n_absent) == bool(present):
        return None
    return "absence" if n_absent else "presence"


def _shared_concept(options: list[str]) -> bool:
    """Whether every option of a set with a distractor has one content word in common.

    The casebook (Figure 14) leaves "No ascending aortic enlargement | Ascending aortic enlargement | Aortic knob
    enlargement" unrepaired, and repairs the same pair beside "Tracheal deviation".
    """
    content = [{word for word in option.split() if not _FUNCTION_WORD.fullmatch(word)} for option in options]
    return len(options) > 2 and bool(set.intersection(*content))


# The extended vocabulary reads more wordings, and refuses more: anything that is not plainly one polarity.
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
_NEGATION_FORMS = (
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


def _extended_polarity(question: str) -> Polarity | None:
    rest, n_absent = _ABSENCE_CUE.subn(" ", question)
    if _UNSAFE.search(question) or _DENIAL.search(rest):
        return None
    present = _PRESENCE_CUE.search(rest)
    if n_absent == 1 and not present:
        return "absence"
    return "presence" if present and not n_absent else None


def _extended_concept(option: str) -> str:
    """The concept of one plain negation; "" for two negations ("No absence of edema") and for unknown wordings."""
    for form in _NEGATION_FORMS:
        match = form.match(option)
        if match and not _ANY_NEGATION.search(match["concept"]):
            return match["concept"]
    return ""


_RULES = {
    "original": _Rules(
        polarity=_original_polarity,
        is_negated=lambda option: bool(_LITERAL_NEGATION.search(option)),
        negated_concept=lambda option: re.sub(r"^no\b ?", "", option),
        is_ambiguous=_shared_concept,
    ),
    "extended": _Rules(
        polarity=_extended_polarity,
        is_negated=lambda option: bool(_ANY_NEGATION.search(option)),
        negated_concept=_extended_concept,
        is_ambiguous=lambda options: False,  # the exact concept decides, whatever words the distractors share
    ),
}
