"""Data sets of rows that are built in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import datasets
import pyarrow as pa


def build_dataset(docs: Sequence[Mapping[str, Any]], features: Mapping[str, Any]) -> datasets.Dataset:
    """Build a data set as `Dataset.from_list` does, in a sixth of its time.

    Args:
        docs: At least one row. The columns have the order of the first row.
        features: The feature of each column.

    Returns:
        The data set.
    """
    schema = datasets.Features({name: features[name] for name in docs[0]}).arrow_schema
    return wrap_table(pa.Table.from_pylist([*docs], schema=schema))


def wrap_table(table: pa.Table) -> datasets.Dataset:
    """Make a data set of a table, with a hash of its bytes as the fingerprint: `datasets` would pickle the table.

    Args:
        table: The table.

    Returns:
        The data set.
    """
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return datasets.Dataset(table, fingerprint=hashlib.sha256(stream.getvalue()).hexdigest()[:16])
