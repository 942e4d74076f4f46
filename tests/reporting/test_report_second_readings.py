"""Second readings of answers by a language model: a local server, its faults, and a local model."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest
from sklearn.metrics import cohen_kappa_score

from medfaith.cli import main
from medfaith.evaluate_metrics.reading.disease_names import CLASSES
from tests.support.chat import chat_server, save_tiny_llama
from tests.support.reporting.heal_logs import CLOSED, OPEN, TPT_PAIRS, UNREADABLE, as_mimic, write_heal
from tests.support.reporting.report_logs import answered, rows_of, write_log
from tests.support.reporting.surgx_logs import FRAMES, write_surgx

pytestmark = pytest.mark.usefixtures("tables_only")

TWO = "HEAL open-ended labels"

LABELS = {  # the server model's reading of each answer in OPEN
    "Edema.": ["Edema"],
    "It shows ILD and cardiomegaly.": ["ILD"],
    "No abnormality": [],
    UNREADABLE: ["Edema"],
}
CLOSER = {  # and in closed answers
    "A": "A", "B. No edema": "a.", "The image is sharp.": "C", "C": "I think C",
    "Yes": "yes", "yes, it does": "Yes.", "No": "no", "no.": "no", UNREADABLE: "yes",
}  # fmt: skip


def answer_of(messages: list[dict[str, str]]) -> str:
    return messages[-1]["content"].split("Answer: ")[1].removesuffix("\nReply:")


def reply_to(messages: list[dict[str, str]]) -> str:
    answer = answer_of(messages)
    return CLOSER[answer] if messages[-1]["content"].startswith("Question: ") else json.dumps(LABELS[answer])


def server(*, fails_from: float = math.inf):
    """Serve a model that reads LABELS and CLOSER; from a chosen request on it returns errors only."""
    status = [404, 200]
    return chat_server(reply_to, lambda n: status[n < fails_from])


@pytest.fixture(autouse=True)
def without_keys(monkeypatch):
    for name in ("OPENAI_API_KEY", "MEDFAITH_EXTRACTOR_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def logs(tmp_path) -> Path:
    write_heal(tmp_path / "logs", "open", OPEN)
    return tmp_path / "logs"


def test_open_answers_are_read_a_second_time(logs, tmp_path, capsys):
    write_heal(logs / "two", "open", as_mimic(OPEN[:1]), model="n")
    with server() as (url, requests):
        arguments = ["report", str(logs), "--markdown", "--extractor-url", url, "--extractor-model", "llama"]
        assert main([*arguments, "--out", str(tmp_path / "out")]) == 0
    report = capsys.readouterr().out
    first_row, second_row = rows_of(report, TWO)
    assert first_row[:3] == ["m", "VinDr", "4"]
    # By words 2 true positives, 1 false, 2 missed; by the model Edema, ILD, nothing, Edema: 3, 0, 1.
    assert (first_row[3][:5], *first_row[4:7]) == ("0.571", "0.667", "0.500", "1 of 4 (25.00%)")
    assert (first_row[8][:5], *first_row[9:12]) == ("0.857", "1.000", "0.750", "0 of 4 (0.00%)")
    assert first_row[7] == first_row[12] == "0 of 4 (0.00%)", "declined"
    label_sets = [{"Edema"}, {"ILD", "Cardiomegaly"}, set(), set()]
    matrices = [
        [label in labels for labels in side for label in CLASSES] for side in (label_sets, map(set, LABELS.values()))
    ]
    # 2 of 4 equal; 2 of 4 labels shared; the model alone reads one.
    assert first_row[13:] == ["0.500", "0.500", f"{cohen_kappa_score(*matrices):.3f}", "0", "1"]
    assert second_row[:3] == ["n", "MIMIC", "1"]
    assert second_row[13:] == ["1.000", "1.000", "1.000", "0", "0"]
    assert "read by llama" in report
    assert {(request["model"], request["key"]) for request in requests} == {("llama", None)}
    assert sorted(answer_of(call["messages"]) for call in requests) == sorted(LABELS), "equal answers are asked once"
    # The sections without an extractor are unchanged, and the folder is replaced.
    assert main(["report", str(logs), "--markdown", "--out", str(tmp_path / "out")]) == 0
    assert {*capsys.readouterr().out.split("\n\n## ")} < {*report.split("\n\n## ")}
    assert not (tmp_path / "out" / "heal_extractors.csv").exists()


def test_closed_answers_are_read_a_second_time(tmp_path, capsys):
    """Choices by words: A, A, A, B, unread, C; by the model: A, A, A, A, C, unread. It reads unread yes/no as yes."""
    write_log(tmp_path / "a", "m", answered("chexpert_presence", 6, 3, 1, unread=1))
    write_heal(tmp_path / "a", "closed", CLOSED)
    write_heal(tmp_path / "a", "tpt", TPT_PAIRS)
    with server() as (url, requests):
        extractor_options = ["--extractor-url", url, "--extractor-model", "llama"]
        assert main(["report", str(tmp_path / "a"), "--markdown", *extractor_options]) == 0
    report = capsys.readouterr().out
    (choices,) = rows_of(report, "Choices read twice")
    kappa = cohen_kappa_score([0, 0, 0, 1, -1, 2], [0, 0, 0, 0, 2, -1])
    assert choices[4:] == ["6", "50.00", f"{kappa:.3f}", "1", "1", "1", "1", "50.00", "66.67"]
    closed, tpt = rows_of(report, "HEAL yes/no answers read twice")
    readings = ["yes", "yes", "no", "", "yes", *["no"] * 5]
    kappa = cohen_kappa_score(readings, ["yes" if reading == "" else reading for reading in readings])
    assert closed[2:12] == ["yes/no", "10", "0.900", f"{kappa:.3f}", "1", "0", "0", "1", "0.700", "0.800"]
    assert (closed[12], closed[13][:5], closed[14][:5]) == ("F1", f"{4 / 7:.3f}", "0.750")
    assert (tpt[2], tpt[6:10], tpt[12], tpt[13][:5], tpt[14][:5]) == (
        "TPT", ["2", "0", "0", "2"], "TPT", "0.600", f"{5 / 7:.3f}",
    )  # fmt: skip
    assert sorted(answer_of(call["messages"]) for call in requests) == sorted(CLOSER), "equal answers are asked once"
    assert not any(word in str(requests) for word in ("gold", "chexpert/validation", "patient0"))


def test_the_key_comes_from_the_environment(logs, monkeypatch, capsys):
    with server() as (url, requests):
        command = ["report", str(logs), "--extractor-url", url, "--extractor-model", "llama"]
        for variable, key in (("OPENAI_API_KEY", "key-a"), ("MEDFAITH_EXTRACTOR_KEY", "key-b")):
            monkeypatch.setenv(variable, key)
            assert main(command) == 0
            assert {request["key"] for request in requests} == {f"Bearer {key}"}
            requests.clear()
        captured = capsys.readouterr()
        assert "key-" not in captured.out + captured.err
        monkeypatch.setenv("MEDFAITH_EXTRACTOR_KEY", "“key”")
        assert main(command) == 2, "no header takes such a key"
    assert requests == []
    assert "and the key" in capsys.readouterr().err


def test_an_interrupted_run_goes_on_where_it_was(logs, tmp_path, capsys):
    cache = tmp_path / "replies.sqlite"
    arguments = ["report", str(logs), "--extractor-model", "llama", "--extractor-cache", str(cache)]
    arguments += ["--out", str(tmp_path / "out"), "--extractor-url"]
    with server(fails_from=3) as (url, requests):
        assert main([*arguments, url]) == 2
    assert len(requests) in (3, 4)  # the fourth is sent before the third fails, or never
    error = capsys.readouterr().err
    assert all(fragment in error for fragment in ("--extractor-cache", "/v1: 404: the model llama does not exist"))
    assert not (tmp_path / "out").exists()
    with server() as (url, requests):
        assert main([*arguments, url]) == 0
        assert len(requests) == 2
    report = capsys.readouterr().out
    assert main([*arguments, url]) == 0, "all replies are there: the server, now down, is not needed"
    assert capsys.readouterr().out == report
    assert main(["report", str(logs), "--extractor-model", "llama", "--extractor-url", url]) == 2
    error = capsys.readouterr().err
    assert "medfaith: extractor llama: " in error
    assert "what to do: check --extractor-url" in error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--extractor-url", "http://127.0.0.1:1/v1"], "--extractor-url names no language model"),
        (["--extractor-cache", "replies"], "--extractor-cache names no language model"),
        (["--extractor-model", "m", "--extractor-url", "127.0.0.1:1/v1"], "--extractor-url: is '127.0.0.1:1/v1'"),
        (["--extractor-model", "m", "--extractor-url", "http://127.0.0.1:1/v1"], "check --extractor-url"),
        (["--extractor-model", "no/such-model"], "give --extractor-model a chat model's folder or name"),
        (["--extractor-model", "m", "--extractor-cache", __file__], "name another with --extractor-cache FILE"),
        (["--extractor-model", "m", "--extractor-cache", f"{__file__}/replies"], "one of its folders is a file"),
    ],
)
def test_options_that_cannot_work_exit_with_2(logs, capsys, options, message):
    assert main(["report", str(logs), *options]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_a_url_needs_an_extra(logs, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "openai", None)
    assert main(["report", str(logs), "--extractor-model", "m", "--extractor-url", "http://127.0.0.1:1/v1"]) == 2
    error = capsys.readouterr().err
    assert "--extractor-url needs openai\n" in error
    assert 'what to do: uv sync --inexact --extra server, or pip install "medfaith[server]"' in error


def test_without_such_answers_nothing_is_asked(tmp_path, capsys):
    write_surgx(tmp_path, FRAMES)
    with server() as (url, requests):
        assert main(["report", str(tmp_path), "--extractor-url", url, "--extractor-model", "llama"]) == 0
    report = capsys.readouterr().out
    assert requests == []
    assert "the extractor llama was not used" in report
    assert TWO not in report


@pytest.mark.full
def test_a_local_model_reads(logs, tmp_path, capsys):
    """A model with random weights writes no list, so it reads no answer."""
    folder = save_tiny_llama(tmp_path / "llama")
    assert main(["report", str(logs), "--markdown", "--extractor-model", str(folder)]) == 0
    (row,) = rows_of(capsys.readouterr().out, TWO)
    assert (row[11], row[13]) == (
        "4 of 4 (100.00%)",
        "0.500",
    )  # without labels both: the normal region and the blurred picture
