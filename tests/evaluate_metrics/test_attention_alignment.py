"""AA and AC: cases worked out by hand, the table of frames, coarse maps, invalid inputs, and the module."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import map_coordinates

from medfaith.evaluate_metrics.attention_alignment.frames import to_frame
from medfaith.evaluate_metrics.attention_alignment.score import score_frame, score_predictions, summarise
from medfaith.evaluate_metrics.attention_alignment.spread import spread
from tests.support.evaluate_metrics.attention_maps import NAN, SIZE, convert_to_lists, make_bright
from tests.support.evaluate_metrics.modules import compute_by_module

BOX, OTHER = [10, 5, 8, 6], [0, 0, 4, 3]


windows = st.tuples(st.floats(-9, 20), st.floats(-9, 20), st.floats(0.5, 60), st.floats(0.5, 60))


@given(st.integers(1, 9), st.integers(1, 9), windows, st.integers(0, 2**32 - 1))
def test_coarse_maps_come_to_the_frame_as_scipy_interpolates(height, width, window, seed):
    """Maps are linear between cell centres, constant up to the window's edge, and 0 outside the window."""
    grid = np.random.default_rng(seed).random((height, width), dtype=np.float32)
    x, y, w, h = window
    rows, columns = np.arange(24) + 0.5 - y, np.arange(31) + 0.5 - x
    places = np.meshgrid(rows * height / h - 0.5, columns * width / w - 0.5, indexing="ij")
    inside = np.outer((rows >= 0) & (rows < h), (columns >= 0) & (columns < w))
    expected = np.where(inside, map_coordinates(grid, places, order=1, mode="nearest"), 0)
    clear = ~np.isclose(np.abs(rows - h / 2), h / 2)[:, None] & ~np.isclose(np.abs(columns - w / 2), w / 2)
    assert to_frame(grid, (24, 31), list(window))[clear] == pytest.approx(expected[clear], abs=1e-5)
    assert np.ptp(to_frame(np.full((7, 7), grid[0, 0]), (48, 85), [0, 0, 85, 48])) == 0  # an even map stays degenerate


def make_box(label, *xywh):
    return {"label": label, "xywh": list(xywh)}


FRAMES = [  # labels, maps, video, boxes; the state and values of each prediction, by hand
    (["grasper"], [make_bright(SIZE, 5, 10, 11, 18)], "41", [make_box("grasper", *BOX)], [("tp", "scored", 1, 1)]),
    (["grasper", "hook", "clipper"], [make_bright(SIZE, 0, 0, 3, 4), make_bright(SIZE, 5, 10, 11, 26), None],
        "42", [make_box("grasper", *BOX), make_box("bipolar", *OTHER)],
        [("tp", "scored", 0, 1), ("fp", "scored", 0, 0.5), ("fp", "without_map", NAN, NAN)]),
    (["grasper", "hook"], [np.ones(SIZE), make_bright(SIZE, 0, 0, 4, 4)],
        "42", [make_box("grasper", *BOX), make_box("hook", *OTHER), make_box("hook", 50, 50, 2, 2)],
        [("tp", "degenerate", NAN, NAN), ("tp", "scored", 0.75, 0.75)]),
    ([], [], "43", [], []),
]  # fmt: skip


def split_rows(frames):
    size = {"size": list(SIZE), "window": None}
    predictions = [{"labels": labels, "maps": maps} for labels, maps, *_ in frames]
    return predictions, [{"video": video, "boxes": boxes} | size for _, _, video, boxes, _ in frames]


def test_a_table_counted_by_hand():
    scores = score_predictions(*split_rows(FRAMES), per_sample=True)
    scored_rows = [
        [(record["outcome"], record["state"], record["aa"], record["ac"]) for record in frame]
        for frame in scores["per_sample"]
    ]
    assert repr(scored_rows) == repr(
        [[(*names, float(aa), float(ac)) for *names, aa, ac in frame[-1]] for frame in FRAMES]
    )
    expected = {
        "n_predictions": 6, "n_tp": 4, "n_fp": 2, "n_tp_scored": 3, "n_fp_scored": 1, "n_degenerate": 1,
        "n_without_map": 1, "n_cut_at_zero": 4, "n_videos": 2, "n_frames": 4, "n_boxes": 6, "n_boxes_outside": 1,
        "tp_aa": 1.75 / 3, "tp_ac": 2.75 / 3, "fp_ac": 0.5, "tp_aa_q1": 0.375, "tp_aa_median": 0.75,
        "tp_aa_q3": 0.875, "tp_aa_whisker_low": 0, "tp_aa_whisker_high": 1, "fp_ac_ci_low": NAN,  # one video
    }  # fmt: skip
    assert {name: scores[name] for name in expected} == pytest.approx(expected, nan_ok=True)
    assert scores["tp_aa_ci_low"] <= scores["tp_aa"] <= scores["tp_aa_ci_high"]
    by_instrument = {
        label: (s["n_tp"], s["n_degenerate"], s["tp_aa"], s["fp_ac"]) for label, s in scores["per_instrument"].items()
    }
    assert repr(by_instrument) == repr(
        {"clipper": (0, 0, NAN, NAN), "grasper": (3, 1, 0.5, NAN), "hook": (1, 0, 0.75, 0.5)}
    )


