"""A synthetic Chest ImaGenome 1.0.0 for the synthetic MIMIC-CXR of the same seed.

Gold has the first frontal image of every study with a report, and each sentence with the boxes of the anatomies that it
names, drawn around the regions of the drawn chest. Like in the original, a zone of the lung implies the lung, a missing
side implies both lungs, and a doubted finding counts as stated. Anatomies without a box (chest walls, soft tissues)
appear only in the attributes before they were joined with boxes. Every fifth patient is left out of gold and makes the
splits. All frontal images with a report outside gold have scene graphs.
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
NOWHERE: Said = ("unknown", "nlp", "normal", "yes")  # said by a sentence without an anatomy
MOST_MOVED = 4  # largest error of the detector (pixels)


def write(root: Path, *, seed: int, n: int = N_STUDIES) -> Path:
    """Write the annotations: the tables of gold, the lists of the splits, and the zip of scene graphs.

    Args:
        root: The folder to write to.
        seed: The seed of the images.
        n: The number of studies.

    Returns:
        `root`.
    """
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
    scaling = ([f"{annotated_image.image.name}.dcm", *_scaling(annotated_image.image.size)] for annotated_image in gold)
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
        for annotated_image in silver:
            entry = zipfile.ZipInfo(
                f"scene_graph/{annotated_image.image.name}_SceneGraph.json"
            )  # of 1980: the same bytes always
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, json.dumps(_scene_graph(annotated_image), indent=1))
    return root


def _plan(seed: int, n: int) -> tuple[list[Annotated], list[Annotated], dict[str, list[tuple[object, ...]]]]:
    """Plan the images of the gold dataset, the images with a scene graph, and the rows of each file of a split."""
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
                group = gold if in_gold and index == 0 else silver
                group.append(annotated(study, view, image, seed))
    return gold, silver, splits


def _gold_rows(gold: Sequence[Annotated]) -> Iterable[Sequence[object]]:
    for annotated_image in gold:
        for number, text, labels in annotated_image.said:
            for place, category, label, context in labels:
                if place in annotated_image.boxes:
                    relation = int(context == "yes")
                    original, small = (
                        list(annotated_image.boxes[place]),
                        _small(annotated_image.boxes[place], annotated_image.image.size),
                    )
                    yield (
                        *_ids(annotated_image, number, text),
                        place,
                        relation,
                        label,
                        category,
                        context,
                        original,
                        small,
                    )


def _all_sentences(gold: Sequence[Annotated]) -> Iterable[Sequence[object]]:
    return (_ids(annotated_image, number, text) for annotated_image in gold for number, text, _ in annotated_image.said)


def _attribute_rows(gold: Sequence[Annotated]) -> Iterable[Sequence[object]]:
    """Yield a row for each label of each sentence, also for anatomies without a box.

    A sentence without labels has one row, whose anatomy is that of NOWHERE.
    """
    for annotated_image in gold:
        for number, text, labels in annotated_image.said:
            for place, category, label, context in labels or (NOWHERE,):
                yield *_ids(annotated_image, number, text), place, int(context == "yes"), label, category, context


def _comparison_rows(gold: Sequence[Annotated]) -> Iterable[Sequence[object]]:
    """Yield the labels that both reports of a patient assign to one anatomy, in the sentence of the later one.

    No patient with two studies has a finding: both reports deny the same finding, so nothing changed.
    """
    for before, now in pairwise(gold):
        if before.study.subject != now.study.subject:
            continue
        earlier = {label_tuple for *_, labels in before.said for label_tuple in labels}
        for number, text, labels in now.said:
            for place, category, label, context in (
                label_tuple for label_tuple in labels if label_tuple in earlier and label_tuple[0] in now.boxes
            ):
                name = f"{now.study.id}|{number}|{place}|{label}"
                ids = (f"{annotated_image.image.name}_{place}" for annotated_image in (now, before))
                small = (
                    _small(annotated_image.boxes[place], annotated_image.image.size)
                    for annotated_image in (now, before)
                )
                original = (list(annotated_image.boxes[place]) for annotated_image in (now, before))
                yield (
                    *(now.study.subject, name, *ids, place, "no change", f"{category}|{context}|{label}", text),
                    *(*small, *original, label, now.image.name, before.image.name),
                )


def _automatic_rows(gold: Sequence[Annotated]) -> Iterable[Sequence[object]]:
    """Yield every box, moved by a few pixels; one or two of each image were not detected, and have no coordinates."""
    for annotated_image in gold:
        rng = np.random.default_rng([annotated_image.image.seed, *b"detector"])
        missed = rng.choice(len(annotated_image.boxes), rng.integers(1, 3), replace=False)
        for number, (name, (x1, y1, x2, y2)) in enumerate(annotated_image.boxes.items()):
            right, down = rng.integers(-MOST_MOVED, MOST_MOVED + 1, 2).tolist()
            moved = (x1 + right, y1 + down, x2 + right, y2 + down)
            yield f"{annotated_image.image.name}.dcm", name, *(("",) * 4 if number in missed else moved)


def _ids(annotated_image: Annotated, number: int, text: str) -> tuple[object, ...]:
    return (
        annotated_image.study.subject,
        annotated_image.study.id,
        f"{annotated_image.image.name}.dcm",
        f"{annotated_image.study.id}|{number}",
        text,
    )


def _anatomy_rows(gold: Sequence[Annotated]) -> Iterable[Sequence[object]]:
    for annotated_image in gold:
        for name, corners in annotated_image.boxes.items():
            x1, y1, x2, y2 = corners
            a1, b1, a2, b2 = small = _small(corners, annotated_image.image.size)
            yield (
                *(
                    f"{annotated_image.image.name}.dcm",
                    a1,
                    b1,
                    a2,
                    b2,
                    a2 - a1,
                    b2 - b1,
                    name,
                    f"{annotated_image.image.name}_{name}",
                ),
                *(x1, x2, y1, y2, x2 - x1, y2 - y1, "phantom", small, list(corners)),
            )


def _scaling(size: tuple[int, int]) -> tuple[int, int, int, int, float]:
    """Compute the borders (top, bottom, left, right) that pad a scaled image to a square, and the scale."""
    height, width = size
    ratio = SQUARE / max(size)
    down, across = SQUARE - round(height * ratio), SQUARE - round(width * ratio)
    return down // 2, down - down // 2, across // 2, across - across // 2, ratio


def _small(corners: Corners, size: tuple[int, int]) -> list[int]:
    """Convert corners in an image to pixels of the square that the image is scaled and padded to (`_scaling`)."""
    y_pad, _, x_pad, _, ratio = _scaling(size)
    return [round(value * ratio + shift) for value, shift in zip(corners, (x_pad, y_pad, x_pad, y_pad), strict=True)]


def _scene_graph(annotated_image: Annotated) -> dict[str, Any]:
    """Build the graph of one image; labels of an anatomy without a box belong to an object that does not exist."""
    objects = []
    for name, corners in annotated_image.boxes.items():
        small = _small(corners, annotated_image.image.size)
        variants = (("", small), ("original_", corners))
        sides = {
            f"{prefix}{side}": value for prefix, four in variants for side, value in zip(SIDE_NAMES, four, strict=True)
        }
        objects.append(
            {"object_id": f"{annotated_image.image.name}_{name}", "bbox_name": name, "name": name.title(), **sides}
        )
    places = dict.fromkeys(place for _, _, labels in annotated_image.said for place, *_ in labels)
    return {
        "image_id": annotated_image.image.name,
        "viewpoint": annotated_image.view,
        "patient_id": annotated_image.study.subject,
        "study_id": annotated_image.study.id,
        "objects": objects,
        "attributes": [_attributes(annotated_image, place) for place in places],
        "relationships": [],
    }


def _attributes(annotated_image: Annotated, place: str) -> dict[str, Any]:
    """Build the entry of a scene graph with all labels of one anatomy, in a list for each sentence."""
    rows = []
    for number, text, labels in annotated_image.said:
        attribute_texts = [
            f"{category}|{context}|{label}" for where, category, label, context in labels if where == place
        ]
        if attribute_texts:
            rows.append((attribute_texts, text, f"{annotated_image.study.id}|{number}"))
    attributes, phrases, numbers = (list(column) for column in zip(*rows, strict=True))
    ids = {"object_id": f"{annotated_image.image.name}_{place}", "bbox_name": place, place: True}
    return ids | {"attributes": attributes, "phrases": phrases, "phrase_IDs": numbers}


def _table(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]], delimiter: str = ",") -> None:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
