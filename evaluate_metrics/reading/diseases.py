"""Diseases that an open-ended answer names (HEAL-MedVQA, section 5), by words only: the default extractor.

The longest name wins ("calcific" inside "calcification" is not a second name). `clauses` finds the act of a clause,
`scope` the denials of a name. A hedged name ("possible edema") counts as named: the paper extracts the diseases that an
answer names, and does not mention hedges. "Edema cannot be excluded" neither names nor denies it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from .clauses import split_clauses
from .denial_words import NEUTRAL
from .disease_names import CLASSES, OTHERS, SYNONYMS
from .outcome import Outcome
from .reasoning import extract_answer, remove_unfinished
from .scope import fill_blanks, find_standings
from .surgical_names import build_alternatives
from .words import fold_text, unify_spelling


class Extraction(NamedTuple):
    """The diseases that a text names.

    Attributes:
        labels: The labels that the text asserts.
        outcome: "answered", also without labels if the text describes a normal image, or only denies; "declined";
            "unread".
    """

    labels: frozenset[str]
    outcome: Outcome


_EMPTY_LIST = re.compile(r"\[\s*\]")
_NORMAL = re.compile(
    r"^(?:no|none|nothing|nil|normal|nope)$"
    r"|\b(?:normal|unremarkable|healthy)\b"
    r"|\b(?:no|without|free of|absence of|not \w+)\s+(?:\w+\s+){0,4}"
    r"(?:abnormal(?:ity|ities)?|findings?|disease|diseases|patholog(?:y|ies)|lesions?|process|anomal(?:y|ies))\b"
    r"|\b(?:is|are|remains?|appears?)\s+(?:\w+ly\s+)?clear\b|\bclear\s+(?:lungs?|heart)\b|\bnothing\s+abnormal\b"
    r"|\b(?:abnormalit(?:y|ies)|findings?|diseases?|lesions?|patholog(?:y|ies)) ?: ?(?:none|nil|no)\b"
)
COUNTED = ("state", "weigh")  # acts of clauses with names that count


def extract_labels(text: str | None, vocabulary: Collection[str] = CLASSES, *, cut: bool = False) -> Extraction:
    """Extract the diseases of the vocabulary that a text asserts.

    Args:
        text: A model's answer: sentences, a Markdown or a JSON list.
        vocabulary: Labels; those in `disease_names.SYNONYMS` are found by their synonyms, others by their own words.
        cut: Whether the text is known to be truncated, for example by a token limit; its unfinished end is then not
            read.

    Returns:
        The labels and the outcome.

    >>> sorted(extract_labels("Findings include nodules and a small effusion, but no oedema.").labels)
    ['Nodule/Mass', 'Pleural effusion']
    >>> extract_labels("The heart is normal.").outcome, extract_labels("A blurred image.").outcome
    ('answered', 'unread')
    """
    labels = tuple(vocabulary)
    asserted: set[str] = set()
    is_normal = bool(_EMPTY_LIST.fullmatch(extract_answer(text or "").strip()))
    is_declined = False
    for clause in split_clauses(remove_unfinished(unify_spelling(text or ""), cut=cut)):
        is_declined |= clause.act == "decline"
        if clause.act not in COUNTED:
            continue
        mentions = _find_mentions(clause.text, labels)
        clause_standings = find_standings(
            clause.text, [(start, end) for _, start, end in mentions], denied=clause.denied
        )
        asserted |= {
            label for (label, *_), standing in zip(mentions, clause_standings, strict=True) if standing == "asserted"
        }
        is_normal |= "denied" in clause_standings or (
            not mentions and clause.act == "state" and _is_normal(clause.text)
        )
    if asserted or is_normal:
        return Extraction(frozenset(asserted), "answered")
    return Extraction(frozenset(), "declined" if is_declined else "unread")


def find_names(clause: str, vocabulary: Collection[str] = CLASSES) -> list[tuple[str, int, int]]:
    """Find every disease that lower-case words name.

    Args:
        clause: The words.
        vocabulary: The labels.

    Returns:
        (label, start, end) of every name.
    """
    return _find_mentions(clause, tuple(vocabulary))


def _is_normal(clause: str) -> bool:
    return bool(_NORMAL.search(" ".join(fold_text(NEUTRAL.sub(fill_blanks, clause)).split())))


def _find_mentions(clause: str, labels: tuple[str, ...]) -> list[tuple[str, int, int]]:
    """List (label, start, end) of the diseases that a clause names, without names within longer names.

    A name of several labels is listed once for each. The longer name may be that of something else, which is no disease
    of `labels`.
    """
    names, other_names = _build_patterns(labels)
    if not names.search(clause):
        return []
    spans = sorted(
        (match.start(), -match.end(), label)
        for label, pattern in (*_build_label_patterns(labels), ("", other_names))
        for match in pattern.finditer(clause)
    )
    mentions, longest = [], (-1, -1)
    for start, negative_end, label in spans:  # a name that contains others precedes them
        if -negative_end > longest[1] or (start, -negative_end) == longest:
            longest = (start, -negative_end)
            mentions.append((label, *longest))
    return [mention for mention in mentions if mention[0]]


@lru_cache(maxsize=8)
def _build_label_patterns(labels: tuple[str, ...]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    def build_own_pattern(label: str) -> str:
        return " ".join(map(re.escape, re.findall(r"\w+", label.casefold())))

    return tuple((label, _build_pattern((build_own_pattern(label), *SYNONYMS.get(label, ())))) for label in labels)


@lru_cache(maxsize=8)
def _build_patterns(labels: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Build one pattern of all names, to skip the many clauses without any, and one of similar other names."""
    names = "|".join(pattern.pattern for _, pattern in _build_label_patterns(labels))
    return re.compile(names), _build_pattern(OTHERS)


def _build_pattern(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(build_alternatives(sorted(patterns, key=len, reverse=True)))
