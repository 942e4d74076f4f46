"""RAS: the levels as a table, scores by hand and against the obvious loop, motion that is not known, bad inputs."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from medfaith.evaluate_metrics.mask_overlap.masks import decoded
from medfaith.evaluate_metrics.ras.levels import LEVELS, is_null, match, parsed
from medfaith.evaluate_metrics.ras.score import ras, score_frame, score_predictions, summarise
from medfaith.loaders import rle
from tests.evaluate_metrics import attention_maps
from tests.evaluate_metrics.attention_maps import NAN, batches, listed, plain_share
from tests.evaluate_metrics.modules import computed

SIZE = (10, 20)


@settings(max_examples=60)
@given(batches(largest=40))
def test_equals_the_obvious_loop(batch):
    maps, instrument_boxes, all_boxes, motion = batch
    maps = maps.astype(np.float64)  # as lists have them
    found = ras(maps, instrument_boxes, all_boxes, motion)
    expected = [
        [plain_share(heatmap, near, motion=moving) for heatmap, near, moving in zip(maps, boxes, motion, strict=True)]
        for boxes in (instrument_boxes, all_boxes)
    ]
    assert np.array_equal(found[:2], expected, equal_nan=True)
    assert np.array_equal(found[2], np.isnan(expected[0]))
    tensors = ras(torch.from_numpy(maps), instrument_boxes, all_boxes, torch.from_numpy(motion))
    lists = ras(maps.tolist(), instrument_boxes, all_boxes, [torch.from_numpy(mask) for mask in motion])
    for other in (tensors, lists):
        for ours, theirs in zip(other, found, strict=True):
            assert np.array_equal(ours, theirs, equal_nan=True)


def bright(*corners):
    return attention_maps.bright(SIZE, *corners)


GRASPER, HOOK = {"label": "grasper", "xywh": [0, 0, 4, 5]}, {"label": "hook", "xywh": [10, 0, 4, 5]}
MOVING = bright(5, 0, 10, 4) > 0  # below the grasper


@pytest.mark.parametrize(
    ("heatmap", "local", "everywhere"),
    [
        (bright(0, 0, 5, 4), 1, 1),  # on the instrument
        (bright(5, 0, 10, 4), 1, 1),  # on what moves
        (bright(0, 0, 10, 4), 1, 1),  # on both
        (bright(0, 10, 5, 14), 0, 1),  # on another instrument
        (bright(5, 15, 10, 20), 0, 0),  # in a corner
        (bright(5, 2, 10, 6), 0.5, 0.5),  # half on what moves
        (np.ones(SIZE), NAN, NAN),
    ],
)
def test_cases_worked_out_by_hand(heatmap, local, everywhere):
    boxes = [GRASPER["xywh"], HOOK["xywh"]]
    found = ras(heatmap[None], [boxes[:1]], [boxes], MOVING[None])
    assert np.array_equal([found[0][0], found[1][0]], [local, everywhere], equal_nan=True)
    assert found[2][0] == math.isnan(local)


def test_motion_that_is_not_known_leaves_no_score():
    maps = np.stack([bright(0, 0, 5, 4)] * 3)
    boxes = [[GRASPER["xywh"]]] * 3
    local, everywhere, degenerate = ras(maps, boxes, boxes, [MOVING, None, np.zeros(SIZE, dtype=bool)])
    assert np.array_equal(local, [1, NAN, 1], equal_nan=True)
    assert np.array_equal(everywhere, [1, NAN, 1], equal_nan=True)
    assert not degenerate.any()
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


parts = st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.sampled_from("pq"))


@given(parts, st.lists(parts, max_size=6))
def test_each_triplet_has_the_best_level_that_any_prediction_gives(gold, predictions):
    def level_of(predicted):
        same = [ours == theirs for ours, theirs in zip(predicted, gold, strict=True)]
        if not same[0]:
            return 4
        return 0 if all(same) else 1 if same[1] else 2 if same[2] else 3

    level, rank = match(gold, predictions)
    levels = [level_of(predicted) for predicted in predictions]
    assert LEVELS.index(level) == min(levels, default=4)
    assert rank == (None if level == "missed" else levels.index(min(levels)))


def test_null_triplets_are_those_of_the_published_list():
    triplets = pytest.importorskip("medfaith.loaders.cholec_triplets").TRIPLETS
    assert [number for number, triplet in enumerate(triplets) if is_null(tuple(triplet))] == list(range(94, 100))


@pytest.mark.parametrize("text", ["grasper,retract", "a,b,c,d", "", "a,,c", None, "grasper retract gallbladder"])
def test_a_text_that_is_no_triplet_is_named(text):
    with pytest.raises(ValueError, match=r"row 3: triplet .*; expected instrument,verb,target"):
        parsed(text, "row 3")


ON_GRASPER, ON_MOTION, ON_HOOK, CORNER = (
    bright(0, 0, 5, 4),
    bright(5, 0, 10, 4),
    bright(0, 10, 5, 14),
    bright(5, 15, 10, 20),
)
BOTH = [GRASPER, HOOK]
N = None


def frame(predictions, maps, gold, boxes=BOTH, motion: np.ndarray | None = MOVING, video="42"):
    return predictions, maps, gold, boxes, motion, video


FRAMES = [  # a frame, then for each true triplet: level, rank, state, ras, predictions left out
    (frame([G, "hook,cut,liver"], [ON_MOTION, CORNER], [G]), [("ivt", 0, "scored", 1, 0)]),
    (
        frame(["hook,cut,liver", "grasper,retract,liver"], [ON_GRASPER, ON_HOOK], [G, "hook,dissect,liver"]),
        [("iv", 1, "scored", 0, 0), ("it", 0, "scored", 0, 0)],  # each on the other's instrument
    ),
    (
        frame([G, "hook,cut,liver", "hook,cut,gut"], [ON_HOOK, CORNER, N], ["clipper,clip,cystic_duct"]),
        [("missed", N, "scored", 0.5, 1)],  # the mean RAS_global of two of three
    ),
    (
        frame(
            [G, "hook,cut,liver"], [np.ones(SIZE), N], ["grasper,grasp,liver", "hook,dissect,gut", "clipper,clip,gut"]
        ),
        [("i", 0, "degenerate", NAN, 0), ("i", 1, "without_map", NAN, 0), ("missed", N, "degenerate", NAN, 2)],
    ),
    (frame([], [], ["hook,null_verb,null_target"], boxes=[]), [("missed", N, "without_prediction", NAN, 0)]),
    (
        frame([G], [ON_GRASPER], [G, "clipper,clip,gut"], motion=N, video="43"),
        [("ivt", 0, "without_motion", NAN, 0), ("missed", N, "without_motion", NAN, 1)],
    ),
    (frame([G], [ON_GRASPER], [], video="43"), []),
]


def rows(frames):
    predictions = [{"triplets": triplets, "maps": maps} for (triplets, maps, *_), _ in frames]
    references = [
        {
            "video": video, "triplets": gold, "size": list(SIZE), "window": None, "boxes": boxes,
            "motion": None if motion is None else dict(rle.encode(motion)),
        }
        for (_, _, gold, boxes, motion, video), _ in frames
    ]  # fmt: skip
    return predictions, references


def test_a_table_counted_by_hand():
    scores = score_predictions(*rows(FRAMES), per_sample=True)
    names = ("level", "rank", "state", "ras", "n_left_out")
    for found, (_, expected) in zip(scores["per_sample"], FRAMES, strict=True):
        assert repr([tuple(record[name] for name in names) for record in found]) == repr(
            [(level, rank, state, float(value), left) for level, rank, state, value, left in expected]
        )
    assert {name: value for name, value in scores.items() if name.startswith("n_")} == {
        "n_ivt": 2, "n_ivt_scored": 1, "n_iv": 1, "n_iv_scored": 1, "n_it": 1, "n_it_scored": 1, "n_i": 2,
        "n_i_scored": 0, "n_missed": 4, "n_missed_scored": 1, "n_without_motion": 2, "n_without_prediction": 1,
        "n_without_map": 1, "n_degenerate": 2, "n_gold": 10, "n_null": 1, "n_null_left_out": 0, "n_without_box": 4,
        "n_left_out_of_missed": 4, "n_cut_at_zero": 4, "n_videos": 2, "n_frames": 7, "n_boxes": 12,
        "n_boxes_outside": 0,
    }  # fmt: skip
    assert (scores["ras_local_ivt"], scores["ras_local_iv"], scores["ras_global_missed"]) == (1, 0, 0.5)
    assert math.isnan(scores["ras_local_i"])
    assert [scores[f"share_{level}"] for level in LEVELS] == [0.2, 0.1, 0.1, 0.2, 0.4]
    assert scores["share_ivt_ci_low"] <= 0.2 <= scores["share_ivt_ci_high"]


def test_null_triplets_may_be_left_out():
    scores = score_predictions(*rows(FRAMES), null_triplets=False)
    assert (scores["n_gold"], scores["n_null"], scores["n_null_left_out"]) == (9, 0, 1)
    assert (scores["n_missed"], scores["share_missed"], scores["n_without_prediction"]) == (3, 3 / 9, 0)


@pytest.mark.parametrize(
    ("top_k", "level", "value"), [(1, "missed", 0.0), (2, "iv", 0.0), (3, "ivt", 1.0), (N, "ivt", 1.0)]
)
def test_only_the_top_predictions_count(top_k, level, value):
    predictions = ["hook,cut,liver", "grasper,retract,liver", G]
    [record] = score_frame([CORNER, ON_HOOK, ON_GRASPER], predictions, [G], BOTH, MOVING, video="42", top_k=top_k)
    assert (record["level"], record["ras"]) == (level, value)


def test_the_default_is_the_papers_top_five():
    predictions = [f"hook,cut,{number}" for number in range(5)] + [G]
    [record] = score_frame([CORNER] * 6, predictions, [G], BOTH, MOVING, video="42")
    assert record["level"] == "missed"


def test_an_instrument_without_a_box_rests_on_motion():
    [record] = score_frame([ON_GRASPER], [G], [G], [HOOK], MOVING, video="42")
    assert (record["ras"], record["has_box"]) == (0, False)


@settings(max_examples=40)
@given(st.lists(st.sampled_from(FRAMES), max_size=12), st.randoms(use_true_random=False))
def test_counts_add_up_and_order_does_not_matter(frames, random):
    scores = score_predictions(*rows(frames), n_resamples=20)
    assert sum(scores[f"n_{level}"] for level in LEVELS) == scores["n_gold"]
    scored = sum(scores[f"n_{level}_scored"] for level in LEVELS)
    reasons = ("without_motion", "without_prediction", "without_map", "degenerate")
    assert scored + sum(scores[f"n_{reason}"] for reason in reasons) == scores["n_gold"]
    if scores["n_gold"]:
        assert sum(scores[f"share_{level}"] for level in LEVELS) == pytest.approx(1)
    random.shuffle(frames)
    again = score_predictions(*rows(frames), n_resamples=20)
    assert again == pytest.approx(scores, nan_ok=True)


def test_frames_scored_one_by_one_give_the_same():
    records = [
        record
        for (triplets, maps, gold, boxes, motion, video), _ in FRAMES
        for record in score_frame(maps, triplets, gold, boxes, motion, video=video)
    ]
    found, expected = summarise(records), score_predictions(*rows(FRAMES))
    assert found == pytest.approx({name: expected[name] for name in found}, nan_ok=True)


def test_undefined_is_nan_beside_a_zero_count():
    scores = score_predictions([], [])
    assert all(
        math.isnan(scores[name]) for name in ("ras_local_ivt", "ras_global_missed", "share_ivt", "share_i_ci_low")
    )
    assert scores["n_gold"] == scores["n_missed"] == scores["n_frames"] == 0


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 2**32 - 1), st.sampled_from([0, 0.01, 0.5, 1]))
def test_masks_are_read_as_the_coco_tools_write_them(height, width, seed, share):
    mask = np.random.default_rng(seed).random((height, width)) < share
    assert np.array_equal(decoded(rle.encode(mask), (height, width), "row 1"), mask)


MASK = dict(rle.encode(MOVING))


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ({"size": [20, 10]}, r"row 1, motion: size \[20, 10\]; expected that of the frame, \[10, 20\]"),
        ({"counts": 5}, "row 1, motion: counts of type int"),
        ({"counts": ""}, "row 1, motion: the runs cover 0 pixels; expected 10 x 20 = 200"),
    ],
)
def test_bad_masks_are_named(mask, message):
    predictions, references = rows(FRAMES[:1])
    references[0]["motion"] = MASK | mask
    with pytest.raises(ValueError, match=message):
        score_predictions(predictions, references)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"triplets": ["grasper"]}, "row 1, predictions: triplet 'grasper'"),
        ({"triplets": [G, G], "maps": [ON_HOOK, ON_HOOK]}, "row 1, predictions: .* expected each triplet once"),
        ({"maps": []}, "row 1: 0 maps for 1 predictions; expected one for each"),
        ({"maps": [np.full(SIZE, NAN)]}, "row 1, map 1: a heatmap with NaN or infinity"),
        ({"maps": [np.eye(3)]}, r"row 1, map 1: shape \(3, 3\)"),
    ],
)
def test_bad_predictions_are_named(changes, message):
    predictions, references = rows([(frame([G], [ON_HOOK], [G]), None)])
    with pytest.raises(ValueError, match=message):
        score_predictions([predictions[0] | changes], references)


@pytest.mark.parametrize(
    ("gold", "boxes", "message"),
    [
        (["hook,cut"], BOTH, "row 1, ground truth: triplet 'hook,cut'"),
        ([G, G], BOTH, "row 1, ground truth: .* expected each triplet once"),
        ([G], [{"label": "hook", "xywh": [0, 0, 0, 5]}], "row 1, box 1"),
    ],
)
def test_bad_references_are_named(gold, boxes, message):
    with pytest.raises(ValueError, match=message):
        score_predictions(*rows([(frame([G], [ON_HOOK], gold, boxes=boxes), None)]))


def test_shapes_and_lengths_are_checked():
    maps, boxes = np.eye(3)[None], [[]]
    with pytest.raises(ValueError, match=r"motion of shape \(1, 2, 3\); expected that of the maps, \(1, 3, 3\)"):
        ras(maps, boxes, boxes, np.zeros((1, 2, 3), dtype=bool))
    with pytest.raises(ValueError, match=r"motion of map 1 of shape \(2, 3\); expected \(3, 3\)"):
        ras(maps, boxes, boxes, [np.zeros((2, 3), dtype=bool)])
    with pytest.raises(ValueError, match="motion of 2 maps; expected 1"):
        ras(maps, boxes, boxes, [None, None])
    with pytest.raises(ValueError, match="row 1: a heatmap with NaN"):
        ras(maps * NAN, boxes, boxes, None)
    with pytest.raises(ValueError, match="1 predictions for 0 references"):
        score_predictions([{"triplets": [], "maps": []}], [])
    with pytest.raises(ValueError, match="top_k 0; expected at least 1"):
        score_predictions([], [], top_k=0)


def test_module_takes_frames_of_which_no_motion_is_known():
    predictions, references = rows([(frame([G], [ON_GRASPER], [G], motion=N), None)] * 2)
    expected = score_predictions(predictions, references, per_sample=True)
    assert expected["n_without_motion"] == 2
    assert repr(computed("ras", listed(predictions), references, per_sample=True)) == repr(expected)


@pytest.mark.parametrize("row", [0, 1])
def test_module_takes_no_empty_text_for_motion_that_is_not_known(row):
    predictions, references = rows([(frame([], [], [G]), None)] * 2)
    references[row]["motion"] = {"size": list(SIZE), "counts": ""}
    with pytest.raises(ValueError, match=f"row {row + 1}, motion: the runs cover 0 pixels"):
        computed("ras", predictions, references)


@pytest.mark.parametrize("first", [0, 5])  # a frame whose motion is not known comes first, too
def test_module_agrees_with_the_function(first):
    predictions, references = rows(FRAMES[first:] + FRAMES[:first])
    coarse = {"triplets": [G], "maps": [np.arange(49.0).reshape(7, 7)]}
    predictions, references = [*predictions, coarse], [*references, references[0] | {"window": [1, 0, 9, 9]}]
    found = computed("ras", listed(predictions), references, per_sample=True, top_k=3)
    assert repr(found) == repr(score_predictions(predictions, references, per_sample=True, top_k=3))
