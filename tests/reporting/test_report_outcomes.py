"""Declined, unread and cut answers, and the source of a reading: in tables, warnings, summary, figures and cases."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from medfaith import reporting
from medfaith.loaders.errors import InputError
from medfaith.reporting.contrabench.figures import ANSWERS, answers
from medfaith.reporting.contrabench.runs import Run
from medfaith.reporting.heal import runs as heal_runs
from medfaith.reporting.heal.runs import HealRun
from medfaith.reporting.page.cases import collect_cases
from medfaith.reporting.results import read_results
from medfaith.reporting.summary import Tail, summary
from medfaith.reporting.unread import collect_run_notes
from tests.support.reporting.heal_logs import CLOSED, write_heal
from tests.support.reporting.report_logs import question, rows_of, select_runs, write_log, write_report
from tests.support.reporting.surgx_logs import FRAMES, write_surgx

pytestmark = pytest.mark.usefixtures("tables_only")

PRESENCE, EVIDENCE = "chexpert_presence", "How the answers were read"
DECLINES = "I would rather not say."


def read(choice: int | None, evidence: str = "", outcome: str = "answered", reason: str = "", after: int | None = None):
    """Build the output of a filter; `after` is the verifier's choice if it differs."""
    return {"choice": choice if after is None else after, "before": choice, "outcome": outcome, "reason": reason,
            "evidence": evidence, "verifier": "not_applied" if after is None else "fired"}  # fmt: skip


# Ten answers to presence questions with "Edema" right and "No edema" second, with and without the verifier.
READ = [
    (read(0, "letter"), None),
    (read(0, "text"), None),
    (read(1, "letter"), 0),
    (read(1, "text"), 0),
    (read(1, "prose"), None),  # an error from sentences, which the verifier leaves alone
    (read(2, "prose"), None),
    (read(None, "", "declined"), None),
    (read(None, "", "declined"), None),
    (read(None, "", "unread", "none"), None),
    (read(None, "", "unread", "cut"), None),
]
TEXTS = ["A", "Edema", "B", "No edema", "There is none.", "It breaks.", DECLINES, DECLINES, "Well.", "The"]


def write_read(folder: Path, model: str = "m", readings: Any = READ, control: str = "", **columns: Any) -> Path:
    docs = [(question(PRESENCE, n, **columns), text) for n, text in enumerate(TEXTS)]
    readings_by_filter = {
        "b0": [reading for reading, _ in readings],
        "m1": [reading if a is None else reading | {"choice": a} for reading, a in readings],
    }
    return write_log(folder, model, docs, filters=(), readings_by_filter=readings_by_filter, control=control)


def test_each_outcome_and_evidence_is_counted_by_hand(tmp_path):
    write_read(tmp_path / "logs")
    report = write_report([tmp_path / "logs"], tmp_path / "out")
    (row,) = rows_of(report, EVIDENCE)
    assert row[4:] == ["10", "20.00", "20.00", "20.00", "20.00", "20.00", "10.00", "1"]
    (matrix,) = rows_of(report, "Table 9")
    assert matrix[2:8] == ["20.00", "40.00", "+20.00", "2 → 0", "20.00", "20.00"]
    (run,) = select_runs(read_results([tmp_path / "logs"]), Run)
    assert (len(run.unread), len(run.declined)) == (2, 2)
    assert answers(run) == dict(zip(ANSWERS, (0.2, 0.2, 0.1, 0.1, 0.2, 0.2), strict=True))
    (four,) = rows_of(report, "Table 4")
    assert four[6].startswith("2 ["), "an interval is of the errors that the table counts"
    assert write_report([tmp_path / "logs"], tmp_path / "out"), "the names are known as a report's own"


def test_declining_without_an_image_is_no_fault(tmp_path):
    """Two of ten answers decline, with the image and under two controls; only one control removes the image."""
    for control in ("", "blank", "other"):
        write_read(tmp_path / (control or "image"), model=f"m-{control}", control=control)
    results = read_results([tmp_path])
    declined = [note for note in collect_run_notes(results.in_words) if "decline to answer" in note]
    assert [re.findall(r"of (m-\w*) in", note)[0] for note in declined] == ["m-", "m-other"]
    text = " ".join(summary(results, [], Tail()).split())
    assert "Declined: 4 of 20 answers (20.00%). Most: 2 of 10 answers (20.00%) of m-" in text
    assert "Declined without an image, as a model should: 2 of 10 answers (20.00%)." in text


EARLIER = [("parsed", 1), ("parsed", 0), ("none", None), ("ambiguous", None), ("out_of_range", None)]


def test_a_log_of_an_earlier_version_is_read(tmp_path):
    """Earlier versions use other terms and do not record the source of a reading; errors count as letter errors."""
    readings = [
        {"choice": choice, "before": choice, "outcome": outcome, "verifier": "not_applied"}
        for outcome, choice in EARLIER
    ]
    docs = [(question(PRESENCE, n), "text") for n in range(5)]
    after = [
        {**reading, "choice": 0 if reading["choice"] == 1 else reading["choice"], "verifier": "fired"}
        for reading in readings
    ]
    write_log(tmp_path / "logs", "m", docs, filters=(), readings_by_filter={"b0": readings, "m1": after})
    report = write_report([tmp_path / "logs"])
    (run,) = select_runs(read_results([tmp_path / "logs"]), Run)
    assert run.outcome.tolist() == ["answered", "answered", "unread", "unread", "unread"]
    scores = run.scores()
    names = ("n_unparsed", "n_ambiguous", "n_invalid", "n_reversals", "n_reversals_from_prose", "n_declined")
    assert [scores[name] for name in names] == [1, 1, 1, 1, 0, 0]
    (row,) = rows_of(report, EVIDENCE)
    assert row[4:] == ["5", "0.00", "0.00", "0.00", "40.00", "60.00", "0.00", "0.00", "0"]
    assert "Not recorded: the log is of an earlier version" in report


