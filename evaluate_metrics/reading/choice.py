"""Reads free text as one of a question's options. What cannot be read is an outcome of its own; nothing is guessed.

Reasoning is dropped first (`reasoning`), then markup (`markup`), then a list that only repeats all options. Of these
stages, in this order, the first that says anything decides:

1. "text": the whole answer is one option's text;
2. "marked": a JSON field that names an answer, or the last box of LaTeX;
3. "final", then "answer": "Final answer: ...", "The answer is ...", each together with a letter alone on the last line;
4. "ticked": the option on the line with a tick;
5. "opening": the letter that the answer begins with;
6. "chosen": "I choose ...", "the most likely diagnosis is ...", "... is the correct option";
7. "stated": "It is ...", and "... is ..." of what the question asks for;
8. "beginning": the option's text that the answer begins with;
9. "conclusion": the last sentence that begins with "Therefore" or the like and names one option;
10. "mentions": every letter and every option text mentioned anywhere. Asked for what is absent, the one that is denied;
11. "yes or no": where the options are yes and no, sentences that state or deny what was asked (`yes_no`).

Two different options within the deciding stage, or a letter beside another option's text, are `ambiguous`, and so is an
option that is only mentioned to be denied or compared with. A hedged choice ("I think B", "could be B") is the choice.
Of a reasoning that never ends, an answer is read only where one option is stated and no other, and without a doubt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Literal, NamedTuple

from .letters import index, is_denied_before, letter_places, letters_in
from .markup import CROSS, TICK, readable
from .naming import COMPARED, NO, SENTENCE_END, letter_alone, object_named, opening_letter, together
from .options import CONFLICT, MOST, Options, says_denial
from .reasoning import answer_span
from .statements import Statement, fields, statements
from .words import words
from .yes_no import read_yes_no

Outcome = Literal["parsed", "ambiguous", "out_of_range", "none"]


class Answer(NamedTuple):
    """choice: index into the options, None unless outcome is "parsed". why: the stage that decided, or ""."""

    choice: int | None
    outcome: Outcome
    why: str = ""


_DOUBT = re.compile(r"\b(?:wait|hmm+|maybe|perhaps|let me|let's|alternatively|not sure|unsure|or)\b|\?", re.IGNORECASE)
_CONTRAST = re.compile(  # "While A shows ..., B ..."
    r"\W*(?:while|although|though|whereas|even though|unlike|compared (?:to|with)|in (?:contrast"
    r"|comparison) (?:to|with))"
    r"\b[^,]*,",
    re.IGNORECASE,
)
# Sentences that choose nothing: about other options, on a condition, refusals.
_ASIDE = re.compile(
    r"\W*(?:in contrast|by contrast|conversely|on the other hand|if|when|the (?:other|remaining) (?:options?"
    r"|choices?))\b",
    re.IGNORECASE,
)
_REFUSES = re.compile(
    r"\b(?:can ?not|can't|could ?n[o']t|unable to|(?:not|im)possible to|difficult to|hard to|challenging to"
    r"|not able to)"
    r" (?:\w+ ){0,3}(?:tell|determine|decide|identify|select|choose|answer|say|confirm|make|provide|diagnose"
    r"|be determined)"
    r"|\b(?:none|neither|nothing) (?:of|from|among) (?:the|these|those)\b",
    re.IGNORECASE,
)
_WOULD = re.compile(r"\bwould (?:call for|have|show|look|appear|bring|create|need|cause|efface|give)\b")
_DEFINES = re.compile(  # "Edema is a condition in which ..."
    r"^[^.,]{1,60}? (?:is|are) (?:an? |the )?(?:[\w-]+ ){0,3}(?:condition|disease|disorder|type|form|sign|kind)s?\b"
)
_DECLINES = re.compile(  # the whole answer
    r"\bI (?:apologi[sz]e|do not feel comfortable|don't feel comfortable|would prefer not|'d prefer not)"
    r"|\bI(?:'m| am) sorry, but|\b(?:can ?not|can't) (?:assist|help)\b",
    re.IGNORECASE,
)
_CONCLUDES = re.compile(
    r"\W*(?:and |so |but )?(?:therefore|thus|hence|so|consequently|accordingly|in (?:conclusion|summary|short)|overall"
    r"|to (?:conclude|summari[sz]e|sum up)|conclusion|based on (?:this|these|the (?:above|findings|evidence|analysis))"
    r"|given (?:this|these)|taken together|it (?:follows|can be concluded)|final answer)\b"
    r"|.*?(?:\b(?:daher|insgesamt|somit|folglich|demnach|donc|ainsi|por (?:lo )?tanto|portanto|logo|quindi|do đó|vì vậy"
    r"|therefore|hence|thus)\b|因此|所以|综合|综上|故)",
    re.IGNORECASE,
)
_ASKS_ABSENCE = re.compile(
    r"\b(?:absent|not (?:present|seen|visible|shown|found|identified)|missing|ruled out|excluded)\b", re.IGNORECASE
)

_IS = re.compile(
    r"(?:(?P<it>\b(?:it|this|that)(?: is|'s))|\b(?:is|are)) (?:thus |therefore |most likely |probably )?(?:the |an? )?",
    re.IGNORECASE,
)
_CHOICE_END = re.compile(r"[,(]| (?:and|or|but|because|as|rather)\b")
_SMALL_WORDS = frozenset(
    {
        "a",
        "an",
        "the",
        "is",
        "are",
        "of",
        "in",
        "on",
        "to",
        "this",
        "that",
        "these",
        "those",
        "which",
        "what",
        "who",
        "how",
        "does",
        "do",
        "for",
        "with",
        "by",
        "it",
    }
)

_ARTICLE = re.compile(r"\W*(?:an?|the) ", re.IGNORECASE)
_PRAISED = re.compile(  # behind an option: "is the correct one", "fits best"
    r"[)\]]?(?:,? (?:and|or) [A-Z]\b){0,6}"
    r"(?: (?!(?:not|n't|than|and|or|but|while|is|are|would|seems?|appears?|best|most)\b)[^\s.;:]{1,30}){0,6}[,)]?"
    r" (?:is|are|would be|seems|seems to be|appears|appears to be|stands out as|remains)"
    r" (?:indeed |clearly |therefore |likely |also )?(?:(?:the|my) (?:\w+ ){0,2}?)?"
    r"(?:(?:most |more )?(?:correct|right|best|likely|appropriate|accurate|suitable|plausible|probable|similar"
    r"|consistent"
    r"|fitting|closely|closest)|closest|answer|final answer|choice|closer|darker)\b"
    r"|[)\]]? (?:best |most closely |most accurately )?(?:fits|matches|describes|explains|applies)"
    r"(?: (?:best|most|to|the|these)\b|[.,]|$)",
    re.IGNORECASE,
)


def parse_answer(text: str | None, options: Sequence[str], question: str = "") -> Answer:
    """The option that a model's text chooses.

    Args:
        text: the response: a letter, an option's text, or sentences.
        options: the answer set in the order shown, lettered from A.
        question: what was asked. It tells whether a denied option is the answer, and what yes and no would mean.

    Returns:
        `parsed` with the index; `out_of_range` for a letter beyond the options; `ambiguous` for several different
        options, a letter and a text that disagree, or an option that is only mentioned to be denied; `none` where no
        option is named.

    >>> parse_answer("The answer is (B).", ["Edema", "No edema", "Atelectasis"])
    Answer(choice=1, outcome='parsed', why='answer')
    >>> parse_answer("There is no edema.", ["Edema", "No edema", "Atelectasis"]).choice
    1
    >>> parse_answer("A. No edema", ["Edema", "No edema", "Atelectasis"]).outcome
    'ambiguous'
    """
    written = text or ""
    start, end, how = answer_span(written)
    part, choices = written[start:end], _options(tuple(options))
    clean = choices.without_echo(readable(part))
    if not clean or (how == "open reasoning" and _DOUBT.search(clean)):
        return Answer(None, "none")
    stated = [*fields(part), *statements(clean)]
    stages: dict[str, Callable[[], set[int]]] = {
        "text": lambda: _whole(clean, choices),
        "marked": lambda: _marked(stated, choices),
        "final": lambda: (found := _stated(stated, "final", choices)) and found | _last_line(clean, choices),
        "answer": lambda: _stated(stated, "answer", choices) | _last_line(clean, choices),
        "ticked": lambda: _ticked(clean, choices),
        "opening": lambda: _openings(clean, choices),
        "chosen": lambda: _stated(stated, "chosen", choices) | _praised(clean, choices),
        "stated": lambda: _is_one(clean, choices, question),
        "beginning": lambda: _opening_text(clean, choices),
        "conclusion": lambda: _concluded(clean, choices),
        "mentions": lambda: _mentions(clean, choices, absence=bool(_ASKS_ABSENCE.search(question))),
        "yes or no": lambda: _yes_or_no(part, choices, question),
    }
    if how == "open reasoning":
        return _settle(_any(stages[name]() for name in stages if name != "opening"), choices.n, how)
    found = ((name, read()) for name, read in stages.items())
    name, places = next(((name, places) for name, places in found if places), ("", set()))
    return _settle(places, choices.n, name)


@lru_cache(maxsize=256)
def _options(options: tuple[str, ...]) -> Options:
    return Options(options)


def _settle(found: set[int], n_options: int, why: str) -> Answer:
    if not found:
        return Answer(None, "none")
    if len(found) > 1 or CONFLICT in found:
        return Answer(None, "ambiguous", why)
    (choice,) = found
    return Answer(choice, "parsed", why) if choice < n_options else Answer(None, "out_of_range", why)


def _any(sets: Iterable[set[int]]) -> set[int]:
    return set[int]().union(*sets)


def _whole(text: str, choices: Options) -> set[int]:
    """The option whose text, or the beginning of whose text, is all that is said; with a letter behind it, both."""
    if NO.search(text):
        return set()
    said = words(text)
    if choices.of(said):
        return choices.of(said)
    if len(said) > 1 and said not in ("yes", "no") and choices.beginning_with(said):
        return choices.beginning_with(said)
    before, _, letter = said.rpartition(" ")
    return choices.of(before) | {index(letter)} if re.fullmatch("[a-z]", letter) and choices.of(before) else set()


def _marked(stated: Sequence[Statement], choices: Options) -> set[int]:
    """What the fields of a JSON object say, or the last box: the boxes before it hold results on the way."""
    in_fields = _any(object_named(one.said, choices, value=True) for one in stated if one.kind == "field")
    boxes = (object_named(one.said, choices, value=True) for one in reversed(stated) if one.kind == "box")
    return in_fields or next(filter(None, boxes), set())


def _stated(stated: Sequence[Statement], kind: str, choices: Options) -> set[int]:
    return _any(object_named(said, choices) for said in {one.said for one in stated if one.kind == kind})


def _last_line(text: str, choices: Options) -> set[int]:
    """The letter alone on the last line, with what contradicts it: other such lines, or one option chosen before it."""
    *before, last = text.split("\n")
    alone = letter_alone(last, choices)
    if not alone:
        return set()
    alone |= _any(letter_alone(line, choices) for line in before[-MOST:])
    opened = _any(opening_letter(line, choices) for line in before[-MOST:])
    return alone | opened if len(opened) == 1 else alone  # several: the options, listed before the choice


def _openings(text: str, choices: Options) -> set[int]:
    """What the text begins with, and what the lines right below it begin with."""
    first, *later = text.split("\n")
    found = opening_letter(first, choices)
    for line in later if found else ():
        more = opening_letter(line, choices)
        if not more:
            break
        found = found | more
    return found


def _opening_text(text: str, choices: Options) -> set[int]:
    """The option that the first sentence begins with and asserts, and every option that is a sentence by itself."""
    first, *later = [sentence for sentence in SENTENCE_END.split(text) if sentence.strip()] or [""]
    article = _ARTICLE.match(first)
    begun = choices.starting(first[article.end() :] if article else first)
    asserted, denied = choices.said_in(COMPARED.split(first, maxsplit=1)[0]).asserted, choices.said_in(first).denied
    if (
        not begun
        or len(asserted) != 1
        or begun & denied
        or NO.search(text)
        or _DEFINES.match(first)
        or _says_nothing(first)
    ):
        return set()
    return asserted | _any(choices.of(words(sentence)) for sentence in later[:MOST])


def _ticked(text: str, choices: Options) -> set[int]:
    """The option of the line with a tick."""
    ticked = [line.replace(TICK, "") for line in text.split("\n") if TICK in line and CROSS not in line]
    return _any(opening_letter(line, choices) or choices.said_in(line).asserted for line in ticked[:MOST])


def _praised(text: str, choices: Options) -> set[int]:
    """Options that a sentence calls the right one."""
    found: set[int] = set()
    for sentence in SENTENCE_END.split(text):
        subject = _without_contrast(sentence)
        if _ASIDE.match(sentence) or _REFUSES.search(subject):
            continue
        letters = ((start, end, {place}) for start, end, place in islice(letter_places(subject), MOST))
        for start, end, places in (*letters, *choices.places(subject)):
            if not places <= found and _PRAISED.match(subject, end) and not is_denied_before(subject, start):
                found |= places
    return found


def _is_one(text: str, choices: Options, question: str) -> set[int]:
    """The option that a sentence says it is: "It's edema", "the finding is edema" to "Which finding is present?"."""
    asked = set(words(question).split()) - _SMALL_WORDS
    found: set[int] = set()
    for sentence in SENTENCE_END.split(text):
        for match in islice(_IS.finditer(sentence), MOST):
            subject = words(sentence[max(match.start() - 60, 0) : match.start()]).split()[-6:]
            if not _says_nothing(sentence) and (match["it"] or asked & set(subject)):
                found |= choices.starting(_CHOICE_END.split(sentence[match.end() :][:200], maxsplit=1)[0])
    return found if len(found) == 1 else set()


def _without_contrast(sentence: str) -> str:
    contrast = _CONTRAST.match(sentence)
    return sentence[contrast.end() :] if contrast else sentence


def _concluded(text: str, choices: Options) -> set[int]:
    """The one option that the last conclusion with one names."""
    for sentence in reversed(SENTENCE_END.split(text)):
        if _CONCLUDES.match(sentence) and not _REFUSES.search(sentence) and not _ASIDE.match(sentence):
            kept = COMPARED.split(_without_contrast(sentence), maxsplit=1)[0]
            found = together(choices.said_in(kept).asserted, letters_in(kept, choices), choices)
            if len(found) == 1:
                return found
    return set()


def _mentions(text: str, choices: Options, *, absence: bool) -> set[int]:
    """Every option that is asserted; asked for what is absent, the one that is denied."""
    asserted: set[int] = set()
    denied: set[int] = set()
    implied: set[int] = set()
    for sentence in SENTENCE_END.split(NO.sub(r"\1. ", text)):
        said = choices.said_in(sentence)
        asserted |= set() if _says_nothing(sentence) else said.asserted
        denied |= said.denied
        implied |= said.implied
    asserted = asserted or implied
    if NO.search(text) and not all(says_denial(choices.words[place]) for place in asserted):
        return {CONFLICT}  # "No, edema" denies and names
    asserted = together(asserted, letters_in(text, choices), choices)
    if absence and denied:  # what a description asserts is present, and not what was asked for
        return denied - asserted if len(denied - asserted) == 1 else {CONFLICT}
    if not asserted:
        return {CONFLICT} if denied else set()
    return {CONFLICT} if _DECLINES.search(text) or (len(asserted) == 1 and asserted <= denied) else asserted


def _says_nothing(sentence: str) -> bool:
    return bool(_REFUSES.search(sentence) or _ASIDE.match(sentence) or _WOULD.search(sentence))


def _yes_or_no(text: str, choices: Options, question: str) -> set[int]:
    outcome = read_yes_no(text, question) if choices.are_yes_and_no else "none"
    return {choices.yes_no.index(outcome)} if outcome in ("yes", "no") else set()
