"""The phantom of MIMIC-CXR: tables, images, reports, masks and detections tell of the same findings."""

import csv
import gzip
import io
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pycocotools import mask as coco
from scipy.ndimage import binary_dilation, binary_erosion

from medfaith.loaders.phantom import cases, chest, mimic_cxr, mimic_cxr_reports

IOU: Any = coco.iou  # its stubs know neither lists of boxes nor the array it returns
SEED = 0
NAMED_WITH_THEIR_ZONE = {"Consolidation", "Lung Opacity", "Nodule/Mass", "Emphysema"}
CLASSES = (
    "Aortic enlargement,Atelectasis,Calcification,Cardiomegaly,Clavicle fracture,Consolidation,Edema,Emphysema,"
    "Enlarged PA,ILD,Infiltration,Lung Opacity,Lung cavity,Lung cyst,Mediastinal shift,Nodule/Mass,Pleural effusion,"
    "Pleural thickening,Pneumothorax,Pulmonary fibrosis,Rib fracture,Other lesion"
)


@pytest.fixture(scope="module")
def studies():
    return mimic_cxr_reports.studies(SEED)


def mimic_table(written, name):
    """(header line, rows as dicts) of one of the tables."""
    packed = (written["mimic_cxr"] / f"mimic-cxr-2.0.0-{name}.csv.gz").read_bytes()
    text = gzip.decompress(packed).decode()
    return text.split("\n", 1)[0], list(csv.DictReader(io.StringIO(text)))


FOURTEEN = (
    "Atelectasis,Cardiomegaly,Consolidation,Edema,Enlarged Cardiomediastinum,Fracture,Lung Lesion,Lung Opacity,"
    "No Finding,Pleural Effusion,Pleural Other,Pneumonia,Pneumothorax,Support Devices"
)


def test_mimic_tables_name_the_images_that_are_there(written):
    root = written["mimic_cxr"]
    _, metadata = mimic_table(written, "metadata")
    expected = set()
    for row in metadata:
        subject, study = row["subject_id"], row["study_id"]
        assert re.fullmatch(r"1\d{7}", subject)
        assert re.fullmatch(r"5\d{7}", study)
        assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{8}){4}", row["dicom_id"])
        path = root / "files" / f"p{subject[:2]}" / f"p{subject}" / f"s{study}" / f"{row['dicom_id']}.jpg"
        expected.add(path)
        with Image.open(path) as picture:
            assert (picture.format, picture.mode) == ("JPEG", "L")
            assert picture.size == (int(row["Columns"]), int(row["Rows"]))
    assert expected == set(root.rglob("*.jpg"))
    views = Counter(row["ViewPosition"] for row in metadata)
    assert set(views) == {"AP", "PA", "LATERAL", "LL"}
    assert views["LATERAL"] + views["LL"] < views["AP"] + views["PA"]
    by_study = Counter(row["study_id"] for row in metadata)
    assert set(by_study.values()) == {1, 2}
    assert any({r["ViewPosition"] for r in metadata if r["study_id"] == study} == {"LATERAL"} for study in by_study)


def test_mimic_splits_keep_patients_apart(written):
    _, rows = mimic_table(written, "split")
    splits = {}
    for row in rows:
        splits.setdefault(row["subject_id"], set()).add(row["split"])
    assert all(len(names) == 1 for names in splits.values())
    assert set().union(*splits.values()) == {"train", "validate", "test"}
    assert Counter(row["split"] for row in rows)["test"] >= 12
    _, metadata = mimic_table(written, "metadata")
    key = [(row["dicom_id"], row["study_id"], row["subject_id"]) for row in rows]
    assert key == [(row["dicom_id"], row["study_id"], row["subject_id"]) for row in metadata]


# What a report calls a label of the table; written by hand and not taken from the phantom.
WORDS = {
    "Atelectasis": "atelectasis",
    "Cardiomegaly": "cardiomegaly",
    "Consolidation": "consolidation",
    "Fracture": "rib fracture",
    "Lung Lesion": "mass",
    "Lung Opacity": "lung opacity",
    "Pleural Effusion": "pleural effusion",
    "Pleural Other": "pleural thickening",
    "Pneumothorax": "pneumothorax",
}
KINDS = {"1.0": "stated", "0.0": "denied", "-1.0": "doubted"}


def body(text):
    """FINDINGS and IMPRESSION of a report in one line, in small letters."""
    return " ".join(re.sub(r"(?s).*?(FINDINGS|IMPRESSION):", "", text, count=1).split()).lower()


def mentions(text, word):
    kinds = set()
    for sentence in text.split("."):
        if re.search(rf"\b{word}\b", sentence):
            if re.search(r"possible|excluded", sentence):
                kinds.add("doubted")
            else:
                kinds.add("denied" if re.search(r"\bno\b|free of|neither", sentence) else "stated")
    return kinds


