"""Text in one spelling, so that it can be compared."""

from __future__ import annotations

import re
import unicodedata

_WORD = re.compile(r"[^\W_]+")


def folded(text: str) -> str:
    """The text in lower case, with plain apostrophes and "not" as a word of its own.

    >>> folded("It ISN’T, it cannot be.")
    'it is not, it can not be.'
    """
    text = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return text.replace("n't", " not").replace("cannot", "can not")


def words(text: str) -> str:
    """Lower-case words of a text, one space between them: what texts are compared by.

    >>> words("Edema isn't  PRESENT.")
    'edema is not present'
    """
    return " ".join(_WORD.findall(folded(text)))


def word_set(text: str) -> frozenset[str]:
    """The words of a table that is written as one text.

    >>> sorted(word_set("lobe  lung"))
    ['lobe', 'lung']
    """
    return frozenset(text.split())
