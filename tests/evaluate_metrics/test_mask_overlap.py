"""Dice and IoU of run-length masks: against scikit-learn, empty masks, and invalid masks."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycocotools import mask as coco
from sklearn.metrics import f1_score, jaccard_score

from medfaith.evaluate_metrics.mask_overlap.masks import _runs
from medfaith.evaluate_metrics.mask_overlap.score import score_predictions
from tests.support.evaluate_metrics.modules import compute_by_module


def encode(pixels):
    encoded = coco.encode(np.asfortranarray(pixels, dtype=np.uint8))
    return {"size": [int(side) for side in encoded["size"]], "counts": encoded["counts"].decode("ascii")}  # pyrefly: ignore[missing-attribute] (bytes)


def draw_box(height, width, y_min, x_min, y_max, x_max):
    pixels = np.zeros((height, width), dtype=bool)
    pixels[y_min:y_max, x_min:x_max] = True
    return pixels


EMPTY = draw_box(4, 6, 0, 0, 0, 0)
LEFT = draw_box(4, 6, 0, 0, 4, 3)
MIDDLE = draw_box(4, 6, 0, 2, 4, 4)

shapes = st.tuples(st.integers(1, 40), st.integers(1, 40))


@st.composite
def mask_pairs(draw):
    height, width = draw(shapes)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    share = draw(st.sampled_from([0.0, 0.02, 0.5, 1.0]))
    return rng.random((height, width)) < share, rng.random((height, width)) < draw(st.sampled_from([0.0, 0.3, 1.0]))


@given(st.lists(mask_pairs(), min_size=1, max_size=6))
def test_agrees_with_scikit_learn(pairs):
    scores = score_predictions(
        [encode(ours) for ours, _ in pairs], [encode(theirs) for _, theirs in pairs], per_sample=True
    )
    expected = [
        [metric(theirs.ravel(), ours.ravel()) if (ours | theirs).any() else math.nan for ours, theirs in pairs]
        for metric in (f1_score, jaccard_score)
    ]
    for name, values in zip(("dice", "iou"), expected, strict=True):
        assert [sample[name] for sample in scores["per_sample"]] == pytest.approx(values, nan_ok=True)
        defined = [value for value in values if not math.isnan(value)]
        assert scores[name] == pytest.approx(np.mean(defined) if defined else math.nan, nan_ok=True)
        assert scores["n_valid"] == len(defined) == len(pairs) - scores["n_both_empty"]


def test_a_table_counted_by_hand():
    predictions = [encode(LEFT), encode(LEFT), encode(EMPTY), encode(MIDDLE), None, None, encode(MIDDLE)]
    masks = (LEFT, MIDDLE, EMPTY, EMPTY, MIDDLE, EMPTY, MIDDLE)
    references = [encode(pixels) for pixels in masks]
    scores = score_predictions(predictions, references, per_sample=True)
    ious = [sample["iou"] for sample in scores["per_sample"]]
    assert ious == pytest.approx([1, 4 / 16, math.nan, 0, 0, math.nan, 1], nan_ok=True)
    expected = {
        "dice": (1 + 8 / 20 + 0 + 0 + 1) / 5, "n": 7, "n_valid": 5, "n_both_empty": 2, "n_empty_predictions": 3,
        "n_empty_references": 3, "n_without_prediction": 2,
    }  # fmt: skip
    assert {name: scores[name] for name in expected} == pytest.approx(expected)


@given(mask_pairs())
def test_runs_are_those_of_pycocotools(pair):
    """The encoded runs start with background and, in column order, reproduce the mask."""
    pixels, _ = pair
    runs = _runs(encode(pixels)["counts"], "mask")
    decoded = np.repeat(np.arange(len(runs)) % 2, runs).reshape(pixels.shape, order="F")
    assert (decoded == pixels).all()


GOOD, IDS = encode(LEFT), ["study 1", "study 2"]


@pytest.mark.parametrize(
    ("mask", "ids", "message"),
    [
        (
            encode(draw_box(6, 4, 0, 0, 1, 1)),
            IDS,
            r"study 2: the prediction has size \[6, 4\] and the reference \[4, 6\]",
        ),
        (encode(draw_box(6, 4, 0, 0, 1, 1)), None, "row 2: the prediction has size"),
        ({**GOOD, "size": [4, 7]}, IDS, "study 2, prediction: the runs cover 24 pixels; expected 4 x 7 = 28"),
        ({**GOOD, "counts": ""}, IDS, "the runs cover 0 pixels"),
        ({**GOOD, "counts": GOOD["counts"] + "o"}, IDS, "counts end within a run"),
        ({**GOOD, "counts": "0é"}, IDS, "'é' in counts"),
        ({**GOOD, "counts": "0<O"}, IDS, "a run of -1 pixels"),
        ({**GOOD, "counts": [0, 12, 12]}, IDS, "counts of type list"),
        ({**GOOD, "size": [4, 6, 1]}, IDS, "size"),
        ({**GOOD, "size": [0, 6]}, IDS, "size"),
        ({**GOOD, "size": None}, IDS, r"study 2, prediction: .* expected a mask of size \[height, width\] and counts"),
        ({}, IDS, "study 2, prediction: {}; expected a mask"),
        ({"size": [4, 6]}, IDS, "counts of type NoneType"),
        (GOOD, ["study 1"], "1 ids for 2 references"),
    ],
)
def test_a_bad_mask_is_named(mask, ids, message):
    with pytest.raises(ValueError, match=message):
        score_predictions([GOOD, mask], [GOOD, GOOD], ids=ids)


@pytest.mark.parametrize("missing", [{0}, {1}, {2}, {0, 1}, {0, 1, 2}, set()], ids=str)
def test_module_agrees_with_the_function(missing):
    predictions = [None if row in missing else encode(pixels) for row, pixels in enumerate((LEFT, EMPTY, MIDDLE))]
    references = [encode(MIDDLE), encode(LEFT), encode(MIDDLE)]
    expected = score_predictions(predictions, references, per_sample=True)
    assert expected["n_without_prediction"] == len(missing)
    assert compute_by_module("mask_overlap", predictions, references, per_sample=True) == expected


@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        ([{"size": [4, 6], "counts": [0, 12, 12]}, GOOD], [GOOD, GOOD], "don't match the expected format"),
        ([[], GOOD], [GOOD, GOOD], "don't match the expected format"),
        ([GOOD, {"size": [4, 6]}], [GOOD, GOOD], "row 2, prediction: counts of type NoneType"),
        ([GOOD, GOOD | {"size": None}], [GOOD, GOOD], r"row 2, prediction: .* expected a mask of size \[height, width"),
        ([GOOD, None], [None, GOOD], "row 1, reference: None; expected a mask"),
        ([GOOD, None], [GOOD, None], "row 2, reference: None; expected a mask"),
    ],
)
def test_module_takes_none_but_no_other_thing_for_a_prediction(predictions, references, message):
    with pytest.raises(ValueError, match=message):
        compute_by_module("mask_overlap", predictions, references)
