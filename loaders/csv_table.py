"""The one reader of official csv and tsv files, as Arrow tables. A fault is an InputError with file, row and column.

Arrow reads a quote that never closes as one cell that holds the rest of the file, without an error. Therefore `read`
appends a row of its own to the file's bytes, and refuses the file if the last row of the table is another one. Two
stray quotes enclose whole rows in one cell. Therefore `read` counts the rows of the file's text, too, and refuses the
file if the table has fewer.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from csv import Error as CsvError
from csv import reader as csv_reader
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from . import limits
from .errors import InputError
from .unpacking import detect_compression, open_unpacked

NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
WHOLE_NUMBER = r"^[+-]?[0-9]{1,9}$"
SIGNS = {",": "commas", ";": "semicolons", "\t": "tabs"}
HEAD_SIZE = 1 << 16  # bytes
LAST_ROW = "\x02last row\x03"
ANY_LINE = r"[^\r\n]+"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
DOWNLOAD_AGAIN = "download it again and compare its size or checksum with the source's"


Repair = Callable[[bytes], bytes]


def head(path: Path, *, delimiter: str = ",", action: str = "", repair: Repair | None = None) -> pa.Table:
    """Read the first rows of a csv or csv.gz file, with types as guessed by Arrow; rows of another width are skipped.

    Args:
        path: The file.
        delimiter: The separator of the cells.
        action: Advice of the error message.
        repair: As for `read`.

    Returns:
        The rows in the first 64 KiB of the file.

    Raises:
        InputError: The file has no readable header.
    """
    parsing = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=lambda row: "skip")
    try:
        limits.require_file(path)
        with pa.input_stream(path, compression=detect_compression(path)) as stream:
            start = stream.read(HEAD_SIZE)
        start = repair(start) if repair else start
        first_line = start.split(b"\n", 1)[0]
        if not _is_utf8(first_line) or b"\0" in first_line:  # for example UTF-16, which spreadsheets write
            raise InputError(path, "line 1 is no UTF-8 text", expected="UTF-8 text", action=action)
        # Arrow writes a traceback to stderr if a row that it passes to the handler is not UTF-8.
        rows = start.decode(errors="replace").encode()
        return csv.read_csv(pa.BufferReader(rows), parse_options=parsing)
    except (pa.ArrowInvalid, OSError, EOFError) as error:
        problem = f"cannot be read as csv ({str(error).splitlines()[0]})"
        action = _build_action(action)
        raise InputError(path, problem, expected="a csv with a header", action=action) from None


def header(path: Path, *, delimiter: str = ",", action: str = "", repair: Repair | None = None) -> list[str]:
    """Read the column names of a csv or csv.gz file.

    Args:
        path: The file.
        delimiter: The separator of the cells.
        action: Advice of the error message.
        repair: As for `read`.

    Returns:
        The names, in the file's order.

    Raises:
        InputError: The file has no readable header.
    """
    return head(path, delimiter=delimiter, action=action, repair=repair).column_names


def read(
    path: Path,
    types: Mapping[str, pa.DataType],
    *,
    action: str,
    delimiter: str = ",",
    has_header: bool = True,
    first_line: str = ANY_LINE,
    repair: Repair | None = None,
) -> pa.Table:
    """Read columns of a csv or csv.gz file.

    A blank cell is null. Blanks around a cell are removed.

    Args:
        path: The file.
        types: The type of each column to read: string, float64 (finite) or int32. Other columns are skipped.
        action: Advice of the error message.
        delimiter: The separator of the cells.
        has_header: False if the file has no header; its columns are then `types`, in their order.
        first_line: Regular expression that matches the first line of each row, and no other line of a row. By default,
            each row is one line. With an expression, a quoted cell may continue over lines that do not match.
        repair: Changes the text of a format that is no valid csv, before it is parsed. The number of lines must stay.

    Returns:
        The columns, in the order of `types`.

    Raises:
        InputError: The csv is incomplete or empty, a row has another width, a cell holds the first line of another row,
            a column is missing or repeated, or a cell is not a number.
    """
    names = header(path, delimiter=delimiter, action=action, repair=repair) if has_header else list(types)
    _check_header(names, types, path, action, delimiter)
    table = _read_cells(path, names, types, action, delimiter, first_line, repair, has_header=has_header)
    if table[0][-1].as_py() != LAST_ROW:
        problem = 'a quote (") opens a cell and never closes it'
        raise InputError(path, problem, expected="a complete file", action=_build_action(action))
    table = table.slice(0, table.num_rows - 1)
    if not table.num_rows:
        raise InputError(path, "the file has a header and no rows" if has_header else "is empty", action=action)
    cells = dict(zip(table.column_names, table.columns, strict=True))
    del table  # frees the text of each column as soon as it is converted
    return pa.table({name: _convert_column(cells.pop(name), kind, path, name, action) for name, kind in types.items()})


def iterate_rows(path: Path, columns: Iterable[str], *, action: str) -> Iterator[tuple[int, list[str]]]:
    """Iterate over columns of a csv or csv.gz file that is too large for the memory. Each row is one line.

    Blanks around a cell are removed.

    Args:
        path: The file.
        columns: The columns to read. Other columns are skipped.
        action: Advice of the error message.

    Yields:
        The 1-based row, and its cells in the order of `columns`.

    Raises:
        InputError: A column is missing or repeated, a row has another width, a quoted cell holds a line break, or the
            file cannot be read to its end.
    """
    columns = list(columns)
    expected = f"a complete csv or csv.gz with the columns {','.join(columns)}"
    try:
        limits.require_file(path)
        with open_unpacked(path) as stream:
            records = csv_reader(_iterate_lines(stream, path, action), strict=True)
            names = [name.strip() for name in next(records, [])]
            _check_header(names, dict.fromkeys(columns, pa.string()), path, action, ",")
            places = [names.index(column) for column in columns]
            row = 0
            for row, cells in enumerate(records, 1):
                if records.line_num != row + 1:
                    problem = 'a cell that begins with a quote (") holds a line break, or the beginning of another row'
                    raise InputError(path, problem, row=row, expected="one row a line", action=action)
                if len(cells) != len(names):
                    problem, width = f"the row has {len(cells)} cells", f"{len(names)} cells"
                    raise InputError(path, problem, row=row, expected=width, action=_build_action(action))
                yield row, [cells[place].strip() for place in places]
    except (CsvError, OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        problem = f"cannot be read to its end as csv ({error})"
        raise InputError(path, problem, expected=expected, action=_build_action(action)) from None
    if not row:
        raise InputError(path, "the file has a header and no rows", action=action)


def _iterate_lines(stream: io.BufferedIOBase, path: Path, action: str) -> Iterator[str]:
    """Yield the lines of a text without its byte order mark. Blank lines at the end do not count."""
    n_bytes, n_blank = 0, 0
    while line := stream.readline(limits.LINE_BYTES + 1):
        line = line if n_bytes else line.removeprefix(BYTE_ORDER_MARK)
        n_bytes += len(line)
        if len(line) > limits.LINE_BYTES or n_bytes > limits.TABLE_BYTES:
            problem = f"a line of more than {limits.LINE_BYTES:,} bytes, or more than {limits.TABLE_BYTES:,} in all"
            raise InputError(path, problem, action=_build_action(action))
        if not line.strip():
            n_blank += 1
            continue
        yield from ["\n"] * n_blank
        n_blank = 0
        yield line.decode()


def require(
    good: pa.Array | pa.ChunkedArray, values: pa.ChunkedArray, path: Path, column: str, *, expected: str, action: str
) -> None:
    """Raise an error for the first row that fails a check.

    Args:
        good: Whether each row passes; null counts as false.
        values: The values of the column, to quote in the message.
        path: The file.
        column: The name of the column.
        expected: The expectation in the error message.
        action: Advice of the error message.

    Raises:
        InputError: A row fails the check.
    """
    bad = np.flatnonzero(~np.asarray(pc.fill_null(good, False)))
    if bad.size:
        row = int(bad[0])
        value = values[row].as_py()
        problem = "is blank" if value is None else f"{value!r:.200}"
        raise InputError(path, problem, row=row + 1, column=column, expected=expected, action=action)


def require_filled(table: pa.Table, columns: Iterable[str], path: Path, *, action: str) -> None:
    """Raise an error for the first blank cell of some columns.

    Args:
        table: The rows of the file.
        columns: The names of the columns that must have a value in each row.
        path: The file.
        action: Advice of the error message.

    Raises:
        InputError: A cell is blank.
    """
    for column in columns:
        good = pc.is_valid(table[column])
        require(good, table[column], path, column, expected="a value in each row", action=action)


def require_once(
    values: pa.ChunkedArray, path: Path, column: str, *, action: str, codes: np.ndarray | None = None
) -> None:
    """Raise an error if a value of a column occurs twice.

    Args:
        values: The values of the column.
        path: The file.
        column: The name of the column.
        action: Advice of the error message.
        codes: Numbers of shape (n,) that are equal if the values count as equal; by default, the values decide.

    Raises:
        InputError: A value is repeated; the error names the row of the first repetition.
    """
    texts = values.combine_chunks() if codes is None else None
    numbers: Any = codes if texts is None else texts.dictionary_encode(null_encoding="encode").indices.to_numpy()
    first_rows = np.unique(numbers, return_index=True)[1]
    if first_rows.size == numbers.size:
        return
    repeats = np.ones(numbers.size, dtype=bool)
    repeats[first_rows] = False
    row = int(np.flatnonzero(repeats)[0])
    earlier = int(np.flatnonzero(numbers == numbers[row])[0])
    problem = f"{values[row].as_py()!r} repeats row {earlier + 1}"
    raise InputError(path, problem, row=row + 1, column=column, expected="each value once", action=action)


def _check_header(names: list[str], types: Mapping[str, pa.DataType], path: Path, action: str, delimiter: str) -> None:
    expected = "the official header, with " + delimiter.join(types)
    if len(names) == 1 < len(types):
        actual = next((f", but by {SIGNS[sign]}" for sign in SIGNS if sign in names[0]), "")
        problem = f"its cells are not separated by {SIGNS[delimiter]}{actual}"
        raise InputError(path, problem, expected=f"{SIGNS[delimiter]}: {delimiter.join(types)}", action=action)
    for name in types:
        count = names.count(name)
        if count != 1:
            problem = f"the header has the column {count} times" if count else "the column is missing"
            raise InputError(path, problem, column=name, expected=expected, action=action)


def _read_cells(  # noqa: PLR0913 (those of `read`)
    path: Path,
    names: list[str],
    types: Mapping[str, pa.DataType],
    action: str,
    delimiter: str,
    first_line: str,
    repair: Repair | None,
    *,
    has_header: bool,
) -> pa.Table:
    """Read the columns as text, and append a row of LAST_ROW, by which an unclosed quote is noticed.

    The bytes of the file are local to this function, so they are freed when it returns.
    """
    data = b""
    try:
        with pa.input_stream(path, compression=detect_compression(path)) as stream:
            data = stream.read(limits.TABLE_BYTES + 1)
        if len(data) > limits.TABLE_BYTES:
            raise InputError(
                path, f"more than {limits.TABLE_BYTES:,} bytes when unpacked", action=_build_action(action)
            )
        data = repair(data) if repair else data
        data = b"\n".join([data, delimiter.join([LAST_ROW] * len(names)).encode()])
        table = _parse_cells(data, names, types, delimiter, has_header=has_header)
    except (pa.ArrowInvalid, OSError, EOFError) as error:
        expected = f"a complete csv or csv.gz with the columns {delimiter.join(types)}"
        raise _build_read_error(path, error, data, expected, action, has_header=has_header) from None
    if b'"' in data and table[0][-1].as_py() == LAST_ROW:
        _require_all_rows(path, data, table.num_rows, delimiter, first_line, action, has_header=has_header)
    return table


def _require_all_rows(
    path: Path, data: bytes, n_rows: int, delimiter: str, first_line: str, action: str, *, has_header: bool
) -> None:
    """Raise an error if a quoted cell holds the first line of another row.

    Args:
        path: The file.
        data: Its text, followed by LAST_ROW.
        n_rows: Number of rows that Arrow found, with LAST_ROW.
        delimiter: The separator of the cells.
        first_line: Regular expression for the first line of a row.
        action: Advice of the error message.
        has_header: Whether the file has a header.

    Raises:
        InputError: The text has more rows than Arrow found.
    """
    pattern = re.compile(rf"(?<![^\r\n])(?:{first_line}|{re.escape(LAST_ROW)})".encode())
    start = len(data) - len(data.lstrip(b"\r\n"))
    has_matching_header = has_header and pattern.match(data, start) is not None
    if sum(1 for _ in pattern.finditer(data)) <= n_rows + has_matching_header:
        return
    row = None
    lines = re.compile(rf"[\r\n](?:{first_line})")
    try:
        records = csv_reader(io.StringIO(data.decode(errors="replace"), newline=""), delimiter=delimiter)
        filled = (record for record in records if record)
        row = next(n for n, record in enumerate(filled, 1 - has_header) if any(map(lines.search, record)))
    except (StopIteration, CsvError):  # the two readers differ about the quotes
        pass
    problem = 'a cell that begins with a quote (") holds the beginning of another row'
    advice = 'if the quote belongs to the text, delete it; or quote the whole cell, and double the quotes in it ("")'
    raise InputError(
        path, problem, row=row, expected="one row a line", action="; ".join(filter(None, [advice, action]))
    )


def _parse_cells(
    data: bytes, names: list[str], types: Mapping[str, pa.DataType], delimiter: str, *, has_header: bool
) -> pa.Table:
    """Parse the columns as text. Raise ArrowInvalid, with the number of the row if a row has another width."""
    # Only a blank cell is null: Arrow would also accept NA, NaN, NULL ...
    as_text = csv.ConvertOptions(
        include_columns=list(types), null_values=[""], strings_can_be_null=True,
        column_types={n: pa.string() if k == pa.string() else pa.dictionary(pa.int32(), pa.string())
                      for n, k in types.items()},
    )  # fmt: skip
    # Only a quoted cell can continue over several lines, and the search for one takes a third of the time.
    parsing = csv.ParseOptions(delimiter=delimiter, newlines_in_values=b'"' in data)
    for threads in (True, False):
        reading = csv.ReadOptions(use_threads=threads, column_names=None if has_header else names)
        try:
            return csv.read_csv(pa.BufferReader(data), reading, parsing, as_text)
        except pa.ArrowInvalid:
            if not threads:  # without threads the message has the row's number
                raise
    raise AssertionError


def _convert_column(cells: pa.ChunkedArray, kind: pa.DataType, path: Path, column: str, action: str) -> pa.ChunkedArray:
    if kind == pa.string():
        return _trim(cells)
    encoded = cells.unify_dictionaries().combine_chunks()
    distinct = _trim(encoded.dictionary)  # a column of labels has few distinct values
    distinct = pc.if_else(pc.equal(distinct, LAST_ROW), pa.scalar(None, pa.string()), distinct)  # LAST_ROW is not data
    pattern, expected = (NUMBER, "a number") if pa.types.is_floating(kind) else (WHOLE_NUMBER, "a whole number")
    good = pc.or_kleene(pc.is_null(distinct), pc.match_substring_regex(distinct, pattern))
    if not pc.all(good, min_count=0).as_py():
        _require_each(good, encoded, path, column, expected=f"{expected}, or blank", action=action)
    # Arrow's parser takes no plus sign.
    numbers = pc.cast(pc.utf8_ltrim(distinct, characters="+"), kind)
    if pa.types.is_floating(kind) and not pc.all(pc.is_finite(numbers), min_count=0).as_py():
        finite = pc.or_kleene(pc.is_null(numbers), pc.is_finite(numbers))
        _require_each(finite, encoded, path, column, expected="a finite number", action=action)
    return numbers.take(encoded.indices)


def _require_each(good: pa.Array, encoded: pa.DictionaryArray, path: Path, column: str, **texts: str) -> None:
    """Apply `require` to the rows of a column, where `good` holds one value for each distinct cell."""
    rows = pc.or_kleene(pc.is_null(encoded), good.take(encoded.indices))
    require(rows, _trim(pc.cast(encoded, pa.string())), path, column, **texts)


def _trim(texts: Any) -> Any:
    """Remove blanks around texts; an empty text becomes null."""
    trimmed = pc.utf8_trim_whitespace(texts)
    return pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)


def _build_read_error(
    path: Path, error: Exception, data: bytes, expected: str, action: str, *, has_header: bool
) -> InputError:
    cause = str(error).splitlines()[0]
    match = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", cause)
    if match:
        row, expected_width, n_cells = map(int, match.groups())
        return InputError(
            path,
            f"the row has {n_cells} cells",
            row=row - has_header,
            expected=f"{expected_width} cells",
            action=action,
        )
    if "UTF8" in cause:
        line = next((n for n, text in enumerate(data.splitlines(), 1) if not _is_utf8(text)), None)
        return InputError(path, f"line {line} is no UTF-8 text", expected="UTF-8 text", action=action)
    return InputError(
        path, f"cannot be read to its end as csv ({cause})", expected=expected, action=_build_action(action)
    )


def _build_action(action: str) -> str:
    return "; ".join(filter(None, [DOWNLOAD_AGAIN, action]))


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
