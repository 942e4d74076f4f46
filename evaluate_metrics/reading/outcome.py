"""What a reader makes of an answer, whatever was asked: the contract of all readers in this folder."""

from __future__ import annotations

from typing import Literal

# answered: the text says what it was asked. declined: it says that it cannot or will not tell. unread: neither.
Outcome = Literal["answered", "declined", "unread"]
ANSWERED: Outcome = "answered"
DECLINED: Outcome = "declined"
UNREAD: Outcome = "unread"

# Why an answer is unread. empty: no words at all. none: words that answer nothing. ambiguous: several answers, or a
# letter beside another option's text. out_of_range: a letter beyond the options. cut: the text ends before it answers.
Reason = Literal["", "empty", "none", "ambiguous", "out_of_range", "cut"]

# What an answer was read from. letter: a letter that names an option. text: an option's own text, or the words yes and
# no, where the answer states its choice. prose: sentences that assert or deny.
Evidence = Literal["", "letter", "text", "prose"]
EVIDENCE: tuple[Evidence, ...] = ("letter", "text", "prose")
