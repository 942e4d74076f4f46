"""Answers made from a grammar, each with the readings that a careful person allows.

A sentence has an act (assert, deny, refuse, ...) and an effect on each thing that it names. The expected readings
follow from the effects alone, never from the words: only `ASSERTS` and `DENIES` answer a question. A wording stands in
a table under its act and its effect (`reading_wordings`). To add one, add a line there.

Three rules keep the expectations those of a careful person:

- A lean ("there could be edema") may be read as edema or not at all, but never as its opposite.
- "No X, but Y" chooses Y for one reader and "No X" for another: both are allowed, and the case does not count as clear.
- The words "edema is absent" may name the absent finding, or the option "No edema": to a question for the absent
  finding they are clear only where no option is negated.

Left out, because readers disagree: one finding that is both claimed and left open, elimination ("A and B are wrong"
among three), and a claim of presence alone to a question for the absent finding. Opposites in other words ("the trachea
is deviated") may be unread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, count, cycle, permutations, product

from tests.evaluate_metrics.reading_nouns import (
    ASSERTS,
    CLAIMS,
    DECLINED,
    DECLINES,
    DENIES,
    DISFAVOURS,
    FINDINGS,
    LEANS,
    LOSES,
    NO,
    NO_ANSWER,
    NO_NAMES,
    NOTHING,
    YES,
    Effect,
    Noun,
    Reading,
    State,
)
from tests.evaluate_metrics.reading_wordings import (
    ALONE_ONLY,
    BESIDE_ITSELF,
    FINDING_WORDINGS,
    JOINS,
    LISTS,
    NORMAL_WORDINGS,
    PAIRS,
    STATE_WORDINGS,
    Wordings,
)


@dataclass(frozen=True)
class Sentence:
    """One sentence and its effect on each thing that it names."""

    act: str
    text: str
    effects: tuple[tuple[object, Effect], ...]


# -------------------------------------------------------------------------------------------------------- sentences


def fill(template: str, **nouns: Noun) -> str:
    """The template with its nouns: {x}, {ax}, {X} and {AX} for each name.

    >>> fill("{AX} is seen, no {z}.", x=Noun("effusion", counted=True), z=Noun("edema"))
    'An effusion is seen, no edema.'
    """
    fields = {}
    for name, noun in nouns.items():
        fields |= {name: noun.term, f"a{name}": noun.phrase}
        fields |= {name.upper(): capitalize(noun.term), f"A{name.upper()}": capitalize(noun.phrase)}
    return template.format(**fields)


def fill_state(template: str, state: State) -> str:
    """The template with a subject, its predicate and verbs in its number."""
    verbs = ("are", "do", "seem") if state.plural else ("is", "does", "seems")
    fields = dict(zip(("is", "does", "seems"), verbs, strict=True))
    return template.format(
        s=state.subject, S=capitalize(state.subject), p=state.predicate, Is=capitalize(verbs[0]), **fields
    )


def capitalize(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def say_each(wordings: Wordings, noun: Noun) -> Iterator[Sentence]:
    """Each wording, said of a noun."""
    for (act, effect), templates in wordings.items():
        for template in templates:
            yield Sentence(act, fill(template, x=noun), ((noun, effect),))


def say_each_state(state: State) -> Iterator[Sentence]:
    """Each wording, said of a subject and its predicate."""
    for wordings in (STATE_WORDINGS, NORMAL_WORDINGS if state.normal else {}):
        for (act, effect), templates in wordings.items():
            for template in templates:
                if "not un" not in (text := fill_state(template, state)):  # "not unremarkable": nobody writes so
                    yield Sentence(act, text, ((state, effect),))


class Rotation:
    """Gives the wordings of each act and effect in turn, so that few cases use them all."""

    def __init__(self, wordings: Wordings) -> None:
        self._turns = {
            key: cycle([template for template in templates if template not in ALONE_ONLY])
            for key, templates in wordings.items()
        }

    @property
    def keys(self) -> tuple[tuple[str, Effect], ...]:
        return tuple(self._turns)

    def say(self, key: tuple[str, Effect], noun: Noun) -> Sentence:
        """The next wording of an act, said of a noun."""
        return Sentence(key[0], fill(next(self._turns[key]), x=noun), ((noun, key[1]),))


# --------------------------------------------------------------------------------------------- what readings follow


def find_named(sentences: Sequence[Sentence], *effects: Effect) -> set[object]:
    """The things on which the sentences have one of the effects."""
    return {item for sentence in sentences for item, effect in sentence.effects if effect in effects}


def is_refusal(sentences: Sequence[Sentence], subject: object) -> bool:
    """Whether one sentence stands alone and plainly declines what is asked."""
    return (
        len(sentences) == 1
        and {effect for _, effect in sentences[0].effects} == {DECLINES}
        and (subject in find_named(sentences, DECLINES))
    )


def allow_yes_no(sentences: Sequence[Sentence], subject: object) -> tuple[frozenset[Reading], bool]:
    """The readings of the sentences as an answer to a yes/no question, and whether they are clear."""
    asserted, denied = (subject in find_named(sentences, effect) for effect in CLAIMS)
    if asserted and denied:
        return NO_ANSWER, False
    if asserted or denied:
        return frozenset({YES if asserted else NO}), True
    if is_refusal(sentences, subject):
        return frozenset({DECLINED}), False
    leans = {YES} if subject in find_named(sentences, LEANS) else set()
    against = {NO} if subject in find_named(sentences, DISFAVOURS, LOSES) else set()
    return NO_ANSWER | leans | against, False


def allow_presence(
    sentences: Sequence[Sentence], positive: Mapping[object, int], target: object, negated: int
) -> tuple[frozenset[Reading], bool]:
    """The readings as an answer to which finding is present, and whether they are clear.

    positive: the index of the option of each finding. target: the finding whose negation is an option. negated: the
    index of that option.
    """
    asserted, denied = find_named(sentences, ASSERTS), find_named(sentences, DENIES)
    choices = {positive[item] for item in asserted if item in positive}
    leaning = {positive[item] for item in find_named(sentences, LEANS) if item in positive}
    if asserted & denied or len(choices) > 1:
        return NO_ANSWER, False
    if target in denied:
        claims = [claim for sentence in sentences for claim in sentence.effects if claim[1] in CLAIMS]
        is_main = not asserted or claims[0] == (target, DENIES)
        if choices or leaning or not is_main:
            return frozenset({negated}) | choices | leaning | NO_ANSWER, False
        return frozenset({negated}), True
    if choices:
        return frozenset(choices), True
    if is_refusal(sentences, target):
        return frozenset({DECLINED}), False
    return NO_ANSWER | leaning | ({negated} if target in find_named(sentences, LOSES) else set()), False


def allow_absence(
    sentences: Sequence[Sentence], positive: Mapping[object, int], target: object, negated: int | None
) -> tuple[frozenset[Reading], bool] | None:
    """The readings as an answer to which finding is absent, and whether they are clear; None where readers disagree."""
    asserted, denied = find_named(sentences, ASSERTS), find_named(sentences, DENIES)
    choices = {positive[item] for item in denied if item in positive}
    if asserted & set(positive) and not choices:
        return None
    if asserted & denied:
        return NO_ANSWER, False
    against = {positive[item] for item in find_named(sentences, DISFAVOURS, LOSES) if item in positive} - choices
    if negated is not None and target in denied:
        return NO_ANSWER | choices | against | {negated}, False
    if len(choices) == 1:
        clear = negated is None and not against
        return frozenset(choices) if clear else NO_ANSWER | choices | against, clear
    if is_refusal(sentences, target):
        return frozenset({DECLINED}), False
    return NO_ANSWER | (set() if choices else against), False


def allow_names(sentences: Sequence[Sentence]) -> tuple[frozenset[Reading], bool]:
    """The readings as an open answer, and whether they are clear. A reading is the asserted labels, joined by "+"."""
    asserted, denied = find_named(sentences, ASSERTS), find_named(sentences, DENIES)
    leaning = find_named(sentences, LEANS)
    some_leaning = chain.from_iterable(combinations(leaning, n) for n in range(len(leaning) + 1))
    with_leaning = {join_names(asserted | set(some)) for some in some_leaning} - {""}
    if asserted:
        return frozenset(with_leaning), True
    if denied:
        return frozenset({NO_NAMES, *with_leaning}), not leaning
    if all(effect == DECLINES for sentence in sentences for _, effect in sentence.effects):
        return frozenset({DECLINED}), False
    against = {NO_NAMES} if find_named(sentences, DISFAVOURS, LOSES) else set()
    return NO_ANSWER | with_leaning | against, False


def join_names(nouns: set[object]) -> str:
    """The labels of the nouns, in order, joined by "+"."""
    return "+".join(sorted(noun.label for noun in nouns if isinstance(noun, Noun)))


# ------------------------------------------------------------------------------------------------------------ texts


@dataclass(frozen=True)
class Text:
    """Sentences in an order, about a target, another option's finding and findings that are no option."""

    position: str
    sentences: tuple[Sentence, ...]
    target: Noun
    distractor: Noun
    join: str = " "

    @property
    def act(self) -> str:
        """The act of the sentence about the target."""
        return next((s.act for s in self.sentences if self.target in dict(s.effects)), self.sentences[0].act)

    @property
    def text(self) -> str:
        return self.join.join(sentence.text for sentence in self.sentences)


