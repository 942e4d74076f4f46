"""Chest ImaGenome 1.0.0, gold dataset: sentences of reports with the anatomies that each of them is about.

Source: Wu et al., "Chest ImaGenome Dataset for Clinical Reasoning" (2021). The pixels are MIMIC-CXR's, under the same
ids. Boxes are corners x1, y1, x2, y2 in pixels of the original image, the pixels of both corners included. They were
drawn on a padded square, so a box may reach beyond its image: what lies outside is kept here, as the files have it.
The automatic annotations of the other images (silver dataset) are read by `chest_imagenome_silver`.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from . import csv_table, mimic_cxr
from .errors import InputError

FILES = {
    "gold": "gold_dataset/gold_object_attribute_with_coordinates.txt",
    "anatomy": "gold_dataset/gold_bbox_coordinate_annotations_1000images.csv",
    "scaling": "gold_dataset/gold_bbox_scaling_factors_original_to_224x224.csv",
    "comparisons": "gold_dataset/gold_object_comparison_with_coordinates.txt",
    "all_sentences": "gold_dataset/gold_all_sentences_500pts_1000studies.txt",
}
REQUIRED = ("gold", "anatomy")
GOLD_COLUMNS = (
    "patient_id", "study_id", "image_id", "row_id", "sentence", "bbox", "relation", "label_name", "context",
    "coord_original",
)  # fmt: skip
OF_ONE_SENTENCE = ("patient_id", "study_id", "image_id", "sentence")
# The csv has them in the order x1, x2, y1, y2.
CORNERS = ("original_x1", "original_y1", "original_x2", "original_y2")
CONTEXTS = ("yes", "no")
RELATIONS = {"1": True, "1.0": True, "0": False, "0.0": False}
IMAGE_ID = r"^[0-9a-f]{8}(-[0-9a-f]{8}){4}(\.dcm)?$"
ACTION = "use the files of Chest ImaGenome 1.0.0 (PhysioNet), unchanged"

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
    row_id that disagree, a box that the image's annotations (`read_anatomy`) lack.
    """
    path = label_files(root)["gold"]
    anatomy = read_anatomy(root)
    groups: dict[str, list[tuple[int, dict[str, str]]]] = {}
    for number, row in enumerate(_tsv_rows(path, GOLD_COLUMNS), start=1):
        _check_gold(row, path, number)
        groups.setdefault(row["row_id"], []).append((number, row))
    return [_sentence(rows, anatomy, path) for rows in groups.values()]


def read_anatomy(root: Path) -> dict[str, dict[str, Corners]]:
    """The boxes of every annotated image: {image_id: {name of the anatomy: corners}}, in the file's order.

    Raises InputError naming file, row and column, also for a name that an image has twice.
    """
    path = label_files(root)["anatomy"]
    types = {"image_id": pa.string(), "bbox_name": pa.string()} | {column: pa.float64() for column in CORNERS}
    table = csv_table.read(path, types, action=ACTION)
    for column in types:
        _require_values(table[column], path, column)
    images: dict[str, dict[str, Corners]] = {}
    boxes = zip(*(table[column].to_pylist() for column in CORNERS), strict=True)
    rows = zip(stems(table["image_id"], path, "image_id"), table["bbox_name"].to_pylist(), boxes, strict=True)
    for number, (image, name, corners) in enumerate(rows, start=1):
        check_corners(corners, path, row=number, column="original_x1 to original_y2")
        if name in images.setdefault(image, {}):
            expected = "each name once an image"
            raise InputError(path, f"{name!r} again", row=number, column="bbox_name", expected=expected, action=ACTION)
        images[image][name] = corners
    return images


def read_scaling(root: Path) -> dict[str, Scaling]:
    """The scaling of every annotated image, by image_id. Raises InputError naming file, row and column."""
    path = _file(root, "scaling")
    names = ("top", "bottom", "left", "right", "ratio")
    table = csv_table.read(path, {"image_id": pa.string()} | dict.fromkeys(names, pa.float64()), action=ACTION)
    for column in table.column_names:
        _require_values(table[column], path, column)
    csv_table.require(
        pc.greater(table["ratio"], 0), table["ratio"], path, "ratio", expected="a number above 0", action=ACTION
    )
    csv_table.require_once(table["image_id"], path, "image_id", action=ACTION)
    values = zip(*(table[name].to_pylist() for name in names), strict=True)
    images = stems(table["image_id"], path, "image_id")
    return {image: Scaling(*row) for image, row in zip(images, values, strict=True)}


def read_comparisons(root: Path) -> pa.Table:
    """Sentences that compare an anatomy with an earlier image, one row a comparison; all columns are strings.

    Columns: patient_id, current_image_id and previous_image_id (without ".dcm"), bbox, label_name, comparison
    ("no change", "improved", "worsened", or several parted by ";;"), sentence. Raises InputError as `read_gold` does.
    """
    names = ("patient_id", "current_image_id", "previous_image_id", "bbox", "label_name", "comparison", "sentence")
    return _tsv_table(_file(root, "comparisons"), names)


def read_all_sentences(root: Path) -> pa.Table:
    """All sentences of the gold studies' reports, those without a box too; all columns are strings.

    Columns: patient_id, study_id, image_id (without ".dcm"), row_id, sentence. Raises InputError as `read_gold` does.
    """
    return _tsv_table(_file(root, "all_sentences"), ("patient_id", "study_id", "image_id", "row_id", "sentence"))


