"""QCCV-Neg, the deterministic verifier of CXR-ContraBench (section 4 and Appendix B.2), as a pure function.

It replaces a prediction only if four conditions hold: the answer set has exactly one explicitly negated option; the
prediction is that option; the question is clearly about absence or about presence; and the replacement is determined
without ambiguity about the concept. It uses words only, never an image or the gold answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..arguments.kinds import FLAG, INDEX, TEXT, TEXTS, instance, one_of, optional
from ..arguments.schema import check_arguments
from ..reading.choice import Answer
from ..reading.negation import RULES, Polarity, Rules
from ..reading.options import strip_option_letters
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

TRIGGER, REPLACEMENT = one_of(tuple(RULES)), one_of(("slot0", "slot_agnostic"))


class Verdict(NamedTuple):
    """The result of a verification.

    Attributes:
        choice: The index after verification; unchanged unless fired.
        fired: Whether the verifier replaced the choice.
        reason: One of `REASONS`.
    """

    choice: int | None
    fired: bool
    reason: str


@check_arguments(question=TEXT, options=TEXTS, choice=optional(INDEX), trigger=TRIGGER, replacement=REPLACEMENT)
def verify(
    question: str,
    options: Sequence[str],
    choice: int | None,
    *,
    trigger: str = "original",
    replacement: str = "slot0",
) -> Verdict:
    """Replace a predicted negated option by its positive counterpart if the conditions of QCCV-Neg hold.

    The conditions are in the module's docstring. If one fails, the prediction stays, and `reason` names the condition.

    Args:
        question: The question as asked.
        options: The answer set in the displayed order.
        choice: The predicted index; None or an index outside the options passes through.
        trigger: "original", the published literal words; "extended", the paraphrase-aware ones (Appendix I); or
            "authors", those of the authors' published code, which are more. The code itself repairs answers to presence
            questions alone.
        replacement: "slot0" takes the first positive option on absence questions and the concept's positive counterpart
            on presence questions, as published; "slot_agnostic" takes the counterpart on both (Appendix E.4).

    Returns:
        The prediction after QCCV-Neg, and the reason for or against its replacement.

    Raises:
        ValueError: An unknown trigger or replacement.

    >>> question = "Which of the following findings is present on this chest X-ray study?"
    >>> verify(question, ["Edema", "No edema", "Atelectasis"], 1)
    Verdict(choice=0, fired=True, reason='fired')
    >>> verify(question, ["Edema", "Absence of edema", "Atelectasis"], 1)
    Verdict(choice=1, fired=False, reason='no_negated_option')
    >>> verify(question, ["Edema", "Absence of edema", "Atelectasis"], 1, trigger="extended").choice
    0
    """
    texts = [words(text) for text in strip_option_letters(options)]
    rules = RULES[trigger]
    polarity = rules.polarity(words(question))
    refusal = _find_refusal(rules, polarity, texts, choice)
    if refusal or choice is None:
        return Verdict(choice, False, refusal)
    replacements = _find_replacements(rules, texts, choice, use_first=polarity == "absence" and replacement == "slot0")
    if len(replacements) != 1:
        return Verdict(choice, False, "several_counterparts" if replacements else "no_counterpart")
    return Verdict(replacements[0], True, "fired")


@check_arguments(
    question=TEXT,
    options=TEXTS,
    answer=instance(Answer),
    trigger=TRIGGER,
    replacement=REPLACEMENT,
    verify_prose=FLAG,
)
def verify_answer(
    question: str,
    options: Sequence[str],
    answer: Answer,
    *,
    trigger: str = "original",
    replacement: str = "slot0",
    verify_prose: bool = False,
) -> Verdict:
    """Apply `verify` to an answer that was read from a text; a choice read from sentences stays unchanged.

    Reading prose can fail. The verifier must not turn a wrong reading that is the negated option into a right answer.

    Args:
        question: See `verify`.
        options: See `verify`.
        answer: The result of `parse_answer`.
        trigger: See `verify`.
        replacement: See `verify`.
        verify_prose: Whether to replace choices read from sentences, too. Without it the reason of those that would be
            replaced is "read_from_prose".

    Returns:
        The verdict.

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


def _find_refusal(rules: Rules, polarity: Polarity | None, texts: list[str], choice: int | None) -> str:
    """Return the name (in REASONS) of the first condition for a replacement that fails; "" if all hold."""
    negated = [index for index, text in enumerate(texts) if rules.is_negated(text)]
    refusals = (
        ("no_prediction", choice is None or not 0 <= choice < len(texts)),
        ("no_negated_option", not negated),
        ("several_negated_options", len(negated) > 1),
        ("not_the_negated_option", choice not in negated),
        ("polarity_unclear", polarity is None),
        ("ambiguous_options", rules.is_ambiguous(texts)),
    )
    return next((reason for reason, is_refused in refusals if is_refused), "")


def _find_replacements(rules: Rules, texts: list[str], negated: int, *, use_first: bool) -> list[int]:
    """List the options that can replace the negated one; the verifier needs exactly one.

    With `use_first`, it is the first of the other options in the displayed order. Otherwise these are all other options
    whose text is the negated concept ("edema" for "No edema"). The list is empty if the concept of the negated option
    cannot be told from its text.
    """
    concept = _build_key(rules.negated_concept(texts[negated]))
    positive = [index for index in range(len(texts)) if index != negated]
    if not concept:
        return []
    return positive[:1] if use_first else [index for index in positive if _build_key(texts[index]) == concept]


def _build_key(concept: str) -> str:
    """Build the key that compares two concepts: the words without articles."""
    return " ".join(word for word in concept.split() if word not in {"a", "an", "the"})
