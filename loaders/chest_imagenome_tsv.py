"""The gold dataset's tables of sentences (Chest ImaGenome 1.0.0): cells parted by tabs, one of them a report's text."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from . import mimic_cxr
from .errors import InputError

IMAGE_ID = r"^[0-9a-f]{8}(-[0-9a-f]{8}){4}(\.dcm)?$"
ACTION = "use the files of Chest ImaGenome 1.0.0 (PhysioNet), unchanged"


def table(path: Path, names: Sequence[str]) -> pa.Table:
    """The columns `names`, all strings; DICOM ids lose their ".dcm". Raises InputError as `rows` does."""
    found = list(rows(path, names))
    columns = {name: [row[name] for row in found] for name in names}
    columns |= {n: [v.removesuffix(".dcm") for v in columns[n]] for n in names if n.endswith("image_id")}
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def rows(path: Path, names: Sequence[str]) -> Iterator[dict[str, str]]:
    """The cells `names` of each row, none of them blank; a sentence in quotes may go over several lines.

    Raises InputError naming file, row and column: no TSV, a missing column, a blank cell, an id of another form.
    """
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
