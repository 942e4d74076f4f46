"""The phantom of Chest ImaGenome: its rows say what the reports say, and its boxes lie around what is drawn."""

import csv
import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from itertools import pairwise

import numpy as np
import pytest

from medfaith.loaders import chest_imagenome, chest_imagenome_silver, mimic_cxr, phantom, sources
from medfaith.loaders.phantom import chest, mimic_cxr_reports
from medfaith.loaders.phantom import chest_imagenome as phantom_imagenome

SEED = 0
SPLITS = ("train", "validation", "test")
FRONTAL = ("AP", "PA")


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    return phantom.write(tmp_path_factory.mktemp("phantom"), seed=SEED, sources=("mimic_cxr", "chest_imagenome"))


@pytest.fixture(scope="module")
def gold(roots):
    return chest_imagenome.read_gold(roots["chest_imagenome"])


@pytest.fixture(scope="module")
def frontal(roots):
    """The frontal images as MIMIC-CXR-JPG's own tables have them, by id."""
    return {row["dicom_id"]: row for row in mimic_cxr.read_images(roots["mimic_cxr"]).to_pylist()}


@pytest.fixture(scope="module")
def drawn():
    """What every frontal image shows, by id: (its study, the chest)."""
    images = [(s, image) for s in mimic_cxr_reports.studies(SEED) for view, image in s.images if view in FRONTAL]
    return {i.name: (s, chest.chest(i.drawn, seed=i.seed, size=i.size)) for s, i in images}


def rows_of(root, name):
    """(header, rows as dicts) of a file of the gold dataset."""
    path = root / "gold_dataset" / name
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, delimiter="\t" if path.suffix == ".txt" else ",")
        return reader.fieldnames, list(reader)


@pytest.mark.parametrize(
    ("name", "header"),
    [
        (
            "gold_object_attribute_with_coordinates.txt",
            "patient_id,study_id,image_id,row_id,sentence,bbox,relation,label_name,categoryID,context,coord_original,"
            "coord224",
        ),
        (
            "gold_bbox_coordinate_annotations_1000images.csv",
            "image_id,x1,y1,x2,y2,width,height,bbox_name,annot_id,original_x1,original_x2,original_y1,original_y2,"
            "original_width,original_height,annotator,coord224,coord_original",
        ),
        ("gold_bbox_scaling_factors_original_to_224x224.csv", "image_id,top,bottom,left,right,ratio"),
        ("gold_all_sentences_500pts_1000studies.txt", "patient_id,study_id,image_id,row_id,sentence"),
        (
            "gold_attributes_relations_500pts_500studies1st.txt",
            "patient_id,study_id,image_id,row_id,sentence,bbox,relation,label_name,categoryID,context",
        ),
        (
            "gold_object_comparison_with_coordinates.txt",
            "patient_id,relationship_id,subject_id,object_id,bbox,comparison,attribute,sentence,bbox_coord_224_subject,"
            "bbox_coord_224_object,bbox_coord_original_subject,bbox_coord_original_object,label_name,current_image_id,"
            "previous_image_id",
        ),
        (
            "auto_bbox_pipeline_coordinates_1000_images.txt",
            "image_id,bbox_name,original_x1,original_y1,original_x2,original_y2",
        ),
    ],
)
def test_files_have_the_official_headers(roots, name, header):
    columns, rows = rows_of(roots["chest_imagenome"], name)
    assert columns == header.split(",")
    assert rows
    assert all(row["image_id"].endswith(".dcm") for row in rows if "image_id" in row)


def test_it_is_complete_and_small(roots):
    assert sources.status("chest_imagenome", roots).state == "found"
    root = roots["chest_imagenome"]
    assert set(chest_imagenome.label_files(root)) == set(chest_imagenome.FILES)
    assert sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) < 500_000


SCRIPT = """
import sys; from pathlib import Path
from medfaith.loaders.phantom import chest_imagenome
chest_imagenome.write(Path(sys.argv[1]), seed=int(sys.argv[2]), n=6)
"""


