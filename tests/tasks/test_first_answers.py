"""What is wrong with all of the first answers of a run is said once, in one line that says what to try."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import pytest

from medfaith.tasks.models import first_answers
from medfaith.tasks.models.advice import FEW
from medfaith.tasks.models.chat_form import Reply
from medfaith.tasks.models.first_answers import FirstAnswers, is_unread, read_outcome
from medfaith.tasks.models.server import ServerLM
from medfaith.tasks.outcomes import ANSWERED, CUT, EMPTY, FILTERED, UNANSWERED
from tests.chat import chat_server
from tests.declined import DECLINED
from tests.tasks.asking import asked

CHOICE = {"question": "Which finding is present?", "options": ["Edema", "No edema", "Nodule"]}
CLOSED = {"question": "Is there edema?", "options": ["Yes", "No"], "question_type": "closed"}
OPEN = {"question": "What is seen?", "options": ["Edema", "normal"], "question_type": "open"}
PACKET = '{"answer": "B", "packet": {"answer": "Nodule", "confidence": 0.4}}'


@pytest.mark.parametrize(
    ("doc", "text", "unread"),
    [
        (CHOICE, "B", False),
        (CHOICE, "What a day.", True),
        (CHOICE, PACKET, False),
        (CLOSED, "There is no edema.", False),
        (CLOSED, "A", True),
        (OPEN, "Consolidation.", False),
        (OPEN, "Yes", True),
        ({"ask": "instruments", "question": "Which tools?"}, "A hook.", False),
        ({"ask": "instruments", "question": "Which tools?"}, "Yes", True),
        ({"ask": "triplets", "question": "Which actions?"}, "grasper retract gallbladder", False),
        ({"ask": "triplets", "question": "Which actions?"}, "A hook.", True),
        ({"sentence": "The heart is wide."}, "What?", False),
        ({"question": "Another task?"}, "What?", False),
    ],
)
def test_the_reader_is_the_tasks(doc: dict[str, Any], text: str, unread: bool):
    assert is_unread(doc, text) == unread


@pytest.mark.parametrize(
    ("doc", "reader"),
    [
        (CHOICE, "parse_answer"),
        (CLOSED, "explain_yes_no"),
        (OPEN, "extract_labels"),
        ({"ask": "instruments"}, "read_instruments"),
        ({"ask": "triplets"}, "read_triplets"),
    ],
)
@pytest.mark.parametrize("cut", [True, False])
def test_the_reader_is_told_what_is_cut(doc: dict[str, Any], reader: str, cut: bool, monkeypatch):
    read, told = getattr(first_answers, reader), []
    monkeypatch.setattr(first_answers, reader, lambda *given, cut: (told.append(cut), read(*given, cut=cut))[1])
    read_outcome(doc, "Hm", cut=cut)
    assert told == [cut]


@pytest.mark.parametrize("doc", [CHOICE, CLOSED, OPEN, {"ask": "instruments", "question": "Which tools?"}])
def test_a_refusal_is_not_unread(doc: dict[str, Any]):
    assert {read_outcome(doc, text) for text in DECLINED} == {"declined"}


def test_refusals_are_said_to_be_refusals(capsys):
    first = FirstAnswers()
    for reply in replies(*DECLINED):
        first.add(CHOICE, reply)
    assert "the first 20 answers all decline to answer, such as “" in capsys.readouterr().err


def replies(*texts: str, outcome: str = ANSWERED) -> list[Reply]:
    return [Reply(outcome, text) for text in itertools.islice(itertools.cycle(texts), FEW)]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (replies("", outcome=EMPTY), ["are all empty", "--apply_chat_template", "max_gen_toks=N", "blank"]),
        (replies("A", "A "), ["are all “A”", "--apply_chat_template"]),
        (replies("Let me see. " * 12, "Well", outcome=CUT), ["are all cut at the limit", "“Well”", "max_gen_toks=N"]),
        (replies("B. It is", "A. I", outcome=CUT), ["all cut", "“A. I”; of each only the opening statement is read"]),
        (replies("I see.", "Well"), ["none of the first 20 answers can be read", "medfaith read", "extractor-model"]),
        (replies("I see.", "", outcome=FILTERED), ["none of the first 20"]),
        (replies("A", "B"), None),
        ([*replies("", outcome=EMPTY)[1:], Reply(ANSWERED, "B")], None),
        ([*replies("A")[1:], Reply(ANSWERED, "B")], None),
        ([*replies("I see.", "Well")[1:], Reply(ANSWERED, "B")], None),
        ([*replies("A", outcome=CUT)[1:], Reply(ANSWERED, "B")], None),
        (replies("A")[1:], None),
        ([*replies("", outcome=UNANSWERED), *replies("A")[1:]], None),
    ],
)
def test_what_is_wrong_with_all_is_said_once(given: list[Reply], words: list[str] | None, capsys):
    first = FirstAnswers()
    for reply in [*given, *(given if words else [])]:
        first.add(CHOICE, reply)
    said = capsys.readouterr().err
    assert bool(said) == bool(words)
    assert said.count("\n") == bool(words), "one line, or an audit in a pipe drops the rest"
    assert all(word in said for word in ["medfaith: WARNING", "What to do", *words] if words) if words else True


def test_a_server_is_looked_at_while_it_answers(capsys):
    """The warning comes before the run is over: here, before the last answer."""
    heard = []

    def say(messages: Any) -> str:
        heard.append(capsys.readouterr().err)
        return "A"

    with chat_server(say, models=({"id": "m"},)) as (url, _):
        run = partial(ServerLM, base_url=url, model="m", concurrency=1)
        run().generate_until([asked(str(number), number=number) for number in range(FEW + 2)])
    assert "the first 20 answers are all “A”" in "".join(heard)
