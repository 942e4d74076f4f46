"""MIMIC-CXR-JPG 2.0 / 2.1: images, splits and labels as Arrow tables, and the reports of MIMIC-CXR.

Source: Johnson et al., "MIMIC-CXR-JPG, a large publicly available database of labeled chest radiographs" (2019). The
csv files have the name of 2.0.0 in both releases. Reports belong to MIMIC-CXR. They are read one at a time, as text
for a builder, and no reader writes any of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from . import csv_table, layouts, limits
from .errors import InputError

LABELS = (
    "Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Enlarged Cardiomediastinum", "Fracture", "Lung Lesion",
    "Lung Opacity", "No Finding", "Pleural Effusion", "Pleural Other", "Pneumonia", "Pneumothorax", "Support Devices",
)  # fmt: skip
LABELERS = ("chexpert", "negbio")
# Plain frontal views. Left out: "AP AXIAL" (lordotic: clavicles above the lungs, heart foreshortened), "AP LLD" and the
# like (patient on a side: fluid and air move), and images without a view.
FRONTAL = ("AP", "PA")
# All values of ViewPosition.
VIEWS = (
    *FRONTAL, "LATERAL", "LL", "RL", "LLD", "RLD", "LLO", "RLO", "LAO", "RAO", "LPO", "RPO", "AP AXIAL", "AP LLD",
    "AP RLD", "PA LLD", "PA RLD", "SWIMMERS", "XTABLE",
)  # fmt: skip
SPLITS = {"train": "train", "validate": "validation", "test": "test"}
DICOM_ID = r"^[0-9a-f]{8}(-[0-9a-f]{8}){4}$"
NUMBER = r"^[0-9]{8}$"
ACTION = "use the csv.gz files of MIMIC-CXR-JPG (PhysioNet), unchanged"
REPORT_SOURCES = ("mimic_cxr_reports", "mimic_cxr")


def list_image_paths(key: str) -> tuple[str, ...]:
    """List the candidate paths of an image below the root, which may also be the folder `files`.

    Args:
        key: The key of a row's image.

    Returns:
        The paths, most likely first.
    """
    return layouts.list_image_paths("mimic_cxr", key)


def key(subject_id: str, study_id: str, dicom_id: str) -> str:
    """Return the key of an image: its path below the root of MIMIC-CXR-JPG.

    Args:
        subject_id: The patient, 8 digits.
        study_id: The study, 8 digits.
        dicom_id: The image.

    Returns:
        The key.
    """
    return f"{_build_study_path(subject_id, study_id)}/{dicom_id}.jpg"


def find_label_files(root: Path) -> dict[str, Path]:
    """Find the csv files of MIMIC-CXR-JPG.

    Args:
        root: The folder of MIMIC-CXR-JPG, or one of its csv files.

    Returns:
        The paths of metadata and split, and those of chexpert and negbio if they exist.

    Raises:
        InputError: metadata or split is missing.
    """
    paths = layouts.find_label_files("mimic_cxr", root)
    for kind in ("metadata", "split"):
        if kind not in paths:
            raise _build_missing_file_error(root, kind)
    return paths


def read_images(root: Path, views: Collection[str] | None = FRONTAL) -> pa.Table:
    """Read the images of some views.

    Args:
        root: The folder of MIMIC-CXR-JPG, or one of its csv files.
        views: Values of ViewPosition; None selects every image.

    Returns:
        One row an image, in the metadata file's order. Columns: dicom_id, study_id and subject_id, as in the files
        (digits, without the letters of the folders); key, the image's path below the official root; view; width and
        height int32, pixels; split train / validation / test.

    Raises:
        InputError: A file is missing or malformed; the error names file, row and column.
    """
    files = find_label_files(root)
    text = dict.fromkeys(("dicom_id", "subject_id", "study_id"), pa.string())
    path = files["metadata"]
    types = text | {"ViewPosition": pa.string(), "Rows": pa.int32(), "Columns": pa.int32()}
    table = csv_table.read(path, types, action=ACTION)
    _check_ids(table, path)
    for side in ("Rows", "Columns"):
        csv_table.require(
            pc.greater(table[side], 0), table[side], path, side, expected="pixels, above 0", action=ACTION
        )
    table = table.append_column("split", _read_splits(files["split"], table["dicom_id"], path))
    if views is not None:
        table = table.filter(pc.is_in(table["ViewPosition"], value_set=pa.array(sorted(views), pa.string())))
    ids = (table[name] for name in ("subject_id", "study_id", "dicom_id"))
    return pa.table(
        {
            **{name: table[name] for name in ("dicom_id", "study_id", "subject_id")},
            "key": _build_keys(*ids),
            "view": pc.fill_null(table["ViewPosition"], ""),
            "width": table["Columns"],
            "height": table["Rows"],
            "split": table["split"],
        }
    )


def read_labels(root: Path, labeler: str = "chexpert") -> pa.Table:
    """Read the labels of all studies.

    Args:
        root: The folder of MIMIC-CXR-JPG, or one of its csv files.
        labeler: The program that read the reports: chexpert or negbio.

    Returns:
        One row a study: study_id (digits) and the 14 LABELS, float64: 1.0 present, 0.0 absent, -1.0 uncertain, null not
        mentioned.

    Raises:
        InputError: A file is missing or malformed; the error names file, row and column.
        ValueError: The labeler is unknown.
    """
    if labeler not in LABELERS:
        raise ValueError(f"labeler {labeler!r}: expected one of {', '.join(LABELERS)}")
    path = layouts.find_label_file("mimic_cxr", root, labeler)
    if path is None:
        raise _build_missing_file_error(root, labeler)
    table = csv_table.read(path, {"study_id": pa.string()} | dict.fromkeys(LABELS, pa.float64()), action=ACTION)
    _check_number(table, path, "study_id")
    csv_table.require_once(table["study_id"], path, "study_id", action=ACTION)
    allowed = pa.array([None, 1.0, 0.0, -1.0], pa.float64())
    for label in LABELS:
        good = pc.is_in(table[label], value_set=allowed)
        csv_table.require(good, table[label], path, label, expected="1.0, 0.0, -1.0 or blank", action=ACTION)
    return table


def read_report(roots: Mapping[str, Path], subject_id: str, study_id: str) -> str | None:
    """Read the report of a study.

    The report is files/p10/p10000032/s50414267.txt, with or without `files/`, below the root of `mimic_cxr_reports` or
    else `mimic_cxr`. The text is UTF-8. Invalid UTF-8 is decoded as Windows-1252, which does not change ASCII.

    Args:
        roots: The root of each source.
        subject_id: The patient, 8 digits.
        study_id: The study, 8 digits.

    Returns:
        The report, or None if it is missing or empty.

    Raises:
        InputError: The report cannot be opened.
    """
    name = f"{_build_study_path(subject_id, study_id)}.txt"
    for root in (roots[source] for source in REPORT_SOURCES if source in roots):
        folder = root.parent if root.is_file() else root
        for path in (folder / candidate for candidate in list_image_paths(name)):
            try:
                data = limits.read_bytes(path, limits.REPORT_BYTES)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise InputError(path, f"cannot be read ({error.strerror})", action="check the file") from None
            return _decode(data).strip() or None
    return None


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")


def _build_study_path(subject_id: str, study_id: str) -> str:
    return f"files/p{subject_id[:2]}/p{subject_id}/s{study_id}"


def _build_keys(subject_id: pa.ChunkedArray, study_id: pa.ChunkedArray, dicom_id: pa.ChunkedArray) -> pa.ChunkedArray:
    """Build the keys of all images at once."""
    group = pc.utf8_slice_codeunits(subject_id, 0, 2)
    path = pc.binary_join_element_wise("files/p", group, "/p", subject_id, "/s", study_id, "/", dicom_id, ".jpg", "")
    return pc.cast(path, pa.string())


def _build_missing_file_error(root: Path, kind: str) -> InputError:
    name = f"mimic-cxr-2.0.0-{kind}.csv.gz"
    action = "name the folder of MIMIC-CXR-JPG that holds it, or complete the copy"
    return InputError(root, f"holds no {name}", expected=f"{name} (or .csv) next to the folder files", action=action)


def _check_number(table: pa.Table, path: Path, column: str) -> None:
    good = pc.match_substring_regex(table[column], NUMBER)
    csv_table.require(good, table[column], path, column, expected="8 digits", action=ACTION)


def _check_ids(table: pa.Table, path: Path) -> None:
    good = pc.match_substring_regex(table["dicom_id"], DICOM_ID)
    expected = "five groups of 8 hexadecimal digits"
    csv_table.require(good, table["dicom_id"], path, "dicom_id", expected=expected, action=ACTION)
    csv_table.require_once(table["dicom_id"], path, "dicom_id", action=ACTION)
    _check_number(table, path, "subject_id")
    _check_number(table, path, "study_id")


def _read_splits(path: Path, dicom_id: pa.ChunkedArray, metadata: Path) -> pa.ChunkedArray:
    """Read the split of each image of the metadata file, by the names of SPLITS."""
    table = csv_table.read(path, dict.fromkeys(("dicom_id", "split"), pa.string()), action=ACTION)
    csv_table.require_once(table["dicom_id"], path, "dicom_id", action=ACTION)
    code = pc.index_in(table["split"], value_set=pa.array(list(SPLITS)))
    csv_table.require(
        pc.is_valid(code), table["split"], path, "split", expected="train, validate or test", action=ACTION
    )
    index = pc.index_in(dicom_id, value_set=table["dicom_id"].combine_chunks())
    expected = f"an image that {path.name} has too"
    csv_table.require(pc.is_valid(index), dicom_id, metadata, "dicom_id", expected=expected, action=ACTION)
    return pa.array(list(SPLITS.values())).take(code.take(index))