def digest(root):
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_same_seed_gives_the_same_bytes_in_any_process(tmp_path):
    for folder, seed in (("there", 3), ("other", 4)):
        environment = {**os.environ, "PYTHONHASHSEED": "12345"}
        subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path / folder), str(seed)], check=True, env=environment)
    here = digest(phantom_imagenome.write(tmp_path / "here", seed=3, n=6))
    assert here == digest(tmp_path / "there")
    other = digest(tmp_path / "other")
    assert all(here[name] != other[name] for name in here if "gold" in name or name.endswith(".zip"))


# --- what the rows say ------------------------------------------------------------------------------------------------

# ImaGenome's name and the anatomy of each word of a report; written by hand and not taken from the phantom.
LUNG, ANGLE = "{} lung", "{} costophrenic angle"
WORDS = {
    "aortic enlargement": ("tortuous aorta", ["aortic arch"]),
    "atelectasis": ("atelectasis", [LUNG]),
    "calcification": ("vascular calcification", ["aortic arch"]),
    "cardiomegaly": ("enlarged cardiac silhouette", ["cardiac silhouette"]),
    "consolidation": ("consolidation", [LUNG]),
    "emphysema": ("copd/emphysema", [LUNG]),
    "lung opacity": ("lung opacity", [LUNG]),
    "mass": ("mass/nodule (not otherwise specified)", [LUNG]),
    "pleural effusion": ("pleural effusion", [LUNG, ANGLE]),
    "pleural thickening": ("pleural/parenchymal scarring", [LUNG]),
    "pneumothorax": ("pneumothorax", [LUNG]),
    "trachea is narrowed": ("abnormal", ["trachea"]),
    "narrows the trachea": ("abnormal", ["trachea"]),
}
ZONES = {"upper": "upper", "middle": "mid", "lower": "lower", "base": "lower"}
NORMAL = {"trachea runs in the midline": "trachea", "mediastinal contours are smooth": "mediastinum"}


def expected(text):
    """{(anatomy, label, context)} that a sentence of a report stands for, by its words."""
    text = text.lower()
    said = {(place, "normal", "yes") for words, place in NORMAL.items() if words in text}
    context = "no" if re.search(r"\bno\b|neither|free of", text) else "yes"
    sides = re.findall(r"\b(left|right)\b", text)[:1] or ["left", "right"]
    zone = re.search(r"(?:left|right) (upper|middle|lower) lung|(left|right) base", text)
    for words, (label, places) in WORDS.items():
        if re.search(rf"\b{words}\b", text):
            named = [place.format(side) for place in places for side in sides]
            if zone:
                named.append(f"{sides[0]} {ZONES[zone[1] or 'base']} lung zone")
            said |= {(place, label, context) for place in named}
            said |= {(place, "abnormal", "yes") for place in named if context == "yes"}
    return said


def report_sentences(roots, image):
    """The sentences of the report of an image, as its text file has them, numbered from 1."""
    path = roots["mimic_cxr"] / image["key"].rsplit("/", 1)[0]
    text = path.with_suffix(".txt").read_text(encoding="utf-8")
    told = re.split(r"(?:FINDINGS|IMPRESSION):", text)[1:]
    sentences = [one for part in told for one in re.split(r"(?<=\.)\s+", " ".join(part.split())) if one]
    return dict(enumerate(sentences, start=1))


def said_by(sentence):
    return {(mention.box, mention.label, mention.context) for mention in sentence.mentions}


def check_against_report(sentences, report, image):
    """The sentences of one image are those of its report that name something with a box."""
    numbers = [int(one.id.split("|")[1]) for one in sentences]
    assert all(before < after for before, after in pairwise(numbers))
    for number, one in zip(numbers, sentences, strict=True):
        assert one.id == f"{image['study_id']}|{number}"
        assert (one.patient_id, one.study_id) == (image["subject_id"], image["study_id"])
        assert one.sentence == report[number]
        assert said_by(one) == expected(one.sentence), one.sentence
        assert len(one.mentions) == len(said_by(one))
        assert set(one.boxes) == {mention.box for mention in one.mentions}
    assert {number for number in report if expected(report[number])} == set(numbers)


