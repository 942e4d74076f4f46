"""Sides and levels of the lungs that questions and clauses name, written out or short ("RLL", "PTX (R)")."""

from __future__ import annotations

import re
from collections.abc import Collection

from .words import build_word_set

_LEFT, _RIGHT = frozenset({"left"}), frozenset({"right"})
_SIDES = {
    **dict.fromkeys(("left", "gauche", "izquierdo", "izquierda", "esquerdo", "esquerda", "links", "linken"), _LEFT),
    **dict.fromkeys(("leftward", "leftwards"), _LEFT),
    **dict.fromkeys(("rightward", "rightwards"), _RIGHT),
    **dict.fromkeys(
        ("right", "droit", "droite", "derecho", "derecha", "direito", "direita", "rechts", "rechten"), _RIGHT
    ),
    **dict.fromkeys(("lt", "lll", "lul"), _LEFT),
    **dict.fromkeys(("rt", "rll", "rml", "rul"), _RIGHT),
    **dict.fromkeys(("both", "bilateral", "bilaterally"), _LEFT | _RIGHT),
}
_LEVELS = {
    **dict.fromkeys(("upper", "apical", "apex", "lul", "rul"), frozenset({"upper"})),
    **dict.fromkeys(("middle", "mid", "rml"), frozenset({"middle"})),
    **dict.fromkeys(("lower", "basal", "base", "basilar", "lll", "rll"), frozenset({"lower"})),
}
REGION_WORDS = frozenset(_SIDES) | frozenset(_LEVELS)
_REGION_NOUNS = build_word_set("the in on lung lungs lobe lobes zone field fields side sided hemithorax region base")
_WORD = re.compile(r"[^\W_]+")
_SHORT_SIDE = re.compile(
    r"\b([lr])\b(?=\W{0,2}(?:lung|base|apex|sided?|lower|upper|mid|middle|hemithorax|pleural|effusion|pneumothorax|ptx"
    r"|consolidation)\b)|(?<=\w )\s?\b([lr])\b(?=\W*$)"
)
_DENIED_SIDE = re.compile(r"\bnot (?:in |on |at )?(?:the )?(?:left|right)\b(?! (?:lung|side) (?:is|has|shows)\b)")
_WINDOW = 200  # characters around a finding that may say where it is


def find_sides(text: str) -> frozenset[str]:
    """Find the sides that a text names.

    Args:
        text: The text in lower case.

    Returns:
        "left", "right", both or none.

    >>> sorted(find_sides("rll consolidation")), sorted(find_sides("both lungs"))
    (['right'], ['left', 'right'])
    """
    return _find_region(_expand_sides(text), _SIDES)


def find_levels(text: str) -> frozenset[str]:
    """Find the levels that a text names.

    Args:
        text: The text in lower case.

    Returns:
        Some of "upper", "middle" and "lower".
    """
    return _find_region(text, _LEVELS)


def is_elsewhere(clause: str, sides: Collection[str], levels: Collection[str]) -> bool:
    """Whether a clause refers to another side or level than a question.

    Args:
        clause: The clause in lower case.
        sides: Sides of the question's region; empty if it names none.
        levels: Levels of the question's region; empty if it names none.

    Returns:
        True if the clause names a side, or a level, and none of the question's.
    """
    clause = _DENIED_SIDE.sub(" ", clause)
    regions = ((sides, find_sides(clause)), (levels, find_levels(clause)))
    return any(asked and named and named.isdisjoint(asked) for asked, named in regions)


def is_region(name: str) -> bool:
    """Whether a name, such as the key of a field, names a region of the lungs and nothing else.

    Args:
        name: The name.

    Returns:
        True for "left_lower_lobe" and "Right lung", False for "right effusion".

    >>> is_region("left_lower_lobe"), is_region("Right lung"), is_region("right effusion"), is_region("lung")
    (True, True, False, False)
    """
    name_words = {word.casefold() for word in _WORD.findall(name)}
    return bool(name_words & REGION_WORDS) and name_words <= REGION_WORDS | _REGION_NOUNS


def extract_place(clause: str, start: int, end: int) -> str:
    """Extract the part of a clause that says where a finding is: its own part between commas, if this has a side.

    Args:
        clause: The clause in lower case.
        start: Start of the finding's name.
        end: End of the finding's name.

    Returns:
        The part, or the clause.

    >>> extract_place("right lower lobe consolidation, left lung clear", 17, 30)
    'right lower lobe consolidation'
    """
    next_comma = clause.find(",", end, end + _WINDOW)
    part = clause[clause.rfind(",", max(start - _WINDOW, 0), start) + 1 : next_comma if next_comma >= 0 else None]
    return part if find_sides(part) else clause


def _expand_sides(text: str) -> str:
    """Write the sides out: "L lung", "PTX (R)"."""
    return _SHORT_SIDE.sub(lambda match: " left" if "l" in match[0] else " right", text)


def _find_region(text: str, names: dict[str, frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*(names[word] for word in names.keys() & set(_WORD.findall(text))))
