"""Readings by a language model: prompts, replies, cache, a chat-completions server, a tiny local model, agreement."""

import contextlib
import json
import math
import sqlite3

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, cohen_kappa_score, jaccard_score

from medfaith.evaluate_metrics.reading import language_model
from medfaith.evaluate_metrics.reading.agreement import agreement, compare_closed_readings
from medfaith.evaluate_metrics.reading.chat import chat_endpoint, replies, transformers_chat
from medfaith.evaluate_metrics.reading.disease_names import CLASSES
from medfaith.evaluate_metrics.reading.diseases import Extraction, extract_labels
from tests.support.chat import chat_server, save_tiny_llama

NOTHING = Extraction(frozenset(), "unread")
NORMAL = Extraction(frozenset(), "answered")
DECLINED = Extraction(frozenset(), "declined")


def make_extraction(*labels):
    return Extraction(frozenset(labels), "answered")


@pytest.mark.parametrize(
    ("replies", "extraction"),
    [
        (
            ['["Edema"]', '```json\n["Edema"]\n```', '{"labels": ["Edema"]}', '<think>["ILD"]</think>["Edema"]'],
            make_extraction("Edema"),
        ),
        (['["edema ", "NODULE/MASS", "Edema"]'], make_extraction("Edema", "Nodule/Mass")),
        (['The list is: ["Edema", "ILD"].'], make_extraction("Edema", "ILD")),
        (["[]"], NORMAL),
        (["", "Edema", '["Pneumonia"]', '["Edema", "Pneumonia"]', '["Edema"] or ["ILD"]'], NOTHING),
        (['["Edema", 3]', '[["Edema"]]', '["Edema"', "['Edema']"], NOTHING),
    ],
)
def test_replies(replies, extraction):
    assert [language_model.parse_diseases(reply) for reply in replies] == [extraction] * len(replies)


@pytest.mark.parametrize(
    ("replies", "choice", "answer"),
    [
        (["B", "b."], 1, "unread"),
        (["<think>A? No.</think>\n(C)"], 2, "unread"),
        (['"**A**"'], 0, "unread"),
        (["D", "none", "A or B", "Option B", "", "unclear", "Yes, it is", "yes no"], None, "unread"),
        (["Yes."], None, "yes"),
        (["NO"], None, "no"),
    ],
)
def test_replies_of_one_letter_or_word(replies, choice, answer):
    assert {language_model.parse_choice(reply, 3) for reply in replies} == {choice}
    assert {language_model.parse_yes_no(reply) for reply in replies} == {answer}


def test_the_prompts_hold_what_the_model_was_shown_and_said():
    system, user = language_model.build_disease_messages("A {nodule}", ["Edema", "ILD"]) or []
    assert (system["role"], user["role"]) == ("system", "user")
    assert "- Edema\n- ILD\n" in system["content"]
    assert "A {nodule}" in user["content"]
    closed = (
        language_model.build_choice_messages("I {say} B", "Which?", ["A. Edema", "B. No edema"]),
        language_model.build_yes_no_messages("None.", "Is there edema?"),
    )
    assert [messages[-1]["content"] for messages in closed] == [
        "Question: Which?\nOptions:\nA. Edema\nB. No edema\nAnswer: I {say} B\nReply:",
        "Question: Is there edema?\nAnswer: None.\nReply:",
    ]


def test_closed_answers_are_asked_once_each_and_empty_ones_never():
    requests = []

    def ask(prompts):
        return replies(prompts, lambda messages: requests.append(messages) or "B")

    which, other_question = ("Which?", ["Edema", "No edema"]), ("Which?", ["Edema"])
    readings = language_model.choices(["B", "B", "B", " ", None], [which, which, other_question, which, which], ask)
    assert (readings, len(requests)) == ([1, 1, None, None, None], 2), "one for each question and answer"
    assert (language_model.yes_no(["", "A"], ["?", "?"], ask), len(requests)) == (["unread", "unread"], 3)


