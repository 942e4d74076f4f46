"""Perturbed partners of the sentences (That's the Wrong Lung!, sections 3.1, A.3, A.5, B.1): other text or other boxes.

What a row draws depends on the seed, its own id and the sentences to draw from, not on their order. Each function
returns rows in the schema PERTURBED, and how many of what was left out or is worth a count.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..hashing import pick, shuffled
from .boxes import Box, Corners, cut, placed
from .laterality import side, swapped
from .sentences import LUNGS, Sentence, labels_of, report_of
from .synthetic import at_locations, sentence, with_other_conditions

RANDOM_BOXES = ("share", "pixels")
Row = dict[str, Any]
Made = tuple[list[Row], Counter[str]]
Anatomy = Mapping[str, Mapping[str, Corners]]  # by image key and name


def perturbed(row: Mapping[str, Any], perturbation: str, **changed: Any) -> Row:
    """A row's partner, in which `changed` is other. The boxes it had show where what it says lies, if not told."""
    new = {"id": f"{row['id']}:{perturbation}", "original_id": row["id"], "perturbation": perturbation}
    return dict(row) | {"described": row.get("described", row["boxes"])} | new | changed


def swap_left_right(rows: Iterable[Row], anatomy: Anatomy, *, swap: str = "words") -> Made:
    """Left and right exchanged in the text; it then describes the other side's anatomies, where the image has them."""
    made, counted = [], Counter()
    for row in rows:
        text, described = swapped(row["sentence"], swap), row["boxes"]
        if text.lower() == row["sentence"].lower():
            counted["sentences without left and right, which swap_left_right leaves as they are"] += 1
        elif swapped(row["sentence"]) != row["sentence"]:  # letters within a word name no side
            described = _placed([swapped(box["label"]) for box in row["boxes"]], row, anatomy, counted)
        made.append(perturbed(row, "swap_left_right", sentence=text, described=described))
    return made, counted


def shuffle_in_report(rows: Sequence[Row], *, seed: int) -> Made:
    """The sets of boxes of a report's sentences in another order, each as likely: some keep theirs, as published.

    A sentence that is alone in its report has no partner.
    """
    made, counted = [], Counter()
    reports: defaultdict[tuple[str, str], dict[str, Row]] = defaultdict(dict)
    for row in rows:
        reports[report_of(row)][row["id"]] = row
    given: dict[str, list[Box]] = {}
    for report, of_report in reports.items():
        order = shuffled(of_report, f"{'/'.join(report)}:shuffle_in_report", seed)
        given |= {row_id: of_report[other]["boxes"] for row_id, other in zip(sorted(of_report), order, strict=True)}
    for row in rows:
        if len(reports[report_of(row)]) == 1:
            counted["sentences alone in their report, which shuffle_in_report leaves out"] += 1
            continue
        counted["sentences that shuffle_in_report gives the boxes they had"] += given[row["id"]] == row["boxes"]
        made.append(perturbed(row, "shuffle_in_report", boxes=given[row["id"]]))
    return made, counted


def random_sentences(rows: Sequence[Row], anatomy: Anatomy, *, seed: int) -> Made:
    """A sentence of another patient, each as likely; it describes its own anatomies, where this image has them."""
    made, counted = [], Counter()
    drawn = _drawn(rows, "random_sentences", seed)
    for row in rows:
        other = drawn(row)
        if other is None:
            counted["sentences without another patient's, which random_sentences leaves out"] += 1
            continue
        counted["random sentences that read as the ones they replace"] += other["sentence"] == row["sentence"]
        described = _placed([box["label"] for box in other["boxes"]], row, anatomy, counted)
        changed = {"sentence": other["sentence"], "labels": other["labels"], "described": described}
        made.append(perturbed(row, "random_sentences", **changed))
    return made, counted


