"""Checks of the rows of SurgXBench, one function per schema."""

from __future__ import annotations

import pyarrow as pa

from ...loaders import cholec80_boxes, cholecseg8k
from ...loaders.cholec_triplets import TRIPLETS
from ..checks import find_id_violations, find_image_violations, find_mask_violations, is_inside, iterate_rows


def find_instrument_violations(table: pa.Table) -> list[str]:
    """Find faults in frames with boxes: ids, image keys, boxes outside the frame, instruments without boxes.

    Args:
        table: Rows in the schema INSTRUMENTS.

    Returns:
        The problems.
    """
    problems = _find_frame_violations(table)
    for row in iterate_rows(table):
        if set(row["instruments"]) != {box["label"] for box in row["boxes"]}:
            problems.append(f"row {row['id']}: instruments {row['instruments']}, which are not those of its boxes")
    return problems


def find_segmented_violations(table: pa.Table) -> list[str]:
    """Find faults in frames of CholecSeg8k: those of frames with boxes, keys of other frames, unlabelled instruments.

    Args:
        table: Rows in the schema INSTRUMENTS.

    Returns:
        The problems.
    """
    problems = find_instrument_violations(table)
    for row in iterate_rows(table):
        match = cholecseg8k.FILE.fullmatch(row["image"]["key"])
        if not match or (int(match[1]), int(match[3])) != (row["video"], row["frame"]):
            expected = f"frame {row['frame']} of video {row['video']}"
            problems.append(f"row {row['id']}: image {row['image']['key']!r}, which is not {expected}")
        if others := sorted({box["label"] for box in row["boxes"]} - {*cholecseg8k.INSTRUMENTS}):
            problems.append(f"row {row['id']}: box of {others[0]!r}, which CholecSeg8k does not label")
    return problems


def find_triplet_violations(table: pa.Table) -> list[str]:
    """Find faults in frames with triplets: ids, image keys, boxes, unofficial triplets, masks of a wrong size.

    Args:
        table: Rows in the schema TRIPLETS.

    Returns:
        The problems.
    """
    problems = _find_frame_violations(table)
    for row in iterate_rows(table):
        row_name = f"row {row['id']}"
        for triplet in row["triplets"]:
            number, triplet_names = triplet["id"], (triplet["instrument"], triplet["verb"], triplet["target"])
            if not 0 <= number < len(TRIPLETS) or tuple(TRIPLETS[number]) != triplet_names:
                problems.append(f"{row_name}: triplet {number} is not {', '.join(triplet_names)}")
        if sorted(set(row["instruments"])) != sorted({triplet["instrument"] for triplet in row["triplets"]}):
            problems.append(f"{row_name}: instruments {row['instruments']}, which are not those of its triplets")
        if (row["motion"] is None) != (row["camera"] is None):
            problems.append(f"{row_name}: motion without camera, or camera without motion")
        if row["motion"] is not None:
            problems += [
                f"{row_name}: {problem}"
                for problem in find_mask_violations(row["motion"], [row["height"], row["width"]])
            ]
    return problems


def _find_frame_violations(table: pa.Table) -> list[str]:
    problems = [
        *find_id_violations(table),
        *find_image_violations(table["image"]),
        *find_image_violations(table["successor"]),
    ]
    for row in iterate_rows(table):
        for box in row["boxes"]:
            if not is_inside(box["xywh"], row):
                problems.append(f"row {row['id']}: box {box['xywh']} is not within the frame")
            if box["label"] not in cholec80_boxes.INSTRUMENTS:
                problems.append(f"row {row['id']}: box of {box['label']!r}, which is no instrument")
    return problems
