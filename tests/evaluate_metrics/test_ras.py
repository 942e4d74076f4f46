"""RAS: a table of the levels, scores by hand and against a plain loop, unknown motion, bad inputs."""

import functools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from medfaith.evaluate_metrics.ras.levels import LEVELS, is_null, match, parsed
from medfaith.evaluate_metrics.ras.score import ras, score_frame, score_predictions, summarise
from medfaith.loaders import rle
from tests.support.evaluate_metrics import attention_maps
from tests.support.evaluate_metrics.attention_maps import NAN, batches, compute_plain_share, convert_to_lists
from tests.support.evaluate_metrics.modules import compute_by_module

SIZE = (10, 20)


@given(batches(largest=40))
def test_equals_the_obvious_loop(batch):
    maps, instrument_boxes, all_boxes, motion = batch
    maps = maps.astype(np.float64)  # as lists have them
    scores = ras(maps, instrument_boxes, all_boxes, motion)
    expected = [
        [
            compute_plain_share(heatmap, near, motion=moving)
            for heatmap, near, moving in zip(maps, boxes, motion, strict=True)
        ]
        for boxes in (instrument_boxes, all_boxes)
    ]
    assert np.array_equal(scores[:2], expected, equal_nan=True)
    assert np.array_equal(scores[2], np.isnan(expected[0]))
    tensors = torch.from_numpy(maps), torch.from_numpy(motion)
    for heatmaps, moving in (tensors, (maps.tolist(), [*tensors[1]])):
        assert np.array_equal(ras(heatmaps, instrument_boxes, all_boxes, moving), scores, equal_nan=True)


make_bright = functools.partial(attention_maps.make_bright, SIZE)
GRASPER, HOOK = {"label": "grasper", "xywh": [0, 0, 4, 5]}, {"label": "hook", "xywh": [10, 0, 4, 5]}
MOVING = make_bright(5, 0, 10, 4) > 0  # below the grasper


def test_motion_that_is_not_known_leaves_no_score():
    maps, boxes = np.stack([ON_GRASPER] * 3), [[GRASPER["xywh"]]] * 3
    scores = ras(maps, boxes, boxes, [MOVING, None, np.zeros(SIZE, dtype=bool)])
    assert np.array_equal(scores, [[1, NAN, 1], [1, NAN, 1], [False] * 3], equal_nan=True)
    assert np.isnan(ras(maps, boxes, boxes, None)[:2]).all()


G = "grasper,retract,gallbladder"


@pytest.mark.parametrize(
    ("gold", "predictions", "level", "rank"),
    [
        (G, [G], "ivt", 0),
        (G, ["hook,dissect,liver", "grasper,retract,liver", G], "ivt", 2),  # before the better ranked IV
        (G, ["grasper,grasp,gallbladder", "grasper,retract,liver"], "iv", 1),  # before the better ranked IT
        (G, ["grasper,retract,liver", "grasper,retract,omentum"], "iv", 0),  # the best ranked of the level
        (G, ["grasper,grasp,liver", "grasper,grasp,gallbladder"], "it", 1),
        (G, ["hook,retract,gallbladder", "grasper,grasp,liver"], "i", 1),  # verb and target of another instrument
        (G, ["grasper,grasp,liver", "grasper,dissect,liver"], "i", 0),
        (G, ["hook,retract,gallbladder"], "missed", None),
        (G, [], "missed", None),
        ("grasper,null_verb,null_target", [G, "grasper,null_verb,null_target"], "ivt", 1),
        ("hook,null_verb,null_target", ["grasper,null_verb,null_target"], "missed", None),
    ],
)
def test_levels(gold, predictions, level, rank):
    assert match(parsed(gold), [parsed(text) for text in predictions]) == (level, rank)


def test_null_triplets_are_those_of_the_published_list():
    triplets = pytest.importorskip("medfaith.loaders.cholec_triplets").TRIPLETS
    assert [number for number, triplet in enumerate(triplets) if is_null(tuple(triplet))] == list(range(94, 100))


