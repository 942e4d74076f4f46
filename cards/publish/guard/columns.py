"""The distinct texts of a table's columns, at any depth."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Distinct = list[tuple[str, int]]  # text and its first row, from 1


def distinct(table: pa.Table) -> Iterator[tuple[str, Distinct]]:
    """Dotted path and distinct values of every column of texts, in order. Bytes that are no UTF-8 become surrogates."""
    rows = np.arange(1, table.num_rows + 1)
    for name, column in zip(table.column_names, table.columns, strict=True):
        for path, leaf, of_leaf in _leaves(name, column.combine_chunks(), rows):
            yield path, _distinct(leaf, of_leaf)


def _leaves(path: str, values: pa.Array, rows: np.ndarray) -> Iterator[tuple[str, pa.Array, np.ndarray]]:
    """Arrays of texts below a column, with the row of each value."""
    if pa.types.is_struct(values.type):
        for field, child in zip(values.type, values.flatten(), strict=True):
            yield from _leaves(f"{path}.{field.name}", child, rows)
    elif (
        pa.types.is_list(values.type) or pa.types.is_large_list(values.type) or pa.types.is_fixed_size_list(values.type)
    ):
        parents = pc.list_parent_indices(values).to_numpy()
        yield from _leaves(path, pc.list_flatten(values), rows[parents])
    elif pa.types.is_string(values.type):
        yield path, values, rows


def _distinct(values: pa.Array, rows: np.ndarray) -> Distinct:
    valid = values.is_valid()
    rows = rows[valid.to_numpy(zero_copy_only=False)]
    encoded = values.drop_null().dictionary_encode()
    first = np.unique(encoded.indices.to_numpy(), return_index=True)[1]
    texts = encoded.dictionary.cast(pa.binary()).to_pylist()
    return [(text.decode("utf-8", "surrogateescape"), int(rows[i])) for text, i in zip(texts, first, strict=True)]
