"""What rows of HEAL-MedVQA must satisfy, one function a schema; and what binds perturbed rows to their originals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from ...loaders import rle
from ..checks import id_violations, image_violations, is_inside, mask_violations, rows_of

KINDS = {"positive": "closed", "hallucinated": "closed", "abnormal": "open", "normal": "open"}
ANSWERS = {"positive": "Yes", "hallucinated": "No"}


def question_violations(table: pa.Table) -> list[str]:
    """Of questions: unique ids, images below a root, answers that fit their kind, masks and boxes within the image."""
    found = [*id_violations(table), *image_violations(table["image"])]
    for row in rows_of(table):
        where, kind = f"row {row['id']}", row["kind"]
        if KINDS.get(kind) != row["question_type"]:
            found.append(f"{where}: kind {kind!r} of question type {row['question_type']!r}")
        elif kind in ANSWERS and (row["answer"] != ANSWERS[kind] or len(row["diseases"]) != 1):
            found.append(f"{where}: answer {row['answer']!r} to a {kind} question of {row['diseases']}")
        elif (kind == "normal") == bool(row["diseases"]):
            found.append(f"{where}: kind {kind!r} with the diseases {row['diseases']}")
        found += [f"{where}: {problem}" for problem in _mask(row["region"], [row["height"], row["width"]])]
        found += [f"{where}: {problem}" for problem in _boxes(row)]
    return found


def tpt_violations(table: pa.Table) -> list[str]:
    """Of text perturbations: unique ids and known kinds."""
    unknown = set(table["kind"].to_pylist()) - {"anatomy", "disease"}
    return [*id_violations(table), *(f"kind {kind!r}" for kind in sorted(unknown))]


def vpt_violations(table: pa.Table) -> list[str]:
    """Of image perturbations: unique ids, donors below a root, masks that decode."""
    found = [*id_violations(table), *image_violations(table["donor"])]
    for row in rows_of(table):
        for column in ("region", "donor_region"):
            found += [f"row {row['id']}: {column}: {problem}" for problem in _mask(row[column], None)]
    return found


def pair_violations(originals: pa.Table, perturbed: pa.Table, donor_diagnosis: str) -> list[str]:
    """Every perturbed row belongs to a positive question of the same split, and differs from it as its kind says.

    donor_diagnosis: the rule of the build (`perturbations.DONOR_DIAGNOSES`).
    """
    positive, diseased = {}, set()
    for row in rows_of(originals):
        if row["kind"] == "positive":
            positive[row["id"]] = row
        if row["kind"] in ("positive", "abnormal"):
            diseased |= {(row["image"]["key"], row["anatomy"], disease) for disease in row["diseases"]}
    found = []
    for row in rows_of(perturbed):
        where, original = f"row {row['id']}", positive.get(row["original_id"])
        if original is None:
            found.append(f"{where}: original_id {row['original_id']!r} is no positive question of this split")
        elif "donor" in row:
            if row["region"] != original["region"]:
                found.append(f"{where}: a region that is not its question's")
            if row["donor"] == original["image"]:
                found.append(f"{where}: the question's own image as the donor")
            disease = original["diseases"][0]
            if (row["donor"]["key"], original["anatomy"], disease) in diseased:
                found.append(f"{where}: a donor that has {disease!r} at the {original['anatomy']}, too")
            if donor_diagnosis == "image" and disease in row["donor_diseases"]:
                found.append(f"{where}: a donor image that has {disease!r}, too")
        else:
            swapped = {
                "anatomy": row["anatomy"] != original["anatomy"],
                "disease": [row["disease"]] != original["diseases"],
            }
            if [part for part, differs in swapped.items() if differs] != [row["kind"]]:
                found.append(f"{where}: {row['anatomy']}, {row['disease']} as a swap of the {row['kind']}")
    return found


def _mask(mask: dict[str, Any], size: Sequence[int] | None) -> list[str]:
    return mask_violations(mask, size) or ([] if rle.area(mask) else ["empty mask"])


def _boxes(row: Mapping[str, Any]) -> list[str]:
    problems = []
    for box in row["boxes"]:
        if not is_inside(box["xywh"], row):
            problems.append(f"box {box['xywh']} is not within the image")
        if box["label"] not in row["diseases"]:
            problems.append(f"box of {box['label']!r}, which is not among {row['diseases']}")
    return problems