@pytest.mark.parametrize("text", ["grasper,retract", "a,b,c,d", "", "a,,c", None, "grasper retract gallbladder"])
def test_a_text_that_is_no_triplet_is_named(text):
    with pytest.raises(ValueError, match=r"row 3: triplet .*; expected instrument,verb,target"):
        parsed(text, "row 3")


ON_GRASPER, ON_MOTION, ON_HOOK = make_bright(0, 0, 5, 4), make_bright(5, 0, 10, 4), make_bright(0, 10, 5, 14)
CORNER = make_bright(5, 15, 10, 20)
BOTH = [GRASPER, HOOK]
N = None


def make_frame(predictions, maps, gold, boxes=BOTH, motion: np.ndarray | None = MOVING, video="42"):
    return predictions, maps, gold, boxes, motion, video


FRAMES = [  # a frame, then for each true triplet: level, rank, state, ras, predictions left out
    (make_frame([G, "hook,cut,liver"], [ON_MOTION, CORNER], [G]), [("ivt", 0, "scored", 1, 0)]),
    (make_frame(["hook,cut,liver", "grasper,retract,liver"], [ON_GRASPER, ON_HOOK], [G, "hook,dissect,liver"]),
        [("iv", 1, "scored", 0, 0), ("it", 0, "scored", 0, 0)]),  # each on the other's instrument
    (make_frame([G, "hook,cut,liver", "hook,cut,gut"], [ON_HOOK, CORNER, N], ["clipper,clip,cystic_duct"]),
        [("missed", N, "scored", 0.5, 1)]),  # the mean RAS_global of two of three
    (make_frame([G, "hook,cut,liver"], [np.ones(SIZE), N],
        ["grasper,grasp,liver", "hook,dissect,gut", "clipper,clip,gut"]),
        [("i", 0, "degenerate", NAN, 0), ("i", 1, "without_map", NAN, 0), ("missed", N, "degenerate", NAN, 2)]),
    (make_frame([], [], ["hook,null_verb,null_target"], boxes=[]), [("missed", N, "without_prediction", NAN, 0)]),
    (make_frame([G], [ON_GRASPER], [G, "clipper,clip,gut"], motion=N, video="43"),
        [("ivt", 0, "without_motion", NAN, 0), ("missed", N, "without_motion", NAN, 1)]),
    (make_frame([G], [ON_GRASPER], [], video="43"), []),
]  # fmt: skip


def split_rows(frames):
    predictions = [{"triplets": triplets, "maps": maps} for (triplets, maps, *_), _ in frames]
    size = {"size": list(SIZE), "window": None}
    return predictions, [
        {"video": video, "triplets": gold, "boxes": boxes, "motion": moving if moving is None else rle.encode(moving)}
        | size
        for (_, _, gold, boxes, moving, video), _ in frames
    ]


