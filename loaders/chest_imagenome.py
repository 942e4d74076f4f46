"""Chest ImaGenome 1.0.0, gold dataset: sentences of reports with the anatomies that each of them is about.

Source: Wu et al., "Chest ImaGenome Dataset for Clinical Reasoning" (2021). The pixels are MIMIC-CXR's, under the same
ids. Boxes are corners x1, y1, x2, y2 in pixels of the original image, the pixels of both corners included. They were
drawn on a padded square, so a box may reach beyond its image: what lies outside is kept here, as the files have it.
The automatic annotations of the other images (silver dataset) are read by `chest_imagenome_silver`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from . import csv_table, json_text, mimic_cxr
from .errors import InputError

FILES = {
    "gold": "gold_dataset/gold_object_attribute_with_coordinates.txt",
    "anatomy": "gold_dataset/gold_bbox_coordinate_annotations_1000images.csv",
    "scaling": "gold_dataset/gold_bbox_scaling_factors_original_to_224x224.csv",
    "comparisons": "gold_dataset/gold_object_comparison_with_coordinates.txt",
    "all_sentences": "gold_dataset/gold_all_sentences_500pts_1000studies.txt",
    "attributes": "gold_dataset/gold_attributes_relations_500pts_500studies1st.txt",
    "automatic_boxes": "gold_dataset/auto_bbox_pipeline_coordinates_1000_images.txt",
}
IMAGE_ID = r"^[0-9a-f]{8}(-[0-9a-f]{8}){4}(\.dcm)?$"
ACTION = "use the files of Chest ImaGenome 1.0.0 (PhysioNet), unchanged"
REQUIRED = ("gold", "anatomy")
GOLD_COLUMNS = (
    "patient_id", "study_id", "image_id", "row_id", "sentence", "bbox", "relation", "label_name", "context",
    "coord_original",
)  # fmt: skip
ATTRIBUTE_COLUMNS = (*GOLD_COLUMNS[:-2], "categoryID", "context")
OF_ONE_SENTENCE = ("patient_id", "study_id", "image_id", "sentence")
# The csv has them in the order x1, x2, y1, y2.
CORNERS = ("original_x1", "original_y1", "original_x2", "original_y2")
CONTEXTS = ("yes", "no")
RELATIONS = {"1": True, "1.0": True, "0": False, "0.0": False}
# The pattern of a column's cells, and its words for a message.
FORMS = {
    "patient_id": (mimic_cxr.NUMBER, "8 digits"),
    "study_id": (mimic_cxr.NUMBER, "8 digits"),
    "context": (f"^({'|'.join(CONTEXTS)})$", "yes or no"),
    "relation": (r"^[01](\.0)?$", "0 or 1"),
}

Corners = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Mention:
    """What a sentence says of one anatomy.

    box: the anatomy's name. label: a finding, or "normal" / "abnormal". context: "yes" where the sentence states the
    label, "no" where it denies it. relation: the file's column of that name.
    """

    box: str
    label: str
    context: str
    relation: bool


@dataclass(frozen=True, slots=True)
class GoldSentence:
    """A sentence of a report, of one frontal image.

    id: the file's row_id, "study|number". patient_id, study_id: digits. image_id: the DICOM id, without ".dcm".
    boxes: corners by the name of the anatomy, at least one. mentions: at least one. Both in the file's order.
    """

    id: str
    patient_id: str
    study_id: str
    image_id: str
    sentence: str
    boxes: Mapping[str, Corners]
    mentions: tuple[Mention, ...]


@dataclass(frozen=True, slots=True)
class Scaling:
    """How an image became the annotated square of 224 x 224: x_224 = x * ratio + left, y_224 = y * ratio + top.

    top, bottom, left, right: padding in pixels of the square. ratio: pixels of the square to a pixel of the image.
    """

    top: float
    bottom: float
    left: float
    right: float
    ratio: float


def image_paths(key: str) -> tuple[str, ...]:
    """Where a key may lie below the root. Chest ImaGenome has no images; rows made from it reference MIMIC-CXR's."""
    return (key,)


def key(sentence: GoldSentence) -> str:
    """The key of a sentence's image in MIMIC-CXR-JPG."""
    return mimic_cxr.key(sentence.patient_id, sentence.study_id, sentence.image_id)


def label_files(root: Path) -> dict[str, Path]:
    """The files of the gold dataset below `root`, by the names of FILES.

    Raises InputError where one of REQUIRED is missing.
    """
    found = {kind: root / name for kind, name in FILES.items() if (root / name).is_file()}
    for kind in REQUIRED:
        if kind not in found:
            raise _no_file(root, FILES[kind])
    return found


