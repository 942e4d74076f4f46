"""A synthetic Chest ImaGenome 1.0.0 for the synthetic MIMIC-CXR of the same seed.

Gold: of every study that has a report, the first frontal image, each sentence with the boxes of the anatomies that it
names, drawn around the regions of the drawn chest. As in the original, the whole lung is boxed too where a zone of it
is named, both lungs where no side is, a doubted finding counts as stated, and what has no box (chest walls, soft
tissues) is in no row but those of the attributes before they were joined with boxes. Every fifth patient is left out of
gold and makes the splits; scene graphs are there for all frontal images with a report that are not gold.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from .chest_imagenome_annotated import Annotated, Corners, Said, annotated
from .mimic_cxr import FRONTAL, SPLITS
from .mimic_cxr_reports import N_STUDIES, studies

GOLD = (
    "patient_id", "study_id", "image_id", "row_id", "sentence", "bbox", "relation", "label_name", "categoryID",
    "context", "coord_original", "coord224",
)  # fmt: skip
ANATOMY = (
    "image_id", "x1", "y1", "x2", "y2", "width", "height", "bbox_name", "annot_id", "original_x1", "original_x2",
    "original_y1", "original_y2", "original_width", "original_height", "annotator", "coord224", "coord_original",
)  # fmt: skip
COMPARISON = (
    "patient_id", "relationship_id", "subject_id", "object_id", "bbox", "comparison", "attribute", "sentence",
    "bbox_coord_224_subject", "bbox_coord_224_object", "bbox_coord_original_subject", "bbox_coord_original_object",
    "label_name", "current_image_id", "previous_image_id",
)  # fmt: skip
AUTOMATIC = ("image_id", "bbox_name", "original_x1", "original_y1", "original_x2", "original_y2")
SPLIT = ("subject_id", "study_id", "dicom_id", "path", "ViewPosition")
SPLIT_FILES = {"train": "train", "validate": "valid", "test": "test"}
SQUARE = 224
SIDE_NAMES = ("x1", "y1", "x2", "y2")
NOWHERE: Said = ("unknown", "nlp", "normal", "yes")  # what a sentence says that names no anatomy
MOST_MOVED = 4  # pixels between a box and what the detector makes of it


def write(root: Path, *, seed: int, n: int = N_STUDIES) -> Path:
    """Writes the annotations of `n` studies below `root`, which is returned."""
    gold, silver, splits = _plan(seed, n)
    for folder in ("gold_dataset", "silver_dataset/splits"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    folder = root / "gold_dataset"
    _table(folder / "gold_object_attribute_with_coordinates.txt", GOLD, _gold_rows(gold), "\t")
    _table(folder / "gold_all_sentences_500pts_1000studies.txt", GOLD[:5], _all_sentences(gold), "\t")
    _table(folder / "gold_attributes_relations_500pts_500studies1st.txt", GOLD[:10], _attribute_rows(gold), "\t")
    _table(folder / "gold_object_comparison_with_coordinates.txt", COMPARISON, _comparison_rows(gold), "\t")
    _table(folder / "auto_bbox_pipeline_coordinates_1000_images.txt", AUTOMATIC, _automatic_rows(gold), "\t")
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
                chosen.append(annotated(study, view, image, seed))
    return gold, silver, splits


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


def _attribute_rows(gold: Sequence[Annotated]) -> Iterable[Sequence[object]]:
    """As gold has it, and what is said of anatomies without a box, and of none."""
    for one in gold:
        for number, text, said in one.said:
            for place, category, label, context in said or (NOWHERE,):
                yield *_ids(one, number, text), place, int(context == "yes"), label, category, context


def _comparison_rows(gold: Sequence[Annotated]) -> Iterable[Sequence[object]]:
    """What both reports of a patient say of one anatomy, in the sentence of the later one.

    No patient with two studies has a finding: what both say is that something is not there, and so nothing changed.
    """
    for before, now in pairwise(gold):
        if before.study.subject != now.study.subject:
            continue
        earlier = {each for *_, said in before.said for each in said}
        for number, text, said in now.said:
            for place, category, label, context in (each for each in said if each in earlier and each[0] in now.boxes):
                name = f"{now.study.id}|{number}|{place}|{label}"
                ids = (f"{one.image.name}_{place}" for one in (now, before))
                small = (_small(one.boxes[place], one.image.size) for one in (now, before))
                original = (list(one.boxes[place]) for one in (now, before))
                yield (
                    *(now.study.subject, name, *ids, place, "no change", f"{category}|{context}|{label}", text),
                    *(*small, *original, label, now.image.name, before.image.name),
                )


def _automatic_rows(gold: Sequence[Annotated]) -> Iterable[Sequence[object]]:
    """Every box a few pixels off; of each image one or two were not found, and have no coordinates."""
    for one in gold:
        rng = np.random.default_rng([one.image.seed, *b"detector"])
        missed = rng.choice(len(one.boxes), rng.integers(1, 3), replace=False)
        for number, (name, (x1, y1, x2, y2)) in enumerate(one.boxes.items()):
            right, down = rng.integers(-MOST_MOVED, MOST_MOVED + 1, 2).tolist()
            moved = (x1 + right, y1 + down, x2 + right, y2 + down)
            yield f"{one.image.name}.dcm", name, *(("",) * 4 if number in missed else moved)


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
