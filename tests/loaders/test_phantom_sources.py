"""The phantom on disk: the files are laid out as the originals, and what they say is really in the pictures."""

import csv
import re
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from medfaith.loaders import chexpert, images, openi
from medfaith.loaders.phantom import chest
from medfaith.loaders.phantom import openi as phantom_openi
from tests.loaders.chest_statistics import TARGETS, H, W, area, auroc

# --- writing ----------------------------------------------------------------------------------------------------------


# --- CheXpert ---------------------------------------------------------------------------------------------------------

HEADER = (
    "Path,Sex,Age,Frontal/Lateral,AP/PA,No Finding,Enlarged Cardiomediastinum,Cardiomegaly,Lung Opacity,Lung Lesion,"
    "Edema,Consolidation,Pneumonia,Atelectasis,Pneumothorax,Pleural Effusion,Pleural Other,Fracture,Support Devices"
)


def rows_of(written, split):
    with (written["chexpert"] / "CheXpert-v1.0-small" / f"{split}.csv").open(encoding="utf-8", newline="") as file:
        assert file.readline() == HEADER + "\n"
        return list(csv.DictReader(file, HEADER.split(",")))


def studies_of(rows):
    """{study folder: its rows}."""
    studies = {}
    for row in rows:
        studies.setdefault(row["Path"].rsplit("/", 1)[0], []).append(row)
    return studies


@pytest.mark.parametrize(
    ("split", "first", "values"),
    [("train", 1, {"1.0", "0.0", "-1.0", ""}), ("valid", 64541, {"1.0", "0.0"})],
)
def test_chexpert_rows(written, split, first, values):
    rows = rows_of(written, split)
    labels = HEADER.split(",")[5:]
    assert {row[label] for row in rows for label in labels} == values
    for study, images_of_study in studies_of(rows).items():
        assert len({tuple(row[label] for label in labels) for row in images_of_study}) == 1, study
        numbers = [int(row["Path"].rsplit("/view", 1)[1][0]) for row in images_of_study]
        assert numbers == list(range(1, len(numbers) + 1))
    patients = []
    for row in rows:
        match = re.fullmatch(rf"CheXpert-v1\.0-small/{split}/patient(\d{{5}})/study\d+/view\d_(\w+)\.jpg", row["Path"])
        assert match, row["Path"]
        patients.append(int(match[1]))
        assert row["Frontal/Lateral"] == match[2].capitalize()
        assert row["AP/PA"] in ({"AP", "PA"} if match[2] == "frontal" else {""})
        assert 0 <= int(row["Age"]) <= 90
        assert row["Sex"] in {"Female", "Male", "Unknown"}
        with Image.open(written["chexpert"] / row["Path"]) as picture:
            assert (picture.format, picture.mode, picture.size) == ("JPEG", "L", (W, H))
        healthy = all(row[label] not in ("1.0", "-1.0") for label in labels[1:-1])
        assert (row["No Finding"] == "1.0") == healthy
    assert patients[0] == first
    assert patients == sorted(patients)
    assert len(rows) == len(list((written["chexpert"] / "CheXpert-v1.0-small" / split).rglob("*.jpg")))


@pytest.mark.parametrize(("split", "file"), [("train", "train"), ("validation", "valid")])
def test_chexpert_is_what_the_reader_reads(written, split, file):
    root = written["chexpert"]
    table = chexpert.read_labels(chexpert.label_files(root)[split], split)
    rows = rows_of(written, file)
    assert ["CheXpert-v1.0-small/" + key for key in table["key"].to_pylist()] == [row["Path"] for row in rows]
    ref = {"source": "chexpert", "key": table["key"][0].as_py(), "view": "AP"}
    assert images.open_image(ref, {"chexpert": root}).size == (W, H)


@pytest.mark.parametrize("finding", TARGETS)
def test_chexpert_images_show_their_labels(written, finding):
    column = next(name for name in HEADER.split(",") if name.lower() == finding)
    frontal = [r for split in ("train", "valid") for r in rows_of(written, split) if r["Frontal/Lateral"] == "Frontal"]
    roots = {"chexpert": written["chexpert"]}
    pictures = [
        np.asarray(images.open_image({"source": "chexpert", "key": row["Path"].split("/", 1)[1], "view": ""}, roots))[
            ..., 0
        ]
        for row in frontal
    ]
    assert auroc(finding, pictures, [row[column] == "1.0" for row in frontal]) > 0.8


