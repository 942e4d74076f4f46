"""Annotators' intuitiveness by abnormality (Figure 16): counted sentences, and files written by the command."""

from __future__ import annotations

import io
from typing import Any

import pytest
from PIL import Image

from medfaith.annotate.answers import Judgement
from medfaith.cli import main
from medfaith.reporting.wrong_lung.abnormalities import MOST, group_by_abnormality
from tests.support.annotate.annotation_scene import write_rows
from tests.support.annotate.annotator_answers import judgement, write
from tests.support.reporting.report_logs import csv_rows, rows_of
from tests.support.reporting.surgx_logs import format_mean
from tests.support.reporting.wrong_lung_logs import original, write_wrong_lung

FIGURE, PICTURE = "Wrong Lung Figure 16", "figure_wrong_lung_16.png"
AFFIRMED = {"row0": {"mass", "edema"}, "row1": {"mass"}, "row2": set(), "row3": {"edema", "mass"}}


def judge_row(n: int, points: int, model: str = "m", **changes: Any) -> Judgement:
    return judgement(n, intuitiveness=points, model=model, **changes)


JUDGEMENTS = [
    judge_row(0, 2), judge_row(0, 5, "n"), judge_row(1, 4), judge_row(2, 1), judge_row(3, 1, "n"),
    judge_row(0, 3, annotator="other"),
    judge_row(1, 5, row_id=None, custom=True),
]  # fmt: skip


def test_means_by_hand():
    groups = group_by_abnormality(JUDGEMENTS, AFFIRMED)
    assert [(group.name, group.n_sentences) for group in groups] == [("mass", 3), ("edema", 2)]
    means = {(group.name, m.model): (m.n, m.means["intuitiveness"].mean) for group in groups for m in group.models}
    assert means == {("mass", "m"): (3, 3), ("mass", "n"): (2, 3), ("edema", "m"): (2, 2.5), ("edema", "n"): (2, 3)}


def test_the_most_frequent_come_first_and_equal_ones_by_name():
    names = [f"finding {n:02d}" for n in range(MOST + 3)]
    affirmed = {f"row{n}": {*names} - ({names[0]} if n else set()) for n in range(2)}
    groups = group_by_abnormality([judge_row(0, 1), judge_row(1, 1), judge_row(0, 2, annotator="other")], affirmed)
    assert [group.name for group in groups] == names[1 : MOST + 1]
    assert {group.n_sentences for group in groups} == {2}, "sentences, however many annotators judged them"


@pytest.fixture
def command(tmp_path) -> list[str]:
    """The `medfaith report` command line with JUDGEMENTS and a build of three of their sentences."""
    labels = [
        {"mass": "yes", "edema": "yes", "abnormal": "yes"},
        {"mass": "yes", "edema": "no", "abnormal": "yes"},
        {"normal": "yes", "mass": "no"},
    ]
    image = {"source": "mimic_cxr", "key": "a.jpg", "view": "PA"}
    rows = [
        {"id": f"row{n}", "image": image, "width": 9, "height": 9, "patient_id": f"p{n}", "study_id": "s",
         "sentence": "Böse.", "boxes": [], "labels": [{"name": k, "context": c} for k, c in contexts.items()],
         "subsets": {"abnormal": True, "one_lung": False, "mdrb": False}}
        for n, contexts in enumerate(labels)
    ]  # fmt: skip
    write_rows(tmp_path / "data", rows)
    write_wrong_lung(tmp_path / "logs", "gold", [original(0, auroc=0.5)])
    write(tmp_path / "a.jsonl", *JUDGEMENTS)
    return ["report", str(tmp_path / "logs"), "--markdown", "--annotations", str(tmp_path / "a.jsonl")]


def test_the_command_writes_the_table_and_the_picture(command, tmp_path, capsys):
    out = tmp_path / "out"
    assert main([*command, "--data", str(tmp_path / "data"), "--out", str(out)]) == 0
    report = capsys.readouterr().out
    assert rows_of(report, FIGURE) == [
        ["mass", "2", "m", "3", format_mean([2, 4, 3], [0, 1, 0], 1, bounds=(1, 5))],
        ["mass", "2", "n", "1", "5.00 [–, –]"],
        ["edema", "1", "m", "2", "2.50 [–, –]"], ["edema", "1", "n", "1", "5.00 [–, –]"],
    ]  # fmt: skip
    assert "1 of 4 judged sentences are not in" in report
    saved = csv_rows(out / "wrong_lung_figure_16_abnormalities.csv")
    assert [(row["abnormality"], row["intuitiveness"]) for row in saved if row["model"] == "m"] == [
        ("mass", "3.0"), ("edema", "2.5"),
    ]  # fmt: skip
    assert Image.open(io.BytesIO((out / PICTURE).read_bytes())).size[0] == 1200


def test_without_the_rows_a_note_says_what_is_missing(command, capsys):
    assert main(command) == 0
    report = capsys.readouterr().out
    assert f"## {FIGURE}" not in report
    assert f"{FIGURE} needs the labels of the judged sentences: --data" in report


def test_another_build_is_refused(command, tmp_path, capsys):
    write(tmp_path / "a.jsonl", judge_row(1, 3, sentence="Another."))
    assert main([*command, "--data", str(tmp_path / "data")]) == 2
    assert "'Böse.' is not the sentence that was judged" in capsys.readouterr().err
