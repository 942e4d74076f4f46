"""HEAL-MedVQA from the synthetic ChestX-ray14 and CheXmask: rows, what is left out, and odd copies."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from medfaith.builders import heal_medvqa
from medfaith.builders.heal_medvqa import Options, nih
from medfaith.builders.heal_medvqa.vocabulary import vocabulary
from medfaith.cards.publish.guard import columns, words
from medfaith.evaluate_metrics.reading.disease_names import NIH_CLASSES
from medfaith.loaders import chexmask, nih_cxr14, rle
from medfaith.loaders.errors import InputError
from medfaith.loaders.phantom import chest
from medfaith.loaders.phantom import chexmask as mask_phantom
from medfaith.loaders.phantom import nih_cxr14 as phantom
from tests.support.builders.files import copied, digests, problems, record_of, rows_of, skipped
from tests.support.tiers import is_full_run

NIH = "heal-medvqa-nih_cxr14"
N_TEST = 110


def build(roots, out: Path, **options) -> Path:
    (folder,) = heal_medvqa.build(roots, out, configs=["nih"], **options)
    return folder


def plan_test_list() -> list[phantom.Study]:
    return phantom.plan(0, 10, N_TEST)["test"]


def draw_regions(study: phantom.Study) -> dict[str, np.ndarray]:
    return chest.regions(study.image.drawn, seed=study.image.seed, size=study.image.size)


def test_the_diseases_are_those_that_the_reader_knows():
    assert nih.DISEASES == NIH_CLASSES
    assert len(nih.DISEASES) == 8


def test_what_is_left_out_is_what_the_phantom_plants(phantom_nih_build):
    counts = skipped(phantom_nih_build / NIH)
    n_unboxed = sum(not study.is_boxed for study in plan_test_list())
    unused = [counts.pop(reason) for reason in list(counts) if "in no question" in reason]
    assert counts == {
        "empty mask: heart": 1,
        chexmask.POOR: 1,
        "images with findings and no box": n_unboxed,
        "images without masks": 1,
    }
    n_images = record_of(phantom_nih_build / NIH)["splits"]["nih/test"]["images"]
    assert n_images + sum(unused) + n_unboxed + 2 == N_TEST


def test_rows_are_true_of_what_the_phantom_draws(phantom_nih_build):
    studies = {study.image.name: study for study in plan_test_list()}
    rows = rows_of(phantom_nih_build / NIH, "nih")
    assert {row["anatomy"] for row in rows} == {*nih.ANATOMIES}
    assert {disease for row in rows for disease in row["diseases"]} == {*nih.DISEASES}
    n_drawn = n_positive = 0
    for row in rows:
        study = studies[row["image"]["key"].removeprefix("images/")]
        assert study.is_boxed or not study.labels
        assert (row["image"]["view"], row["height"], row["width"]) == (study.view, *study.image.size)
        pairs = {(a, nih.NAMES[finding.label]) for finding in study.image.findings for a in finding.anatomies}
        if row["kind"] == "positive":
            n_positive += 1
            n_drawn += (row["anatomy"], row["diseases"][0]) in pairs
            assert row["diseases"][0] in {disease for _, disease in pairs}
        elif row["kind"] == "hallucinated":
            assert (row["anatomy"], row["diseases"][0]) not in pairs
            drawn_at = {disease for anatomy, disease in pairs if anatomy == row["anatomy"]}
            for same_shadow in ({"Mass", "Nodule"}, {"Infiltration", "Pneumonia"}):
                assert not ({*row["diseases"]} <= same_shadow and drawn_at & same_shadow)
        elif row["kind"] == "normal":
            assert row["anatomy"] not in {anatomy for anatomy, _ in pairs}
            assert not {*study.labels} - {finding.label for finding in study.image.findings}, "a label without a box"
    assert n_drawn > 0.6 * n_positive


def test_regions_are_the_masks_and_thirds_have_equal_heights(phantom_nih_build):
    studies = {study.image.name: study for study in plan_test_list()}
    for row in rows_of(phantom_nih_build / NIH, "nih")[::5]:
        regions = draw_regions(studies[row["image"]["key"].removeprefix("images/")])
        np.testing.assert_array_equal(rle.decode(row["region"]), regions[row["anatomy"]])


def test_donors_are_images_of_other_patients(phantom_nih_build):
    rows = {row["id"]: row for row in rows_of(phantom_nih_build / NIH, "nih")}
    partners = rows_of(phantom_nih_build / NIH, "nih_vpt")
    assert partners
    for partner in partners:
        keys = (rows[partner["original_id"]]["image"]["key"], partner["donor"]["key"])
        assert len(set(map(nih_cxr14.get_patient, keys))) == 2


def test_the_vocabulary_holds_every_text_and_no_other(phantom_nih_build):
    """The guard of `publish` lets the rows through, and finds a word that no template makes."""
    import pyarrow.parquet as pq

    allowed = vocabulary()
    for config in ("nih", "nih_tpt", "nih_vpt"):
        table = pq.read_table(phantom_nih_build / NIH / config)
        for column, values in columns.iterate_distinct(table):
            assert [text for text, _ in values if not words.is_allowed(text, allowed.get(column))] == []
    for column, text in (
        ("answer", "The heart shows Gout."), ("question", "Does the heart have gout?"), ("diseases", "Gout"),
        ("id", "nih/test/00000001_000.png/positive/heart/gout"), ("image.key", "images/../00000001_000.png"),
        ("region.counts", "a patient"), ("answer", "The heart shows Mass and pain."),
    ):  # fmt: skip
        assert not words.is_allowed(text, allowed[column])


@pytest.mark.full  # test_heal_build.py has the same of VinDr-CXR
def test_rows_do_not_depend_on_workers_or_on_images(phantom_nih_build, phantom_nih_roots, tmp_path):
    expected = digests(phantom_nih_build / NIH)
    assert digests(build(phantom_nih_roots, tmp_path / "two", workers=2)) == expected
    roots = copied(phantom_nih_roots, nih.SOURCE, tmp_path)
    shutil.rmtree(roots[nih.SOURCE] / "images")
    assert digests(build(roots, tmp_path / "labels")) == expected


def test_anatomies_can_be_chosen_and_are_recorded(phantom_nih_build, phantom_nih_roots, tmp_path):
    assert record_of(phantom_nih_build / NIH)["arguments"]["anatomies"] == [*nih.ANATOMIES]
    folder = build(phantom_nih_roots, tmp_path / "two", options=Options(anatomies=("left lung", "heart")))
    assert record_of(folder)["arguments"]["anatomies"] == ["left lung", "heart"]
    assert {row["anatomy"] for row in rows_of(folder, "nih")} == {"left lung", "heart"}
    assert set(problems(folder).values()) == {()}
    with pytest.raises(InputError, match=r"--anatomy aorta: CheXmask has no mask of it"):
        build(phantom_nih_roots, tmp_path / "none", options=Options(anatomies=("heart", "aorta")))
    if is_full_run():  # the rule: test_heal_relations.py
        places = Options(places="anatomical")
        rows = rows_of(build(phantom_nih_roots, tmp_path / "places", options=places), "nih")
        assert {row["anatomy"] for row in rows if row["diseases"] == ["Cardiomegaly"]} == {"heart"}


def read(root: Path):
    return nih.pictures(root)


def test_a_boxed_image_outside_the_list_is_counted(phantom_nih_roots, tmp_path):
    root = copied(phantom_nih_roots, nih.SOURCE, tmp_path)[nih.SOURCE]
    images, before = read(root)
    boxed = next(picture.image_id for picture in images if picture.boxes.labels)
    path = root / "test_list.txt"
    path.write_text(path.read_text().replace(f"{boxed}\n", ""))
    fewer, after = read(root)
    assert len(fewer) == len(images) - 1
    assert after - before == Counter({"images with boxes outside the test list": 1})


def test_labels_without_a_box_may_lie_anywhere(phantom_nih_roots):
    images, _ = read(phantom_nih_roots[nih.SOURCE])
    study = plan_test_list()[phantom.WITH_UNBOXED_LABEL]
    (picture,) = (picture for picture in images if picture.image_id == study.image.name)
    assert "Hernia" in picture.unlocated
    assert picture.patient == study.image.name[:8]


@pytest.mark.parametrize(
    ("labels", "boxed", "expected"),
    [
        ([], (), ()),
        (["Effusion"], (), ("Pleural effusion",)),
        (["Effusion", "Mass"], ("Pleural effusion",), ("Mass", "Nodule")),
        (["Consolidation", "Pneumonia"], ("Pneumonia",), ("Consolidation", "Infiltration")),
        (["Fibrosis", "Pleural_Thickening"], (), ("Pleural thickening", "Pulmonary fibrosis")),
    ],
)
def test_other_readings_of_a_label_lie_anywhere_too(labels, boxed, expected):
    boxes = nih.Boxes(tuple(boxed), np.ones((len(boxed), 4)))
    assert nih._find_unlocated(labels, boxes) == expected


def _drop_boxes(root: Path) -> None:
    path = root / "BBox_List_2017.csv"
    path.write_text(path.read_text().splitlines()[0] + "\n")


def _enclose_rows(root: Path) -> None:
    path = root / "BBox_List_2017.csv"
    lines = path.read_text().splitlines()
    for n in (3, 9):
        lines[n] = lines[n].replace(".png,", '.png,"')
    path.write_text("\n".join(lines) + "\n")


def _rename_masks(root: Path) -> None:
    path = root / mask_phantom.FILE
    path.write_text(re.sub(r"^0", "9", path.read_text(), flags=re.MULTILINE))


@pytest.mark.parametrize(
    ("source", "change", "message"),
    [
        (nih.SOURCE, _drop_boxes, "the file has a header and no rows"),
        (nih.SOURCE, _enclose_rows, "row 3"),
        (nih.SOURCE, lambda root: (root / "test_list.txt").unlink(), "holds no test_list.txt"),
        (nih.MASKS, _rename_masks, r"0 images with masks give no question"),
        (nih.MASKS, lambda root: (root / mask_phantom.FILE).rename(root / "masks.csv"), "holds no ChestX-Ray8.csv"),
    ],
)  # fmt: skip
def test_sources_that_do_not_fit_are_refused(phantom_nih_roots, tmp_path, source, change, message):
    roots = copied(phantom_nih_roots, source, tmp_path)
    change(roots[source])
    with pytest.raises(InputError, match=message):
        build(roots, tmp_path / "out")
    assert not (tmp_path / "out").exists()
