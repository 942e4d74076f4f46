"""One warning line for a problem that all first answers of a run share, with advice."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import pytest

from medfaith.tasks.models import first_answers
from medfaith.tasks.models.advice import FEW
from medfaith.tasks.models.chat_form import Reply
from medfaith.tasks.models.first_answers import FirstAnswers, is_unread, read_outcome
from medfaith.tasks.models.server.lm import ServerLM
from medfaith.tasks.outcomes import ANSWERED, CUT, EMPTY, FILTERED, UNANSWERED
from tests.support.chat import chat_server
from tests.support.declined import DECLINED
from tests.support.tasks.asking import asked

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
    parse, cut_flags = getattr(first_answers, reader), []
    monkeypatch.setattr(first_answers, reader, lambda *args, cut: (cut_flags.append(cut), parse(*args, cut=cut))[1])
    read_outcome(doc, "Hm", cut=cut)
    assert cut_flags == [cut]


@pytest.mark.parametrize("doc", [CHOICE, CLOSED, OPEN, {"ask": "instruments", "question": "Which tools?"}])
def test_a_refusal_is_not_unread(doc: dict[str, Any]):
    assert {read_outcome(doc, text) for text in DECLINED} == {"declined"}


def test_refusals_are_said_to_be_refusals(capsys):
    collector = FirstAnswers()
    for reply in make_replies(*DECLINED):
        collector.add(CHOICE, reply)
    assert "the first 20 answers all decline to answer, such as “" in capsys.readouterr().err


def make_replies(*texts: str, outcome: str = ANSWERED) -> list[Reply]:
    return [Reply(outcome, text) for text in itertools.islice(itertools.cycle(texts), FEW)]


@pytest.mark.parametrize(
    ("answers", "phrases"),
    [
        (make_replies("", outcome=EMPTY), ["are all empty", "--apply_chat_template", "max_gen_toks=N", "blank"]),
        (make_replies("A", "A "), ["are all “A”", "--apply_chat_template"]),
        (
            make_replies("Let me see. " * 12, "Well", outcome=CUT),
            ["are all cut at the limit", "“Well”", "max_gen_toks=N"],
        ),
        (
            make_replies("B. It is", "A. I", outcome=CUT),
            ["all cut", "“A. I”; of each only the opening statement is read"],
        ),
        (
            make_replies("I see.", "Well"),
            ["none of the first 20 answers can be read", "medfaith read", "extractor-model"],
        ),
        (make_replies("I see.", "", outcome=FILTERED), ["none of the first 20"]),
        (make_replies("A", "B"), None),
        ([*make_replies("", outcome=EMPTY)[1:], Reply(ANSWERED, "B")], None),
        ([*make_replies("A")[1:], Reply(ANSWERED, "B")], None),
        ([*make_replies("I see.", "Well")[1:], Reply(ANSWERED, "B")], None),
        ([*make_replies("A", outcome=CUT)[1:], Reply(ANSWERED, "B")], None),
        (make_replies("A")[1:], None),
        ([*make_replies("", outcome=UNANSWERED)[1:], *make_replies("A")[1:]], None),
        ([Reply(UNANSWERED, reason="400: too large")] * FEW, ["the first 20 rows have no answer (400: too large)"]),
        ([Reply(ANSWERED, "B"), *make_replies("", outcome=UNANSWERED)], None),
    ],
)
def test_what_is_wrong_with_all_is_said_once(answers: list[Reply], phrases: list[str] | None, capsys):
    collector = FirstAnswers()
    for reply in [*answers, *(answers if phrases else [])]:
        collector.add(CHOICE, reply)
    output = capsys.readouterr().err
    assert bool(output) == bool(phrases)
    assert output.count("\n") == bool(phrases), "one line, or an audit in a pipe drops the rest"
    assert all(word in output for word in ["medfaith: WARNING", "What to do", *phrases] if phrases) if phrases else True


def test_a_server_is_looked_at_while_it_answers(capsys):
    """The warning appears during the run: here, before the last answer."""
    heard = []

    def answer_chat(messages: Any) -> str:
        heard.append(capsys.readouterr().err)
        return "A"

    with chat_server(answer_chat, models=({"id": "m"},)) as (url, _):
        run = partial(ServerLM, base_url=url, model="m", concurrency=1)
        run().generate_until([asked(str(number), number=number) for number in range(FEW + 2)])
    assert "the first 20 answers are all “A”" in "".join(heard)