def reply_by_words(messages):
    """Reply to a prompt with the labels that the words of the answer name."""
    text = messages[-1]["content"].removeprefix("Answer: ").removesuffix("\nReply:")
    return json.dumps(sorted(extract_labels(text).labels))


TEXTS = ["Edema and nodules", "The heart is normal", None, "Edema and nodules", " ", "Cardiomegaly"]
READ = [
    make_extraction("Edema", "Nodule/Mass"),
    NORMAL,
    NOTHING,
    make_extraction("Edema", "Nodule/Mass"),
    NOTHING,
    make_extraction("Cardiomegaly"),
]


def extract(texts, complete, vocabulary=CLASSES, **options):
    return language_model.diseases(texts, lambda prompts: replies(prompts, complete, **options), vocabulary)


class Counting:
    """A model that replies by words, counts its calls, and raises from call `fails_from` on."""

    def __init__(self, fails_from=math.inf):
        self.fails_from, self.calls = fails_from, 0

    def __call__(self, messages):
        self.calls += 1
        if self.calls >= self.fails_from:
            raise ConnectionError("gone")
        return reply_by_words(messages)


def test_each_text_is_asked_once():
    model, reported = Counting(), []
    assert extract(TEXTS, model, progress=lambda texts: (reported.append(text) or text for text in texts)) == READ
    assert model.calls == len(reported) == 3


def test_a_stopped_run_goes_on_where_it_was(tmp_path):
    cache = tmp_path / "replies.sqlite"
    with pytest.raises(ConnectionError):
        extract(TEXTS, Counting(fails_from=3), model="m", cache=cache)
    resumed, cached, renamed, fewer = (Counting() for _ in range(4))
    assert extract(TEXTS, resumed, model="m", cache=cache) == extract(TEXTS, cached, model="m", cache=cache) == READ
    # Another model or another vocabulary is another question.
    extract(TEXTS, renamed, model="m2", cache=cache)
    extract(TEXTS, fewer, ["Edema"], model="m", cache=cache)
    assert [model.calls for model in (resumed, cached, renamed, fewer)] == [1, 0, 3, 3]
    with sqlite3.connect(cache) as database:
        assert "nodules" not in str(database.execute("SELECT key FROM replies").fetchall())


def test_a_cache_needs_a_model_and_must_be_one(tmp_path):
    with pytest.raises(ValueError, match="name the model"):
        extract(TEXTS, reply_by_words, cache=tmp_path / "replies.sqlite")
    (tmp_path / "notes.txt").write_text("no database " * 100)
    with pytest.raises(ValueError, match=r"notes\.txt: .*expected a cache of replies"):
        extract(TEXTS, reply_by_words, model="m", cache=tmp_path / "notes.txt")


def start_server(statuses=(), reply=None):
    """Start a chat server that answers the first requests with `statuses`, then replies by words."""
    waiting = list(statuses)
    return chat_server(reply_by_words, lambda _: waiting.pop(0) if waiting else 200, reply)


@pytest.mark.parametrize("slash", ["", "/"])
def test_an_endpoint_is_asked_greedily(slash):
    with start_server() as (url, requests):
        assert extract(TEXTS, chat_endpoint(url + slash, "llama", "secret")) == READ
    sent = {tuple(request[name] for name in ("path", "model", "temperature", "key")) for request in requests}
    assert sent == {("/v1/chat/completions", "llama", 0, "Bearer secret")}
    assert requests[0]["messages"] == language_model.build_disease_messages("Edema and nodules")


def test_a_busy_endpoint_is_asked_again_and_no_key_is_sent_unasked():
    with start_server([429, 503, 500]) as (url, requests):
        assert extract(["Edema"], chat_endpoint(url, "llama", backoff=0.01)) == [make_extraction("Edema")]
    assert [request["key"] for request in requests] == [None] * 4


