"""What the sentences of an answer say about the target of a yes/no question, or about the value that it asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .clauses import Clause, split_clauses
from .lung_regions import find_levels, find_sides, is_elsewhere
from .question_target import (
    AT_PLACE,
    IT_IS,
    Saying,
    Target,
    build_form,
    find_clause_standings,
    find_name_standings,
    find_organs,
    find_target_sayings,
)
from .question_values import Value, find_numbers
from .scope import has_denial

_MOST = 40  # most clauses that are read
_SHORT = 5  # words of an answer that is nothing but a value
_SUBJECT = re.compile(r"\W*(?:(?:so|overall|therefore|no|yes)\W+)?(?:it|this|that|they|these|he|she)\b")


def find_sayings(text: str, target: Target) -> set[Saying]:
    """Find the answers yes and no in the clauses of a text; both if they differ and no clause concludes.

    Args:
        text: The text.
        target: The target of the question.

    Returns:
        The answers.
    """
    value = target.value
    if value is None:
        return find_target_sayings(text, target)
    target_sayings = find_target_sayings(text, target)
    if value.kind == "group" and target_sayings:
        return target_sayings
    clauses = [clause for clause in split_clauses(text)[:_MOST] if clause.act == "state"]
    readers = {"place": _read_place, "number": _read_number, "group": _read_group}
    sayings = {saying for clause in clauses for saying in readers[value.kind](clause, target, value)}
    # A finding that is absent is at no place and has no number, and one that is only present may have any.
    return sayings or target_sayings - {"yes"}


def _read_place(clause: Clause, target: Target, value: Value) -> Iterator[Saying]:
    """Read the place of the target, or of "it", in a clause."""
    is_subject = bool(IT_IS.match(clause.text) or AT_PLACE.match(clause.text))
    sides, levels = find_sides(clause.text), find_levels(clause.text)
    if not (sides or levels) or not (is_subject or "asserted" in find_name_standings(clause, target)):
        return
    if is_elsewhere(clause.text, target.sides, target.levels):
        if not has_denial(clause.text):
            yield "no"
    elif has_denial(clause.text):
        yield "no"
    elif (sides or not target.sides) and (levels or not target.levels):
        yield "yes"


def _read_number(clause: Clause, target: Target, value: Value) -> Iterator[Saying]:
    """Read the number of the counted noun in a clause."""
    for low, high in find_numbers(clause.text, build_form(value.noun)):
        if high and has_denial(clause.text):
            continue
        if value.low <= low and high <= value.high:
            yield "yes"
        elif high < value.low or low > value.high:
            yield "no"


def _read_group(clause: Clause, target: Target, value: Value) -> Iterator[Saying]:
    """Read the value of the question's subject in a clause."""
    assert value.asked is not None
    subject_words = [word for word in target.content if not value.asked.search(word)]
    is_subject = any(re.search(build_form(word), clause.text) for word in subject_words)
    is_other_organ = target.organs.isdisjoint(find_organs(clause.text)) and bool(find_organs(clause.text))
    is_short = len(clause.text.split()) <= _SHORT and clause.start == 0 and not is_other_organ
    if not (is_subject or is_short or _SUBJECT.match(clause.text)):
        return
    for pattern in (value.asked, *value.others):
        spans = [match.span() for match in pattern.finditer(clause.text)]
        for standing in find_clause_standings(clause, spans[:_MOST]):
            if standing == "asserted":
                yield "yes" if pattern is value.asked else "no"
            elif standing == "denied" and pattern is value.asked:
                yield "no"
