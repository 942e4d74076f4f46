"""Replies about another finding than the question: "Hook: yes", asked for the grasper; "Yes, a rib is broken"."""

from __future__ import annotations

import re

from .clauses import split_clauses
from .disease_names import SYNONYMS
from .diseases import find_names
from .question_target import Target, build_form, find_clause_standings
from .surgical_names import INSTRUMENT_SYNONYMS, TARGET_SYNONYMS, build_patterns

_FIELD = re.compile(
    r"(?:^|(?<=[\n,;.|]))[^\S\n]*[-*•]?[^\S\n]*(?P<key>[^\W\d_][\w /-]{2,40}?) ?[:=–-] ?(?:yes|no|true|false)\b",
    re.MULTILINE,
)
_SURGICAL = tuple(pattern for _, pattern in build_patterns({**TARGET_SYNONYMS, **INSTRUMENT_SYNONYMS}))
_REPLY = re.compile(
    r"\W*yes, (?!with\b|and\b|also\b)(?P<rest>(?:(?!\b(?:also|too)\b)[^.!?\n])*)(?:[.!?\n]|\Z)", re.IGNORECASE
)
_BONES = frozenset({"Rib fracture", "Clavicle fracture"})


def remove_other_fields(text: str, target: Target) -> str:
    """Remove fields that only say yes or no about another finding or instrument than the question.

    Args:
        text: The text in lower case.
        target: The target of the question.

    Returns:
        The remaining text.
    """
    if target.generic:
        return text
    return _FIELD.sub(lambda match: "" if _is_other(match["key"], target) else match[0], text)


def is_other_organ(reply: str, target: Target) -> bool:
    """Return whether "Yes, ..." asserts only fractures, asked for another disease, or the reverse.

    Args:
        reply: The reply.
        target: The target of the question.

    Returns:
        True if it does.
    """
    asserted = set[str]()
    sentence = _REPLY.match(reply)
    for clause in split_clauses(sentence["rest"]) if sentence else ():
        names = find_names(clause.text) if clause.act == "state" else []
        standings = find_clause_standings(clause, [(start, end) for _, start, end in names])
        asserted |= {label for (label, *_), standing in zip(names, standings, strict=True) if standing == "asserted"}
    return bool(asserted and target.labels) and (asserted <= _BONES) != (target.labels <= _BONES)


def _is_other(key: str, target: Target) -> bool:
    """Return whether a key names a finding or an instrument, and not the target."""
    labels = {label for label, *_ in find_names(key, SYNONYMS)}
    is_named = bool(labels) or any(pattern.search(key) for pattern in _SURGICAL)
    is_target = bool(labels & target.labels) or any(re.search(build_form(word), key) for word in target.content)
    return is_named and not is_target
