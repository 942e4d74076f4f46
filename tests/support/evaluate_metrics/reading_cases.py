"""Test cases of the answer grammar: texts, questions, and changes that keep the reading."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, cycle, permutations, product

from tests.support.evaluate_metrics.reading_grammar import (
    Rotation,
    Sentence,
    Text,
    allow_absence,
    allow_names,
    allow_presence,
    allow_yes_no,
    capitalize,
    fill,
    find_named,
    make_finding_texts,
    make_lists,
    make_texts,
    say_each_state,
)
from tests.support.evaluate_metrics.reading_nouns import (
    ACTIONS,
    ASSERTS,
    DECLINED,
    DECLINES,
    DENIES,
    DISEASES,
    FINDINGS,
    INSTRUMENTS,
    NO,
    NO_ANSWER,
    STATES,
    YES,
    Effect,
    Noun,
    Reading,
)
from tests.support.evaluate_metrics.reading_questions import (
    ABSENCE_QUESTIONS,
    ABSENT_PICKS,
    BESIDE_ITSELF,
    JOINS,
    NEGATION_FORMS,
    NO_REPLIES,
    PRESENCE_QUESTIONS,
    YES_NO_QUESTIONS,
    YES_REPLIES,
)
from tests.support.evaluate_metrics.reading_wordings import (
    ACTION_WORDINGS,
    FINDING_WORDINGS,
    INSTRUMENT_WORDINGS,
    LETTER_WORDINGS,
)


@dataclass(frozen=True)
class Case:
    """A text, its question, and the allowed readings.

    Attributes:
        reader: "choice", "yes_no", "diseases", "instruments" or "triplets".
        act: The act of the sentence about the target.
        form: The form of the options or of the question.
        position: The position of that sentence in the text.
        text: The answer to read.
        allowed: All readings that do not count as errors.
        clear: True if there is one right reading, and it is an answer.
        question: The question, if the reader takes one.
        options: The options, if the reader takes them.
        change: The name of the change applied to the text.
    """

    reader: str
    act: str
    form: str
    position: str
    text: str
    allowed: frozenset[Reading]
    clear: bool
    question: str = ""
    options: tuple[str, ...] = ()
    change: str = "as written"


def make_option_cases(texts: Sequence[Text]) -> Iterator[Case]:
    """Yield the texts as answers to presence and absence questions with options.

    The options of a presence question are X, its negation and Y.
    """
    orders = tuple(permutations(range(3)))
    for turn, text in enumerate(texts):
        form = NEGATION_FORMS[turn % len(NEGATION_FORMS)]
        option_texts = (capitalize(text.target.term), fill(form, x=text.target), capitalize(text.distractor.term))
        order = orders[(turn // 5) % len(orders)]
        options = tuple(option_texts[place] for place in order)
        positive = {text.target: order.index(0), text.distractor: order.index(2)}
        allowed, clear = allow_presence(text.sentences, positive, text.target, order.index(1))
        question = PRESENCE_QUESTIONS[turn % len(PRESENCE_QUESTIONS)]
        yield Case("choice", text.act, form, text.position, text.text, allowed, clear, question, options)
        if turn % 4:
            continue
        question = ABSENCE_QUESTIONS[turn % len(ABSENCE_QUESTIONS)]
        for negated in (order.index(1), None):
            if negated is None:
                third = next(
                    noun
                    for noun in FINDINGS
                    if noun not in {text.target, text.distractor}
                    and all(noun not in dict(sentence.effects) for sentence in text.sentences)
                )
                options = tuple(capitalize(noun.term) for noun in (text.target, text.distractor, third))
                positive = {text.target: 0, text.distractor: 1}
            expected = allow_absence(text.sentences, positive, text.target, negated)
            if expected:
                name = "absence, no option negated" if negated is None else "absence, one option negated"
                yield Case("choice", text.act, name, text.position, text.text, *expected, question, options)


def make_absent_picks() -> Iterator[Case]:
    """Yield answers that name the absent finding as absent."""
    for template, (at, noun) in product(ABSENT_PICKS, enumerate(FINDINGS)):
        distractor, negated = FINDINGS[at - 1], fill(NEGATION_FORMS[0], x=FINDINGS[at - 1])
        options = (capitalize(distractor.term), negated, capitalize(noun.term))
        text = fill(template, x=noun)
        yield Case("choice", "assert", "absence, one option negated", "alone", text, frozenset({2}), True,
                   ABSENCE_QUESTIONS[at % 2], options)  # fmt: skip


def make_letter_cases() -> Iterator[Case]:
    """Yield answers that name options by letter, in one sentence or in two sentences about two options."""
    x, y, w = FINDINGS[0], FINDINGS[1], FINDINGS[2]
    options = (capitalize(x.term), f"No {x.term}", capitalize(y.term), capitalize(w.term))
    letters = "ABCD"

    def say(act: str, effect: Effect, template: str, at: int) -> Sentence:
        text = template.format(l=letters[at], o=options[at], m=letters[(at + 1) % 4])
        return Sentence(act, text, ((at, effect),))

    turns = {key: cycle(templates) for key, templates in LETTER_WORDINGS.items()}
    listed = [
        ("alone", (say(*key, template, at),))
        for key, templates in LETTER_WORDINGS.items() for template in templates for at in range(4)
    ]  # fmt: skip
    asserting = [t for t in LETTER_WORDINGS["assert", ASSERTS] if t.endswith(".")]  # whole sentences
    claims = cycle(asserting)
    for key, at, step, is_first in product(turns, range(4), (2, 3), (True, False)):
        if key[0] in ("assert", "refuse", "hedge") or (key[0] == "announce" and not is_first):
            continue  # what does not go with a claim
        second_at = (at + step) % 4
        pair = (say(*key, next(turns[key]), at), say("assert", ASSERTS, next(claims), second_at))
        if letters[second_at] not in pair[0].text:
            listed.append(("before" if is_first else "after", pair if is_first else pair[::-1]))
    for at, step in product(range(4), (1, 2, 3)):
        pair = (say("assert", ASSERTS, "Option {l} is correct.", at),
                say("assert", ASSERTS, "Option {l} is correct.", (at + step) % 4))  # fmt: skip
        listed.append(("two", pair))
    for position, sentences in listed:
        text = " ".join(sentence.text for sentence in sentences)
        choices = {at for at in find_named(sentences, ASSERTS) if isinstance(at, int)}
        clear = len(choices) == 1
        refuses = len(sentences) == 1 and sentences[0].effects[0][1] == DECLINES
        allowed = frozenset(choices) if clear else frozenset({DECLINED}) if refuses else NO_ANSWER
        yield Case(
            "choice", sentences[0].act, "letters", position, text, allowed, clear, PRESENCE_QUESTIONS[0], options
        )
    for at, step in product(range(4), (1, 2, 3)):  # a letter and another option's text
        for template in ("{l}. {o}", "The answer is {l}: {o}.", "**{l}.** {o}"):
            text = template.format(l=letters[at], o=options[(at + step) % 4])
            yield Case(
                "choice", "contradict", "letters", "alone", text, NO_ANSWER, False, PRESENCE_QUESTIONS[0], options
            )


def make_yes_no_cases(texts: Sequence[Text]) -> Iterator[Case]:
    """Yield the texts as answers to whether the target, or another finding in the text, is present."""
    for turn, text in enumerate(texts):
        question = YES_NO_QUESTIONS[turn % len(YES_NO_QUESTIONS)]
        nouns = [noun for sentence in text.sentences for noun, _ in sentence.effects if isinstance(noun, Noun)]
        subject = nouns[-1] if turn % 4 == 0 else text.target
        allowed, clear = allow_yes_no(text.sentences, subject)
        act = next((s.act for s in text.sentences if subject in dict(s.effects)), text.act)
        yield Case("yes_no", act, "yes/no", text.position, text.text, allowed, clear, fill(question, x=subject))
    for replies, reading in ((YES_REPLIES, YES), (NO_REPLIES, NO)):
        for template, (at, noun) in product(replies, enumerate(FINDINGS)):
            text = fill(template, x=noun, z=FINDINGS[at - 1])
            question = fill(YES_NO_QUESTIONS[at % len(YES_NO_QUESTIONS)], x=noun)
            act = "assert" if reading == YES else "deny"
            yield Case("yes_no", act, "yes/no", "reply", text, frozenset({reading}), True, question)


def make_state_cases() -> Iterator[Case]:
    """Yield answers about a subject and its predicate, with and without a sentence about an unrelated finding."""
    rotation = Rotation({key: FINDING_WORDINGS[key] for key in FINDING_WORDINGS if key[0] != "hedge"})
    besides, joins = cycle(rotation.keys), cycle(JOINS)
    for state in STATES:
        form = "normality" if state.normal else "predicate"
        for sentence in say_each_state(state):
            listed = [("alone", (sentence,), " ")]
            for position in ("before", "after"):
                pair = (sentence, rotation.say(next(besides), state.unrelated))
                listed.append((position, pair if position == "before" else pair[::-1], next(joins)))
            if sentence.act in BESIDE_ITSELF:
                verb = "are" if state.plural else "is"
                claim = (("assert", ASSERTS, ""), ("deny", DENIES, "not "))[len(sentence.text) % 2]
                text = f"{capitalize(state.subject)} {verb} {claim[2]}{state.predicate}."
                listed.append(("itself", (sentence, Sentence(claim[0], text, ((state, claim[1]),))), " "))
            for position, sentences, join in listed:
                text = join.join(spoken.text for spoken in sentences)
                allowed, clear = allow_yes_no(sentences, state)
                yield Case("yes_no", sentence.act, form, position, text, allowed, clear, state.question)
        for opposite in state.opposites:  # another wording: unread is allowed
            text = f"{capitalize(state.subject)} {'are' if state.plural else 'is'} {opposite}."
            yield Case("yes_no", "deny", form, "opposite", text, NO_ANSWER | {NO}, False, state.question)


def make_name_cases(reader: str, texts: Iterable[Text]) -> Iterator[Case]:
    """Yield the texts as open answers; the reader extracts the asserted names."""
    for text in texts:
        allowed, clear = allow_names(text.sentences)
        yield Case(reader, text.act, reader, text.position, text.text, allowed, clear)


def make_triplet_cases() -> Iterator[Case]:
    """Yield answers about the action of an instrument."""
    for (act, effect), templates in ACTION_WORDINGS.items():
        for template, (tool, doing, do, organ, name) in product(templates, ACTIONS):
            text = template.format(tool=tool, doing=doing, do=do, organ=organ)
            noun = Noun(text, label=name)
            allowed, clear = allow_names((Sentence(act, text, ((noun, effect),)),))
            yield Case("triplets", act, "triplets", "alone", text, allowed, clear)


# ------------------------------------------------------------------------------------ changes that keep the reading


def oppose(case: Case) -> str:
    """Return a reasoning that contradicts the case's reading, or a clear answer if the case has no reading."""
    reading = next(iter(case.allowed)) if case.clear else ""
    if case.reader == "yes_no":
        return f"Let me think. The answer should be {NO if reading == YES else YES}."
    if case.reader == "choice":
        opposite = next(at for at in range(len(case.options)) if at != reading)
        return f"Let me think. The answer should be {'ABCDE'[opposite]}. {case.options[opposite]}."
    return "There is pleural effusion, and there is a stapler. No, perhaps not."


