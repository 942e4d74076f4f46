"""AA and AC: against the obvious loop, numpy against torch, cases worked out by hand, and inputs that are none."""

import math
from pathlib import Path

import evaluate
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocotools import mask as coco

from medfaith.evaluate_metrics.attention_alignment import regions
from medfaith.evaluate_metrics.attention_alignment.boxes import disjoint, pixel_rectangles
from medfaith.evaluate_metrics.attention_alignment.frames import to_frame
from medfaith.evaluate_metrics.attention_alignment.score import (
    attention_alignment,
    attention_region,
    score_frame,
    score_predictions,
    summarise,
)
from medfaith.evaluate_metrics.attention_alignment.spread import spread
from medfaith.loaders import rle

ROOM = Path(__file__).resolve().parents[2] / "evaluate_metrics"
NAN = float("nan")


def plain_region(heatmap, top_fraction=0.2):
    """As one would write it down."""
    if heatmap.max() == heatmap.min():
        return np.zeros(heatmap.shape, dtype=bool)
    return (heatmap >= np.quantile(heatmap, 1 - top_fraction)) & (heatmap > 0)


def plain_union(boxes, size):
    """The COCO tools' union of the boxes' masks."""
    masks = rle.from_boxes(np.asarray(boxes, dtype=float).reshape(-1, 4), size)
    return coco.decode(coco.merge(masks)).astype(bool) if masks else np.zeros(size, dtype=bool)


def plain_share(heatmap, boxes, top_fraction=0.2, motion=None):
    region, inside = plain_region(heatmap, top_fraction), plain_union(boxes, heatmap.shape)
    inside = inside if motion is None else inside | motion
    return (region & inside).sum() / region.sum() if region.any() else NAN


KINDS = ["noise", "smooth", "sparse", "few_values", "signed", "negative", "constant", "zero", "spike"]


def heatmap_of(kind, size, rng):
    height, width = size
    noise = rng.random(size, dtype=np.float32)
    if kind == "smooth":
        cells = np.maximum(rng.normal(size=(5, 7)), 0).tolist()
        return to_frame(cells, size, [0, 0, width, height])
    if kind == "spike":
        noise[:] = 0
        noise[rng.integers(height), rng.integers(width)] = 3
    return {
        "sparse": np.where(noise > 0.9, noise, np.float32(0)),
        "few_values": np.floor(noise * 4),
        "signed": noise - np.float32(0.85),
        "negative": -noise,
        "constant": np.full(size, 0.3, dtype=np.float32),
        "zero": np.zeros(size, dtype=np.float32),
    }.get(kind, noise)


@st.composite
def batches(draw, largest=70):
    """Maps of one size, two lists of boxes for each, and masks."""
    size = draw(st.integers(1, largest)), draw(st.integers(1, largest))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    maps = np.stack([heatmap_of(kind, size, rng) for kind in kinds])
    sides = np.array([size[1], size[0], size[1], size[0]])

    def boxes():
        found = (rng.random((rng.integers(0, 5), 4)) * 1.4 - 0.2) * sides
        found[:, 2:] = np.abs(found[:, 2:])
        found = np.round(found, rng.integers(0, 3))  # whole numbers and halves, too
        found[:, 2:] += 0.01
        return found

    return maps, [boxes() for _ in maps], [boxes() for _ in maps], rng.random(maps.shape) < 0.3


fractions = st.sampled_from([0.2, 0.2, 0.05, 0.5, 0.9, 1.0, 1e-6])