def by_image(sentences):
    images = {}
    for sentence in sentences:
        images.setdefault(sentence.image_id, []).append(sentence)
    return images


def test_gold_rows_say_what_the_reports_say(roots, gold, frontal):
    images = by_image(gold)
    assert (len(images), len(gold)) == (31, 138)
    gaps = 0
    for image, sentences in images.items():
        report = report_sentences(roots, frontal[image])
        check_against_report(sentences, report, frontal[image])
        gaps += len(report) - len(sentences)
    assert gaps >= 20  # soft tissues, ribs and impressions without a finding have no box
    assert {mention.relation == (mention.context == "yes") for one in gold for mention in one.mentions} == {True}
    labels = {(mention.label, mention.context) for one in gold for mention in one.mentions}
    assert {label for label, context in labels if context == "yes"} > {"normal", "abnormal", "pleural effusion"}
    assert {"no", "yes"} == {context for label, context in labels if label == "pneumothorax"}


def test_gold_feeds_every_subset(gold):
    """The published subsets: abnormal sentences, one lung only; the lungs of both sides; several sentences a report."""
    lungs = [{"left lung", "right lung"} & set(one.boxes) for one in gold]
    assert sum(any(m.label == "abnormal" for m in one.mentions) for one in gold) >= 40
    assert min(sum(names == {f"{side} lung"} for names in lungs) for side in ("left", "right")) >= 10
    assert sum(len(names) == 2 for names in lungs) >= 30
    assert min(len(sentences) for sentences in by_image(gold).values()) >= 2


def test_all_sentences_are_the_reports_sentences(roots, gold, frontal):
    told = {}
    for row in chest_imagenome.read_all_sentences(roots["chest_imagenome"]).to_pylist():
        told.setdefault(row["image_id"], {})[int(row["row_id"].split("|")[1])] = row["sentence"]
    assert told == {image: report_sentences(roots, frontal[image]) for image in by_image(gold)}


def test_attributes_are_gold_and_what_has_no_box(roots, gold, frontal):
    found = {}
    for row in chest_imagenome.read_attributes(roots["chest_imagenome"]).to_pylist():
        assert (row["patient_id"], row["study_id"]) == tuple(
            frontal[row["image_id"]][name] for name in ("subject_id", "study_id")
        )
        assert row["relation"] == ("1" if row["context"] == "yes" else "0")
        said = (row["row_id"], row["sentence"], row["bbox"], row["label_name"], row["context"])
        assert said not in found.setdefault(row["image_id"], set())
        found[row["image_id"]].add(said)
    of_gold = {
        image: {(one.id, one.sentence, *said) for one in sentences for said in said_by(one)}
        for image, sentences in by_image(gold).items()
    }
    assert found.keys() == of_gold.keys()
    others = set()
    for image, rows in found.items():
        assert of_gold[image] <= rows
        report = report_sentences(roots, frontal[image])
        assert {(row_id, text) for row_id, text, *_ in rows} == {
            (f"{frontal[image]['study_id']}|{number}", text) for number, text in report.items()
        }
        for _, text, box, label, context in rows - of_gold[image]:
            others.add(box)
            if box == "unknown":
                assert (label, context) == ("normal", "yes")
                assert not expected(text)
                assert "rib fracture" not in text.lower()
            else:
                assert "rib fracture" in text.lower()
    assert others == {"unknown", "left chest wall", "right chest wall"}


