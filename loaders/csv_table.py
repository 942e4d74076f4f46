"""Official csv files as Arrow tables; every fault is an InputError that names file, row and column."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from .errors import InputError

NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
WHOLE_NUMBER = r"^[+-]?[0-9]{1,9}$"


def header(path: Path, *, delimiter: str = ",") -> list[str]:
    """The column names of a csv or csv.gz. Raises InputError where none can be read."""
    options = pa.csv.ReadOptions(block_size=1 << 16)
    try:
        with pa.csv.open_csv(
            path, read_options=options, parse_options=pa.csv.ParseOptions(delimiter=delimiter)
        ) as reader:
            return reader.schema.names
    except (pa.ArrowInvalid, OSError, EOFError) as error:
        raise _unreadable(path, error, "a csv with a header", "") from None


def read(path: Path, types: Mapping[str, pa.DataType], *, action: str, delimiter: str = ",") -> pa.Table:
    """The columns `types` of a csv or csv.gz, in that order; a blank cell is null, other columns are left out.

    Types are string, float64 (finite) and int32. `action` is what a message tells the user to do; `delimiter` is the
    one sign between cells.
    Raises InputError: not a complete csv, a column missing or there twice, no rows, a cell that is no number.
    """
    as_text = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(types, pa.string()), null_values=[""], strings_can_be_null=True
    )
    try:
        table = pa.csv.read_csv(path, parse_options=pa.csv.ParseOptions(delimiter=delimiter), convert_options=as_text)
    except (pa.ArrowInvalid, OSError, EOFError) as error:
        columns = delimiter.join(types)
        raise _unreadable(path, error, f"a complete csv or csv.gz with the columns {columns}", action) from None
    for name in types:
        count = table.column_names.count(name)
        if count != 1:
            found = "the column stands more than once" if count else "the column is missing"
            expected = "the official header, with " + delimiter.join(types)
            raise InputError(path, found, column=name, expected=expected, action=action)
    if not table.num_rows:
        raise InputError(path, "the file has a header and no rows", action=action)
    return pa.table({name: _typed(table[name], kind, path, name, action) for name, kind in types.items()})


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


def require_once(values: pa.ChunkedArray, path: Path, column: str, *, action: str) -> None:
    """Raises InputError that names the second row of the first value to stand twice."""
    codes = values.combine_chunks().dictionary_encode().indices.to_numpy()
    first = np.unique(codes, return_index=True)[1]
    if first.size == codes.size:
        return
    repeats = np.ones(codes.size, dtype=bool)
    repeats[first] = False
    row = int(np.flatnonzero(repeats)[0])
    before = int(np.flatnonzero(codes == codes[row])[0])
    found = f"{values[row].as_py()!r} repeats row {before + 1}"
    raise InputError(path, found, row=row + 1, column=column, expected="each value once", action=action)


def _typed(values: pa.ChunkedArray, kind: pa.DataType, path: Path, column: str, action: str) -> pa.ChunkedArray:
    values = pc.utf8_trim_whitespace(values)
    if kind == pa.string():
        return values
    pattern, expected = (NUMBER, "a number") if pa.types.is_floating(kind) else (WHOLE_NUMBER, "a whole number")
    good = pc.or_(pc.is_null(values), pc.fill_null(pc.match_substring_regex(values, pattern), False))
    require(good, values, path, column, expected=f"{expected}, or blank", action=action)
    # Arrow's parser takes no plus sign.
    numbers = pc.cast(pc.utf8_ltrim(values, characters="+"), kind)
    if pa.types.is_floating(kind):
        finite = pc.or_(pc.is_null(numbers), pc.fill_null(pc.is_finite(numbers), False))
        require(finite, values, path, column, expected="a finite number", action=action)
    return numbers


def _unreadable(path: Path, error: Exception, expected: str, action: str) -> InputError:
    cause = str(error).splitlines()[0]
    what = "is no UTF-8 text" if "UTF8" in cause else f"cannot be read to its end as csv ({cause})"
    return InputError(
        path, what, expected=expected, action=action or "download it again and compare its size with the source's"
    )
