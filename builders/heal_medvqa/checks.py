"""Checks of the rows of HEAL-MedVQA, one function per schema, and of perturbed rows against their originals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from ...loaders import rle
from ..checks import find_id_violations, find_image_violations, find_mask_violations, is_inside, iterate_rows

KINDS = {"positive": "closed", "hallucinated": "closed", "abnormal": "open", "normal": "open"}
ANSWERS = {"positive": "Yes", "hallucinated": "No"}


def find_question_violations(table: pa.Table) -> list[str]:
    """Find faults in questions: ids, image keys, answers that do not fit their kind, masks, boxes.

    Args:
        table: Rows in the schema QUESTION.

    Returns:
        The problems.
    """
    problems = [*find_id_violations(table), *find_image_violations(table["image"])]
    for row in iterate_rows(table):
        row_name, kind = f"row {row['id']}", row["kind"]
        if KINDS.get(kind) != row["question_type"]:
            problems.append(f"{row_name}: kind {kind!r} of question type {row['question_type']!r}")
        elif kind in ANSWERS and (row["answer"] != ANSWERS[kind] or len(row["diseases"]) != 1):
            problems.append(f"{row_name}: answer {row['answer']!r} to a {kind} question of {row['diseases']}")
        elif (kind == "normal") == bool(row["diseases"]):
            problems.append(f"{row_name}: kind {kind!r} with the diseases {row['diseases']}")
        problems += [
            f"{row_name}: {problem}" for problem in _find_mask_problems(row["region"], [row["height"], row["width"]])
        ]
        problems += [f"{row_name}: {problem}" for problem in _find_box_problems(row)]
    return problems


def find_tpt_violations(table: pa.Table) -> list[str]:
    """Find faults in text perturbations: repeated ids and unknown kinds.

    Args:
        table: Rows in the schema TPT.

    Returns:
        The problems.
    """
    unknown = set(table["kind"].to_pylist()) - {"anatomy", "disease"}
    return [*find_id_violations(table), *(f"kind {kind!r}" for kind in sorted(unknown))]


def find_vpt_violations(table: pa.Table) -> list[str]:
    """Find faults in image perturbations: repeated ids, unsafe image keys of donors, masks that do not decode.

    Args:
        table: Rows in the schema VPT.

    Returns:
        The problems.
    """
    problems = [*find_id_violations(table), *find_image_violations(table["donor"])]
    for row in iterate_rows(table):
        for column in ("region", "donor_region"):
            problems += [f"row {row['id']}: {column}: {problem}" for problem in _find_mask_problems(row[column], None)]
    return problems


def find_pair_violations(originals: pa.Table, perturbed: pa.Table, donor_diagnosis: str) -> list[str]:
    """Find perturbed rows that do not differ from a positive question of their split as their kind requires.

    Args:
        originals: The questions of the split.
        perturbed: The perturbed rows.
        donor_diagnosis: The rule of the build (`perturbations.DONOR_DIAGNOSES`).

    Returns:
        The problems.
    """
    positive_rows, diseased_regions = {}, set()
    for row in iterate_rows(originals):
        if row["kind"] == "positive":
            positive_rows[row["id"]] = row
        if row["kind"] in ("positive", "abnormal"):
            diseased_regions |= {(row["image"]["key"], row["anatomy"], disease) for disease in row["diseases"]}
    problems = []
    for row in iterate_rows(perturbed):
        row_name, original = f"row {row['id']}", positive_rows.get(row["original_id"])
        if original is None:
            problems.append(f"{row_name}: original_id {row['original_id']!r} is no positive question of this split")
        elif "donor" in row:
            if row["region"] != original["region"]:
                problems.append(f"{row_name}: a region that is not its question's")
            if row["donor"] == original["image"]:
                problems.append(f"{row_name}: the question's own image as the donor")
            disease = original["diseases"][0]
            if (row["donor"]["key"], original["anatomy"], disease) in diseased_regions:
                problems.append(f"{row_name}: a donor that has {disease!r} at the {original['anatomy']}, too")
            if donor_diagnosis == "image" and disease in row["donor_diseases"]:
                problems.append(f"{row_name}: a donor image that has {disease!r}, too")
        else:
            differences = {
                "anatomy": row["anatomy"] != original["anatomy"],
                "disease": [row["disease"]] != original["diseases"],
            }
            if [changed_column for changed_column, is_changed in differences.items() if is_changed] != [row["kind"]]:
                problems.append(f"{row_name}: {row['anatomy']}, {row['disease']} as a swap of the {row['kind']}")
    return problems


def _find_mask_problems(mask: dict[str, Any], size: Sequence[int] | None) -> list[str]:
    return find_mask_violations(mask, size) or ([] if rle.area(mask) else ["empty mask"])


def _find_box_problems(row: Mapping[str, Any]) -> list[str]:
    problems = []
    for box in row["boxes"]:
        if not is_inside(box["xywh"], row):
            problems.append(f"box {box['xywh']} is not within the image")
        if box["label"] not in row["diseases"]:
            problems.append(f"box of {box['label']!r}, which is not among {row['diseases']}")
    return problems
