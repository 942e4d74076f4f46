"""CheXpert v1.0 and v1.0-small: label files as Arrow tables, one row an image.

Source: Irvin et al., "CheXpert: A Large Chest Radiograph Dataset with Uncertainty Labels and Expert Comparison" (2019).
"""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from .errors import InputError

LABELS = (
    "No Finding", "Enlarged Cardiomediastinum", "Cardiomegaly", "Lung Opacity", "Lung Lesion", "Edema", "Consolidation",
    "Pneumonia", "Atelectasis", "Pneumothorax", "Pleural Effusion", "Pleural Other", "Fracture", "Support Devices",
)  # fmt: skip
COLUMNS = ("Path", "Sex", "Age", "Frontal/Lateral", "AP/PA", *LABELS)
PREFIXES = ("CheXpert-v1.0-small/", "CheXpert-v1.0/")
FOLDERS = {"train": "train", "validation": "valid", "test": "test"}
FILES = {
    "train": ("train.csv", "train.csv.gz", "chexpert_train.csv.gz"),
    "validation": ("valid.csv", "valid.csv.gz"),
    "test": ("groundtruth.csv", "groundtruth.csv.gz", "test/groundtruth.csv", "test_labels.csv"),
}
# Either official prefix, or none, and below it the key that rows carry.
PREFIX = r"^(?:CheXpert-v1\.0(?:-small)?/)?"
IMAGE_PATH = r"(?P<key>%s/(?P<study_id>patient\d+/study\d+)/view(?P<view>\d{1,3})_(?:frontal|lateral)\.(?:jpg|png))$"
STUDY_PATH = r"test/(?P<study_id>patient\d+/study\d+)$"
ACTION = "use the official csv of CheXpert-v1.0 or CheXpert-v1.0-small, unchanged"


def image_paths(key: str) -> tuple[str, ...]:
    """Where the image of a row's key may lie below the user's root, most likely first."""
    return (key, *(prefix + key for prefix in PREFIXES))


def label_file(root: Path, split: str) -> Path | None:
    """The label file of `split` (train, validation, test) below `root`, or None. `root` may be that file itself."""
    if root.is_file():
        return root if _split_of(root) == split else None
    for folder in (root, *(root / prefix for prefix in PREFIXES)):
        for name in FILES[split]:
            if (folder / name).is_file():
                return folder / name
    return None


def label_files(root: Path) -> dict[str, Path]:
    """The label files that `root` holds, by split. Raises InputError when it holds none."""
    found = {split: path for split in FILES if (path := label_file(root, split)) is not None}
    if not found:
        what = "is not a CheXpert label file" if root.is_file() else "holds no CheXpert label file"
        names = "train.csv, valid.csv (or .csv.gz), at its top or in CheXpert-v1.0-small/"
        raise InputError(root, what, expected=names, action=ACTION)
    return found


def read_labels(path: Path, split: str) -> pa.Table:
    """One row an image of train.csv or valid.csv, in the file's order.

    Columns: study_id `patient00001/study1`, dictionary-encoded; key, the image's path below the official root; view,
    AP / PA / ... as the source says, `lateral` or `frontal` where it says no more; view_number int32; and the 14
    labels as float64 1.0 / 0.0 / -1.0 (uncertain) / null (not mentioned).
    Raises InputError naming file, row and column.
    """
    table = _read_csv(path, COLUMNS, dict.fromkeys(LABELS, pa.float64()))
    parts = pc.extract_regex(table["Path"], pattern=PREFIX + IMAGE_PATH % FOLDERS[split])
    example = f"CheXpert-v1.0-small/{FOLDERS[split]}/patient00001/study1/view1_frontal.jpg (either prefix, or none)"
    _all_valid(pc.is_valid(parts), path, "Path", table["Path"], example)
    study_id = pc.struct_field(parts, "study_id").combine_chunks().dictionary_encode()
    view_number = pc.cast(pc.struct_field(parts, "view"), pa.int32())
    _no_duplicates(study_id.indices.to_numpy(), view_number.to_numpy(), table["Path"], path)
    for label in LABELS:
        _check_label(table[label], path, label)
    projection = pc.coalesce(_blank_to_null(table["AP/PA"]), pc.utf8_lower(table["Frontal/Lateral"]))
    return pa.table(
        {
            "study_id": study_id,
            "key": pc.struct_field(parts, "key"),
            "view": projection,
            "view_number": view_number,
            **{label: table[label] for label in LABELS},
        }
    )


def read_test_labels(path: Path) -> pa.Table:
    """One row a study of the test set's groundtruth.csv: study_id and the 14 labels (0.0 / 1.0). Raises InputError."""
    table = _read_csv(path, ("Study", *LABELS), dict.fromkeys(LABELS, pa.float64()))
    parts = pc.extract_regex(table["Study"], pattern=PREFIX + STUDY_PATH)
    _all_valid(pc.is_valid(parts), path, "Study", table["Study"], "CheXpert-v1.0/test/patient64741/study1")
    study_id = pc.struct_field(parts, "study_id").combine_chunks().dictionary_encode()
    code = study_id.indices.to_numpy()
    _no_duplicates(code, np.zeros_like(code), table["Study"], path)
    for label in LABELS:
        _check_label(table[label], path, label)
    return pa.table({"study_id": study_id.dictionary, **{label: table[label] for label in LABELS}})


