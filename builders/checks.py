"""What rows of several benchmarks must satisfy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..loaders import rle
from .schemas.structs import LENGTHS


def rows_of(table: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows of a table, of which a few thousand are in memory at a time."""
    for batch in table.to_batches(max_chunksize=5_000):
        yield from batch.to_pylist()


def id_violations(table: pa.Table) -> list[str]:
    """Ids are unique."""
    n_repeated = table.num_rows - len(pc.unique(table["id"]))
    return [f"{n_repeated} rows have the id of another row"] if n_repeated else []


def image_violations(images: pa.ChunkedArray) -> list[str]:
    """Rows reference images by POSIX paths below a source's root: nothing absolute, no `..`.

    images: an ImageRef in each row, a list of them, or null.
    """
    references = images.combine_chunks()
    keys = (references.flatten() if pa.types.is_list(references.type) else references.drop_null()).field("key")
    unsafe = pc.or_(pc.match_substring_regex(keys, r"(^|/)\.\.(/|$)|\\|^/|^[A-Za-z]:"), pc.equal(keys, ""))
    bad = keys.filter(unsafe)
    return [f"image key {bad[0].as_py()!r} is not a path below the source's root ({len(bad)} such)"] if len(bad) else []


def length_violations(table: pa.Table) -> list[str]:
    """Each box has 4 numbers and each mask's size 2 (`structs.LENGTHS`), none of them null. A mask itself may be."""
    found = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        for path, lists, length in _lists_of_numbers(name, column.combine_chunks()):
            right = pc.fill_null(pc.equal(pc.list_value_length(lists), length), False)
            wrong = lists.filter(pc.invert(right)).to_pylist()
            if lists.flatten().null_count:
                wrong += [numbers for numbers in lists.filter(right).to_pylist() if None in numbers]
            if wrong:
                found.append(f"{path} {wrong[0]}: expected {length} numbers ({len(wrong)} such)")
    return found


def _lists_of_numbers(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array, int]]:
    """Path, values and expected length of each field that LENGTHS names, at any depth, where its struct is not null."""
    if pa.types.is_list(values.type):
        yield from _lists_of_numbers(path, values.flatten())
    elif pa.types.is_struct(values.type):
        structs = values.drop_null()
        for field, child in zip(structs.type, structs.flatten(), strict=True):
            if field.name in LENGTHS and pa.types.is_list(field.type):
                yield f"{path}.{field.name}", child, LENGTHS[field.name]
            else:
                yield from _lists_of_numbers(f"{path}.{field.name}", child)


def is_inside(xywh: Sequence[float], row: Mapping[str, Any]) -> bool:
    """Whether a box (x, y, width, height) has an area, and all of it within its row's image (`width`, `height`)."""
    x, y, width, height = xywh
    slack = 1e-3 * max(row["width"], row["height"])  # float32 columns
    reaches = x >= -slack and y >= -slack and x + width <= row["width"] + slack and y + height <= row["height"] + slack
    return width > 0 and height > 0 and reaches


def mask_violations(mask: dict[str, Any], size: Sequence[int] | None) -> list[str]:
    """A mask decodes, and is of its image's size [height, width], if that is known."""
    if size is not None and list(mask["size"]) != list(size):
        return [f"mask of {mask['size']} (height, width) on an image of {list(size)}"]
    try:
        rle.validate_rle(mask)
    except ValueError as error:
        return [f"mask: {error}"]
    return []
