"""`medfaith read`: the counts by hand, the failures it writes, and how it refuses a broken file."""

import json

import pytest

from medfaith.cli import main

OPTIONS = ["Edema", "No edema", "Atelectasis"]


def choice(text, gold, **more):
    return {"id": text, "kind": "choice", "question": "Which?", "options": OPTIONS, "text": text, "gold": gold} | more


def yes_no(text, gold, **more):
    return {"id": text, "kind": "yes_no", "question": "Is there edema?", "text": text, "gold": gold} | more


ROWS = [
    choice("A", 0, model="m", source="s"),
    choice("Answer: B.", 1),
    choice("The answer is C", 0),  # wrong
    choice("A or B", 0),  # unread
    choice("A or C", "unclear"),
    choice("C", "unclear"),  # wrong: read though unclear
    choice("C", 0, borderline=True),  # not counted, and so the two below
    yes_no("No.", "yes", implied=True),
    yes_no("No.", "yes", picked=True),
    yes_no("It has none\u2028.", "no", model="m"),  # unread; the separator ends no line
    yes_no("There is no edema.", "no", model="m"),
]
COUNTS = {
    "choice": {"n": 6, "right": 3, "wrong": 2, "unread": 1},
    "yes_no": {"n": 2, "right": 1, "wrong": 0, "unread": 1},
}


@pytest.fixture
def answers(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS) + "\n\n", encoding="utf-8")
    return path


def test_the_counts_are_those_by_hand(answers, capsys):
    assert main(["read", str(answers), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == COUNTS


def test_the_tables_name_kinds_sources_and_models_and_failures_are_written(answers, tmp_path, capsys):
    assert main(["read", str(answers), "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert "choice        6    50.00    33.33     16.67" in out
    assert "m (yes_no)" in out
    assert "Not counted: 3 answers" in out
    failures = [
        json.loads(line) for line in (tmp_path / "out" / "failures.jsonl").read_text("utf-8").split("\n") if line
    ]
    assert [(one["text"][:8], one["read"], one["why"], one["verdict"]) for one in failures] == [
        ("The answ", 2, "answer", "wrong"),
        ("A or B", "unclear", "opening", "unread"),
        ("C", 2, "answer", "wrong"),
        ("It has n", "unclear", "none", "unread"),
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", ["row 1", "no JSON"]),
        ("[]", ["row 1", "no JSON object"]),
        ("", ["holds no answer"]),
        (json.dumps(choice("A", 3)), ["row 1", "'gold'", "one of 0, 1, 2, unclear"]),
        (json.dumps(choice("A", True)), ["'gold'"]),
        (json.dumps(yes_no("A", 0)), ["'gold'", "yes, no, unclear"]),
        (json.dumps(choice("A", 0, options=[])), ["'options'", "a list of texts"]),
        (json.dumps(choice("A", 0, kind="open")), ["'kind'", '"choice" or "yes_no"']),
        (json.dumps(choice(None, 0)), ["'id'", "a text"]),
    ],
)
def test_a_broken_file_is_refused_by_line_and_field(line, words, tmp_path, capsys):
    path = tmp_path / "a.jsonl"
    path.write_text(line, encoding="utf-8")
    assert main(["read", str(path), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in ["a.jsonl", "what to do", *words]), error
    assert not (tmp_path / "out").exists()


def test_a_missing_file_is_named(tmp_path, capsys):
    assert main(["read", str(tmp_path / "absent.jsonl")]) == 2
    assert "absent.jsonl" in capsys.readouterr().err