@settings(deadline=None)
@given(batches(), fractions)
def test_equals_the_obvious_loop(batch, top_fraction):
    maps, class_boxes, all_boxes, _ = batch
    aa, ac, degenerate = attention_alignment(maps, class_boxes, all_boxes, top_fraction=top_fraction)
    region = attention_region(maps, top_fraction)
    for row, heatmap in enumerate(maps):
        assert np.array_equal(region[row], plain_region(heatmap, top_fraction))
        assert np.array_equal(aa[row], plain_share(heatmap, class_boxes[row], top_fraction), equal_nan=True)
        assert np.array_equal(ac[row], plain_share(heatmap, all_boxes[row], top_fraction), equal_nan=True)
        assert degenerate[row] == (not region[row].any()) == math.isnan(aa[row])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equals_the_obvious_loop_at_the_size_of_a_frame(kind, dtype):
    heatmap = heatmap_of(kind, (480, 854), np.random.default_rng(1)).astype(dtype)
    boxes = [[100.4, 50.5, 250.2, 200.0], [300, 200, 180.5, 260]]
    aa, ac, _ = attention_alignment(heatmap[None], [boxes[:1]], [boxes])
    assert np.array_equal(attention_region(heatmap[None])[0], plain_region(heatmap))
    expected = [plain_share(heatmap, boxes[:1]), plain_share(heatmap, boxes)]
    assert np.array_equal([aa[0], ac[0]], expected, equal_nan=True)


def test_a_sample_that_misleads_changes_nothing(monkeypatch):
    """Values that only the lattice has: what it proposes is refused by counting, and everything is sorted."""
    heatmap = np.random.default_rng(0).random((96, 96))
    heatmap[regions._LATTICE // 2 :: regions._LATTICE, regions._LATTICE // 2 :: regions._LATTICE] += 5
    sorted_wholes = []
    sort = np.sort
    monkeypatch.setattr(regions.np, "sort", lambda a, **how: sorted_wholes.append(a.size) or sort(a, **how))
    region = attention_region(heatmap[None])[0]
    assert heatmap.size in sorted_wholes
    assert np.array_equal(region, plain_region(heatmap))
    sorted_wholes.clear()
    attention_region(np.random.default_rng(0).random((1, 96, 96)))
    assert sorted_wholes == [144]  # the sample is enough for an ordinary map


@given(st.lists(st.floats(-(2**99), 2**99, width=32), min_size=2, max_size=30), st.floats(0.001, 0.999))
def test_interpolates_as_numpy_does(values, quantile):
    array = np.array(values, dtype=np.float32)
    rank, weight = regions._position(len(array), 1 - quantile)
    lower, upper = np.sort(array)[[rank, rank + 1]]
    expected = np.quantile(array, 1 - (1 - quantile))
    found = regions._interpolated(lower, upper, weight)
    assert found == expected
    assert found.dtype == expected.dtype


def on_device(maps, unions, motion=None, top_fraction=0.2):
    """The way of tensors that are not on the host, which no machine of the tests has, on the host's own tensors."""
    names = [f"row {row + 1}" for row in range(len(maps))]
    size = maps.shape[1:]
    rectangles = [[disjoint(pixel_rectangles(boxes, size)) for boxes in union] for union in unions]
    return regions._device_counts(torch.from_numpy(maps), rectangles, motion, top_fraction, names)


@settings(deadline=None, max_examples=60)
@given(batches(largest=40), fractions, st.sampled_from([np.float32, np.float64]))
def test_torch_equals_numpy(batch, top_fraction, dtype):
    maps, class_boxes, all_boxes, motion = batch
    maps = maps.astype(dtype)
    expected = attention_alignment(maps, class_boxes, all_boxes, top_fraction=top_fraction)
    given_tensor = attention_alignment(torch.from_numpy(maps), class_boxes, all_boxes, top_fraction=top_fraction)
    for ours, theirs in zip(given_tensor, expected, strict=True):
        assert isinstance(ours, np.ndarray)
        assert np.array_equal(ours, theirs, equal_nan=True)
    region = attention_region(torch.from_numpy(maps).requires_grad_(), top_fraction)
    assert region.dtype == torch.bool
    assert np.array_equal(region.numpy(), attention_region(maps, top_fraction))
    names = [str(row) for row in range(len(maps))]
    bounds = regions._device_bounds(torch.from_numpy(maps), top_fraction, names)
    assert np.array_equal((torch.from_numpy(maps) > bounds[:, None, None]).numpy(), region.numpy())
    for mask in (None, motion, torch.from_numpy(motion)):
        areas, inside = on_device(maps, [class_boxes, all_boxes], mask, top_fraction)
        shares, degenerate = regions.shares_inside(
            maps, [class_boxes, all_boxes], motion=mask, top_fraction=top_fraction
        )
        with np.errstate(invalid="ignore"):
            assert np.array_equal(inside / areas, shares, equal_nan=True)
        assert np.array_equal(areas == 0, degenerate)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_equals_the_host():
    rng = np.random.default_rng(0)
    maps = np.stack([heatmap_of(kind, (480, 854), rng) for kind in KINDS])
    boxes = [[[100, 50, 250, 200], [300.5, 200, 180, 260]]] * len(maps)
    expected = attention_alignment(maps, [box[:1] for box in boxes], boxes)
    found = attention_alignment(torch.from_numpy(maps).cuda(), [box[:1] for box in boxes], boxes)
    for ours, theirs in zip(found, expected, strict=True):
        assert np.array_equal(ours, theirs, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32, torch.uint8])
