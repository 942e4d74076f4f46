"""HEAL-MedVQA in the report: cells derived by hand, and the assignment of logs to tests."""

from __future__ import annotations

import math

import numpy as np
import pytest

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.reporting.heal.runs import HealRun
from medfaith.reporting.results import read_results
from tests.support.reporting.heal_logs import CLOSED, OPEN, TPT_PAIRS, VPT_PAIRS, as_mimic, question, write_heal
from tests.support.reporting.report_logs import csv_rows, rows_of, select_runs, write_report

pytestmark = pytest.mark.usefixtures("tables_only")

ACCURACY, TPT, VPT = "HEAL Table 2", "HEAL Table 3", "HEAL Table 4"


def test_the_papers_tables(tmp_path):
    """Cells are derived by hand from the answers above; a model with only one source has no cells for the other."""
    for ask, answers in (("closed", CLOSED), ("open", OPEN), ("tpt", TPT_PAIRS), ("vpt", VPT_PAIRS)):
        write_heal(tmp_path, ask, answers)
    write_heal(tmp_path, "vpt", as_mimic(VPT_PAIRS[:2]))
    report = write_report([tmp_path])
    (accuracy,) = rows_of(report, ACCURACY)
    assert accuracy[:11] == ["m"] + ["–"] * 10
    assert accuracy[-1] == "0 of 4 (0.00%)"
    f1, precision, recall, unread, declined, open_f1, open_precision, open_recall, open_unread, _ = accuracy[11:]
    assert (f1[:5], precision, recall, unread) == ("0.571", "0.667", "0.500", "1 of 10 (10.00%)")  # 4 / (4 + 1 + 2)
    assert declined == "0 of 10 (0.00%)"
    assert (open_f1[:5], open_precision, open_recall, open_unread) == ("0.571", "0.667", "0.500", "1 of 4 (25.00%)")

    (tpt,) = rows_of(report, TPT)
    assert tpt[:8] == ["m"] + ["–"] * 7
    interval = bootstrap_mean([1, 0, 1], groups=["a", "a", "d"], bounds=(0, 1))
    assert tpt[8:] == [
        f"0.667 [{interval.low:.3f}, {interval.high:.3f}]", "3", "0.500 [–, –]", "2", "3 of 5", "2 of 14 (14.29%)",
        "0 of 14 (0.00%)",
    ]  # fmt: skip
    interval = bootstrap_mean([1, 0], bounds=(0, 1))
    ends = f"[{interval.low:.3f}, {interval.high:.3f}]"
    assert rows_of(report, VPT) == [[
        "m", "1.000 [–, –]", "1", "1 of 1", "0 of 2 (0.00%)", "0 of 2 (0.00%)", f"0.500 {ends}", "2", "2 of 3",
        "0 of 6 (0.00%)", "0 of 6 (0.00%)",
    ]]  # fmt: skip


