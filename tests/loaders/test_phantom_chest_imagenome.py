"""The phantom of Chest ImaGenome: its rows agree with the reports, and its boxes enclose the drawn anatomy."""

import re
import zipfile
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from medfaith.loaders import chest_imagenome, chest_imagenome_silver, mimic_cxr
from medfaith.loaders.phantom import chest, mimic_cxr_reports

SEED = 0
SPLITS = ("train", "validation", "test")
FRONTAL = ("AP", "PA")


@pytest.fixture(scope="module")
def gold(written):
    return chest_imagenome.read_gold(written["chest_imagenome"])


@pytest.fixture(scope="module")
def frontal(written):
    """Frontal images by id, with the rows of MIMIC-CXR-JPG's own tables."""
    return {row["dicom_id"]: row for row in mimic_cxr.read_images(written["mimic_cxr"]).to_pylist()}


@pytest.fixture(scope="module")
def chests_by_id():
    """Study and drawn chest of every frontal image, by image id."""
    images = [(s, image) for s in mimic_cxr_reports.studies(SEED) for view, image in s.images if view in FRONTAL]
    return {i.name: (s, chest.chest(i.drawn, seed=i.seed, size=i.size)) for s, i in images}


# --- contents of the rows ---------------------------------------------------------------------------------------------

# ImaGenome label and anatomy of each report phrase; written by hand, independent of the phantom.
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


def parse_expected_labels(text):
    """Derive {(anatomy, label, context)} from the wording of a report sentence."""
    text = text.lower()
    labels = {(place, "normal", "yes") for phrase, place in NORMAL.items() if phrase in text}
    context = "no" if re.search(r"\bno\b|neither|free of", text) else "yes"
    sides = re.findall(r"\b(left|right)\b", text)[:1] or ["left", "right"]
    zone = re.search(r"(?:left|right) (upper|middle|lower) lung|(left|right) base", text)
    for phrase, (label, places) in WORDS.items():
        if re.search(rf"\b{phrase}\b", text):
            boxes = [place.format(side) for place in places for side in sides]
            if zone:
                boxes.append(f"{sides[0]} {ZONES[zone[1] or 'base']} lung zone")
            labels |= {(place, label, context) for place in boxes}
            labels |= {(place, "abnormal", "yes") for place in boxes if context == "yes"}
    return labels


def read_report_sentences(written, image):
    """Read the report of an image and number its sentences from 1."""
    path = written["mimic_cxr"] / image["key"].rsplit("/", 1)[0]
    text = path.with_suffix(".txt").read_text(encoding="utf-8")
    sections = re.split(r"(?:FINDINGS|IMPRESSION):", text)[1:]
    sentences = [
        sentence for section in sections for sentence in re.split(r"(?<=\.)\s+", " ".join(section.split())) if sentence
    ]
    return dict(enumerate(sentences, start=1))


def get_labels(sentence):
    return {(mention.box, mention.label, mention.context) for mention in sentence.mentions}


def check_against_report(sentences, report, image):
    """Check that the sentences of one image are the report sentences that name something with a box."""
    numbers = [int(sentence.id.split("|")[1]) for sentence in sentences]
    assert all(before < after for before, after in pairwise(numbers))
    for number, sentence in zip(numbers, sentences, strict=True):
        assert sentence.id == f"{image['study_id']}|{number}"
        assert (sentence.patient_id, sentence.study_id) == (image["subject_id"], image["study_id"])
        assert sentence.sentence == report[number]
        assert get_labels(sentence) == parse_expected_labels(sentence.sentence), sentence.sentence
        assert len(sentence.mentions) == len(get_labels(sentence))
        assert set(sentence.boxes) == {mention.box for mention in sentence.mentions}
    assert {number for number in report if parse_expected_labels(report[number])} == set(numbers)


def group_by_image(sentences):
    images = {}
    for sentence in sentences:
        images.setdefault(sentence.image_id, []).append(sentence)
    return images


