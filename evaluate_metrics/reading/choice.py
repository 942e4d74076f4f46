"""Reads free text as one of a question's options. What cannot be read is an outcome of its own; nothing is guessed.

Reasoning is dropped first (`reasoning`), then markup (`markup`), then a list that only repeats all options. Of these
stages, in this order, the first that says anything decides:

1. "text": the whole answer is one option's text;
2. "marked": a JSON field that names an answer, or the last box of LaTeX;
3. "listed": a list gives each option a truth value or a probability, and one of them is true or the highest;
4. "final", then "answer": "Final answer: ...", "The answer is ...", each together with a letter alone on the last line;
5. "ticked": the option on the line with a tick;
6. "opening": the letter that the answer begins with;
7. "chosen": "I choose ...", "the most likely diagnosis is ...", "... is the correct option";
8. "lettered": a letter beside its own option's text, within a sentence;
9. "stated": "It is ...", and "... is ..." of what the question asks for;
10. "beginning": the option's text that the answer begins with;
11. "conclusion": the last sentence that begins with "Therefore" or the like and names one option;
12. "mentions": every letter, and every option that clauses assert. Asked for what is absent, the one that they deny;
13. "yes or no": where the options are yes and no, sentences that state or deny what was asked (`yes_no`).

From stage 9 on, only clauses that assert or deny count (`clauses`). A negated option ("No edema") is chosen by prose
only where a clause denies its finding and none asserts it. Two different options within the deciding stage, or a
letter beside another option's text, are ambiguous, and so is an option that is only mentioned to be denied or compared
with. A hedged choice ("I think B", "could be B") is the choice. Of a reasoning that never ends, an answer is read only
where one option is stated and no other, and without a doubt. Of a text that is cut, the last line never decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, reduce
from itertools import islice
from operator import or_
from typing import NamedTuple

from .clauses import plain, split_clauses
from .cues import classify
from .letters import index, is_denied_before, letter_places, letters_beside_texts, letters_in
from .markup import CROSS, TICK, readable
from .naming import (
    COMPARED,
    NO,
    NOTHING,
    SENTENCE_END,
    Named,
    asserted_in,
    letter_alone,
    object_named,
    opening_letter,
    together,
)
from .option_values import highest_valued
from .options import CONFLICT, MOST, Options
from .outcome import Evidence, Outcome, Reason
from .reasoning import LIMIT, answer_span, looks_cut, without_cut
from .statements import Statement, drop_corrected, fields, statements
from .words import word_set, words
from .yes_no import explain_yes_no


class Answer(NamedTuple):
    """An answer read as one of the options.

    Attributes:
        choice: Index into the options; None unless the outcome is "answered".
        outcome: "answered", "declined" or "unread".
        stage: The stage that decided, "" where none did.
        reason: Why the answer is unread, "" for the other outcomes.
        evidence: What the choice was read from, "" unless the outcome is "answered".
    """

    choice: int | None
    outcome: Outcome
    stage: str = ""
    reason: Reason = ""
    evidence: Evidence = ""


_DOUBT = re.compile(r"\b(?:wait|hmm+|maybe|perhaps|let me|let's|alternatively|not sure|unsure|or)\b|\?", re.IGNORECASE)
_CONTRAST = re.compile(  # "While A shows ..., B ..."
    r"\W*(?:while|although|though|whereas|even though|unlike|compared (?:to|with)|in (?:contrast"
    r"|comparison) (?:to|with))"
    r"\b[^,]*,",
    re.IGNORECASE,
)
_IF = re.compile(r"\bif (?!(?:I|we|you|one|forced|pressed|only)\b)", re.IGNORECASE)
_PART = re.compile(r"[^?\n]+[?\n]?")
_EXCLUDED = re.compile(r"\b(?:can ?not|can't|not) be (?:excluded|ruled out)\b", re.IGNORECASE)
_ASIDE = re.compile(  # sentences about other options, or on a condition
    r"\W*(?:in contrast|by contrast|conversely|on the other hand|if|when|the (?:other|remaining) (?:options?"
    r"|choices?))\b",
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
_SMALL_WORDS = word_set(
    """
    a an the is are of in on to this that these those which what who how does do for with by it present seen shown
    following listed
    """
)
_ARTICLE = re.compile(r"\W*(?:an?|the) ", re.IGNORECASE)
_PRAISED = re.compile(  # behind an option: "is the correct one", "fits best"
    r"[)\]]?(?:,? (?:and|or) [A-Z]\b){0,6}"
    r"(?: (?!(?:not|n't|than|and|or|but|while|is|are|would|seems?|appears?|best|most)\b)[^\s.;:]{1,30}){0,6}[,)]?"
    r" (?:is|are|would be|seems|seems to be|appears|appears to be|stands out as|remains)"
    r" (?:indeed |clearly |therefore |likely |also )?(?:(?:the|my) (?:(?!less|least|not)\w+ ){0,2}?)?"
    r"(?:(?:most |more )?(?:correct|right|best|likely|appropriate|accurate|suitable|plausible|probable|similar"
    r"|consistent"
    r"|fitting|closely|closest)(?! than\b)|closest|answer|final answer|choice|closer|darker)\b"
    r"|[)\]]? (?:best |most closely |most accurately )?(?:fits|matches|describes|explains|applies)"
    r"(?: (?:best|most|to|the|these)\b|[.,]|$)",
    re.IGNORECASE,
)


def parse_answer(text: str | None, options: Sequence[str], question: str = "", *, cut: bool = False) -> Answer:
    """Read the option that a model's text chooses.

    Args:
        text: the response: a letter, an option's text, or sentences.
        options: the answer set in the order shown, lettered from A.
        question: what was asked. It tells whether a denied option is the answer, and what yes and no would mean.
        cut: the text is known to be cut, as at a limit of tokens; without it the end of the text tells.

    Returns:
        The answer, with its outcome, and with the stage, the reason and the evidence of it.

    >>> parse_answer("The answer is (B).", ["Edema", "No edema", "Atelectasis"])
    Answer(choice=1, outcome='answered', stage='answer', reason='', evidence='letter')
    >>> parse_answer("There is no edema.", ["Edema", "No edema", "Atelectasis"]).choice
    1
    >>> parse_answer("A. No edema", ["Edema", "No edema", "Atelectasis"]).reason
    'ambiguous'
    >>> parse_answer("I cannot tell whether there is edema.", ["Edema", "No edema", "Atelectasis"]).outcome
    'declined'
    """
    written = text or ""
    start, end, how = answer_span(written)
    absence = bool(_ASKS_ABSENCE.search(question))
    is_cut = cut or looks_cut(written)
    part, choices = without_cut(written[start:end], cut=cut), _options(tuple(options))
    clean = choices.without_echo(readable(part)[:LIMIT])
    if not clean or (how == "open reasoning" and _DOUBT.search(clean)):
        return Answer(None, "unread", reason="cut" if is_cut else "none" if clean else "empty")
    stated = drop_corrected([*fields(part), *statements(clean)], clean)
    last = NOTHING if is_cut else _last_line(clean, choices)
    stages: dict[str, Callable[[], Named]] = {
        "text": lambda: _whole(clean, choices),
        "marked": lambda: _marked(stated, choices),
        "listed": lambda: highest_valued(part, choices, absence=absence),
        "final": lambda: _stated(stated, "final", choices, last),
        "answer": lambda: _stated(stated, "answer", choices) | last,
        "ticked": lambda: _ticked(clean, choices),
        "opening": lambda: _openings(clean, choices),
        "chosen": lambda: _stated(stated, "chosen", choices) | _praised(clean, choices),
        "lettered": lambda: _lettered(clean, choices),
        "stated": lambda: NOTHING if absence else _is_one(clean, choices, question),
        "beginning": lambda: NOTHING if absence else _opening_text(clean, choices),
        "conclusion": lambda: _concluded(clean, choices),
        "mentions": lambda: _mentions(clean, choices, absence=absence),
        "yes or no": lambda: _yes_or_no(part, choices, question),
    }
    if how == "open reasoning":
        found = _any(stages[name]() for name in stages if name not in ("opening", "listed"))
        return _settle(found._replace(evidence="prose"), choices.n, how)
    stage, found = "", NOTHING
    for stage, read in stages.items():  # noqa: B007
        found = read()
        if found.places or found.declined:
            break
    answer = _settle(found, choices.n, stage)
    if stage == "mentions" and answer.evidence == "prose" and _declines_between(clean, choices):
        return Answer(None, "declined", "prose")
    if answer.outcome == "unread" and answer.stage in ("", "mentions", "stated", "conclusion") and _declines(clean):
        return Answer(None, "declined", "prose")
    if is_cut and answer.reason in ("none", "ambiguous"):
        return answer._replace(reason="cut")
    return answer


@lru_cache(maxsize=256)
def _options(options: tuple[str, ...]) -> Options:
    return Options(options)


def _settle(found: Named, n_options: int, stage: str) -> Answer:
    if not found.places:
        return Answer(None, "declined", stage) if found.declined else Answer(None, "unread", reason="none")
    if len(found.places) > 1 or CONFLICT in found.places:
        return Answer(None, "unread", stage, "ambiguous")
    (choice,) = found.places
    if choice >= n_options:
        return Answer(None, "unread", stage, "out_of_range")
    return Answer(choice, "answered", stage, evidence=found.evidence)


def _any(found: Iterator[Named]) -> Named:
    return reduce(or_, found, NOTHING)


def _declines(text: str) -> bool:
    """Whether a clause says that the answer cannot or will not be told."""
    return any(clause.act == "decline" for clause in split_clauses(text))


def _declines_between(text: str, choices: Options) -> bool:
    """Whether a clause cannot tell between two options that it names, which decides against a mere mention of one."""
    refusals = [clause.text for clause in split_clauses(text) if clause.act == "decline"]
    return any(len(choices.names_in(refusal)) > 1 for refusal in refusals)


def _whole(text: str, choices: Options) -> Named:
    """The option whose text, or the beginning of whose text, is all that is said; with a letter behind it, both."""
    if NO.search(text) or text.endswith("?"):
        return NOTHING
    said = words(text)
    if choices.of(said):
        return Named(choices.of(said), "text")
    if len(said) > 1 and said not in ("yes", "no") and choices.beginning_with(said):
        return Named(choices.beginning_with(said), "text")
    before, _, letter = said.rpartition(" ")
    both = choices.of(before) | {index(letter)} if re.fullmatch("[a-z]", letter) and choices.of(before) else set()
    return Named(both, "letter")


def _marked(stated: Sequence[Statement], choices: Options) -> Named:
    """What the fields of a JSON object say, or the last box: the boxes before it hold results on the way."""
    in_fields = _any(object_named(one.said, choices, value=True) for one in stated if one.kind == "field")
    last_boxes = islice((one for one in reversed(stated) if one.kind == "box"), MOST)
    boxes = (object_named(one.said, choices, value=True) for one in last_boxes)
    return in_fields if in_fields.places else next((box for box in boxes if box.places), in_fields)


def _stated(stated: Sequence[Statement], kind: str, choices: Options, last: Named = NOTHING) -> Named:
    """What statements of a kind name; with the letter on the last line where they name anything."""
    found = _any(object_named(said, choices) for said in {one.said: None for one in stated if one.kind == kind})
    return found | last if found.places else found


def _last_line(text: str, choices: Options) -> Named:
    """The letter alone on the last line, with what contradicts it: other such lines, or one option chosen before it."""
    *before, last = text.split("\n")
    alone = letter_alone(last, choices)
    if not alone:
        return NOTHING
    alone = alone.union(*(letter_alone(line, choices) for line in before[-MOST:]))
    opened = set[int]().union(*(opening_letter(line, choices) for line in before[-MOST:]))
    # Several: the options, listed before the choice.
    return Named(alone | opened if len(opened) == 1 else alone, "letter")


def _openings(text: str, choices: Options) -> Named:
    """What the text begins with, and what the lines right below it begin with."""
    first, *later = text.split("\n")
    found = opening_letter(first, choices)
    for line in later if found else ():
        more = opening_letter(line, choices)
        if not more:
            break
        found = found | more
    return Named(found, "letter")


def _ticked(text: str, choices: Options) -> Named:
    """The option of the line with a tick."""
    ticked = [line.replace(TICK, "") for line in text.split("\n") if TICK in line and CROSS not in line]
    letters = [opening_letter(line, choices) for line in ticked[:MOST]]
    texts = [asserted_in(line, choices) for line, found in zip(ticked, letters, strict=False) if not found]
    return Named(set[int]().union(*letters, *texts), "letter" if any(letters) else "text")


def _praised(text: str, choices: Options) -> Named:
    """Options that a sentence calls the right one."""
    found, evidence = set[int](), ""
    for sentence in SENTENCE_END.split(text):
        subject = _without_contrast(sentence)
        if _ASIDE.match(sentence) or _IF.search(sentence) or classify(plain(subject)) == "decline":
            continue
        letters = ((start, end, {place}) for start, end, place in islice(letter_places(subject), MOST))
        texts = choices.places(subject)
        for start, end, places in (*letters, *texts):
            if not places <= found and _PRAISED.match(subject, end) and not is_denied_before(subject, start):
                found |= places
                evidence = "text" if (start, end, places) in texts else "letter"
    return Named(found, evidence)


def _lettered(text: str, choices: Options) -> Named:
    """The letter that stands beside its own option's text within a sentence that states it."""
    found = set[int]()
    for sentence in SENTENCE_END.split(text):
        if not _ASIDE.match(sentence) and classify(plain(sentence)) == "state":
            found |= letters_beside_texts(_without_contrast(sentence), choices, prefix=True)
    return Named(found if len(found) == 1 else set(), "letter")