def test_other_kinds_of_numbers_are_read_exactly(dtype):
    tensor = (torch.from_numpy(heatmap_of("noise", (30, 40), np.random.default_rng(0))) * 200).to(dtype)[None]
    expected = plain_region(tensor[0].float().numpy() if dtype.is_floating_point else tensor[0].numpy())
    assert np.array_equal(attention_region(tensor)[0].numpy(), expected)
    if dtype is not torch.bfloat16:
        assert np.array_equal(attention_region(tensor.numpy())[0], expected)


def test_an_array_that_is_not_contiguous():
    wide = np.random.default_rng(0).random((2, 40, 60))[:, ::2, ::-1]
    assert np.array_equal(attention_region(wide), [plain_region(heatmap) for heatmap in wide])


def bright(size, top, left, bottom, right, value=1.0):
    heatmap = np.zeros(size, dtype=np.float32)
    heatmap[top:bottom, left:right] = value
    return heatmap


SIZE = (20, 30)
BOX, OTHER = [10, 5, 8, 6], [0, 0, 4, 3]


@pytest.mark.parametrize(
    ("heatmap", "class_boxes", "all_boxes", "aa", "ac"),
    [
        pytest.param(bright(SIZE, 5, 10, 11, 18), [BOX], [BOX, OTHER], 1, 1, id="on the box"),
        pytest.param(bright(SIZE, 17, 27, 20, 30), [BOX], [BOX, OTHER], 0, 0, id="in a corner"),
        pytest.param(bright(SIZE, 0, 0, 3, 4), [BOX], [BOX, OTHER], 0, 1, id="on another instrument"),
        pytest.param(bright(SIZE, 0, 0, 3, 4), [], [BOX, OTHER], 0, 1, id="a class that is not there"),
        pytest.param(bright(SIZE, 0, 0, 3, 4), [], [], 0, 0, id="no box at all"),
        pytest.param(bright(SIZE, 5, 10, 11, 26), [BOX], [BOX], 0.5, 0.5, id="half beside the box"),
        pytest.param(bright(SIZE, 5, 10, 11, 18), [BOX, BOX], [BOX, BOX], 1, 1, id="a box twice counts once"),
        pytest.param(bright(SIZE, 0, 0, 10, 10), [[-5, -5, 10, 10]], [[-5, -5, 10, 10]], 0.25, 0.25, id="cut off"),
        pytest.param(bright(SIZE, 0, 0, 3, 4), [[40, 5, 9, 9]], [[40, 5, 9, 9]], 0, 0, id="outside the frame"),
        pytest.param(bright(SIZE, 0, 0, 1, 2), [[0.5, 0.5, 0.2, 1]], [[0.51, 0, 1, 1]], 0.5, 0.5, id="pixel centres"),
        pytest.param(np.full(SIZE, 0.7), [BOX], [BOX], NAN, NAN, id="uniform"),
        pytest.param(np.full(SIZE, -0.7), [BOX], [BOX], NAN, NAN, id="uniform and negative"),
        pytest.param(-np.arange(600.0).reshape(SIZE), [BOX], [BOX], NAN, NAN, id="nothing positive"),
        pytest.param(np.zeros(SIZE), [], [BOX], NAN, NAN, id="zero, of a class that is not there"),
    ],
)
def test_cases_worked_out_by_hand(heatmap, class_boxes, all_boxes, aa, ac):
    found = attention_alignment(heatmap[None], [class_boxes], [all_boxes])
    assert np.array_equal([found[0][0], found[1][0]], [aa, ac], equal_nan=True)
    assert found[2][0] == math.isnan(ac)


