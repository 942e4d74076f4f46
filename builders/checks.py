"""Checks that the rows of several benchmarks share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..loaders import rle
from .schemas.structs import LENGTHS


def iterate_rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of a table, with at most 5,000 rows as Python objects at a time.

    Args:
        table: The table.

    Yields:
        The rows.
    """
    for batch in table.to_batches(max_chunksize=5_000):
        yield from batch.to_pylist()


def find_id_violations(table: pa.Table) -> list[str]:
    """Find ids that occur more than once.

    Args:
        table: Rows with the column `id`.

    Returns:
        At most one problem.
    """
    n_repeated = table.num_rows - len(pc.unique(table["id"]))
    return [f"{n_repeated} rows have the id of another row"] if n_repeated else []


def find_image_violations(images: pa.ChunkedArray) -> list[str]:
    """Find image keys that are not POSIX paths below a source's root: absolute paths, `..`, backslashes, empty keys.

    Args:
        images: An ImageRef, a list of ImageRefs or null in each row.

    Returns:
        At most one problem, with the first unsafe key and the number of unsafe keys.
    """
    references = images.combine_chunks()
    keys = (references.flatten() if pa.types.is_list(references.type) else references.drop_null()).field("key")
    unsafe = pc.or_(pc.match_substring_regex(keys, r"(^|/)\.\.(/|$)|\\|^/|^[A-Za-z]:"), pc.equal(keys, ""))
    unsafe_keys = keys.filter(unsafe)
    return (
        [f"image key {unsafe_keys[0].as_py()!r} is not a path below the source's root ({len(unsafe_keys)} such)"]
        if len(unsafe_keys)
        else []
    )


def find_length_violations(table: pa.Table) -> list[str]:
    """Find boxes that do not have 4 numbers and masks whose size does not have 2 (`structs.LENGTHS`).

    A null number is a violation. A null mask is not.

    Args:
        table: Rows of any schema.

    Returns:
        One problem per faulty field.
    """
    problems = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        for path, lists, length in _iterate_number_lists(name, column.combine_chunks()):
            is_right = pc.fill_null(pc.equal(pc.list_value_length(lists), length), False)
            wrong_lists = lists.filter(pc.invert(is_right)).to_pylist()
            if lists.flatten().null_count:
                wrong_lists += [numbers for numbers in lists.filter(is_right).to_pylist() if None in numbers]
            if wrong_lists:
                problems.append(f"{path} {wrong_lists[0]}: expected {length} numbers ({len(wrong_lists)} such)")
    return problems


def _iterate_number_lists(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array, int]]:
    """Yield path, values and expected length of each field in LENGTHS, at any depth, where its struct is not null."""
    if pa.types.is_list(values.type):
        yield from _iterate_number_lists(path, values.flatten())
    elif pa.types.is_struct(values.type):
        structs = values.drop_null()
        for field, child in zip(structs.type, structs.flatten(), strict=True):
            if field.name in LENGTHS and pa.types.is_list(field.type):
                yield f"{path}.{field.name}", child, LENGTHS[field.name]
            else:
                yield from _iterate_number_lists(f"{path}.{field.name}", child)


def is_inside(xywh: Sequence[float], row: Mapping[str, Any]) -> bool:
    """Tell whether a box has an area and lies within its row's image.

    Args:
        xywh: x, y, width and height in pixels.
        row: A row with `width` and `height` in pixels.

    Returns:
        True if it does, up to the rounding error of float32 columns.
    """
    x, y, width, height = xywh
    slack = 1e-3 * max(row["width"], row["height"])  # float32 columns
    is_within = (
        x >= -slack and y >= -slack and x + width <= row["width"] + slack and y + height <= row["height"] + slack
    )
    return width > 0 and height > 0 and is_within


def find_mask_violations(mask: dict[str, Any], size: Sequence[int] | None) -> list[str]:
    """Find faults in a mask: it does not decode, or its size differs from its image's.

    Args:
        mask: The mask in COCO run-length encoding.
        size: Height and width of the image in pixels; None if they are unknown.

    Returns:
        At most one problem.
    """
    if size is not None and list(mask["size"]) != list(size):
        return [f"mask of {mask['size']} (height, width) on an image of {list(size)}"]
    try:
        rle.validate_rle(mask)
    except ValueError as error:
        return [f"mask: {error}"]
    return []