def read_gold(root: Path) -> list[GoldSentence]:
    """Every sentence of the gold dataset that names an anatomy with a box, in the file's order.

    All rows count, whatever their relation. Raises InputError naming file, row and column: no TSV, a missing column,
    a blank cell, an id of another form, a context or relation that is none, corners that are no box, rows of one
    row_id that disagree. Whether the image's annotations (`read_anatomy`) have the same boxes is not looked at.
    """
    path = label_files(root)["gold"]
    groups: dict[str, list[tuple[int, dict[str, str]]]] = {}
    for number, row in enumerate(_table(path, GOLD_COLUMNS).to_pylist(), start=1):
        groups.setdefault(row["row_id"], []).append((number, row))
    return [_sentence(rows, path) for rows in groups.values()]


def read_anatomy(root: Path) -> dict[str, dict[str, Corners]]:
    """The boxes of every annotated image: {image_id: {name of the anatomy: corners}}, in the file's order.

    Raises InputError naming file, row and column, also for a name that an image has twice.
    """
    return _boxes(label_files(root)["anatomy"], ",", detected=False)


def read_automatic_boxes(root: Path) -> dict[str, dict[str, Corners]]:
    """The boxes that a detector found in the annotated images before people corrected them, as `read_anatomy` has them.

    An anatomy without coordinates was not found: it is no box, and neither is one wholly before the image's first row
    or column, as in the silver dataset. An image where nothing was found is there, empty. Raises InputError as
    `read_anatomy` does.
    """
    return _boxes(_file(root, "automatic_boxes"), "\t", detected=True)


def read_scaling(root: Path) -> dict[str, Scaling]:
    """The scaling of every annotated image, by image_id. Raises InputError naming file, row and column."""
    path = _file(root, "scaling")
    names = ("top", "bottom", "left", "right", "ratio")
    table = csv_table.read(path, {"image_id": pa.string()} | {name: pa.float64() for name in names}, action=ACTION)
    csv_table.require_filled(table, table.column_names, path, action=ACTION)
    images, ratios = image_ids(table["image_id"], path, "image_id"), table["ratio"]
    csv_table.require(pc.greater(ratios, 0), ratios, path, "ratio", expected="a number above 0", action=ACTION)
    csv_table.require_once(images, path, "image_id", action=ACTION)
    values = zip(*(table[name].to_pylist() for name in names), strict=True)
    return {image: Scaling(*row) for image, row in zip(images.to_pylist(), values, strict=True)}


def read_comparisons(root: Path) -> pa.Table:
    """Sentences that compare an anatomy with an earlier image, one row a comparison; all columns are strings.

    Columns: patient_id, current_image_id and previous_image_id (without ".dcm"), bbox, label_name, comparison
    ("no change", "improved", "worsened", or several with ";;" between them), sentence. Raises InputError as
    `read_gold` does.
    """
    names = ("patient_id", "current_image_id", "previous_image_id", "bbox", "label_name", "comparison", "sentence")
    return _table(_file(root, "comparisons"), names)


def read_all_sentences(root: Path) -> pa.Table:
    """All sentences of the gold studies' reports, those without a box too; all columns are strings.

    Columns: patient_id, study_id, image_id (without ".dcm"), row_id, sentence. Raises InputError as `read_gold` does.
    """
    return _table(_file(root, "all_sentences"), ("patient_id", "study_id", "image_id", "row_id", "sentence"))


def read_attributes(root: Path) -> pa.Table:
    """What the sentences say of each anatomy, before the release joined it with boxes; all columns are strings.

    Beside the rows of `read_gold` it has those of anatomies without a box, and of "unknown" where none is named.
    Columns: those of ATTRIBUTE_COLUMNS, image_id without ".dcm". Raises InputError as `read_gold` does for a cell.
    """
    return _table(_file(root, "attributes"), ATTRIBUTE_COLUMNS)


def image_ids(values: pa.ChunkedArray, path: Path, column: str) -> pa.ChunkedArray:
    """DICOM ids of a column without ".dcm". Raises InputError for one that is none."""
    good = pc.match_substring_regex(values, IMAGE_ID)
    expected = "five groups of 8 hexadecimal digits, with .dcm or without"
    csv_table.require(good, values, path, column, expected=expected, action=ACTION)
    return pc.replace_substring_regex(values, r"\.dcm$", "")


def check_corners(corners: Corners, where: str | Path, *, row: int | str | None, column: str | None) -> None:
    """Raises InputError for corners that end before they begin; they may lie outside of the image."""
    x1, y1, x2, y2 = corners
    if x1 <= x2 and y1 <= y2:
        return
    found = f"{list(corners)} ends before it begins"
    expected = "x1 <= x2 and y1 <= y2, in pixels of the image"
    raise InputError(where, found, row=row, column=column, expected=expected, action=ACTION)