def _split_of(path: Path) -> str | None:
    """Which split a lone csv is, by its first row: people rename these files."""
    try:
        with pa.csv.open_csv(path, read_options=pa.csv.ReadOptions(block_size=1 << 16)) as reader:
            first = reader.read_next_batch()
    except (pa.ArrowInvalid, OSError, StopIteration):
        return next((split for split, names in FILES.items() if path.name in names), None)
    if first.num_columns and first.schema.names[0] == "Study":
        return "test"
    if "Path" not in first.schema.names or not first.num_rows:
        return None
    parts = str(first["Path"][0].as_py()).split("/")
    return next((split for split, folder in FOLDERS.items() if folder in parts[:2]), None)


def _read_csv(path: Path, columns: tuple[str, ...], types: dict[str, pa.DataType]) -> pa.Table:
    # Blank alone is null: pyarrow would also take NA, NaN, NULL ... for it.
    options = pa.csv.ConvertOptions(
        column_types={name: types.get(name, pa.string()) for name in columns}, null_values=[""]
    )
    try:
        table = pa.csv.read_csv(path, convert_options=options)
    except (pa.ArrowInvalid, OSError, EOFError) as error:
        raise _explain_csv(path, columns, error) from None
    for name in columns:
        if table.column_names.count(name) > 1:
            raise InputError(path, "the column stands more than once", column=name, action=ACTION)
        if name not in table.column_names:
            raise InputError(
                path,
                "the column is missing",
                column=name,
                expected="the official header: " + ",".join(columns),
                action=ACTION,
            )
    if not table.num_rows:
        raise InputError(path, "the file has a header and no rows", action=ACTION)
    return table.select(columns)


def _explain_csv(path: Path, columns: tuple[str, ...], error: Exception) -> InputError:
    """Why pyarrow refused the file: a cell that is no number is looked up again, so that the message can name it."""
    if "UTF8" in str(error):
        row, found = _not_utf8(path)
        return InputError(path, found, row=row, expected="UTF-8 text", action=ACTION)
    try:
        as_text = pa.csv.read_csv(
            path, convert_options=pa.csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string()))
        )
    except (pa.ArrowInvalid, OSError, EOFError):
        cause = str(error).splitlines()[0]
        return InputError(
            path,
            f"cannot be read to its end as csv ({cause})",
            expected=f"a complete csv or csv.gz with the columns {','.join(columns)}",
            action="download it again and compare its size or checksum with the source's",
        )
    for label in LABELS:
        if label in as_text.column_names:
            numbers = pc.match_substring_regex(as_text[label], r"^\s*(-?\d+(\.\d*)?)?\s*$")
            bad = np.flatnonzero(~numbers.fill_null(True).to_numpy())
            if bad.size:
                return _bad_label(path, label, int(bad[0]), as_text[label][int(bad[0])].as_py())
    return InputError(path, str(error).splitlines()[0], action=ACTION)


def _not_utf8(path: Path) -> tuple[int | None, str]:
    """1-based data row of the first line that is no UTF-8, and what is wrong with it."""
    data = path.read_bytes()
    for number, line in enumerate((gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            return number or None, f"is no UTF-8 text ({error.reason})"
    return None, "is no UTF-8 text"


def _bad_label(path: Path, label: str, row: int, value: object) -> InputError:
    return InputError(
        path, f"label {value!r}", row=row + 1, column=label, expected="1.0, 0.0, -1.0 or blank", action=ACTION
    )


def _check_label(values: pa.ChunkedArray, path: Path, label: str) -> None:
    seen = pc.unique(values)
    if all(v.as_py() in (None, 1.0, 0.0, -1.0) for v in seen):
        return
    good = pc.is_in(values, value_set=pa.array([None, 1.0, 0.0, -1.0], pa.float64()))
    row = int(np.flatnonzero(~good.to_numpy())[0])
    raise _bad_label(path, label, row, values[row].as_py())


def _all_valid(good: pa.ChunkedArray, path: Path, column: str, values: pa.ChunkedArray, expected: str) -> None:
    good = pc.fill_null(good, False)
    if not pc.all(good).as_py():
        row = int(np.flatnonzero(~good.to_numpy())[0])
        found = f"{values[row].as_py()!r} is in no known layout"
        raise InputError(path, found, row=row + 1, column=column, expected=expected, action=ACTION)


def _no_duplicates(study: np.ndarray, view: np.ndarray, values: pa.ChunkedArray, path: Path) -> None:
    """Each (study, view number) once; study and view are (rows,) integers."""
    code = study.astype(np.int64) << 32 | view
    ordered = np.sort(code)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if not repeated.size:
        return
    before, row = np.flatnonzero(code == repeated[0])[:2].tolist()
    raise InputError(
        path,
        f"{values[row].as_py()!r} repeats row {before + 1}",
        row=row + 1,
        expected="each study's view once",
        action=ACTION,
    )


def _blank_to_null(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)
