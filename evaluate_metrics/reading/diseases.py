"""Which diseases an open-ended answer names (HEAL-MedVQA, section 5), by words alone: the default extractor.

The longest name wins ("calcific" inside "calcification" is no second one). What denies a name, and what states nothing,
is said in `clauses`. A hedged name ("possible edema") counts as named: the paper has the diseases that an answer names
extracted, and says nothing of hedges. "Edema cannot be excluded" neither names nor denies it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import repeat
from typing import Literal, NamedTuple

from .clauses import Clause, Standing, clauses, standings
from .disease_names import OTHERS, SYNONYMS
from .reasoning import answer_part
from .surgical_names import any_of
from .words import folded

Outcome = Literal["found", "normal", "unreadable"]


class Extraction(NamedTuple):
    """labels: those that the text asserts.

    outcome: "found"; "normal" where nothing is asserted and the text says so, or only denies; else "unreadable".
    """

    labels: frozenset[str]
    outcome: Outcome


_EMPTY_LIST = re.compile(r"\[\s*\]")
_NOT = re.compile(r"\bnot\b|n't\b")
_NORMAL = re.compile(
    r"^(?:no|none|nothing|nil|normal|nope)$"
    r"|\b(?:normal|unremarkable|healthy)\b"
    r"|\b(?:no|without|free of|absence of|not \w+)\s+(?:\w+\s+){0,4}"
    r"(?:abnormal(?:ity|ities)?|findings?|disease|diseases|patholog(?:y|ies)|lesions?|process|anomal(?:y|ies))\b"
    r"|\b(?:is|are|remains?|appears?)\s+(?:\w+ly\s+)?clear\b|\bclear\s+(?:lungs?|heart)\b|\bnothing\s+abnormal\b"
    r"|\b(?:abnormalit(?:y|ies)|findings?|diseases?|lesions?|patholog(?:y|ies)) ?: ?(?:none|nil|no)\b"
)
_CANNOT_TELL = re.compile(
    r"\b(?:can not|unable to|difficult to|impossible to|not possible to)\s+(?:\w+\s+)?"
    r"(?:tell|determine|assess|answer|say|evaluate|provide|confirm|diagnose|interpret)\b"
)


def extract_labels(text: str | None, vocabulary: Collection[str] = tuple(SYNONYMS)) -> Extraction:
    """The diseases of the vocabulary that a text asserts.

    Args:
        text: a model's answer: sentences, a Markdown or a JSON list.
        vocabulary: labels; those of `disease_names.SYNONYMS` are found by their synonyms, others by their own words.

    >>> sorted(extract_labels("Findings include nodules and a small effusion, but no oedema.").labels)
    ['Nodule/Mass', 'Pleural effusion']
    >>> extract_labels("The heart is normal.").outcome, extract_labels("A blurred image.").outcome
    ('normal', 'unreadable')
    """
    labels = tuple(vocabulary)
    asserted: set[str] = set()
    normal = bool(_EMPTY_LIST.fullmatch(answer_part(text or "").strip()))
    for clause in clauses(text or ""):
        mentions = _mentions(clause.text, labels)
        spans = [(clause.start + start, clause.start + end) for _, start, end in mentions]
        said = list(map(_standing, mentions, standings(clause, spans), repeat(clause.text)))
        asserted |= {label for (label, *_), standing in zip(mentions, said, strict=True) if standing == "asserted"}
        normal |= "denied" in said or (not mentions and _says_normal(clause.text))
    return Extraction(frozenset(asserted), "found" if asserted else "normal" if normal else "unreadable")


def clauses_of(text: str) -> Iterator[str]:
    """Lower-case clauses with plain words, commas and colons; denials that deny nothing are taken out."""
    for clause in clauses(text):
        words = " ".join(folded(clause.text).split()).replace(" ,", ",").replace(" :", ":")
        if words:
            yield f"no {words}" if clause.denied else words


def names_in(clause: str, vocabulary: Collection[str] = tuple(SYNONYMS)) -> list[tuple[str, int, int]]:
    """(label, start, end) of every disease that lower-case words name."""
    return _mentions(clause, tuple(vocabulary))


def stands_denied(clause: str, start: int, end: int) -> bool:
    """Whether a clause of `clauses_of` denies what stands at [start, end)."""
    standing = _of_names(clause).get((start, end)) or standings(Clause(clause, 0, denied=False), [(start, end)])[0]
    return _standing(("", start, end), standing, clause) == "denied"


@lru_cache(maxsize=16)
def _of_names(clause: str) -> dict[tuple[int, int], Standing]:
    spans = [(start, end) for _, start, end in names_in(clause)]
    return dict(zip(spans, standings(Clause(clause, 0, denied=False), spans), strict=True))


def _standing(mention: tuple[str, int, int], standing: Standing, words: str) -> Standing:
    """A name may hold its own denial: "the heart is not enlarged"."""
    _, start, end = mention
    return "denied" if _NOT.search(words, start, end) else standing


def _says_normal(words: str) -> bool:
    said = " ".join(folded(words).split())
    return bool(_NORMAL.search(said)) and not _CANNOT_TELL.search(said)


def _mentions(clause: str, labels: tuple[str, ...]) -> list[tuple[str, int, int]]:
    """(label, start, end) of every name in a clause that lies in no longer one."""
    names, others = _patterns(labels)
    if not names.search(clause):
        return []
    spans = sorted(
        (match.start(), -match.end(), label)
        for label, pattern in (*_label_patterns(labels), ("", others))
        for match in pattern.finditer(clause)
    )
    kept, longest = [], (-1, -1)
    for start, negative_end, label in spans:  # what begins first and ends last comes before all that lies in it
        if -negative_end > longest[1] or (start, -negative_end) == longest:
            longest = (start, -negative_end)
            kept.append((label, *longest))
    return [mention for mention in kept if mention[0]]


@lru_cache(maxsize=8)
def _label_patterns(labels: tuple[str, ...]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    def own(label: str) -> str:
        return " ".join(map(re.escape, re.findall(r"\w+", label.casefold())))

    return tuple((label, _compiled((own(label), *SYNONYMS.get(label, ())))) for label in labels)


@lru_cache(maxsize=8)
def _patterns(labels: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """One pattern of all names, to pass over the many clauses without any, and one of what is none of them."""
    names = "|".join(pattern.pattern for _, pattern in _label_patterns(labels))
    return re.compile(names), _compiled(OTHERS)


def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(any_of(sorted(patterns, key=len, reverse=True)))
