"""What rows of SurgXBench must satisfy, one function a schema."""

from __future__ import annotations

import pyarrow as pa

from ...loaders import cholec80_boxes
from ...loaders.cholec_triplets import TRIPLETS
from ..checks import id_violations, image_violations, is_inside, mask_violations, rows_of


def instrument_violations(table: pa.Table) -> list[str]:
    """Of frames with boxes: unique ids, images below a root, boxes within the frame, instruments that have boxes."""
    found = _frame_violations(table)
    for row in rows_of(table):
        if set(row["instruments"]) != {box["label"] for box in row["boxes"]}:
            found.append(f"row {row['id']}: instruments {row['instruments']}, which are not those of its boxes")
    return found


def triplet_violations(table: pa.Table) -> list[str]:
    """Of frames with triplets: as of all frames, official triplets, and masks of the frame's size."""
    found = _frame_violations(table)
    for row in rows_of(table):
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
            found += [
                f"{where}: {problem}" for problem in mask_violations(row["motion"], [row["height"], row["width"]])
            ]
    return found


def _frame_violations(table: pa.Table) -> list[str]:
    found = [*id_violations(table), *image_violations(table["image"]), *image_violations(table["successor"])]
    for row in rows_of(table):
        for box in row["boxes"]:
            if not is_inside(box["xywh"], row):
                found.append(f"row {row['id']}: box {box['xywh']} is not within the frame")
            if box["label"] not in cholec80_boxes.INSTRUMENTS:
                found.append(f"row {row['id']}: box of {box['label']!r}, which is no instrument")
    return found
