"""The one reader of official csv and tsv files, as Arrow tables. A fault is an InputError with file, row and column.

Arrow reads a quote that never closes as one cell that holds the rest of the file, without an error. So `read` puts
a row of its own below the last one, and refuses the file where that row does not come back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from . import limits
from .errors import InputError

NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
WHOLE_NUMBER = r"^[+-]?[0-9]{1,9}$"
SIGNS = {",": "commas", ";": "semicolons", "\t": "tabs"}
HEAD_SIZE = 1 << 16  # bytes
LAST_ROW = "\x02last row\x03"
DOWNLOAD_AGAIN = "download it again and compare its size or checksum with the source's"


def head(path: Path, *, delimiter: str = ",", action: str = "") -> pa.Table:
    """The first rows of a csv or csv.gz, types as Arrow guesses them, without rows of another width.

    Raises InputError for a file without a header that can be read.
    """
    parsing = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=lambda row: "skip")
    try:
        limits.require_file(path)
        with pa.input_stream(path, compression="detect") as stream:
            first = stream.read(HEAD_SIZE)
        first_line = first.split(b"\n", 1)[0]
        if not _is_utf8(first_line) or b"\0" in first_line:  # such as the UTF-16 that spreadsheets save
            raise InputError(path, "line 1 is no UTF-8 text", expected="UTF-8 text", action=action)
        # Arrow writes a traceback to stderr where it would hand the handler a row that is no UTF-8.
        rows = first.decode(errors="replace").encode()
        return csv.read_csv(pa.BufferReader(rows), parse_options=parsing)
    except (pa.ArrowInvalid, OSError, EOFError) as error:
        found = f"cannot be read as csv ({str(error).splitlines()[0]})"
        action = _again(action)
        raise InputError(path, found, expected="a csv with a header", action=action) from None


def header(path: Path, *, delimiter: str = ",", action: str = "") -> list[str]:
    """The column names of a csv or csv.gz. Raises InputError as `head` does."""
    return head(path, delimiter=delimiter, action=action).column_names


def read(
    path: Path, types: Mapping[str, pa.DataType], *, action: str, delimiter: str = ",", has_header: bool = True
) -> pa.Table:
    """The columns `types` of a csv or csv.gz, in that order; a blank cell is null, other columns are left out.

    Types are string, float64 (finite) and int32. Blanks around a cell are left out; a cell in quotes may go over
    several lines. `action` is what a message tells the user to do. Where `has_header` is False, the file's columns are
    `types`, in their order.
    Raises InputError: not a complete csv, a row of another width, a column missing or there twice, no rows, a cell that
    is no number.
    """
    names = header(path, delimiter=delimiter, action=action) if has_header else list(types)
    _check_header(names, types, path, action, delimiter)
    table = _cells(path, names, types, action, delimiter, has_header=has_header)
    if table[0][-1].as_py() != LAST_ROW:
        found = 'a quote (") opens a cell and never closes it'
        raise InputError(path, found, expected="a complete file", action=_again(action))
    table = table.slice(0, table.num_rows - 1)
    if not table.num_rows:
        raise InputError(path, "the file has a header and no rows" if has_header else "is empty", action=action)
    cells = dict(zip(table.column_names, table.columns, strict=True))
    del table  # so that a column's text goes when its values are there
    return pa.table({name: _typed(cells.pop(name), kind, path, name, action) for name, kind in types.items()})


def require(
    good: pa.Array | pa.ChunkedArray, values: pa.ChunkedArray, path: Path, column: str, *, expected: str, action: str
) -> None:
    """Raises InputError for the first row where `good` is not true, quoting that row of `values`."""
    bad = np.flatnonzero(~np.asarray(pc.fill_null(good, False)))
    if bad.size:
        row = int(bad[0])
        value = values[row].as_py()
        found = "is blank" if value is None else f"{value!r}"
        raise InputError(path, found, row=row + 1, column=column, expected=expected, action=action)


def require_filled(table: pa.Table, columns: Iterable[str], path: Path, *, action: str) -> None:
    """Raises InputError for the first blank cell of the columns."""
    for column in columns:
        good = pc.is_valid(table[column])
        require(good, table[column], path, column, expected="a value in each row", action=action)


def require_once(
    values: pa.ChunkedArray, path: Path, column: str, *, action: str, codes: np.ndarray | None = None
) -> None:
    """Raises InputError that names the second row of the first value to come twice.

    codes: shape (n,), numbers that are equal where values have to count as equal; by default where they are equal.
    """
    texts = values.combine_chunks() if codes is None else None
    numbers: Any = codes if texts is None else texts.dictionary_encode(null_encoding="encode").indices.to_numpy()
    first = np.unique(numbers, return_index=True)[1]
    if first.size == numbers.size:
        return
    repeats = np.ones(numbers.size, dtype=bool)
    repeats[first] = False
    row = int(np.flatnonzero(repeats)[0])
    before = int(np.flatnonzero(numbers == numbers[row])[0])
    found = f"{values[row].as_py()!r} repeats row {before + 1}"
    raise InputError(path, found, row=row + 1, column=column, expected="each value once", action=action)


def _check_header(names: list[str], types: Mapping[str, pa.DataType], path: Path, action: str, delimiter: str) -> None:
    expected = "the official header, with " + delimiter.join(types)
    if len(names) == 1 < len(types):
        other = next((f", but by {SIGNS[sign]}" for sign in SIGNS if sign in names[0]), "")
        found = f"its cells are not separated by {SIGNS[delimiter]}{other}"
        raise InputError(path, found, expected=f"{SIGNS[delimiter]}: {delimiter.join(types)}", action=action)
    for name in types:
        count = names.count(name)
        if count != 1:
            found = f"the header has the column {count} times" if count else "the column is missing"
            raise InputError(path, found, column=name, expected=expected, action=action)


def _cells(
    path: Path, names: list[str], types: Mapping[str, pa.DataType], action: str, delimiter: str, *, has_header: bool
) -> pa.Table:
    """The columns as text, and below them LAST_ROW. The file's bytes, which are as many, are not kept."""
    data = b""
    try:
        with pa.input_stream(path, compression="detect") as stream:
            data = stream.read(limits.TABLE_BYTES + 1)
        if len(data) > limits.TABLE_BYTES:
            raise InputError(path, f"more than {limits.TABLE_BYTES:,} bytes when unpacked", action=_again(action))
        data = b"\n".join([data, delimiter.join([LAST_ROW] * len(names)).encode()])
        return _parsed(data, names, types, delimiter, has_header=has_header)
    except (pa.ArrowInvalid, OSError, EOFError) as error:
        expected = f"a complete csv or csv.gz with the columns {delimiter.join(types)}"
        raise _unreadable(path, error, data, expected, action, has_header=has_header) from None