def test_gold_rows_say_what_the_reports_say(written, gold, frontal):
    images = group_by_image(gold)
    assert (len(images), len(gold)) == (31, 138)
    gaps = 0
    for image, sentences in images.items():
        report = read_report_sentences(written, frontal[image])
        check_against_report(sentences, report, frontal[image])
        gaps += len(report) - len(sentences)
    assert gaps >= 20  # soft tissues, ribs and impressions without a finding have no box
    assert {mention.relation == (mention.context == "yes") for gold_row in gold for mention in gold_row.mentions} == {
        True
    }
    labels = {(mention.label, mention.context) for gold_row in gold for mention in gold_row.mentions}
    assert {label for label, context in labels if context == "yes"} > {"normal", "abnormal", "pleural effusion"}
    assert {"no", "yes"} == {context for label, context in labels if label == "pneumothorax"}


# --- box positions ----------------------------------------------------------------------------------------------------


def fill_boxes(boxes, shape):
    mask = np.zeros(shape, bool)
    for x1, y1, x2, y2 in boxes:
        mask[round(y1) : round(y2) + 1, round(x1) : round(x2) + 1] = True
    return mask


def test_findings_lie_in_the_boxes_of_their_sentences(gold, chests_by_id):
    checked, sides = 0, 0
    for image, sentences in group_by_image(gold).items():
        study, picture = chests_by_id[image]
        planned_sentences = mimic_cxr_reports.sentences(study, SEED)
        for sentence in sentences:
            finding = planned_sentences[int(sentence.id.split("|")[1]) - 1].finding
            if finding is None:
                continue
            mask = picture.findings[finding.drawn]
            boxes = fill_boxes(sentence.boxes.values(), mask.shape)
            assert (mask & boxes).sum() / mask.sum() > 0.9, finding
            assert boxes.mean() < 0.6
            checked += 1
            side = finding.drawn.split()[0]
            if side in ("left", "right"):  # the patient's left is the image's right
                middle = mask.shape[1] / 2
                assert (np.nonzero(mask)[1].mean() > middle) == (side == "left")
                x1, _, x2, _ = sentence.boxes[f"{side} lung"]
                assert ((x1 + x2) / 2 > middle) == (side == "left")
                sides += 1
    assert checked >= 40
    assert sides >= 30


def test_boxes_are_the_annotations_around_the_anatomy(written, gold, chests_by_id):
    anatomy = chest_imagenome.read_anatomy(written["chest_imagenome"])
    assert set(anatomy) == set(group_by_image(gold))
    for gold_row in gold:
        assert {name: anatomy[gold_row.image_id][name] for name in gold_row.boxes} == gold_row.boxes
    for image, boxes in anatomy.items():
        regions = chests_by_id[image][1].regions
        assert len(boxes) == 14
        for side in ("left", "right"):
            lung = boxes[f"{side} lung"]
            assert fill_boxes([lung], regions["heart"].shape)[regions[f"{side} lung"]].all()
            for zone in ("upper lung zone", "mid lung zone", "lower lung zone", "costophrenic angle"):
                x1, y1, x2, y2 = boxes[f"{side} {zone}"]
                assert lung[0] <= x1 < x2 <= lung[2]
                assert lung[1] <= y1 < y2 <= lung[3]
            angle = boxes[f"{side} costophrenic angle"]
            assert angle[3] == lung[3]
            assert (
                (angle[2] == lung[2]) if side == "left" else (angle[0] == lung[0])
            )  # the outer side is away from the midline
        for name, region in (("cardiac silhouette", "heart"), ("aortic arch", "aorta"), ("trachea", "trachea")):
            ys, xs = np.nonzero(regions[region])
            assert boxes[name] == (xs.min(), ys.min(), xs.max(), ys.max())


# --- the other files --------------------------------------------------------------------------------------------------


def read_file(root, kind):
    """Read a file of the gold dataset, with image ids as the readers return them."""
    path = root / chest_imagenome.FILES[kind]
    table = pd.read_csv(path, sep="\t" if path.suffix == ".txt" else ",", dtype={"row_id": str})
    ids = [column for column in table.columns if column.endswith("image_id")]
    return table.assign(**{column: table[column].str.removesuffix(".dcm") for column in ids})