@pytest.mark.parametrize("outcome", ["yes", "", None])
def test_an_unknown_outcome_is_refused(tmp_path, outcome):
    write_log(
        tmp_path,
        "m",
        [(question(PRESENCE, 0), "A")],
        filters=(),
        readings_by_filter={"b0": [read(0) | {"outcome": outcome}]},
    )
    with pytest.raises(InputError, match=r"is not (an outcome of reading an answer|the output of a medfaith filter)"):
        read_results([tmp_path])


def test_declined_unread_and_cut_answers_have_warnings_of_their_own(tmp_path):
    write_read(tmp_path / "a")
    docs = [(question(PRESENCE, n) | {"answer_outcome": "cut" if n < 2 else "answered"}, "A") for n in range(30)]
    write_log(tmp_path / "b", "cut", docs)
    report = write_report([tmp_path])
    notes = [line for line in report.splitlines() if line.startswith("- WARNING")]
    (unread,) = [note for note in notes if "could not be read" in note]
    assert "2 of 10 answers (20.0%) of m" in unread
    assert DECLINES not in unread
    (declined,) = [note for note in notes if "decline to answer" in note]
    assert "2 of 10 answers (20.0%) of m" in declined
    assert f"such as “{DECLINES}”. They count as wrong in the tables, and are in no" in declined
    (cut,) = [note for note in notes if "cut at the limit of tokens" in note]
    assert "2 of 30 answers (6.7%) of cut" in cut
    text = " ".join(summary(read_results([tmp_path]), [], Tail()).split())
    assert "Unread: 2 of 40 answers (5.00%). Most: 2 of 10 answers (20.00%) of m, medfaith_contrabench_" in text
    assert "Declined: 2 of 40 answers (5.00%). Most: 2 of 10 answers (20.00%) of m, medfaith_contrabench_" in text
    assert "Cut at the limit of tokens: 2 of 40 answers (5.00%). Most: 2 of 30 answers (6.67%) of cut," in text


def test_without_declined_and_cut_answers_the_summary_has_no_line_of_them(tmp_path):
    write_log(tmp_path, "m", [(question(PRESENCE, n), "A") for n in range(3)])
    text = summary(read_results([tmp_path]), [], Tail())
    assert "Unread: 0 of 3 answers (0.00%)." in text
    assert "Declined" not in text
    assert "Cut" not in text


def test_cases_and_compared_answers_know_declined_ones(tmp_path):
    write_read(tmp_path)
    results = read_results([tmp_path])
    first_answers = [item.answers[0] for item in collect_cases(results.runs).cases]
    assert Counter(answer.outcome for answer in first_answers) == {"right": 2, "wrong": 4, "declined": 2, "unread": 2}
    whys = {"read from letter": 2, "read from text": 2, "read from prose": 2, "": 2, "none": 1, "cut": 1}
    assert Counter(answer.why for answer in first_answers) == whys
    ((item,), _) = results.collect_answers()
    assert Counter(item.outcomes) == {"answered": 6, "declined": 2, "unread": 2}
    assert item.said.count(None) == 4


def test_declined_yes_no_answers_and_the_flag_of_cut_ones(tmp_path, monkeypatch):
    cut_flags = []
    original_reader = heal_runs.read_yes_no

    def reader(text, question, *, cut=False):
        cut_flags.append(cut)
        return "declined" if text == DECLINES else original_reader(text, question)

    monkeypatch.setattr(heal_runs, "read_yes_no", reader)
    answered = [(doc, DECLINES if text == "No" else text) for doc, text in CLOSED]
    answered[0][0]["answer_outcome"] = "cut"
    n = sum(text == DECLINES for _, text in answered)
    try:
        write_heal(tmp_path / "logs", "closed", answered)
    finally:
        del answered[0][0]["answer_outcome"]  # the documents are shared
    report = write_report([tmp_path / "logs"])
    assert cut_flags.count(True) == 1
    (row,) = rows_of(report, "HEAL Table 2")
    assert row[14:16] == ["1 of 10 (10.00%)", f"{n} of 10 ({10 * n}.00%)"]
    (row,) = rows_of(report, "HEAL runs")
    assert row[5:7] == ["10.00", f"{10 * n}.00"]
    (run,) = select_runs(read_results([tmp_path / "logs"]), HealRun)
    assert (
        Counter(case.answers[0].outcome for case in collect_cases(read_results([tmp_path / "logs"]).runs).cases)[
            "declined"
        ]
        == n
    )
    assert len(run.declined) == n


def test_declined_frames(tmp_path):
    """An answer that predicts nothing is unread unless its row says that it is declined."""
    samples = [(doc, row | {"outcome": "declined"} if row["predicted"] is None else row) for doc, row in FRAMES]
    write_surgx(tmp_path, samples)
    report = write_report([tmp_path])
    (row,) = rows_of(report, "SurgX runs")
    assert row[6:8] == ["0.00", "25.00"]
    results = read_results([tmp_path])
    assert Counter(item.answers[0].outcome for item in collect_cases(results.runs).cases)["declined"] == 1
    ((item,), _) = results.collect_answers()
    assert Counter(item.outcomes)["declined"] == 1


def test_the_page_marks_declined_answers():
    page = Path(reporting.__file__).parent / "page"
    script, style = ((page / name).read_text(encoding="utf-8") for name in ("page.js", "page.css"))
    marks = re.findall(r"(\w+): \"", script.split("const MARK = ")[1].split(";")[0])
    assert set(marks) == {"right", "wrong", "declined", "unread"}
    assert ".is-declined {" in style
