"""CheXStruct (CXReasonBench): which structured finding an OpenI image has, one csv a finding.

Source: Lee et al., "CXReasonBench: A Benchmark for Evaluating Structured Diagnostic Reasoning in Chest X-rays" (2025).
The release labels an image only where its own measurement passed a quality check; an image without a row in a file is
unknown there, never 0. It holds labels and no pixels: the images are those of OpenI.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa

from . import csv_table
from .errors import InputError

FOLDER = "openi"
# The files of the release whose label says that a finding is there; its other files grade how an image was taken.
FINDINGS = (
    "aortic_knob_enlargement",
    "ascending_aorta_enlargement",
    "cardiomegaly",
    "descending_aorta_enlargement",
    "descending_aorta_tortuous",
    "mediastinal_widening",
    "trachea_deviation",
)
IMAGE_COLUMNS = ("image_file", "image_id")  # the files have the first name, the release's description the second
LABELS = {"1.0": 1, "1": 1, "0.0": 0, "0": 0}
ACTION = "use the csv files of the CheXStruct release (folder openi), unchanged"


def image_paths(key: str) -> tuple[str, ...]:
    """Where a key may lie below the root. CheXStruct has no images; rows made from it reference OpenI's."""
    return (key,)


def label_files(root: Path, findings: Sequence[str] = FINDINGS) -> dict[str, Path]:
    """The csv of each finding below `root`, which holds the folder `openi` (one level deeper at most) or is it.

    Raises InputError that names the first file that is missing, and for an unknown finding.
    """
    folders = (root / FOLDER, *sorted(root.glob(f"*/{FOLDER}")), root)
    files = {}
    for finding in findings:
        if finding not in FINDINGS:
            raise InputError(
                f"CheXStruct finding {finding!r}", "no such file", expected=f"one of {', '.join(FINDINGS)}"
            )
        found = next((path for folder in folders if (path := folder / f"{finding}.csv").is_file()), None)
        if found is None:
            raise InputError(root, f"lacks {FOLDER}/{finding}.csv", expected="the release's csv files", action=ACTION)
        files[finding] = found
    if len({path.parent for path in files.values()}) > 1:
        places = ", ".join(sorted({str(path.parent) for path in files.values()}))
        raise InputError(root, f"holds several incomplete copies ({places})", action="give the folder of one copy")
    return files


def read_labels(root: Path, findings: Sequence[str] = FINDINGS) -> dict[str, dict[str, int]]:
    """OpenI image id (`CXR10_IM-0002-1001`) -> {finding: 1 or 0}, in numeric order of reports, then by id.

    A finding that an image has no row for is not in its dictionary. Raises InputError naming file, row and column.
    """
    labels: dict[str, dict[str, int]] = {}
    for finding, path in label_files(root, findings).items():
        for image, label in _read_file(path):
            labels.setdefault(image, {})[finding] = label
    return {image: labels[image] for image in sorted(labels, key=lambda image: (report_number(image), image))}


def report_number(image: str) -> int:
    """Number of the report that an OpenI image belongs to: 10 for `CXR10_IM-0002-1001`."""
    return int(image.removeprefix("CXR").split("_")[0])


def _read_file(path: Path) -> Iterable[tuple[str, int]]:
    """(OpenI image id, label) of each row of one csv."""
    names = csv_table.header(path, action=ACTION)
    column = next((name for name in IMAGE_COLUMNS if name in names), IMAGE_COLUMNS[0])
    others = [name for name in names if name not in (column, "label")]
    table = csv_table.read(path, dict.fromkeys([column, "label", *others], pa.string()), action=ACTION)
    labels: dict[str, int] = {}
    for row, cells in enumerate(zip(*(values.to_pylist() for values in table), strict=True), 1):
        name, label, *measures = cells
        if row == 1 and (name or "").isdigit() and label is None and not any(measures):
            continue  # some files of the release begin with a row `1,,,`: a number in place of the image, nothing else
        image = _image(name or "", path, row, column)
        if image in labels:
            found = f"{name!r} is in an earlier row, too"
            raise InputError(path, found, row=row, column=column, expected="an image once", action=ACTION)
        if label not in LABELS:
            found = f"label {label or ''!r}"
            raise InputError(path, found, row=row, column="label", expected="1.0 or 0.0", action=ACTION)
        labels[image] = LABELS[label]
    return labels.items()


def _image(name: str, path: Path, row: int, column: str) -> str:
    """The OpenI image id of a DICOM file name. Report 1 repeats its number: 1_IM-0001-3001 is CXR1_1_IM-0001-3001."""
    match = re.fullmatch(r"((?P<number>[1-9][0-9]{0,7})_[A-Za-z0-9_-]+)\.dcm", name)
    if not match:
        expected = "the name of an OpenI DICOM file, 1234_IM-0157-4004.dcm"
        raise InputError(path, f"image {name!r}", row=row, column=column, expected=expected, action=ACTION)
    return ("CXR1_" if match["number"] == "1" else "CXR") + match[1]
