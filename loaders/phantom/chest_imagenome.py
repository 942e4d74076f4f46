"""A synthetic Chest ImaGenome 1.0.0 for the synthetic MIMIC-CXR of the same seed.

Gold: of every study that has a report, the first frontal image, each sentence with the boxes of the anatomies that it
names, drawn around the regions of the drawn chest. As in the original, the whole lung is boxed too where a zone of it
is named, both lungs where no side is, a doubted finding counts as stated, and what has no box (chest walls, soft
tissues) is in no row. Every fifth patient is left out of gold and makes the splits; scene graphs are there for all
frontal images with a report that are not gold.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .cases import Radiograph
from .chest import box, chest
from .frontal import SIDES
from .mimic_cxr import FRONTAL, SPLITS
from .mimic_cxr_reports import N_STUDIES, Sentence, Study, sentences, studies

GOLD = (
    "patient_id", "study_id", "image_id", "row_id", "sentence", "bbox", "relation", "label_name", "categoryID",
    "context", "coord_original", "coord224",
)  # fmt: skip
ANATOMY = (
    "image_id", "x1", "y1", "x2", "y2", "width", "height", "bbox_name", "annot_id", "original_x1", "original_x2",
    "original_y1", "original_y2", "original_width", "original_height", "annotator", "coord224", "coord_original",
)  # fmt: skip
SPLIT = ("subject_id", "study_id", "dicom_id", "path", "ViewPosition")
SPLIT_FILES = {"train": "train", "validate": "valid", "test": "test"}
SQUARE = 224
SIDE_NAMES = ("x1", "y1", "x2", "y2")
# Category and label in ImaGenome's terms of each class; a lesion of the trachea is there only called abnormal.
LABELS = {
    "Aortic enlargement": ("anatomicalfinding", "tortuous aorta"),
    "Atelectasis": ("anatomicalfinding", "atelectasis"),
    "Calcification": ("anatomicalfinding", "vascular calcification"),
    "Cardiomegaly": ("anatomicalfinding", "enlarged cardiac silhouette"),
    "Consolidation": ("anatomicalfinding", "consolidation"),
    "Emphysema": ("disease", "copd/emphysema"),
    "Lung Opacity": ("anatomicalfinding", "lung opacity"),
    "Nodule/Mass": ("anatomicalfinding", "mass/nodule (not otherwise specified)"),
    "Pleural effusion": ("anatomicalfinding", "pleural effusion"),
    "Pleural thickening": ("anatomicalfinding", "pleural/parenchymal scarring"),
    "Pneumothorax": ("anatomicalfinding", "pneumothorax"),
    "Rib fracture": ("anatomicalfinding", "rib fracture"),
}
MIDLINE = {
    "Aortic enlargement": "aortic arch",
    "Calcification": "aortic arch",
    "Cardiomegaly": "cardiac silhouette",
    "Other lesion": "trachea",
}
# Classes whose statement names a zone of the lung.
ZONED = ("Atelectasis", "Consolidation", "Emphysema", "Lung Opacity", "Nodule/Mass")
ZONES = {"upper": "upper", "middle": "mid", "lower": "lower"}
REGIONS = {
    "cardiac silhouette": "heart",
    "mediastinum": "mediastinum",
    "aortic arch": "aorta",
    "trachea": "trachea",
} | {f"{side} {name} lung zone": f"{side} {zone} lung" for side in SIDES for zone, name in ZONES.items()}
NORMAL = {
    "The trachea runs in the midline.": "trachea",
    "The mediastinal contours are smooth.": "mediastinum",
}

Corners = tuple[int, int, int, int]  # x1, y1, x2, y2 in pixels, both ends included
Said = tuple[str, str, str, str]  # anatomy, category, label, context


@dataclass(frozen=True)
class Annotated:
    """One frontal image. boxes: by anatomy. said: (number in the report, sentence, what it says), all sentences."""

    study: Study
    view: str
    image: Radiograph
    boxes: dict[str, Corners]
    said: tuple[tuple[int, str, tuple[Said, ...]], ...]


def write(root: Path, *, seed: int, n: int = N_STUDIES) -> Path:
    """Writes the annotations of `n` studies below `root`, which is returned."""
    gold, silver, splits = _plan(seed, n)
    for folder in ("gold_dataset", "silver_dataset/splits"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    folder = root / "gold_dataset"
    _table(folder / "gold_object_attribute_with_coordinates.txt", GOLD, _gold_rows(gold), "\t")
    _table(folder / "gold_all_sentences_500pts_1000studies.txt", GOLD[:5], _all_sentences(gold), "\t")
    _table(folder / "gold_bbox_coordinate_annotations_1000images.csv", ANATOMY, _anatomy_rows(gold))
    scaling = ([f"{one.image.name}.dcm", *_scaling(one.image.size)] for one in gold)
    _table(
        folder / "gold_bbox_scaling_factors_original_to_224x224.csv",
        ("image_id", "top", "bottom", "left", "right", "ratio"),
        scaling,
    )
    for name, rows in splits.items():
        indexed = name != "images_to_avoid"  # the three splits have an unnamed first column
        header = ("", *SPLIT) if indexed else SPLIT
        lines = [(number * 7, *row) if indexed else row for number, row in enumerate(rows)]
        _table(root / "silver_dataset" / "splits" / f"{name}.csv", header, lines)
    with zipfile.ZipFile(root / "silver_dataset" / "scene_graph.zip", "w") as packed:
        for one in silver:
            entry = zipfile.ZipInfo(f"scene_graph/{one.image.name}_SceneGraph.json")  # of 1980: the same bytes always
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, json.dumps(_scene_graph(one), indent=1))
    return root


def _plan(seed: int, n: int) -> tuple[list[Annotated], list[Annotated], dict[str, list[tuple[object, ...]]]]:
    """The gold images, those with a scene graph, and the rows of the splits by file."""
    planned = studies(seed, n)
    subjects = list(dict.fromkeys(study.subject for study in planned))
    gold: list[Annotated] = []
    silver: list[Annotated] = []
    splits: dict[str, list[tuple[object, ...]]] = {name: [] for name in (*SPLIT_FILES.values(), "images_to_avoid")}
    for study in planned:
        number = subjects.index(study.subject)
        in_gold = number % 5 != 4
        split = "images_to_avoid" if in_gold else SPLIT_FILES[SPLITS[number % len(SPLITS)]]
        frontal = [(view, image) for view, image in study.images if view in FRONTAL]
        for index, (view, image) in enumerate(frontal):
            path = f"{study.folder}/{image.name}.dcm"
            splits[split].append((study.subject, study.id, image.name, path, view))
            if study.has_report:
                chosen = gold if in_gold and index == 0 else silver
                chosen.append(_annotated(study, view, image, seed))
    return gold, silver, splits


def _annotated(study: Study, view: str, image: Radiograph, seed: int) -> Annotated:
    numbered = enumerate(sentences(study, seed), start=1)
    said = tuple((number, sentence.text, tuple(_said(sentence))) for number, sentence in numbered)
    return Annotated(study, view, image, _boxes(image), said)


def _boxes(image: Radiograph) -> dict[str, Corners]:
    """The box of every anatomy, around what is drawn of it; fluid counts to the lung that it fills."""
    picture = chest(image.drawn, seed=image.seed, size=image.size)
    boxes = {}
    for side in SIDES:
        lung = picture.regions[f"{side} lung"]
        x1, y1, x2, y2 = _corners(lung | picture.findings.get(f"{side} pleural effusion", lung))
        middle, low = (x1 + x2) // 2, y1 + 4 * (y2 - y1) // 5
        boxes[f"{side} lung"] = (x1, y1, x2, y2)
        boxes[f"{side} costophrenic angle"] = (middle, low, x2, y2) if SIDES[side] > 0 else (x1, low, middle, y2)
    return boxes | {name: _corners(picture.regions[region]) for name, region in REGIONS.items()}


def _corners(mask: Any) -> Corners:
    x, y, width, height = box(mask)
    return x, y, x + width - 1, y + height - 1


def _said(sentence: Sentence) -> Iterable[Said]:
    """What a sentence says of each anatomy."""
    if sentence.text in NORMAL:
        yield NORMAL[sentence.text], "nlp", "normal", "yes"
    for name in sentence.labels:
        for place in _places(name, sentence):
            if name in LABELS:
                yield place, *LABELS[name], "no" if sentence.kind == "denied" else "yes"
            if sentence.kind != "denied":
                yield place, "nlp", "abnormal", "yes"


def _places(name: str, sentence: Sentence) -> list[str]:
    """The anatomies that a class is said of: of the side and zone that the sentence names, else of both sides."""
    if name in MIDLINE:
        return [MIDLINE[name]]
    side, zone = sentence.finding.anatomies[0].split()[:2] if sentence.finding else ("", "")
    places = []
    for one in (side,) if side else SIDES:
        if name == "Rib fracture":
            places.append(f"{one} chest wall")
            continue
        places.append(f"{one} lung")
        if zone and name in ZONED:
            places.append(f"{one} {ZONES[zone]} lung zone")
        if name == "Pleural effusion":
            places.append(f"{one} costophrenic angle")
    return places


def _gold_rows(gold: Sequence[Annotated]) -> Iterable[Sequence[object]]:
    for one in gold:
        for number, text, said in one.said:
            for place, category, label, context in said:
                if place in one.boxes:
                    relation = int(context == "yes")
                    original, small = list(one.boxes[place]), _small(one.boxes[place], one.image.size)
                    yield *_ids(one, number, text), place, relation, label, category, context, original, small


def _all_sentences(gold: Sequence[Annotated]) -> Iterable[Sequence[object]]:
    return (_ids(one, number, text) for one in gold for number, text, _ in one.said)


def _ids(one: Annotated, number: int, text: str) -> tuple[object, ...]:
    return one.study.subject, one.study.id, f"{one.image.name}.dcm", f"{one.study.id}|{number}", text


def _anatomy_rows(gold: Sequence[Annotated]) -> Iterable[Sequence[object]]:
    for one in gold:
        for name, corners in one.boxes.items():
            x1, y1, x2, y2 = corners
            a1, b1, a2, b2 = small = _small(corners, one.image.size)
            yield (
                *(f"{one.image.name}.dcm", a1, b1, a2, b2, a2 - a1, b2 - b1, name, f"{one.image.name}_{name}"),
                *(x1, x2, y1, y2, x2 - x1, y2 - y1, "phantom", small, list(corners)),
            )


def _scaling(size: tuple[int, int]) -> tuple[int, int, int, int, float]:
    """top, bottom, left, right, ratio of the square that an image is padded to."""
    height, width = size
    ratio = SQUARE / max(size)
    down, across = SQUARE - round(height * ratio), SQUARE - round(width * ratio)
    return down // 2, down - down // 2, across // 2, across - across // 2, ratio


def _small(corners: Corners, size: tuple[int, int]) -> list[int]:
    """The corners in pixels of the square."""
    top, _, left, _, ratio = _scaling(size)
    return [round(value * ratio + shift) for value, shift in zip(corners, (left, top, left, top), strict=True)]


def _scene_graph(one: Annotated) -> dict[str, Any]:
    """The graph of one image; what it says of an anatomy without a box is there too, under an object that is not."""
    objects = []
    for name, corners in one.boxes.items():
        small = _small(corners, one.image.size)
        both = (("", small), ("original_", corners))
        sides = {
            f"{prefix}{side}": value for prefix, four in both for side, value in zip(SIDE_NAMES, four, strict=True)
        }
        objects.append({"object_id": f"{one.image.name}_{name}", "bbox_name": name, "name": name.title(), **sides})
    places = dict.fromkeys(place for _, _, said in one.said for place, *_ in said)
    return {
        "image_id": one.image.name,
        "viewpoint": one.view,
        "patient_id": one.study.subject,
        "study_id": one.study.id,
        "objects": objects,
        "attributes": [_attributes(one, place) for place in places],
        "relationships": [],
    }


def _attributes(one: Annotated, place: str) -> dict[str, Any]:
    """All that the report says of one anatomy, a list a sentence."""
    rows = []
    for number, text, said in one.said:
        about = [f"{category}|{context}|{label}" for where, category, label, context in said if where == place]
        if about:
            rows.append((about, text, f"{one.study.id}|{number}"))
    attributes, phrases, numbers = (list(column) for column in zip(*rows, strict=True))
    ids = {"object_id": f"{one.image.name}_{place}", "bbox_name": place, place: True}
    return ids | {"attributes": attributes, "phrases": phrases, "phrase_IDs": numbers}


def _table(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]], delimiter: str = ",") -> None:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
