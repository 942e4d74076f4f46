"""Perturbed partners of the sentences (That's the Wrong Lung!, sections 3.1, A.3, A.5, B.1): new texts or new boxes.

A random choice depends on the seed, the row's id and the sentences to choose from, not on their order. Each function
returns rows in the schema PERTURBED and the counts of skipped or remarkable sentences by reason.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..hashing import pick, shuffled
from .boxes import Box, Corners, clip_box, find_boxes
from .laterality import side, swapped
from .reasons import (
    ALONE,
    BOXES_OUTSIDE,
    NO_BOXES_DONOR,
    NO_OTHER_CONDITION,
    NO_SENTENCE_DONOR,
    NO_SIDE,
    NOT_BOXED,
    NOTHING_TO_TRIM,
    SAME_BOXES,
    SAME_CONDITIONS,
    SAME_SENTENCE,
)  # fmt: skip
from .sentences import LUNGS, Sentence, build_labels, get_report
from .synthetic import group_by_locations, replace_conditions, sentence

RANDOM_BOXES = ("share", "pixels")
Row = dict[str, Any]
Made = tuple[list[Row], Counter[str]]
Anatomy = Mapping[str, Mapping[str, Corners]]  # by image key and name


def make_partner(row: Mapping[str, Any], perturbation: str, **changes: Any) -> Row:
    """Make the perturbed copy of a row, its partner, with an id of its own and the original's id.

    `described` has the boxes that the partner's text describes. Unless `changes` contain it, these are the boxes that
    the row's text describes.

    Args:
        row: The original.
        perturbation: The name of the perturbation.
        **changes: New values of columns.

    Returns:
        A row in the schema PERTURBED.
    """
    identity = {"id": f"{row['id']}:{perturbation}", "original_id": row["id"], "perturbation": perturbation}
    return dict(row) | {"described": row.get("described", row["boxes"])} | identity | changes


def swap_left_right(rows: Iterable[Row], anatomy: Anatomy, *, swap: str = "words") -> Made:
    """Exchange left and right in the text, which then describes the other side's anatomies, if the image has them.

    Args:
        rows: The originals.
        anatomy: The corners by image key and anatomy.
        swap: How sides are exchanged (`laterality.swapped`).

    Returns:
        The partners and the counts by reason.
    """
    partners, counted = [], Counter()
    for row in rows:
        text, described = swapped(row["sentence"], swap), row["boxes"]
        if text.lower() == row["sentence"].lower():
            counted[NO_SIDE] += 1
        elif swapped(row["sentence"]) != row["sentence"]:  # letters within a word do not name a side
            described = _find_described([swapped(box["label"]) for box in row["boxes"]], row, anatomy, counted)
        partners.append(make_partner(row, "swap_left_right", sentence=text, described=described))
    return partners, counted


def shuffle_in_report(rows: Sequence[Row], *, seed: int) -> Made:
    """Shuffle the sets of boxes among the sentences of a report.

    All orders are equally likely, so a sentence may keep its boxes, as in the paper. A sentence alone in its report has
    no partner.

    Args:
        rows: The originals.
        seed: The seed of the build.

    Returns:
        The partners and the counts by reason.
    """
    partners, counted = [], Counter()
    reports: defaultdict[tuple[str, str], dict[str, Row]] = defaultdict(dict)
    for row in rows:
        reports[get_report(row)][row["id"]] = row
    new_boxes: dict[str, list[Box]] = {}
    for report, report_rows in reports.items():
        order = shuffled(report_rows, f"{'/'.join(report)}:shuffle_in_report", seed)
        new_boxes |= {
            row_id: report_rows[other_id]["boxes"] for row_id, other_id in zip(sorted(report_rows), order, strict=True)
        }
    for row in rows:
        if len(reports[get_report(row)]) == 1:
            counted[ALONE] += 1
            continue
        counted[SAME_BOXES] += new_boxes[row["id"]] == row["boxes"]
        partners.append(make_partner(row, "shuffle_in_report", boxes=new_boxes[row["id"]]))
    return partners, counted


def random_sentences(rows: Sequence[Row], anatomy: Anatomy, *, seed: int) -> Made:
    """Replace the text with a sentence of another patient. All such sentences are equally likely.

    The new sentence describes its own anatomies, if this image has them.

    Args:
        rows: The originals.
        anatomy: The corners by image key and anatomy.
        seed: The seed of the build.

    Returns:
        The partners and the counts by reason.
    """
    partners, counted = [], Counter()
    choose_donor = _make_donor_choice(rows, "random_sentences", seed)
    for row in rows:
        donor = choose_donor(row)
        if donor is None:
            counted[NO_SENTENCE_DONOR] += 1
            continue
        counted[SAME_SENTENCE] += donor["sentence"] == row["sentence"]
        described = _find_described([box["label"] for box in donor["boxes"]], row, anatomy, counted)
        changes = {"sentence": donor["sentence"], "labels": donor["labels"], "described": described}
        partners.append(make_partner(row, "random_sentences", **changes))
    return partners, counted


def random_boxes(rows: Sequence[Row], *, seed: int, place: str = "share") -> Made:
    """Replace the boxes with the boxes of another patient's sentence. All such sentences are equally likely.

    Args:
        rows: The originals.
        seed: The seed of the build.
        place: "share" puts the boxes at the same share of this image's width and height, "pixels" at the same pixels.

    Returns:
        The partners and the counts by reason.

    Raises:
        ValueError: `place` is unknown.
    """
    if place not in RANDOM_BOXES:
        raise ValueError(f"random boxes {place!r}; expected one of {', '.join(RANDOM_BOXES)}")
    partners, counted = [], Counter()
    choose_donor = _make_donor_choice(rows, "random_boxes", seed)
    for row in rows:
        donor = choose_donor(row)
        if donor is None:
            counted[NO_BOXES_DONOR] += 1
            continue
        boxes = _transfer_boxes(donor, row, place)
        if not boxes:
            counted[BOXES_OUTSIDE] += 1
            continue
        partners.append(make_partner(row, "random_boxes", boxes=boxes))
    return partners, counted


def trimmed(rows: Iterable[Row]) -> Made:
    """Remove boxes of complete lungs if there is a smaller box on the same side (B.1).

    Args:
        rows: The originals.

    Returns:
        The partners and the counts by reason.
    """
    partners, counted = [], Counter()
    for row in rows:
        boxes = remove_large_boxes(row["boxes"])
        counted[NOTHING_TO_TRIM] += boxes == row["boxes"]
        partners.append(make_partner(row, "trimmed", boxes=boxes))
    return partners, counted


def remove_large_boxes(boxes: Sequence[Box]) -> list[Box]:
    """Remove the box "left lung" if the name of another box has the word left, and likewise on the right.

    Args:
        boxes: The boxes of a row.

    Returns:
        The remaining boxes.
    """
    sides = Counter(side(box["label"]) for box in boxes)
    return [box for box in boxes if box["label"] not in LUNGS or sides[side(box["label"])] == 1]


def synthetic(sentences: Iterable[Sentence]) -> Made:
    """Replace the texts with sentences made from the labels (A.3).

    Args:
        sentences: The originals.

    Returns:
        The partners and the counts by reason.
    """
    return [make_partner(row, "synthetic", sentence=sentence(conditions)) for row, conditions in sentences], Counter()


def synthetic_swapped_conditions(sentences: Sequence[Sentence], *, seed: int) -> Made:
    """Make synthetic sentences with other conditions at the same anatomies (A.5). The originals are the synthetic rows.

    Args:
        sentences: The originals of the synthetic rows.
        seed: The seed of the build.

    Returns:
        The partners and the counts by reason.
    """
    partners, counted = [], Counter()
    conditions_by_location = group_by_locations(conditions for _, conditions in sentences)
    originals, _ = synthetic(sentences)
    for row, (_, conditions) in zip(originals, sentences, strict=True):
        new_conditions = replace_conditions(
            conditions, conditions_by_location, f"{row['id']}:synthetic_swapped_conditions", seed
        )
        n_unchanged = len(conditions.keys() & new_conditions.keys())
        counted[NO_OTHER_CONDITION] += n_unchanged
        counted[SAME_CONDITIONS] += n_unchanged == len(conditions)
        changes = {"sentence": sentence(new_conditions), "labels": build_labels(new_conditions)}
        partners.append(make_partner(row, "synthetic_swapped_conditions", **changes))
    return partners, counted


def _make_donor_choice(rows: Sequence[Row], perturbation: str, seed: int) -> Callable[[Row], Row | None]:
    """Make a function that chooses a row of another patient by hash; it returns None if there is none."""
    sorted_rows = sorted(rows, key=lambda row: row["id"])
    n_others = {patient: len(rows) - n for patient, n in Counter(row["patient_id"] for row in rows).items()}

    def choose(row: Row) -> Row | None:
        if not n_others[row["patient_id"]]:
            return None
        index = pick(f"{row['id']}:{perturbation}", n_others[row["patient_id"]], seed)
        other_rows = (other_row for other_row in sorted_rows if other_row["patient_id"] != row["patient_id"])
        return next(other_row for i, other_row in enumerate(other_rows) if i == index)

    return choose


def _transfer_boxes(donor: Row, row: Row, place: str) -> list[Box]:
    x_scale, y_scale = 1.0, 1.0
    if place == "share":
        x_scale, y_scale = row["width"] / donor["width"], row["height"] / donor["height"]
    size = (row["height"], row["width"])
    boxes = []
    for box in donor["boxes"]:
        x, y, width, height = box["xywh"]
        boxes.append(clip_box(box["label"], (x * x_scale, y * y_scale, width * x_scale, height * y_scale), size))
    return [box for box in boxes if box is not None]


def _find_described(names: Sequence[str], row: Row, anatomy: Anatomy, counted: Counter[str]) -> list[Box]:
    size = (row["height"], row["width"])
    boxes = find_boxes(names, row["boxes"], anatomy.get(row["image"]["key"], {}), size)
    counted[NOT_BOXED] += len(set(names)) - len(boxes)
    return boxes
