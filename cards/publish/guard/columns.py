"""The distinct texts of a table's columns, at any depth."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Distinct = list[tuple[str, int]]  # text and its first row, from 1


def iterate_distinct(table: pa.Table) -> Iterator[tuple[str, Distinct]]:
    """Iterate over the distinct texts of every text column. Invalid UTF-8 is decoded to surrogates.

    Args:
        table: The rows.

    Yields:
        Dotted path, and distinct values in order.
    """
    rows = np.arange(1, table.num_rows + 1)
    for name, column in zip(table.column_names, table.columns, strict=True):
        for path, leaf, leaf_rows in _iterate_leaves(name, column.combine_chunks(), rows):
            yield path, _find_distinct(leaf, leaf_rows)


def _iterate_leaves(path: str, values: pa.Array, rows: np.ndarray) -> Iterator[tuple[str, pa.Array, np.ndarray]]:
    """Yield the arrays of texts below a column, with the row of each value."""
    if pa.types.is_struct(values.type):
        for field, child in zip(values.type, values.flatten(), strict=True):
            yield from _iterate_leaves(f"{path}.{field.name}", child, rows)
    elif (
        pa.types.is_list(values.type) or pa.types.is_large_list(values.type) or pa.types.is_fixed_size_list(values.type)
    ):
        parents = pc.list_parent_indices(values).to_numpy()
        yield from _iterate_leaves(path, pc.list_flatten(values), rows[parents])
    elif pa.types.is_string(values.type):
        yield path, values, rows


def _find_distinct(values: pa.Array, rows: np.ndarray) -> Distinct:
    valid = values.is_valid()
    rows = rows[valid.to_numpy(zero_copy_only=False)]
    encoded = values.drop_null().dictionary_encode()
    first_places = np.unique(encoded.indices.to_numpy(), return_index=True)[1]
    texts = encoded.dictionary.cast(pa.binary()).to_pylist()
    return [
        (text.decode("utf-8", "surrogateescape"), int(rows[i])) for text, i in zip(texts, first_places, strict=True)
    ]
