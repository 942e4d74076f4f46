"""Reading what a model answers about surgical instruments and action triplets (SurgXBench, appendix C.2).

Only words are read, nothing is inferred: the longest name wins, a denied name ("no hook", "the hook is not visible") is
none, and a text that says nothing readable is unread, never a guess. A hedged name ("possibly a hook") counts. What a
clause does is said in `clauses`, what denies a name in `scope`. Spans are those of the text as given.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .clauses import Clause, plain, split_clauses
from .diseases import COUNTED
from .outcome import Outcome
from .reasoning import without_cut
from .scope import Standing, standings
from .surgical_names import (
    INSTRUMENT_SYNONYMS,
    INSTRUMENTS,
    OTHERS,
    TARGET_SYNONYMS,
    TRIPLET_INSTRUMENTS,
    TRIPLETS,
    VERB_FORMS,
    any_of,
    compiled,
)


class Mention(NamedTuple):
    """An instrument and where the text names it: text[start:end]."""

    name: str
    start: int
    end: int


class Reading(NamedTuple):
    """The instruments that a text asserts.

    mentions: every asserted mention, in order. denied: those that the text denies.
    outcome: "answered", also without mentions where the text says that there is no tool, or only denies; "declined";
    "unread".
    """

    mentions: tuple[Mention, ...]
    denied: tuple[Mention, ...]
    outcome: Outcome

    @property
    def names(self) -> tuple[str, ...]:
        """The instruments, each once, in order of their first mention."""
        return tuple(dict.fromkeys(mention.name for mention in self.mentions))


class TripletMention(NamedTuple):
    """A triplet and where the text names it; legal: it is one of the 100 classes."""

    instrument: str
    verb: str
    target: str
    start: int
    end: int
    legal: bool

    @property
    def name(self) -> str:
        """The triplet's text, as "grasper,retract,gallbladder"."""
        return ",".join((self.instrument, self.verb, self.target))


class TripletReading(NamedTuple):
    """The triplets that a text asserts; the fields are those of `Reading`."""

    mentions: tuple[TripletMention, ...]
    denied: tuple[TripletMention, ...]
    outcome: Outcome

    @property
    def names(self) -> tuple[str, ...]:
        """The texts of all triplets, illegal ones too, each once, in order of their first mention."""
        return tuple(dict.fromkeys(mention.name for mention in self.mentions))

    @property
    def illegal(self) -> tuple[str, ...]:
        """The texts of the triplets that are none of the 100 classes, each once."""
        return tuple(dict.fromkeys(mention.name for mention in self.mentions if not mention.legal))


class Reply(NamedTuple):
    """A model's answer: plain text, or the JSON object of a model that gives classes or heatmaps.

    text: what is to be read by words. predicted: class names. scores: one number a class. heatmaps: the reference under
    which the model keeps its heatmaps. occluded: what it says of the frame without the region that it looked at
    (triplet, before, after, predicted, and more). None: not given. tied: similarities tie, so that classes which would
    be predicted cannot be named. unparsed: the answer begins like a JSON object and is broken, or is one without an
    answer.
    """

    text: str | None = None
    predicted: tuple[str, ...] | None = None
    scores: tuple[float, ...] | None = None
    heatmaps: str | None = None
    unparsed: bool = False
    occluded: Mapping[str, Any] | None = None
    tied: bool = False


_NAMES = compiled(INSTRUMENT_SYNONYMS)
_OTHERS = re.compile(any_of(OTHERS))
_ANY_NAME = re.compile("|".join(pattern.pattern for _, pattern in _NAMES))
_BETWEEN_ITEMS = re.compile(r"[\s\d.,;:\"]*(?:(?:and|or|an?|the)\b[\s,\"]*)*")
_BETWEEN_LINES = re.compile(r"[\n.;\d]")

_VERBS, _TARGETS = compiled(VERB_FORMS), compiled(TARGET_SYNONYMS)
_LINK = r"[\s,:\"]*(?:\b(?:{words})\b[\s,:\"]*)*"
_TRIPLET = re.compile(
    rf"(?P<instrument>{any_of([p for name in TRIPLET_INSTRUMENTS for p in INSTRUMENT_SYNONYMS[name]])})"
    + _LINK.format(
        words="is|are|was|were|being|does|do|did|not|never|currently|used|to|for|the|an?|tool|instrument|verb|action|that|which"
    )
    + rf"(?P<verb>{any_of([p for forms in VERB_FORMS.values() for p in forms])})"
    + _LINK.format(words="the|an?|of|on|at|into|target|patient's|tissue|organ")
    + rf"(?P<target>{any_of([p for names in TARGET_SYNONYMS.values() for p in names])})"
)

