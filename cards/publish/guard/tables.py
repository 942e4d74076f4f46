"""Staged Parquet files: their schema, metadata and number of rows, and every text that is in them."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq

from ....builders.schemas.structs import MASK
from ....builders.write import write_part
from ....loaders import rle
from ....loaders.errors import InputError
from ...publication import Publication
from . import columns
from .found import REBUILD, Found, Value, refusal, shortened

PART = re.compile(r"(?P<split>[^/]+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.parquet")
METADATA = (b"ARROW:schema", b"huggingface")
_BINARY = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
_MASK = datasets.Features({"mask": MASK}).arrow_schema.field("mask").type


def inspect(path: Path, where: str, features: datasets.Features) -> tuple[list[InputError], list[Value]]:
    """The leaks of one file's form and masks, and its texts, but for those of masks; no texts where the form leaks."""
    try:
        file = pq.ParquetFile(path)
        leaks = list(_form(file, where, features))
        if leaks:
            return leaks, []
        table = file.read()
    except (pa.ArrowException, OSError, ValueError) as error:
        found = f"is no readable Parquet ({shortened(str(error))})"
        return [InputError(where, found, expected="what medfaith build writes", action=REBUILD)], []
    masks = [name for name in table.column_names if table.schema.field(name).type == _MASK]
    leaks = [leak for name in masks for leak in _masks(table[name].to_pylist(), where, name)]
    texts = [
        Value(where, text, row, column, limited=True)
        for column, values in columns.distinct(table.drop_columns(masks))
        for text, row in values
    ]
    return leaks, [*texts, Value(where, str(file.metadata.created_by), column="created_by")]


def row_counts(staged: Path, publication: Publication) -> Iterator[InputError]:
    """A split whose parts are not all there, or have not the number of rows that the publication says."""
    for (config, split), expected in publication.splits.items():
        parts = [match for path in sorted((staged / config).glob("*.parquet")) if (match := PART.fullmatch(path.name))]
        parts = [match for match in parts if match["split"] == split]
        where = f"{publication.name}/{config}/{split}"
        names = {match[0] for match in parts}
        if names != {f"{split}-{i:05d}-of-{len(parts):05d}.parquet" for i in range(len(parts))} or not parts:
            found = f"its Parquet files are {', '.join(sorted(names)) or 'missing'}"
            yield InputError(where, found, expected="all parts of a split, and no other", action=REBUILD)
            continue
        try:
            rows = sum(pq.read_metadata(staged / config / name).num_rows for name in names)
        except (pa.ArrowException, OSError):
            continue  # `inspect` has said so
        if rows != expected:
            yield InputError(where, f"has {rows} rows", expected=f"{expected}, as its build", action=REBUILD)


def written_otherwise(path: Path, where: str, features: datasets.Features) -> Iterator[InputError]:
    """A file that is not, byte for byte, what its rows are written as: between its pages anything could stand."""
    file = io.BytesIO()
    try:
        write_part(pq.ParquetFile(path).read().cast(features.arrow_schema), file)
    except (pa.ArrowException, OSError, ValueError):
        return  # `inspect` has said so
    if file.getbuffer() != path.read_bytes():
        found = f"holds other bytes than its rows make, written with pyarrow {pa.__version__}"
        yield InputError(where, found, expected="its rows and nothing beside them", action=REBUILD)


def _form(file: pq.ParquetFile, where: str, features: datasets.Features) -> Iterator[InputError]:
    """Everything but the rows."""
    found, expected = file.schema_arrow, features.arrow_schema
    for column, kind in _bytes_in(found):
        what = f"is of type {kind}, which holds bytes"
        yield InputError(where, what, column=column, expected="references, not images", action=REBUILD)
    for feature in _media(features):
        yield InputError(where, f"is a feature {feature}", expected="references, not images", action=REBUILD)
    if not found.equals(expected, check_metadata=False):
        yield _other_schema(where, found, expected)
    yield from _metadata(file, where, features)


