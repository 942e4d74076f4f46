"""Options that end alike, and texts that name two of them with one end: "bacterial or viral pneumonia"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_LINK = (  # between two options with one end
    r"-?(?:,? ?\(?\b(?:or|and|and/or|to|on|vs\.?|versus|nor|if not|(?:and |but )?not|rather than|instead of"
    r"|as opposed to)\b\.? ?|, ?| ?/ ?)(?:(?:an?|the|on the|in the)\b ?)?"
)


def build_shared_ends(option_words: Sequence[str]) -> list[tuple[re.Pattern[str], str]]:
    """Build the expressions of `write_out_shared_ends`, the longest ends first.

    Args:
        option_words: The words of each option.

    Returns:
        For each end that several options have, the expression of a beginning that lacks it, and the end.
    """
    beginnings_by_end: dict[str, set[str]] = {}
    for beginning, end in (pair for text in option_words for pair in _split_words(text)):
        beginnings_by_end.setdefault(end, set()).add(beginning)
    patterns = []
    for end in sorted(beginnings_by_end, key=len, reverse=True):
        beginnings = sorted(beginnings_by_end[end], key=len, reverse=True)
        if len(beginnings) > 1:
            either = "|".join(map(_build_words_pattern, beginnings))
            full = rf"(?:{either})[),]{{0,2}}[ -]{_build_words_pattern(end)}(?:e?s)?\b"
            patterns.append((re.compile(rf"\b({either})(?={_LINK}{full})", re.IGNORECASE), end))
    return patterns


def write_out_shared_ends(text: str, shared_ends: Sequence[tuple[re.Pattern[str], str]]) -> str:
    """Give each option of a text the end that it shares with the next one.

    Without it, only the last option has all of its words, and a text that names two would choose that one.

    Args:
        text: The readable text.
        shared_ends: The expressions of the options (`build_shared_ends`).

    Returns:
        The text.

    >>> shared_ends = build_shared_ends(["bacterial pneumonia", "viral pneumonia", "fungal pneumonia"])
    >>> write_out_shared_ends("Bacterial, viral or fungal pneumonia.", shared_ends)
    'Bacterial pneumonia, viral pneumonia or fungal pneumonia.'
    """
    for pattern, end in shared_ends:
        n_found = 1
        while n_found:  # in a list, the last item but one is written out first
            text, n_found = pattern.subn(rf"\1 {end}", text)
    return text


def _split_words(text: str) -> Iterator[tuple[str, str]]:
    """Split an option into a beginning and an end at each blank."""
    own_words = text.split()
    return ((" ".join(own_words[:n]), " ".join(own_words[n:])) for n in range(1, len(own_words)))


def _build_words_pattern(text: str) -> str:
    return "[ -]".join(map(re.escape, text.split()))
