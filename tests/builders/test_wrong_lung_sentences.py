"""Rows and subsets of the gold sentences, against boxes and overlaps that can be checked by hand."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import jaccard_score

from medfaith.builders.wrong_lung import view
from medfaith.builders.wrong_lung.sentences import (
    CUT,
    DISAGREEING,
    GOLD_WITHOUT_IMAGE,
    NO_ANATOMY,
    NO_BOX,
    OUTSIDE,
    UNLISTED,
    count_without_anatomy,
    mean_overlap,
    select_most_diverse,
    sentences,
)
from medfaith.evaluate_metrics.localization.input_view import mask
from medfaith.loaders.errors import InputError
from tests.support.builders.wrong_lung_gold import LUNGS, SIZE, image, make_dicom_id, make_gold, rows


def make_rows(*gold_sentences, images=None):
    images = {sentence.image_id: image(sentence) for sentence in gold_sentences} if images is None else images
    return sentences(gold_sentences, images, benchmark="wrong-lung")


def test_a_row_is_what_the_sources_say():
    sentence = make_gold(7, " Small  effusion.\n", ["left lung", "left costophrenic angle"], study=3, patient=9,
               conditions=[("abnormal", "yes"), ("pleural effusion", "yes"), ("pneumothorax", "no")])  # fmt: skip
    (row, locations), = make_rows(sentence)[0]  # fmt: skip
    assert row == {
        "id": "wrong-lung:50000003|7",
        "image": {"source": "mimic_cxr", "key": f"files/p10/p10000009/s50000003/{sentence.image_id}.jpg", "view": "AP"},
        "width": 400,
        "height": 500,
        "patient_id": "10000009",
        "study_id": "50000003",
        "sentence": "Small effusion.",
        # The box includes the pixels of both corners.
        "boxes": [
            {"label": "left lung", "xywh": [220, 50, 160, 400]},
            {"label": "left costophrenic angle", "xywh": [340, 400, 40, 50]},
        ],
        "labels": [
            {"name": "abnormal", "context": "yes"}, {"name": "pleural effusion", "context": "yes"},
            {"name": "pneumothorax", "context": "no"},
        ],
        "subsets": {"abnormal": True, "one_lung": True, "mdrb": False},
    }  # fmt: skip
    assert set(locations.values()) == {("left lung", "left costophrenic angle")}


@pytest.mark.parametrize(
    ("conditions", "names", "abnormal", "one_lung", "disagrees"),
    [
        ([("abnormal", "yes"), ("edema", "yes")], LUNGS, True, False, 0),
        ([("normal", "yes")], LUNGS, False, False, 0),
        ([("abnormal", "no")], ["left lung"], False, True, 0),
        ([("edema", "no")], ["right lung", "left costophrenic angle"], False, True, 0),
        ([("edema", "yes")], ["trachea"], False, False, 1),
        ([("abnormal", "yes")], ["left costophrenic angle"], True, False, 1),
    ],
)
def test_abnormal_and_one_lung(conditions, names, abnormal, one_lung, disagrees):
    (row, _), = (result := make_rows(make_gold(1, names=names, conditions=conditions)))[0]  # fmt: skip
    assert row["subsets"] == {"abnormal": abnormal, "one_lung": one_lung, "mdrb": False}
    assert result[1][DISAGREEING] == disagrees


def test_what_is_left_out_is_counted():
    far = {"trachea": (400, 0, 450, 90)}
    edge = {"trachea": (-5, 450, 9, 520), "left lung": (0, 0, 399, 499), "right lung": (0, 600, 5, 700)}
    gold_sentences = [
        make_gold(1, study=1), make_gold(1, study=2), make_gold(2, study=2),
        make_gold(1, names=["trachea"], study=3, boxes=far),
        make_gold(1, names=list(edge), study=4, boxes=edge),
    ]  # fmt: skip
    images = {sentence.image_id: image(sentence) for sentence in gold_sentences if not sentence.study_id.endswith("2")}
    built_rows, counted = make_rows(*gold_sentences, images=images)
    assert [row["id"] for row, _ in built_rows] == ["wrong-lung:50000001|1", "wrong-lung:50000004|1"]
    assert built_rows[1].row["boxes"] == [
        {"label": "trachea", "xywh": [0, 450, 10, 50]},
        {"label": "left lung", "xywh": [0, 0, 400, 500]},
    ]
    expected_counts = {GOLD_WITHOUT_IMAGE: 1, NO_BOX: 1, OUTSIDE: 2, CUT: 1}
    assert {reason: counted[reason] for reason in expected_counts} == expected_counts


@pytest.mark.parametrize(
    ("listed", "missing", "unlisted"),
    [
        ([(1, 1), (1, 2), (2, 1)], 0, 0),
        ([(1, 1), (1, 2), (2, 1), (1, 3), (1, 4), (2, 2)], 3, 0),
        ([(1, 1), (1, 2), (2, 1), (1, 3), (1, 3)], 1, 0),  # a repeated id is one sentence
        ([(1, 1), (1, 2), (2, 1), (3, 1), (3, 2)], 0, 0),  # its image is not in gold
        ([(1, 1), (2, 9)], 1, 2),
        ([], 0, 3),
    ],
)
def test_sentences_that_name_no_anatomy_are_counted_by_their_ids(listed, missing, unlisted):
    gold_sentences = [make_gold(1, study=1), make_gold(2, study=1), make_gold(1, study=2)]
    pairs = [(make_dicom_id(study), f"{50_000_000 + study}|{number}") for study, number in listed]
    assert count_without_anatomy(gold_sentences, pairs) == Counter({NO_ANATOMY: missing, UNLISTED: unlisted})


@pytest.mark.parametrize("field", ["patient_id", "study_id"])
def test_an_image_of_another_study_is_refused(field):
    sentence = make_gold(1)
    images = {sentence.image_id: image(sentence)}
    with pytest.raises(
        InputError, match=r"(?s)image 00000001-.*in Chest ImaGenome, and of study .*what to do: use the"
    ):
        make_rows(replace(sentence, **{field: "19999999"}), images=images)


def test_overlap_is_the_mean_jaccard_index_in_the_view_and_none_where_that_shows_nothing():
    report = [
        make_gold(1, names=LUNGS), make_gold(2, names=["right lung"]),
        make_gold(3, names=["left costophrenic angle", "left lung"]),
    ]  # fmt: skip
    report_rows = [row for row, _ in rows(*report)]
    masks = [mask([box["xywh"] for box in row["boxes"]], SIZE).ravel() for row in report_rows]
    ious = [jaccard_score(masks[i], masks[j]) for i, j in [(0, 1), (0, 2), (1, 2)]]
    assert mean_overlap(report_rows) == pytest.approx(np.mean(ious), abs=1e-12)
    assert ious[2] == 0 < ious[0]
    assert math.isnan(mean_overlap(report_rows[:1]))
    corner = {"trachea": (0, 0, 5, 5)}  # outside the centre crop
    report_rows = [row for row, _ in rows(*(make_gold(i, names=["trachea"], boxes=corner) for i in range(3)))]
    assert not mask([report_rows[0]["boxes"][0]["xywh"]], SIZE).any()
    assert math.isnan(mean_overlap(report_rows))
    assert select_most_diverse(report_rows) == [False] * 3
    visible_rows = [row for row, _ in rows(make_gold(4, names=["left lung"]))]
    assert mean_overlap(report_rows + visible_rows) == 0  # mean over the three pairs with the visible sentence


def test_the_most_diverse_tenth_are_whole_reports():
    """30 sentences in reports of several: 3 are a tenth, and the report of the third has four."""
    lone = [make_gold(1, study=1, names=["trachea"])]
    disjoint = [make_gold(1, study=2, names=["left lung"]), make_gold(2, study=2, names=["right lung"])]  # IoU 0
    near = [make_gold(i, study=3, names=names) for i, names in enumerate([LUNGS, LUNGS, ["left lung"], ["right lung"]])]
    same = [make_gold(i, study=4 + i // 4) for i in range(24)]  # IoU 1
    all_rows = [row for row, _ in rows(*lone, *disjoint, *near, *same)]
    flags = [row["subsets"]["mdrb"] for row in all_rows]
    assert flags == [False] + [True] * 6 + [False] * 24
    assert select_most_diverse(all_rows[::-1]) == flags[::-1]
    assert select_most_diverse(all_rows[1:3] + all_rows[7:25]) == [True] * 2 + [False] * 18  # two are a tenth of 20
    assert Counter(select_most_diverse(all_rows[:7])) == {False: 7}  # a tenth of six is none


NUMBERS = st.floats(-50, 3000, allow_nan=False)
EXTENTS = st.floats(0.01, 3000)


@given(st.lists(st.tuples(NUMBERS, NUMBERS, EXTENTS, EXTENTS), max_size=4), st.integers(1, 3000), st.integers(1, 3000))
def test_overlap_is_measured_on_the_view_on_which_attention_is_scored(boxes, height, width):
    np.testing.assert_array_equal(view.mask(boxes, (height, width)), mask(boxes, (height, width)))