def _table(path: Path, names: Sequence[str]) -> pa.Table:
    """The columns `names` of a file of cells separated by tabs, all strings and none of them blank."""
    table = csv_table.read(path, dict.fromkeys(names, pa.string()), action=ACTION, delimiter="\t")
    csv_table.require_filled(table, names, path, action=ACTION)
    for at, column in enumerate(names):
        values = table[column]
        if column in FORMS:
            form, expected = FORMS[column]
            good = pc.match_substring_regex(values, form)
            csv_table.require(good, values, path, column, expected=expected, action=ACTION)
        elif column.endswith("image_id"):
            table = table.set_column(at, column, image_ids(values, path, column))
    return table


def _boxes(path: Path, delimiter: str, *, detected: bool) -> dict[str, dict[str, Corners]]:
    """{image_id: {name of the anatomy: corners}} of a table of boxes; what a detector did not find is left out."""
    types = {"image_id": pa.string(), "bbox_name": pa.string()} | {column: pa.float64() for column in CORNERS}
    table = csv_table.read(path, types, action=ACTION, delimiter=delimiter)
    if detected:  # a row without any corner is no fault: it becomes a box outside of the image
        nowhere = reduce(pc.and_, (pc.is_null(table[column]) for column in CORNERS))
        filled = {column: pc.if_else(nowhere, -1.0, table[column]) for column in CORNERS}
        table = pa.table({"image_id": table["image_id"], "bbox_name": table["bbox_name"]} | filled)
    csv_table.require_filled(table, types, path, action=ACTION)
    corners = zip(*(table[column].to_pylist() for column in CORNERS), strict=True)
    ids = image_ids(table["image_id"], path, "image_id").to_pylist()
    names: set[tuple[str, str]] = set()
    images: dict[str, dict[str, Corners]] = {image: {} for image in ids}
    for row, (image, name, box) in enumerate(zip(ids, table["bbox_name"].to_pylist(), corners, strict=True), start=1):
        if (image, name) in names:
            expected = "each name once an image"
            raise InputError(path, f"{name!r} again", row=row, column="bbox_name", expected=expected, action=ACTION)
        names.add((image, name))
        if detected and (box[0] <= box[2] < 0 or box[1] <= box[3] < 0):
            continue
        check_corners(box, path, row=row, column="original_x1 to original_y2")
        images[image][name] = box
    return images


def _sentence(rows: Sequence[tuple[int, dict[str, str]]], path: Path) -> GoldSentence:
    """The sentence that the numbered rows of one row_id make."""
    first_number, first = rows[0]
    boxes: dict[str, Corners] = {}
    for number, row in rows:
        for column in OF_ONE_SENTENCE:
            if row[column] != first[column]:
                found = f"differs from row {first_number}, which has the same row_id"
                raise InputError(path, found, row=number, column=column, expected="one of each row_id", action=ACTION)
        corners = _parsed(row["coord_original"], path, number)
        if boxes.setdefault(row["bbox"], corners) != corners:
            found = f"another box for {row['bbox']!r} than in an earlier row of the same row_id"
            raise InputError(path, found, row=number, column="coord_original", expected="one box", action=ACTION)
    mentions = tuple(Mention(r["bbox"], r["label_name"], r["context"], RELATIONS[r["relation"]]) for _, r in rows)
    ids = (first["patient_id"], first["study_id"], first["image_id"])
    return GoldSentence(first["row_id"], *ids, first["sentence"], boxes, mentions)


def _parsed(text: str, path: Path, row: int) -> Corners:
    """The corners that a cell like "[12, 30, 580, 912]" holds."""
    try:
        values = json_text.parse(text)
        numbers = tuple(float(value) for value in values if type(value) in (int, float))
    except (ValueError, TypeError, OverflowError):
        values, numbers = (), ()
    if len(numbers) != 4 or len(values) != 4 or not all(map(math.isfinite, numbers)):
        expected = "four numbers: [x1, y1, x2, y2]"
        raise InputError(path, f"{text!r}", row=row, column="coord_original", expected=expected, action=ACTION)
    check_corners(numbers, path, row=row, column="coord_original")
    return numbers


def _file(root: Path, kind: str) -> Path:
    path = root / FILES[kind]
    if not path.is_file():
        raise _no_file(root, FILES[kind])
    return path


def _no_file(root: Path, name: str) -> InputError:
    action = "name the folder of Chest ImaGenome that holds gold_dataset, or complete the copy"
    return InputError(root, f"holds no {name}", expected="the release's folders and names", action=action)
