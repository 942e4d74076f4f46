"""Readings of answers from a grammar: the effect of each sentence decides, for any noun and any position."""

from collections import Counter, defaultdict
from collections.abc import Iterable

import pytest

from medfaith.evaluate_metrics.reading.choice import parse_answer
from medfaith.evaluate_metrics.reading.diseases import extract_labels
from medfaith.evaluate_metrics.reading.outcome import ANSWERED
from medfaith.evaluate_metrics.reading.surgery import read_instruments, read_triplets
from medfaith.evaluate_metrics.reading.yes_no import explain_yes_no
from tests.support.evaluate_metrics.reading_cases import Case, make_cases
from tests.support.evaluate_metrics.reading_grammar import Sentence, allow_presence, allow_yes_no
from tests.support.evaluate_metrics.reading_nouns import (
    ASSERTS,
    DECLINES,
    DENIES,
    DISFAVOURS,
    FINDINGS,
    LEANS,
    LOSES,
    NO_ANSWER,
    NO_NAMES,
    NOTHING,
)

CLOSED = ("choice", "yes_no")
X, Y, Z = FINDINGS[:3]
EXAMPLES = 3  # shown of each group of failures


Readings = list[tuple[Case, str | int]]  # each case with its reading


@pytest.fixture(scope="module", params=[23, pytest.param(1, marks=pytest.mark.full)], ids=["some", "all"])
def readings(request: pytest.FixtureRequest) -> Readings:
    return [(case, read_case(case)) for case in make_cases()[:: request.param]]


def read_case(case: Case) -> str | int:
    """Return the reading: an option's index, yes, no or names if the reader answers, otherwise declined or unread."""
    if case.reader == "choice":
        answer = parse_answer(case.text, case.options, case.question)
        return answer.outcome if answer.choice is None else answer.choice
    if case.reader == "yes_no":
        explained = explain_yes_no(case.text, case.question)
        return str(explained.answer if explained.outcome == ANSWERED else explained.outcome)
    if case.reader == "diseases":
        extraction = extract_labels(case.text)
        names, outcome = extraction.labels, extraction.outcome
    else:
        reader = {"instruments": read_instruments, "triplets": read_triplets}[case.reader]
        names, outcome = reader(case.text).names, reader(case.text).outcome
    return "+".join(sorted(names)) or (NO_NAMES if outcome == ANSWERED else outcome)


def is_wrong(case: Case, reading: str | int) -> bool:
    """Whether the reader gives an answer that no careful person would read. An unread answer is never wrong."""
    return reading not in case.allowed | NO_ANSWER


