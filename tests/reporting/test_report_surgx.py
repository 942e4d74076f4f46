"""SurgXBench in the report: cells derived by hand, and the resampling units of the intervals."""

from __future__ import annotations

from typing import Any

import pytest

from medfaith.evaluate_metrics.reading.surgical_names import INSTRUMENTS, TRIPLETS
from medfaith.reporting.results import read_results
from medfaith.reporting.surgx.runs import SurgXRun
from tests.support.reporting.report_logs import csv_rows, rows_of, select_runs, write_report
from tests.support.reporting.surgx_logs import (
    ACTIONS,
    CLIP,
    CUT,
    FRAMES,
    GRASP,
    NAN,
    PACK,
    add_boxes,
    format_mean,
    instruments,
    look,
    seen,
    triplets,
    write_surgx,
)

pytestmark = pytest.mark.usefixtures("tables_only")

RUNS, LOOKS, SPREAD = "SurgX runs", "SurgX Figure 3", "SurgX Figure 7"
RAS, LEVELS, PARTS, OCCLUSION = "SurgX Figure 4 (a)", "SurgX Figure 4 (b)", "SurgX triplets", "SurgX occlusion"


def test_instruments_by_hand(tmp_path):
    write_surgx(tmp_path / "logs", FRAMES)
    report = write_report([tmp_path / "logs"], tmp_path / "out")
    rows = {row[1]: row[2:] for row in rows_of(report, LOOKS)}
    assert list(rows) == ["all", *INSTRUMENTS]
    # 3 TP count twice, 2 FP and 2 missed once: F1 = 6 / 10; video 42 has four zeros and no ones.
    assert rows["all"] == [
        format_mean([1] * 6 + [0] * 4, [41] * 6 + [42] * 4, 1, 3), "37.50 [–, –]", "50.00 [–, –]", "50.00 [–, –]",
        "3", "2", "2", "1", "1", "1", "–", "0", "25.00", "0.00",
    ]  # fmt: skip
    assert rows["grasper"][0] == format_mean([1] * 4 + [0] * 2, [41] * 4 + [42] * 2, 1, 3)
    assert rows["grasper"][1:] == [
        "37.50 [–, –]", "50.00 [–, –]", "50.00 [–, –]", "2", "1", "1", "0", "0", "1", "–", "0", "25.00",
        "0.00",
    ]  # fmt: skip
    assert rows["hook"][1:] == ["–", "–", "–", "1", "0", "1", "1", "0", "0", "–", "0", "25.00", "0.00"]
    assert rows["scissors"] == ["0.000 [–, –]", "–", "–", "–", "0", "1", "0", "0", "1", "0", "–", "0", "25.00", "0.00"]
    assert rows["clipper"] == ["–", "–", "–", "–", "0", "0", "0", "0", "0", "0", "–", "0", "25.00", "0.00"]

    rows = {row[1]: row[2:] for row in rows_of(report, SPREAD)}
    assert rows["all"][0][:5] == rows["all"][1][:5] == "0.600"
    boxes = ["31.25 / 37.50 / 43.75", "37.50 / 50.00 / 62.50", "50.00 / 50.00 / 50.00"]
    assert rows["all"][2:] == [*boxes, "2", "1", "25.00", "0.00"]
    assert (rows["grasper"][0][:5], rows["grasper"][1][:5]) == ("0.667", "0.667")
    saved = {row["instrument"]: row for row in csv_rows(tmp_path / "out" / "surgx_figure_07_spread.csv")}
    assert (saved["all"]["tp_aa_whisker_low"], saved["all"]["tp_aa_whisker_high"]) == ("0.25", "0.5")