def _is_one(text: str, choices: Options, question: str) -> Named:
    """The option that a clause says it is: "It's edema", "the finding is edema" to "Which finding is present?"."""
    asked = set(words(question).split()) - _SMALL_WORDS
    found: set[int] = set()
    for clause in split_clauses(text):
        named: set[int] = set()
        for match in islice(_IS.finditer(clause.text), MOST) if clause.act == "state" else ():
            subject = words(clause.text[max(match.start() - 60, 0) : match.start()]).split()[-6:]
            if match["it"] or asked & set(subject):
                named |= choices.starting(_CHOICE_END.split(clause.text[match.end() :][:200], maxsplit=1)[0])
        found |= named & asserted_in(clause.text, choices) if named else named
    return Named(found if len(found) == 1 else set(), "text")


def _opening_text(text: str, choices: Options) -> Named:
    """The option that the first sentence begins with and asserts, and every option that is a sentence by itself."""
    first, *later = [sentence for sentence in SENTENCE_END.split(text) if sentence.strip()] or [""]
    if text.lstrip()[len(first.lstrip()) :].startswith("?"):
        return NOTHING
    article = _ARTICLE.match(first)
    begun = choices.starting(first[article.end() :] if article else first)
    said = choices.read_prose(first) if begun and not NO.search(text) else None
    asserted = said.asserted | said.negated if said else set()
    if said is None or len(asserted) != 1 or begun & said.denied or not begun & asserted:
        return NOTHING
    return Named(asserted.union(*(choices.of(words(sentence)) for sentence in later[:MOST])), "text")