def random_boxes(rows: Sequence[Row], *, seed: int, place: str = "share") -> Made:
    """The boxes of another patient's sentence, each as likely.

    Args:
        place: "share": at the same shares of this image's width and height; "pixels": at the same pixels.

    Raises:
        ValueError: another place.
    """
    if place not in RANDOM_BOXES:
        raise ValueError(f"random boxes {place!r}; expected one of {', '.join(RANDOM_BOXES)}")
    made, counted = [], Counter()
    drawn = _drawn(rows, "random_boxes", seed)
    for row in rows:
        other = drawn(row)
        if other is None:
            counted["sentences without another patient's, which random_boxes leaves out"] += 1
            continue
        boxes = _transferred(other, row, place)
        if not boxes:
            counted["sentences whose random boxes lie outside of the image, which random_boxes leaves out"] += 1
            continue
        made.append(perturbed(row, "random_boxes", boxes=boxes))
    return made, counted


def trimmed(rows: Iterable[Row]) -> Made:
    """Without the boxes of whole lungs where a smaller one of that side is there (B.1)."""
    made, counted = [], Counter()
    for row in rows:
        boxes = without_large(row["boxes"])
        counted["sentences without a box to trim, which trimmed leaves as they are"] += boxes == row["boxes"]
        made.append(perturbed(row, "trimmed", boxes=boxes))
    return made, counted


def without_large(boxes: Sequence[Box]) -> list[Box]:
    """The boxes without "left lung" where another one's name has the word left, and likewise the right."""
    sides = Counter(side(box["label"]) for box in boxes)
    return [box for box in boxes if box["label"] not in LUNGS or sides[side(box["label"])] == 1]


def synthetic(sentences: Iterable[Sentence]) -> Made:
    """Sentences made from the labels (A.3)."""
    return [perturbed(row, "synthetic", sentence=sentence(said)) for row, said in sentences], Counter()


def synthetic_swapped_conditions(sentences: Sequence[Sentence], *, seed: int) -> Made:
    """Synthetic sentences with other conditions at the same anatomies (A.5); the originals are synthetic rows."""
    made, counted = [], Counter()
    known = at_locations(said for _, said in sentences)
    originals, _ = synthetic(sentences)
    for row, (_, said) in zip(originals, sentences, strict=True):
        other = with_other_conditions(said, known, f"{row['id']}:synthetic_swapped_conditions", seed)
        stayed = len(said.keys() & other.keys())
        counted["conditions that synthetic_swapped_conditions has no other for"] += stayed
        counted["sentences that synthetic_swapped_conditions leaves as they are"] += stayed == len(said)
        changed = {"sentence": sentence(other), "labels": labels_of(other)}
        made.append(perturbed(row, "synthetic_swapped_conditions", **changed))
    return made, counted


def _drawn(rows: Sequence[Row], perturbation: str, seed: int) -> Callable[[Row], Row | None]:
    """Another patient's row, by hash."""
    in_order = sorted(rows, key=lambda row: row["id"])
    n_others = {patient: len(rows) - n for patient, n in Counter(row["patient_id"] for row in rows).items()}

    def draw(row: Row) -> Row | None:
        if not n_others[row["patient_id"]]:
            return None
        number = pick(f"{row['id']}:{perturbation}", n_others[row["patient_id"]], seed)
        others = (other for other in in_order if other["patient_id"] != row["patient_id"])
        return next(other for i, other in enumerate(others) if i == number)

    return draw


def _transferred(other: Row, row: Row, place: str) -> list[Box]:
    across, down = 1.0, 1.0
    if place == "share":
        across, down = row["width"] / other["width"], row["height"] / other["height"]
    size = (row["height"], row["width"])
    found = []
    for box in other["boxes"]:
        x, y, width, height = box["xywh"]
        found.append(cut(box["label"], (x * across, y * down, width * across, height * down), size))
    return [box for box in found if box is not None]


def _placed(names: Sequence[str], row: Row, anatomy: Anatomy, counted: Counter[str]) -> list[Box]:
    size = (row["height"], row["width"])
    found = placed(names, row["boxes"], anatomy.get(row["image"]["key"], {}), size)
    counted["anatomies that changed sentences name and their image has no box of"] += len(set(names)) - len(found)
    return found
