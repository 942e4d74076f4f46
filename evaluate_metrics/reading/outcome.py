"""Outcomes of reading an answer to any question: the contract of all readers in this folder."""

from __future__ import annotations

from typing import Literal

# answered: the text answers the question. declined: it says that it cannot or will not answer. unread: neither.
Outcome = Literal["answered", "declined", "unread"]
ANSWERED: Outcome = "answered"
DECLINED: Outcome = "declined"
UNREAD: Outcome = "unread"

# Reasons of an unread answer. empty: it has no words. none: its words answer nothing. ambiguous: several answers, or a
# letter next to another option's text. out_of_range: a letter beyond the options. cut: the text ends before the answer.
Reason = Literal["", "empty", "none", "ambiguous", "out_of_range", "cut"]

# Sources of an answer. letter: a letter that names an option. text: an option's own text, or the words yes and no, if
# the answer states its choice. prose: sentences that assert or deny.
Evidence = Literal["", "letter", "text", "prose"]
EVIDENCE: tuple[Evidence, ...] = ("letter", "text", "prose")