def _metadata(file: pq.ParquetFile, where: str, features: datasets.Features) -> Iterator[InputError]:
    stored: Counter[bytes] = Counter((file.metadata.metadata or {}).keys())
    stored.update((file.schema_arrow.metadata or {}).keys())
    for key in stored:
        if key not in METADATA:
            what = f"has metadata {shortened(key.decode('utf-8', 'replace'))}"
            yield InputError(where, what, expected="the metadata of `datasets` only", action=REBUILD)
    ours = (features.arrow_schema.metadata or {}).get(b"huggingface", b"null")
    for metadata in (file.metadata.metadata, file.schema_arrow.metadata):
        theirs = (metadata or {}).get(b"huggingface")
        if theirs is not None and not _same_json(theirs, ours):
            what = f"has other metadata huggingface: {shortened(theirs.decode('utf-8', 'replace'))}"
            yield InputError(where, what, expected="that of its features", action=REBUILD)
    for column, field in fields(file.schema_arrow):
        for key in (field.metadata or {}).keys() - {b"PARQUET:field_id"}:
            what = f"has metadata {shortened(key.decode('utf-8', 'replace'))}"
            yield InputError(where, what, column=column, expected="none", action=REBUILD)


def _other_schema(where: str, found: pa.Schema, expected: pa.Schema) -> InputError:
    names = set(found.names) ^ set(expected.names)
    if names or found.names != expected.names:
        what = f"columns {', '.join(found.names)}"
        column = next((name for name in found.names if name in names), None)
        return InputError(where, what, column=column, expected=", ".join(expected.names), action=REBUILD)
    column = next(name for name in found.names if not found.field(name).equals(expected.field(name)))
    types = (found.field(column).type, expected.field(column).type)
    return InputError(where, f"is of type {types[0]}", column=column, expected=f"{types[1]}", action=REBUILD)


def _masks(values: Sequence[Any], where: str, column: str) -> Iterator[InputError]:
    """The first mask that is none: text that is no run-length encoding of its size."""
    for row, mask in enumerate(values, 1):
        if mask is not None and mask != {"size": None, "counts": None}:
            try:
                rle.checked(mask)
            except ValueError as error:
                value = Value(where, mask["counts"] or "", row, f"{column}.counts")
                what = f"is no mask ({shortened(str(error))}): {shortened(value.text)}"
                yield refusal(value, Found(what, 0, "COCO run-length encoding of the mask's size"))
                return


def fields(kind: pa.Schema | pa.DataType, prefix: str = "") -> Iterator[tuple[str, pa.Field]]:
    """Every field at any depth, by its dotted path; the items of lists go by the list's."""
    nested = isinstance(kind, pa.Schema) or pa.types.is_nested(kind)
    if not nested:
        return
    children = list(kind) if isinstance(kind, pa.Schema) else [kind.field(i) for i in range(kind.num_fields)]
    is_list = not isinstance(kind, pa.Schema) and not pa.types.is_struct(kind)
    for field in children:
        path = prefix if is_list else f"{prefix}.{field.name}".lstrip(".")
        yield path, field
        yield from fields(field.type, path)


def _bytes_in(schema: pa.Schema) -> Iterator[tuple[str, pa.DataType]]:
    for path, field in fields(schema):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if any(is_bytes(kind) for is_bytes in _BINARY):
            yield path, field.type


def _media(feature: Any) -> Iterator[str]:
    """Features that would embed files: images, and whatever else is not a value or made of values."""
    if isinstance(feature, Mapping):
        for inner in feature.values():
            yield from _media(inner)
    elif isinstance(feature, datasets.List | datasets.LargeList):
        yield from _media(feature.feature)
    elif not isinstance(feature, datasets.Value):
        yield type(feature).__name__


def _same_json(one: bytes, other: bytes) -> bool:
    try:
        return json.loads(one) == json.loads(other)
    except ValueError:
        return False
