"""Perturbed partners: changed and kept columns, rows that cannot be made, and dependence of the random draws."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.builders.wrong_lung import perturbations
from medfaith.builders.wrong_lung.perturbations import remove_large_boxes
from tests.support.builders.wrong_lung_gold import ANATOMY, LUNGS, make_gold, rows

SEEDS = st.integers(0, 2**32)
UPPER = ("left upper lung zone", "right upper lung zone")


def select_anatomy(originals, names=tuple(ANATOMY)):
    return {row["image"]["key"]: {name: ANATOMY[name] for name in names} for row in originals}


def make_rows(n_studies=6):
    """Build two or more sentences per study, each study from another patient."""
    names = [LUNGS, ("left lung", "left costophrenic angle"), ("trachea",), UPPER]
    texts = ["Clear lungs.", "Small left effusion.", "Midline trachea.", "Apical scars."]
    gold_sentences = [
        make_gold(i, texts[i], names[i], study=study) for study in range(n_studies) for i in range(2 + study % 3)
    ]  # fmt: skip
    return [row for row, _ in rows(*gold_sentences)]


def list_labels(boxes):
    return [box["label"] for box in boxes]


def test_swapping_describes_the_other_side_where_the_image_has_it():
    originals = [row for row, _ in rows(
        make_gold(1, "Right lung: opacity.", ("right lung", "right costophrenic angle", "trachea")),
        make_gold(2, "Clear.", ("left lung",)),
    )]  # fmt: skip
    anatomy = select_anatomy(originals, ("left lung", "trachea"))
    (swapped_row, unchanged_row), counted = perturbations.swap_left_right(originals, anatomy)
    assert swapped_row == originals[0] | {
        "id": "wrong-lung:50000001|1:swap_left_right",
        "original_id": "wrong-lung:50000001|1",
        "perturbation": "swap_left_right",
        "sentence": "Left lung: opacity.",
        "described": [
            {"label": "left lung", "xywh": [220, 50, 160, 400]},
            {"label": "trachea", "xywh": [190, 0, 20, 100]},
        ],
    }
    assert (unchanged_row["sentence"], unchanged_row["described"]) == ("Clear.", originals[1]["boxes"])
    assert +counted == {
        "sentences without left and right, which swap_left_right leaves as they are": 1,
        "anatomies that changed sentences name and their image has no box of": 1,
    }
    (letters, _), _ = perturbations.swap_left_right(originals, anatomy, swap="substring")
    assert (letters["sentence"], letters["described"]) == ("left lung: opacity.", swapped_row["described"])


def test_shuffling_gives_each_report_its_own_sets_of_boxes_in_any_order_each_as_likely():
    originals = make_rows(3)
    orders = Counter()
    for seed in range(1200):
        partners, counted = perturbations.shuffle_in_report(originals, seed=seed)
        assert [row["original_id"] for row in partners] == [row["id"] for row in originals]
        for study in {row["study_id"] for row in originals}:
            had, given_ = (
                [list_labels(r["boxes"]) for r in some if r["study_id"] == study] for some in (originals, partners)
            )
            assert sorted(had) == sorted(given_)
        orders[tuple(list_labels(row["boxes"])[-1] for row in partners if row["study_id"] == "50000001")] += 1
        n_unchanged = sum(row["boxes"] == row["described"] for row in partners)
        assert counted["sentences that shuffle_in_report gives the boxes they had"] == n_unchanged
        assert all(row["described"] == original["boxes"] for row, original in zip(partners, originals, strict=True))
    assert len(orders) == 6  # all orders of three, the first included
    assert set(range(150, 250)) >= set(orders.values())


def test_a_patients_reports_are_shuffled_apart_and_a_sentence_alone_in_its_report_is_not():
    gold_sentences = [make_gold(i, names=(name,), study=study, patient=1) for study, pair in
               ((1, LUNGS), (2, ("trachea", "left costophrenic angle"))) for i, name in enumerate(pair)]  # fmt: skip
    for seed in range(10):
        partners, _ = perturbations.shuffle_in_report([row for row, _ in rows(*gold_sentences)], seed=seed)
        assert {list_labels(row["boxes"])[0] for row in partners[:2]} == set(LUNGS)
    originals = [row for row, _ in rows(make_gold(1), make_gold(1, study=2), make_gold(2, study=2))]
    partners, counted = perturbations.shuffle_in_report(originals, seed=0)
    assert [row["study_id"] for row in partners] == ["50000002"] * 2
    assert counted["sentences alone in their report, which shuffle_in_report leaves out"] == 1


def test_random_sentences_are_another_patients_and_describe_where_they_lie_here():
    originals = make_rows()
    anatomy = select_anatomy(originals, ("left lung", "right lung", "left upper lung zone"))
    partners, counted = perturbations.random_sentences(originals, anatomy, seed=3)
    patients = {}
    for row in originals:
        patients.setdefault(row["sentence"], set()).add(row["patient_id"])
    lacking = 0
    for row, original in zip(partners, originals, strict=True):
        assert patients[row["sentence"]] - {row["patient_id"]}
        assert (row["boxes"], row["subsets"]) == (original["boxes"], original["subsets"])
        source = next(o for o in originals if o["sentence"] == row["sentence"])
        assert row["labels"] == source["labels"]
        source_labels = list_labels(source["boxes"])
        visible_labels = [
            name for name in source_labels if name in (*anatomy[row["image"]["key"]], *list_labels(original["boxes"]))
        ]
        assert list_labels(row["described"]) == visible_labels
        lacking += len(source_labels) - len(visible_labels)
    assert counted["anatomies that changed sentences name and their image has no box of"] == lacking > 0
    same = sum(row["sentence"] == original["sentence"] for row, original in zip(partners, originals, strict=True))
    assert counted["random sentences that read as the ones they replace"] == same


def test_random_boxes_lie_at_the_same_shares_or_the_same_pixels():
    small = rows(make_gold(1, names=("left lung",), boxes={"left lung": (110, 25, 189, 224)}), size=(250, 200))
    large = rows(make_gold(1, names=("trachea",), study=2, boxes={"trachea": (380, 0, 399, 99)}))
    small_row, large_row = small[0].row, large[0].row
    share, _ = perturbations.random_boxes([small_row, large_row], seed=0)
    assert share[0]["boxes"] == [{"label": "trachea", "xywh": [190, 0, 10, 50]}]
    assert share[1]["boxes"] == [{"label": "left lung", "xywh": [220, 50, 160, 400]}]
    assert share[0]["described"] == small_row["boxes"]
    pixels, counted = perturbations.random_boxes([small_row, large_row], seed=0, place="pixels")
    assert [row["id"] for row in pixels] == [
        f"{large_row['id']}:random_boxes"
    ]  # the trachea is outside the small image, to the right
    assert pixels[0]["boxes"] == small_row["boxes"]
    assert sum(counted.values()) == 1


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("right lung", "right costophrenic angle"), ["right costophrenic angle"]),
        (("left lung", "right lung"), ["left lung", "right lung"]),
        (("left lung", "right lung", "left upper lung zone"), ["right lung", "left upper lung zone"]),
        (("left lung", "right costophrenic angle"), ["left lung", "right costophrenic angle"]),
        (("left lung", "right lung", *UPPER), list(UPPER)),
        (("left lung", "trachea"), ["left lung", "trachea"]),
        (UPPER, list(UPPER)),
    ],
)
def test_large_boxes_are_trimmed(names, expected):
    boxes = [{"label": name, "xywh": [0, 0, 1, 1]} for name in names]
    assert list_labels(remove_large_boxes(boxes)) == expected


def test_trimmed_rows_keep_what_they_describe():
    originals = [row for row, _ in rows(make_gold(1, names=("left lung", "left costophrenic angle")), make_gold(2))]
    partners, counted = perturbations.trimmed(originals)
    assert [list_labels(row["boxes"]) for row in partners] == [["left costophrenic angle"], list(LUNGS)]
    assert [row["described"] for row in partners] == [row["boxes"] for row in originals]
    assert counted["sentences without a box to trim, which trimmed leaves as they are"] == 1


def test_synthetic_rows_and_their_swapped_partners():
    gold_sentences = rows(
        make_gold(1, names=("left lung",), conditions=[("abnormal", "yes"), ("edema", "yes")]),
        make_gold(2, names=("left lung",), conditions=[("atelectasis", "no")]),
        make_gold(1, names=("trachea",), conditions=[("normal", "yes")], study=2),
    )
    partners, _ = perturbations.synthetic(gold_sentences)
    assert [row["sentence"] for row in partners] == [
        "The left lung is abnormal. There is edema in the left lung.",
        "There is no atelectasis.",
        "The trachea is normal.",
    ]
    swapped, counted = perturbations.synthetic_swapped_conditions(gold_sentences, seed=0)
    assert [row["original_id"] for row in swapped] == [row["id"] for row in partners]
    # Both conditions of the first row become the only other condition there, which is negated.
    assert swapped[0]["sentence"] == "There is no atelectasis."
    assert swapped[0]["labels"] == [{"name": "atelectasis", "context": "no"}]
    assert swapped[1]["sentence"] in (
        "The left lung is abnormal.", "There is edema in the left lung.",
    )  # fmt: skip
    assert swapped[2]["sentence"] == partners[2]["sentence"]
    assert swapped[0]["subsets"] == partners[0]["subsets"]
    assert counted["conditions that synthetic_swapped_conditions has no other for"] == 1
    assert counted["sentences that synthetic_swapped_conditions leaves as they are"] == 1


@given(SEEDS, st.randoms(use_true_random=False))
def test_rows_do_not_depend_on_the_order(seed, random):
    originals = make_rows(4)
    anatomy = select_anatomy(originals)
    mixed = originals[:]
    random.shuffle(mixed)
    for make in (
        lambda given_: perturbations.shuffle_in_report(given_, seed=seed),
        lambda given_: perturbations.random_sentences(given_, anatomy, seed=seed),
        lambda given_: perturbations.random_boxes(given_, seed=seed),
    ):
        partners_by_id, mixed_partners = ({row["id"]: row for row in make(given_)[0]} for given_ in (originals, mixed))
        assert partners_by_id == mixed_partners


def test_without_another_patient_nothing_is_drawn_and_another_place_is_refused():
    originals = [row for row, _ in rows(make_gold(1), make_gold(2), make_gold(1, study=2, patient=1))]
    for partners, counted in (
        perturbations.random_sentences(originals, {}, seed=0),
        perturbations.random_boxes(originals, seed=0),
    ):
        assert not partners
        assert sum(counted.values()) == 3
    with pytest.raises(ValueError, match="random boxes 'inches'; expected one of share, pixels"):
        perturbations.random_boxes(originals, seed=0, place="inches")


def test_draws_are_over_all_sentences_of_other_patients():
    originals = make_rows()
    texts = Counter(
        row["sentence"]
        for seed in range(300)
        for row in perturbations.random_sentences(originals[:1] + originals[2:], {}, seed=seed)[0][:1]
    )
    sentence_counts = Counter(row["sentence"] for row in originals[2:])
    for text, n in sentence_counts.items():
        assert texts[text] == pytest.approx(300 * n / sentence_counts.total(), abs=40)