@pytest.mark.parametrize("labeler", ["chexpert", "negbio"])
def test_mimic_labels_are_what_the_reports_say(written, labeler):
    _, rows = mimic_table(written, labeler)
    seen = Counter()
    for row in rows:
        (path,) = (written["mimic_cxr"] / "files").glob(f"*/*/s{row['study_id']}.txt")
        text = body(path.read_text(encoding="utf-8"))
        for label in FOURTEEN.split(","):
            value, said = row[label], mentions(text, WORDS.get(label, "no such word"))
            if value and label != "No Finding":
                assert said == {KINDS[value]}, (path, label)
                seen[value] += 1
            elif labeler == "chexpert":
                assert not said, (path, label)
        assert not (row["No Finding"] and any(row[label] in ("1.0", "-1.0") for label in WORDS))
    assert set(seen) == {"1.0", "0.0", "-1.0"}


def test_mimic_reports_state_all_that_is_drawn_and_where(written, studies):
    for study in studies:
        path = written["mimic_cxr"] / f"{study.folder}.txt"
        if not path.exists():
            continue
        text = body(path.read_text(encoding="utf-8"))
        for finding in study.findings:
            side, *rest = finding.anatomies[0].split()
            if finding.label in NAMED_WITH_THEIR_ZONE:
                assert f"{side} {' '.join(rest)}" in text
            elif rest:
                assert re.search(rf"\b{side}\b", text)


def test_mimic_has_a_study_without_report_and_a_report_without_findings(written, studies):
    root = written["mimic_cxr"]
    lacking = [study for study in studies if not (root / f"{study.folder}.txt").exists()]
    assert len(lacking) == 1
    assert lacking[0].findings
    assert str(lacking[0].id) not in {row["study_id"] for row in mimic_table(written, "chexpert")[1]}
    texts = [path.read_text(encoding="utf-8") for path in root.rglob("*.txt")]
    assert len(texts) == len(studies) - 1
    assert sum("FINDINGS:" not in text for text in texts) == 1
    assert all("IMPRESSION:" in text and "INDICATION:" in text for text in texts)
    assert max(len(line) for text in texts for line in text.splitlines()) <= 80


def test_mimic_reports_alone_are_those_beside_the_images(written):
    alone, beside = (
        {path.relative_to(written[name]): path.read_bytes() for path in written[name].rglob("*.txt")}
        for name in ("mimic_cxr_reports", "mimic_cxr")
    )
    assert alone == beside
    assert all(path.suffix == ".txt" for path in written["mimic_cxr_reports"].rglob("*") if path.is_file())


# --- masks and detections -----------------------------------------------------------------------------------------


def test_mimic_masks_are_laid_out_as_cxas_writes_them(written):
    root, frontal = written["mimic_cxr_anatomy"], [image for _, image in mimic_cxr.frontal_images(SEED)]
    labels = {"right lung", "left lung", "heart", "aorta", "trachea"}
    lacking, empty = [], []
    for number, image in enumerate(frontal):
        folder = root / image.name
        if not folder.exists():
            lacking.append(number)
            continue
        assert {path.stem for path in folder.iterdir()} == labels
        own = chest.chest(image.drawn, seed=image.seed, size=image.size)
        for path in sorted(folder.iterdir()):
            with Image.open(path) as picture:
                assert (picture.format, picture.mode, picture.size) == ("PNG", "1", (512, 512))
                mask = np.asarray(picture.resize(image.size[::-1]))
            if not mask.any():
                empty.append((number, path.stem))
            else:  # at the image's size it is the drawn region, but for its rim
                region = own.regions[path.stem]
                assert np.asarray(binary_dilation(region, np.ones((3, 3))))[mask].all()
                assert mask[np.asarray(binary_erosion(region, np.ones((3, 3))), bool)].all()
    assert len(list(root.iterdir())) == len(frontal) - 1
    assert lacking == [2]
    assert empty == [(5, "trachea")]


def test_mimic_detections_are_the_drawn_findings_and_some_that_reports_deny(written, studies):
    root = written["mimic_cxr_detections"]
    names = (root / "classes.txt").read_text(encoding="utf-8").split("\n")[:-1]
    assert names == CLASSES.split(",")
    frontal = {image.name: (study, image) for study, image in mimic_cxr.frontal_images(SEED)}
    unknown, true, false = [], [], []
    for path in root.glob("*-*.txt"):
        if path.stem not in frontal:
            unknown.append(path.stem)
            continue
        study, image = frontal[path.stem]
        height, width = image.size
        picture = chest.chest(image.drawn, seed=image.seed, size=image.size)
        expected = cases.boxes(study.findings, picture)
        lines = path.read_text(encoding="utf-8").splitlines()
        for line in lines:
            code, cx, cy, w, h, score = (float(field) for field in line.split())
            assert min(cx - w / 2, cy - h / 2) > -1e-5
            assert max(cx + w / 2, cy + h / 2) < 1 + 1e-5
            box = [(cx - w / 2) * width, (cy - h / 2) * height, w * width, h * height]
            if any(label == names[int(code)] and IOU([box], [list(xywh)], [0])[0, 0] > 0.6 for label, xywh in expected):
                true.append(score)
            else:
                false.append(score)
                assert names[int(code)] in study.denied
        assert len(lines) >= len(expected)
    n_drawn = sum(len(study.findings) for study, _ in frontal.values())
    assert len(true) == n_drawn
    assert 1 <= sum(score < 0.25 for score in true) < 0.25 * n_drawn
    assert sum(score >= 0.25 for score in false) >= 8
    assert sum(score < 0.25 for score in false) >= 5
    assert unknown == ["-".join(["f" * 8] * 5)]