@pytest.mark.parametrize(
    ("values", "top_fraction", "selected"),
    [
        ([1, 2, 3, 4, 5], 0.2, [5]),  # the quantile lies between 4 and 5
        ([1, 2, 3, 4, 5, 6], 0.2, [5, 6]),  # it is 5
        ([1, 2, 5, 5, 5], 0.2, [5, 5, 5]),  # ties are all in
        ([0, 0, 0, 0, 0, 0, 0, 0, 0, 7], 0.2, [7]),  # it is 0: what is positive
        ([0, 0, 0, 0, 0, 0, 0, 0, 1, 7], 0.2, [1, 7]),  # between 0 and 1
        ([0, 0, 0, 0, 0, 0, 0, 1, 2, 7], 0.2, [2, 7]),  # between 1 and 2
        ([-9, -8, -7, -6, 1], 0.2, [1]),
        ([-2, -1, 0, 3, 4], 0.8, [3, 4]),
        ([1, 2, 3, 4, 5], 0.8, [2, 3, 4, 5]),
        ([0, 2, 3, 4, 5], 1.0, [2, 3, 4, 5]),
        ([4, 5], 0.2, [5]),
        ([5], 0.2, []),  # all values are equal
    ],
)
def test_the_top_by_hand(values, top_fraction, selected):
    heatmap = np.array([values], dtype=np.float32)
    assert heatmap[attention_region(heatmap[None], top_fraction)[0]].tolist() == selected


def test_the_top_fifth_is_meant_and_not_the_top_four_fifths():
    region = attention_region(np.arange(1.0, 1001).reshape(1, 20, 50))
    assert region.sum() == 200


boxes_of_frames = st.lists(
    st.tuples(st.floats(-5, 25), st.floats(-5, 25), st.floats(0.01, 30), st.floats(0.01, 30)), max_size=6
)


@given(boxes_of_frames)
def test_disjoint_rectangles_cover_what_the_coco_tools_cover(boxes):
    covered = np.zeros((18, 22), dtype=int)
    for left, top, right, bottom in disjoint(pixel_rectangles(boxes, covered.shape)):
        covered[top:bottom, left:right] += 1
    assert covered.max(initial=0) <= 1
    assert np.array_equal(covered == 1, plain_union(boxes, covered.shape))


@pytest.mark.parametrize(
    ("maps", "boxes", "message"),
    [
        (np.stack([np.eye(3), np.full((3, 3), np.nan)]), [[], []], "row 2: a heatmap with NaN or infinity"),
        (np.stack([np.full((3, 3), np.inf), np.eye(3)]), [[], []], "row 1: a heatmap with NaN or infinity"),
        (np.array([[[-np.inf, 1]]]), [[]], "row 1: a heatmap with NaN or infinity"),
        (np.array([[[-np.inf, -1]]]), [[]], "row 1: a heatmap with NaN or infinity"),
        (np.array([[[0, 0, 0, np.nan]]]), [[]], "row 1: a heatmap with NaN or infinity"),
        (np.eye(3), [[]], r"maps of shape \(3, 3\); expected \(n, height, width\)"),
        (np.zeros((1, 0, 3)), [[]], r"maps of shape \(1, 0, 3\)"),
        (np.array([[["a"]]]), [[]], "maps of type"),
        (np.eye(3)[None], [], r"boxes for \[0, 0\] maps; expected 1 each"),
        (np.eye(3)[None], [[[1, 1, 2]]], r"row 1: boxes of shape \(1, 3\); expected \(k, 4\)"),
        (np.eye(3)[None], [[1, 1, 2, 2]], r"row 1: boxes of shape \(4,\); expected \(k, 4\)"),
        (np.eye(3)[None], [[[0, 0, 1, 1], [1, 1, 0, 2]]], "row 1, box 2: .* finite, with a size"),
        (np.eye(3)[None], [[[0, 0, 1, -1]]], "row 1, box 1: .* finite, with a size"),
        (np.eye(3)[None], [[[0, math.nan, 1, 1]]], "row 1, box 1: .* finite, with a size"),
        (np.eye(3)[None], [[["x", 0, 1, 1]]], "row 1: boxes that are not all four numbers"),
    ],
)
def test_bad_arrays_are_named(maps, boxes, message):
    with pytest.raises(ValueError, match=message):
        attention_alignment(maps, boxes, boxes)
    if maps.dtype.kind == "f" and "NaN" in message:
        with pytest.raises(ValueError, match=message):
            on_device(maps, [boxes])