def test_triplets_by_hand(tmp_path):
    write_surgx(tmp_path, ACTIONS)
    report = write_report([tmp_path])
    videos = [42] * 4 + [43] * 2
    assert [row[2:-2] for row in rows_of(report, RAS)] == [
        ["IVT", "RAS_local", "50.00 [–, –]", "50.00 / 50.00 / 50.00", "1 of 2"],
        ["IV", "RAS_local", "–", "–", "0 of 1"],
        ["IT", "RAS_local", "–", "–", "0"],
        ["I", "RAS_local", "100.00 [–, –]", "100.00 / 100.00 / 100.00", "1"],
        ["missed", "RAS_global", "50.00 [–, –]", "37.50 / 50.00 / 62.50", "2"],
    ]
    (levels,) = rows_of(report, LEVELS)
    shares = [(1, 0, 1, 0, 0, 0), (0, 0, 0, 0, 0, 1), (0,) * 6, (0, 0, 0, 0, 1, 0), (0, 1, 0, 1, 0, 0)]
    assert levels[2:7] == [format_mean(list(share), videos) for share in shares]
    assert levels[7:] == ["6", "1", "1", "1", "0", "0", "1", "1", "1", "–", "0", "0.00", "0.00"]
    (part_row,) = rows_of(report, PARTS)
    assert part_row[2:] == [format_mean([1, 1, 0, 0, 0, 0], videos), "2 of 6", *["–"] * 6, "0.00", "0.00"]
    (occlusion,) = rows_of(report, OCCLUSION)
    assert occlusion[2:] == ["4", "2", "0", "1", "50.00 [–, –]", "1", "2.00 [–, –]", "0.00", "0.00"]


def test_the_visible_share_of_boxes_by_hand(tmp_path):
    """A box without area, a frame without boxes and a frame without heatmaps have no visible share."""
    unknown = (FRAMES[2][0] | {"boxes": [{"label": "hook", "xywh": [0, 0, 9, 9]}]}, FRAMES[2][1] | {"visible": None})
    first_frame, second_frame = (
        add_boxes(FRAMES[0], ("grasper", 0.5)),
        add_boxes(FRAMES[1], ("grasper", 1), ("hook", 0.25), ("hook", NAN)),
    )
    write_surgx(tmp_path, [first_frame, second_frame, unknown, add_boxes(FRAMES[3])])
    write_surgx(tmp_path, [add_boxes(ACTIONS[0], ("grasper", 0.25), ("clipper", 0.0)), *ACTIONS[1:]])
    report = write_report([tmp_path])
    rows = {row[1]: row[-4:-2] for row in rows_of(report, LOOKS)}
    assert rows.pop("all") == ["58.33", "3"]
    assert rows == {name: ["–", "0"] for name in INSTRUMENTS} | {"grasper": ["75.00", "2"], "hook": ["25.00", "1"]}
    assert rows_of(report, LEVELS)[0][-4:-2] == ["12.50", "2"]


def test_a_frame_is_lost_when_none_of_its_triplets_remains(tmp_path):
    """A second true triplet keeps the frame; intervals resample videos."""

    def make_frame(number: int, video: int, after: list[str]) -> Any:
        occluded = {"triplet": GRASP, "before": 3, "after": 2.5, "predicted": after}
        records = [seen(GRASP, "ivt", 0.5), seen(CUT, "missed", 0.5)]
        return triplets(number, [GRASP], records, video=video, occluded=occluded)

    write_surgx(
        tmp_path,
        [
            make_frame(0, 42, [CUT]),
            make_frame(1, 42, [CLIP]),
            make_frame(0, 43, [GRASP]),
            make_frame(1, 43, [PACK, CUT]),
        ],
    )
    (row,) = rows_of(write_report([tmp_path]), OCCLUSION)
    assert row[2:] == [
        "4",
        "4",
        "0",
        "1",
        format_mean([0, 1, 0, 0], [42, 42, 43, 43]),
        "3",
        "0.50 [0.50, 0.50]",
        "0.00",
        "0.00",
    ]


