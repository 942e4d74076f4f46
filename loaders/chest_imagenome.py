"""Chest ImaGenome 1.0.0, gold dataset: sentences of reports with the anatomies that each of them describes.

Source: Wu et al., "Chest ImaGenome Dataset for Clinical Reasoning" (2021). The images are MIMIC-CXR's, with the same
ids. Boxes are corners x1, y1, x2, y2 in pixels of the original image, the pixels of both corners included. They were
drawn on a padded square, so a box may reach beyond its image. It is returned unchanged.
`chest_imagenome_silver` reads the automatic annotations of the other images (silver dataset).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from . import csv_table, json_text, layouts, limits, mimic_cxr
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
OF_ONE_SENTENCE = ("patient_id", "study_id", "image_id", "sentence")
# The columns of the csv have the order x1, x2, y1, y2.
CORNERS = ("original_x1", "original_y1", "original_x2", "original_y2")
CONTEXTS = ("yes", "no")
RELATIONS = {"1": True, "1.0": True, "0": False, "0.0": False}
# The pattern of a column's cells, and its description for a message.
FORMS = {
    "patient_id": (mimic_cxr.NUMBER, "8 digits"),
    "study_id": (mimic_cxr.NUMBER, "8 digits"),
    "context": (f"^({'|'.join(CONTEXTS)})$", "yes or no"),
    "relation": (r"^[01](\.0)?$", "0 or 1"),
}

Corners = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Mention:
    """A label that a sentence assigns to an anatomy.

    Attributes:
        box: The anatomy's name.
        label: A finding, or "normal" / "abnormal".
        context: "yes" if the sentence states the label, "no" if it denies it.
        relation: The file's column of this name.
    """

    box: str
    label: str
    context: str
    relation: bool


@dataclass(frozen=True, slots=True)
class GoldSentence:
    """A sentence of a report, for one frontal image.

    Attributes:
        id: The file's row_id, "study|number".
        patient_id: Digits.
        study_id: Digits.
        image_id: The DICOM id, without ".dcm".
        sentence: The text.
        boxes: Corners by name of the anatomy, at least one, in the file's order.
        mentions: At least one, in the file's order.
    """

    id: str
    patient_id: str
    study_id: str
    image_id: str
    sentence: str
    boxes: Mapping[str, Corners]
    mentions: tuple[Mention, ...]


def list_image_paths(key: str) -> tuple[str, ...]:
    """List the candidate paths of a key. Chest ImaGenome has no images; its rows reference MIMIC-CXR's.

    Args:
        key: The key.

    Returns:
        The key alone.
    """
    return (key,)


def key(sentence: GoldSentence) -> str:
    """Return the key of a sentence's image in MIMIC-CXR-JPG.

    Args:
        sentence: The sentence.

    Returns:
        The path below the root of MIMIC-CXR-JPG.
    """
    return mimic_cxr.key(sentence.patient_id, sentence.study_id, sentence.image_id)


def find_label_files(root: Path) -> dict[str, Path]:
    """Find the files of the gold dataset.

    Args:
        root: The folder of Chest ImaGenome.

    Returns:
        The existing files, by the names of FILES.

    Raises:
        InputError: A file of REQUIRED is missing, or a file is packed or unfinished, or has almost the release's name.
    """
    paths = {kind: root / name for kind, name in FILES.items() if limits.has_file(root / name)}
    for kind, name in FILES.items():
        if kind not in paths:
            layouts.refuse_similar_name(root / name)
    for kind in REQUIRED:
        if kind not in paths:
            raise _build_missing_file_error(root, FILES[kind])
    return paths


def read_gold(root: Path) -> list[GoldSentence]:
    """Read every sentence of the gold dataset that names an anatomy with a box.

    All rows count, whatever their relation. The boxes are not compared with the image's annotations (`read_anatomy`).

    Args:
        root: The folder of Chest ImaGenome.

    Returns:
        The sentences, in the file's order.

    Raises:
        InputError: A file is missing or is not a TSV, a cell is blank or malformed, corners are not a box, or rows of
            one row_id disagree. The error names file, row and column.
    """
    path = find_label_files(root)["gold"]
    groups: dict[str, list[tuple[int, dict[str, str]]]] = {}
    for number, row in enumerate(_read_table(path, GOLD_COLUMNS).to_pylist(), start=1):
        groups.setdefault(row["row_id"], []).append((number, row))
    return [_build_sentence(rows, path) for rows in groups.values()]


def read_anatomy(root: Path) -> dict[str, dict[str, Corners]]:
    """Read the boxes of every annotated image.

    Args:
        root: The folder of Chest ImaGenome.

    Returns:
        {image_id: {name of the anatomy: corners}}, in the file's order.

    Raises:
        InputError: A cell is malformed, or an image has a name twice; the error names file, row and column.
    """
    return _read_boxes(find_label_files(root)["anatomy"])


def read_all_sentences(root: Path) -> pa.Table:
    """Read all sentences of the gold studies' reports, with and without a box.

    Args:
        root: The folder of Chest ImaGenome.

    Returns:
        The string columns patient_id, study_id, image_id (without ".dcm"), row_id and sentence.

    Raises:
        InputError: As for `read_gold`.
    """
    return _read_table(_find_file(root, "all_sentences"), ("patient_id", "study_id", "image_id", "row_id", "sentence"))


def convert_corners(corners: Corners, size: tuple[int, int]) -> list[float] | None:
    """Convert corners to x, y, width and height, clipped at the image's edges.

    Args:
        corners: x1, y1, x2, y2 in pixels, both ends included.
        size: Height and width of the image in pixels.

    Returns:
        The box; None if it lies outside of the image.

    >>> convert_corners((10, 20, 19, 400), (100, 50))
    [10, 20, 10, 80]
    """
    x1, y1, x2, y2 = corners
    return clip_box((x1, y1, x2 - x1 + 1, y2 - y1 + 1), size)


def clip_box(xywh: Iterable[float], size: tuple[int, int]) -> list[float] | None:
    """Clip a box at the image's edges.

    Args:
        xywh: x, y, width and height in pixels.
        size: Height and width of the image in pixels.

    Returns:
        The box; None if it lies outside of the image.
    """
    x, y, width, height = xywh
    x1, y1, x2, y2 = max(x, 0), max(y, 0), min(x + width, size[1]), min(y + height, size[0])
    return [x1, y1, x2 - x1, y2 - y1] if x1 < x2 and y1 < y2 else None


def parse_image_ids(values: pa.ChunkedArray, path: Path, column: str) -> pa.ChunkedArray:
    """Parse a column of DICOM ids.

    Args:
        values: The cells, with or without ".dcm".
        path: The file, for messages.
        column: The name of the column, for messages.

    Returns:
        The ids without ".dcm".

    Raises:
        InputError: A cell is not a DICOM id.
    """
    good = pc.match_substring_regex(values, IMAGE_ID)
    expected = "five groups of 8 hexadecimal digits, with .dcm or without"
    csv_table.require(good, values, path, column, expected=expected, action=ACTION)
    return pc.replace_substring_regex(values, r"\.dcm$", "")


def check_corners(corners: Corners, where: str | Path, *, row: int | str | None, column: str | None) -> None:
    """Raise an error for corners that end before they begin. They may be outside of the image.

    Args:
        corners: x1, y1, x2, y2 in pixels.
        where: The file, for messages.
        row: The row, for messages.
        column: The column, for messages.

    Raises:
        InputError: x2 is less than x1, or y2 is less than y1.
    """
    x1, y1, x2, y2 = corners
    if x1 <= x2 and y1 <= y2:
        return
    problem = f"{list(corners)} ends before it begins"
    expected = "x1 <= x2 and y1 <= y2, in pixels of the image"
    raise InputError(where, problem, row=row, column=column, expected=expected, action=ACTION)


def _read_table(path: Path, names: Sequence[str]) -> pa.Table:
    """Read string columns of a file with tab-separated cells; blank cells are refused."""
    table = csv_table.read(path, dict.fromkeys(names, pa.string()), action=ACTION, delimiter="\t")
    csv_table.require_filled(table, names, path, action=ACTION)
    for index, column in enumerate(names):
        values = table[column]
        if column in FORMS:
            pattern, expected = FORMS[column]
            good = pc.match_substring_regex(values, pattern)
            csv_table.require(good, values, path, column, expected=expected, action=ACTION)
        elif column.endswith("image_id"):
            table = table.set_column(index, column, parse_image_ids(values, path, column))
    return table


def _read_boxes(path: Path) -> dict[str, dict[str, Corners]]:
    """Read {image_id: {name of the anatomy: corners}} from a table of boxes."""
    types = {"image_id": pa.string(), "bbox_name": pa.string()} | {column: pa.float64() for column in CORNERS}
    table = csv_table.read(path, types, action=ACTION)
    csv_table.require_filled(table, types, path, action=ACTION)
    corners = zip(*(table[column].to_pylist() for column in CORNERS), strict=True)
    ids = parse_image_ids(table["image_id"], path, "image_id").to_pylist()
    names: set[tuple[str, str]] = set()
    images: dict[str, dict[str, Corners]] = {image: {} for image in ids}
    for row, (image, name, box) in enumerate(zip(ids, table["bbox_name"].to_pylist(), corners, strict=True), start=1):
        if (image, name) in names:
            expected = "each name once an image"
            raise InputError(path, f"{name!r} again", row=row, column="bbox_name", expected=expected, action=ACTION)
        names.add((image, name))
        check_corners(box, path, row=row, column="original_x1 to original_y2")
        images[image][name] = box
    return images


def _build_sentence(rows: Sequence[tuple[int, dict[str, str]]], path: Path) -> GoldSentence:
    """Build a sentence from the numbered rows of one row_id. Raise InputError if they disagree on it or on a box."""
    first_number, first_row = rows[0]
    boxes: dict[str, Corners] = {}
    for number, row in rows:
        for column in OF_ONE_SENTENCE:
            if row[column] != first_row[column]:
                problem = f"differs from row {first_number}, which has the same row_id"
                raise InputError(path, problem, row=number, column=column, expected="one of each row_id", action=ACTION)
        corners = _parse_corners(row["coord_original"], path, number)
        if boxes.setdefault(row["bbox"], corners) != corners:
            problem = f"another box for {row['bbox']!r} than in an earlier row of the same row_id"
            raise InputError(path, problem, row=number, column="coord_original", expected="one box", action=ACTION)
    mentions = tuple(Mention(r["bbox"], r["label_name"], r["context"], RELATIONS[r["relation"]]) for _, r in rows)
    ids = (first_row["patient_id"], first_row["study_id"], first_row["image_id"])
    return GoldSentence(first_row["row_id"], *ids, first_row["sentence"], boxes, mentions)


def _parse_corners(text: str, path: Path, row: int) -> Corners:
    """Parse the corners in a cell like "[12, 30, 580, 912]"."""
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


def _find_file(root: Path, kind: str) -> Path:
    path = root / FILES[kind]
    if not path.is_file():
        raise _build_missing_file_error(root, FILES[kind])
    return path


def _build_missing_file_error(root: Path, name: str) -> InputError:
    action = "name the folder of Chest ImaGenome that holds gold_dataset, or complete the copy"
    return InputError(root, f"holds no {name}", expected="the release's folders and names", action=action)
