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

from .letters import index, is_denied_before, letter_places, letters_beside_texts, letters_in
from .markup import CROSS, TICK, readable
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
_SENTENCE_END = re.compile(r"(?:(?<![^\w][A-Z])(?<!\A[A-Z])(?<!\bvs)[.](?=\s|$)|[;!?\n])+")
_NO = re.compile(r"\b(no)\s?(?:[,:;.!—–]|-\s)(?=\s?\w)", re.IGNORECASE)  # "No, ...": a reply, not part of "No edema"

# What comes behind is a reason, or only compared with, and chooses nothing.
_REASON = re.compile(r"\b(?:because|since|as|due|given)\b", re.IGNORECASE)
_COMPARED = re.compile(
    r",? ?\b(?:than|unlike|compared (?:to|with)|in (?:contrast|comparison) (?:to|with)|as opposed to|rather than"
    r"|instead of|whereas|while|although|though|versus|vs|not|excluding|except|over)\b",
    re.IGNORECASE,
)
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

# What follows "The answer is".
_FILLER = re.compile(
    r"[\s:=>\-–—•#]{0,6}(?:(?:most likely|probably|likely|indeed|clearly|therefore|simply|just|definitely|actually|that"
    r"|it is|it's|is|be|to be|as|would be|the|with|towards?|for|correct|option|choice|letter|answer|number|statement)"
    r"\b[\s:]{0,3}){0,5}",
    re.IGNORECASE,
)
_NONE_OF_THEM = re.compile(
    r"\W*(?:none|neither|nothing|no (?:correct )?(?:option|choice|answer)|unclear|unknown|uncertain|undetermined"
    r"|indeterminate|not (?:listed|given|possible|clear|available|provided)|n/?a\b|can ?not|unable|impossible|either\b"
    r"|all of)",
    re.IGNORECASE,
)
_DENIED_OBJECT = re.compile(r"\W*(?:definitely |clearly |certainly |likely )?(?:not|never|neither)\b", re.IGNORECASE)
_ORDINAL = re.compile(
    r"(?:the )?(?P<place>first|second|third|fourth|fifth|last|1st|2nd|3rd|4th|5th)"
    r" (?:option|choice|statement|answer)\b",
    re.IGNORECASE,
)
_ORDINALS = {"fir": 0, "1st": 0, "sec": 1, "2nd": 1, "thi": 2, "3rd": 2, "fou": 3, "4th": 3, "fif": 4, "5th": 4}
_LETTER = re.compile(
    r"(?P<open>[(\[]?) ?(?P<letter>[A-Za-z])"
    r"(?:(?P<close> ?[)\]])|(?P<stop> ?[.:,;!](?!\w)| ?[-–—=](?=\s))|(?=\s|$|[.:,;!/&+\-]))"
)
_MORE_LETTERS = re.compile(
    r"(?:[.)\]]?\s?(?:,|/|&|\+|\band\b|\bor\b)\s?|[)\]]?\s(?=[(\[A-Z])|[)\]]?(?=[(\[]))(?:and |or )?"
    r"(?:option |choice )?[(\[]?(?P<letter>[A-Z])(?![\w'’])(?!\s(?!and\b|or\b)[a-z])"
)
_OR_LETTER = re.compile(
    r"\b(?:or|(?:could|may|might) (?:also )?be)\W{1,3}(?:option |choice )?[(\[]?(?P<letter>[A-Z])\b(?![\w'’])"
)
_MORE_TEXT = re.compile(r" (?:and|or|with|as well as|but could be|but may be)\b")
_ABBREVIATION = re.compile(r"[A-Za-z]\.[A-Za-z]\b|[A-Za-z]-\w")  # "e.g.", "A.P. view", "X-ray"
# What may stand behind a letter without a stop. "A" and "I" may be words, which need more than another letter does.
_AFTER_BARE = re.compile(
    r" (?:because|since|as|due|given|but|although|though|while|rather than|instead of|and|or|not)\b|[,/&+]"
)
_AFTER_BARE_A = re.compile(r" (?:which|with|based|for|is)\b|\n")
_WRONG = re.compile(
    r" (?:is|are|was|seems) (?:clearly |also )?(?:not|wrong|incorrect|false|unlikely|less|ruled out|excluded)\b"
)
_ARTICLE = re.compile(r"\W*(?:an?|the) ", re.IGNORECASE)
_BULLET = re.compile(r"[\s>#•\-–+]*(?:(?:step ?)?\d{1,2} ?[.):\-] )?", re.IGNORECASE)
_ALONE = re.compile(r"(?:(?:option|choice) )?[(\[]? ?([A-Za-z]) ?[)\]]? ?[.:,;!]? ?", re.IGNORECASE)
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
    if _NO.search(text):
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
    in_fields = _any(_object(one.said, choices, value=True) for one in stated if one.kind == "field")
    boxes = (_object(one.said, choices, value=True) for one in reversed(stated) if one.kind == "box")
    return in_fields or next(filter(None, boxes), set())


