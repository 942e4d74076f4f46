"""What became of the request for an answer. Only a whole answer is scored."""

from __future__ import annotations

OUTCOME = "answer_outcome"  # column of a document, if a server was asked
ANSWERED, EMPTY, CUT, FILTERED, REFUSED, UNANSWERED = "answered", "empty", "cut", "filtered", "refused", "unanswered"
OUTCOMES = (ANSWERED, EMPTY, CUT, FILTERED, REFUSED, UNANSWERED)
