"""Reader of answers about surgical instruments and action triplets (SurgXBench, appendix C.2).

It reads explicit words and infers nothing: the longest name wins, a denied name ("no hook", "the hook is not visible")
does not count, and a text without readable content is unread, never a guess. A hedged name ("possibly a hook") counts.
`clauses` finds the act of a clause, `scope` the denials of a name. Spans are positions in the original text.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .clauses import Clause, plain, split_clauses
from .diseases import COUNTED
from .outcome import Outcome
from .reasoning import remove_unfinished
from .scope import Standing, find_standings
from .surgical_names import (
    INSTRUMENT_SYNONYMS,
    INSTRUMENTS,
    OTHERS,
    TARGET_SYNONYMS,
    TRIPLET_INSTRUMENTS,
    TRIPLETS,
    VERB_FORMS,
    build_alternatives,
    build_patterns,
)


class Mention(NamedTuple):
    """An instrument and its span, text[start:end].

    Attributes:
        name: The instrument.
        start: Start of its name.
        end: End of its name.
    """

    name: str
    start: int
    end: int


class Reading(NamedTuple):
    """The instruments that a text asserts.

    Attributes:
        mentions: Every asserted mention, in order.
        denied: The mentions that the text denies.
        outcome: "answered", also without mentions if the text states that there is no tool, or only denies; "declined";
            "unread".
    """

    mentions: tuple[Mention, ...]
    denied: tuple[Mention, ...]
    outcome: Outcome

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the instruments, each once, in order of their first mention."""
        return tuple(dict.fromkeys(mention.name for mention in self.mentions))


class TripletMention(NamedTuple):
    """A triplet and its span.

    Attributes:
        instrument: Its instrument.
        verb: Its verb.
        target: Its target.
        start: Start of the span.
        end: End of the span.
        legal: Whether it is one of the 100 classes.
    """

    instrument: str
    verb: str
    target: str
    start: int
    end: int
    legal: bool

    @property
    def name(self) -> str:
        """Text of the triplet, for example "grasper,retract,gallbladder"."""
        return ",".join((self.instrument, self.verb, self.target))


class TripletReading(NamedTuple):
    """The triplets that a text asserts.

    Attributes:
        mentions: See `Reading`.
        denied: See `Reading`.
        outcome: See `Reading`.
    """

    mentions: tuple[TripletMention, ...]
    denied: tuple[TripletMention, ...]
    outcome: Outcome

    @property
    def names(self) -> tuple[str, ...]:
        """Texts of all triplets, illegal ones too, each once, in order of their first mention."""
        return tuple(dict.fromkeys(mention.name for mention in self.mentions))

    @property
    def illegal(self) -> tuple[str, ...]:
        """Texts of the triplets outside the 100 classes, each once."""
        return tuple(dict.fromkeys(mention.name for mention in self.mentions if not mention.legal))


class Reply(NamedTuple):
    """A model's answer: plain text, or the JSON object of a model with classes or heatmaps; None for missing fields.

    Attributes:
        text: The text to read by words.
        predicted: Class names.
        scores: One number per class.
        heatmaps: The reference under which the model stores its heatmaps.
        unparsed: Whether the answer begins like a JSON object and is broken, or is an object without an answer.
        occluded: The result on the frame without the region that the model attended to (triplet, before, after,
            predicted, and more).
        tied: Whether similarities tie, so the predicted classes cannot be named.
    """

    text: str | None = None
    predicted: tuple[str, ...] | None = None
    scores: tuple[float, ...] | None = None
    heatmaps: str | None = None
    unparsed: bool = False
    occluded: Mapping[str, Any] | None = None
    tied: bool = False


_NAMES = build_patterns(INSTRUMENT_SYNONYMS)
_OTHER_NAMES = re.compile(build_alternatives(OTHERS))
_ANY_NAME = re.compile("|".join(pattern.pattern for _, pattern in _NAMES))
_BETWEEN_ITEMS = re.compile(r"[\s\d.,;:\"]*(?:(?:and|or|an?|the)\b[\s,\"]*)*")
_BETWEEN_LINES = re.compile(r"[\n.;\d]")

