"""HEAL-MedVQA questions over arbitrary scenes: invariants of each row, each image and the split."""

from __future__ import annotations

from collections import Counter
from itertools import groupby, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.builders.heal_medvqa.questions import MOST, UNASKED, count_cooccurring, list_asked_pairs, questions, slug
from medfaith.builders.heal_medvqa.wording import (
    format_closed_question,
    format_open_answer,
    format_open_question,
    in_text,
    templates,
)
from medfaith.loaders.anatomy_masks import ANATOMIES
from medfaith.loaders.vindr_cxr import CLASSES
from tests.support.builders import heal_scenes
from tests.support.builders.heal_scenes import FEW, draw_split, make_scene

SEEDS = st.integers(0, 20)
CLOSED = ("positive", "hallucinated")
ASKED = [disease for disease in CLASSES if disease not in UNASKED]


def group_by_image(rows):
    return {key: list(image_rows) for key, image_rows in groupby(rows, key=lambda row: row["image"]["key"])}


def list_kinds(rows) -> list[str]:
    return [row["kind"] for row in rows]


@FEW
@given(draw_split(), SEEDS)
def test_each_image_has_two_to_five_questions_in_the_order_of_the_images(split, seed):
    """An image has no question if all of its relations are unasked."""
    rows = questions(split, "vindr", "train", seed=seed)
    rows_by_image = group_by_image(rows)
    assert sum(map(len, rows_by_image.values())) == len(rows)  # an image's rows are contiguous
    order = [s.picture.key for s in split]
    assert list(rows_by_image) == sorted(rows_by_image, key=order.index)
    assert all(2 <= len(image_rows) <= MOST for image_rows in rows_by_image.values())
    assert not [s for s in split if s.related and not list_asked_pairs(s) and s.picture.key in rows_by_image]
    ids = [row["id"] for row in rows]
    assert len(set(ids)) == len(ids)


@FEW
@given(draw_split(), SEEDS)
def test_each_row_is_true(split, seed):
    scenes = {s.picture.key: s for s in split}
    logical = {pair for s in split for pair in s.related}
    for row in questions(split, "vindr", "train", seed=seed):
        image_scene = scenes[row["image"]["key"]]
        anatomy, diseases, kind = row["anatomy"], row["diseases"], row["kind"]
        assert anatomy in image_scene.regions
        assert not set(diseases) & set(UNASKED)
        pairs = {(anatomy, disease) for disease in diseases}
        if kind == "positive":
            assert (row["answer"], len(pairs)) == ("Yes", 1)
            assert pairs <= image_scene.related.keys()
        elif kind == "hallucinated":
            assert (row["answer"], len(pairs)) == ("No", 1)
            assert not pairs & image_scene.touched
            assert pairs <= logical
        elif kind == "abnormal":
            assert diseases
            assert pairs == {p for p in image_scene.related if p[0] == anatomy and p[1] not in UNASKED}
            assert row["answer"] == format_open_answer(anatomy, sorted(diseases))
        else:
            assert (kind, diseases) == ("normal", [])
            assert not [p for p in image_scene.touched if p[0] == anatomy]
            assert row["answer"] == format_open_answer(anatomy, [])
        assert row["question_type"] == ("closed" if kind in ("positive", "hallucinated") else "open")
        box_numbers = [n for p in sorted(pairs) for n in image_scene.related.get(p, ())]
        assert sorted(box["label"] for box in row["boxes"]) == sorted(
            image_scene.picture.boxes.labels[n] for n in box_numbers
        )


@FEW
@given(draw_split(), SEEDS)
def test_yes_and_no_are_balanced_where_enough_images_have_no_relation(split, seed):
    rows = questions(split, "vindr", "train", seed=seed)
    counts = Counter(list_kinds(rows))
    assert counts["positive"] >= counts["hallucinated"]
    used = group_by_image(rows)
    logical = count_cooccurring(split)

    def is_eligible(s) -> bool:
        free = set(s.regions) - {anatomy for anatomy, _ in s.touched}
        return not s.related and bool(free) and any(a in s.regions and (a, d) not in s.touched for a, d in logical)

    if counts["positive"] > counts["hallucinated"]:  # every image that could help was used
        assert not [s for s in split if is_eligible(s) and s.picture.key not in used]


@FEW
@given(draw_split(), SEEDS, st.randoms(use_true_random=False))
def test_rows_do_not_depend_on_the_order_of_the_images(split, seed, random):
    rows = {row["id"]: row for row in questions(split, "vindr", "train", seed=seed)}
    reordered = list(split)
    random.shuffle(reordered)
    assert {row["id"]: row for row in questions(reordered, "vindr", "train", seed=seed)} == rows


@pytest.mark.full
@FEW
@given(draw_split(), draw_split(), SEEDS)
def test_other_images_change_no_row_but_through_what_is_logical_and_the_balance(split, other_scenes, seed):
    """Rows of an image with relations do not depend on other images, unless these add a relation."""
    everything = [make_scene("all", list(product(heal_scenes.ANATOMIES, ASKED)))]
    renamed = [make_scene(f"other {n}", [], s.touched, anatomies=s.regions) for n, s in enumerate(other_scenes)]

    def select_rows_with_relations(company):
        rows = questions([*split, *company, *everything], "vindr", "train", seed=seed)
        keys = {s.picture.key for s in split if list_asked_pairs(s)}
        return [row for row in rows if row["image"]["key"] in keys]

    assert select_rows_with_relations(renamed) == select_rows_with_relations([])


