"""Levels at which the ranked predictions of a frame match a true triplet (SurgXBench, section 4.3.2)."""

from __future__ import annotations

from collections.abc import Sequence

from ..arguments.kinds import TEXT, one, read_later, sequence
from ..arguments.schema import check_arguments

LEVELS = ("ivt", "iv", "it", "i", "missed")
NULL_VERB = "null_verb"

Triplet = tuple[str, str, str]  # instrument, verb, target
TRIPLET_TEXT = read_later("triplet text")
_TRIPLET = one(
    "triplet",
    "three texts: instrument, verb and target",
    lambda triplet: isinstance(triplet, tuple) and len(triplet) == 3 and all(isinstance(part, str) for part in triplet),
)


@check_arguments(text=TRIPLET_TEXT, name=TEXT)
def parsed(text: str, name: str = "triplet") -> Triplet:
    """Parse "grasper,retract,gallbladder".

    Args:
        text: The three parts with commas between them.
        name: Name of the text, for errors.

    Returns:
        (instrument, verb, target).

    Raises:
        ValueError: The text does not have three parts.

    >>> parsed("grasper, retract, gallbladder")
    ('grasper', 'retract', 'gallbladder')
    """
    components = [component.strip() for component in text.split(",")] if isinstance(text, str) else []
    if len(components) != 3 or not all(components):
        raise ValueError(f"{name}: triplet {text!r}; expected instrument,verb,target")
    return components[0], components[1], components[2]


@check_arguments(triplet=_TRIPLET)
def is_null(triplet: Triplet) -> bool:
    """Whether the instrument does nothing (ids 94-99 of CholecT45's hundred triplets).

    Args:
        triplet: (instrument, verb, target).

    Returns:
        True for the verb "null_verb".
    """
    return triplet[1] == NULL_VERB


@check_arguments(gold=_TRIPLET, predictions=sequence(_TRIPLET))
def match(gold: Triplet, predictions: Sequence[Triplet]) -> tuple[str, int | None]:
    """Find the level at which a true triplet is matched, and the prediction that matches it.

    The first level that applies: "ivt" (all three components match), "iv" (instrument and verb), "it" (instrument and
    target), "i" (the instrument only, for which the paper has no level), "missed" (no instrument). If several
    predictions match at this level, the best ranked one counts.

    Args:
        gold: (instrument, verb, target).
        predictions: Triplets, best first.

    Returns:
        level: One of LEVELS.
        rank: Rank of the prediction, from 0; None for "missed".

    >>> match(("hook", "dissect", "gallbladder"), [("hook", "cut", "liver"), ("hook", "dissect", "liver")])
    ('iv', 1)
    """
    instrument, verb, target = gold
    agreements = [
        (predicted[0] == instrument, predicted[1] == verb, predicted[2] == target) for predicted in predictions
    ]
    required = {"ivt": (0, 1, 2), "iv": (0, 1), "it": (0, 2), "i": (0,)}
    for level, components in required.items():
        for rank, is_same in enumerate(agreements):
            if all(is_same[component] for component in components):
                return level, rank
    return "missed", None
