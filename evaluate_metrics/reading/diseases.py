"""Which diseases an open-ended answer names (HEAL-MedVQA, section 5), by words alone: the default extractor.

The longest name wins ("calcific" inside "calcification" is no second one). A name is denied by a word before it in its
clause ("no", "without", "free of", ...) or by one after it ("... is not seen", "...: absent"); a clause ends with the
sentence, at a turn ("but"), and at a comma before a new verb. A hedged name ("possible edema", "edema cannot be
excluded") counts as named; a question, and what follows "whether" or "if", names nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

from .disease_names import OTHERS, SYNONYMS
from .thinking import without_thinking
from .words import folded

Outcome = Literal["found", "normal", "unreadable"]


class Extraction(NamedTuple):
    """labels: those that the text asserts.

    outcome: "found"; "normal" where nothing is asserted and the text says so, or only denies; else "unreadable".
    """

    labels: frozenset[str]
    outcome: Outcome


_ITEM_END = re.compile(r"[\"'”’]\s*,\s*[\"'“‘]")  # of a JSON or Python list: each item is a sentence
_EMPTY_LIST = re.compile(r"\[\s*\]")
_BULLET = re.compile(r"^\s*(?:[-*•+–]|\d+[.)])\s+")
_DASH = re.compile(r"\s[-–—]+\s")
_NOISE = re.compile(r"[^\w\s.,;:!?]")
_SENTENCE = re.compile(r"[^.;!?\n]+[.;!?\n]?")
_WHETHER = re.compile(r"\b(?:whether|if)\b.*")
_VERB = r"(?:is|are|was|were|has|have|shows?|shown|reveals|demonstrates|exhibits|suffers|contains|suggests|indicates)"
_CLAUSE_END = re.compile(
    r"\b(?:but|however|although|though|except(?: for)?|whereas|while|yet|apart from|aside from|other than|besides)\b"
    r"|,\s*(?=(?:with|showing|there|the|it)\b)"
    rf"|,(?!\s*(?:or|nor|and)\b)(?=[^,]*\b{_VERB}\b)"
    r"|\band\s+(?=(?:there|the|it)\b)"
    r"|(?<=^no),"  # "No, ...": a reply
)
_NEUTRAL = re.compile(  # words that look like denials
    r"\bnot only\b|\bno doubt\b"
    r"|\b(?:no|not|without)\s+(?:\w+\s+)?(?:changed?|increased?|decreased?|improve(?:ment|d)|worsen(?:ing|ed)|progress\w*)\b"
    r"|\bnot\s+(?:be\s+|been\s+)?(?:\w+ly\s+)?(?:rule out|ruled out|excluded?)\b"
    r"|\bnot\s+(?:\w+ly\s+)?(?:normal|clear|healthy|unremarkable|free)\b(?:\s+(?:of|from)\b)?"
)
_DENIED_BEFORE = re.compile(
    r"\b(?:no|not|without|absence of|absent:|free (?:of|from)|clear of|negative for|negative:|never|neither|nor|"
    r"lack(?:s|ing|ed)?(?: of)?|den(?:y|ies)|rules? out|rather than|instead of)(?=\W|$)"
)
_SCOPE_END = re.compile(r"\b(?:shows|reveals|demonstrates|exhibits|suffers|contains|suggests|indicates|has)\b")
_SEEN = (
    r"(?:seen|present|visible|visuali[sz]ed|identified|noted|observed|evident|detected|demonstrated|appreciated|found|"
    r"apparent|there|likely|suspected)"
)
_DENIED_AFTER = re.compile(
    rf"^(?:(?!{_VERB}\b)\b\w+\b|[\s,])*(?:\b{_VERB}\b)?\s*:?\s*(?:\w+ly\s+)?"
    rf"(?:(?:not|never)\s+(?:be\s+|been\s+)?(?:\w+ly\s+)?{_SEEN}|(?:been\s+)?(?:absent|negative|excluded|ruled out)"
    r"|unlikely|(?:no|none|false|not)\s*$)(?:\W|$)"
)
_REACH = 300  # characters after a name in which its denial is looked for
_NORMAL = re.compile(
    r"^(?:no|none|nothing|nil|normal|nope)$"
    r"|\b(?:normal|unremarkable|healthy)\b"
    r"|\b(?:no|without|free of|absence of|not \w+)\s+(?:\w+\s+){0,4}"
    r"(?:abnormal(?:ity|ities)?|findings?|disease|diseases|patholog(?:y|ies)|lesions?|process|anomal(?:y|ies))\b"
    r"|\b(?:is|are|remains?|appears?)\s+(?:\w+ly\s+)?clear\b|\bclear\s+(?:lungs?|heart)\b|\bnothing\s+abnormal\b"
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
    text = without_thinking(text or "")
    asserted: set[str] = set()
    normal = bool(_EMPTY_LIST.fullmatch(text.strip()))
    for clause in _clauses(text):
        mentions = _mentions(clause, labels)
        cues = [cue.end() for cue in _DENIED_BEFORE.finditer(clause)] if mentions else []
        asserted |= {label for label, start, end in mentions if not _denied(clause, start, end, cues)}
        normal |= bool(mentions) or (bool(_NORMAL.search(clause)) and not _CANNOT_TELL.search(clause))
    return Extraction(frozenset(asserted), "found" if asserted else "normal" if normal else "unreadable")


def _clauses(text: str) -> Iterator[str]:
    """Lower-case clauses with plain words, commas and colons; denials that deny nothing are taken out."""
    text = _under_their_headers(_ITEM_END.sub(". ", folded(text)))
    text = _NOISE.sub(" ", _DASH.sub(": ", text).replace("_", " "))
    for sentence in _SENTENCE.findall(text):
        if sentence.endswith("?"):
            continue
        plain = " ".join(_WHETHER.sub("", sentence.rstrip(".;!\n")).split()).replace(" ,", ",").replace(" :", ":")
        for clause in _CLAUSE_END.split(_NEUTRAL.sub(" ", plain)):
            if clause.strip():
                yield " ".join(clause.split())


def _under_their_headers(text: str) -> str:
    """Each bullet below a line such as "No evidence of:" is read together with that line."""
    lines, header = [], ""
    for line in text.splitlines():
        bullet = _BULLET.match(line)
        if bullet:
            lines.append(f"{header} {line[bullet.end() :]}")
        elif line.strip():
            stripped = line.strip().strip("*#_ ")
            denies = stripped.endswith(":") and _DENIED_BEFORE.search(stripped)
            header = stripped.removesuffix(":") if denies else ""
            header = f"{header}:" if header in {"absent", "negative"} else header
            lines.append("" if denies else line)
    return "\n".join(lines)


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
        return r"\s".join(map(re.escape, re.findall(r"\w+", label.casefold())))

    return tuple((label, _any_of((own(label), *SYNONYMS.get(label, ())))) for label in labels)


@lru_cache(maxsize=8)
def _patterns(labels: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """One pattern of all names, to pass over the many clauses without any, and one of what is none of them."""
    return _any_of(tuple(pattern.pattern for _, pattern in _label_patterns(labels))), _any_of(OTHERS)


def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(sorted(patterns, key=len, reverse=True))})\b")


def _denied(clause: str, start: int, end: int, cues: list[int]) -> bool:
    """Whether the name at [start, end) is denied; cues: where the clause's words of denial end."""
    if re.search(r"\bnot\b", clause[start:end]):  # "the heart is not enlarged"
        return True
    cue = max((place for place in cues if place <= start), default=None)
    if cue is not None and not _SCOPE_END.search(clause, cue, start):
        return True
    return bool(_DENIED_AFTER.match(clause[end : end + _REACH]))
