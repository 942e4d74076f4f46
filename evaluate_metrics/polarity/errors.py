"""Reversals and contradictions: the one rule that the metric, the lm-eval tasks and the report use to count them.

A polarity error is a wrong answer that is the negated option: a reversal if the question asks for present findings, a
contradiction if it asks for absent ones (CXR-ContraBench, sections 3.1 and 3.2). A right answer is no error, so a
question whose right answer is the negated option cannot have one. It counts in no denominator.

All functions work element by element, on one question or on arrays of shape (n,).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ..arguments.kinds import choices, indices, one_of
from ..arguments.schema import check_arguments
from ..reading.outcome import EVIDENCE, Evidence

Kind = Literal["reversal", "contradiction"]
POLARITIES = ("presence", "absence", "other")
ASKED: dict[Kind, str] = {"reversal": "presence", "contradiction": "absence"}  # polarity of the question
PROSE: Evidence = "prose"

_KIND = one_of(tuple(ASKED))
_POLARITY, _ANSWER, _CHOICE = choices(POLARITIES), indices(0), indices(-1)


@check_arguments(kind=_KIND, polarity=_POLARITY, negated=_CHOICE, answer=_ANSWER)
def can_err(kind: Kind, *, polarity: ArrayLike, negated: ArrayLike, answer: ArrayLike) -> Any:
    """Whether an answer to the question can be an error of this kind: its negated option exists and is wrong.

    Args:
        kind: "reversal" or "contradiction".
        polarity: The polarity of the question, one of `POLARITIES`.
        negated: Index of the negated option, -1 without one.
        answer: Index of the right option.

    Returns:
        Bool, shape (n,) or a single value.

    >>> can_err("reversal", polarity=["presence", "presence", "absence"], negated=[1, -1, 1], answer=[0, 0, 0])
    array([ True, False, False])
    """
    polarity, negated, answer = np.asarray(polarity), np.asarray(negated), np.asarray(answer)
    return (polarity == ASKED[kind]) & (negated >= 0) & (negated != answer)


@check_arguments(kind=_KIND, choice=_CHOICE, polarity=_POLARITY, negated=_CHOICE, answer=_ANSWER)
def is_error(kind: Kind, choice: ArrayLike, *, polarity: ArrayLike, negated: ArrayLike, answer: ArrayLike) -> Any:
    """Whether a choice is an error of this kind.

    Args:
        kind: See `can_err`.
        choice: Index of the chosen option, -1 if no option was read.
        polarity: See `can_err`.
        negated: See `can_err`.
        answer: See `can_err`.

    Returns:
        Bool, shape (n,) or a single value.

    >>> is_error("contradiction", [1, 1, -1], polarity=["absence"] * 3, negated=[1, 1, 1], answer=[0, 1, 0])
    array([ True, False, False])
    """
    at_risk = can_err(kind, polarity=polarity, negated=negated, answer=answer)
    return at_risk & chose_negated(choice, negated=negated)


@check_arguments(choice=_CHOICE, negated=_CHOICE)
def chose_negated(choice: ArrayLike, *, negated: ArrayLike) -> Any:
    """Whether a choice is the negated option, right or wrong.

    Args:
        choice: Index of the chosen option, -1 if no option was read.
        negated: Index of the negated option, -1 without one.

    Returns:
        Bool, shape (n,) or a single value.

    >>> chose_negated([1, -1], negated=[1, -1])
    array([ True, False])
    """
    negated = np.asarray(negated)
    return (negated >= 0) & (np.asarray(choice) == negated)


@check_arguments(evidence=choices(("", *EVIDENCE)))
def is_from_prose(evidence: ArrayLike) -> Any:
    """Whether an answer was read from sentences, not from a letter or an option's text.

    Errors of these answers have their own counts. Logs of versions before `evidence` have the value "", which is not
    prose.

    Args:
        evidence: The source of each reading (`reading.outcome`).

    Returns:
        Bool, shape (n,) or a single value.

    >>> is_from_prose(["letter", "prose", ""])
    array([False,  True, False])
    """
    return np.asarray(evidence) == PROSE
