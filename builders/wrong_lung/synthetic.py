"""Sentences made from labels (That's the Wrong Lung!, appendix A.3), also with other conditions (A.5)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..hashing import pick
from .laterality import OTHER, side

STATE_LABELS = ("normal", "abnormal")  # labels that describe the state of a location


class Condition(NamedTuple):
    """A condition in a sentence.

    Attributes:
        label: The name of the condition.
        context: "yes" if the sentence affirms it, "no" if it denies it.
    """

    label: str
    context: str


Locations = tuple[str, ...]
Conditions = Mapping[Condition, Locations]  # the conditions of a sentence, each with its anatomies


def said(mentions: Iterable[Any]) -> dict[Condition, Locations]:
    """Collect the conditions of a sentence and their anatomies, in order of mention.

    A condition that the sentence affirms and denies, at different anatomies, counts as two.

    Args:
        mentions: The mentions, with label, context and box.

    Returns:
        The anatomies of each condition.
    """
    names_by_condition: defaultdict[Condition, dict[str, None]] = defaultdict(dict)
    for mention in mentions:
        names_by_condition[Condition(mention.label, mention.context)][mention.box] = None
    return {condition: tuple(names) for condition, names in names_by_condition.items()}


def sentence(conditions: Conditions) -> str:
    """Make the synthetic sentence: one clause per condition, in order, with equal labels next to each other (A.3.1).

    Args:
        conditions: The conditions with their anatomies.

    Returns:
        The sentence.

    >>> sentence({Condition("atelectasis", "yes"): ("left lung",), Condition("edema", "no"): ("left lung",)})
    'There is atelectasis in the left lung. There is no edema.'
    """
    order = list(dict.fromkeys(condition.label for condition in conditions))
    grouped = sorted(conditions.items(), key=lambda item: order.index(item[0].label))
    return " ".join(_format_clause(condition, names) for condition, names in grouped)


def _format_clause(condition: Condition, names: Sequence[str]) -> str:
    if condition.context == "no":
        return f"There is no {condition.label}."
    places, plural = _format_places(names)
    if condition.label in STATE_LABELS:
        return f"The {places} {'are' if plural else 'is'} {condition.label}."
    return f"There is {condition.label} in the {places}."


def _format_places(names: Sequence[str]) -> tuple[str, bool]:
    """Format a list of anatomies, and tell whether it needs a plural verb.

    Left and right of one anatomy are one item, in the plural. The last mentioned item comes first: the paper does not
    state an order, but its printed examples have this one (Table 5). The reference code has the order of a set.
    """
    items: dict[str, bool] = {}
    for name in names:
        own_side = side(name)
        paired = own_side is not None and name.replace(own_side, OTHER[own_side]) in names
        items[_make_plural(name, own_side) if own_side and paired else name] = paired or _is_plural(name)
    phrases = list(items)[::-1]
    text = f"{', '.join(phrases[:-1])}, and {phrases[-1]}" if len(phrases) > 2 else " and ".join(phrases)
    return text, len(phrases) > 1 or items[phrases[0]]


def _make_plural(name: str, own_side: str) -> str:
    singular = " ".join(name.replace(own_side, "", 1).split())
    if singular.endswith("us"):
        return f"{singular.removesuffix('us')}i"  # bronchus
    return singular if _is_plural(singular) else f"{singular}s"


def _is_plural(name: str) -> bool:
    return name.endswith("s") and not name.endswith(("us", "ss"))  # hilar structures


def group_by_locations(sentences: Iterable[Conditions]) -> dict[frozenset[str], list[Condition]]:
    """Group the conditions of sentences by their exact set of anatomies.

    Args:
        sentences: The conditions of each sentence.

    Returns:
        The conditions at each set of anatomies, sorted.
    """
    conditions_by_location: defaultdict[frozenset[str], set[Condition]] = defaultdict(set)
    for conditions in sentences:
        for condition, names in conditions.items():
            conditions_by_location[frozenset(names)].add(condition)
    return {names: sorted(conditions) for names, conditions in conditions_by_location.items()}


def replace_conditions(
    conditions: Conditions, conditions_by_location: Mapping[frozenset[str], Sequence[Condition]], name: str, seed: int
) -> dict[Condition, Locations]:
    """Replace every condition of a sentence with another one that occurs at exactly its anatomies.

    A condition keeps its context, "normal" and "abnormal" count as conditions, and all candidates are equally likely,
    like in the reference code. Labels of the sentence are not candidates. Without a candidate the condition stays
    (footnote 15). Two conditions that become equal are merged.

    Args:
        conditions: The conditions of the sentence.
        conditions_by_location: The result of `group_by_locations` for all sentences.
        name: The name of the row, on which the choice depends.
        seed: The seed of the build.

    Returns:
        The new conditions with their anatomies.
    """
    own_labels = {condition.label for condition in conditions}
    names_by_condition: defaultdict[Condition, dict[str, None]] = defaultdict(dict)
    for condition, names in conditions.items():
        candidates = [
            candidate
            for candidate in conditions_by_location.get(frozenset(names), ())
            if candidate.label not in own_labels
        ]
        new_condition = condition
        if candidates:
            new_condition = candidates[pick(f"{name}/{condition.label}/{condition.context}", len(candidates), seed)]
        names_by_condition[new_condition] |= dict.fromkeys(names)
    return {condition: tuple(names) for condition, names in names_by_condition.items()}
