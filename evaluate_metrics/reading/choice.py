"""Reader of free text as one of a question's options. Unreadable text is an outcome of its own; nothing is guessed.

Reasoning is removed first (`reasoning`), then markup (`markup`), then a list that only repeats all options. The first
of these stages with a result decides:

1. "text": the full answer is one option's text;
2. "marked": a JSON field that names an answer, or the last box of LaTeX;
3. "listed": a list gives each option a truth value or a probability, and one of them is true or the highest;
4. "final", then "answer": "Final answer: ...", "The answer is ...", each with a single letter on the last line;
5. "ticked": the option on the line with a tick;
6. "opening": the letter at the beginning of the answer;
7. "chosen": "I choose ...", "the most likely diagnosis is ...", "... is the correct option";
8. "lettered": a letter next to its own option's text, within a sentence;
9. "stated": "It is ...", and "... is ..." with a word of the question as its subject;
10. "beginning": the option's text at the beginning of the answer;
11. "conclusion": the last sentence that begins with "Therefore" or a similar word and names one option;
12. "mentions": every letter, and every option that clauses assert; for absent findings, the option that they deny;
13. "described": the option whose words a clause asserts in another order;
14. "yes or no": if the options are yes and no, sentences that state or deny the finding of the question (`yes_no`).

From stage 9 on, only clauses that assert or deny count (`clauses`). Prose chooses a negated option ("No edema") only if
a clause denies its finding and no clause asserts it. Two different options within the deciding stage, or a letter next
to another option's text, are ambiguous. An option that is only denied or compared is ambiguous, too. A hedged choice
("I think B", "could be B") is a choice. In a reasoning without an end, an answer is read only if it states exactly one
option, without a doubt. The last line of a truncated text never decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, reduce
from itertools import islice
from operator import or_
from typing import NamedTuple

from .clauses import plain, split_clauses
from .comparisons import keep_preferred
from .cues import classify
from .denial_words import SEEN
from .described_options import find_described
from .empty_replies import remove_examples, remove_politeness
from .letters import find_letters, find_letters_with_texts, get_letter_index, is_denied_before, iterate_letter_places
from .markup import BOX, CROSS, TICK, readable
from .naming import (
    COMPARED,
    NO,
    NOTHING,
    SENTENCE_END,
    Named,
    find_asserted,
    find_named_options,
    find_opening_letter,
    find_ordinal,
    find_single_letter,
    merge_places,
)
from .option_kinds import is_undetermined, write_out_options
from .option_predicates import asks_for_absence, relate_to_question
from .option_values import find_highest_valued
from .options import CONFLICT, MOST, Options
from .outcome import Evidence, Outcome, Reason
from .reasoning import LIMIT, find_answer_span, is_truncated, remove_unfinished
from .shared_ends import write_out_shared_ends
from .spelling import correct_spelling
from .stated_options import read_predicates
from .statements import Statement, fields, find_correction, remove_corrected, remove_retracted, statements
from .words import unify_spelling, words
from .yes_no import ALTERNATIVES, explain_yes_no


class Answer(NamedTuple):
    """An answer read as one of the options.

    Attributes:
        choice: Index into the options; None unless the outcome is "answered".
        outcome: "answered", "declined" or "unread".
        stage: The stage that decided, "" without one.
        reason: The reason of an unread answer, "" for the other outcomes.
        evidence: The source of the choice, "" unless the outcome is "answered".
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
_CONDITION = re.compile(r"\b(?:had|were) (?:there|it)\b|\bif (?!(?:I|we|you|one|forced|pressed|only)\b)", re.IGNORECASE)
_PART = re.compile(r"[^?\n]+[?\n]?")
_EXCLUDED = re.compile(r"\b(?:can ?not|can't|not) be (?:excluded|ruled out)\b", re.IGNORECASE)
_ASKED = re.compile(r"\A\W*\?|\?\W*\Z")  # "?edema", "Edema (?)"
_ASIDE = re.compile(  # sentences about other options, or with a condition
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
# "Edema, option B", "Edema (B)", "Edema - option 2"
_TEXT_AND_PLACE = re.compile(
    r"(?P<text>.+?)(?: i e)?"
    r"(?:(?: (?:option|choice|letter|answer))? (?P<letter>[a-z])| (?:option|choice) (?P<number>[1-9]))"
)
_JOINED_BOX = re.compile(rf"[^{BOX}\n]{{1,60}}?(?:\b(?:and|or)\b|[&,/;])[^\w{BOX}]{{0,3}}{BOX}")
_ALSO = re.compile(r"\b(?:also|too|additionally|in addition|as well|another)\b", re.IGNORECASE)
# Two findings, of which an option may be named in words of its own: "A lone nodule and edema are both seen"
_BOTH_SEEN = re.compile(
    rf"\band\b[^.;\n]{{1,60}}? both(?: are)? (?:\w+ly )?{SEEN}\b"
    rf"|\bboth an? [^.;,\n]{{1,60}}? and [^.;\n]{{1,60}}? are (?:\w+ly )?{SEEN}\b",
    re.IGNORECASE,
)
_PROSE_STAGES = ("stated", "beginning", "conclusion", "mentions", "described")
_ARTICLE = re.compile(r"\W*(?:an?|the) ", re.IGNORECASE)
_PRAISED = re.compile(  # after an option: "is the correct one", "fits best"
    r"[)\]]?(?:,? (?:and|or) [A-Z]\b){0,6}"
    r"(?: (?!(?:not|n't|than|and|or|but|while|is|are|would|seems?|appears?|best|most)\b)[^\s.;:]{1,30}){0,6}[,)]?"
    r" (?:is|are|would be|seems|seems to be|appears|appears to be|stands out as|remains)"
    r" (?:indeed |clearly |therefore |likely |also )?(?:(?:the|my) (?:(?!less|least|not)\w+ ){0,2}?)?"
    r"(?:(?:most |more )?(?:correct|right|best|likely|appropriate|accurate|suitable|plausible|probable|similar"
    r"|consistent"
    r"|fitting|closely|closest)(?! than\b| (?:to (?:be|have been) )?(?:\w+ly )?(?:not|wrong|incorrect|false|absent"
    r"|missing|negative|ruled out|excluded|dismissed|rejected|unlikely|implausible|improbable)\b)"
    r"|closest|answer|final answer|choice|closer|darker)\b"
    r"|[)\]]? (?:best |most closely |most accurately )?(?:fits|matches|describes|explains|applies)"
    r"(?: (?:best|most|to|the|these)\b|[.,]|$)",
    re.IGNORECASE,
)


def parse_answer(text: str | None, options: Sequence[str], question: str = "", *, cut: bool = False) -> Answer:
    """Read the option that a model's text chooses.

    Args:
        text: The response: a letter, an option's text, or sentences.
        options: The answer set in the displayed order, lettered from A.
        question: The question. It decides whether a denied option is the answer, and the meaning of yes and no.
        cut: Whether the text is known to be truncated, for example by a token limit; otherwise its end decides.

    Returns:
        The answer, with its outcome, stage, reason and evidence.

    >>> parse_answer("The answer is (B).", ["Edema", "No edema", "Atelectasis"])
    Answer(choice=1, outcome='answered', stage='answer', reason='', evidence='letter')
    >>> parse_answer("There is no edema.", ["Edema", "No edema", "Atelectasis"]).choice
    1
    >>> parse_answer("A. No edema", ["Edema", "No edema", "Atelectasis"]).reason
    'ambiguous'
    >>> parse_answer("I cannot tell whether there is edema.", ["Edema", "No edema", "Atelectasis"]).outcome
    'declined'
    """
    response = unify_spelling(text or "")
    start, end, span_kind = find_answer_span(response)
    is_absence = asks_for_absence(question)
    is_cut = cut or is_truncated(response)
    answer_text = remove_unfinished(response[start:end], cut=cut)
    choices = _get_options(tuple(map(unify_spelling, options)))
    clean = choices.remove_echo(readable(answer_text)[:LIMIT])
    clean = choices.remove_unfinished_list(clean)
    clean = write_out_options(correct_spelling(clean, choices.words), choices.kinds, question)
    clean = write_out_shared_ends(clean, choices.shared_ends)
    clean = relate_to_question(keep_preferred(remove_examples(remove_retracted(clean))), question)
    if choices.are_yes_and_no:
        clean = remove_politeness(ALTERNATIVES.sub(" ", clean))
    if not clean or (span_kind == "open reasoning" and _DOUBT.search(clean)):
        return Answer(None, "unread", reason="cut" if is_cut else "none" if clean else "empty")
    stated = remove_corrected([*fields(answer_text), *statements(clean)], clean)
    last_line = NOTHING if is_cut else _read_last_line(clean, choices)
    stages: dict[str, Callable[[], Named]] = {
        "text": lambda: _read_full_text(clean, choices),
        "marked": lambda: _read_marked(stated, choices),
        "listed": lambda: find_highest_valued(answer_text, choices, absence=is_absence),
        "final": lambda: _read_statements(stated, "final", choices, last_line),
        "answer": lambda: _read_statements(stated, "answer", choices) | last_line,
        "ticked": lambda: _read_ticked(clean, choices),
        "opening": lambda: _read_openings(clean, choices),
        "chosen": lambda: _read_statements(stated, "chosen", choices) | _read_praised(clean, choices),
        "lettered": lambda: _read_lettered(clean, choices),
        "stated": lambda: NOTHING if is_absence else read_predicates(clean, choices, question),
        "beginning": lambda: NOTHING if is_absence else _read_opening_text(clean, choices),
        "conclusion": lambda: _read_conclusion(clean, choices),
        "mentions": lambda: _read_mentions(clean, choices, is_absence=is_absence),
        "described": lambda: NOTHING if is_absence else find_described(clean, choices),
        "yes or no": lambda: _read_yes_or_no(answer_text, choices, question),
    }
    if span_kind == "open reasoning":
        named_options = _merge_named(stages[name]() for name in stages if name not in ("opening", "listed"))
        return _build_answer(named_options._replace(evidence="prose"), choices.n, span_kind)
    stage, named_options = "", NOTHING
    for stage, read_stage in stages.items():  # noqa: B007
        named_options = read_stage()
        if named_options.places or named_options.declined:
            break
    if stage in _PROSE_STAGES and not choices.kinds.both and _BOTH_SEEN.search(clean):
        named_options = named_options | Named({CONFLICT})
    answer = _build_answer(named_options, choices.n, stage)
    if answer.outcome == "declined":
        return _decline(clean, choices, stage)
    is_mention = stage == "mentions" and answer.evidence == "prose"
    is_open = answer.outcome == "unread" and answer.stage in ("", "mentions", "stated", "conclusion")
    if (is_mention and _is_declined_between(clean, choices)) or (is_open and _is_declined(clean)):
        return _decline(clean, choices)
    if is_cut and answer.reason in ("none", "ambiguous"):
        return answer._replace(reason="cut")
    return answer


@lru_cache(maxsize=256)
def _get_options(options: tuple[str, ...]) -> Options:
    return Options(options)


def _build_answer(named_options: Named, n_options: int, stage: str) -> Answer:
    if not named_options.places:
        return Answer(None, "declined", stage) if named_options.declined else Answer(None, "unread", reason="none")
    if len(named_options.places) > 1 or CONFLICT in named_options.places:
        return Answer(None, "unread", stage, "ambiguous")
    (choice,) = named_options.places
    if choice >= n_options:
        return Answer(None, "unread", stage, "out_of_range")
    return Answer(choice, "answered", stage, evidence=named_options.evidence)


def _decline(text: str, choices: Options, stage: str = "prose") -> Answer:
    """Return the outcome of a text that declines: an answer if an option says that it cannot be told."""
    if choices.kinds.undetermined is None or not is_undetermined(text):
        return Answer(None, "declined", stage)
    return Answer(choices.kinds.undetermined, "answered", stage, evidence="prose")


def _merge_named(named_options: Iterator[Named]) -> Named:
    return reduce(or_, named_options, NOTHING)


def _is_declined(text: str) -> bool:
    """Whether a clause says that it cannot or will not answer."""
    return any(clause.act == "decline" for clause in split_clauses(text))


def _is_declined_between(text: str, choices: Options) -> bool:
    """Whether a clause cannot decide between two options that it names, which outweighs a mere mention of one."""
    refusals = [clause.text for clause in split_clauses(text) if clause.act == "decline"]
    return any(len(choices.find_names(refusal)) > 1 for refusal in refusals)


def _read_full_text(text: str, choices: Options) -> Named:
    """Read the option whose text, or its beginning, is the full answer; with a letter after it, both."""
    if NO.search(text) or _ASKED.search(text):
        return NOTHING
    answer_words = words(text)
    ordinal = find_ordinal(answer_words, choices)
    if ordinal is not None:
        return Named({ordinal}, "letter")
    if choices.find_options(answer_words):
        return Named(choices.find_options(answer_words), "text")
    if len(answer_words) > 1 and answer_words not in ("yes", "no") and choices.find_beginning_with(answer_words):
        return Named(choices.find_beginning_with(answer_words), "text")
    match = _TEXT_AND_PLACE.fullmatch(answer_words)
    places = choices.find_options(match["text"]) if match else set[int]()
    if match and places:
        places |= {int(match["number"]) - 1 if match["number"] else get_letter_index(match["letter"])}
    return Named(places, "letter")


def _read_marked(stated: Sequence[Statement], choices: Options) -> Named:
    """Read the fields of a JSON object, or the last box, because earlier boxes contain intermediate results."""
    named_in_fields = _merge_named(
        find_named_options(statement.text, choices, value=True) for statement in stated if statement.kind == "field"
    )
    last_boxes = islice((statement for statement in reversed(stated) if statement.kind == "box"), MOST)
    named_in_boxes = NOTHING
    for statement in last_boxes if not named_in_fields.places else ():
        if named_in_boxes.places and not _JOINED_BOX.match(statement.text):
            break
        named_in_boxes |= find_named_options(statement.text, choices, value=True)
    return named_in_boxes if named_in_boxes.places else named_in_fields


def _read_statements(stated: Sequence[Statement], kind: str, choices: Options, last_line: Named = NOTHING) -> Named:
    """Read statements of a kind; add the letter on the last line if they name an option."""
    named_options = _merge_named(
        find_named_options(statement_words, choices)
        for statement_words in {statement.text: None for statement in stated if statement.kind == kind}
    )
    return named_options | last_line if named_options.places else named_options


def _read_last_line(text: str, choices: Options) -> Named:
    """Read the single letter on the last line, with its contradictions: other such lines, or one earlier choice."""
    *earlier_lines, last_line = text.split("\n")
    single_letters = find_single_letter(last_line, choices)
    if not single_letters:
        return NOTHING
    single_letters = single_letters.union(*(find_single_letter(line, choices) for line in earlier_lines[-MOST:]))
    opening_letters = set[int]().union(*(find_opening_letter(line, choices) for line in earlier_lines[-MOST:]))
    # Several opening letters are a list of the options before the choice.
    return Named(single_letters | opening_letters if len(opening_letters) == 1 else single_letters, "letter")


def _read_openings(text: str, choices: Options) -> Named:
    """Read the letters at the beginning of the text and of the lines immediately below."""
    first_line, *later_lines = text.split("\n")
    places = find_opening_letter(first_line, choices)
    for line in later_lines if places else ():
        next_places = find_opening_letter(line, choices)
        if not next_places:
            break
        places = places | next_places
    correction = find_correction(text)
    if places and correction:  # "A. Wait, B."
        corrected_text = text[correction:].lstrip(" ,.:;!-–—")
        corrected_places = find_opening_letter(corrected_text.split("\n", maxsplit=1)[0], choices)
        corrected_places = corrected_places or find_letters(SENTENCE_END.split(corrected_text, maxsplit=1)[0], choices)
        return Named(corrected_places or places, "letter")
    return Named(places, "letter")


def _read_ticked(text: str, choices: Options) -> Named:
    """Read the option on the line with a tick."""
    ticked_lines = [line.replace(TICK, "") for line in text.split("\n") if TICK in line and CROSS not in line]
    letters = [find_opening_letter(line, choices) for line in ticked_lines[:MOST]]
    texts = [
        find_asserted(line, choices)
        for line, letter_places in zip(ticked_lines, letters, strict=False)
        if not letter_places
    ]
    return Named(set[int]().union(*letters, *texts), "letter" if any(letters) else "text")


def _read_praised(text: str, choices: Options) -> Named:
    """Read the options that a sentence praises as right."""
    praised_places, evidence = set[int](), ""
    for sentence in SENTENCE_END.split(text):
        subject = _remove_contrast(sentence)
        if _ASIDE.match(sentence) or _CONDITION.search(sentence) or classify(plain(subject)) == "decline":
            continue
        letters = ((start, end, {place}) for start, end, place in islice(iterate_letter_places(subject), MOST))
        texts = choices.find_places(subject)
        for start, end, places in (*letters, *texts):
            if not places <= praised_places and _PRAISED.match(subject, end) and not is_denied_before(subject, start):
                praised_places |= places
                evidence = "text" if (start, end, places) in texts else "letter"
    return Named(praised_places, evidence)


def _read_lettered(text: str, choices: Options) -> Named:
    """Read the letter next to its own option's text within a sentence that states it."""
    places = set[int]()
    for sentence in SENTENCE_END.split(text):
        if not _ASIDE.match(sentence) and classify(plain(sentence)) == "state":
            places |= find_letters_with_texts(_remove_contrast(sentence), choices, prefix=True)
    return Named(places if len(places) == 1 else set(), "letter")


def _read_opening_text(text: str, choices: Options) -> Named:
    """Read the option that begins the first sentence, which asserts it, and options that are full sentences."""
    first_sentence, *later_sentences = [sentence for sentence in SENTENCE_END.split(text) if sentence.strip()] or [""]
    if text.startswith("?") or text.lstrip()[len(first_sentence.lstrip()) :].startswith("?"):
        return NOTHING
    article = _ARTICLE.match(first_sentence)
    initial_places = choices.find_starting(first_sentence[article.end() :] if article else first_sentence)
    reading = choices.read_prose(first_sentence) if initial_places and not NO.search(text) else None
    asserted = reading.asserted | reading.negated if reading else set()
    if reading is None or len(asserted) != 1 or initial_places & reading.denied or not initial_places & asserted:
        return NOTHING
    later_places = (
        find_asserted(sentence, choices) if _ALSO.search(sentence) else choices.find_options(words(sentence))
        for sentence in later_sentences[:MOST]
    )
    return Named(asserted.union(*later_places), "text")


def _remove_contrast(sentence: str) -> str:
    contrast = _CONTRAST.match(sentence)
    return sentence[contrast.end() :] if contrast else sentence


def _read_conclusion(text: str, choices: Options) -> Named:
    """Read the only option in the last conclusion that names one."""
    for sentence in reversed(SENTENCE_END.split(text)):
        if _CONCLUDES.match(sentence) and not _ASIDE.match(sentence) and classify(plain(sentence)) != "decline":
            conclusion = COMPARED.split(_remove_contrast(sentence), maxsplit=1)[0]
            letters = find_letters(conclusion, choices)
            places = merge_places(find_asserted(conclusion, choices), letters, choices)
            if len(places) == 1:
                return Named(places, "letter" if letters else "prose")
    return NOTHING


def _read_mentions(text: str, choices: Options, *, is_absence: bool) -> Named:
    """Read every option that clauses assert; if the question asks for absent findings, the one that they deny."""
    reading = choices.read_prose(NO.sub(r"\1. ", text))
    if is_absence and reading.denied:  # a description asserts present findings, and the question asks for absent ones
        denied_only = reading.denied - reading.asserted
        mentioned = {place for _, _, option_places in choices.find_places(text) for place in option_places}
        return Named(denied_only if len(denied_only) == 1 and not mentioned & reading.negated else {CONFLICT}, "prose")
    negated_places = {
        place for place in reading.negated if not choices.find_options(choices.findings[place]) & reading.asserted
    }
    places = set() if is_absence else reading.asserted or negated_places  # asserted options precede negated ones
    if NO.search(text) and not places <= negated_places:
        return Named({CONFLICT}, "prose")  # "No, edema" denies and names
    # A part that ends with a question mark loses its last sentence, the question.
    sentences = [
        sentence_text
        for text_part in _PART.findall(text)
        for sentence in SENTENCE_END.split(text_part)[: -2 if text_part.endswith("?") else None]
        for sentence_text in sentence.split(", but ")
        if classify(plain(sentence_text)) not in ("decline", "ask", "general")
        and not (_CONDITION.search(sentence_text) or _EXCLUDED.search(sentence_text))
    ]
    letters = set[int]().union(*(find_letters(sentence, choices) for sentence in sentences))
    places = merge_places(places, letters, choices)
    if (reading.denied and not places) or (len(places) == 1 and places <= reading.denied):
        return Named({CONFLICT}, "prose")
    return Named(places, "letter" if letters else "prose")


def _read_yes_or_no(text: str, choices: Options, question: str) -> Named:
    if not choices.are_yes_and_no:
        return NOTHING
    reading = explain_yes_no(text, question)
    if reading.answer is None:
        return Named(set(), declined=reading.outcome == "declined")
    return Named({choices.yes_no.index(reading.answer)}, reading.evidence)