def embolden(text: str) -> str:
    """Return the text with its longest word in bold."""
    word = max(text.replace(".", " ").replace(",", " ").replace(":", " ").split(), key=len)
    return text.replace(word, f"**{word}**", 1)


CHANGES: Mapping[str, Callable[[Case], str]] = {
    "reasoning first": lambda case: f"<think>\n{oppose(case)}\n</think>\n\n{case.text}",
    "bold word": lambda case: embolden(case.text),
    "bold": lambda case: "\n".join(f"**{line}**" if line else "" for line in case.text.split("\n")),
    "bullets": lambda case: "\n".join(f"* {line.removeprefix('- ')}" if line else "" for line in case.text.split("\n")),
    "heading": lambda case: f"## Findings\n\n{case.text}",
    "upper case": lambda case: case.text.upper(),
    "lower case": lambda case: case.text.lower(),
    "white space": lambda case: f"  {case.text} \n\n",
    "curly quotes": lambda case: f"“{case.text.replace(chr(39), '’')}”",
}
# A lower-case letter may be a word; a bullet next to a letter, or bold over a list, looks like a list of options.
_UNCHANGED = {"letters": {"lower case", "bullets", "heading", "bold word"}}


def change_some(cases: Sequence[Case]) -> Iterator[Case]:
    """Yield every second case with a changed text; the changes alternate over the cases of one act and form."""
    turns: dict[tuple[str, str], Iterator[str]] = {}
    for case in cases[::2]:
        names = turns.setdefault((case.act, case.form), cycle(CHANGES))
        name = next(names)
        if name not in _UNCHANGED.get(case.form, set()) and not (
            "\n" in case.text and name in {"bold", "curly quotes"}
        ):
            yield replace(case, text=CHANGES[name](case), change=name)


def make_cases() -> list[Case]:
    """Return all cases in a fixed order, without duplicates of text, question and options."""
    texts = list(make_finding_texts())
    cases = list(
        chain(
            make_option_cases(texts),
            make_absent_picks(),
            make_letter_cases(),
            make_yes_no_cases(texts),
            make_state_cases(),
            make_name_cases("diseases", make_texts(FINDING_WORDINGS, DISEASES, every=3)),
            make_name_cases("diseases", make_lists(DISEASES, every=4)),
            make_name_cases("instruments", make_texts(INSTRUMENT_WORDINGS, INSTRUMENTS)),
            make_triplet_cases(),
        )
    )
    changed = list(change_some(cases))
    unique = {(case.reader, case.text, case.question, case.options): case for case in [*cases, *changed]}
    return list(unique.values())
