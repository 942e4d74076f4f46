"""A hash of rows. It depends on their content and order, not on chunks, files, codec or pyarrow release."""

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

ChunkReader = Callable[[], Iterable[Any]]  # returns the arrays of a column in order, from the first one at each call


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows in Parquet files of one schema. Only a part of one column is in memory at a time.

    Attributes:
        files: The Parquet files, in order.
    """

    files: Sequence[Path]

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return pq.read_schema(self.files[0])

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return sum(pq.read_metadata(path).num_rows for path in self.files)

    def iterate_chunks(self, column: str) -> Iterator[pa.Array]:
        """Read a column in chunks.

        Args:
            column: The name of the column.

        Yields:
            The values of some rows.
        """
        for path in self.files:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(columns=[column]):
                    yield batch.column(0)


Rows = pa.Table | StoredRows


def iterate_chunks(rows: Rows, column: str) -> Iterable[pa.Array]:
    """Iterate over the arrays of a column, in order.

    Args:
        rows: The rows.
        column: The name of the column.

    Returns:
        The arrays.
    """
    return rows.iterate_chunks(column) if isinstance(rows, StoredRows) else rows[column].chunks


def compute_rowset_sha256(rows: Rows) -> str:
    """Compute SHA-256 over the columns in order: name, type and the canonical form of the values.

    The canonical form begins with the number of values and, if any is null, one validity byte per value. Then come, for
    text, the lengths in bytes (int64) and the UTF-8 bytes; for lists, the lengths and the flattened values; for
    structs, the fields; for numbers, little-endian bytes with zero in place of null.

    Args:
        rows: The rows.

    Returns:
        The hash in hexadecimal digits.
    """
    digest = hashlib.sha256()
    for field in rows.schema:
        digest.update(f"{field.name}\0{_format_type(field.type)}\0".encode())
        _update(digest, field.type, partial(iterate_chunks, rows, field.name))
    return digest.hexdigest()


def iterate_row_json(table: pa.Table) -> Iterator[bytes]:
    """Format each row as JSON in UTF-8: sorted keys, no spaces, and only the escapes that JSON requires.

    Numbers have the form of Python's `json` (the shortest decimal that reads back). float32 values are first widened to
    float64, so that the text does not depend on how a reader widens them.

    Args:
        table: The rows.

    Yields:
        Each row, in order.

    >>> next(iterate_row_json(pa.table({"n": [1], "id": ["a"]})))
    b'{"id":"a","n":1}'
    """
    for batch in table.to_batches(max_chunksize=5_000):
        for row in batch.to_pylist():
            text = json.dumps(row, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
            yield text.encode()


def convert_fixed_lists(table: pa.Table) -> pa.Table:
    """Convert lists of a fixed length to lists of any length, at any depth.

    Earlier builds store boxes and mask sizes in lists of a fixed length. The hash of the rows is the same for both.

    Args:
        table: The rows.

    Returns:
        The same rows.

    >>> fixed = pa.table({"size": pa.array([[2, 3], None], pa.list_(pa.int32(), 2))})
    >>> convert_fixed_lists(fixed).schema.field("size").type == pa.list_(pa.int32())
    True
    >>> compute_rowset_sha256(convert_fixed_lists(fixed)) == compute_rowset_sha256(fixed)
    True
    """
    plain = pa.schema([field.with_type(_convert_type(field.type)) for field in table.schema], table.schema.metadata)
    return table if plain.equals(table.schema) else table.cast(plain)


def value_counts(chunks: Iterable[pa.Array]) -> dict[str, int]:
    """Count how often each value of a column occurs. In a column of lists, count the values in the lists.

    Args:
        chunks: The arrays of the column.

    Returns:
        The counts by value, sorted by value.
    """
    counts: Counter[Any] = Counter()
    for chunk in chunks:
        chunk_counts = pc.value_counts(chunk.flatten() if pa.types.is_list(chunk.type) else chunk)
        counts.update(
            dict(zip(chunk_counts.field("values").to_pylist(), chunk_counts.field("counts").to_pylist(), strict=True))
        )
    return {str(value): count for value, count in sorted(counts.items(), key=lambda pair: str(pair[0]))}


def _convert_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_convert_type(field.type)) for field in kind])
    if _is_list(kind):
        return pa.list_(kind.value_field.with_type(_convert_type(kind.value_type)))
    return kind


def _format_type(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        return "struct<" + ",".join(f"{f.name}:{_format_type(f.type)}" for f in kind) + ">"
    if _is_list(kind):
        return f"list<{_format_type(kind.value_type)}>"
    return str(kind)


def _update(digest: Any, kind: pa.DataType, read_chunks: ChunkReader) -> None:
    n_values = n_nulls = 0
    encoded_numbers = []  # eight bytes per row in memory cost less than reading all chunks again
    for chunk in read_chunks():
        n_values, n_nulls = n_values + len(chunk), n_nulls + chunk.null_count
        encoded_numbers.append(_encode_numbers(kind, chunk))
    digest.update(n_values.to_bytes(8, "little"))
    if n_nulls:
        for chunk in read_chunks():
            digest.update(chunk.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8).tobytes())
    for encoded in encoded_numbers:
        digest.update(encoded)
    if _is_text(kind):
        for chunk in read_chunks():
            digest.update(_encode_text(chunk))
    elif _is_list(kind):
        _update(digest, kind.value_type, lambda: (chunk.flatten() for chunk in read_chunks()))
    elif pa.types.is_struct(kind):
        for position, field in enumerate(kind):
            _update(
                digest, field.type, lambda position=position: (chunk.flatten()[position] for chunk in read_chunks())
            )


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind)


def _encode_numbers(kind: pa.DataType, values: pa.Array) -> bytes:
    """Encode the lengths of texts or lists, or the numbers themselves; b"" for a struct."""
    if pa.types.is_struct(kind):
        return b""
    if _is_text(kind) or _is_list(kind):
        values = (pc.binary_length if _is_text(kind) else pc.list_value_length)(values).cast(pa.int64())
    zero = False if pa.types.is_boolean(values.type) else 0
    numbers = pc.fill_null(values, zero).to_numpy(zero_copy_only=False)
    return numbers.astype(numbers.dtype.newbyteorder("<")).tobytes()


def _encode_text(values: Any) -> Any:
    """Return the UTF-8 bytes of an array's texts, joined without a separator. A null counts as an empty text."""
    values = pc.fill_null(values, "")
    _, offsets, data = values.buffers()
    if not len(values) or data is None:
        return b""
    width = np.int64 if pa.types.is_large_string(values.type) else np.int32
    bounds = np.frombuffer(offsets, width)[values.offset : values.offset + len(values) + 1]
    return memoryview(data)[int(bounds[0]) : int(bounds[-1])]