def _stated(stated: Sequence[Statement], kind: str, choices: Options) -> set[int]:
    return _any(_object(said, choices) for said in {one.said for one in stated if one.kind == kind})


def _object(said: str, choices: Options, *, value: bool = False) -> set[int]:
    """The option that the words behind "The answer is" name; value: they are a field of JSON or a box, no sentence."""
    filler = _FILLER.match(said)
    tail = said[filler.end() :] if filler else said
    sentence = _SENTENCE_END.split(tail, maxsplit=1)[0]
    begun = choices.starting(sentence) or (choices.beginning_with(words(sentence)) if value else set())
    if begun:
        return _with_others(begun, sentence, choices) if choices.are_yes_and_no or not _NO.match(tail) else {CONFLICT}
    if _NONE_OF_THEM.match(tail):
        return {CONFLICT}
    if _DENIED_OBJECT.match(tail):
        return set()
    ordinal = _ORDINAL.match(tail)
    if ordinal:
        return {_ORDINALS.get(ordinal["place"].lower()[:3], choices.n - 1)}
    letter = _LETTER.match(tail)
    if letter and (value or _is_letter(letter, tail, choices)):
        return _with_text(index(letter["letter"]), tail[letter.end("letter") :], choices)
    return choices.said_in(_chosen_part(sentence)).asserted | letters_in(sentence, choices)


def _is_letter(match: re.Match[str], text: str, choices: Options) -> bool:
    """Whether a letter at the beginning of words names an option and is no article and no pronoun."""
    marked = bool(match["open"] or match["close"] or match["stop"])
    letter, rest = match["letter"], text[match.end() :]
    if _is_pronoun(match, choices):
        return False
    if marked or not rest.strip() or letter.islower():
        return marked or not rest.strip()
    own = choices.words[0] if choices.n else ""
    behind = _AFTER_BARE.match(rest) or _AFTER_BARE_A.match(rest) or (own and words(rest).startswith(own))
    return letter not in "AI" or bool(behind)


def _is_pronoun(match: re.Match[str], choices: Options) -> bool:
    return match["letter"] in "Ii" and choices.n < 9 and not match["open"]


def _chosen_part(sentence: str) -> str:
    """A sentence up to its reason, and to what it only compares with."""
    return _COMPARED.split(_REASON.split(sentence, maxsplit=1)[0], maxsplit=1)[0]


def _with_others(begun: set[int], sentence: str, choices: Options) -> set[int]:
    """The options that a sentence begins with, and those that it asserts besides."""
    texts = {choices.words[place] for place in begun}
    others = {place for place in choices.said_in(_chosen_part(sentence)).asserted if choices.words[place] not in texts}
    letters = letters_in(sentence, choices)
    return _together(begun, letters, choices) | others if len(letters) == 1 else begun | others


def _with_text(letter: int, rest: str, choices: Options) -> set[int]:
    """The letter, and what speaks against it: another option's text or letter that its line also chooses."""
    own = choices.words[letter] if letter < choices.n else None
    sentence = _SENTENCE_END.split(rest.lstrip(" .:,;)]-–—="), maxsplit=1)[0]
    said = words(sentence)
    if own and said.startswith(own):
        sentence = sentence if _MORE_TEXT.match(said[len(own) :]) else ""
    elif (more := _MORE_LETTERS.match(rest)) and index(more["letter"]) != letter:
        return {letter, CONFLICT}
    others = {place for place in choices.said_in(_chosen_part(sentence)).asserted if choices.words[place] != own}
    others |= letters_beside_texts(rest.split("\n", maxsplit=1)[0], choices)
    others |= {index(match["letter"]) for match in _OR_LETTER.finditer(sentence)}
    return {letter, CONFLICT} if others - {letter} else {letter}


def _last_line(text: str, choices: Options) -> set[int]:
    """The letter alone on the last line, with what contradicts it: other such lines, or one option chosen before it."""
    *before, last = text.split("\n")
    alone = _alone(last, choices)
    if not alone:
        return set()
    alone |= _any(_alone(line, choices) for line in before[-MOST:])
    opened = _any(_opening(line, choices) for line in before[-MOST:])
    return alone | opened if len(opened) == 1 else alone  # several: the options, listed before the choice


def _alone(line: str, choices: Options) -> set[int]:
    match = _ALONE.fullmatch(_without_bullet(line))
    return {index(match[1])} if match and (match[1] not in "Ii" or choices.n > 8) else set()


def _without_bullet(line: str) -> str:
    bullet = _BULLET.match(line)
    return line[bullet.end() :] if bullet else line


