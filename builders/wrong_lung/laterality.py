"""Exchange of left and right (That's the Wrong Lung!, appendix A.5) in sentences and in names of anatomies."""

from __future__ import annotations

import re

SWAPS = ("words", "substring")
OTHER = {"left": "right", "right": "left"}
_WORD = re.compile(r"\b(left|right)\b", re.IGNORECASE)
_ANYWHERE = re.compile("left|right")


def swapped(text: str, swap: str = "words") -> str:
    """Exchange left and right in a text. A text without a side stays unchanged.

    Args:
        text: The text.
        swap: "words" exchanges complete words and keeps their case. "substring" follows the reference code: it converts
            the text to lower case and replaces the letters anywhere, so that "bright" becomes "bleft".

    Returns:
        The new text.

    Raises:
        ValueError: `swap` is unknown.

    >>> swapped("Small LEFT-sided effusion; the right lung is bright.")
    'Small RIGHT-sided effusion; the left lung is bright.'
    >>> swapped("Left lung is bright.", "substring")
    'right lung is bleft.'
    """
    if swap not in SWAPS:
        raise ValueError(f"swap {swap!r}; expected one of {', '.join(SWAPS)}")
    if swap == "substring":
        return _ANYWHERE.sub(lambda match: OTHER[match[0]], text.lower())
    return _WORD.sub(lambda match: _match_case(match[0], OTHER[match[0].lower()]), text)


def side(name: str) -> str | None:
    """Find the side of an anatomy.

    Args:
        name: The name of the anatomy.

    Returns:
        "left" or "right", the first of these words in the name; None if it has neither.

    >>> side("left lower lung zone"), side("trachea")
    ('left', None)
    """
    match = _WORD.search(name)
    return match[0].lower() if match else None


def _match_case(word: str, new_word: str) -> str:
    if word.isupper():
        return new_word.upper()
    return new_word.capitalize() if word[0].isupper() else new_word
