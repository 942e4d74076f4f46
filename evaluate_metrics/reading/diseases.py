"""Which diseases an open-ended answer names (HEAL-MedVQA, section 5), by words alone: the default extractor.

The longest name wins ("calcific" inside "calcification" is no second one). `clauses` says what a clause does, `scope`
what denies a name. A hedged name ("possible edema") counts as named: the paper has the diseases that an answer names
extracted, and says nothing of hedges. "Edema cannot be excluded" neither names nor denies it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from .clauses import split_clauses
from .disease_names import OTHERS, SYNONYMS
from .outcome import Outcome
from .reasoning import answer_part, without_cut
from .scope import NEUTRAL, blank, standings
from .surgical_names import any_of
from .words import folded


class Extraction(NamedTuple):
    """The diseases that a text names.

    Attributes:
        labels: Those that the text asserts.
        outcome: "answered", also without labels where the text says that all is normal, or only denies; "declined";
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
COUNTED = ("state", "weigh")  # acts of clauses whose names count


def extract_labels(text: str | None, vocabulary: Collection[str] = tuple(SYNONYMS), *, cut: bool = False) -> Extraction:
    """The diseases of the vocabulary that a text asserts.

    Args:
        text: a model's answer: sentences, a Markdown or a JSON list.
        vocabulary: labels; those of `disease_names.SYNONYMS` are found by their synonyms, others by their own words.
        cut: the text is known to be cut, as at a limit of tokens: what its last line begins is not read.

    >>> sorted(extract_labels("Findings include nodules and a small effusion, but no oedema.").labels)
    ['Nodule/Mass', 'Pleural effusion']
    >>> extract_labels("The heart is normal.").outcome, extract_labels("A blurred image.").outcome
    ('answered', 'unread')
    """
    labels = tuple(vocabulary)
    asserted: set[str] = set()
    normal = bool(_EMPTY_LIST.fullmatch(answer_part(text or "").strip()))
    declined = False
    for clause in split_clauses(without_cut(text or "", cut=cut)):
        declined |= clause.act == "decline"
        if clause.act not in COUNTED:
            continue
        mentions = _mentions(clause.text, labels)
        said = standings(clause.text, [(start, end) for _, start, end in mentions], denied=clause.denied)
        asserted |= {label for (label, *_), standing in zip(mentions, said, strict=True) if standing == "asserted"}
        normal |= "denied" in said or (not mentions and clause.act == "state" and _says_normal(clause.text))
    if asserted or normal:
        return Extraction(frozenset(asserted), "answered")
    return Extraction(frozenset(), "declined" if declined else "unread")


def names_in(clause: str, vocabulary: Collection[str] = tuple(SYNONYMS)) -> list[tuple[str, int, int]]:
    """(label, start, end) of every disease that lower-case words name."""
    return _mentions(clause, tuple(vocabulary))


def _says_normal(words: str) -> bool:
    return bool(_NORMAL.search(" ".join(folded(NEUTRAL.sub(blank, words)).split())))


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
