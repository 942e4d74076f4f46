"""CheXStruct (CXReasonBench): the structured findings of OpenI images, one csv a finding.

Source: Lee et al., "CXReasonBench: A Benchmark for Evaluating Structured Diagnostic Reasoning in Chest X-rays" (2025).
The release labels an image only if its own measurement passed a quality check. The label of an image without a row in
a file is unknown, never 0. The release holds labels and no pixels: the images are OpenI's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa

from . import csv_table, layouts
from .errors import InputError

FOLDER = "openi"
# The files of the release that label the presence of a finding; its other files grade the acquisition of an image.
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


def list_image_paths(key: str) -> tuple[str, ...]:
    """List the candidate paths of a key. CheXStruct has no images; its rows reference OpenI's.

    Args:
        key: The key.

    Returns:
        The key alone.
    """
    return (key,)


def find_label_files(root: Path, findings: Sequence[str] = FINDINGS) -> dict[str, Path]:
    """Find the csv of each finding.

    Args:
        root: The folder `openi` of the release, or a folder that contains it, at most one level deeper.
        findings: The names of the findings.

    Returns:
        The paths by finding.

    Raises:
        InputError: A finding is unknown, or a file is missing; the error names the first one.
    """
    files = {}
    for finding in findings:
        if finding not in FINDINGS:
            raise InputError(
                f"CheXStruct finding {finding!r}", "no such file", expected=f"one of {', '.join(FINDINGS)}"
            )
        csv_path = layouts.find_label_file("chexstruct", root, finding)
        if csv_path is None:
            raise InputError(root, f"has no {FOLDER}/{finding}.csv", expected="the release's csv files", action=ACTION)
        files[finding] = csv_path
    if len({path.parent for path in files.values()}) > 1:
        places = ", ".join(sorted({str(path.parent) for path in files.values()}))
        raise InputError(root, f"holds several incomplete copies ({places})", action="give the folder of one copy")
    return files


def read_labels(root: Path, findings: Sequence[str] = FINDINGS) -> dict[str, dict[str, int]]:
    """Read the labels of all images.

    Args:
        root: The folder of the release.
        findings: The names of the findings.

    Returns:
        OpenI image id (`CXR10_IM-0002-1001`) -> {finding: 1 or 0}, in numeric order of reports, then by id. A finding
        without a row for the image is missing from its dictionary.

    Raises:
        InputError: A file is missing or malformed; the error names file, row and column.
    """
    labels: dict[str, dict[str, int]] = {}
    for finding, path in find_label_files(root, findings).items():
        for image, label in _read_file(path):
            labels.setdefault(image, {})[finding] = label
    return {image: labels[image] for image in sorted(labels, key=lambda image: (parse_report_number(image), image))}


def parse_report_number(image: str) -> int:
    """Parse the number of the report of an OpenI image: 10 for `CXR10_IM-0002-1001`.

    Args:
        image: The OpenI image id.

    Returns:
        The number.
    """
    return int(image.removeprefix("CXR").split("_")[0])


def _read_file(path: Path) -> Iterable[tuple[str, int]]:
    """Read (OpenI image id, label) from each row of a csv."""
    names = csv_table.header(path, action=ACTION)
    column = next((name for name in IMAGE_COLUMNS if name in names), IMAGE_COLUMNS[0])
    other_columns = [name for name in names if name not in (column, "label")]
    table = csv_table.read(path, dict.fromkeys([column, "label", *other_columns], pa.string()), action=ACTION)
    labels: dict[str, int] = {}
    for row, cells in enumerate(zip(*(values.to_pylist() for values in table), strict=True), 1):
        name, label, *measures = cells
        if row == 1 and (name or "").isdigit() and label is None and not any(measures):
            continue  # some files of the release begin with a row `1,,,`, without an image
        image = _parse_image_id(name or "", path, row, column)
        if image in labels:
            problem = f"{name!r} is in an earlier row, too"
            raise InputError(path, problem, row=row, column=column, expected="an image once", action=ACTION)
        if label not in LABELS:
            problem = f"label {label or ''!r}"
            raise InputError(path, problem, row=row, column="label", expected="1.0 or 0.0", action=ACTION)
        labels[image] = LABELS[label]
    return labels.items()


def _parse_image_id(name: str, path: Path, row: int, column: str) -> str:
    """Convert a DICOM file name to an OpenI image id; 1_IM-0001-3001 is CXR1_1_IM-0001-3001, only in report 1."""
    match = re.fullmatch(r"((?P<number>[1-9][0-9]{0,7})_[A-Za-z0-9_-]+)\.dcm", name)
    if not match:
        expected = "the name of an OpenI DICOM file, 1234_IM-0157-4004.dcm"
        raise InputError(path, f"image {name!r}", row=row, column=column, expected=expected, action=ACTION)
    return ("CXR1_" if match["number"] == "1" else "CXR") + match[1]
