"""What rows of SurgXBench must satisfy, one function a schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...loaders import cholec80_boxes, rle
from ...loaders.cholec_triplets import TRIPLETS
from ..verify import image_violations


def instrument_violations(table: pa.Table) -> list[str]:
    """Of frames with boxes: unique ids, images below a root, boxes within the frame, instruments that have boxes."""
    found = _frame_violations(table)
    for row in _rows(table):
        if set(row["instruments"]) != {box["label"] for box in row["boxes"]}:
            found.append(f"row {row['id']}: instruments {row['instruments']}, which are not those of its boxes")
    return found


def triplet_violations(table: pa.Table) -> list[str]:
    """Of frames with triplets: as of all frames, official triplets, and masks of the frame's size."""
    found = _frame_violations(table)
    for row in _rows(table):
        where = f"row {row['id']}"
        for triplet in row["triplets"]:
            number, named = triplet["id"], (triplet["instrument"], triplet["verb"], triplet["target"])
            if not 0 <= number < len(TRIPLETS) or tuple(TRIPLETS[number]) != named:
                found.append(f"{where}: triplet {number} is not {', '.join(named)}")
        if sorted(set(row["instruments"])) != sorted({triplet["instrument"] for triplet in row["triplets"]}):
            found.append(f"{where}: instruments {row['instruments']}, which are not those of its triplets")
        if (row["motion"] is None) != (row["camera"] is None):
            found.append(f"{where}: motion without camera, or camera without motion")
        if row["motion"] is not None:
            found += [f"{where}: {problem}" for problem in _mask(row)]
    return found


def _frame_violations(table: pa.Table) -> list[str]:
    n_repeated = table.num_rows - len(pc.unique(table["id"]))
    found = [f"{n_repeated} ids stand more than once"] if n_repeated else []
    for column in ("image", "successor"):
        references = table[column].combine_chunks().drop_null()
        offsets = pa.array(np.arange(len(references) + 1), pa.int32())
        found += image_violations(pa.ListArray.from_arrays(offsets, references))
    for row in _rows(table):
        for box in row["boxes"]:
            x, y, width, height = box["xywh"]
            slack = 1e-3 * max(row["width"], row["height"])  # float32 columns
            inside = x >= -slack and y >= -slack and x + width <= row["width"] + slack
            if width <= 0 or height <= 0 or not inside or y + height > row["height"] + slack:
                found.append(f"row {row['id']}: box {box['xywh']} is not within the frame")
            if box["label"] not in cholec80_boxes.INSTRUMENTS:
                found.append(f"row {row['id']}: box of {box['label']!r}, which is no instrument")
    return found


def _mask(row: dict[str, Any]) -> list[str]:
    mask, size = row["motion"], [row["height"], row["width"]]
    if list(mask["size"]) != size:
        return [f"mask of {mask['size']} (height, width) on a frame of {size}"]
    try:
        rle.checked(mask)
    except ValueError as error:
        return [f"mask: {error}"]
    return []


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches(max_chunksize=5_000):
        yield from batch.to_pylist()