def group_failures(failures: Iterable[tuple[Case, str | int]]) -> str:
    """Group the failures by reader, act, form and change, the largest groups first, with examples."""
    groups: dict[tuple[str, ...], list[tuple[Case, str | int]]] = defaultdict(list)
    for case, reading in failures:
        groups[case.reader, case.act, case.form].append((case, reading))
    lines = [f"{sum(map(len, groups.values()))} cases"]
    for key, group in sorted(groups.items(), key=lambda item: -len(item[1])):
        positions = ", ".join(f"{name} {n}" for name, n in Counter(case.position for case, _ in group).most_common())
        changes = ", ".join(f"{name} {n}" for name, n in Counter(case.change for case, _ in group).most_common())
        lines += [f"\n{len(group)} x {' | '.join(key)}", f"    position: {positions}", f"    change: {changes}"]
        for case, reading in group[:: max(1, len(group) // EXAMPLES)][:EXAMPLES]:
            prompt = f"{case.question} {list(case.options) or ''}".strip()
            expected = "/".join(sorted(map(str, case.allowed)))
            lines.append(f"    {case.text!r}  [{prompt}]  read {reading}, allowed {expected}")
    return "\n".join(lines)


def test_the_grammar_makes_many_cases_of_every_act_in_every_form():
    cases = make_cases()
    counts = Counter((case.act, case.form) for case in cases)
    assert sum(case.reader in CLOSED for case in cases) >= 5_000
    acts = {"assert", "deny", "refuse", "announce", "define", "hedge", "compare", "conditional"}
    assert {act for act, _ in counts} == acts | {"contradict"}
    forms = {case.form for case in cases if case.form != "triplets"}  # no comparison names a triplet
    assert {(act, form): counts[act, form] for act in acts for form in forms if counts[act, form] < 10} == {}


# Effects on X (options "X" and "No X"), Y (option "Y") or Z (outside the options); the allowed readings of a presence
# question, and whether one of them is required; the allowed readings of a yes/no question about X.
EXPECTED = {
    "X is seen.": ([X, ASSERTS], {"X"}, True, {"yes"}),
    "X is not seen.": ([X, DENIES], {"No X"}, True, {"no"}),
    "I cannot tell whether X is seen.": ([X, DECLINES], {"declined"}, False, {"declined"}),
    "Let us look for X.": ([X, NOTHING], set(NO_ANSWER), False, set(NO_ANSWER)),
    "X may be there.": ([X, LEANS], {"X", *NO_ANSWER}, False, {"yes", *NO_ANSWER}),
    "X is less likely.": ([X, DISFAVOURS], set(NO_ANSWER), False, {"no", *NO_ANSWER}),
    "Z rather than X.": ([Z, ASSERTS, X, LOSES], {"No X", *NO_ANSWER}, False, {"no", *NO_ANSWER}),
    "Y rather than X.": ([Y, ASSERTS, X, LOSES], {"Y"}, True, {"no", *NO_ANSWER}),
    "X, no Z.": ([X, ASSERTS, Z, DENIES], {"X"}, True, {"yes"}),
    "Z, no X.": ([Z, ASSERTS, X, DENIES], {"No X", *NO_ANSWER}, False, {"no"}),
    "No X, but Z.": ([X, DENIES, Z, ASSERTS], {"No X"}, True, {"no"}),
    "No X, but Y.": ([X, DENIES, Y, ASSERTS], {"No X", "Y", *NO_ANSWER}, False, {"no"}),
    "No Z.": ([Z, DENIES], set(NO_ANSWER), False, set(NO_ANSWER)),
    "X and Y.": ([X, ASSERTS, Y, ASSERTS], set(NO_ANSWER), False, {"yes"}),
    "I cannot tell whether there is X, but there is no Z.": ([X, DECLINES, Z, DENIES], set(NO_ANSWER), False,
        set(NO_ANSWER)),
    "I cannot tell whether there is Z, but there is no X.": ([Z, DECLINES, X, DENIES], {"No X"}, True, {"no"}),
}  # fmt: skip


def test_the_grammar_expects_what_a_person_reads():
    for text, (effects, options, clear, yes_no) in EXPECTED.items():
        sentences = [Sentence("", "", tuple(zip(effects[::2], effects[1::2], strict=True)))]
        allowed, is_clear = allow_presence(sentences, {X: 0, Y: 2}, X, 1)
        assert ({("X", "No X", "Y")[at] if isinstance(at, int) else at for at in allowed}, is_clear) == (
            options,
            clear,
        ), text
        assert allow_yes_no(sentences, X) == (yes_no, len(yes_no) == 1 and "declined" not in yes_no), text


@pytest.mark.parametrize("reader", [*CLOSED, "diseases", "instruments", "triplets"])
def test_no_case_is_read_wrongly(reader, readings: Readings):
    wrong = [(case, reading) for case, reading in readings if case.reader == reader and is_wrong(case, reading)]
    if wrong:
        pytest.fail(group_failures(wrong), pytrace=False)


@pytest.mark.parametrize("reader", [*CLOSED, "diseases", "instruments", "triplets"])
def test_clear_cases_are_read(reader, readings: Readings):
    clear = [(case, reading) for case, reading in readings if case.reader == reader and case.clear]
    unread = [(case, reading) for case, reading in clear if reading in NO_ANSWER]
    if len(unread) > 0.03 * len(clear):
        pytest.fail(f"{len(unread) / len(clear):.1%} of the clear cases: {group_failures(unread)}", pytrace=False)


def test_a_plain_refusal_is_declined(readings: Readings):
    refusals = [(case, reading) for case, reading in readings if case.allowed == {"declined"}]
    missed = [(case, reading) for case, reading in refusals if reading != "declined"]
    if missed:
        pytest.fail(group_failures(missed), pytrace=False)