def test_f1_by_dice(tmp_path):
    """Cells are derived by hand: a limit belongs to the upper bin, 1 to the last; a row without a region to none."""
    dice = [0.1, 1.0, 0.2, math.nan, 0.8, 0.81, None, 0.19, 0.0, 0.05]  # Yes, yes, No, unread | Yes, No ...
    write_heal(tmp_path / "logs", "closed", CLOSED, dice=dice)
    write_heal(tmp_path / "logs", "open", OPEN, dice=[0.5, None, 0.5, None])
    write_heal(tmp_path / "other", "closed", CLOSED, model="blind")
    report = write_report([tmp_path / "logs", tmp_path / "other"], tmp_path / "out")
    rows = [[*row[2:7], row[7][:5]] for row in rows_of(report, "HEAL Figure 7")]
    assert rows == [
        ["yes/no", "0.0–0.2", "4", "40.00", "0.085", "1.000"],
        ["yes/no", "0.2–0.4", "1", "10.00", "0.200", "0.000"],
        ["yes/no", "0.4–0.6", "0", "0.00", "–", "–"],
        ["yes/no", "0.6–0.8", "0", "0.00", "–", "–"],
        ["yes/no", "0.8–1.0", "3", "30.00", "0.870", "0.667"],  # a true and a false yes
        ["yes/no", "all with a region", "8", "80.00", "0.394", "0.667"],
        ["yes/no", "no region", "2", "20.00", "–", "0.000"],
        ["open-ended", "0.0–0.2", "0", "0.00", "–", "–"],
        ["open-ended", "0.2–0.4", "0", "0.00", "–", "–"],
        ["open-ended", "0.4–0.6", "2", "50.00", "0.500", "1.000"],
        ["open-ended", "0.6–0.8", "0", "0.00", "–", "–"],
        ["open-ended", "0.8–1.0", "0", "0.00", "–", "–"],
        ["open-ended", "all with a region", "2", "50.00", "0.500", "1.000"],
        ["open-ended", "no region", "2", "50.00", "–", "0.400"],
    ]
    saved = csv_rows(tmp_path / "out" / "heal_figure_07_anatomies.csv")
    known_dice = [value for value in dice if value is not None and not math.isnan(value)]
    iou = [value / (2 - value) for value in known_dice]
    assert [(row["questions"], row["anatomy"], row["n"]) for row in saved] == [
        ("yes/no", "heart", "8"), ("open-ended", "heart", "2"),
    ]  # fmt: skip
    assert (float(saved[0]["dice"]), float(saved[0]["iou"])) == pytest.approx((np.mean(known_dice), np.mean(iou)))
    runs = {run.setting.ask: run for run in select_runs(read_results([tmp_path / "logs"]), HealRun)}
    assert {row.id: row.response for row in runs["closed"].rows} == {doc["id"]: text for doc, text in CLOSED}
    blind, located = rows_of(report, ACCURACY)
    assert located[11:15] == blind[11:15], "the answers are the same"
    assert write_report([tmp_path / "logs"], tmp_path / "out"), "its own picture is replaced"
    assert "Figure 7" not in write_report([tmp_path / "other"])


@pytest.mark.parametrize(("task", "table"), [("medfaith_heal_vindr_tpt", TPT), ("medfaith_heal_vindr_vpt", VPT)])
def test_originals_alone_belong_to_the_test_that_their_task_names(tmp_path, task, table):
    """The log has a true positive without a pair, as under --limit 1."""
    write_heal(tmp_path, "", VPT_PAIRS[:1], task=task)
    (row,) = rows_of(write_report([tmp_path]), table)
    assert row[-3:] == ["1 of 1", "0 of 1 (0.00%)", "0 of 1 (0.00%)"]
    assert {"–", "0"} >= set(row[1:-3])


@pytest.mark.parametrize(("answers", "table"), [(TPT_PAIRS, TPT), (VPT_PAIRS, VPT)])
def test_a_task_may_have_another_name(tmp_path, answers, table):
    write_heal(tmp_path, "", answers, task="my_task")
    assert rows_of(write_report([tmp_path]), table)


@pytest.mark.parametrize("ask", ["closed", "open"])
def test_intervals_draw_images(tmp_path, ask):
    """F1 is the mean of two ones per true positive and a zero per false or missed one; an image has several."""
    kind, yes, no = ("positive", "Yes", "No") if ask == "closed" else ("abnormal", "Edema", "No abnormality")
    replies = enumerate((yes, no, yes, yes, no, yes))
    write_heal(tmp_path, ask, [(question(i, kind, image=i // 2, diseases=["Edema"]), text) for i, text in replies])
    (row,) = rows_of(write_report([tmp_path]), ACCURACY)
    bootstrap_options = {"groups": [0, 0, 0, 1, 1, 1, 1, 2, 2, 2], "bounds": (0, 1)}
    interval = bootstrap_mean([1, 1, 0, 1, 1, 1, 1, 0, 1, 1], **bootstrap_options)
    expected = f"{interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}]"
    assert row[11 if ask == "closed" else 16] == expected == f"0.800 {expected[6:]}"
