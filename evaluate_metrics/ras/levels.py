"""How a true triplet is matched by the ranked predictions of its frame (SurgXBench, section 4.3.2)."""

from __future__ import annotations

from collections.abc import Sequence

LEVELS = ("ivt", "iv", "it", "i", "missed")
NULL_VERB = "null_verb"

Triplet = tuple[str, str, str]  # instrument, verb, target


def parsed(text: str, name: str = "triplet") -> Triplet:
    """(instrument, verb, target) of "grasper,retract,gallbladder". Raises ValueError where it has not three parts.

    >>> parsed("grasper, retract, gallbladder")
    ('grasper', 'retract', 'gallbladder')
    """
    parts = [part.strip() for part in text.split(",")] if isinstance(text, str) else []
    if len(parts) != 3 or not all(parts):
        raise ValueError(f"{name}: triplet {text!r}; expected instrument,verb,target")
    return parts[0], parts[1], parts[2]


def is_null(triplet: Triplet) -> bool:
    """Whether the instrument does nothing (ids 94-99 of CholecT45's hundred triplets)."""
    return triplet[1] == NULL_VERB


def match(gold: Triplet, predictions: Sequence[Triplet]) -> tuple[str, int | None]:
    """The level at which a true triplet is matched, and which prediction matches it.

    The first level that applies: "ivt" (all three parts match), "iv" (instrument and verb), "it" (instrument and
    target), "i" (the instrument alone, for which the paper has no level), "missed" (no instrument). Of several
    predictions that match at this level, the best ranked one is taken.

    Args:
        gold: (instrument, verb, target).
        predictions: the same, best first.

    Returns:
        level: of LEVELS.
        rank: of the prediction, from 0; None for "missed".

    >>> match(("hook", "dissect", "gallbladder"), [("hook", "cut", "liver"), ("hook", "dissect", "liver")])
    ('iv', 1)
    """
    instrument, verb, target = gold
    agreed = [(predicted[0] == instrument, predicted[1] == verb, predicted[2] == target) for predicted in predictions]
    needed = {"ivt": (0, 1, 2), "iv": (0, 1), "it": (0, 2), "i": (0,)}
    for level, parts in needed.items():
        for rank, same in enumerate(agreed):
            if all(same[part] for part in parts):
                return level, rank
    return "missed", None
