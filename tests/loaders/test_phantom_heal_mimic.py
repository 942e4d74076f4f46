"""The phantom of MIMIC-CXR: tables, images, reports, masks and detections agree on the findings."""

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pycocotools import mask as coco
from scipy.ndimage import binary_dilation, binary_erosion

from medfaith.loaders import mimic_cxr as readers
from medfaith.loaders.phantom import cases, chest, mimic_cxr, mimic_cxr_reports
from medfaith.loaders.vindr_cxr import CLASSES
from tests.support.tiers import choose_size

IOU: Any = coco.iou  # its stubs know neither lists of boxes nor the array it returns
SEED = 0
NAMED_WITH_THEIR_ZONE = {"Consolidation", "Lung Opacity", "Nodule/Mass", "Emphysema"}


@pytest.fixture(scope="module")
def studies():
    return mimic_cxr_reports.studies(SEED)


def test_mimic_tables_name_the_images_that_are_there(written):
    root = written["mimic_cxr"]
    table = readers.read_images(root, views=None).to_pylist()
    assert {root / row["key"] for row in table} == set(root.rglob("*.jpg"))
    for row in table:
        with Image.open(root / row["key"]) as picture:
            assert (picture.format, picture.mode, picture.size) == ("JPEG", "L", (row["width"], row["height"]))
    views = Counter(row["view"] for row in table)
    assert set(views) == {"AP", "PA", "LATERAL", "LL"}
    assert views["LATERAL"] + views["LL"] < views["AP"] + views["PA"]
    by_study, splits = {}, {}
    for row in table:
        by_study.setdefault(row["study_id"], []).append(row["view"])
        splits.setdefault(row["subject_id"], set()).add(row["split"])
    assert set(map(len, by_study.values())) == {1, 2}
    assert ["LATERAL"] in by_study.values()
    assert set(map(len, splits.values())) == {1}  # each patient is in one split
    assert set().union(*splits.values()) == {"train", "validation", "test"}


# Report phrase of each label of the table; written by hand, independent of the phantom.
WORDS = {
    **{name: name.lower() for name in (
        "Atelectasis", "Cardiomegaly", "Consolidation", "Lung Opacity", "Pleural Effusion", "Pneumothorax")},
    "Fracture": "rib fracture", "Lung Lesion": "mass", "Pleural Other": "pleural thickening",
}  # fmt: skip
KINDS = {1.0: "stated", 0.0: "denied", -1.0: "doubted"}


def read_body(text):
    """Return FINDINGS and IMPRESSION of a report in one line of lower-case letters."""
    return " ".join(re.sub(r"(?s).*?(FINDINGS|IMPRESSION):", "", text, count=1).split()).lower()


def find_mention_kinds(text, word):
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
    value_counts = Counter()
    for row in readers.read_labels(written["mimic_cxr"], labeler).to_pylist():
        (path,) = (written["mimic_cxr"] / "files").glob(f"*/*/s{row['study_id']}.txt")
        text = read_body(path.read_text(encoding="utf-8"))
        for label in readers.LABELS:
            value, mention_kinds = row[label], find_mention_kinds(text, WORDS.get(label, "no such word"))
            if value is not None and label != "No Finding":
                assert mention_kinds == {KINDS[value]}, (path, label)
                value_counts[value] += 1
            elif labeler == "chexpert":
                assert not mention_kinds, (path, label)
        assert not (row["No Finding"] and any(row[label] in (1.0, -1.0) for label in WORDS))
    assert set(value_counts) == set(KINDS)


def test_mimic_reports_state_all_that_is_drawn_and_where_and_one_study_has_none(written, studies):
    root = written["mimic_cxr"]
    lacking = [study for study in studies if not (root / f"{study.folder}.txt").exists()]
    for study in studies:
        text = "" if study in lacking else read_body((root / f"{study.folder}.txt").read_text(encoding="utf-8"))
        for finding in study.findings if text else ():
            side, *region_words = finding.anatomies[0].split()
            if finding.label in NAMED_WITH_THEIR_ZONE:
                assert f"{side} {' '.join(region_words)}" in text
            elif region_words:
                assert re.search(rf"\b{side}\b", text)
    assert len(lacking) == 1
    assert lacking[0].findings
    assert str(lacking[0].id) not in readers.read_labels(written["mimic_cxr"])["study_id"].to_pylist()
    texts = [path.read_text(encoding="utf-8") for path in root.rglob("*.txt")]
    assert len(texts) == len(studies) - 1
    assert sum("FINDINGS:" not in text for text in texts) == 1
    assert all("IMPRESSION:" in text and "INDICATION:" in text for text in texts)
    assert max(len(line) for text in texts for line in text.splitlines()) <= 80
    reports_only, reports_with_images = (
        {path.relative_to(written[name]): path.read_bytes() for path in written[name].rglob("*.txt")}
        for name in ("mimic_cxr_reports", "mimic_cxr")
    )
    assert reports_only == reports_with_images  # also in the source that has only reports
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
        is_compared = number % choose_size(5, 1) == 0
        outline = chest.outline(image.drawn, seed=image.seed, size=image.size) if is_compared else None
        for path in sorted(folder.iterdir()):
            with Image.open(path) as picture:
                assert (picture.format, picture.mode, picture.size) == ("PNG", "1", (512, 512))
                mask = np.asarray(picture.resize(image.size[::-1]))
            if not mask.any():
                empty.append((number, path.stem))
            elif outline is not None:  # at the image's size it is the drawn region, except for its border
                region = outline.regions[path.stem]
                assert np.asarray(binary_dilation(region, np.ones((3, 3))))[mask].all()
                assert mask[np.asarray(binary_erosion(region, np.ones((3, 3))), bool)].all()
    assert len(list(root.iterdir())) == len(frontal) - 1
    assert lacking == [2]
    assert empty == [(5, "trachea")]


def test_mimic_detections_are_the_drawn_findings_and_some_that_reports_deny(written, studies):
    root = written["mimic_cxr_detections"]
    names = (root / "classes.txt").read_text(encoding="utf-8").split("\n")[:-1]
    assert names == list(CLASSES)
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
