"""SurgXBench in the report: hand-derived cells, real logs of lm-eval, and broken logs."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import precision_recall_fscore_support

from medfaith.cli import main
from medfaith.evaluate_metrics.reading.surgical_names import INSTRUMENTS, TRIPLETS
from medfaith.loaders.errors import InputError
from medfaith.report.write import read_results, write_report
from medfaith.tasks.models.reference_heatmaps import KINDS
from tests.report.heal_logs import VPT_PAIRS, csv_rows, write_heal
from tests.report.report_logs import DATE, answered, rows_of, write_log
from tests.report.surgx_logs import (
    ACTIONS,
    CLIP,
    CUT,
    FRAMES,
    GRASP,
    NAN,
    NULL,
    PACK,
    instruments,
    look,
    saw,
    seen,
    shown,
    triplets,
    write_surgx,
)

RUNS, LOOKS, SPREAD = "SurgX runs", "SurgX Figure 3", "SurgX Figure 7"
RAS, LEVELS, PARTS, OCCLUSION = "SurgX Figure 4 (a)", "SurgX Figure 4 (b)", "SurgX triplets", "SurgX occlusion"


def test_instruments_by_hand(tmp_path):
    write_surgx(tmp_path / "logs", FRAMES, n_data=9)
    report = write_report([tmp_path / "logs"], tmp_path / "out")
    assert report.startswith("# SurgXBench results\n")
    assert rows_of(report, RUNS) == [
        ["m", "Cholec80-Boxes", "instruments", "4 of 9", "2", "0", "1", "medfaith_surgx_instruments", DATE]
    ]
    rows = {row[1]: row[2:] for row in rows_of(report, LOOKS)}
    assert list(rows) == ["all", *INSTRUMENTS]
    # 3 TP count twice, 2 FP and 2 missed once: F1 = 6 / 10, of which video 42 has four zeros and no one.
    assert rows["all"] == [
        shown([1] * 6 + [0] * 4, [41] * 6 + [42] * 4, 1, 3), "37.50 [–, –]", "50.00 [–, –]", "50.00 [–, –]",
        "3", "2", "2", "1", "1", "–", "0",
    ]  # fmt: skip
    assert rows["grasper"][0] == shown([1] * 4 + [0] * 2, [41] * 4 + [42] * 2, 1, 3)
    assert rows["grasper"][1:] == ["37.50 [–, –]", "50.00 [–, –]", "50.00 [–, –]", "2", "1", "1", "0", "0", "–", "0"]
    assert rows["hook"][1:] == ["–", "–", "–", "1", "0", "1", "1", "0", "–", "0"]
    assert rows["scissors"] == ["0.000 [–, –]", "–", "–", "–", "0", "1", "0", "0", "1", "–", "0"]
    assert rows["clipper"] == ["–", "–", "–", "–", "0", "0", "0", "0", "0", "–", "0"]

    rows = {row[1]: row[2:] for row in rows_of(report, SPREAD)}
    assert rows["all"][0][:5] == rows["all"][1][:5] == "0.600"
    assert rows["all"][2:] == ["31.25 / 37.50 / 43.75", "37.50 / 50.00 / 62.50", "50.00 / 50.00 / 50.00", "2", "1"]
    assert (rows["grasper"][0][:5], rows["grasper"][1][:5]) == ("0.667", "0.667")
    saved = {row["instrument"]: row for row in csv_rows(tmp_path / "out" / "surgx_figure_07_spread.csv")}
    assert (saved["all"]["tp_aa_whisker_low"], saved["all"]["tp_aa_whisker_high"]) == ("0.25", "0.5")
    saved = {row["instrument"]: row for row in csv_rows(tmp_path / "out" / "surgx_figure_03_instruments.csv")}
    assert (saved["all"]["f1"], saved["all"]["tp_aa"], saved["clipper"]["f1"]) == ("0.6", "0.375", "")
    assert write_report([tmp_path / "logs"], tmp_path / "out") == report, "its own files are replaced"


def test_triplets_by_hand(tmp_path):
    write_surgx(tmp_path / "logs", ACTIONS)
    report = write_report([tmp_path / "logs"], tmp_path / "out")
    videos = [42] * 4 + [43] * 2
    assert [row[2:] for row in rows_of(report, RAS)] == [
        ["IVT", "RAS_local", "50.00 [–, –]", "50.00 / 50.00 / 50.00", "1 of 2"],
        ["IV", "RAS_local", "–", "–", "0 of 1"],
        ["IT", "RAS_local", "–", "–", "0"],
        ["I", "RAS_local", "100.00 [–, –]", "100.00 / 100.00 / 100.00", "1"],
        ["missed", "RAS_global", "50.00 [–, –]", "37.50 / 50.00 / 62.50", "2"],
    ]
    (levels,) = rows_of(report, LEVELS)
    shares = [(1, 0, 1, 0, 0, 0), (0, 0, 0, 0, 0, 1), (0,) * 6, (0, 0, 0, 0, 1, 0), (0, 1, 0, 1, 0, 0)]
    assert levels[2:7] == [shown(list(share), videos) for share in shares]
    assert levels[7:] == ["6", "1", "1", "1", "0", "0", "1", "1", "–", "0"]
    (parts,) = rows_of(report, PARTS)
    assert parts[2:] == [shown([1, 1, 0, 0, 0, 0], videos), "2 of 6", *["–"] * 6]
    (occlusion,) = rows_of(report, OCCLUSION)
    assert occlusion[2:] == ["4", "2", "0", "1", "50.00 [–, –]", "1", "2.00 [–, –]"]
    assert [path.name for path in sorted((tmp_path / "out").glob("*.csv"))] == [
        f"surgx_{name}.csv" for name in ("figure_04a_ras", "figure_04b_levels", "occlusion", "runs", "triplets")
    ]


def test_the_visible_share_of_boxes_by_hand(tmp_path):
    """A box without area in its frame, frames without boxes and those without heatmaps have none."""
    unknown = (FRAMES[2][0] | {"boxes": [{"label": "hook", "xywh": [0, 0, 9, 9]}]}, FRAMES[2][1] | {"visible": None})
    first, second = saw(FRAMES[0], ("grasper", 0.5)), saw(FRAMES[1], ("grasper", 1), ("hook", 0.25), ("hook", NAN))
    write_surgx(tmp_path, [first, second, unknown, saw(FRAMES[3])])
    write_surgx(tmp_path, [saw(ACTIONS[0], ("grasper", 0.25), ("clipper", 0.0)), *ACTIONS[1:]])
    report = write_report([tmp_path])
    rows = {row[1]: row[-2:] for row in rows_of(report, LOOKS)}
    assert rows.pop("all") == ["58.33", "3"]
    assert rows == {name: ["–", "0"] for name in INSTRUMENTS} | {"grasper": ["75.00", "2"], "hook": ["25.00", "1"]}
    assert rows_of(report, LEVELS)[0][-2:] == ["12.50", "2"]


def test_without_occlusion_there_is_no_such_table(tmp_path):
    write_surgx(tmp_path, [(doc, row | {"occluded": None}) for doc, row in ACTIONS])
    assert f"## {OCCLUSION}" not in write_report([tmp_path])


def test_a_frame_is_lost_when_none_of_its_triplets_remains(tmp_path):
    """Another true triplet than the one named saves it; intervals draw videos."""

    def frame(number: int, video: int, after: list[str]) -> Any:
        occluded = {"triplet": GRASP, "before": 3, "after": 2.5, "predicted": after}
        records = [seen(GRASP, "ivt", 0.5), seen(CUT, "missed", 0.5)]
        return triplets(number, [GRASP], records, video=video, occluded=occluded)

    write_surgx(tmp_path, [frame(0, 42, [CUT]), frame(1, 42, [CLIP]), frame(0, 43, [GRASP]), frame(1, 43, [PACK, CUT])])
    (row,) = rows_of(write_report([tmp_path]), OCCLUSION)
    assert row[2:] == ["4", "4", "0", "1", shown([0, 1, 0, 0], [42, 42, 43, 43]), "3", "0.50 [0.50, 0.50]"]


def test_the_occlusion_task_has_a_log_of_its_own(tmp_path):
    """Its rows have no records; a heatmap without a region, and frames without a match, are left out and counted."""
    occluded = {"triplet": GRASP, "before": 9.0, "after": None, "predicted": None}
    samples = [(doc | {"occlude": True}, row) for doc, row in [*ACTIONS, triplets(2, [GRASP], [seen(GRASP, "ivt")])]]
    samples[-1][1]["occluded"] = occluded
    samples = [(doc, {k: row.get(k) for k in ("video", "gold", "predicted", "occluded")}) for doc, row in samples]
    write_surgx(tmp_path, samples, first="lost", task="medfaith_surgx_occlusion")
    write_surgx(tmp_path, [(doc, row | {"occluded": None}) for doc, row in ACTIONS])
    report = write_report([tmp_path])
    assert [row[2] for row in rows_of(report, RUNS)] == ["triplets", "occlusion"]
    (row,) = rows_of(report, OCCLUSION)
    assert row[2:] == ["5", "3", "1", "1", "50.00 [–, –]", "1", "2.00 [–, –]"]
    assert len(rows_of(report, LEVELS)) == 1


def test_instruments_agree_with_scikit_learn(tmp_path):
    rng = random.Random(0)
    samples, said, true = [], [], []
    for number in range(80):
        gold, named = (rng.sample(INSTRUMENTS, rng.randrange(4)) for _ in range(2))
        looks = [look(name, "tp" if name in gold else "fp", float(name in gold), 1.0) for name in named]
        samples.append(instruments(number, gold, looks, video=41 + number % 5))
        said.append([name in named for name in INSTRUMENTS])
        true.append([name in gold for name in INSTRUMENTS])
    write_surgx(tmp_path, samples)
    write_report([tmp_path], tmp_path / "out")
    columns = ("precision", "recall", "f1")
    files = [csv_rows(tmp_path / "out" / f"surgx_figure_{name}.csv") for name in ("07_spread", "03_instruments")]
    saved = [[float((a | b)[column]) for column in columns] for a, b in zip(*files, strict=True)]
    micro = precision_recall_fscore_support(np.array(true), np.array(said), average="micro")[:3]
    each: Any = precision_recall_fscore_support(np.array(true), np.array(said), average=None)[:3]
    assert saved[0] == pytest.approx(list(micro))
    assert saved[1:] == [pytest.approx(list(of_class)) for of_class in zip(*each, strict=True)]


def test_intervals_draw_videos(tmp_path):
    """Three videos of several frames: F1 is the mean of two ones a true positive and a zero a missed one."""
    hit, missed = [look("hook", "tp", 0.5, 1.0), look("hook", "tp", 0.25, 0.5)], []
    samples, ones, of_ones = [], [], []
    for video, frames in {41: "hhm", 42: "hmm", 43: "mh"}.items():
        for number, frame in enumerate(frames):
            looks = hit[number % 2 :][:1] if frame == "h" else missed
            samples.append(instruments(number, ["hook"], looks, video=video))
            ones += [1, 1] if looks else [0]
            of_ones += [video] * (2 if looks else 1)
    write_surgx(tmp_path, samples)
    rows = {row[1]: row[2:] for row in rows_of(write_report([tmp_path]), LOOKS)}
    assert rows["hook"][0] == rows["all"][0] == shown(ones, of_ones, 1, 3)
    assert rows["hook"][1] == shown([0.5, 0.25, 0.5, 0.25], [41, 41, 42, 43])


def test_ap_of_a_model_that_ranks_and_of_one_that_ranks_not_always(tmp_path):
    scores = [[float(text == name) for text in TRIPLETS] for name in (GRASP, CUT)]
    ranked = [triplets(n, [name], [seen(name, "ivt", 1.0)], scores=scores[n]) for n, name in enumerate((GRASP, CUT))]
    write_surgx(tmp_path / "a", ranked, model="a")
    write_surgx(tmp_path / "b", [ranked[0], (ranked[1][0], ranked[1][1] | {"scores": None})], model="b")
    rows = rows_of(write_report([tmp_path]), PARTS)
    assert [row[4:] for row in rows] == [["100.00"] * 6, ["–"] * 6]


@pytest.fixture(scope="module")
def oracle_logs(phantom_surgx_build, tmp_path_factory) -> tuple[Path, Path, dict[str, dict[str, Any]]]:
    """The reference model with each kind of heatmap, as lm-eval itself writes it: logs, heatmaps, its own scores."""
    import lm_eval
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    from medfaith.tasks import include_path, register_models

    register_models()
    evaluate: Any = lm_eval.simple_evaluate  # its decorator hides its signature from type checkers
    logs, store = tmp_path_factory.mktemp("logs"), tmp_path_factory.mktemp("heatmaps")
    metadata: dict[str, Any] = {"data": str(phantom_surgx_build), "heatmaps": str(store)}
    tasks = TaskManager(include_path=str(include_path()), include_defaults=False, metadata=metadata)
    scores = {}
    for kind in KINDS:
        tracker = EvaluationTracker(output_path=str(logs / kind))
        result = evaluate(
            model="oracle",
            model_args={"store": str(store), "heatmap": kind},
            tasks=["medfaith_surgx", "medfaith_surgx_triplets_t50"],
            task_manager=tasks,
            evaluation_tracker=tracker,
            bootstrap_iters=0,
        )
        samples = result.pop("samples")
        tracker.save_results_aggregated(results=result, samples=samples)
        for task, of_task in samples.items():
            tracker.save_results_samples(task_name=task, samples=of_task)
        scores[kind] = result["results"]
    return logs, store, scores


def test_real_logs_agree_with_the_scores_that_lm_eval_computed(oracle_logs, tmp_path):
    """Every figure that both have is the same, of each heatmap a row of its own."""
    logs, _, scores = oracle_logs
    report = write_report([logs], tmp_path / "out")
    n_compared = 0
    saved = [row | {"task": "instruments"} for row in csv_rows(tmp_path / "out" / "surgx_figure_03_instruments.csv")]
    saved = [row for row in saved if row["instrument"] == "all"]
    for name in ("figure_04b_levels", "triplets"):
        for row in csv_rows(tmp_path / "out" / f"surgx_{name}.csv"):
            saved.append(row | {"task": "triplets_t50" if row["data"] == "CholecT50" else "triplets"})
    assert len(saved) == 4 * 5
    for row in saved:
        of_run = scores[row["model"].split("=")[1][:-1]][f"medfaith_surgx_{row['task']}"]
        for key, value in of_run.items():
            cell = row.get(key.removesuffix(",none"))
            if cell is not None:
                assert (cell == "") == math.isnan(value), key
                assert cell == "" or float(cell) == pytest.approx(value, abs=1e-12), key
                n_compared += 1
    assert n_compared >= 4 * (16 + 2 * (15 + 9))
    for row in csv_rows(tmp_path / "out" / "surgx_figure_04a_ras.csv"):
        of_run = scores[row["model"].split("=")[1][:-1]]
        task = "triplets_t50" if row["data"] == "CholecT50" else "triplets"
        name = "ras_global_missed" if row["level"] == "missed" else f"ras_local_{row['level'].lower()}"
        value = of_run[f"medfaith_surgx_{task}"][f"{name},none"]
        assert row["ras"] == "" if math.isnan(value) else float(row["ras"]) == pytest.approx(value)
    assert [row[0] for row in rows_of(report, PARTS)][::2] == [f"oracle (heatmap={kind})" for kind in sorted(KINDS)]
    assert "## Notes" not in report, "no run is taken for a repetition of another"
    assert str(logs) not in report


def test_benchmarks_side_by_side(tmp_path):
    write_surgx(tmp_path / "surgx", ACTIONS)
    alone = write_report([tmp_path])
    write_heal(tmp_path / "heal", "vpt", VPT_PAIRS)
    write_log(tmp_path / "contrabench", "m", answered("chexpert_presence", 5, 1, 2))
    report = write_report([tmp_path])
    assert report.startswith("# CXR-ContraBench, HEAL-MedVQA and SurgXBench results\n")
    assert rows_of(report, RAS) == rows_of(alone, RAS)
    assert "HEAL" not in alone


def test_the_newest_run_of_each_model_and_setting_counts(tmp_path):
    newer = DATE.replace("2026", "2027")
    write_surgx(tmp_path / "a", FRAMES, date=newer)
    before = write_report([tmp_path])
    path = write_surgx(tmp_path / "b", FRAMES[:2], model_args={"pretrained": "m", "store": "x"})
    log = tmp_path / "a" / path.name.replace(DATE, newer)
    log.write_text("\n".join(reversed(log.read_text(encoding="utf-8").splitlines())), encoding="utf-8")
    report = write_report([tmp_path])
    assert report.startswith(before.rstrip())
    note = f"the run of {newer} counts, not that of {DATE}, whose model arguments differ"
    assert f"- m, medfaith_surgx_instruments: {note}\n" in report


def test_models_their_arguments_prompts_and_sources_have_rows_of_their_own(tmp_path):
    for folder, arguments in {"a": {}, "b": {"explainer": "rollout_last", "store": "x"}, "c": {"peft": "p"}}.items():
        write_surgx(tmp_path / folder, ACTIONS, model_args={"pretrained": "m", **arguments})
    write_surgx(tmp_path / "d", [(doc | {"prompt": "other"}, row) for doc, row in ACTIONS])
    write_surgx(tmp_path / "e", [triplets(0, [], [seen(CUT, "missed")], source="cholect50")])
    rows = rows_of(write_report([tmp_path]), PARTS)
    assert [(row[0], row[1]) for row in rows] == [
        ("m", "CholecT45"), ("m", "CholecT50"), ("m (other)", "CholecT45"), ("m (explainer=rollout_last)", "CholecT45"),
        ("m + p", "CholecT45"),
    ]  # fmt: skip


def test_rows_without_images_are_counted(tmp_path):
    write_surgx(tmp_path, [(doc | {"n_rows_skipped": 3}, row) for doc, row in FRAMES])
    assert [row[3:6] for row in rows_of(write_report([tmp_path]), RUNS)] == [["4 of 7", "2", "3"]]


def changed(kept: str, **changes: Any) -> Callable[[dict[str, Any]], None]:
    """Changes the first record of a row."""
    return lambda row: row[kept][0].update(changes)


def put(**columns: Any) -> Callable[[dict[str, Any]], None]:
    return lambda row: row.update(columns)


OCCLUDED = {"triplet": GRASP, "before": 1.0, "after": 1.0, "predicted": [GRASP]}
BROKEN_FRAMES: dict[str, tuple[str, Callable[[dict[str, Any]], None]]] = {  # what is named, what is done to the row
    "no video": ("cannot be read", lambda row: row.pop("video")),
    "video in words": ("f1.video", put(video="x")),
    "gold in words": ("f1.gold", put(gold="hook")),
    "an unknown instrument": ("'claw' is none of the 7 classes", put(gold=["claw"])),
    "an unknown prediction": ("f1.predicted", put(predicted=["claw"])),
    "too few records": ("0 records, not one for each of ['grasper']", put(looks=[])),
    "another outcome": ("neither tp nor fp", changed("looks", outcome="tn")),
    "an unknown state": ("the state 'lost'", changed("looks", state="lost")),
    "a score without a state": ("aa is 0.5 in the state degenerate", changed("looks", state="degenerate")),
    "a state without a score": ("ac is nan in the state scored", changed("looks", ac=NAN)),
    "a score above 1": ("aa is 1.5", changed("looks", aa=1.5)),
    "a score in words": ("ac is 'high'", changed("looks", ac="high")),
    "a record's video": ("the video 41 is not a text", changed("looks", video=41)),
}
BROKEN_ACTIONS: dict[str, tuple[str, Callable[[dict[str, Any]], None]]] = {
    "an unknown triplet": ("is none of the 100 classes", put(gold=["hook,sing,liver"])),
    "an unknown level": ("the level 'vt' is none of ivt, iv", changed("seen", level="vt")),
    "a missed one with a rank": ("the rank 0 of the level missed", changed("seen", level="missed")),
    "another triplet": ("coverage.seen", changed("seen", triplet=CLIP)),
    "no RAS record": ("is not a record of RAS", changed("seen", null="no")),
    "a negative RAS": ("ras is -0.5", changed("seen", ras=-0.5)),
    "99 scores": ("0 numbers; expected one for each of the 100", put(scores=[NAN])),
    "occluded of another": ("is none of the frame's triplets", put(occluded=OCCLUDED | {"triplet": NULL})),
    "occluded to infinity": ("after is inf", put(occluded=OCCLUDED | {"after": math.inf})),
    "occluded halfway": ("after is None", put(occluded=OCCLUDED | {"after": None})),
    "occluded without predictions": ("None is not a list", put(occluded=OCCLUDED | {"predicted": None})),
    "occluded to nothing": ("cannot be read", put(occluded={"triplet": GRASP})),
}


@pytest.mark.parametrize("case", [*BROKEN_FRAMES, *BROKEN_ACTIONS])
def test_a_broken_row_is_named(tmp_path, case):
    words, change = (BROKEN_FRAMES | BROKEN_ACTIONS)[case]
    path = write_surgx(tmp_path, FRAMES if case in BROKEN_FRAMES else ACTIONS)
    broken(path, lambda sample: change(sample["f1" if case in BROKEN_FRAMES else "coverage"]), words, tmp_path / "out")


def visible(share: Any, boxes: int = 1) -> Callable[[dict[str, Any]], None]:
    def change(sample: dict[str, Any]) -> None:
        sample["doc"]["boxes"] = [{"label": "grasper", "xywh": [0, 0, 1, 1]}] * boxes
        sample["f1"]["visible"] = [share]

    return change


BROKEN_SAMPLES: dict[str, tuple[str, Callable[[dict[str, Any]], None]]] = {
    "no row": ("f1", lambda sample: sample.update(f1="")),
    "no response": ("cannot be read", lambda sample: sample.update(filtered_resps=[])),
    "a response that is no text": ("filtered_resps", lambda sample: sample.update(filtered_resps=[3])),
    "visible of no box": ("1 shares; expected one for each of the frame's 0", visible(0.5, boxes=0)),
    "visible above 1": ("1.5 is not a share", visible(1.5)),
    "visible below 0": ("-0.5 is not a share", visible(-0.5)),
    "visible in words": ("'half' is not a share", visible("half")),
    "another source": ("doc.images", lambda sample: sample["doc"].update(images="cholec8:x")),
    "another question": ("doc.ask", lambda sample: sample["doc"].update(ask="phases")),
    "triplets of Cholec80-Boxes": ("doc.ask", lambda sample: sample["doc"].update(ask="triplets")),
}


@pytest.mark.parametrize("case", BROKEN_SAMPLES)
def test_a_broken_sample_is_named(tmp_path, case):
    words, change = BROKEN_SAMPLES[case]
    broken(write_surgx(tmp_path, FRAMES), change, words, tmp_path / "out")


def broken(path: Path, change: Callable[[dict[str, Any]], None], words: str, out: Path) -> None:
    """Changes the first line; the report names it and writes nothing."""
    lines = path.read_text(encoding="utf-8").splitlines()
    sample = json.loads(lines[0])
    change(sample)
    path.write_text("\n".join([json.dumps(sample), *lines[1:]]), encoding="utf-8")
    with pytest.raises(InputError) as error:
        write_report([path], out)
    assert str(error.value).startswith(f"{path}, row 1")
    assert words in str(error.value)
    assert not out.exists()


def test_a_frame_that_stands_twice_or_is_missing(tmp_path, capsys):
    path = write_surgx(tmp_path, FRAMES)
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*lines, lines[0]]), encoding="utf-8")
    with pytest.raises(InputError, match=r"row 5(.|\n)*stands twice"):
        write_report([tmp_path])
    path.write_text("\n".join(lines[:3]), encoding="utf-8")
    assert main(["report", str(tmp_path)]) == 2
    assert "has 3 questions" in capsys.readouterr().err


def test_results_hold_the_runs(tmp_path):
    write_surgx(tmp_path, FRAMES[::-1], heatmaps="0123")
    (run,) = read_results([tmp_path]).surgx
    assert [row.id for row in run.rows] == sorted(doc["id"] for doc, _ in FRAMES)
    assert {row.heatmaps for row in run.rows} == {"0123"}
    assert run.rows[3].predicted is None
