"""Options that prose names in another order of words: "consolidation in the left lower lobe"."""

from __future__ import annotations

import re
from itertools import islice

from .clauses import split_clauses
from .naming import NOTHING, Named
from .options import MOST, Options
from .scope import has_denial
from .words import build_word_set, words

_SMALL_WORDS = build_word_set(
    "a an the of on in at to is are and or with there this that it its seen present sided side small large mild"
)
_PIECE = re.compile(r"[^,]+?(?=,|\band\b|\bor\b|\Z)")
_ENDING = re.compile(r"(?<=\w{5})(?:e?ment|ion|ed|al|a)$")
_FEWEST = 2  # content words; one word alone is found in its own right


def find_described(text: str, choices: Options) -> Named:
    """Find the one option all of whose content words are in one part of a clause that asserts something.

    Args:
        text: The readable text.
        choices: The question's options.

    Returns:
        The option; nothing if there is none, or several.

    >>> options = Options(["Left lower lobe consolidation", "Right lower lobe consolidation"])
    >>> find_described("There is consolidation in the left lower lobe.", options).places
    {0}
    """
    content = [frozenset() if has_denial(own_words) else _extract_content(own_words) for own_words in choices.words]
    places: set[int] = set()
    described_words = other_words = frozenset[str]()  # of the last piece that describes an option, and that does not
    for clause in islice(split_clauses(text), MOST):
        if clause.act != "state" or clause.denied or has_denial(clause.text):
            continue
        for piece in islice(_PIECE.finditer(clause.text), MOST):
            piece_words = _extract_content(words(piece[0]))
            described = {
                place for place, wanted in enumerate(content) if len(wanted) >= _FEWEST and wanted <= piece_words
            }
            if described:
                described_words = piece_words
            else:
                other_words = piece_words
            if described_words and other_words:  # "effusions on the left and right" describes both options
                joined_words = described_words | other_words
                described |= {place for place, wanted in enumerate(content) if other_words < wanted <= joined_words}
            places |= described
    return Named(places, "prose") if len(places) == 1 else NOTHING


def _extract_content(own_words: str) -> frozenset[str]:
    """Extract the stems of the content words: "trache" for "tracheal", "enlarg" for "enlarged" and "enlargement"."""
    return frozenset(_ENDING.sub("", word.removesuffix("s")) for word in own_words.split() if word not in _SMALL_WORDS)