def make_texts(wordings: Wordings, nouns: Sequence[Noun], every: int = 1) -> Iterator[Text]:
    """Texts of one sentence, and of two sentences of any two acts.

    every: of how many nouns each wording alone is said of one.
    """
    targets = cycle(range(len(nouns)))
    joins = cycle(JOINS)

    def draw() -> tuple[Noun, Noun, Noun]:
        at = next(targets)
        return nouns[at], nouns[(at + 1) % len(nouns)], nouns[(at + 2) % len(nouns)]

    for at, noun in enumerate(nouns):
        for turn, sentence in enumerate(say_each(wordings, noun)):
            if (turn + at) % every == 0:
                yield Text("alone", (sentence,), noun, nouns[(at + 1) % len(nouns)])
    rotation = Rotation(wordings)
    for key, second_key, is_first, outside in product(rotation.keys, rotation.keys, (True, False), (True, False)):
        target, distractor, outsider = draw()
        pair = (rotation.say(key, target), rotation.say(second_key, outsider if outside else distractor))
        yield Text("before" if is_first else "after", pair if is_first else pair[::-1], target, distractor, next(joins))
    idle = [key for key in rotation.keys if key[0] in BESIDE_ITSELF and key[1] == NOTHING]
    for claim, key, is_first, _ in product((("assert", ASSERTS), ("deny", DENIES)), idle, (True, False), range(3)):
        if key[0] != "announce" or not is_first:
            target, distractor, _ = draw()
            pair = (rotation.say(claim, target), rotation.say(key, target))
            yield Text("itself", pair if is_first else pair[::-1], target, distractor, next(joins))