_VERBS, _TARGETS = build_patterns(VERB_FORMS), build_patterns(TARGET_SYNONYMS)
_LINK = r"[\s,:\"]*(?:\b(?:{words})\b[\s,:\"]*)*"
_TRIPLET = re.compile(
    rf"(?P<instrument>{build_alternatives([p for name in TRIPLET_INSTRUMENTS for p in INSTRUMENT_SYNONYMS[name]])})"
    + _LINK.format(
        words=r"is|are|was|were|be|being|does|do|did|seems?|appears?|not|never|\w+ly|used|to|for|the|an?|tool|instrument|verb"
        "|action|that|which"
    )
    + rf"(?P<verb>{build_alternatives([p for forms in VERB_FORMS.values() for p in forms])})"
    + _LINK.format(words="the|an?|of|on|at|into|target|patient's|tissue|organ")
    + rf"(?P<target>{build_alternatives([p for names in TARGET_SYNONYMS.values() for p in names])})"
)

_NOTHING = re.compile(
    r"^\W*(?:none|nothing|nil|n\s?a)(?:\W*$|\s+(?:of (?:the|these|those|them)|is|are|visible|seen|present)\b)"
)
_THINGS = r"(?:tools?|instruments?|devices?)"
_TOOL = re.compile(rf"\b{_THINGS}\b")
_ACTION = re.compile(rf"\b(?:{_THINGS}|actions?|activit(?:y|ies)|interactions?|triplets?)\b")
_NO_ITEM = re.compile(r"[^,:]{0,80}:\s*(?:none|nothing|0|\[\s*\])\W*$")
_EMPTY_LIST = re.compile(r"\s*\[\s*\]\s*")


def read_instruments(text: str | None, *, cut: bool = False) -> Reading:
    """Read the instruments that a text asserts: words, synonyms and plurals (`surgical_names.INSTRUMENT_SYNONYMS`).

    A list of all seven only repeats the choices of the prompt and is skipped. An answer that asserts all seven in any
    other way is no answer either, because no frame has them all. Without other content it is unread.

    Args:
        text: The answer.
        cut: Whether the text is known to be truncated.

    Returns:
        The reading.

    >>> read_instruments("I see two graspers and a hook cautery, but no scissors.").names
    ('grasper', 'hook')
    >>> read_instruments("No surgical tools are visible.").outcome, read_instruments("A scalpel.").outcome
    ('answered', 'unread')
    """
    text = remove_unfinished(text or "", cut=cut)
    mentions_by_standing: dict[Standing, list[Mention]] = {"asserted": [], "denied": [], "open": []}
    is_none_stated = bool(_EMPTY_LIST.fullmatch(text))
    is_declined = False
    for clause in split_clauses(text):
        is_declined |= clause.act == "decline"
        if clause.act not in COUNTED:
            continue
        mentions = _find_mentions(clause)
        for mention, standing in zip(mentions, _find_clause_standings(clause, mentions), strict=True):
            mentions_by_standing[standing].append(mention)
        is_none_stated |= _denies_all(clause, _TOOL)
    asserted, denied = mentions_by_standing["asserted"], mentions_by_standing["denied"]
    mentions = _remove_choice_lists(asserted, plain(text))
    if {mention.name for mention in mentions} == set(INSTRUMENTS):
        return Reading((), tuple(denied), "unread")
    is_none_stated |= bool(denied) and not asserted
    return Reading(tuple(mentions), tuple(denied), _get_outcome(bool(mentions) or is_none_stated, is_declined))