def stems(image_ids: pa.ChunkedArray, path: Path, column: str) -> list[str]:
    """DICOM ids of a column without ".dcm". Raises InputError for one that is none."""
    good = pc.match_substring_regex(image_ids, IMAGE_ID)
    expected = "five groups of 8 hexadecimal digits, with .dcm or without"
    csv_table.require(good, image_ids, path, column, expected=expected, action=ACTION)
    return [name.removesuffix(".dcm") for name in image_ids.to_pylist()]


def check_corners(corners: Corners, where: str | Path, *, row: int | str | None, column: str | None) -> None:
    """Raises InputError for corners that end before they begin; they may lie outside of the image."""
    x1, y1, x2, y2 = corners
    if x1 <= x2 and y1 <= y2:
        return
    found = f"{list(corners)} ends before it begins"
    expected = "x1 <= x2 and y1 <= y2, in pixels of the image"
    raise InputError(where, found, row=row, column=column, expected=expected, action=ACTION)


def _sentence(rows: Sequence[tuple[int, dict[str, str]]], anatomy: Mapping, path: Path) -> GoldSentence:
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
        image = row["image_id"].removesuffix(".dcm")
        if row["bbox"] not in anatomy.get(image, ()):
            expected = f"a box that {Path(FILES['anatomy']).name} has for the image"
            raise InputError(path, f"{row['bbox']!r}", row=number, column="bbox", expected=expected, action=ACTION)
    mentions = tuple(Mention(r["bbox"], r["label_name"], r["context"], RELATIONS[r["relation"]]) for _, r in rows)
    ids = (first["patient_id"], first["study_id"], first["image_id"].removesuffix(".dcm"))
    return GoldSentence(first["row_id"], *ids, first["sentence"], boxes, mentions)


def _check_gold(row: Mapping[str, str], path: Path, number: int) -> None:
    for column, known, expected in (("context", CONTEXTS, "yes or no"), ("relation", RELATIONS, "0 or 1")):
        if row[column] not in known:
            raise InputError(path, f"{row[column]!r}", row=number, column=column, expected=expected, action=ACTION)


def _parsed(text: str, path: Path, row: int) -> Corners:
    """The corners that a cell like "[12, 30, 580, 912]" holds."""
    try:
        values = json.loads(text)
        numbers = tuple(float(value) for value in values if type(value) in (int, float))
    except (ValueError, TypeError, OverflowError):
        values, numbers = (), ()
    if len(numbers) != 4 or len(values) != 4 or not all(map(math.isfinite, numbers)):
        expected = "four numbers: [x1, y1, x2, y2]"
        raise InputError(path, f"{text!r}", row=row, column="coord_original", expected=expected, action=ACTION)
    check_corners(numbers, path, row=row, column="coord_original")
    return numbers


def _tsv_table(path: Path, names: Sequence[str]) -> pa.Table:
    rows = list(_tsv_rows(path, names))
    columns = {name: [row[name] for row in rows] for name in names}
    columns |= {n: [v.removesuffix(".dcm") for v in columns[n]] for n in names if n.endswith("image_id")}
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def _tsv_rows(path: Path, names: Sequence[str]) -> Iterator[dict[str, str]]:
    """The cells `names` of each row, none of them blank; a sentence in quotes may go over several lines."""
    expected = "a complete file of cells parted by tabs, with " + " ".join(names)
    number = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter="\t", strict=True)
            header = next(reader, [])
            _check_header(header, names, path)
            for number, cells in enumerate(reader, start=1):
                if len(cells) != len(header):
                    found = f"{len(cells)} cells under a header of {len(header)}"
                    raise InputError(path, found, row=number, expected=expected, action=ACTION)
                row = {name: cells[header.index(name)].strip() for name in names}
                _check_cells(row, path, number)
                yield row
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            path, f"cannot be read after row {number} ({error})", expected=expected, action=ACTION
        ) from None
    if not number:
        raise InputError(path, "the file has a header and no rows", action=ACTION)


def _check_header(header: Sequence[str], names: Sequence[str], path: Path) -> None:
    expected = "the official header, tabs between its names: " + " ".join(names)
    if len(header) < 2:
        raise InputError(path, "its cells are not parted by tabs", expected=expected, action=ACTION)
    for name in names:
        if header.count(name) != 1:
            found = "the column stands more than once" if name in header else "the column is missing"
            raise InputError(path, found, column=name, expected=expected, action=ACTION)


def _check_cells(row: Mapping[str, str], path: Path, number: int) -> None:
    for column, value in row.items():
        if not value:
            expected = "a value in each row"
        elif column.endswith("image_id") and not re.match(IMAGE_ID, value):
            expected = "five groups of 8 hexadecimal digits, with .dcm or without"
        elif column in ("patient_id", "study_id") and not re.match(mimic_cxr.NUMBER, value):
            expected = "8 digits"
        else:
            continue
        found = f"{value!r}" if value else "is blank"
        raise InputError(path, found, row=number, column=column, expected=expected, action=ACTION)


def _require_values(values: pa.ChunkedArray, path: Path, column: str) -> None:
    csv_table.require(pc.is_valid(values), values, path, column, expected="a value in each row", action=ACTION)


def _file(root: Path, kind: str) -> Path:
    path = root / FILES[kind]
    if not path.is_file():
        raise _no_file(root, FILES[kind])
    return path


def _no_file(root: Path, name: str) -> InputError:
    action = "name the folder of Chest ImaGenome that holds gold_dataset, or complete the copy"
    return InputError(root, f"holds no {name}", expected="the release's folders and names", action=action)