def make_lists(nouns: Sequence[Noun], every: int = 1) -> Iterator[Text]:
    """Sentences about three nouns at once; the target has each place in turn."""
    n = len(nouns)
    turns = count()
    for (act, effect), templates in LISTS.items():
        for template, at in product(templates, range(0, n, every)):
            trio = [nouns[at], nouns[(at + 2) % n], nouns[(at + 3) % n]]
            turn = next(turns) % 3
            x, z, w = trio[-turn:] + trio[:-turn] if turn else trio
            sentence = Sentence(act, fill(template, x=x, z=z, w=w), ((x, effect), (z, effect), (w, effect)))
            yield Text("list", (sentence,), trio[0], nouns[(at + 1) % n])


def make_finding_texts() -> Iterator[Text]:
    """The texts about findings, with those of one sentence about two or three of them."""
    yield from make_texts(FINDING_WORDINGS, FINDINGS)
    n = len(FINDINGS)
    for (act, effect_x, effect_z), templates in PAIRS.items():
        for template, at, swapped in product(templates, range(n), (False, True)):
            step = 1 + at % 2  # the other finding is an option, or it is none
            x, z = FINDINGS[at], FINDINGS[(at + step) % n]
            sentence = Sentence(act, fill(template, x=x, z=z), ((x, effect_x), (z, effect_z)))
            if swapped:  # the target is z
                yield Text("one sentence", (sentence,), z, x if step == 1 else FINDINGS[(at + 4) % n])
            else:
                yield Text("one sentence", (sentence,), x, FINDINGS[(at + 1) % n])
    yield from make_lists(FINDINGS)
    for at, effects, join in product(range(n), product(CLAIMS, repeat=3), ("\n", ", ")):
        trio = (FINDINGS[at], FINDINGS[(at + 2) % n], FINDINGS[(at + 3) % n])
        states = ["present" if effect == ASSERTS else "absent" for effect in effects]
        lines = [f"{capitalize(noun.term)}: {state}" for noun, state in zip(trio, states, strict=True)]
        text = "\n".join(f"- {line}" for line in lines) if join == "\n" else ", ".join(lines)
        act = "assert" if effects[at % 3] == ASSERTS else "deny"
        sentence = Sentence(act, text, tuple(zip(trio, effects, strict=True)))
        yield Text("list", (sentence,), trio[at % 3], FINDINGS[(at + 1) % n])
    # Three sentences in each order.
    rotation = Rotation({key: templates for key, templates in FINDING_WORDINGS.items() if key != ("hedge", LEANS)})
    idle = [key for key in rotation.keys if key[1] == NOTHING and key[0] != "announce"]
    for at, (claim, key) in enumerate(product((("assert", ASSERTS), ("deny", DENIES)), idle)):
        target, distractor, *outside = (FINDINGS[(at + step) % n] for step in range(4))
        sentences = (
            rotation.say(claim, target),
            rotation.say(key, outside[0]),
            rotation.say(("deny", DENIES), outside[1]),
        )
        for order in permutations(sentences):
            yield Text("three, any order", order, target, distractor)