@pytest.mark.parametrize("top_fraction", [0, -0.1, 1.1, NAN])
def test_a_fraction_that_is_none_is_refused(top_fraction):
    with pytest.raises(ValueError, match=r"top_fraction .+; expected a share"):
        attention_region(np.eye(3)[None], top_fraction)


def test_the_sample_is_named_as_the_caller_names_it():
    with pytest.raises(ValueError, match="VID42/7: a heatmap with NaN"):
        attention_alignment(np.full((1, 2, 2), NAN), [[]], [[]], ids=["VID42/7"])
    with pytest.raises(ValueError, match="2 ids for 1 maps"):
        attention_region(np.eye(2)[None], ids=["a", "b"])


windows = st.tuples(st.floats(-9, 20), st.floats(-9, 20), st.floats(0.5, 60), st.floats(0.5, 60))


@given(st.integers(1, 9), st.integers(1, 9), windows, st.integers(0, 2**32 - 1))
def test_coarse_maps_come_to_the_frame_as_those_of_the_explainers(height, width, window, seed):
    """The tasks' geometry is the same formula; this room imports no other."""
    geometry = pytest.importorskip("medfaith.tasks.explain.geometry")
    grid = np.random.default_rng(seed).random((height, width), dtype=np.float32)
    expected = geometry.to_frame(grid[None], geometry.Geometry((24, 31), window))[0]
    assert np.array_equal(to_frame(grid, (24, 31), list(window)), expected)


def test_coarse_maps_come_to_the_frame_as_torch_interpolates():
    grid = np.random.default_rng(0).random((7, 7), dtype=np.float32)
    expected = torch.nn.functional.interpolate(torch.from_numpy(grid)[None, None], size=(48, 85), mode="bilinear")
    assert to_frame(grid, (48, 85), [0, 0, 85, 48]) == pytest.approx(expected[0, 0].numpy(), abs=1e-6)
    assert np.ptp(to_frame(np.full((7, 7), 0.3), (48, 85), [0, 0, 85, 48])) == 0  # even stays even: degenerate


def box(label, *xywh):
    return {"label": label, "xywh": list(xywh)}


FRAMES = [  # labels, maps, video, boxes; the state and values of each prediction, by hand
    (["grasper"], [bright(SIZE, 5, 10, 11, 18)], "41", [box("grasper", *BOX)], [("tp", "scored", 1, 1)]),
    (
        ["grasper", "hook", "clipper"],
        [bright(SIZE, 0, 0, 3, 4), bright(SIZE, 5, 10, 11, 26), None],
        "42",
        [box("grasper", *BOX), box("bipolar", *OTHER)],
        [("tp", "scored", 0, 1), ("fp", "scored", 0, 0.5), ("fp", "without_map", NAN, NAN)],
    ),
    (
        ["grasper", "hook"],
        [np.ones(SIZE), bright(SIZE, 0, 0, 4, 4)],
        "42",
        [box("grasper", *BOX), box("hook", *OTHER), box("hook", 50, 50, 2, 2)],
        [("tp", "degenerate", NAN, NAN), ("tp", "scored", 0.75, 0.75)],
    ),
    ([], [], "43", [], []),
]


def rows(frames):
    predictions = [{"labels": labels, "maps": maps} for labels, maps, *_ in frames]
    references = [
        {"video": video, "size": list(SIZE), "window": None, "boxes": boxes} for _, _, video, boxes, _ in frames
    ]
    return predictions, references