@pytest.mark.parametrize(
    ("statuses", "reply", "message", "n_requests"),
    [
        ([401], None, "status 401.*check the address, the model's name and the key", 1),
        ([404], None, "status 404", 1),
        ([503] * 2, None, "status 503", 2),
        ([], {"choices": []}, "is no chat completion", 1),
        ([], "text", "is no chat completion", 1),
        (None, None, r"no answer after 1 retries.*is the server up", 0),
    ],
)
def test_an_endpoint_that_says_no(statuses, reply, message, n_requests):
    with contextlib.ExitStack() as stack:
        url, requests = stack.enter_context(start_server(statuses or [], reply))
        if statuses is None:
            stack.close()
        with pytest.raises(ConnectionError, match=message):
            extract(["Edema"], chat_endpoint(url, "llama", retries=1, backoff=0.01))
    assert len(requests) == n_requests


def test_a_local_model_replies_the_same_each_time(tmp_path):
    complete = transformers_chat(save_tiny_llama(tmp_path / "llama"), max_new_tokens=8)
    reply, second_reply = (complete(language_model.build_disease_messages("Edema")) for _ in range(2))
    assert reply == second_reply != ""
    assert "user:" not in reply  # the reply, not the prompt
    assert extract(["Edema"], complete) == [NOTHING]  # random weights write no list


label_sets = st.frozensets(st.sampled_from(CLASSES[:5]), max_size=3)


@given(st.lists(st.tuples(label_sets, label_sets), min_size=1, max_size=10))
def test_agreement_agrees_with_scikit_learn(pairs):
    sides = [[Extraction(pair[side], "answered") for pair in pairs] for side in (0, 1)]
    labels_a, labels_b = (
        np.array([[label in e.labels for label in CLASSES] for e in side], dtype=int) for side in sides
    )
    ours = agreement(*sides)
    assert ours["exact"] == pytest.approx(accuracy_score(labels_a, labels_b))
    if (labels_a | labels_b).any():
        assert ours["jaccard"] == pytest.approx(jaccard_score(labels_a, labels_b, average="micro"))
        assert ours["kappa"] == pytest.approx(cohen_kappa_score(labels_a.ravel(), labels_b.ravel()))
    else:
        assert np.isnan([ours["jaccard"], ours["kappa"]]).all()


READINGS = st.sampled_from([None, 0, 1, 2])


@given(st.lists(st.tuples(READINGS, READINGS), min_size=1, max_size=20))
def test_agreement_of_closed_answers_agrees_with_scikit_learn(pairs):
    readings_a, readings_b = ([pair[side] for pair in pairs] for side in (0, 1))
    codes = [[-1 if reading is None else reading for reading in side] for side in (readings_a, readings_b)]
    agreement = compare_closed_readings(readings_a, readings_b)
    assert agreement["same"] == pytest.approx(accuracy_score(*codes))
    expected = cohen_kappa_score(*codes) if len({*readings_a, *readings_b}) > 1 else float("nan")
    assert agreement["kappa"] == pytest.approx(expected, nan_ok=True)
    assert agreement["n_only_ours"] == sum(
        reading_a is not None and reading_b is None for reading_a, reading_b in pairs
    )
    assert agreement["n_unread_theirs"] == readings_b.count(None)


def test_agreement_of_nothing_and_of_different_texts():
    nothing = agreement([], [])
    assert np.isnan([nothing["exact"], nothing["jaccard"], nothing["kappa"]]).all()
    counts = agreement([NOTHING, NORMAL, DECLINED], [NORMAL, NORMAL, NORMAL])
    names = ("unread_ours", "unread_theirs", "only_ours", "only_theirs")
    assert [counts[f"n_{name}"] for name in names] == [2, 0, 0, 2]
    with pytest.raises(ValueError, match="1 and 0 readings"):
        agreement([NORMAL], [])