def test_the_other_files_agree_with_the_gold_rows(written, gold):
    root = written["chest_imagenome"]
    assert set(chest_imagenome.find_label_files(root)) == set(chest_imagenome.FILES)
    anatomy, detected = chest_imagenome.read_anatomy(root), read_file(root, "automatic_boxes").dropna()
    assert set(anatomy) == set(read_file(root, "scaling")["image_id"]) == set(detected["image_id"])
    for image, boxes in detected.groupby("image_id"):
        assert len(anatomy[str(image)]) - len(boxes) in (1, 2)
        for name, *box in boxes[["bbox_name", "original_x1", "original_y1", "original_x2", "original_y2"]].values:
            assert 0 <= np.abs(np.subtract(box, anatomy[str(image)][name])).max() <= 4
    attributes = read_file(root, "attributes")[["row_id", "bbox", "label_name", "context"]]
    rows = set(attributes.itertuples(index=False, name=None))
    gold_mentions = {
        (gold_row.id, mention.box, mention.label, mention.context) for gold_row in gold for mention in gold_row.mentions
    }
    assert gold_mentions < rows
    assert {box for _, box, *_ in rows - gold_mentions} == {"unknown", "left chest wall", "right chest wall"}
    for row in read_file(root, "comparisons").to_dict("records"):
        assert row["comparison"] == "no change"
        assert all(row["bbox"] in anatomy[row[f"{when}_image_id"]] for when in ("current", "previous"))


def test_coordinates_of_the_square_follow_from_the_scaling(written, frontal):
    root = written["chest_imagenome"]
    rows = read_file(root, "anatomy")
    for scaling in read_file(root, "scaling").to_dict("records"):
        size, ratio = frontal[scaling["image_id"]], scaling["ratio"]
        assert ratio == 224 / max(size["width"], size["height"])
        image_rows = rows[rows["image_id"] == scaling["image_id"]]
        for axis, side, before, after in (
            ("x", "width", scaling["left"], scaling["right"]),
            ("y", "height", scaling["top"], scaling["bottom"]),
        ):
            assert before + after == pytest.approx(224 - size[side] * ratio, abs=0.5)
            for end in "12":
                original = image_rows[f"original_{axis}{end}"]
                assert original.between(0, size[side] - 1).all()
                assert (np.abs(image_rows[f"{axis}{end}"] - (original * ratio + before)) <= 0.5).all()


# --- splits and scene graphs ------------------------------------------------------------------------------------------


def test_splits_part_the_patients_as_mimic_does(written, gold, frontal, chests_by_id):
    tables = {name: chest_imagenome_silver.read_split(written["chest_imagenome"], name) for name in (*SPLITS, "avoid")}
    rows = {name: table.to_pylist() for name, table in tables.items()}
    ids = [row["dicom_id"] for name in rows for row in rows[name]]
    assert sorted(ids) == sorted(frontal)
    avoided = {row["subject_id"] for row in rows["avoid"]}
    unreported = {str(study.subject) for study, _ in chests_by_id.values() if not study.has_report}
    assert (
        {gold_row.patient_id for gold_row in gold} <= avoided <= {gold_row.patient_id for gold_row in gold} | unreported
    )
    for name in SPLITS:
        assert rows[name]
        assert avoided.isdisjoint(row["subject_id"] for row in rows[name])
        for row in rows[name]:
            image = frontal[row["dicom_id"]]
            assert (image["split"], image["view"]) == (name, row["view"])
            assert row["path"] == image["key"].replace(".jpg", ".dcm")


def test_scene_graphs_say_what_the_reports_say(written, gold, frontal, chests_by_id):
    root = written["chest_imagenome"]
    with zipfile.ZipFile(root / "silver_dataset" / "scene_graph.zip") as file:
        names = file.namelist()
    assert all(re.fullmatch(r"scene_graph/[0-9a-f-]{44}_SceneGraph\.json", name) for name in names)
    in_graphs = {name.removeprefix("scene_graph/").removesuffix("_SceneGraph.json") for name in names}
    reported = {image for image in frontal if chests_by_id[image][0].has_report}
    assert in_graphs == reported - set(group_by_image(gold))
    n_gold_patients = 0
    with chest_imagenome_silver.SceneGraphs(root) as graphs:
        for image in sorted(in_graphs):
            sentences = sorted(graphs.read(image), key=lambda gold_row: int(gold_row.id.split("|")[1]))
            check_against_report(sentences, read_report_sentences(written, frontal[image]), frontal[image])
            n_gold_patients += frontal[image]["subject_id"] in {gold_row.patient_id for gold_row in gold}
    assert 0 < n_gold_patients < len(in_graphs)
