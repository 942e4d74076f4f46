"""What became of the request for an answer, and how much of it is scored: whole answers, and what came of cut ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OUTCOME = "answer_outcome"  # column of a document, where its model knows how the answer ended
ANSWERED, EMPTY, CUT, FILTERED, REFUSED, UNANSWERED = "answered", "empty", "cut", "filtered", "refused", "unanswered"
OUTCOMES = (ANSWERED, EMPTY, CUT, FILTERED, REFUSED, UNANSWERED)
SCORED = (ANSWERED, CUT)  # outcomes whose text is scored; a reader takes of a cut one what it has said before its end

IF_DECLINED = "look at these answers: such a model may need another prompt, or it was not given the images"


def outcome_of(doc: Mapping[str, Any]) -> str | None:
    """Return what became of the request for a document's answer, or None if its model does not say.

    lm-eval reads each document before the model is asked and again before it scores the answer. Its filters get the
    first of these, in which the column is still None. The images of both know the outcome (`rows.LazyImages`).
    """
    return getattr(doc.get("images"), "outcome", None) or doc.get(OUTCOME)


def is_cut(doc: Mapping[str, Any]) -> bool:
    """Return whether the answer to a document's question is known to have ended at the limit of tokens.

    >>> is_cut({"answer_outcome": "cut"}), is_cut({"answer_outcome": None}), is_cut({})
    (True, False, False)
    """
    return outcome_of(doc) == CUT
