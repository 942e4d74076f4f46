"""Text in normal form, so that texts can be compared."""

from __future__ import annotations

import re
import unicodedata

_WORD = re.compile(r"[^\W_]+")
# The signs that American spellings of medical words leave out: oedema, oesophagus, haemothorax, tumour.
_NO_APOSTROPHE = re.compile(
    r"(?<=\b(?:do|is|ca))nt\b|(?<=\b(?:did|are|was|has|had))nt\b|(?<=\b(?:does|were|have))nt\b|(?<=\b(?:could|would))nt\b",
    re.IGNORECASE,
)
_BRITISH = re.compile(r"\bo(?=edema|esoph)|(?<=\bh)a(?=em[ao])|(?<=\btumo)u(?=r)", re.IGNORECASE)


def fold_text(text: str) -> str:
    """Convert a text to lower case, with plain apostrophes and "not" as a separate word.

    Args:
        text: The text.

    Returns:
        The folded text.

    >>> fold_text("It ISN’T, it cannot be.")
    'it is not, it can not be.'
    """
    text = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return text.replace("n't", " not").replace("cannot", "can not")


def unify_spelling(text: str) -> str:
    """Replace British spellings of medical words by the American ones, and add apostrophes that "doesnt" lacks.

    Args:
        text: The text.

    Returns:
        The text.

    >>> unify_spelling("A haemothorax, no oedema. It isnt a tumour.")
    "A hemothorax, no edema. It isn't a tumor."
    """
    return _NO_APOSTROPHE.sub("n't", _BRITISH.sub("", text))


def words(text: str) -> str:
    """Extract the lower-case words of a text, with one space between them, to compare texts.

    Args:
        text: The text.

    Returns:
        The words.

    >>> words("Edema isn't  PRESENT.")
    'edema is not present'
    """
    return " ".join(_WORD.findall(fold_text(text)))


def build_word_set(text: str) -> frozenset[str]:
    """Build a set from a table of words in one text.

    Args:
        text: The words with blanks between them.

    Returns:
        The words.

    >>> sorted(build_word_set("lobe  lung"))
    ['lobe', 'lung']
    """
    return frozenset(text.split())
