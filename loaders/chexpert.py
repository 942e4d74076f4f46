"""CheXpert v1.0 and v1.0-small: label files as Arrow tables, one row an image.

Source: Irvin et al., "CheXpert: A Large Chest Radiograph Dataset with Uncertainty Labels and Expert Comparison" (2019).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from . import csv_table, layouts, sources
from .errors import InputError

LABELS = (
    "No Finding", "Enlarged Cardiomediastinum", "Cardiomegaly", "Lung Opacity", "Lung Lesion", "Edema", "Consolidation",
    "Pneumonia", "Atelectasis", "Pneumothorax", "Pleural Effusion", "Pleural Other", "Fracture", "Support Devices",
)  # fmt: skip
VIEW = ("Path", "Frontal/Lateral", "AP/PA")
FOLDERS = {"train": "train", "validation": "valid", "test": "test"}
BATCH = "CheXpert-v1.0 batch "  # the folders of the four archives that Stanford AIMI hands out
# Either official prefix, or none, and then the key that rows have.
PREFIX = r"^(?:CheXpert-v1\.0(?:-small)?/)?"
IMAGE_PATH = (
    r"(?:%s)/(?P<image>(?P<study_id>patient\d+/study\d+)/view(?P<view>\d{1,3})_(?P<side>frontal|lateral)\.(?:jpg|png))$"
)
ACTION = "use the official csv of CheXpert-v1.0 or CheXpert-v1.0-small, unchanged"


def list_image_paths(key: str) -> tuple[str, ...]:
    """List the candidate paths of an image below the root.

    Args:
        key: The key of a row's image.

    Returns:
        The paths, most likely first.
    """
    return layouts.list_image_paths("chexpert", key)


def label_file(root: Path, split: str) -> Path | None:
    """Find the label file of a split.

    Args:
        root: The folder of CheXpert, or a label file.
        split: train, validation or test.

    Returns:
        The path, or None if the root has no such file.
    """
    if root.is_file():
        return root if _detect_split(root) == split else None
    return layouts.find_label_file("chexpert", root, split)


def find_label_files(root: Path) -> dict[str, Path]:
    """Find the label files of all splits.

    Args:
        root: The folder of CheXpert, or a label file.

    Returns:
        The existing files, by split.

    Raises:
        InputError: The root has no label file, or is one of the batches of AIMI.
    """
    if root.name.startswith(BATCH):
        action = f"name the folder of all batches: --root chexpert={root.parent}"
        raise InputError(root, "is one batch of CheXpert, and its images are in all batches", action=action)
    paths = {split: path for split in FOLDERS if (path := label_file(root, split)) is not None}
    if not paths:
        problem = "is not a CheXpert label file" if root.is_file() else "holds no CheXpert label file"
        places = f"at its top, in CheXpert-v1.0-small/, or in {BATCH}1 (validate & csv)/"
        expected = f"train.csv, valid.csv (or .csv.gz), {places}"
        raise InputError(root, problem, expected=expected, action=ACTION)
    return paths


def read_labels(path: Path, split: str) -> pa.Table:
    """Read the labels of train.csv, valid.csv or CheXlocalize's test_labels.csv.

    Args:
        path: The csv file.
        split: train, validation or test. The table of the test set has no columns of the view.

    Returns:
        One row an image, in the file's order. Columns: study_id, like `patient00001/study1`, dictionary-encoded; key,
        the image's path below the official root; view, the source's AP / PA / ..., else `lateral` or `frontal`;
        view_number int32; and the 14 labels as float64, 1.0 / 0.0 / -1.0 (uncertain) / null (not mentioned).

    Raises:
        InputError: The file is malformed; the error names file, row and column.
    """
    table = _read_csv(path, VIEW if split != "test" else VIEW[:1])
    folder = FOLDERS[split]
    fields = pc.extract_regex(table["Path"], pattern=PREFIX + IMAGE_PATH % folder.replace("valid", "valid|val"))
    example = f"CheXpert-v1.0-small/{FOLDERS[split]}/patient00001/study1/view1_frontal.jpg (either prefix, or none)"
    csv_table.require(pc.is_valid(fields), table["Path"], path, "Path", expected=example, action=ACTION)
    studies = pc.struct_field(fields, "study_id").combine_chunks().dictionary_encode()
    view_number = pc.cast(pc.struct_field(fields, "view"), pa.int32())
    views = studies.indices.to_numpy() * np.int64(1_000) + view_number.to_numpy()  # a view has at most three digits
    csv_table.require_once(table["Path"], path, "Path", action=ACTION, codes=views)
    if split == "test":
        projection = pc.struct_field(fields, "side")
    else:
        projection = pc.coalesce(table["AP/PA"], pc.utf8_lower(table["Frontal/Lateral"]), "")
    return pa.table(
        {
            "study_id": studies,
            "key": pc.binary_join_element_wise(folder, pc.struct_field(fields, "image"), "/"),
            "view": projection,
            "view_number": view_number,
            **{label: table[label] for label in LABELS},
        }
    )


def _detect_split(path: Path) -> str | None:
    """Detect the split of a single csv by its first row, because people rename these files."""
    try:
        rows = csv_table.head(path)
    except InputError:
        return next((s for s, names in sources.source("chexpert").labels.items() if path.name in names), None)
    if rows.column_names[0] == "Study":
        return "test"
    if "Path" not in rows.column_names or not rows.num_rows:
        return None
    folders = str(rows["Path"][0].as_py()).split("/")[:2]
    splits_by_folder = {folder: split for split, folder in FOLDERS.items()} | {"val": "validation"}
    return next((split for folder, split in splits_by_folder.items() if folder in folders), None)


def _read_csv(path: Path, texts: tuple[str, ...]) -> pa.Table:
    """Read the columns `texts` and the 14 labels, and check the values."""
    table = csv_table.read(path, dict.fromkeys(texts, pa.string()) | dict.fromkeys(LABELS, pa.float64()), action=ACTION)
    allowed = pa.array([None, 1.0, 0.0, -1.0], pa.float64())
    for label in LABELS:
        good = pc.is_in(table[label], value_set=allowed)
        csv_table.require(good, table[label], path, label, expected="1.0, 0.0, -1.0 or blank", action=ACTION)
    return table
