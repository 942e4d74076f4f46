"""Left for right and right for left (That's the Wrong Lung!, appendix A.5), in sentences and in names of anatomies."""

from __future__ import annotations

import re

SWAPS = ("words", "substring")
OTHER = {"left": "right", "right": "left"}
_WORD = re.compile(r"\b(left|right)\b", re.IGNORECASE)
_ANYWHERE = re.compile("left|right")


def swapped(text: str, swap: str = "words") -> str:
    """`text` with its sides exchanged; a text that names none stays as it is.

    Args:
        swap: "words": whole words, in their case; "substring": the reference code's way, which puts the text in lower
            case and replaces the letters wherever they stand, so that "bright" becomes "bleft".

    Raises:
        ValueError: another swap.

    >>> swapped("Small LEFT-sided effusion; the right lung is bright.")
    'Small RIGHT-sided effusion; the left lung is bright.'
    >>> swapped("Left lung is bright.", "substring")
    'right lung is bleft.'
    """
    if swap not in SWAPS:
        raise ValueError(f"swap {swap!r}; expected one of {', '.join(SWAPS)}")
    if swap == "substring":
        return _ANYWHERE.sub(lambda match: OTHER[match[0]], text.lower())
    return _WORD.sub(lambda match: _in_case_of(match[0], OTHER[match[0].lower()]), text)


def side(name: str) -> str | None:
    """ "left" or "right" where an anatomy's name has one of these words (the first, where it has both).

    >>> side("left lower lung zone"), side("trachea")
    ('left', None)
    """
    match = _WORD.search(name)
    return match[0].lower() if match else None


def _in_case_of(word: str, other: str) -> str:
    if word.isupper():
        return other.upper()
    return other.capitalize() if word[0].isupper() else other
