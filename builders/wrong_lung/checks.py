"""Checks of the rows of That's the Wrong Lung!, and of perturbed rows against their originals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..checks import find_id_violations, find_image_violations, is_inside, iterate_rows
from .laterality import SWAPS, swapped
from .perturbations import remove_large_boxes
from .sentences import get_report, has_one_lung, is_abnormal

Row = dict[str, Any]
SHARED_COLUMNS = (
    "image",
    "width",
    "height",
    "patient_id",
    "study_id",
    "subsets",
)  # columns that a perturbed row and its original share
TEXT_CHANGES = ("swap_left_right", "random_sentences", "synthetic", "synthetic_swapped_conditions")
BOXES_CHANGE = ("shuffle_in_report", "random_boxes", "trimmed")


def find_sentence_violations(table: pa.Table) -> list[str]:
    """Find faults in sentences.

    They are faults of any row, repeated anatomies, and subsets that contradict boxes and labels.

    Args:
        table: Rows in the schema SENTENCE.

    Returns:
        The problems.
    """
    problems = _find_violations(table, ("boxes",))
    for row in iterate_rows(table):
        row_name = f"row {row['id']}"
        names = [box["label"] for box in row["boxes"]]
        if not names or len(set(names)) != len(names):
            problems.append(f"{row_name}: boxes of {names}; expected one or more, of different anatomies")
        subsets = {"abnormal": is_abnormal(row["labels"]), "one_lung": has_one_lung(row["boxes"])}
        for subset, is_member in subsets.items():
            if row["subsets"][subset] != is_member:
                problems.append(
                    f"{row_name}: subset {subset} is {row['subsets'][subset]}, by its boxes and labels {is_member}"
                )
    return problems


def find_perturbed_violations(table: pa.Table) -> list[str]:
    """Find faults in perturbed rows alone: faults of any row, and unknown perturbations.

    Args:
        table: Rows in the schema PERTURBED.

    Returns:
        The problems.
    """
    problems = _find_violations(table, ("boxes", "described"))
    is_known = pc.is_in(table["perturbation"], value_set=pa.array((*TEXT_CHANGES, *BOXES_CHANGE)))
    unknown = table["perturbation"].filter(pc.invert(is_known)).unique().to_pylist()
    return [*problems, *(f"perturbation {name!r}, which is none" for name in unknown)]


def find_pair_violations(originals: pa.Table, perturbed: pa.Table, config: str) -> list[str]:
    """Find perturbed rows that have no original, or do not differ from it as their config requires.

    Args:
        originals: The rows of the originals' config.
        perturbed: The perturbed rows.
        config: The name of the perturbed config.

    Returns:
        The problems.
    """
    original_by_id = {row["id"]: row for row in iterate_rows(originals)}
    rows = list(iterate_rows(perturbed))
    problems, pairs = [], []
    for row in rows:
        original = original_by_id.get(row["original_id"])
        if original is None:
            problems.append(f"row {row['id']}: original_id {row['original_id']!r} is no row that it could be made of")
            continue
        pairs.append((row, original))
        problems += [f"row {row['id']}: {problem}" for problem in _find_row_problems(row, original, config)]
    config_check = CONFIG_CHECKS.get(config)
    return problems + (config_check(pairs, list(original_by_id.values())) if config_check else [])


def _find_row_problems(row: Row, original: Row, config: str) -> Iterator[str]:
    if row["perturbation"] != config or row["id"] != f"{original['id']}:{config}":
        yield f"perturbation {row['perturbation']!r} in config {config}; expected the id {original['id']}:{config}"
    for column in SHARED_COLUMNS:
        if row[column] != original[column]:
            yield f"{column} {row[column]}, not {original[column]} as of its original"
    unchanged_columns = ("boxes",) if config in TEXT_CHANGES else ("sentence", "labels")
    for column in unchanged_columns:
        if row[column] != original[column]:
            yield f"{column} that are not its original's, which {config} does not change"
    if config not in ("swap_left_right", "random_sentences") and row["described"] != original["boxes"]:
        yield "described boxes that are not its original's, although it says the same of them"


def _check_swap(pairs: Sequence[tuple[Row, Row]], _: Sequence[Row]) -> list[str]:
    problems = []
    for row, original in pairs:
        original_text, text = original["sentence"].lower(), row["sentence"].lower()
        swaps = [
            swap for swap in SWAPS if swapped(text, swap) == original_text and swapped(original_text, swap) == text
        ]
        if not swaps or row["labels"] != original["labels"]:
            problems.append(f"row {row['id']}: its text is not its original's with left and right exchanged")
        names = {box["label"] for box in row["boxes"]}
        expected = names if original_text == text else {swapped(name) for name in names}
        if not {box["label"] for box in row["described"]} <= expected:
            problems.append(f"row {row['id']}: describes anatomies that are not the other side's")
    return problems


def _check_shuffle(pairs: Sequence[tuple[Row, Row]], originals: Sequence[Row]) -> list[str]:
    new_boxes, original_boxes = defaultdict(list), defaultdict(list)
    for row, _ in pairs:
        new_boxes[get_report(row)].append(_format_boxes(row["boxes"]))
    for original in originals:
        original_boxes[get_report(original)].append(_format_boxes(original["boxes"]))
    return [
        f"report {report[0]}: its sentences' sets of boxes are not those of the originals in another order"
        for report, boxes in new_boxes.items()
        if sorted(boxes) != sorted(original_boxes[report])
    ]


def _check_trim(pairs: Sequence[tuple[Row, Row]], _: Sequence[Row]) -> list[str]:
    return [
        f"row {row['id']}: boxes that are not its original's without the large ones"
        for row, original in pairs
        if row["boxes"] != remove_large_boxes(original["boxes"])
    ]


def _make_donor_check(
    get_part: Callable[[Row], str],
) -> Callable[[Sequence[tuple[Row, Row]], Sequence[Row]], list[str]]:
    """Make a check that the new part of each row comes from another patient."""

    def check(pairs: Sequence[tuple[Row, Row]], originals: Sequence[Row]) -> list[str]:
        patients = defaultdict(set)
        for original in originals:
            patients[get_part(original)].add(original["patient_id"])
        return [
            f"row {row['id']}: has nothing of another patient in place of its own"
            for row, _ in pairs
            if not patients[get_part(row)] - {row["patient_id"]}
        ]

    return check


CONFIG_CHECKS: Mapping[str, Callable[[Sequence[tuple[Row, Row]], Sequence[Row]], list[str]]] = {
    "swap_left_right": _check_swap,
    "shuffle_in_report": _check_shuffle,
    "random_sentences": _make_donor_check(lambda row: row["sentence"]),
    "trimmed": _check_trim,
}


def _find_violations(table: pa.Table, columns: Sequence[str]) -> list[str]:
    """Find faults of any row: ids, image keys, empty texts, boxes without label or outside the image, contexts."""
    problems = [*find_id_violations(table), *find_image_violations(table["image"])]
    for row in iterate_rows(table):
        row_name = f"row {row['id']}"
        if not (row["sentence"] or "").strip():
            problems.append(f"{row_name}: no text")
        if unknown := {label["context"] for label in row["labels"]} - {"yes", "no"}:
            problems.append(f"{row_name}: context {', '.join(sorted(unknown))}; expected yes or no")
        for column in columns:
            if not all((box["label"] or "").strip() for box in row[column]):
                problems.append(f"{row_name}: a box of {column} without a label")
            outside = [box["xywh"] for box in row[column] if not is_inside(box["xywh"], row)]
            problems += [f"{row_name}: box {xywh} of {column} is not within the image" for xywh in outside]
    return problems


def _format_boxes(boxes: Sequence[Mapping[str, Any]]) -> str:
    return str([(box["label"], box["xywh"]) for box in boxes])
