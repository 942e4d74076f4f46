"""Failed answers sorted by a person: their random choice, the file, the page, and the report's table."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from statsmodels.stats.proportion import proportion_confint

from medfaith.annotate.answers import ErrorJudgement, open_answers, read_errors
from medfaith.annotate.errors import ErrorSession, failures
from medfaith.annotate.errors_case import format_case
from medfaith.annotate.wording import CATEGORIES
from medfaith.cli import main
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.reporting.benchmark import ReportSources
from medfaith.reporting.contrabench.audit import build_audit_tables
from medfaith.reporting.page.cases import collect_cases
from medfaith.reporting.results import read_results
from tests.support.browser import browser
from tests.support.reporting.heal_logs import CLOSED, write_heal
from tests.support.reporting.report_logs import answered, rows_of, write_log, write_report

TABLE = "Figure 13, C and D: failed answers, sorted by people"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """8 of 20 answers are wrong or unread; 4 more fail under a control, and some on a second benchmark."""
    folder = tmp_path / "logs"
    write_log(folder / "a", "m", answered("chexpert_presence", 20, 12, 5, unread=1))
    write_log(folder / "b", "m", answered("chexpert_presence", 4, 0, 4, prompt="b0, blank"))
    write_heal(folder / "c", "closed", CLOSED)
    return folder


def open_session(logs: Path, answers: Any, n: int = 100, seed: int = 0) -> ErrorSession:
    return ErrorSession(failures(collect_cases(read_results([logs]).runs).cases, n, seed), answers, "ann")


def test_failed_answers_with_the_image_are_drawn_by_chance(logs: Path):
    question_cases = collect_cases(read_results([logs]).runs).cases
    every = failures(question_cases, 100, 0)
    outcomes = [failure.case.answers[failure.place].outcome for failure in every]
    assert (len(every), outcomes.count("wrong"), outcomes.count("unread")) == (8, 7, 1)
    assert {failure.case.answers[failure.place].shown for failure in every} == {"image"}
    assert failures(question_cases, 3, 0) == every[:3]
    assert {failure.item for failure in failures(question_cases, 8, 1)} == {failure.item for failure in every}
    assert failures(question_cases, 8, 1) != every


def test_what_is_said_is_kept_and_becomes_a_table(logs: Path, tmp_path: Path):
    out = tmp_path / "answers.jsonl"
    with open_answers(out) as (answers, _):
        session = open_session(logs, answers)
        for place, (category, fix) in enumerate([("reversal", "rule")] * 4 + [("distractor", "image")] * 2):
            assert session.find_next() == place
            session.judge(place, category, fix, 1.5)
        session.judge(0, "unread", "nothing", 1)  # takes the place of the first
    with open_answers(out) as (answers, _):
        session = open_session(logs, answers)
        judgement = session.get_judgement(0)
        assert judgement is not None
        assert (session.n_done, session.find_next(), judgement.category) == (6, 6, "unread")
    assert len(out.read_text().splitlines()) == 7
    assert len(read_errors([out, out])) == 6
    rows = {row[0]: row[1:] for row in rows_of(write_report([logs], sources=ReportSources([out])), TABLE)}
    low, high = (100 * end for end in proportion_confint(3, 6, method="wilson"))
    assert rows["It denies a finding that is there (“No X”)"] == ["3", f"50.00 [{low:.2f}, {high:.2f}]", "3", "0", "0"]
    assert rows["It takes another wrong option"][2:] == ["0", "2", "0"]
    assert rows["It cannot be read, or is not a choice"][2:] == ["0", "0", "1"]
    assert rows["All"][0] == "6"


def test_a_second_judge_who_agrees_adds_no_question():
    """Two people judge the same 40 answers alike: the interval is that of 40 questions, not of 80."""
    judgements = [
        ErrorJudgement(person, "t", str(row), "m", "distractor" if row % 2 else "unread", "image", 1.0, "1")
        for person in ("a", "b")
        for row in range(40)
    ]
    rows = {row["category"]: row for row in build_audit_tables(judgements)[0].records()}
    distractors = rows[CATEGORIES["distractor"]]
    width = distractors["share_high"] - distractors["share_low"]
    assert (distractors["n"], width) == (40, pytest.approx(2 * 1.96 * 0.5 / 40**0.5, abs=0.03))
    assert rows["All"]["share_low"] is None, "all are always 100%"


@pytest.mark.parametrize("arguments", [
    (8, "unread", "rule"), (-1, "unread", "rule"), (True, "unread", "rule"), ("0", "unread", "rule"),
    (0, "other", "rule"), (0, "unread", "x" * 10**6), (0, ["unread"], "rule"), (0, "unread", None),
])  # fmt: skip
def test_the_page_writes_only_what_it_asks(arguments: Any, logs: Path, tmp_path: Path):
    out = tmp_path / "answers.jsonl"
    with open_answers(out) as (answers, _):
        session = open_session(logs, answers)
        assert len(session.failures) == 8
        with pytest.raises(InputError, match="is unknown") as raised:
            session.judge(*arguments, 1.5)
    assert len(str(raised.value)) < 500
    assert not out.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"category": "other"}, "column 'category': is 'other'"),
        ({"fix": 3}, "column 'fix': is 3"),
        ({"seconds": "x"}, "column 'seconds': is 'x'"),
    ],
    ids=str,
)
def test_a_line_that_says_something_else_is_refused(change: dict[str, Any], message: str, tmp_path: Path):
    line = {"kind": "error", "annotator": "a", "task": "t", "row_id": "r", "model": "m", "category": "unread"}
    line |= {"fix": "rule", "seconds": 1.0, "version": "1"}
    (tmp_path / "a.jsonl").write_text(json.dumps(line | change) + "\n")
    with pytest.raises(MedfaithError, match=re.escape(message)):
        read_errors([tmp_path / "a.jsonl"])


@pytest.mark.full
def test_a_person_sorts_in_a_browser(logs: Path, tmp_path: Path):
    out = tmp_path / "answers.jsonl"
    command = [sys.executable, "-m", "medfaith", "annotate", str(logs), "--errors", "--cases", "2", "--port", "0"]
    with subprocess.Popen([*command, "--out", str(out)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            url = next(
                match[0]
                for line in process.stdout
                if (match := re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", line))
            )
            with browser() as running:
                page = running.new_page(viewport={"width": 390, "height": 844})
                page.set_default_timeout(120_000)
                page.goto(url)
                following = page.get_by_role("button", name="Next")
                for number in (1, 2):
                    page.get_by_text(f"Case {number} ").wait_for()
                    following.click()
                    page.get_by_text("Answer both questions.").first.wait_for()
                    page.get_by_label("It takes another wrong option").check()
                    page.get_by_label("Only a better look").check()
                    following.click()
                page.get_by_text("All cases are judged.").wait_for()
        finally:
            process.kill()
    assert [(entry.annotator, entry.category, entry.fix) for entry in read_errors([out])] == [
        ("annotator", "distractor", "image")
    ] * 2


def test_what_a_model_says_is_a_text_on_the_page(tmp_path: Path):
    evil = "<b>\x1b[31m\u202ered"
    write_log(tmp_path, evil, [(row, evil) for row, _ in answered("chexpert_presence", 4, 1, 1)])
    with open_answers(tmp_path / "out.jsonl") as (answers, _):
        case = format_case(open_session(tmp_path, answers, n=1), 0, ())
    assert case.count("&lt;b&gt;␛[31m⟨U+202E⟩red") == 2


def test_what_cannot_be_sorted_is_refused(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delitem(sys.modules, "gradio", raising=False)
    assert main(["annotate", str(logs / "c"), "--errors", "--out", str(tmp_path / "a")]) == 2
    assert "no answer of CXR-ContraBench failed" in capsys.readouterr().err
    assert main(["annotate", str(logs / "a"), "--out", str(tmp_path / "a")]) == 2
    assert "sort failed answers with --errors" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()
    assert "gradio" not in sys.modules, "its import takes seconds"