def test_a_table_counted_by_hand():
    scores = score_predictions(*rows(FRAMES), per_sample=True)
    found = [
        [(record["outcome"], record["state"], record["aa"], record["ac"]) for record in frame]
        for frame in scores["per_sample"]
    ]
    for ours, (*_, expected) in zip(found, FRAMES, strict=True):
        assert [record[:2] for record in ours] == [record[:2] for record in expected]
        assert np.array_equal([r[2:] for r in ours], [r[2:] for r in expected], equal_nan=True)
    assert {name: value for name, value in scores.items() if name.startswith("n_")} == {
        "n_predictions": 6,
        "n_tp": 4,
        "n_fp": 2,
        "n_tp_scored": 3,
        "n_fp_scored": 1,
        "n_degenerate": 1,
        "n_without_map": 1,
        "n_videos": 2,
        "n_frames": 4,
        "n_boxes": 6,
        "n_boxes_outside": 1,
    }
    assert (scores["tp_aa"], scores["tp_ac"], scores["fp_ac"]) == (1.75 / 3, 2.75 / 3, 0.5)
    assert (scores["tp_aa_q1"], scores["tp_aa_median"], scores["tp_aa_q3"]) == (0.375, 0.75, 0.875)
    assert (scores["tp_aa_whisker_low"], scores["tp_aa_whisker_high"]) == (0, 1)
    assert scores["tp_aa_ci_low"] <= scores["tp_aa"] <= scores["tp_aa_ci_high"]
    assert math.isnan(scores["fp_ac_ci_low"])  # one video
    of = scores["per_instrument"]
    assert list(of) == ["clipper", "grasper", "hook"]
    assert (of["grasper"]["tp_aa"], of["grasper"]["n_tp"], of["grasper"]["n_degenerate"]) == (0.5, 3, 1)
    assert (of["hook"]["tp_aa"], of["hook"]["fp_ac"]) == (0.75, 0.5)
    assert math.isnan(of["clipper"]["fp_ac"])


def test_frames_scored_one_by_one_give_the_same():
    records = [
        record for labels, maps, video, boxes, _ in FRAMES for record in score_frame(maps, labels, boxes, video=video)
    ]
    expected = score_predictions(*rows(FRAMES))
    found = summarise(records)
    assert found.pop("per_instrument").keys() == expected.pop("per_instrument").keys()
    assert found == pytest.approx({name: expected[name] for name in found}, nan_ok=True)


def test_a_batch_of_a_frame_may_be_a_tensor():
    labels, maps, _, boxes, _ = FRAMES[2]
    given_list = score_frame(maps, labels, boxes, video="42")
    given_tensor = score_frame(torch.from_numpy(np.stack(maps)), labels, boxes, video="42")
    assert repr(given_tensor) == repr(given_list)


def test_the_interval_draws_whole_videos():
    record = {"label": "hook", "outcome": "tp", "state": "scored"}
    records = [
        record | {"video": str(video), "aa": float(video % 2), "ac": 1.0} for video in range(10) for _ in range(20)
    ]
    alone = [row | {"video": str(number)} for number, row in enumerate(records)]
    clustered, single = summarise(records), summarise(alone)
    assert clustered["n_videos"] == 10
    width, single_width = (scores["tp_aa_ci_high"] - scores["tp_aa_ci_low"] for scores in (clustered, single))
    assert width > 3 * single_width


def test_the_box_plot_is_that_of_matplotlib():
    cbook = pytest.importorskip("matplotlib.cbook")
    values = np.random.default_rng(0).normal(size=101) ** 3
    [expected] = cbook.boxplot_stats(values)
    found = spread("x", [*values, NAN], ["42"] * 102)
    names = {"_q1": "q1", "_median": "med", "_q3": "q3", "_whisker_low": "whislo", "_whisker_high": "whishi"}
    for ending, name in names.items():
        assert found[f"x{ending}"] == pytest.approx(expected[name], rel=1e-12)
    assert found["x"] == pytest.approx(values.mean())