def make_many():
    related = [("heart", "Edema"), ("aorta", "Calcification"), ("left lower lung", "Nodule/Mass")]
    return [make_scene(f"i{n}", related[: n % 4]) for n in range(40)]


def test_the_seed_changes_choices_and_no_id_names_it():
    rows, repeated_rows, seeded_rows = (list(questions(make_many(), "vindr", "train", seed=seed)) for seed in (0, 0, 1))
    assert rows == repeated_rows
    assert {row["id"] for row in rows} != {row["id"] for row in seeded_rows}
    common = {row["id"]: row for row in rows}.keys() & {row["id"] for row in seeded_rows}
    assert common  # a question of both seeds has one id
    assert {row["template"] for row in rows if row["question_type"] == "closed"} == set(templates()["closed"])
    for row in rows:
        config, split, image, kind, *slugs = row["id"].split("/")
        assert (config, split, f"train/{image}.dicom", kind) == ("vindr", "train", row["image"]["key"], row["kind"])
        assert slugs == [slug(row["anatomy"]), *([slug(d) for d in row["diseases"]] if kind in CLOSED else [])]


def test_a_rich_image_gets_from_two_to_five_questions_by_its_name():
    pairs = [("heart", "Edema"), ("aorta", "Calcification"), ("heart", "Nodule/Mass")]
    rows = group_by_image(questions([make_scene(f"i{n}", pairs) for n in range(60)], "vindr", "train", seed=0))
    assert {len(image_rows) for image_rows in rows.values()} == {2, 3, 4}  # no absent pair remains
    absent = [make_scene(f"j{n}", [("aorta", "Edema")]) for n in range(60)]
    rows = group_by_image(
        questions([*(make_scene(f"i{n}", pairs) for n in range(60)), *absent], "vindr", "train", seed=0)
    )
    plan = ["positive", "hallucinated", "abnormal", "positive", "normal"]
    rich = [list_kinds(image_rows) for key, image_rows in rows.items() if key.startswith("train/i")]
    assert {len(image_rows) for image_rows in rich} == {2, 3, 4, 5}
    assert all(image_rows == plan[: len(image_rows)] for image_rows in rich)


def test_without_a_relation_to_ask_for_there_are_no_rows():
    unasked = make_scene("a", [("trachea", "Other lesion")], anatomies=["trachea"])
    for split in ([], [make_scene("a"), make_scene("b")], [unasked]):
        assert not list(questions(split, "vindr", "train", seed=0))


def test_an_unasked_finding_keeps_its_anatomy_from_being_normal():
    split = [make_scene(f"i{n}", [("heart", "Edema")], [("aorta", "Other lesion")]) for n in range(40)]
    rows = questions(split, "vindr", "train", seed=0)
    normal = {row["anatomy"] for row in rows if row["kind"] == "normal"}
    assert normal == {"left lower lung", "right upper lung"}


# --- wording ----------------------------------------------------------------------------------------------------------

PAPER = {  # section 3, except for capital letters
    "Does the right lower lung have lung opacity?": ("closed", "right lower lung", "Lung Opacity"),
    "Does the left lower lung suffer from pulmonary fibrosis?": ("closed", "left lower lung", "Pulmonary fibrosis"),
    "Are there any abnormalities in the heart?": ("open", "heart", None),
    "List all abnormalities in the aorta.": ("open", "aorta", None),
}


def test_the_papers_examples_can_be_asked():
    for question, (kind, anatomy, disease) in PAPER.items():
        question_texts = [
            format_closed_question(template, anatomy, disease) if disease else format_open_question(template, anatomy)
            for template in templates()[kind]
        ]
        assert question in question_texts


def test_every_question_names_its_anatomy_and_disease_once():
    for anatomy, template, disease in product(ANATOMIES, templates()["closed"], ASKED):
        text = format_closed_question(template, anatomy, disease)
        assert text.count(f"the {anatomy}") == 1, text
        assert text.lower().count(f" {in_text(disease).lower()}") == 1, text
        assert text.endswith("?"), text
        assert text[0].isupper(), text
    for anatomy, template in product(ANATOMIES, templates()["open"]):
        text = format_open_question(template, anatomy)
        assert text.count(f"the {anatomy}") == 1, text
        assert text[-1] in "?.", text


def test_names_in_running_text():
    """Countable findings have an article; states have none."""
    texts = {disease: in_text(disease) for disease in ASKED}
    countable = {"Clavicle fracture", "Enlarged PA", "Lung cavity", "Lung cyst", "Nodule/Mass", "Rib fracture"}
    assert {disease for disease, text in texts.items() if text.startswith(("a ", "an "))} == countable
    assert all(text == text.lower() and "/" not in text for text in texts.values())


@pytest.mark.parametrize(
    ("diseases", "answer"),
    [
        ([], "There are no abnormalities in the heart."),
        (["Edema"], "The heart shows Edema."),
        (["Edema", "ILD"], "The heart shows Edema and ILD."),
        (["Edema", "ILD", "Nodule/Mass"], "The heart shows Edema, ILD and Nodule/Mass."),
    ],
)
def test_open_answers(diseases, answer):
    assert format_open_answer("heart", diseases) == answer