def test_comparisons_hold_of_both_pictures(roots, frontal, drawn):
    """A patient's later image against the one before: what both reports deny or call normal is drawn in neither."""
    root = roots["chest_imagenome"]
    anatomy = chest_imagenome.read_anatomy(root)
    scaling = chest_imagenome.read_scaling(root)
    _, rows = rows_of(root, "gold_object_comparison_with_coordinates.txt")
    assert len({row["relationship_id"] for row in rows}) == len(rows) == 27
    for row in rows:
        now, before = row["current_image_id"], row["previous_image_id"]
        dates = [(frontal[image]["subject_id"], drawn[image][0].number) for image in (before, now)]
        assert [patient for patient, _ in dates] == 2 * [row["patient_id"]]
        assert dates[0] < dates[1]
        assert row["sentence"] in report_sentences(roots, frontal[now]).values()
        _, context, label = row["attribute"].split("|")
        assert label == row["label_name"]
        for image in (now, before):
            told = report_sentences(roots, frontal[image]).values()
            assert any((row["bbox"], label, context) in expected(text) for text in told)
            assert not drawn[image][1].findings
        assert (row["comparison"], label == "normal" or context == "no") == ("no change", True)
        for image, end in ((now, "subject"), (before, "object")):
            assert row[f"{end}_id"] == f"{image}_{row['bbox']}"
            corners = anatomy[image][row["bbox"]]
            assert row[f"bbox_coord_original_{end}"] == str([int(value) for value in corners])
            one = scaling[image]
            small = [value * one.ratio + shift for value, shift in zip(corners, 2 * (one.left, one.top), strict=True)]
            assert np.allclose(json.loads(row[f"bbox_coord_224_{end}"]), small, atol=0.5)
    assert {row["bbox"] for row in rows} > {"left lung", "right lung"}


# --- where the boxes lie ----------------------------------------------------------------------------------------------


def filled(boxes, shape):
    mask = np.zeros(shape, bool)
    for x1, y1, x2, y2 in boxes:
        mask[round(y1) : round(y2) + 1, round(x1) : round(x2) + 1] = True
    return mask


def test_findings_lie_in_the_boxes_of_their_sentences(gold, drawn):
    checked, sides = 0, 0
    for image, sentences in by_image(gold).items():
        study, picture = drawn[image]
        told = mimic_cxr_reports.sentences(study, SEED)
        for one in sentences:
            finding = told[int(one.id.split("|")[1]) - 1].finding
            if finding is None:
                continue
            mask = picture.findings[finding.drawn]
            boxes = filled(one.boxes.values(), mask.shape)
            assert (mask & boxes).sum() / mask.sum() > 0.9, finding
            assert boxes.mean() < 0.6
            checked += 1
            side = finding.drawn.split()[0]
            if side in ("left", "right"):  # the patient's left is the image's right
                middle = mask.shape[1] / 2
                assert (np.nonzero(mask)[1].mean() > middle) == (side == "left")
                x1, _, x2, _ = one.boxes[f"{side} lung"]
                assert ((x1 + x2) / 2 > middle) == (side == "left")
                sides += 1
    assert checked >= 40
    assert sides >= 30


def test_boxes_are_the_annotations_around_the_anatomy(roots, gold, drawn):
    anatomy = chest_imagenome.read_anatomy(roots["chest_imagenome"])
    assert set(anatomy) == set(by_image(gold))
    for one in gold:
        assert {name: anatomy[one.image_id][name] for name in one.boxes} == one.boxes
    for image, boxes in anatomy.items():
        regions = drawn[image][1].regions
        assert len(boxes) == 14
        for side in ("left", "right"):
            lung = boxes[f"{side} lung"]
            assert filled([lung], regions["heart"].shape)[regions[f"{side} lung"]].all()
            for part in ("upper lung zone", "mid lung zone", "lower lung zone", "costophrenic angle"):
                x1, y1, x2, y2 = boxes[f"{side} {part}"]
                assert lung[0] <= x1 < x2 <= lung[2]
                assert lung[1] <= y1 < y2 <= lung[3]
            angle = boxes[f"{side} costophrenic angle"]
            assert angle[3] == lung[3]
            assert (angle[2] == lung[2]) if side == "left" else (angle[0] == lung[0])  # outside is away from the middle
        for name, region in (("cardiac silhouette", "heart"), ("aortic arch", "aorta"), ("trachea", "trachea")):
            ys, xs = np.nonzero(regions[region])
            assert boxes[name] == (xs.min(), ys.min(), xs.max(), ys.max())