def test_frames_scored_one_by_one_give_the_same():
    frames: list[Any] = [(score_frame, maps, labels, boxes, video) for labels, maps, video, boxes, _ in FRAMES]
    labels, maps, video, boxes, _ = FRAMES[2]
    frames[2] = (score_frame, torch.from_numpy(np.stack(maps)), labels, boxes, video)
    summary = summarise([record for score, *frame, video in frames for record in score(*frame, video=video)])
    expected = score_predictions(*split_rows(FRAMES))
    assert summary.pop("per_instrument").keys() == expected.pop("per_instrument").keys()
    assert summary == pytest.approx({name: expected[name] for name in summary}, nan_ok=True)


def test_the_interval_draws_whole_videos():
    record = {"label": "hook", "outcome": "tp", "state": "scored", "ac": 1.0}
    records = [record | {"video": str(number // 20), "aa": float(number // 20 % 2)} for number in range(200)]
    clustered, unclustered = summarise(records), summarise([row | {"video": str(n)} for n, row in enumerate(records)])
    assert clustered["n_videos"] == 10
    width, unclustered_width = (scores["tp_aa_ci_high"] - scores["tp_aa_ci_low"] for scores in (clustered, unclustered))
    assert width > 3 * unclustered_width


def test_the_box_plot_is_that_of_matplotlib():
    cbook = pytest.importorskip("matplotlib.cbook")
    values = np.random.default_rng(0).beta(0.5, 4, size=101)
    [expected] = cbook.boxplot_stats(values)
    summary = spread("x", [*values, NAN], ["42"] * 102)
    names = {"_q1": "q1", "_median": "med", "_q3": "q3", "_whisker_low": "whislo", "_whisker_high": "whishi"}
    for ending, name in names.items():
        assert summary[f"x{ending}"] == pytest.approx(expected[name], rel=1e-12)
    assert summary["x"] == pytest.approx(values.mean())


GOOD = {"video": "42", "size": [4, 6], "window": None, "boxes": [make_box("hook", 1, 1, 2, 2)]}
EYE = np.eye(4, 6).tolist()


@pytest.mark.parametrize(
    ("prediction", "reference", "message"),
    [
        ({"maps": [np.eye(3).tolist()]}, {}, r"row 1, map 1: shape \(3, 3\); expected that of the frame, \(4, 6\)"),
        ({"maps": [[[1, 2], [3]]]}, {}, "row 1, map 1: no heatmap; expected rows of numbers"),
        ({"maps": [[1, 2]]}, {}, r"row 1, map 1: a heatmap of shape \(2,\); expected \(height, width\)"),
        ({"maps": [[[NAN] * 6] * 4]}, {}, "row 1, map of hook: a heatmap with NaN"),
        ({"maps": [[[NAN]]]}, {"window": [0, 0, 6, 4]}, "row 1, map 1: a heatmap with NaN"),
        ({}, {"window": [0, 0, 0, 4]}, r"row 1, map 1: window \[0, 0, 0, 4\]; expected \[x, y, width, height\]"),
        ({}, {"window": [0, 0, 6]}, r"window \[0, 0, 6\]; expected"),
        ({}, {"size": [4]}, r"row 1: size \[4\]; expected \[height, width\]"),
        ({}, {"size": None}, r"row 1: size \[\]; expected"),
        ({}, {"size": [0, 6]}, r"row 1: size \[0, 6\]; expected"),
        ({"maps": []}, {}, r"row 1: 0 maps for the labels \['hook'\]"),
        ({"labels": ["hook", "hook"], "maps": [EYE, EYE]}, {}, "row 1: 2 maps for the labels .* each once"),
        ({}, {"boxes": [make_box("hook", 1, 1, 0, 2)]}, "row 1, box 1"),
    ],
)
def test_bad_rows_are_named(prediction, reference, message):
    with pytest.raises(ValueError, match=message):
        score_predictions([{"labels": ["hook"], "maps": [EYE]} | prediction], [GOOD | reference])


def test_heatmaps_of_double_precision_are_not_rounded():
    """A map that single precision would make even is scored."""
    heatmap = np.ones(SIZE)
    heatmap[5:11, 10:18] += 1e-12
    predictions, references = split_rows([(["grasper"], [heatmap], "41", [make_box("grasper", *BOX)], [])])
    for scores in (
        score_predictions(predictions, references, per_sample=True),
        compute_by_module("attention_alignment", convert_to_lists(predictions), references, per_sample=True),
    ):
        assert [row["state"] for row in scores["per_sample"][0]] == ["scored"]


def test_ids_name_the_rows():
    empty = [{"labels": [], "maps": []}]
    with pytest.raises(ValueError, match="2 ids for 1 references"):
        score_predictions(empty, [GOOD], ids=["a", "b"])
    with pytest.raises(ValueError, match="1 predictions for 2 references: give one for each"):
        score_predictions(empty, [GOOD, GOOD])
    with pytest.raises(ValueError, match="VID42/3: size"):
        score_predictions(empty, [GOOD | {"size": [0, 1]}], ids=["VID42/3"])


def test_module_agrees_with_the_function():
    predictions, references = split_rows(FRAMES)
    coarse = {"labels": ["hook", "clipper"], "maps": [np.arange(49.0).reshape(7, 7), None]}
    predictions, references = [coarse, *predictions], [GOOD | {"window": [1, 0, 4, 4]}, *references]
    scores = compute_by_module(
        "attention_alignment", convert_to_lists(predictions), references, per_sample=True, seed=1
    )
    assert repr(scores) == repr(score_predictions(predictions, references, per_sample=True, seed=1))