def _parsed(
    data: bytes, names: list[str], types: Mapping[str, pa.DataType], delimiter: str, *, has_header: bool
) -> pa.Table:
    """The columns as text. Raises ArrowInvalid; a row of another width is named."""
    # Blank alone is null: Arrow would also take NA, NaN, NULL ... for it.
    as_text = csv.ConvertOptions(
        include_columns=list(types), null_values=[""], strings_can_be_null=True,
        column_types={n: pa.string() if k == pa.string() else pa.dictionary(pa.int32(), pa.string())
                      for n, k in types.items()},
    )  # fmt: skip
    # Only a cell in quotes goes over several lines, and looking for one takes a third of the time.
    parsing = csv.ParseOptions(delimiter=delimiter, newlines_in_values=b'"' in data)
    for threads in (True, False):
        reading = csv.ReadOptions(use_threads=threads, column_names=None if has_header else names)
        try:
            return csv.read_csv(pa.BufferReader(data), reading, parsing, as_text)
        except pa.ArrowInvalid:
            if not threads:  # without threads the message has the row's number
                raise
    raise AssertionError


def _typed(cells: pa.ChunkedArray, kind: pa.DataType, path: Path, column: str, action: str) -> pa.ChunkedArray:
    if kind == pa.string():
        return _trimmed(cells)
    encoded = cells.unify_dictionaries().combine_chunks()
    different = _trimmed(encoded.dictionary)  # a column of labels has few
    different = pc.if_else(pc.equal(different, LAST_ROW), pa.scalar(None, pa.string()), different)  # in no row
    pattern, expected = (NUMBER, "a number") if pa.types.is_floating(kind) else (WHOLE_NUMBER, "a whole number")
    good = pc.or_kleene(pc.is_null(different), pc.match_substring_regex(different, pattern))
    if not pc.all(good, min_count=0).as_py():
        _require_each(good, encoded, path, column, expected=f"{expected}, or blank", action=action)
    # Arrow's parser takes no plus sign.
    numbers = pc.cast(pc.utf8_ltrim(different, characters="+"), kind)
    if pa.types.is_floating(kind) and not pc.all(pc.is_finite(numbers), min_count=0).as_py():
        finite = pc.or_kleene(pc.is_null(numbers), pc.is_finite(numbers))
        _require_each(finite, encoded, path, column, expected="a finite number", action=action)
    return numbers.take(encoded.indices)


def _require_each(good: pa.Array, encoded: pa.DictionaryArray, path: Path, column: str, **words: str) -> None:
    """`require` for the rows of a column, where `good` is of its different values."""
    rows = pc.or_kleene(pc.is_null(encoded), good.take(encoded.indices))
    require(rows, _trimmed(pc.cast(encoded, pa.string())), path, column, **words)


def _trimmed(texts: Any) -> Any:
    """Texts without blanks around them; null where nothing is left."""
    trimmed = pc.utf8_trim_whitespace(texts)
    return pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)


def _unreadable(
    path: Path, error: Exception, data: bytes, expected: str, action: str, *, has_header: bool
) -> InputError:
    cause = str(error).splitlines()[0]
    width = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", cause)
    if width:
        row, wanted, got = map(int, width.groups())
        return InputError(
            path, f"the row has {got} cells", row=row - has_header, expected=f"{wanted} cells", action=action
        )
    if "UTF8" in cause:
        line = next((n for n, text in enumerate(data.splitlines(), 1) if not _is_utf8(text)), None)
        return InputError(path, f"line {line} is no UTF-8 text", expected="UTF-8 text", action=action)
    return InputError(path, f"cannot be read to its end as csv ({cause})", expected=expected, action=_again(action))


def _again(action: str) -> str:
    return "; ".join(filter(None, [DOWNLOAD_AGAIN, action]))


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