def test_automatic_boxes_are_the_true_ones_a_few_pixels_off_or_missing(roots):
    root = roots["chest_imagenome"]
    anatomy, automatic = chest_imagenome.read_anatomy(root), chest_imagenome.read_automatic_boxes(root)
    assert list(automatic) == list(anatomy)
    missing, moves = set(), set()
    for image, boxes in anatomy.items():
        assert len(boxes) - len(automatic[image]) in (1, 2)
        missing |= set(boxes) - set(automatic[image])
        for name, found in automatic[image].items():
            x1, y1, x2, y2 = np.subtract(found, boxes[name])
            assert (x1, y1) == (x2, y2)
            moves.add((x1, y1))
    assert len(missing) > 10
    assert len(moves) > 40
    assert max(np.abs(list(moves)).ravel()) == 4


def test_coordinates_of_the_square_follow_from_the_scaling(roots, frontal):
    root = roots["chest_imagenome"]
    scaling = chest_imagenome.read_scaling(root)
    _, rows = rows_of(root, "gold_bbox_coordinate_annotations_1000images.csv")
    for row in rows:
        image = row["image_id"].removesuffix(".dcm")
        one, size = scaling[image], frontal[image]
        assert one.ratio == 224 / max(size["width"], size["height"])
        assert one.left + one.right == pytest.approx(224 - size["width"] * one.ratio, abs=0.5)
        assert one.top + one.bottom == pytest.approx(224 - size["height"] * one.ratio, abs=0.5)
        for axis, shift in (("x", one.left), ("y", one.top)):
            for end in "12":
                original = int(row[f"original_{axis}{end}"])
                assert abs(int(row[f"{axis}{end}"]) - (original * one.ratio + shift)) <= 0.5
                assert 0 <= original < size["width" if axis == "x" else "height"]
        assert row["coord_original"] == str([int(row[f"original_{name}"]) for name in ("x1", "y1", "x2", "y2")])
        assert row["coord224"] == str([int(row[name]) for name in ("x1", "y1", "x2", "y2")])


# --- splits and scene graphs ------------------------------------------------------------------------------------------


def test_splits_part_the_patients_as_mimic_does(roots, gold, frontal, drawn):
    tables = {name: chest_imagenome_silver.read_split(roots["chest_imagenome"], name) for name in (*SPLITS, "avoid")}
    rows = {name: table.to_pylist() for name, table in tables.items()}
    ids = [row["dicom_id"] for name in rows for row in rows[name]]
    assert sorted(ids) == sorted(frontal)
    avoided = {row["subject_id"] for row in rows["avoid"]}
    unreported = {str(study.subject) for study, _ in drawn.values() if not study.has_report}
    assert {one.patient_id for one in gold} <= avoided <= {one.patient_id for one in gold} | unreported
    for name in SPLITS:
        assert rows[name]
        assert avoided.isdisjoint(row["subject_id"] for row in rows[name])
        for row in rows[name]:
            image = frontal[row["dicom_id"]]
            assert (image["split"], image["view"]) == (name, row["view"])
            assert row["path"] == image["key"].replace(".jpg", ".dcm")


def test_scene_graphs_say_what_the_reports_say(roots, gold, frontal, drawn):
    root = roots["chest_imagenome"]
    with zipfile.ZipFile(root / "silver_dataset" / "scene_graph.zip") as file:
        names = file.namelist()
    assert all(re.fullmatch(r"scene_graph/[0-9a-f-]{44}_SceneGraph\.json", name) for name in names)
    in_graphs = {name.removeprefix("scene_graph/").removesuffix("_SceneGraph.json") for name in names}
    reported = {image for image in frontal if drawn[image][0].has_report}
    assert in_graphs == reported - set(by_image(gold))
    of_gold_patients = 0
    with chest_imagenome_silver.SceneGraphs(root) as graphs:
        for image in sorted(in_graphs):
            sentences = sorted(graphs.read(image), key=lambda one: int(one.id.split("|")[1]))
            check_against_report(sentences, report_sentences(roots, frontal[image]), frontal[image])
            of_gold_patients += frontal[image]["subject_id"] in {one.patient_id for one in gold}
    assert 0 < of_gold_patients < len(in_graphs)
