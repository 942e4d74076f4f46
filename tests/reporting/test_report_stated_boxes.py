"""Reports on boxes that models write: figures counted by hand, the comparison, the page's cases, and broken records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from medfaith.loaders.errors import InputError
from medfaith.reporting.compare.tables import compare
from medfaith.reporting.heal.cases import read_cases as read_heal_cases
from medfaith.reporting.heal.runs import HealRun
from medfaith.reporting.results import read_results
from medfaith.reporting.surgx.cases import read_cases as read_surgx_cases
from medfaith.reporting.surgx.runs import SurgXRun
from tests.support.reporting.report_logs import csv_rows, select_runs, write_report
from tests.support.reporting.stated_logs import BOX, BOXES, DOCUMENTS, POINTS, write_stated

pytestmark = pytest.mark.usefixtures("tables_only")


@pytest.mark.parametrize("benchmark", DOCUMENTS)
def test_figures_counted_by_hand(benchmark, tmp_path):
    write_stated(tmp_path / "a", benchmark, BOXES, model="boxes")
    write_stated(tmp_path / "b", benchmark, POINTS, model="points")
    write_report([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    boxes, points = csv_rows(tmp_path / "out" / f"{benchmark}_stated_boxes.csv")
    assert [float(boxes[name]) for name in ("iou", "iou_50", "hit")] == pytest.approx([1.5 / 6, 2 / 6, 1.5 / 6])
    assert [boxes[name] for name in ("n", "n_unparsed", "n_declined", "n_empty")] == ["6", "1", "1", "1"]
    assert (points["iou"], points["iou_50"]) == ("", "")  # a model that points has no IoU
    assert float(points["hit"]) == pytest.approx(1.25 / 3)
    assert (points["n_unparsed"], points["n_empty"]) == ("0", "1")
    (run,) = csv_rows(tmp_path / "out" / f"{benchmark}_runs.csv")[:1]
    assert (float(run["parse_failure_rate"]), float(run["declined_rate"])) == pytest.approx((2 / 6, 1 / 6))


@pytest.mark.parametrize("benchmark", DOCUMENTS)
def test_two_models_are_compared_by_the_iou_or_the_hits_of_a_row(benchmark, tmp_path):
    better = [record | {"iou": 1.0, "hit": 1.0} for record in BOXES[:3]]
    for name, old, new in (("boxes", BOXES[:3], better), ("points", POINTS, [POINTS[0]] * 3)):
        write_stated(tmp_path / name / "old", benchmark, old, model="old")
        write_stated(tmp_path / name / "new", benchmark, new, model="new")
    (boxes,) = compare([tmp_path / "boxes" / name for name in ("old", "new")]).lines
    assert (boxes.metric, boxes.found.n) == ("IoU", 3)
    assert boxes.found[:2] == pytest.approx((0.5, 1))
    (points,) = compare([tmp_path / "points" / name for name in ("old", "new")]).lines
    assert points.metric == "hit"
    assert points.found[:2] == pytest.approx((1.25 / 3, 1))


@pytest.mark.parametrize(
    ("benchmark", "kind", "read_cases"), [("heal", HealRun, read_heal_cases), ("surgx", SurgXRun, read_surgx_cases)]
)
def test_the_page_says_what_each_answer_states(benchmark, kind, read_cases, tmp_path):
    write_stated(tmp_path, benchmark, BOXES)
    (run,) = select_runs(read_results([tmp_path]), kind)
    readings = [reading for _, reading in read_cases(run)]
    assert [reading.outcome for reading in readings] == ["right", "right", "wrong", "declined", "unread", "unread"]
    assert [reading.read for reading in readings] == [str(BOX)] * 3 + [""] * 3


BROKEN: list[tuple[str, Mapping[str, Any] | None]] = [
    ("is not the record that the task logs", None),
    ("column 'iou.outcome': 'odd' is none of answered, unread", {"outcome": "odd"}),
    ("column 'iou.iou': 1.5 is not a number from 0 to 1", {"iou": 1.5}),
    ("column 'iou.iou': nan is not a number", {"iou": float("nan")}),
    ("column 'iou.hit': None is not a number from 0 to 1", {"hit": None}),
    ("column 'iou.hit': 'x' is not a number from 0 to 1", {"hit": "x"}),
]


@pytest.mark.parametrize("benchmark", DOCUMENTS)
@pytest.mark.parametrize(("message", "change"), BROKEN)
def test_a_broken_record_is_named(benchmark, message, change, tmp_path):
    records: list[Any] = [BOXES[0], None if change is None else BOXES[1] | change]
    path = write_stated(tmp_path, benchmark, records)
    with pytest.raises(InputError) as error:
        write_report([path], tmp_path / "out")
    assert f"{path}, row 2" in str(error.value)
    assert message in str(error.value)
    assert not (tmp_path / "out").exists()
