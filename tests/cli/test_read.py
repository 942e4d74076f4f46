"""`medfaith read`: counts by hand, the failures file, and errors for a broken file."""

import json

import pytest
from sklearn.metrics import cohen_kappa_score

from medfaith.cli import main
from medfaith.read import UNCLEAR, Result, Row, _judge_reading, counts, read_row
from tests.support.chat import chat_server
from tests.support.declined import DECLINED

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
    "choice": {
        "n": 6,
        "right": 3,
        "wrong": 2,
        "unread": 1,
        "how": {"letter": 4, "text": 0, "prose": 0, "declined": 0, "unread": 2},
    },
    "yes_no": {
        "n": 2,
        "right": 1,
        "wrong": 0,
        "unread": 1,
        "how": {"letter": 0, "text": 0, "prose": 1, "declined": 0, "unread": 1},
    },
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
    columns = ("outcome", "reason", "evidence", "verdict")
    assert [(failure["text"][:8], failure["read"], *(failure[name] for name in columns)) for failure in failures] == [
        ("The answ", 2, "answered", "", "letter", "wrong"),
        ("A or B", "unclear", "unread", "ambiguous", "", "unread"),
        ("C", 2, "answered", "", "letter", "wrong"),
        ("It has n", "unclear", "unread", "none", "", "unread"),
    ]
    assert all("stage" in failure and "row" not in failure and "model_read" not in failure for failure in failures)
    table_lines = out[out.index("how it was read") :].splitlines()
    assert table_lines[2].split() == ["choice", "6", "66.67", "0.00", "0.00", "0.00", "33.33"]
    assert table_lines[3].split() == ["yes_no", "2", "0.00", "0.00", "50.00", "0.00", "50.00"]


def read(kind, gold, outcome, reading=UNCLEAR, evidence=""):
    row = Row("1", kind, "Which?", ("Edema", "No edema"), "text", gold, "s", "m", True)
    return Result(row, reading, outcome, "", "", evidence, _judge_reading(row, reading))


def test_declined_answers_are_unread_where_one_is_clear_and_right_where_none_is():
    results = [
        read("choice", 0, "declined"),
        read("choice", UNCLEAR, "declined"),
        read("choice", UNCLEAR, "unread"),
        read("choice", 1, "answered", 1, "text"),
    ]
    assert counts(results) == {
        "choice": {
            "n": 4, "right": 3, "wrong": 0, "unread": 1,
            "how": {"letter": 0, "text": 1, "prose": 0, "declined": 2, "unread": 1},
        }
    }  # fmt: skip


def test_a_refusal_is_declined():
    rows = [Row("1", "choice", "Which?", ("Edema", "No edema"), text, UNCLEAR, "s", "m", True) for text in DECLINED]
    rows += [Row("1", "yes_no", "Is there edema?", (), text, UNCLEAR, "s", "m", True) for text in DECLINED]
    assert {(result.outcome, result.verdict) for result in map(read_row, rows)} == {("declined", "right")}


def test_the_tables_are_printed_also_where_the_failures_cannot_be_written(answers, capsys):
    assert main(["read", str(answers), "--out", str(answers)]) == 2
    assert "Not counted: 3 answers" in capsys.readouterr().out


def test_a_language_model_reads_the_same_answers(answers, tmp_path, capsys):
    """The model takes the first letter or word of an answer: "A or B" becomes A, and yes or no stays unread."""

    def say(messages):
        pieces = messages[-1]["content"].split("Answer: ")
        return pieces[-1][0] if "Options:" in pieces[0] else "unclear"

    with chat_server(say) as (url, requests):
        options = ["--extractor-model", "llama", "--extractor-url", url, "--extractor-cache", str(tmp_path / "replies")]
        assert main(["read", str(answers), "--json", *options]) == 0
    assert len(requests) == len({row["text"] for row in ROWS})
    output = json.loads(capsys.readouterr().out)
    # Words: A, B, C, unread, unread, C; the model: A, B, T (none of the three), A, A, C. All yes/no are unread to it.
    kappa = cohen_kappa_score([0, 1, 2, 9, 9, 2], [0, 1, 9, 0, 0, 2])
    assert output["choice"] == COUNTS["choice"] | {
        "model": {"right": 3, "wrong": 2, "unread": 1}, "kappa": pytest.approx(kappa)
    }  # fmt: skip
    assert output["yes_no"] == COUNTS["yes_no"] | {"model": {"right": 0, "wrong": 0, "unread": 2}, "kappa": 0}
    assert main(["read", str(answers), "--out", str(tmp_path / "out"), *options]) == 0, "every reply is kept"
    out = capsys.readouterr().out
    assert f"choice        6    50.00    33.33     16.67       50.00       33.33        16.67  {kappa:.3f}" in out
    assert "LM: as llama reads it" in out
    first_failure = json.loads((tmp_path / "out" / "failures.jsonl").read_text("utf-8").split("\n")[0])
    assert (first_failure["read"], first_failure["model_read"]) == (2, "unclear")
    assert main(["read", str(answers), "--extractor-url", url]) == 2


@pytest.mark.parametrize(
    ("line", "fragments"),
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
        (json.dumps(choice("A", 0, options=["a"] * 27)), ["row 1", "'options'", "are 27", "at most 26"]),
        (json.dumps(choice("A", 0, options=["a" * 1_001, "b"])), ["'options'", "1,001 characters", "at most 1,000"]),
        (json.dumps(yes_no("A", "no") | {"question": "a" * 10_001}), ["'question'", "10,001", "at most 10,000"]),
        (json.dumps(choice("A", 0, kind="k" * 10**6)), ["'kind'", "'kkk"]),
    ],
)
def test_a_broken_file_is_refused_by_line_and_field(line, fragments, tmp_path, capsys):
    path = tmp_path / "a.jsonl"
    path.write_text(line, encoding="utf-8")
    assert main(["read", str(path), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in ["a.jsonl", "what to do", *fragments]), error
    assert not (tmp_path / "out").exists()


def test_a_missing_file_is_named(tmp_path, capsys):
    assert main(["read", str(tmp_path / "absent.jsonl")]) == 2
    assert "absent.jsonl" in capsys.readouterr().err
