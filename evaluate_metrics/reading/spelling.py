"""Misspelt words of options: "cardiomegally", "pnuemothorax".

A letter too many, a missing letter, or two letters in the wrong order are corrected. Another letter is not, because it
may make another word ("abduction", "adduction"), and neither is a word whose ending another option shares.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from functools import lru_cache

_SHORTEST = 7  # letters
_SHARED = 5  # last letters that two similar words share
_WORD = re.compile(rf"[A-Za-z]{{{_SHORTEST - 1},30}}")


def correct_spelling(text: str, option_words: Collection[str]) -> str:
    """Correct the misspelt words of options in a text.

    Args:
        text: The text.
        option_words: The words of each option (`options.Options.words`).

    Returns:
        The text.

    >>> correct_spelling("Cardiomegally, no pnuemothorax.", ["cardiomegaly", "pneumothorax"])
    'cardiomegaly, no pneumothorax.'
    >>> correct_spelling("Hyptension.", ["hypertension", "hypotension"])
    'Hyptension.'
    """
    spellings, names = _build_spellings(tuple(option_words))

    def correct(match: re.Match[str]) -> str:
        word = match[0].lower()
        if word in names:
            return match[0]
        corrections = {*spellings.get(word, ())}
        if word[-1] not in "sd":  # "fractured" is another word
            corrections |= names & set(_remove_each_letter(word))
        return corrections.pop() if len(corrections) == 1 else match[0]

    return _WORD.sub(correct, text) if names else text


@lru_cache(maxsize=256)
def _build_spellings(option_words: tuple[str, ...]) -> tuple[dict[str, set[str]], frozenset[str]]:
    """Build the misspellings of the words of options, and the words."""
    names = frozenset(word for text in option_words for word in text.split() if len(word) >= _SHORTEST)
    endings = Counter(name[-_SHARED:] for name in names)  # "hyptension" may be hypertension or hypotension
    names = frozenset(name for name in names if endings[name[-_SHARED:]] == 1)
    spellings: dict[str, set[str]] = {}
    for name in names:
        swapped = (name[:i] + name[i + 1] + name[i] + name[i + 2 :] for i in range(1, len(name) - 1))
        for spelling in {*_remove_each_letter(name), *swapped} - {name[:-1]}:
            spellings.setdefault(spelling, set()).add(name)
    return spellings, names


def _remove_each_letter(word: str) -> list[str]:
    """Remove each letter but the first."""
    return [word[:i] + word[i + 1 :] for i in range(1, len(word))]
