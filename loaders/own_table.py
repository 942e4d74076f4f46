"""Read a table of a user's own questions: csv, tsv, jsonl, json or Parquet. The images are in a folder of the user's.

A row of the table is a record: column -> value. Values of csv files are texts; the other formats keep lists, numbers
and objects. No row is left out in silence: a csv cell with a line break is refused unless the user says that the table
has such cells, because one stray quote can hide the rows that follow it.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from . import json_text, limits, placeholders, unpacking
from .errors import InputError

Record = dict[str, Any]
DELIMITERS = (",", ";", "\t", "|")
EXPORT = "export the table as csv in UTF-8, as jsonl or as Parquet"
SEPARATOR_LINE = re.compile(r"sep=(.)[\r\n]+")  # the first line, which Excel writes and reads
LINE_BREAKS = "multiline"  # the entry of a mapping that allows line breaks in cells


def list_image_paths(key: str) -> list[str]:
    """List the paths below the folder of images at which an image may be.

    Args:
        key: The key of the image.

    Returns:
        The key itself.
    """
    return [key]


def find_table(root: Path) -> Path:
    """Find the table.

    Args:
        root: The table, or a folder with one table.

    Returns:
        The path of the table.

    Raises:
        InputError: The folder has no table, or several, or the file is of no known format.
    """
    if not root.is_dir():
        _get_reader(root)
        return root
    visible_paths = (path for path in root.iterdir() if not path.name.startswith("."))
    tables = sorted(path for path in visible_paths if _get_suffix(path) in READERS and path.is_file())
    if len(tables) != 1:
        problem = (
            f"holds {len(tables)} tables ({', '.join(path.name for path in tables)})" if tables else "holds no table"
        )
        raise InputError(root, problem, expected=f"one file of {', '.join(READERS)}", action="name the file itself")
    return tables[0]


def read_records(path: Path, *, multiline: bool = False) -> list[Record]:
    """Read all rows of a table.

    Args:
        path: The table.
        multiline: Whether the cells of a csv file may have line breaks.

    Returns:
        One record per row, in the file's order.

    Raises:
        InputError: The format is unknown, the file is damaged or empty, a row has another width, or a cell has a line
            break that is not allowed.
    """
    reader = _get_reader(path)
    try:
        limits.require_file(path)
        with path.open("rb") as file:
            placeholders.refuse_placeholder(path, file.read(placeholders.HEAD_BYTES))
        records = list(reader(path, multiline))
    except (OSError, EOFError, pa.ArrowException) as error:
        problem = f"cannot be read ({str(error).splitlines()[0]})"
        raise InputError(path, problem, expected=f"a readable {_get_suffix(path)} file", action=EXPORT) from None
    if not records:
        raise InputError(path, "has no row", action="name a table with at least one question")
    return records


def _read_delimited(path: Path, multiline: bool) -> Iterator[Record]:
    """Read a csv or tsv file. A line `sep=;` of Excel names the delimiter; without it, the header has it most often.

    Columns without a name and without content, which spreadsheets leave at the end, are skipped.
    """
    text = _read_text(path)
    separator_line = SEPARATOR_LINE.match(text)
    text = text[separator_line.end() :] if separator_line else text
    first_line = re.split("[\r\n]", text, maxsplit=1)[0]
    delimiter = separator_line[1] if separator_line else max(DELIMITERS, key=first_line.count)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    names: list[str] = []
    n_cells = number = 0
    csv.field_size_limit(limits.TEXT_BYTES)
    try:
        for cells in lines:
            if not names:
                n_cells = len(cells)
                names = [cell.strip() for cell in cells]
                has_blank_end = names.count("") > 1  # a single column without a name may be an index
                while has_blank_end and names and not names[-1]:
                    names.pop()
                _check_names(path, names)
                continue
            if not cells:  # an empty line
                continue
            number += 1
            if len(cells) != n_cells or any(map(str.strip, cells[len(names) :])):
                problem = f"has {len(cells)} cells" if len(cells) != n_cells else "has a cell below no name"
                expected = f"{n_cells} cells, as the header has"
                action = 'put a cell that has the separator between quotes, and double the quotes in it ("")'
                raise InputError(path, problem, row=number, expected=expected, action=action)
            record = dict(zip(names, cells[: len(names)], strict=True))
            if not multiline:
                _require_single_lines(path, number, record)
            yield record
    except csv.Error as error:
        action = 'a quote (") inside a cell must be doubled (""), and the cell be between quotes'
        raise InputError(path, f"is no sound csv ({error})", row=number + 1, action=action) from None


def _require_single_lines(path: Path, number: int, record: Mapping[str, str]) -> None:
    for name, cell in record.items():
        if "\n" in cell or "\r" in cell:
            action = (
                'delete a stray quote (") that opens the cell and hides the rows after it; or, if the line breaks are '
                f"meant, write {LINE_BREAKS} = true into the mapping"
            )
            problem = f"the cell has a line break: {cell.strip()[:60]!r}"
            raise InputError(path, problem, row=number, column=name, expected="one row a line", action=action)


def _read_text(path: Path) -> str:
    data = limits.read_bytes(path, limits.TABLE_BYTES)
    if data.startswith(unpacking.GZIP):
        with gzip.open(io.BytesIO(data)) as stream:
            data = stream.read(limits.TABLE_BYTES + 1)
        if len(data) > limits.TABLE_BYTES:
            raise InputError(path, f"more than {limits.TABLE_BYTES:,} bytes when unpacked", action=EXPORT)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(path, f"line {line} is no UTF-8 text", expected="UTF-8 text", action=EXPORT) from None
    if "\0" in text:
        raise InputError(path, "holds characters of value 0", expected="UTF-8 text", action=EXPORT)
    return text.lstrip("\r\n")


def _check_names(path: Path, names: list[str]) -> list[str]:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        problem = f"the header has the column {Counter(names)[repeated[0]]} times"
        raise InputError(path, problem, column=repeated[0], action="rename or delete one of them")
    return names


def _read_jsonl(path: Path, _: bool) -> Iterator[Record]:
    for number, line in enumerate(_read_text(path).split("\n"), start=1):
        if line.strip():
            try:
                yield _require_record(path, number, json_text.parse(line, json_text.require_unique_names))
            except ValueError as error:
                raise InputError(path, f"is no JSON ({error})", row=number, expected="one object a line") from None


def _read_json(path: Path, _: bool) -> Iterator[Record]:
    expected = "a list of objects, one for each question"
    text = _read_text(path)
    try:
        content = json_text.parse(text, json_text.require_unique_names)
    except ValueError as error:
        if text.partition("\n")[0].rstrip().endswith("}"):  # many name JSON lines .json
            yield from _read_jsonl(path, False)
            return
        raise InputError(path, f"cannot be read as JSON ({error})", expected=expected, action=EXPORT) from None
    records = _unwrap_records(content)
    if not isinstance(records, list):
        raise InputError(path, f"holds a {type(content).__name__}", expected=expected, action=EXPORT)
    for number, item in enumerate(records, start=1):
        yield _require_record(path, number, item)


def _unwrap_records(content: Any) -> Any:
    """Unwrap the one list of objects in an object, or the rows of an object of columns, as pandas writes them.

    Any other content is returned unchanged.
    """
    if not isinstance(content, dict):
        return content
    lists = [value for value in content.values() if isinstance(value, list) and value and isinstance(value[0], dict)]
    if len(lists) == 1:
        return lists[0]
    columns = [value for value in content.values() if isinstance(value, dict)]
    if columns and len(columns) == len(content) and all(column.keys() == columns[0].keys() for column in columns):
        return [{name: column[key] for name, column in content.items()} for key in columns[0]]
    return content


def _require_record(path: Path, number: int, item: Any) -> Record:
    if not isinstance(item, dict):
        raise InputError(path, f"is a {type(item).__name__}", row=number, expected="an object: column -> value")
    return item


def _read_parquet(path: Path, _: bool) -> Iterator[Record]:
    file = parquet.ParquetFile(path)
    _check_names(path, file.schema_arrow.names)
    for field in file.schema_arrow:
        if _holds_bytes(field.type):
            action = (
                "save the images as files of a folder, and write their names into the column: rows refer to images, "
                "and never hold them"
            )
            raise InputError(path, "the cells hold images", column=field.name, expected="names of files", action=action)
    for batch in file.iter_batches(batch_size=5_000):
        yield from batch.to_pylist()


def _holds_bytes(kind: pa.DataType) -> bool:
    """Return whether the cells of a column hold bytes, also within lists and structs."""
    if pa.types.is_nested(kind):
        return any(_holds_bytes(kind.field(n).type) for n in range(kind.num_fields))
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)


Reader = Callable[[Path, bool], Iterator[Record]]
READERS: Mapping[str, Reader] = {
    ".csv": _read_delimited,
    ".tsv": _read_delimited,
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".json": _read_json,
    ".parquet": _read_parquet,
}


def _get_suffix(path: Path) -> str:
    """Get the suffix that tells the format, without a .gz at the end."""
    name = path.name.lower().removesuffix(".gz")
    return Path(name).suffix


def _get_reader(path: Path) -> Reader:
    suffix = _get_suffix(path)
    if suffix not in READERS:
        problem = f"is a {suffix} file" if suffix else "has no suffix that tells its format"
        raise InputError(path, problem, expected=f"one of {', '.join(READERS)}", action=EXPORT)
    return READERS[suffix]