def test_undefined_is_nan_beside_a_zero_count():
    for frames in ([], [FRAMES[3]]):
        scores = score_predictions(*rows(frames))
        assert all(math.isnan(scores[name]) for name in ("tp_aa", "tp_ac", "fp_ac", "tp_aa_ci_low", "fp_ac_median"))
        assert scores["n_predictions"] == scores["n_tp"] == scores["n_fp"] == 0
        assert scores["per_instrument"] == {}


GOOD = {"video": "42", "size": [4, 6], "window": None, "boxes": [box("hook", 1, 1, 2, 2)]}
EYE = np.eye(4, 6).tolist()


@pytest.mark.parametrize(
    ("prediction", "reference", "message"),
    [
        ({"maps": [np.eye(3).tolist()]}, {}, r"row 1, map 1: shape \(3, 3\); expected that of the frame, \(4, 6\)"),
        ({"maps": [[[1, 2], [3]]]}, {}, "row 1, map 1: no heatmap; expected rows of numbers"),
        ({"maps": [[1, 2]]}, {}, r"row 1, map 1: a heatmap of shape \(2,\); expected \(height, width\)"),
        ({"maps": [np.full((4, 6), NAN).tolist()]}, {}, "row 1, map of hook: a heatmap with NaN"),
        ({"maps": [[[NAN]]]}, {"window": [0, 0, 6, 4]}, "row 1, map 1: a heatmap with NaN"),
        ({}, {"window": [0, 0, 0, 4]}, r"row 1, map 1: window \[0, 0, 0, 4\]; expected \[x, y, width, height\]"),
        ({}, {"window": [0, 0, 6]}, r"window \[0, 0, 6\]; expected"),
        ({}, {"size": [4]}, r"row 1: size \[4\]; expected \[height, width\]"),
        ({}, {"size": [0, 6]}, r"row 1: size \[0, 6\]; expected \[height, width\]"),
        ({"maps": []}, {}, r"row 1: 0 maps for the labels \['hook'\]"),
        ({"labels": ["hook", "hook"], "maps": [EYE, EYE]}, {}, "row 1: 2 maps for the labels .* each once"),
        ({}, {"boxes": [box("hook", 1, 1, 0, 2)]}, "row 1, box 1"),
    ],
)
def test_bad_rows_are_named(prediction, reference, message):
    with pytest.raises(ValueError, match=message):
        score_predictions([{"labels": ["hook"], "maps": [EYE]} | prediction], [GOOD | reference])


def test_lengths_are_checked():
    with pytest.raises(ValueError, match="0 predictions for 1 references"):
        score_predictions([], [GOOD])
    with pytest.raises(ValueError, match="2 ids for 1 references"):
        score_predictions([{"labels": [], "maps": []}], [GOOD], ids=["a", "b"])
    with pytest.raises(ValueError, match="VID42/3: size"):
        score_predictions([{"labels": [], "maps": []}], [GOOD | {"size": [0, 1]}], ids=["VID42/3"])


def test_module_agrees_with_the_function():
    predictions, references = rows(FRAMES)
    coarse = {"labels": ["hook", "clipper"], "maps": [np.arange(49.0).reshape(7, 7), None]}
    predictions, references = [coarse, *predictions], [GOOD | {"window": [1, 0, 4, 4]}, *references]
    module = evaluate.load(str(ROOM / "attention_alignment"))
    listed = [
        row | {"maps": [None if heatmap is None else np.asarray(heatmap).tolist() for heatmap in row["maps"]]}
        for row in predictions
    ]
    found = module.compute(predictions=listed, references=references, per_sample=True, seed=1)
    assert repr(found) == repr(score_predictions(predictions, references, per_sample=True, seed=1))


@pytest.mark.parametrize("name", ["boxes", "frames", "regions", "spread"])
def test_a_file_shared_with_ras_stands_once(name):
    home, place = ROOM / "attention_alignment" / f"{name}.py", ROOM / "ras" / f"{name}.py"
    assert place.read_bytes() == home.read_bytes(), f"{place} is not {home}: make it a link"
