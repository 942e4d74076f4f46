"""QCCV-Neg, the deterministic verifier of CXR-ContraBench (section 4 and Appendix B.2), as a pure function.

It replaces a prediction only when four conditions hold: the answer set has exactly one explicitly negated option; the
prediction is that option; the question is safely about absence or about presence; and the replacement is determined
without concept ambiguity. It looks at words only, never at an image or at the gold answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..reading.choice import Answer
from ..reading.negation import RULES, Polarity, Rules
from ..reading.options import option_texts
from ..reading.words import words
from .errors import is_from_prose

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
    "read_from_prose",
)


class Verdict(NamedTuple):
    """choice: the index after verification (the given one unless fired); reason: one of `REASONS`."""

    choice: int | None
    fired: bool
    reason: str


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
    if trigger not in RULES:
        raise ValueError(f"trigger {trigger!r}: expected one of {', '.join(RULES)}")
    if replacement not in {"slot0", "slot_agnostic"}:
        raise ValueError(f"replacement {replacement!r}: expected slot0 or slot_agnostic")
    texts = [words(text) for text in option_texts(options)]
    rules = RULES[trigger]
    polarity = rules.polarity(words(question))
    refusal = _refusal(rules, polarity, texts, choice)
    if refusal or choice is None:
        return Verdict(choice, False, refusal)
    found = _replacements(rules, texts, choice, first=polarity == "absence" and replacement == "slot0")
    if len(found) != 1:
        return Verdict(choice, False, "several_counterparts" if found else "no_counterpart")
    return Verdict(found[0], True, "fired")


def verify_answer(
    question: str,
    options: Sequence[str],
    answer: Answer,
    *,
    trigger: str = "original",
    replacement: str = "slot0",
    verify_prose: bool = False,
) -> Verdict:
    """`verify` of an answer that was read from a text: it leaves a choice read from sentences as it is.

    Reading prose can err. A wrong reading that is the negated option must not become a right answer by the verifier.

    Args:
        question, options, trigger, replacement: see `verify`.
        answer: what `parse_answer` returns.
        verify_prose: whether to replace choices read from sentences, too. Without it the reason of those that would be
            replaced is "read_from_prose".

    >>> question, options = "Which of the following findings is present?", ["Edema", "No edema", "Atelectasis"]
    >>> verify_answer(question, options, Answer(1, "answered", evidence="prose"))
    Verdict(choice=1, fired=False, reason='read_from_prose')
    >>> verify_answer(question, options, Answer(1, "answered", evidence="letter")).choice
    0
    """
    verdict = verify(question, options, answer.choice, trigger=trigger, replacement=replacement)
    if verdict.fired and is_from_prose(answer.evidence) and not verify_prose:
        return Verdict(answer.choice, False, "read_from_prose")
    return verdict


def _refusal(rules: Rules, polarity: Polarity | None, texts: list[str], choice: int | None) -> str:
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


def _replacements(rules: Rules, texts: list[str], negated: int, *, first: bool) -> list[int]:
    """Options that may stand in for the negated one: the first positive one, or those of its concept."""
    concept = _key(rules.negated_concept(texts[negated]))
    positive = [i for i in range(len(texts)) if i != negated]
    if not concept:
        return []
    return positive[:1] if first else [i for i in positive if _key(texts[i]) == concept]


def _key(concept: str) -> str:
    """What two concepts are compared by: their words without articles."""
    return " ".join(word for word in concept.split() if word not in {"a", "an", "the"})