def _openings(text: str, choices: Options) -> set[int]:
    """What the text begins with, and what the lines right below it begin with."""
    first, *later = text.split("\n")
    found = _opening(first, choices)
    for line in later if found else ():
        more = _opening(line, choices)
        if not more:
            break
        found = found | more
    return found


def _opening(line: str, choices: Options) -> set[int]:
    """The letter that a line begins with."""
    line = _without_bullet(line)
    tail = line[7:] if line[:7].casefold() in {"option ", "choice "} else line
    match = _LETTER.match(tail)
    if not match or _is_pronoun(match, choices) or (match["open"] and not match["close"]):
        return set()
    if _WRONG.match(tail, match.end()):
        return set()
    letter, rest, capital = index(match["letter"]), tail[match.end() :], match["letter"].isupper()
    own = choices.words[letter] if letter < choices.n else ""
    if (
        match["close"]
        or (match["stop"] and not _ABBREVIATION.match(tail))
        or not rest.strip()
        or (capital and (_AFTER_BARE.match(rest) or _MORE_LETTERS.match(rest)))
        or (capital and own and words(rest).startswith(own))
    ):
        return _with_text(letter, tail[match.end("letter") :], choices)
    # "B edema", where edema is another option; "A pleural effusion" is none.
    return {letter, CONFLICT} if capital and match["letter"] not in "AI" and choices.starting(rest) else set()


def _opening_text(text: str, choices: Options) -> set[int]:
    """The option that the first sentence begins with and asserts, and every option that is a sentence by itself."""
    first, *later = [sentence for sentence in _SENTENCE_END.split(text) if sentence.strip()] or [""]
    article = _ARTICLE.match(first)
    begun = choices.starting(first[article.end() :] if article else first)
    asserted, denied = choices.said_in(_COMPARED.split(first, maxsplit=1)[0]).asserted, choices.said_in(first).denied
    if (
        not begun
        or len(asserted) != 1
        or begun & denied
        or _NO.search(text)
        or _DEFINES.match(first)
        or _says_nothing(first)
    ):
        return set()
    return asserted | _any(choices.of(words(sentence)) for sentence in later[:MOST])


def _ticked(text: str, choices: Options) -> set[int]:
    """The option of the line with a tick."""
    ticked = [line.replace(TICK, "") for line in text.split("\n") if TICK in line and CROSS not in line]
    return _any(_opening(line, choices) or choices.said_in(line).asserted for line in ticked[:MOST])


def _praised(text: str, choices: Options) -> set[int]:
    """Options that a sentence calls the right one."""
    found: set[int] = set()
    for sentence in _SENTENCE_END.split(text):
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
    for sentence in _SENTENCE_END.split(text):
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
    for sentence in reversed(_SENTENCE_END.split(text)):
        if _CONCLUDES.match(sentence) and not _REFUSES.search(sentence) and not _ASIDE.match(sentence):
            kept = _COMPARED.split(_without_contrast(sentence), maxsplit=1)[0]
            found = _together(choices.said_in(kept).asserted, letters_in(kept, choices), choices)
            if len(found) == 1:
                return found
    return set()


def _mentions(text: str, choices: Options, *, absence: bool) -> set[int]:
    """Every option that is asserted; asked for what is absent, the one that is denied."""
    asserted: set[int] = set()
    denied: set[int] = set()
    implied: set[int] = set()
    for sentence in _SENTENCE_END.split(_NO.sub(r"\1. ", text)):
        said = choices.said_in(sentence)
        asserted |= set() if _says_nothing(sentence) else said.asserted
        denied |= said.denied
        implied |= said.implied
    asserted = asserted or implied
    if _NO.search(text) and not all(says_denial(choices.words[place]) for place in asserted):
        return {CONFLICT}  # "No, edema" denies and names
    asserted = _together(asserted, letters_in(text, choices), choices)
    if absence and denied:  # what a description asserts is present, and not what was asked for
        return denied - asserted if len(denied - asserted) == 1 else {CONFLICT}
    if not asserted:
        return {CONFLICT} if denied else set()
    return {CONFLICT} if _DECLINES.search(text) or (len(asserted) == 1 and asserted <= denied) else asserted


def _says_nothing(sentence: str) -> bool:
    return bool(_REFUSES.search(sentence) or _ASIDE.match(sentence) or _WOULD.search(sentence))


def _together(texts: set[int], letters: set[int], choices: Options) -> set[int]:
    """Texts and letters: of two options of one text, the letter tells which."""
    one_text = len({choices.words[place] for place in texts}) == 1
    return letters if one_text and len(letters) == 1 and letters < texts else texts | letters


def _yes_or_no(text: str, choices: Options, question: str) -> set[int]:
    outcome = read_yes_no(text, question) if choices.are_yes_and_no else "none"
    return {choices.yes_no.index(outcome)} if outcome in ("yes", "no") else set()
