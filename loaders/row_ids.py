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
    """id -> the number of its row in the file, in its order; an id that comes again counts once.

    Raises:
        InputError: no such file, no csv with a column `id`, or a blank id.
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
    """Writes the rows with the columns of the first one, which begin with `id`; without rows the header alone."""
    with atomic_file(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else ["id"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def require_known(path: str | Path, known: Collection[str], where: str) -> None:
    """Raises InputError for the first id of the file that is not in `known`, the ids that `where` has."""
    unknown = {row_id: number for row_id, number in read_ids(path).items() if row_id not in known}
    if unknown:
        row_id, number = next(iter(unknown.items()))
        others = f", nor are {len(unknown) - 1:,} others" if len(unknown) > 1 else ""
        found = f"{row_id!r} is no row of {where}{others}"
        raise InputError(path, found, row=number, column="id", expected=f"ids of rows of {where}", action=_ACTION)
