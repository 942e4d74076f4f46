"""Grammar of answers, each with the readings that a careful person allows.

A sentence has an act (assert, deny, refuse, ...) and an effect on each thing that it names. The expected readings
follow from the effects alone, never from the words: only `ASSERTS` and `DENIES` answer a question. The tables of
`reading_wordings` hold the wordings by act and effect. To add a wording, add a line there.

Three rules define the expectations:

- A lean ("there could be edema") may be read as edema or stay unread, but never be read as its opposite.
- "No X, but Y" chooses Y for one reader and "No X" for another: both are allowed, and the case does not count as clear.
- The words "edema is absent" may name the absent finding, or the option "No edema": to a question for the absent
  finding they are clear only if all options are positive.

The grammar leaves out texts on which readers disagree: one finding that is both claimed and left open, elimination
("A and B are wrong" among three), and a claim of presence alone to a question for the absent finding. Opposites in
other words ("the trachea is deviated") may be unread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, count, cycle, permutations, product

from tests.support.evaluate_metrics.reading_nouns import (
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
from tests.support.evaluate_metrics.reading_questions import ALONE_ONLY, BESIDE_ITSELF, JOINS
from tests.support.evaluate_metrics.reading_wordings import (
    FINDING_WORDINGS,
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
    """Fill a template with its nouns: {x}, {ax}, {X} and {AX} for each name.

    >>> fill("{AX} is seen, no {z}.", x=Noun("effusion", counted=True), z=Noun("edema"))
    'An effusion is seen, no edema.'
    """
    fields = {}
    for name, noun in nouns.items():
        fields |= {name: noun.term, f"a{name}": noun.phrase}
        fields |= {name.upper(): capitalize(noun.term), f"A{name.upper()}": capitalize(noun.phrase)}
    return template.format(**fields)


def fill_state(template: str, state: State) -> str:
    """Fill a template with a subject, its predicate and verbs that agree in number."""
    verbs = ("are", "do", "seem") if state.plural else ("is", "does", "seems")
    fields = dict(zip(("is", "does", "seems"), verbs, strict=True))
    return template.format(
        s=state.subject, S=capitalize(state.subject), p=state.predicate, Is=capitalize(verbs[0]), **fields
    )


def capitalize(text: str) -> str:
    """Return the text with a capital first letter."""
    return text[:1].upper() + text[1:]


def say_each(wordings: Wordings, noun: Noun) -> Iterator[Sentence]:
    """Yield each wording with the noun filled in."""
    for (act, effect), templates in wordings.items():
        for template in templates:
            yield Sentence(act, fill(template, x=noun), ((noun, effect),))


def say_each_state(state: State) -> Iterator[Sentence]:
    """Yield each wording with the subject and its predicate filled in."""
    for wordings in (STATE_WORDINGS, NORMAL_WORDINGS if state.normal else {}):
        for (act, effect), templates in wordings.items():
            for template in templates:
                if "not un" not in (text := fill_state(template, state)):  # "not unremarkable": nobody writes so
                    yield Sentence(act, text, ((state, effect),))


class Rotation:
    """Rotation through the wordings of each act and effect; a few cases cover all wordings."""

    def __init__(self, wordings: Wordings) -> None:
        self._turns = {
            key: cycle([template for template in templates if template not in ALONE_ONLY])
            for key, templates in wordings.items()
        }

    @property
    def keys(self) -> tuple[tuple[str, Effect], ...]:
        return tuple(self._turns)

    def say(self, key: tuple[str, Effect], noun: Noun) -> Sentence:
        """Return the next wording of an act, with the noun filled in."""
        return Sentence(key[0], fill(next(self._turns[key]), x=noun), ((noun, key[1]),))


# --------------------------------------------------------------------------------------------- what readings follow


def find_named(sentences: Sequence[Sentence], *effects: Effect) -> set[object]:
    """Return the things on which the sentences have one of the effects."""
    return {item for sentence in sentences for item, effect in sentence.effects if effect in effects}


def is_refusal(sentences: Sequence[Sentence], subject: object) -> bool:
    """Whether the text is one sentence that plainly declines to judge the subject."""
    return (
        len(sentences) == 1
        and {effect for _, effect in sentences[0].effects} == {DECLINES}
        and (subject in find_named(sentences, DECLINES))
    )


def allow_yes_no(sentences: Sequence[Sentence], subject: object) -> tuple[frozenset[Reading], bool]:
    """Return the allowed readings under a yes/no question, with a flag for clear readings."""
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
    """Return the allowed readings under a presence question, with a flag for clear readings.

    Args:
        sentences: The sentences of the answer.
        positive: The option index of each finding.
        target: The finding whose negation is an option.
        negated: The index of the negated option.
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
    """Return the allowed readings under an absence question, with a flag for clear readings.

    Returns:
        The readings and the flag; None if readers disagree.
    """
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
    """Return the allowed readings of an open answer, with a flag for clear readings.

    A reading is the asserted labels, joined by "+".
    """
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
    """Join the labels of the nouns by "+", in alphabetical order."""
    return "+".join(sorted(noun.label for noun in nouns if isinstance(noun, Noun)))


# ------------------------------------------------------------------------------------------------------------ texts


@dataclass(frozen=True)
class Text:
    """Ordered sentences about a target, a distractor among the options, and findings outside the options."""

    position: str
    sentences: tuple[Sentence, ...]
    target: Noun
    distractor: Noun
    join: str = " "

    @property
    def act(self) -> str:
        """Act of the sentence about the target."""
        return next((s.act for s in self.sentences if self.target in dict(s.effects)), self.sentences[0].act)

    @property
    def text(self) -> str:
        return self.join.join(sentence.text for sentence in self.sentences)


def make_texts(wordings: Wordings, nouns: Sequence[Noun], every: int = 1) -> Iterator[Text]:
    """Yield texts of one sentence, and of two sentences of any two acts.

    Args:
        wordings: The wordings by act and effect.
        nouns: The findings or instruments to name.
        every: Use each one-sentence wording with one of this many nouns.
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
    """Yield sentences about three nouns at once, with the target in each position in turn."""
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
    """Yield the texts about findings, and single sentences about two or three findings."""
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
