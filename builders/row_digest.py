"""A hash of rows that depends on their content and order only: not on chunks, files, codec or pyarrow release."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Parts = Callable[[], Iterable[Any]]  # the arrays of a column one after another, each time from the first


@dataclass(frozen=True, slots=True)
class Stored:
    """Rows in Parquet files of one schema, of which a part of one column is in memory at a time."""

    files: Sequence[Path]

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return pq.read_schema(self.files[0])

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return sum(pq.read_metadata(path).num_rows for path in self.files)

    def parts(self, column: str) -> Iterator[pa.Array]:
        """A column, some rows at a time."""
        for path in self.files:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(columns=[column]):
                    yield batch.column(0)


Rows = pa.Table | Stored


def parts_of(rows: Rows, column: str) -> Iterable[pa.Array]:
    """The arrays that a column is made of, in order."""
    return rows.parts(column) if isinstance(rows, Stored) else rows[column].chunks


def rowset_sha256(rows: Rows) -> str:
    """SHA-256 over the columns in order: name, type, and for each column its values in a canonical form.

    Canonical form: number of values and validity (one byte a value, where any is null); then text as byte lengths
    (int64) and UTF-8 bytes; lists as lengths and their flattened values; structs as their fields; numbers as
    little-endian bytes with zero in place of null.
    """
    digest = hashlib.sha256()
    for field in rows.schema:
        digest.update(f"{field.name}\0{_type_name(field.type)}\0".encode())
        _update(digest, field.type, partial(parts_of, rows, field.name))
    return digest.hexdigest()


def row_json(table: pa.Table) -> Iterator[bytes]:
    """Each row, in order, as JSON in UTF-8: keys sorted, without spaces or escapes beyond JSON's own.

    Numbers are written as Python's `json` writes them (the shortest that reads back), null as null. Columns that are
    float32 give the decimal of the nearest float64, so that the text does not depend on how a reader widens them.

    >>> next(row_json(pa.table({"n": [1], "id": ["a"]})))
    b'{"id":"a","n":1}'
    """
    for batch in table.to_batches(max_chunksize=5_000):
        for row in batch.to_pylist():
            text = json.dumps(row, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
            yield text.encode()


def plain_lists(table: pa.Table) -> pa.Table:
    """The same rows with lists of any length in place of lists of a fixed length, at any depth.

    Earlier builds store boxes and the sizes of masks in lists of a fixed length. The hash of rows is the same for both.

    >>> fixed = pa.table({"size": pa.array([[2, 3], None], pa.list_(pa.int32(), 2))})
    >>> plain_lists(fixed).schema.field("size").type == pa.list_(pa.int32())
    True
    >>> rowset_sha256(plain_lists(fixed)) == rowset_sha256(fixed)
    True
    """
    plain = pa.schema([field.with_type(_plain(field.type)) for field in table.schema], table.schema.metadata)
    return table if plain.equals(table.schema) else table.cast(plain)


def value_counts(parts: Iterable[pa.Array]) -> dict[str, int]:
    """How often each value of a column occurs, by value in sorted order. Lists count each of their values."""
    counts: Counter[Any] = Counter()
    for part in parts:
        found = pc.value_counts(part.flatten() if pa.types.is_list(part.type) else part)
        counts.update(dict(zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True)))
    return {str(value): count for value, count in sorted(counts.items(), key=lambda pair: str(pair[0]))}


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if _is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    return kind


def _type_name(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        return "struct<" + ",".join(f"{f.name}:{_type_name(f.type)}" for f in kind) + ">"
    if _is_list(kind):
        return f"list<{_type_name(kind.value_type)}>"
    return str(kind)


def _update(digest: Any, kind: pa.DataType, parts: Parts) -> None:
    n_values = n_nulls = 0
    numbers = []  # kept: eight bytes a row are less than another reading of all parts
    for part in parts():
        n_values, n_nulls = n_values + len(part), n_nulls + part.null_count
        numbers.append(_numbers(kind, part))
    digest.update(n_values.to_bytes(8, "little"))
    if n_nulls:
        for part in parts():
            digest.update(part.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8).tobytes())
    for of_part in numbers:
        digest.update(of_part)
    if _is_text(kind):
        for part in parts():
            digest.update(_text(part))
    elif _is_list(kind):
        _update(digest, kind.value_type, lambda: (part.flatten() for part in parts()))
    elif pa.types.is_struct(kind):
        for number, field in enumerate(kind):
            _update(digest, field.type, lambda number=number: (part.flatten()[number] for part in parts()))


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind)


def _numbers(kind: pa.DataType, values: pa.Array) -> bytes:
    """The lengths of texts or lists, or numbers themselves; a struct has none."""
    if pa.types.is_struct(kind):
        return b""
    if _is_text(kind) or _is_list(kind):
        values = (pc.binary_length if _is_text(kind) else pc.list_value_length)(values).cast(pa.int64())
    zero = False if pa.types.is_boolean(values.type) else 0
    numbers = pc.fill_null(values, zero).to_numpy(zero_copy_only=False)
    return numbers.astype(numbers.dtype.newbyteorder("<")).tobytes()


def _text(values: Any) -> Any:
    """The bytes of all texts, without those below nulls."""
    values = pc.fill_null(values, "")
    _, offsets, data = values.buffers()
    if not len(values) or data is None:
        return b""
    width = np.int64 if pa.types.is_large_string(values.type) else np.int32
    bounds = np.frombuffer(offsets, width)[values.offset : values.offset + len(values) + 1]
    return memoryview(data)[int(bounds[0]) : int(bounds[-1])]
