"""NIH ChestX-ray14: image labels mined from reports, and the boxes of eight diseases, from its csv files.

Source: Wang et al., "ChestX-ray8: Hospital-scale Chest X-ray Database and Benchmarks" (CVPR 2017), in its release of
14 labels. Accepted: the folder CXR8 of the NIH Clinical Center's download site, and Kaggle's copy, whose images are in
`images_001/images` to `images_012/images`. Boxes are in pixels of the released images, which are 1024 x 1024.

The list of boxes is no valid csv: its header has nine cells, `Image Index,Finding Label,Bbox [x,y,w,h],,,`, and its
rows have six, or nine with the last three blank. Some copies have quotes in the header. `_repair` drops both.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from . import csv_table, layouts, sources
from .errors import InputError

LABELS = (
    "Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Effusion", "Emphysema", "Fibrosis", "Hernia",
    "Infiltration", "Mass", "Nodule", "Pleural_Thickening", "Pneumonia", "Pneumothorax",
)  # fmt: skip
NO_FINDING = "No Finding"
# The labels of boxes. The list of boxes calls an infiltration "Infiltrate", the labels of images "Infiltration".
BOX_LABELS = {
    name: "Infiltration" if name == "Infiltrate" else name
    for name in (
        *("Atelectasis", "Cardiomegaly", "Effusion", "Infiltrate", "Infiltration"),
        *("Mass", "Nodule", "Pneumonia", "Pneumothorax"),
    )
}
# Labels that other data sets, such as VinDr-CXR, write in another way.
COMMON_NAMES = {
    "Effusion": "Pleural effusion",
    "Fibrosis": "Pulmonary fibrosis",
    "Pleural_Thickening": "Pleural thickening",
}
VIEWS = ("AP", "PA")
IMAGE_ID = r"^\d{8}_\d{3}\.png$"
ACTION = "use the files of the NIH Clinical Center's download site (folder CXR8), or of its copy on Kaggle, unchanged"


def list_image_paths(key: str) -> tuple[str, ...]:
    """List the candidate paths of an image below the root.

    Args:
        key: The key of a row's image, `images/<image_id>`.

    Returns:
        The paths, most likely first.
    """
    return layouts.list_image_paths("nih_cxr14", key)


def get_patient(key: str) -> str:
    """Return the patient of an image, the first number of its name.

    Args:
        key: The key of a row's image.

    Returns:
        Eight digits.

    >>> get_patient("images/00013118_008.png")
    '00013118'
    """
    return key.rpartition("/")[2].partition("_")[0]


def find_label_files(root: Path) -> dict[str, Path]:
    """Find the label files.

    Args:
        root: The folder of ChestX-ray14, or one of its label files, which lies next to the others.

    Returns:
        The paths by kind: images (the labels), boxes, test (the list of test images).

    Raises:
        InputError: A file is missing or packed.
    """
    labels = sources.source("nih_cxr14").labels
    paths = layouts.find_label_files("nih_cxr14", root)
    for kind, names in labels.items():
        if kind not in paths:
            unpacked_names = " or ".join(name for name in names if not name.endswith(".gz"))
            expected = ", ".join(names[0] for names in labels.values())
            raise InputError(root, f"holds no {unpacked_names}", expected=expected, action=ACTION)
    return paths


def read_images(path: Path) -> pa.Table:
    """Read the labels of the images.

    Args:
        path: The csv file.

    Returns:
        One row an image, in the file's order, with the columns image_id and patient, string; labels, a list of names of
        LABELS, empty for "No Finding"; and view, AP or PA.

    Raises:
        InputError: The file is malformed; the error names file, row and column.
    """
    columns = ("Image Index", "Finding Labels", "Patient ID", "View Position")
    table = csv_table.read(path, dict.fromkeys(columns, pa.string()), action=ACTION, repair=_repair)
    image_id, patient, view = (table[name] for name in ("Image Index", "Patient ID", "View Position"))
    _require_image_ids(image_id, path, "Image Index")
    csv_table.require_once(image_id, path, "Image Index", action=ACTION)
    is_view = pc.is_in(view, value_set=pa.array(VIEWS))
    csv_table.require(is_view, view, path, "View Position", expected=" or ".join(VIEWS), action=ACTION)
    prefix = pc.utf8_slice_codeunits(image_id, 0, 8)
    is_prefix = pc.equal(pc.utf8_lpad(patient, 8, "0"), prefix)
    csv_table.require(is_prefix, patient, path, "Patient ID", expected="the first number of the image", action=ACTION)
    encoded = table["Finding Labels"].combine_chunks().dictionary_encode()
    parsed = pa.array([_parse_labels(text) for text in encoded.dictionary.to_pylist()], pa.list_(pa.string()))
    labels = parsed.take(encoded.indices)
    expected = f"{NO_FINDING}, or names separated by |: " + ", ".join(LABELS)
    csv_table.require(
        pc.is_valid(labels), table["Finding Labels"], path, "Finding Labels", expected=expected, action=ACTION
    )
    return pa.table({"image_id": image_id, "patient": prefix, "labels": labels, "view": view})


def read_boxes(path: Path, image_ids: pa.ChunkedArray | pa.Array) -> pa.Table:
    """Read the list of boxes.

    Args:
        path: The csv file.
        image_ids: The images that have labels.

    Returns:
        One row a box, in the file's order, with the columns image_id; label, one of LABELS; and x, y, width, height
        float64, pixels of the image from its top-left corner.

    Raises:
        InputError: The file is malformed, an image has no labels, a disease is unknown, or a box is empty or lies left
            of the image or above it. The error names file, row and column.
    """
    sides = {"Bbox [x": "x", "y": "y", "w": "width", "h]": "height"}
    types = dict.fromkeys(("Image Index", "Finding Label"), pa.string()) | dict.fromkeys(sides, pa.float64())
    table = csv_table.read(path, types, action=ACTION, repair=_repair)
    _require_image_ids(table["Image Index"], path, "Image Index")
    has_labels = pc.is_in(table["Image Index"], value_set=_combine(image_ids))
    expected = f"an image of {sources.source('nih_cxr14').labels['images'][0]}"
    csv_table.require(has_labels, table["Image Index"], path, "Image Index", expected=expected, action=ACTION)
    names = table["Finding Label"].combine_chunks().dictionary_encode()
    label = pa.array([BOX_LABELS.get(str(name)) for name in names.dictionary.to_pylist()], pa.string()).take(
        names.indices
    )
    expected = "one of " + ", ".join(BOX_LABELS)
    csv_table.require(
        pc.is_valid(label), table["Finding Label"], path, "Finding Label", expected=expected, action=ACTION
    )
    for side in sides:
        is_good = pc.greater(table[side], 0) if side in ("w", "h]") else pc.greater_equal(table[side], 0)
        csv_table.require(is_good, table[side], path, side, expected="a box within the image", action=ACTION)
    columns = {name: table[side] for side, name in sides.items()}
    return pa.table({"image_id": table["Image Index"], "label": label, **columns})


def read_list(path: Path, image_ids: pa.ChunkedArray | pa.Array) -> list[str]:
    """Read a list of images, one a line.

    Args:
        path: The text file.
        image_ids: The images that have labels.

    Returns:
        The images, in the file's order.

    Raises:
        InputError: A line is no image with labels, or repeats an earlier line.
    """
    column = "image"
    table = csv_table.read(path, {column: pa.string()}, action=ACTION, has_header=False, repair=_repair)
    _require_image_ids(table[column], path, column)
    has_labels = pc.is_in(table[column], value_set=_combine(image_ids))
    csv_table.require(
        has_labels,
        table[column],
        path,
        column,
        expected=f"an image of {sources.source('nih_cxr14').labels['images'][0]}",
        action=ACTION,
    )
    csv_table.require_once(table[column], path, column, action=ACTION)
    return table[column].to_pylist()


def _repair(text: bytes) -> bytes:
    """Drop the byte order mark, the quotes of the header and the blank cells at the ends of lines."""
    header, line_end, rows = text.removeprefix(csv_table.BYTE_ORDER_MARK).partition(b"\n")
    return re.sub(rb"(?:,[ \t]*)+(?=\r?(?:\n|\Z))", b"", header.replace(b'"', b"") + line_end + rows)


def _require_image_ids(values: pa.ChunkedArray, path: Path, column: str) -> None:
    is_id = pc.match_substring_regex(values, IMAGE_ID)
    csv_table.require(is_id, values, path, column, expected="a name such as 00000001_000.png", action=ACTION)


def _combine(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _parse_labels(text: str | None) -> list[str] | None:
    """Parse the labels of an image; None if they are unknown, repeated, or a finding next to "No Finding"."""
    names: Collection[str] = (text or "").split("|")
    if text == NO_FINDING:
        return []
    return list(names) if {*names} <= {*LABELS} and len({*names}) == len(names) else None
