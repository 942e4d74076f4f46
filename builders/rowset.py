"""A hash of rows that depends on their content and order only: not on chunks, files, codec or pyarrow release."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def rowset_sha256(table: pa.Table) -> str:
    """SHA-256 over the columns in order: name, type, and for each column its values in a canonical form.

    Canonical form: number of values and validity (one byte a value, where any is null); then text as byte lengths
    (int64) and UTF-8 bytes; lists as lengths and their flattened values; structs as their fields; numbers as
    little-endian bytes with zero in place of null.
    """
    digest = hashlib.sha256()
    for field, column in zip(table.schema, table.columns, strict=True):
        digest.update(f"{field.name}\0{_type_name(field.type)}\0".encode())
        _update(digest, column.combine_chunks())
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


def value_counts(column: pa.ChunkedArray) -> dict[str, int]:
    """How often each value occurs, by value in sorted order. Lists count each of their values."""
    values = column.combine_chunks()
    if pa.types.is_list(values.type):
        values = values.flatten()
    counts = pc.value_counts(values)
    pairs = zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True)
    return {str(value): count for value, count in sorted(pairs, key=lambda pair: str(pair[0]))}


def _type_name(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        return "struct<" + ",".join(f"{f.name}:{_type_name(f.type)}" for f in kind) + ">"
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return f"list<{_type_name(kind.value_type)}>"
    return str(kind)


def _update(digest: Any, values: Any) -> None:
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    digest.update(len(values).to_bytes(8, "little"))
    if values.null_count:
        digest.update(values.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8).tobytes())
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        _update_text(digest, values)
    elif pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
        digest.update(lengths.astype("<i8").tobytes())
        _update(digest, values.flatten())
    elif pa.types.is_struct(kind):
        for child in values.flatten():
            _update(digest, child)
    else:
        zero = False if pa.types.is_boolean(kind) else 0
        numbers = pc.fill_null(values, zero).to_numpy(zero_copy_only=False)
        digest.update(numbers.astype(numbers.dtype.newbyteorder("<")).tobytes())


def _update_text(digest: Any, values: pa.Array) -> None:
    values = pc.fill_null(values, "")
    digest.update(pc.binary_length(values).to_numpy(zero_copy_only=False).astype("<i8").tobytes())
    _, offsets, data = values.buffers()
    if len(values) and data is not None:
        width = np.int64 if pa.types.is_large_string(values.type) else np.int32
        bounds = np.frombuffer(offsets, width)[values.offset : values.offset + len(values) + 1]
        digest.update(memoryview(data)[int(bounds[0]) : int(bounds[-1])])
