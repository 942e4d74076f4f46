"""Sentences made from labels (That's the Wrong Lung!, appendix A.3), and the same with other conditions (A.5)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..hashing import pick
from .laterality import OTHER, side

DESCRIBING = ("normal", "abnormal")  # said of a location, not found in one


class Condition(NamedTuple):
    """A condition, and whether the sentence affirms ("yes") or denies it ("no")."""

    label: str
    context: str


Locations = tuple[str, ...]
Said = Mapping[Condition, Locations]  # what a sentence says: each condition with its anatomies


def said(mentions: Iterable[Any]) -> dict[Condition, Locations]:
    """What a sentence's mentions (label, context, box) say: conditions and their anatomies, as first mentioned.

    A condition that the sentence both affirms and denies, at different anatomies, is two.
    """
    found: defaultdict[Condition, dict[str, None]] = defaultdict(dict)
    for mention in mentions:
        found[Condition(mention.label, mention.context)][mention.box] = None
    return {condition: tuple(names) for condition, names in found.items()}


def sentence(conditions: Said) -> str:
    """The synthetic sentence: one clause a condition, in order; those of one label follow each other (A.3.1).

    >>> sentence({Condition("atelectasis", "yes"): ("left lung",), Condition("edema", "no"): ("left lung",)})
    'There is atelectasis in the left lung. There is no edema.'
    """
    order = list(dict.fromkeys(condition.label for condition in conditions))
    together = sorted(conditions.items(), key=lambda item: order.index(item[0].label))
    return " ".join(_clause(condition, names) for condition, names in together)


def _clause(condition: Condition, names: Sequence[str]) -> str:
    if condition.context == "no":
        return f"There is no {condition.label}."
    places, plural = _places(names)
    if condition.label in DESCRIBING:
        return f"The {places} {'are' if plural else 'is'} {condition.label}."
    return f"There is {condition.label} in the {places}."


def _places(names: Sequence[str]) -> tuple[str, bool]:
    """A list of anatomies in words, and whether it takes a plural verb.

    Left and right of one anatomy are one item, in the plural. The last mentioned is the first in the list: the paper
    states no order, and so its printed examples have it (Table 5); the reference code's is that of a set.
    """
    items: dict[str, bool] = {}
    for name in names:
        own = side(name)
        paired = own is not None and name.replace(own, OTHER[own]) in names
        items[_both(name, own) if own and paired else name] = paired or _is_plural(name)
    words = list(items)[::-1]
    text = f"{', '.join(words[:-1])}, and {words[-1]}" if len(words) > 2 else " and ".join(words)
    return text, len(words) > 1 or items[words[0]]


def _both(name: str, own: str) -> str:
    single = " ".join(name.replace(own, "", 1).split())
    if single.endswith("us"):
        return f"{single.removesuffix('us')}i"  # bronchus
    return single if _is_plural(single) else f"{single}s"


def _is_plural(name: str) -> bool:
    return name.endswith("s") and not name.endswith(("us", "ss"))  # hilar structures


def at_locations(sentences: Iterable[Said]) -> dict[frozenset[str], list[Condition]]:
    """Which conditions the sentences have at exactly which anatomies, in the order of their names."""
    found: defaultdict[frozenset[str], set[Condition]] = defaultdict(set)
    for conditions in sentences:
        for condition, names in conditions.items():
            found[frozenset(names)].add(condition)
    return {names: sorted(conditions) for names, conditions in found.items()}


def with_other_conditions(
    conditions: Said, known: Mapping[frozenset[str], Sequence[Condition]], name: str, seed: int
) -> dict[Condition, Locations]:
    """What a sentence says with every condition replaced by another one that `known` has at exactly its anatomies.

    As in the reference code a condition comes with its context, "normal" and "abnormal" are conditions as any other,
    and each of the others is as likely. None of the sentence's own labels is taken. Where nothing is left the condition
    stays (footnote 15); two that become the same are said once.

    Args:
        known: of all sentences (`at_locations`). name: of the row, by which the choice is made.
    """
    own = {condition.label for condition in conditions}
    found: defaultdict[Condition, dict[str, None]] = defaultdict(dict)
    for condition, names in conditions.items():
        others = [other for other in known.get(frozenset(names), ()) if other.label not in own]
        chosen = condition
        if others:
            chosen = others[pick(f"{name}/{condition.label}/{condition.context}", len(others), seed)]
        found[chosen] |= dict.fromkeys(names)
    return {condition: tuple(names) for condition, names in found.items()}