def _without_contrast(sentence: str) -> str:
    contrast = _CONTRAST.match(sentence)
    return sentence[contrast.end() :] if contrast else sentence


def _concluded(text: str, choices: Options) -> Named:
    """The one option that the last conclusion with one names."""
    for sentence in reversed(SENTENCE_END.split(text)):
        if _CONCLUDES.match(sentence) and not _ASIDE.match(sentence) and classify(plain(sentence)) != "decline":
            kept = COMPARED.split(_without_contrast(sentence), maxsplit=1)[0]
            letters = letters_in(kept, choices)
            found = together(asserted_in(kept, choices), letters, choices)
            if len(found) == 1:
                return Named(found, "letter" if letters else "prose")
    return NOTHING


def _mentions(text: str, choices: Options, *, absence: bool) -> Named:
    """Every option that clauses assert; asked for what is absent, the one that they deny."""
    said = choices.read_prose(NO.sub(r"\1. ", text))
    if absence and said.denied:  # what a description asserts is present, and not what was asked for
        left = said.denied - said.asserted
        named = {place for _, _, places in choices.places(text) for place in places}
        return Named(left if len(left) == 1 and not named & said.negated else {CONFLICT}, "prose")
    negated = {place for place in said.negated if not choices.of(choices.findings[place]) & said.asserted}
    found = set() if absence else said.asserted or negated  # what is there answers before what is not
    if NO.search(text) and not found <= negated:
        return Named({CONFLICT}, "prose")  # "No, edema" denies and names
    sentences = [
        one
        for part in _PART.findall(text)
        for one in SENTENCE_END.split(part)[: -2 if part.endswith("?") else None]  # without the question itself
        if classify(plain(one)) not in ("decline", "ask", "general") and not (_IF.search(one) or _EXCLUDED.search(one))
    ]
    letters = set[int]().union(*(letters_in(sentence, choices) for sentence in sentences))
    found = together(found, letters, choices)
    if (said.denied and not found) or (len(found) == 1 and found <= said.denied):
        return Named({CONFLICT}, "prose")
    return Named(found, "letter" if letters else "prose")


def _yes_or_no(text: str, choices: Options, question: str) -> Named:
    if not choices.are_yes_and_no:
        return NOTHING
    read = explain_yes_no(text, question)
    if read.answer is None:
        return Named(set(), declined=read.outcome == "declined")
    return Named({choices.yes_no.index(read.answer)}, read.evidence)
