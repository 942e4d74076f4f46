"""Readings by a language model: prompts, replies, agreement."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, cohen_kappa_score, jaccard_score

from medfaith.evaluate_metrics.reading import language_model
from medfaith.evaluate_metrics.reading.agreement import agreement, compare_closed_readings
from medfaith.evaluate_metrics.reading.chat import collect_replies
from medfaith.evaluate_metrics.reading.disease_names import CLASSES
from medfaith.evaluate_metrics.reading.diseases import Extraction, extract_labels

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
    assert [messages and messages[-1]["content"] for messages in closed] == [
        "Question: Which?\nOptions:\nA. Edema\nB. No edema\nAnswer: I {say} B\nReply:",
        "Question: Is there edema?\nAnswer: None.\nReply:",
    ]


def test_closed_answers_are_asked_once_each_and_empty_ones_never():
    requests = []

    def ask(prompts):
        return collect_replies(prompts, lambda distinct: [requests.append(messages) or "B" for messages in distinct])

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


def extract(texts, complete):
    return language_model.diseases(
        texts, lambda prompts: collect_replies(prompts, lambda distinct: [*map(complete, distinct)])
    )


def test_each_text_is_asked_once():
    requests = []

    def complete(messages):
        requests.append(messages)
        return reply_by_words(messages)

    assert extract(TEXTS, complete) == READ
    assert len(requests) == 3


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