def test_the_occlusion_task_has_a_log_of_its_own(tmp_path):
    """Its rows have no records; heatmaps without a region and frames without a match are left out and counted."""
    occluded = {"triplet": GRASP, "before": 9.0, "after": None, "predicted": None}
    samples = [(doc | {"occlude": True}, row) for doc, row in [*ACTIONS, triplets(2, [GRASP], [seen(GRASP, "ivt")])]]
    samples[-1][1]["occluded"] = occluded
    samples = [(doc, {k: row.get(k) for k in ("video", "gold", "predicted", "occluded")}) for doc, row in samples]
    write_surgx(tmp_path, samples, row_field="lost", task="medfaith_surgx_occlusion")
    write_surgx(tmp_path, [(doc, row | {"occluded": None}) for doc, row in ACTIONS])
    report = write_report([tmp_path])
    assert [row[2] for row in rows_of(report, RUNS)] == ["triplets", "occlusion"]
    (row,) = rows_of(report, OCCLUSION)
    assert row[2:] == ["5", "3", "1", "1", "50.00 [–, –]", "1", "2.00 [–, –]", "0.00", "0.00"]
    assert len(rows_of(report, LEVELS)) == 1


def test_intervals_draw_videos(tmp_path):
    """Three videos have several frames each; F1 is the mean of two ones per true positive and a zero per missed one."""
    hit, missed = [look("hook", "tp", 0.5, 1.0), look("hook", "tp", 0.25, 0.5)], []
    samples, ones, video_ids = [], [], []
    for video, frames in {41: "hhm", 42: "hmm", 43: "mh"}.items():
        for number, frame in enumerate(frames):
            looks = hit[number % 2 :][:1] if frame == "h" else missed
            samples.append(instruments(number, ["hook"], looks, video=video))
            ones += [1, 1] if looks else [0]
            video_ids += [video] * (2 if looks else 1)
    write_surgx(tmp_path, samples)
    rows = {row[1]: row[2:] for row in rows_of(write_report([tmp_path]), LOOKS)}
    assert rows["hook"][0] == rows["all"][0] == format_mean(ones, video_ids, 1, 3)
    assert rows["hook"][1] == format_mean([0.5, 0.25, 0.5, 0.25], [41, 41, 42, 43])


def test_ap_of_a_model_that_ranks_and_of_one_that_ranks_not_always(tmp_path):
    scores = [[float(text == name) for text in TRIPLETS] for name in (GRASP, CUT)]
    ranked = [triplets(n, [name], [seen(name, "ivt", 1.0)], scores=scores[n]) for n, name in enumerate((GRASP, CUT))]
    write_surgx(tmp_path / "a", ranked, model="a")
    write_surgx(tmp_path / "b", [ranked[0], (ranked[1][0], ranked[1][1] | {"scores": None})], model="b")
    report = write_report([tmp_path])
    rows = rows_of(report, PARTS)
    assert f"## {OCCLUSION}" not in report
    assert [row[4:-2] for row in rows] == [["100.00"] * 6, ["–"] * 6]


def test_results_hold_the_runs(tmp_path):
    write_surgx(tmp_path, FRAMES[::-1], heatmaps="0123")
    (run,) = select_runs(read_results([tmp_path]), SurgXRun)
    assert [row.id for row in run.rows] == sorted(doc["id"] for doc, _ in FRAMES)
    assert {row.heatmaps for row in run.rows} == {"0123"}
    assert run.rows[3].predicted is None


def test_frames_whose_similarities_tie_are_counted_and_warned_of(tmp_path):
    (doc, row), *other_frames = FRAMES
    write_surgx(tmp_path / "a", [(doc, row | {"outcome": "tied"}), *other_frames])
    write_surgx(tmp_path / "b", ACTIONS)
    report = write_report([tmp_path])
    assert [row[9] for row in rows_of(report, RUNS)] == ["1", "0"]
    assert report.count("WARNING: in 1 of 4 frames (25.0%) the similarities of m in samples_medfaith_surgx_instr") == 1
    assert report.count(" tie. Not all of its predictions can be named") == 1


def test_a_log_that_does_not_say_where_zero_cuts_has_no_count_of_it(tmp_path):
    looks = [{name: value for name, value in look("hook", "tp", 0.5, 0.5).items() if name != "cut_at_zero"}]
    write_surgx(tmp_path, [instruments(0, ["hook"], looks)])
    assert rows_of(write_report([tmp_path]), LOOKS)[0][-5:] == ["–", "–", "0", "0.00", "0.00"]
