"""The synthetic CheXpert and OpenI: the images show the labels that their readers return."""

import re
from collections import Counter

import numpy as np
import pytest

from medfaith.loaders import chexpert, images, openi
from medfaith.loaders.phantom import chest
from medfaith.loaders.phantom import openi as phantom_openi
from tests.support.loaders.chest_statistics import TARGETS, H, W, compute_auroc, make_area

MESH = {
    "atelectasis": "Pulmonary Atelectasis",
    "cardiomegaly": "Cardiomegaly",
    "consolidation": "Consolidation",
    "edema": "Pulmonary Edema",
    "pleural effusion": "Pleural Effusion",
    "pneumothorax": "Pneumothorax",
}
DENIED = re.compile(r"\bno\b|without|negative|free|clear|not|possible|may|histor")


def read_picture(source, root, key):
    opened = images.open_image({"source": source, "key": key, "view": ""}, {source: root})
    assert (opened.mode, opened.size) == ("RGB", (W, H))
    return np.asarray(opened)[..., 0]


# --- CheXpert ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def labelled(written):
    """Label rows by split, from the reader."""
    files = chexpert.find_label_files(written["chexpert"])
    return {split: chexpert.read_labels(path, split).to_pylist() for split, path in files.items()}


@pytest.mark.parametrize(
    ("split", "first_patient", "values"), [("train", 1, {1.0, 0.0, -1.0, None}), ("validation", 64541, {1.0, 0.0})]
)
def test_chexpert_rows(labelled, written, split, first_patient, values):
    studies = {}
    for row in labelled[split]:
        assert (written["chexpert"] / "CheXpert-v1.0-small" / row["key"]).is_file()
        assert row["view"] == "lateral" if "lateral" in row["key"] else row["view"] in ("AP", "PA")
        assert (row["No Finding"] == 1.0) == all(row[label] in (0.0, None) for label in chexpert.LABELS[1:-1])
        studies.setdefault(row["study_id"], []).append(row)
    assert {row[label] for row in labelled[split] for label in chexpert.LABELS} == values
    for rows in studies.values():
        assert len({tuple(row[label] for label in chexpert.LABELS) for row in rows}) == 1
        assert [row["view_number"] for row in rows] == list(range(1, len(rows) + 1))
    patients = [int(study.split("/")[0].removeprefix("patient")) for study in studies]
    assert patients == sorted(patients)
    assert patients[0] == first_patient
    patients_by_split = [{row["study_id"].split("/")[0] for row in rows} for rows in labelled.values()]
    assert len(set.union(*patients_by_split)) == sum(map(len, patients_by_split))  # no patient is in both


@pytest.fixture(scope="module")
def frontal(labelled, written):
    """Frontal images with their rows."""
    rows = [row for split in labelled.values() for row in split if row["view"] != "lateral"]
    return [(read_picture("chexpert", written["chexpert"], row["key"]), row) for row in rows]


@pytest.mark.parametrize("finding", TARGETS)
def test_chexpert_images_show_their_labels(frontal, finding):
    column = next(name for name in chexpert.LABELS if name.lower() == finding)
    assert compute_auroc(finding, [picture for picture, _ in frontal], [row[column] == 1.0 for _, row in frontal]) > 0.8


# --- OpenI ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reports(written):
    return openi.read_reports(written["openi"])


@pytest.fixture(scope="module")
def pictured(written, reports):
    """First image of each indexed report, with the report."""
    indexed = [report for report in reports if report.images and "No Indexing" not in report.mesh_major]
    return [(read_picture("openi", written["openi"], report.images[0].key), report) for report in indexed]


def test_openi_has_the_original_s_elements_and_every_kind_of_report(written, reports):
    texts = {path.name: path.read_text(encoding="utf-8") for path in (written["openi"] / "ecgen-radiology").iterdir()}
    for line in ('<uId id="CXR1"', '<AbstractText Label="COMPARISON"', "<MeSH>", "<parentImage id=", "<figureId>F1<"):
        assert line in texts["1.xml"]
    assert any("<major>Technical Quality of Image Unsatisfactory </major>" in text for text in texts.values())
    assert {len(report.images) for report in reports} == {0, 1, 2, 3}
    kinds = Counter((bool(report.findings), bool(report.impression)) for report in reports)
    assert set(kinds) == {(True, True), (False, True), (True, False)}
    majors = Counter(term for report in reports for term in report.mesh_major)
    assert min(majors["normal"], majors["No Indexing"], majors["Technical Quality of Image Unsatisfactory"]) >= 2
    assert any(report.mesh_automatic for report in reports)
    assert [report.uid for report in reports] != [f"CXR{n}" for n in range(1, len(reports) + 1)]  # gaps


def test_openi_states_what_it_indexes(reports):
    for report in reports:
        text = f"{report.findings} {report.impression}".lower()
        stems = {term.split("/")[0] for term in report.mesh_major}
        for finding in (finding for finding, term in MESH.items() if term in stems):
            sentences = [sentence for sentence in text.split(".") if finding in sentence]
            assert sentences
            assert not any(map(DENIED.search, sentences)), report.uid
        if "normal" in stems:
            assert stems <= {"normal", "Technical Quality of Image Unsatisfactory"}


def test_openi_images_are_there_and_some_are_dicom_of_the_drawn_pixels(written, reports, tmp_path):
    refs = [{"source": "openi", "key": image.key, "view": ""} for report in reports for image in report.images]
    kinds = Counter(images.locate(ref, written).suffix for ref in refs)
    assert kinds[".png"] > kinds[".dcm"] >= 8
    assert sum(kinds.values()) == len([p for p in written["openi"].rglob("*") if p.suffix in (".png", ".dcm")])
    pixels = chest.draw_chest(["cardiomegaly"], seed=3)
    for by_table in (True, False):
        phantom_openi._write_dicom(tmp_path / "9_IM-0001-1001.dcm", pixels, "CXR9_IM-0001-1001", by_table=by_table)
        np.testing.assert_array_equal(read_picture("openi", tmp_path, "CXR9_IM-0001-1001.png"), pixels)


@pytest.mark.parametrize("finding", TARGETS)
def test_openi_images_show_what_is_indexed(pictured, finding):
    labels = [any(term.startswith(MESH[finding]) for term in report.mesh_major) for _, report in pictured]
    assert compute_auroc(finding, [picture for picture, _ in pictured], labels) > 0.85


def test_openi_sides_agree_with_the_drawing(pictured):
    """A one-sided effusion whitens the angle on the side that the index names."""
    angles = {"right": make_area(0.13, 0.22, 0.66, 0.74), "left": make_area(0.78, 0.87, 0.66, 0.74)}
    checked = 0
    for picture, report in pictured:
        sides = [term.split("/")[1] for term in report.mesh_major if term.startswith("Pleural Effusion/")]
        if sides:
            opposite_side = "left" if sides[0] == "right" else "right"
            assert picture[angles[sides[0]]].mean() > picture[angles[opposite_side]].mean(), report.uid
            checked += 1
    assert checked >= 5