def test_a_table_counted_by_hand():
    scores = score_predictions(*split_rows(FRAMES), per_sample=True)
    names = ("level", "rank", "state", "ras", "n_left_out")
    scored_rows = [[tuple(record[name] for name in names) for record in frame] for frame in scores["per_sample"]]
    assert repr(scored_rows) == repr(
        [[(*ids, float(value), is_degenerate) for *ids, value, is_degenerate in records] for _, records in FRAMES]
    )
    expected = {
        "n_ivt": 2, "n_ivt_scored": 1, "n_iv": 1, "n_iv_scored": 1, "n_it": 1, "n_it_scored": 1, "n_i": 2,
        "n_i_scored": 0, "n_missed": 4, "n_missed_scored": 1, "n_without_motion": 2, "n_without_prediction": 1,
        "n_without_map": 1, "n_degenerate": 2, "n_gold": 10, "n_null": 1, "n_null_left_out": 0, "n_without_box": 4,
        "n_left_out_of_missed": 4, "n_cut_at_zero": 4, "n_videos": 2, "n_frames": 7, "n_boxes": 12,
        "n_boxes_outside": 0, "ras_local_ivt": 1, "ras_local_iv": 0, "ras_local_i": NAN, "ras_global_missed": 0.5,
        "share_ivt": 0.2, "share_iv": 0.1, "share_it": 0.1, "share_i": 0.2, "share_missed": 0.4,
    }  # fmt: skip
    assert {name: scores[name] for name in expected} == pytest.approx(expected, nan_ok=True)
    assert scores["share_ivt_ci_low"] <= 0.2 <= scores["share_ivt_ci_high"]
    without = score_predictions(*split_rows(FRAMES), null_triplets=False)
    expected = {"n_gold": 9, "n_null": 0, "n_null_left_out": 1, "n_missed": 3, "n_without_prediction": 0}
    assert {name: without[name] for name in expected} == expected
    assert without["share_missed"] == 3 / 9


OTHERS = [f"hook,cut,{number}" for number in range(5)]


@pytest.mark.parametrize(
    ("predictions", "options", "level", "value"),
    [
        (["hook,cut,liver", "grasper,retract,liver", G], {"top_k": 1}, "missed", 0.0),
        (["hook,cut,liver", "grasper,retract,liver", G], {"top_k": 2}, "iv", 0.0),
        (["hook,cut,liver", "grasper,retract,liver", G], {"top_k": 3}, "ivt", 1.0),
        ([*OTHERS, G], {}, "missed", 0.0),  # the paper's five
        ([*OTHERS, G], {"top_k": None}, "ivt", 1.0),
    ],
)
def test_only_the_top_predictions_count(predictions, options, level, value):
    maps = [*[CORNER] * (len(predictions) - 1), ON_GRASPER]
    [record] = score_frame(maps, predictions, [G], BOTH, MOVING, video="42", **options)
    assert (record["level"], record["ras"], record["has_box"]) == (level, value, True)
    [unboxed] = score_frame(maps, predictions, [G], [HOOK], MOVING, video="42", **options)  # it rests on motion
    assert (unboxed["level"], unboxed["ras"], unboxed["has_box"]) == (level, 0, False)


@given(st.lists(st.sampled_from(FRAMES), max_size=12), st.randoms(use_true_random=False))
def test_counts_add_up_and_order_does_not_matter(frames, random):
    scores = score_predictions(*split_rows(frames), n_resamples=20)
    assert sum(scores[f"n_{level}"] for level in LEVELS) == scores["n_gold"]
    scored = sum(scores[f"n_{level}_scored"] for level in LEVELS)
    reasons = ("without_motion", "without_prediction", "without_map", "degenerate")
    assert scored + sum(scores[f"n_{reason}"] for reason in reasons) == scores["n_gold"]
    if scores["n_gold"]:
        assert sum(scores[f"share_{level}"] for level in LEVELS) == pytest.approx(1)
    random.shuffle(frames)
    shuffled_scores = score_predictions(*split_rows(frames), n_resamples=20)
    assert shuffled_scores == pytest.approx(scores, nan_ok=True)


def test_frames_scored_one_by_one_give_the_same():
    frames = [(maps, triplets, *boxes_and_motion) for (triplets, maps, *boxes_and_motion), _ in FRAMES]
    summary = summarise([record for *frame, video in frames for record in score_frame(*frame, video=video)])
    expected = score_predictions(*split_rows(FRAMES))
    assert summary == pytest.approx({name: expected[name] for name in summary}, nan_ok=True)


MASK = dict(rle.encode(MOVING))