def read_triplets(text: str | None, *, cut: bool = False) -> TripletReading:
    r"""Read the action triplets that a text asserts, in the order "instrument verb target" of the prompt.

    Commas, blanks, arrows, brackets, field names and a few small words may separate the three ("the grasper is
    retracting the gallbladder"); verbs may be inflected. Another order, and a triplet with a component outside the
    classes ("grasper grasp tissue"), are not read. Combinations outside the 100 classes are included, and marked.

    Args:
        text: The answer.
        cut: Whether the text is known to be truncated.

    Returns:
        The reading.

    >>> reading = read_triplets("1. grasper retracts gallbladder\n2. hook, dissect, cystic plate\n3. hook cut liver")
    >>> reading.names
    ('grasper,retract,gallbladder', 'hook,dissect,cystic_plate', 'hook,cut,liver')
    >>> reading.illegal, reading.mentions[0].start, reading.mentions[0].end
    (('hook,cut,liver',), 3, 31)
    """
    text = remove_unfinished(text or "", cut=cut)
    clauses = list(split_clauses(text))
    counted_clauses = [clause for clause in clauses if clause.act in COUNTED]
    triplets = [_build_triplet(match) for match in _TRIPLET.finditer(plain(text))]
    mentions_by_standing: dict[Standing, list[TripletMention]] = {"asserted": [], "denied": [], "open": []}
    for clause in counted_clauses:
        # A triplet in a question or after "whether" is outside the clauses, or in a blank part of one.
        first_index, last_index = (
            bisect_left(triplets, position, key=_get_start)
            for position in (clause.start, clause.start + len(clause.text))
        )
        mentions = [
            triplet
            for triplet in triplets[first_index:last_index]
            if not clause.text[triplet.start - clause.start].isspace()
        ]
        for mention, standing in zip(mentions, _find_clause_standings(clause, mentions), strict=True):
            mentions_by_standing[standing].append(mention)
    asserted, denied = mentions_by_standing["asserted"], mentions_by_standing["denied"]
    is_none_stated = bool(denied or _EMPTY_LIST.fullmatch(text)) or any(
        _denies_all(clause, _ACTION) for clause in counted_clauses
    )
    is_declined = any(clause.act == "decline" for clause in clauses)
    return TripletReading(tuple(asserted), tuple(denied), _get_outcome(bool(asserted) or is_none_stated, is_declined))


def read_reply(text: str | None) -> Reply:
    """Read a model's output for lm-eval: plain text, or a JSON object of heatmaps, predicted, scores and text.

    An object with other keys is the model's own form of an answer and is read by words, like text. An answer that
    begins with "{" and is broken JSON, or has fields of a wrong type, is unparsed.

    Args:
        text: The output.

    Returns:
        The reply.

    >>> read_reply('{"heatmaps": "17", "predicted": ["hook"], "scores": [0.1, 0.9]}').predicted
    ('hook',)
    >>> read_reply("A hook.").text, read_reply('{"predicted": ["hook"').unparsed
    ('A hook.', True)
    """
    text = text or ""
    if not text.lstrip().startswith("{"):
        return Reply(text=text)
    try:
        fields = json.loads(text, parse_constant=_raise_constant)
    except (ValueError, RecursionError):
        return Reply(unparsed=True)
    if not fields or not set(fields) <= set(_FIELDS):
        return Reply(text=text)
    try:
        reply = Reply(**{name: _FIELDS[name](value) for name, value in fields.items() if value is not None})
    except (TypeError, OverflowError):
        return Reply(unparsed=True)
    return reply._replace(unparsed=reply.text is None and reply.predicted is None and reply.scores is None)


def _find_mentions(clause: Clause) -> list[Mention]:
    """List the instruments that a clause names, in order, without names within longer names.

    The longer name may be another word (OTHERS), which is no mention of an instrument.
    """
    if not _ANY_NAME.search(clause.text):
        return []
    spans = sorted(
        (match.start(), -match.end(), name)
        for name, pattern in (("", _OTHER_NAMES), *_NAMES)
        for match in pattern.finditer(clause.text)
    )
    mentions, last_end = [], -1
    for start, negative_end, name in spans:  # a name that contains others precedes them
        if start >= last_end:
            mentions.append(Mention(name, clause.start + start, clause.start - negative_end))
            last_end = -negative_end
    return [mention for mention in mentions if mention.name]


