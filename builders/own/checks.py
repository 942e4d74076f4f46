"""Checks of the rows of a user's own table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from ..checks import (
    find_id_violations,
    find_image_violations,
    find_length_violations,
    find_mask_violations,
    is_inside,
    iterate_rows,
)
from .rows import CHOICE, OPEN, YES_NO, YES_NO_OPTIONS


def find_violations(table: pa.Table) -> list[str]:
    """Find faults in rows: ids, image keys, answers that do not fit their kind, masks, boxes.

    Args:
        table: Rows in the schema QUESTION.

    Returns:
        The problems.
    """
    problems = [*find_id_violations(table), *find_image_violations(table["images"])]
    if faulty := find_length_violations(table):
        return problems + faulty
    for row in iterate_rows(table):
        problems += [f"row {row['id']}: {problem}" for problem in _find_row_problems(row)]
    return problems


def _find_row_problems(row: Mapping[str, Any]) -> list[str]:
    problems = []
    options, answer, kind = row["options"], row["answer"], row["kind"]
    if not row["images"]:
        problems.append("it has no image")
    if not row["question"] or not row["patient_id"]:
        problems.append("it has no question or no patient")
    if kind == OPEN:
        fits = not options and answer == -1 and bool(row["gold"])
    else:
        has_options = options == [*YES_NO_OPTIONS] if kind == YES_NO else kind == CHOICE and len({*options}) > 1
        fits = has_options and 0 <= answer < len(options) and row["gold"] == [options[answer]]
    if not fits:
        problems.append(f"kind {kind!r} with the options {options} and the answer {answer} ({row['gold']})")
    region = row["region"]
    if region is not None:
        problems += [f"region: {problem}" for problem in find_mask_violations(region, [row["height"], row["width"]])]
    if region is not None and len(row["images"]) != 1:
        problems.append(f"a region and {len(row['images'])} images")
    if row["boxes"] and region is None:
        problems.append("boxes without a region")
    return problems + [
        f"box {box['xywh']} is not inside of the image" for box in row["boxes"] if not is_inside(box["xywh"], row)
    ]