@pytest.mark.parametrize(
    ("prediction", "reference", "message"),
    [
        (
            {},
            {"motion": MASK | {"size": [20, 10]}},
            r"row 1, motion: size \[20, 10\]; expected that of the frame, \[10, 20",
        ),
        ({}, {"motion": MASK | {"counts": 5}}, "row 1, motion: counts of type int"),
        ({}, {"motion": MASK | {"counts": ""}}, "row 1, motion: the runs cover 0 pixels; expected 10 x 20 = 200"),
        ({"triplets": ["grasper"]}, {}, "row 1, predictions: triplet 'grasper'"),
        ({"triplets": [G, G], "maps": [ON_HOOK, ON_HOOK]}, {}, "row 1, predictions: .* expected each triplet once"),
        ({"maps": []}, {}, "row 1: 0 maps for 1 predictions; expected one for each"),
        ({"maps": [np.full(SIZE, NAN)]}, {}, "row 1, map 1: a heatmap with NaN or infinity"),
        ({"maps": [np.eye(3)]}, {}, r"row 1, map 1: shape \(3, 3\)"),
        ({}, {"triplets": ["hook,cut"]}, "row 1, ground truth: triplet 'hook,cut'"),
        ({}, {"triplets": [G, G]}, "row 1, ground truth: .* expected each triplet once"),
        ({}, {"boxes": [{"label": "hook", "xywh": [0, 0, 0, 5]}]}, "row 1, box 1"),
    ],
)
def test_bad_rows_are_named(prediction, reference, message):
    [predicted], [given_reference] = split_rows([(make_frame([G], [ON_HOOK], [G]), None)])
    with pytest.raises(ValueError, match=message):
        score_predictions([predicted | prediction], [given_reference | reference])


def test_a_top_of_nothing_is_refused():
    with pytest.raises(ValueError, match="top_k 0: expected at least 1"):
        score_predictions([], [], top_k=0)


NO_MOTION, EYE = np.zeros((2, 3), dtype=bool), np.eye(3)[None]


@pytest.mark.parametrize(
    ("maps", "motion", "message"),
    [
        (EYE, NO_MOTION[None], r"motion of shape \(1, 2, 3\); expected that of the maps, \(1, 3, 3\)"),
        (EYE, [NO_MOTION], r"motion of map 1 of shape \(2, 3\); expected \(3, 3\)"),
        (EYE, [None, None], "motion of 2 maps; expected 1"),
        (EYE * NAN, None, "row 1: a heatmap with NaN"),
    ],
)
def test_shapes_are_checked(maps, motion, message):
    with pytest.raises(ValueError, match=message):
        ras(maps, [[]], [[]], motion)


def test_module_takes_frames_of_which_no_motion_is_known():
    predictions, references = split_rows([(make_frame([G], [ON_GRASPER], [G], motion=N), None)] * 2)
    expected = score_predictions(predictions, references, per_sample=True)
    assert expected["n_without_motion"] == 2
    assert repr(compute_by_module("ras", convert_to_lists(predictions), references, per_sample=True)) == repr(expected)


@pytest.mark.parametrize("row", [0, 1])
def test_module_takes_no_empty_text_for_motion_that_is_not_known(row):
    predictions, references = split_rows([(make_frame([], [], [G]), None)] * 2)
    references[row]["motion"] = {"size": list(SIZE), "counts": ""}
    with pytest.raises(ValueError, match=f"row {row + 1}, motion: the runs cover 0 pixels"):
        compute_by_module("ras", predictions, references)


@pytest.mark.parametrize("start", [0, 5])  # a frame whose motion is not known comes first, too
def test_module_agrees_with_the_function(start):
    predictions, references = split_rows(FRAMES[start:] + FRAMES[:start])
    coarse = {"triplets": [G], "maps": [np.arange(49.0).reshape(7, 7)]}
    predictions, references = [*predictions, coarse], [*references, references[0] | {"window": [1, 0, 9, 9]}]
    scores = compute_by_module("ras", convert_to_lists(predictions), references, per_sample=True, top_k=3)
    assert repr(scores) == repr(score_predictions(predictions, references, per_sample=True, top_k=3))
