"""Replies that the rest of their sentence, or of the text, contradicts: "Yes, the lungs are clear", asked for edema."""

from __future__ import annotations

import re
from itertools import islice

from .clauses import split_clauses
from .lung_regions import is_elsewhere
from .other_findings import is_other_organ
from .question_target import (
    ALL_NORMAL,
    AT_PLACE,
    LUNG_DISEASES,
    NORMAL_STATE,
    NORMAL_WORDS,
    Saying,
    Target,
    find_clause_standings,
    find_name_standings,
)
from .sayings import find_sayings

_REPLIED = re.compile(r"\W*(?:\w+[.!])?[^.!?\n]*")  # a reply with the rest of its sentence, or with the next one
_ALSO = re.compile(r"\b(?:also|too|as well|both|bilateral\w*|other)\b")
_LUNG = re.compile(r"\b(?:lungs?|lobes?)\b")


def is_contradicted(text: str, reply: set[Saying], target: Target) -> bool:
    """Whether sentences state only the contrary of a reply: "Yes. ... No grasper can be seen".

    Args:
        text: The text.
        reply: The reply.
        target: The target of the question.

    Returns:
        True if they contradict the reply.
    """
    if target.generic or NORMAL_WORDS & set(target.content):
        text = _extract_reply(text)  # later sentences may describe the rest: "Yes, a nodule. The rest is normal."
    sayings = find_sayings(text, target)
    if sayings or reply != {"yes"}:
        return len(sayings) == 1 and sayings != reply
    return (
        is_other_organ(text, target)
        or _is_misplaced(text, target)
        or (not target.denies and _is_called_normal(text, target))
    )


def _is_misplaced(text: str, target: Target) -> bool:
    """Whether sentences put the finding elsewhere only: "Yes, it is on the left", asked for the right."""
    return any(
        clause.act == "state"
        and not _ALSO.search(clause.text)
        and is_elsewhere(clause.text, target.sides, target.levels)
        and (AT_PLACE.match(clause.text) or "asserted" in find_name_standings(clause, target))
        for clause in split_clauses(text)
    )


def _is_called_normal(text: str, target: Target) -> bool:
    """Whether the reply calls the image, or the lungs of a disease of the lungs, normal: "Yes, the lungs are clear"."""
    for clause in split_clauses(_extract_reply(text)):
        is_lung = bool(_LUNG.search(clause.text)) and bool(target.labels) and target.labels <= LUNG_DISEASES
        spans = [match.span() for match in islice((NORMAL_STATE if is_lung else ALL_NORMAL).finditer(clause.text), 1)]
        is_here = clause.act == "state" and not is_elsewhere(clause.text, target.sides, target.levels)
        if is_here and "asserted" in find_clause_standings(clause, spans):
            return True
    return False


def _extract_reply(text: str) -> str:
    """Extract a reply with the rest of its sentence, or with the next sentence."""
    match = _REPLIED.match(text)
    return match[0] if match else ""
