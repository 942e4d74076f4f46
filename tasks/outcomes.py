"""Outcomes of the request for an answer, and which of them are scored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OUTCOME = "answer_outcome"  # column of a document; None if the model does not report how the answer ended
ANSWERED, EMPTY, CUT, FILTERED, REFUSED, UNANSWERED = "answered", "empty", "cut", "filtered", "refused", "unanswered"
OUTCOMES = (ANSWERED, EMPTY, CUT, FILTERED, REFUSED, UNANSWERED)
SCORED = (ANSWERED, CUT)  # outcomes whose text is scored; a reader uses the complete part of a cut answer

END = "answer_end"  # column of a document: the server's reason for another end than the regular one, else ""

IF_DECLINED = "look at these answers: such a model may need another prompt, or it was not given the images"


def find_outcome(doc: Mapping[str, Any]) -> str | None:
    """Return the outcome of the request for a document's answer, or None if its model does not report it.

    lm-eval reads each document twice: before the model is asked, and before the answer is scored. Its filters get the
    first copy, in which the column is still None. The images of both copies know the outcome (`LazyImages`).

    Args:
        doc: A document of a task of this package.

    Returns:
        Name of the outcome, or None.
    """
    return getattr(doc.get("images"), "outcome", None) or doc.get(OUTCOME)


def is_cut(doc: Mapping[str, Any]) -> bool:
    """Return whether the answer to a document's question is known to have ended at the token limit.

    Args:
        doc: The document.

    Returns:
        False if the outcome is unknown.

    >>> is_cut({"answer_outcome": "cut"}), is_cut({"answer_outcome": None}), is_cut({})
    (True, False, False)
    """
    return find_outcome(doc) == CUT