_NOTHING = r"^\W*(?:none|nothing|nil|n\s?a)(?:\W*$|\s+(?:of (?:the|these|those|them)|is|are|visible|seen|present)\b)"
_THINGS = r"(?:tools?|instruments?|devices?)"
_SEES = r"(?:see|show|contain|detect|find|observe|include|depict|feature|appear|have|identify|visible)"


def _none_pattern(things: str) -> re.Pattern[str]:
    """An expression for clauses that say that there are none of these things."""
    return re.compile(
        rf"{_NOTHING}|\b(?:no|without|zero|none of|absence of|free of)\s+(?:\w+\s+){{0,4}}?{things}\b"
        rf"|(?:\bnot|n't|\bcannot)\s+(?:\w+\s+){{0,2}}?{_SEES}\s+(?:\w+\s+){{0,4}}?{things}\b"
        rf"|\b{things}\s+(?:\w+\s+){{0,4}}?(?:(?:is|are|was|were|can|could)\s+(?:not|never)|(?:is|are|was|were|ca)n't)\s+"
        r"(?:be\s+)?(?:\w+ly\s+)?(?:seen|present|visible|shown|identified|detected|observed|found|there)\b"
        rf"|\b{things}\b[^,:]{{0,80}}:\s*(?:none|nothing|0|\[\s*\])\W*$"
    )


_NO_TOOL = _none_pattern(_THINGS)
_NO_ACTION = _none_pattern(rf"(?:{_THINGS}|actions?|activit(?:y|ies)|interactions?|triplets?)")
_EMPTY_LIST = re.compile(r"\s*\[\s*\]\s*")


def read_instruments(text: str | None, *, cut: bool = False) -> Reading:
    """The instruments that a text asserts: words, synonyms and plurals (`surgical_names.INSTRUMENT_SYNONYMS`).

    A list of all seven only repeats the choices of the prompt and is passed over, and an answer that asserts all seven
    in any other way is no answer either: no frame has them all. Where nothing else is said, that is unread.

    >>> read_instruments("I see two graspers and a hook cautery, but no scissors.").names
    ('grasper', 'hook')
    >>> read_instruments("No surgical tools are visible.").outcome, read_instruments("A scalpel.").outcome
    ('answered', 'unread')
    """
    text = without_cut(text or "", cut=cut)
    said: dict[Standing, list[Mention]] = {"asserted": [], "denied": [], "open": []}
    none = bool(_EMPTY_LIST.fullmatch(text))
    declined = False
    for clause in split_clauses(text):
        declined |= clause.act == "decline"
        if clause.act not in COUNTED:
            continue
        mentions = _mentions(clause)
        for mention, standing in zip(mentions, _standings(clause, mentions), strict=True):
            said[standing].append(mention)
        none |= bool(_NO_TOOL.search(clause.text))
    asserted, refused = said["asserted"], said["denied"]
    mentions = _without_choice_list(asserted, plain(text))
    if {mention.name for mention in mentions} == set(INSTRUMENTS):
        return Reading((), tuple(refused), "unread")
    none |= bool(refused) and not asserted
    return Reading(tuple(mentions), tuple(refused), _outcome(bool(mentions) or none, declined))


def read_triplets(text: str | None, *, cut: bool = False) -> TripletReading:
    """The action triplets that a text asserts, in the order "instrument verb target" that the prompt asks for.

    Commas, blanks, arrows, brackets, field names and a few small words may stand between the three ("the grasper is
    retracting the gallbladder"); verbs may be inflected. Another order, and a triplet with a part outside the classes
    ("grasper grasp tissue"), is not read. Combinations that are none of the 100 classes are kept, and marked.

    >>> reading = read_triplets("1. grasper retracts gallbladder\\n2. hook, dissect, cystic plate\\n3. hook cut liver")
    >>> reading.names
    ('grasper,retract,gallbladder', 'hook,dissect,cystic_plate', 'hook,cut,liver')
    >>> reading.illegal, reading.mentions[0].start, reading.mentions[0].end
    (('hook,cut,liver',), 3, 31)
    """
    text = without_cut(text or "", cut=cut)
    clauses = list(split_clauses(text))
    stated = [clause for clause in clauses if clause.act in COUNTED]
    found = [_triplet(match) for match in _TRIPLET.finditer(plain(text))]
    said: dict[Standing, list[TripletMention]] = {"asserted": [], "denied": [], "open": []}
    for clause in stated:
        # Where a triplet begins in a question or behind "whether" there is no clause, or blanks in it.
        first, last = (
            bisect_left(found, place, key=_start) for place in (clause.start, clause.start + len(clause.text))
        )
        mentions = [m for m in found[first:last] if not clause.text[m.start - clause.start].isspace()]
        for mention, standing in zip(mentions, _standings(clause, mentions), strict=True):
            said[standing].append(mention)
    asserted, refused = said["asserted"], said["denied"]
    none = bool(refused or _EMPTY_LIST.fullmatch(text)) or any(_NO_ACTION.search(clause.text) for clause in stated)
    declined = any(clause.act == "decline" for clause in clauses)
    return TripletReading(tuple(asserted), tuple(refused), _outcome(bool(asserted) or none, declined))


