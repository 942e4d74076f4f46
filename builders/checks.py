"""What rows of several benchmarks must satisfy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..loaders import rle


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
        rle.checked(mask)
    except ValueError as error:
        return [f"mask: {error}"]
    return []
