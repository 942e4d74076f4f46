"""The phantom on disk: the files are laid out as the originals, and what they say is really in the pictures."""

import csv
import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from medfaith.loaders import chexpert, images, openi, phantom
from medfaith.loaders.errors import InputError
from medfaith.loaders.phantom import chest
from medfaith.loaders.phantom import chexpert as phantom_chexpert
from medfaith.loaders.phantom import openi as phantom_openi
from tests.loaders.chest_statistics import TARGETS, H, W, area, auroc

# --- writing ----------------------------------------------------------------------------------------------------------


def digest(root):
    """{relative path: sha256} of all files below a folder."""
    files = sorted(path for path in Path(root).rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return phantom.write(tmp_path_factory.mktemp("phantom"), seed=0)


def test_write_returns_the_roots_and_stays_small(written):
    assert set(written) == set(phantom.SOURCES)
    sizes = {
        source: sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
        for source, root in written.items()
    }
    assert sizes["chexpert"] + sizes["openi"] < 5_000_000
    assert max(size for source, size in sizes.items() if source != "openi") < 2_500_000


SMALL = """
import sys; from pathlib import Path
from medfaith.loaders.phantom import chexpert, openi
chexpert.write(Path(sys.argv[1]), seed=3, n_train=4, n_valid=3)
openi.write(Path(sys.argv[1]), seed=3, n=4)
"""


def write_small(root, seed):
    phantom_chexpert.write(root, seed=seed, n_train=4, n_valid=3)
    phantom_openi.write(root, seed=seed, n=4)
    return digest(root)


def test_the_same_seed_gives_the_same_bytes_in_any_process(tmp_path):
    here, other = write_small(tmp_path / "here", 3), write_small(tmp_path / "other", 4)
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    subprocess.run([sys.executable, "-c", SMALL, str(tmp_path / "there")], check=True, env=environment)
    assert here == digest(tmp_path / "there")
    assert any(name.endswith(".dcm") for name in here)
    assert set(here.values()).isdisjoint(other.values())


def test_write_refuses_what_it_cannot_do_before_it_writes(tmp_path):
    (tmp_path / "openi").mkdir()
    (tmp_path / "openi" / "mine.txt").touch()
    with pytest.raises(InputError, match="not an empty folder"):
        phantom.write(tmp_path)
    with pytest.raises(InputError, match="no phantom"):
        phantom.write(tmp_path, sources=["chexpert", "no_such_source"])
    assert not (tmp_path / "chexpert").exists()


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


def test_chexpert_has_several_studies_and_views(written):
    studies = studies_of(rows_of(written, "train"))
    assert set(Counter(len(rows) for rows in studies.values())) == {1, 2, 3}
    assert max(Counter(study.rsplit("/", 1)[0] for study in studies).values()) == 3
    assert [*studies] != sorted(studies)  # as in the original, a patient's studies are not always in order


@pytest.mark.parametrize("split", ["train", "valid"])
def test_chexpert_feeds_every_configuration(written, split):
    """CXR-ContraBench's three protocols, counted by hand: presence, absence, positive-only."""
    counts = Counter()
    for rows in studies_of(rows_of(written, split)).values():
        labels = {name: next(v for k, v in rows[0].items() if k.lower() == name) for name in TARGETS}
        positive = [name for name in TARGETS if labels[name] == "1.0"]
        negative = [name for name in TARGETS if labels[name] == "0.0"]
        if len(positive) >= 2:
            counts["presence"] += len(positive)
            counts["positive only"] += len(positive) * (len(negative) >= 2)
        if positive:
            counts["absence"] += len(negative)
        counts.update(positive)
    assert min(counts[name] for name in ("presence", "positive only", "absence")) >= 15
    assert min(counts[name] for name in TARGETS) >= 5


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


def test_openi_has_every_kind_of_report(reports):
    assert {len(report.images) for report in reports} == {0, 1, 2, 3}
    assert any(not report.findings for report in reports)
    assert any(not report.impression for report in reports)
    assert all(report.findings or report.impression for report in reports)
    majors = Counter(term for report in reports for term in report.mesh_major)
    assert min(majors["normal"], majors["No Indexing"], majors["Technical Quality of Image Unsatisfactory"]) >= 2
    assert any(report.mesh_automatic for report in reports)
    numbers = [int(report.uid.removeprefix("CXR")) for report in reports]
    assert numbers != list(range(1, len(reports) + 1))  # gaps, as in the original
    assert [image.key for image in reports[0].images] == ["CXR1_1_IM-0001-3001.png", "CXR1_1_IM-0001-4001.png"]


def test_openi_xml_has_the_original_s_elements(written):
    text = (written["openi"] / "ecgen-radiology" / "1.xml").read_text(encoding="utf-8")
    for line in ('<uId id="CXR1"', '<AbstractText Label="COMPARISON"', "<MeSH>", "<parentImage id=", "<figureId>F1<"):
        assert line in text
    assert any(
        "<major>Technical Quality of Image Unsatisfactory </major>" in path.read_text(encoding="utf-8")
        for path in (written["openi"] / "ecgen-radiology").iterdir()
    )


@pytest.mark.parametrize(
    "cue",
    [
        r"No \w", "no evidence of", "without", "negative for", "free of", "clear of", "is not seen", r"No [\w ]+ or \w",
        r"Neither [\w ]+ nor", r"no [\w ]+, [\w ]+ or \w", "Possible|cannot be excluded|may represent",
        "History of|in the past",
    ],
)  # fmt: skip
def test_openi_mentions_come_in_many_forms(reports, cue):
    assert sum(bool(re.search(cue, report.findings + " " + report.impression)) for report in reports) >= 2


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


def test_a_larger_collection_can_be_asked_for(tmp_path):
    phantom_chexpert.write(tmp_path / "chexpert", seed=1, n_train=3, n_valid=1)
    assert set(chexpert.label_files(tmp_path / "chexpert")) == {"train", "validation"}
    phantom_openi.write(tmp_path / "openi", seed=1, n=3)
    assert [report.uid for report in openi.read_reports(tmp_path / "openi")] == ["CXR1", "CXR2", "CXR3"]