def read_reply(text: str | None) -> Reply:
    """What a model hands to lm-eval: plain text, or a JSON object of heatmaps, predicted, scores and text.

    An object with other keys is the model's own way to answer and is read by words, as text. An answer that begins
    with "{" and is broken JSON, or whose fields are of a wrong type, is unparsed as a whole.

    >>> read_reply('{"heatmaps": "17", "predicted": ["hook"], "scores": [0.1, 0.9]}').predicted
    ('hook',)
    >>> read_reply("A hook.").text, read_reply('{"predicted": ["hook"').unparsed
    ('A hook.', True)
    """
    text = text or ""
    if not text.lstrip().startswith("{"):
        return Reply(text=text)
    try:
        fields = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return Reply(unparsed=True)
    if not fields or not set(fields) <= set(_FIELDS):
        return Reply(text=text)
    try:
        reply = Reply(**{name: _FIELDS[name](value) for name, value in fields.items() if value is not None})
    except (TypeError, OverflowError):
        return Reply(unparsed=True)
    return reply._replace(unparsed=reply.text is None and reply.predicted is None and reply.scores is None)


def _mentions(clause: Clause) -> list[Mention]:
    """Every name in a clause that lies in no longer one."""
    if not _ANY_NAME.search(clause.text):
        return []
    spans = sorted(
        (match.start(), -match.end(), name)
        for name, pattern in (("", _OTHERS), *_NAMES)
        for match in pattern.finditer(clause.text)
    )
    kept, last = [], -1
    for start, negative_end, name in spans:  # what begins first and ends last comes before all that lies in it
        if start >= last:
            kept.append(Mention(name, clause.start + start, clause.start - negative_end))
            last = -negative_end
    return [mention for mention in kept if mention.name]


def _without_choice_list(mentions: list[Mention], words: str) -> list[Mention]:
    """The mentions outside of lists, in one line or in lines, that name every instrument."""
    runs: list[list[Mention]] = []
    kind = None
    for mention in mentions:
        gap = words[runs[-1][-1].end : mention.start] if runs else ""
        this = bool(_BETWEEN_LINES.search(gap))
        if runs and _BETWEEN_ITEMS.fullmatch(gap) and (len(runs[-1]) == 1 or this == kind):
            runs[-1].append(mention)
        else:
            runs.append([mention])
        kind = this
    return [mention for run in runs if {one.name for one in run} != set(INSTRUMENTS) for mention in run]


def _triplet(match: re.Match[str]) -> TripletMention:
    instrument, verb, target = (
        next(name for name, pattern in names if pattern.fullmatch(match[part]))
        for part, names in (("instrument", _NAMES), ("verb", _VERBS), ("target", _TARGETS))
    )
    legal = ",".join((instrument, verb, target)) in TRIPLETS
    return TripletMention(instrument, verb, target, match.start(), match.end(), legal)


def _standings(clause: Clause, mentions: Sequence[Mention | TripletMention]) -> list[Standing]:
    spans = [(mention.start - clause.start, mention.end - clause.start) for mention in mentions]
    return standings(clause.text, spans, denied=clause.denied)


def _outcome(answered: bool, declined: bool) -> Outcome:
    return "answered" if answered else "declined" if declined else "unread"


def _start(mention: TripletMention) -> int:
    return mention.start


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError
    return tuple(map(_text, value))


def _numbers(value: Any) -> tuple[float, ...]:
    if not isinstance(value, list) or any(isinstance(v, bool) or not isinstance(v, int | float) for v in value):
        raise TypeError
    numbers = tuple(map(float, value))
    if not all(map(math.isfinite, numbers)):  # 1e999 is JSON
        raise OverflowError
    return numbers


_CHANGE = {"triplet", "before", "after", "predicted"}
_OF_CHANGE = {"top_after", "painted"}  # more, for the picture of it


def _occluded(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict) or set(value) not in (_CHANGE, _CHANGE | _OF_CHANGE):
        raise TypeError
    _text(value["triplet"])
    _numbers([value["before"]])
    if (value["after"] is None) != (value["predicted"] is None):
        raise TypeError
    if value["after"] is not None:
        _numbers([value["after"]])
        _texts(value["predicted"])
        if len(_numbers(value.get("top_after", [0] * len(value["predicted"])))) != len(value["predicted"]):
            raise TypeError
    if value.get("painted") is not None:
        _numbers([value["painted"]])
    return value


_FIELDS = {
    "text": _text, "predicted": _texts, "scores": _numbers, "heatmaps": _text, "occluded": _occluded, "tied": _flag,
}  # fmt: skip
