"""What rows of That's the Wrong Lung! must satisfy, and what binds perturbed rows to their originals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..checks import id_violations, image_violations, is_inside, rows_of
from .laterality import SWAPS, swapped
from .perturbations import without_large
from .sentences import abnormal, one_lung, report_of

Row = dict[str, Any]
SAME = ("image", "width", "height", "patient_id", "study_id", "subsets")  # of a perturbed row and its original
TEXT_CHANGES = ("swap_left_right", "random_sentences", "synthetic", "synthetic_swapped_conditions")
BOXES_CHANGE = ("shuffle_in_report", "random_boxes", "trimmed")


def sentence_violations(table: pa.Table) -> list[str]:
    """Of sentences: as of all rows, boxes of different anatomies, and the subsets that boxes and labels decide."""
    found = _violations(table, ("boxes",))
    for row in rows_of(table):
        where = f"row {row['id']}"
        names = [box["label"] for box in row["boxes"]]
        if not names or len(set(names)) != len(names):
            found.append(f"{where}: boxes of {names}; expected one or more, of different anatomies")
        decided = {"abnormal": abnormal(row["labels"]), "one_lung": one_lung(row["boxes"])}
        for subset, inside in decided.items():
            if row["subsets"][subset] != inside:
                found.append(f"{where}: subset {subset} is {row['subsets'][subset]}, by its boxes and labels {inside}")
    return found


def perturbed_violations(table: pa.Table) -> list[str]:
    """Of perturbed rows, without their originals: as of all rows, and one known perturbation."""
    found = _violations(table, ("boxes", "described"))
    known = pc.is_in(table["perturbation"], value_set=pa.array((*TEXT_CHANGES, *BOXES_CHANGE)))
    unknown = table["perturbation"].filter(pc.invert(known)).unique().to_pylist()
    return [*found, *(f"perturbation {name!r}, which is none" for name in unknown)]


def pair_violations(originals: pa.Table, perturbed: pa.Table, config: str) -> list[str]:
    """Every perturbed row belongs to an original and differs from it as its config says."""
    of_id = {row["id"]: row for row in rows_of(originals)}
    rows = list(rows_of(perturbed))
    found, pairs = [], []
    for row in rows:
        original = of_id.get(row["original_id"])
        if original is None:
            found.append(f"row {row['id']}: original_id {row['original_id']!r} is no row that it could be made of")
            continue
        pairs.append((row, original))
        found += [f"row {row['id']}: {problem}" for problem in _pair(row, original, config)]
    of_config = OF_CONFIG.get(config)
    return found + (of_config(pairs, list(of_id.values())) if of_config else [])


def _pair(row: Row, original: Row, config: str) -> Iterator[str]:
    if row["perturbation"] != config or row["id"] != f"{original['id']}:{config}":
        yield f"perturbation {row['perturbation']!r} in config {config}; expected the id {original['id']}:{config}"
    for column in SAME:
        if row[column] != original[column]:
            yield f"{column} {row[column]}, not {original[column]} as of its original"
    kept = ("boxes",) if config in TEXT_CHANGES else ("sentence", "labels")
    for column in kept:
        if row[column] != original[column]:
            yield f"{column} that are not its original's, which {config} does not change"
    if config not in ("swap_left_right", "random_sentences") and row["described"] != original["boxes"]:
        yield "described boxes that are not its original's, although it says the same of them"


def _swap(pairs: Sequence[tuple[Row, Row]], _: Sequence[Row]) -> list[str]:
    found = []
    for row, original in pairs:
        before, after = original["sentence"].lower(), row["sentence"].lower()
        ways = [swap for swap in SWAPS if swapped(after, swap) == before and swapped(before, swap) == after]
        if not ways or row["labels"] != original["labels"]:
            found.append(f"row {row['id']}: its text is not its original's with left and right exchanged")
        names = {box["label"] for box in row["boxes"]}
        expected = names if before == after else {swapped(name) for name in names}
        if not {box["label"] for box in row["described"]} <= expected:
            found.append(f"row {row['id']}: describes anatomies that are not the other side's")
    return found


def _shuffle(pairs: Sequence[tuple[Row, Row]], originals: Sequence[Row]) -> list[str]:
    given, had = defaultdict(list), defaultdict(list)
    for row, _ in pairs:
        given[report_of(row)].append(_key(row["boxes"]))
    for original in originals:
        had[report_of(original)].append(_key(original["boxes"]))
    return [
        f"report {report[0]}: its sentences' sets of boxes are not those of the originals in another order"
        for report, boxes in given.items()
        if sorted(boxes) != sorted(had[report])
    ]


def _trim(pairs: Sequence[tuple[Row, Row]], _: Sequence[Row]) -> list[str]:
    return [
        f"row {row['id']}: boxes that are not its original's without the large ones"
        for row, original in pairs
        if row["boxes"] != without_large(original["boxes"])
    ]


def _from_others(part: Callable[[Row], str]) -> Callable[[Sequence[tuple[Row, Row]], Sequence[Row]], list[str]]:
    """That what a row has in place of its own is another patient's."""

    def check(pairs: Sequence[tuple[Row, Row]], originals: Sequence[Row]) -> list[str]:
        patients = defaultdict(set)
        for original in originals:
            patients[part(original)].add(original["patient_id"])
        return [
            f"row {row['id']}: has nothing of another patient in place of its own"
            for row, _ in pairs
            if not patients[part(row)] - {row["patient_id"]}
        ]

    return check


OF_CONFIG: Mapping[str, Callable[[Sequence[tuple[Row, Row]], Sequence[Row]], list[str]]] = {
    "swap_left_right": _swap,
    "shuffle_in_report": _shuffle,
    "random_sentences": _from_others(lambda row: row["sentence"]),
    "trimmed": _trim,
}


def _violations(table: pa.Table, columns: Sequence[str]) -> list[str]:
    """Of all rows: unique ids, images below a root, a text, named boxes within the image, contexts that there are."""
    found = [*id_violations(table), *image_violations(table["image"])]
    for row in rows_of(table):
        where = f"row {row['id']}"
        if not (row["sentence"] or "").strip():
            found.append(f"{where}: no text")
        if unknown := {label["context"] for label in row["labels"]} - {"yes", "no"}:
            found.append(f"{where}: context {', '.join(sorted(unknown))}; expected yes or no")
        for column in columns:
            if not all((box["label"] or "").strip() for box in row[column]):
                found.append(f"{where}: a box of {column} without a label")
            outside = [box["xywh"] for box in row[column] if not is_inside(box["xywh"], row)]
            found += [f"{where}: box {xywh} of {column} is not within the image" for xywh in outside]
    return found


def _key(boxes: Sequence[Mapping[str, Any]]) -> str:
    return str([(box["label"], box["xywh"]) for box in boxes])