# --- OpenI ------------------------------------------------------------------------------------------------------------

MESH = {
    "atelectasis": "Pulmonary Atelectasis",
    "cardiomegaly": "Cardiomegaly",
    "consolidation": "Consolidation",
    "edema": "Pulmonary Edema",
    "pleural effusion": "Pleural Effusion",
    "pneumothorax": "Pneumothorax",
}


@pytest.fixture(scope="module")
def reports(written):
    return openi.read_reports(written["openi"])


def test_openi_xml_has_the_original_s_elements(written):
    text = (written["openi"] / "ecgen-radiology" / "1.xml").read_text(encoding="utf-8")
    for line in ('<uId id="CXR1"', '<AbstractText Label="COMPARISON"', "<MeSH>", "<parentImage id=", "<figureId>F1<"):
        assert line in text
    assert any(
        "<major>Technical Quality of Image Unsatisfactory </major>" in path.read_text(encoding="utf-8")
        for path in (written["openi"] / "ecgen-radiology").iterdir()
    )


def test_openi_states_what_it_indexes(reports):
    for report in reports:
        text = (report.findings + " " + report.impression).lower()
        stems = {term.split("/")[0] for term in report.mesh_major}
        for finding, term in MESH.items():
            if term in stems:
                sentences = [s for s in text.split(".") if finding in s]
                assert sentences
                negated = [
                    s for s in sentences if re.search(r"\bno\b|without|negative|free|clear|not|possible|may|histor", s)
                ]
                assert not negated, report.uid
        if "normal" in stems:
            assert stems <= {"normal", "Technical Quality of Image Unsatisfactory"}


def test_openi_images_are_there_and_some_are_dicom(written, reports):
    roots = {"openi": written["openi"]}
    kinds = Counter()
    for report in reports:
        for image in report.images:
            ref = {"source": "openi", "key": image.key, "view": image.view}
            kinds[images.locate(ref, roots).suffix] += 1
            opened = images.open_image(ref, roots)
            assert (opened.mode, opened.size) == ("RGB", (W, H))
    assert kinds[".png"] > kinds[".dcm"] >= 8
    assert sum(kinds.values()) == len([p for p in written["openi"].rglob("*") if p.suffix in (".png", ".dcm")])


@pytest.mark.parametrize("by_table", [True, False])
def test_openi_dicom_shows_the_drawn_pixels(tmp_path, by_table):
    pixels = chest.draw_chest(["cardiomegaly"], seed=3)
    phantom_openi._write_dicom(tmp_path / "9_IM-0001-1001.dcm", pixels, "CXR9_IM-0001-1001", by_table=by_table)
    ref = {"source": "openi", "key": "CXR9_IM-0001-1001.png", "view": ""}
    shown = np.asarray(images.open_image(ref, {"openi": tmp_path}))[..., 0]
    np.testing.assert_array_equal(shown, pixels)


@pytest.mark.parametrize("finding", TARGETS)
def test_openi_images_show_what_is_indexed(written, reports, finding):
    pictures, labels = [], []
    for report in reports:
        if not report.images or "No Indexing" in report.mesh_major:
            continue
        ref = {"source": "openi", "key": report.images[0].key, "view": ""}
        pictures.append(np.asarray(images.open_image(ref, {"openi": written["openi"]}))[..., 0])
        labels.append(any(term.startswith(MESH[finding]) for term in report.mesh_major))
    assert auroc(finding, pictures, labels) > 0.85


def test_openi_sides_agree_with_the_drawing(written, reports):
    """A one-sided effusion whitens the angle on the side that the index names."""
    angles = {"right": area(0.13, 0.22, 0.66, 0.74), "left": area(0.78, 0.87, 0.66, 0.74)}
    checked = 0
    for report in reports:
        sides = [term.split("/")[1] for term in report.mesh_major if term.startswith("Pleural Effusion/")]
        if report.images and sides:
            ref = {"source": "openi", "key": report.images[0].key, "view": ""}
            pixels = np.asarray(images.open_image(ref, {"openi": written["openi"]}))[..., 0]
            other = "left" if sides[0] == "right" else "right"
            assert pixels[angles[sides[0]]].mean() > pixels[angles[other]].mean(), report.uid
            checked += 1
    assert checked >= 5
