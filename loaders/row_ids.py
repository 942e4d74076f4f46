"""Files that name rows of the data sets by their ids: a csv with a column `id`; other columns are for people."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from . import csv_table
from .atomic import atomic_file
from .errors import InputError

_ACTION = "name a csv with a column id, as medfaith audit writes blind_clean.csv"


def read_ids(path: str | Path) -> dict[str, int]:
    """Read the row ids of a csv file.

    Args:
        path: The csv file, with a column `id`.

    Returns:
        The 1-based row number of each id, in the file's order; a repeated id has the number of its first row.

    Raises:
        InputError: The file is missing, is not a csv with a column `id`, or has a blank id.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(path, "there is no such file", expected="a file that names rows", action=_ACTION)
    table = csv_table.read(path, {"id": pa.string()}, action=_ACTION)
    csv_table.require_filled(table, ["id"], path, action=_ACTION)
    numbers: dict[str, int] = {}
    for number, row_id in enumerate(table["id"].to_pylist(), start=1):
        numbers.setdefault(row_id, number)
    return numbers


def write_ids(path: Path, rows: Sequence[Mapping[str, str]]) -> None:
    """Write rows to a csv file. Without rows, write the header alone.

    Args:
        path: The csv file.
        rows: The rows; the first one gives the columns, which begin with `id`.
    """
    with atomic_file(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else ["id"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def require_known(path: str | Path, known_ids: Collection[str], where: str) -> None:
    """Raise an error if the file names an id that does not exist.

    Args:
        path: The csv file of ids.
        known_ids: The ids that exist.
        where: The name of the data set, for the message.

    Raises:
        InputError: An id of the file is missing from `known_ids`; the error names the first one.
    """
    unknown = {row_id: number for row_id, number in read_ids(path).items() if row_id not in known_ids}
    if unknown:
        row_id, number = next(iter(unknown.items()))
        remainder = f", nor are {len(unknown) - 1:,} others" if len(unknown) > 1 else ""
        problem = f"{row_id!r} is no row of {where}{remainder}"
        raise InputError(path, problem, row=number, column="id", expected=f"ids of rows of {where}", action=_ACTION)