def _remove_choice_lists(mentions: list[Mention], plain_text: str) -> list[Mention]:
    """Remove the mentions in lists, on one line or several, that name every instrument."""
    runs: list[list[Mention]] = []
    previous_has_line_break = None
    for mention in mentions:
        gap = plain_text[runs[-1][-1].end : mention.start] if runs else ""
        has_line_break = bool(_BETWEEN_LINES.search(gap))
        if runs and _BETWEEN_ITEMS.fullmatch(gap) and (len(runs[-1]) == 1 or has_line_break == previous_has_line_break):
            runs[-1].append(mention)
        else:
            runs.append([mention])
        previous_has_line_break = has_line_break
    return [mention for run in runs if {run_mention.name for run_mention in run} != set(INSTRUMENTS) for mention in run]


def _build_triplet(match: re.Match[str]) -> TripletMention:
    instrument, verb, target = (
        next(name for name, pattern in names if pattern.fullmatch(match[component]))
        for component, names in (("instrument", _NAMES), ("verb", _VERBS), ("target", _TARGETS))
    )
    legal = ",".join((instrument, verb, target)) in TRIPLETS
    return TripletMention(instrument, verb, target, match.start(), match.end(), legal)


def _find_clause_standings(clause: Clause, mentions: Sequence[Mention | TripletMention]) -> list[Standing]:
    spans = [(mention.start - clause.start, mention.end - clause.start) for mention in mentions]
    return find_standings(clause.text, spans, denied=clause.denied)


def _denies_all(clause: Clause, things: re.Pattern[str]) -> bool:
    """Whether a clause says that there are no `things`: "no tools", "the instruments have been removed", "tools: 0"."""
    if _NOTHING.search(clause.text):
        return True
    spans = [match.span() for match in things.finditer(clause.text)]
    clause_standings = find_standings(clause.text, spans, denied=clause.denied)
    return "denied" in clause_standings or any(_NO_ITEM.match(clause.text, end) for _, end in spans)


def _get_outcome(is_answered: bool, is_declined: bool) -> Outcome:
    return "answered" if is_answered else "declined" if is_declined else "unread"


def _get_start(mention: TripletMention) -> int:
    return mention.start


def _raise_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _require_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _require_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _require_texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError
    return tuple(map(_require_text, value))


def _require_numbers(value: Any) -> tuple[float, ...]:
    if not isinstance(value, list) or any(isinstance(v, bool) or not isinstance(v, int | float) for v in value):
        raise TypeError
    numbers = tuple(map(float, value))
    if not all(map(math.isfinite, numbers)):  # JSON allows 1e999
        raise OverflowError
    return numbers


_CHANGE = {"triplet", "before", "after", "predicted"}
_DRAWN_CHANGE = {"top_after", "painted"}  # more fields, for its picture


def _require_occluded(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict) or set(value) not in (_CHANGE, _CHANGE | _DRAWN_CHANGE):
        raise TypeError
    _require_text(value["triplet"])
    _require_numbers([value["before"]])
    if (value["after"] is None) != (value["predicted"] is None):
        raise TypeError
    if value["after"] is not None:
        _require_numbers([value["after"]])
        _require_texts(value["predicted"])
        if len(_require_numbers(value.get("top_after", [0] * len(value["predicted"])))) != len(value["predicted"]):
            raise TypeError
    if value.get("painted") is not None:
        _require_numbers([value["painted"]])
    return value


_FIELDS: dict[str, Callable[[Any], Any]] = {
    "text": _require_text,
    "predicted": _require_texts,
    "scores": _require_numbers,
    "heatmaps": _require_text,
    "occluded": _require_occluded,
    "tied": _require_flag,
}
