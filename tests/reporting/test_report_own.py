"""Reports on a user's own questions: values counted by hand, the counts of outcomes, and the cases of the page."""

from __future__ import annotations

import pytest

from medfaith.reporting.own.cases import read_cases
from medfaith.reporting.own.runs import OwnRun
from medfaith.reporting.results import read_results
from tests.support.reporting.own_logs import CHOICES, CLOSED, OPENED, write_own
from tests.support.reporting.report_logs import csv_rows, rows_of, select_runs, write_report

pytestmark = pytest.mark.usefixtures("tables_only")


@pytest.fixture
def logs(tmp_path):
    for answers in (CLOSED, CHOICES, OPENED):
        write_own(tmp_path / "logs", answers)
    return tmp_path / "logs"


def test_each_kind_of_question_has_its_figures(logs, tmp_path):
    report = write_report([logs], tmp_path / "out")
    (closed,) = csv_rows(tmp_path / "out" / "own_yes_no.csv")
    assert (float(closed["accuracy"]), float(closed["yes_no_f1"])) == pytest.approx((5 / 9, 4 / (4 + 1 + 3)))
    (choice,) = csv_rows(tmp_path / "out" / "own_choice.csv")
    assert float(choice["accuracy"]) == pytest.approx(2 / 5)
    (opened,) = csv_rows(tmp_path / "out" / "own_open.csv")
    figures = [float(opened[name]) for name in ("f1", "exact", "recall")]
    assert figures == pytest.approx([(1 + 2 / 3 + 4 / 5) / 4, 1 / 4, (1 + 1 + 2 / 3) / 4])
    counts = [(table["n"], table["n_unread"], table["n_declined"]) for table in (closed, choice, opened)]
    assert counts == [("9", "1", "1"), ("5", "1", "1"), ("4", "0", "1")]
    assert [row[3:5] for row in rows_of(report, "Runs on own questions")] == [
        ["yes/no", "9"], ["choice", "5"], ["open", "4"],
    ]  # fmt: skip


def test_intervals_draw_patients(tmp_path):
    """Two rows of a patient say less than two of different ones."""
    for name, n_rows in (("apart", 1), ("together", 3)):
        answers = [(doc | {"patient_id": f"p{n // n_rows}"}, text) for n, (doc, text) in enumerate(CLOSED)]
        write_own(tmp_path / name, answers, model=name)
    write_report([tmp_path / "apart", tmp_path / "together"], tmp_path / "out")
    apart, together = csv_rows(tmp_path / "out" / "own_yes_no.csv")
    for figure in ("accuracy", "yes_no_f1"):
        widths = [float(row[f"{figure}_ci_high"]) - float(row[f"{figure}_ci_low"]) for row in (apart, together)]
        assert apart[figure] == together[figure]
        assert widths[0] < widths[1]


def test_the_page_lists_each_question_with_its_answer(logs):
    runs = select_runs(read_results([logs]), OwnRun)
    readings = {row_id: reading for run in runs for row_id, reading in read_cases(run)}
    outcomes = [readings[doc["id"]].outcome for doc, _ in [*CLOSED, *CHOICES, *OPENED]]
    assert outcomes == [
        "right", "right", "wrong", "declined", "unread", "wrong", "right", "right", "right",
        "right", "right", "wrong", "declined", "unread",
        "right", "wrong", "wrong", "declined",  # an open answer with other words is not exact
    ]  # fmt: skip
    first = readings[CHOICES[0][0]["id"]]
    assert first.question == (
        "Which organ is abnormal?",
        ("Heart", "Lung", "Liver"),
        "Lung",
        "Which organ is abnormal?",
    )
    assert first.read == "Lung"
    _, options, gold, _ = readings[CLOSED[0][0]["id"]].question
    assert (options, gold) == ((), "Yes")
