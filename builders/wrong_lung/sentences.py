"""Sentences of Chest ImaGenome as rows, and their subsets (That's the Wrong Lung!, sections 2.3, 3.2, A.6)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from ...loaders.errors import InputError
from .boxes import Corners, Size, convert_corners
from .reasons import CUT, DISAGREEING, GOLD_WITHOUT_IMAGE, NO_ANATOMY, NO_BOX, OUTSIDE, SUBSETS, UNLISTED
from .synthetic import Condition, Locations, said
from .view import mask

ABNORMAL = Condition("abnormal", "yes")
LUNGS = ("left lung", "right lung")
MOST_DIVERSE = 0.1  # share of the sentences in MDRB


class Sentence(NamedTuple):
    """A row and its conditions.

    Attributes:
        row: The row in the schema SENTENCE.
        conditions: The conditions in the sentence with their anatomies.
    """

    row: dict[str, Any]
    conditions: dict[Condition, Locations]


def sentences(
    gold: Iterable[Any], images: Mapping[str, Mapping[str, Any]], *, benchmark: str
) -> tuple[list[Sentence], Counter[str]]:
    """Build the rows of the sentences that have an image and boxes, in the file's order.

    Args:
        gold: The result of `chest_imagenome.read_gold`.
        images: The rows of `mimic_cxr.read_images`, by dicom_id.
        benchmark: The prefix of the ids.

    Returns:
        The sentences, and the counts of skipped or remarkable sentences by reason.

    Raises:
        InputError: MIMIC-CXR-JPG and Chest ImaGenome assign an image to different studies.
    """
    built, counted, missing_images = [], Counter(), set()
    for gold_sentence in gold:
        image = images.get(gold_sentence.image_id)
        if image is None:
            missing_images.add(gold_sentence.image_id)
            continue
        sentence = build_sentence(gold_sentence, image, f"{benchmark}:{gold_sentence.id}", counted)
        if sentence is not None:
            built.append(sentence)
    counted[GOLD_WITHOUT_IMAGE] += len(missing_images)
    for row, is_diverse in zip(
        (built_sentence.row for built_sentence in built),
        select_most_diverse([built_sentence.row for built_sentence in built]),
        strict=True,
    ):
        row["subsets"]["mdrb"] = is_diverse
        counted.update(text for name, text in SUBSETS.items() if row["subsets"][name])
    return built, counted


def count_without_anatomy(gold: Sequence[Any], listed: Iterable[tuple[str, str]]) -> Counter[str]:
    """Count the sentences of gold images that have no gold row, because they name no anatomy with a box.

    Sentences are compared by id. The list also has the later study of each patient, which nobody linked to anatomies,
    so images without a gold sentence do not count. Gold sentences whose id is not in the list are counted, too. If
    there are any, the two files have different ids, and the first count is too high.

    Args:
        gold: The result of `chest_imagenome.read_gold`.
        listed: image_id and row_id of `chest_imagenome.read_all_sentences`.

    Returns:
        The counts by reason.
    """
    gold_ids, images = {sentence.id for sentence in gold}, {sentence.image_id for sentence in gold}
    listed_ids = {row_id for image_id, row_id in listed if image_id in images}
    return Counter({NO_ANATOMY: len(listed_ids - gold_ids), UNLISTED: len(gold_ids - listed_ids)})


def build_sentence(gold_sentence: Any, image: Mapping[str, Any], row_id: str, counted: Counter[str]) -> Sentence | None:
    """Build the row of a sentence, with its boxes in its image. Subset MDRB is not set yet.

    Args:
        gold_sentence: The sentence as the loader returns it.
        image: The row of its image in `mimic_cxr.read_images`.
        row_id: The id of the row.
        counted: Counts skipped and remarkable items.

    Returns:
        The sentence; None if it has no box in its image.

    Raises:
        InputError: MIMIC-CXR-JPG and Chest ImaGenome assign the image to different studies.
    """
    if (image["subject_id"], image["study_id"]) != (gold_sentence.patient_id, gold_sentence.study_id):
        raise InputError(
            f"image {gold_sentence.image_id}",
            f"is of study {gold_sentence.study_id} of patient {gold_sentence.patient_id} in Chest ImaGenome, and of "
            f"study {image['study_id']} of patient {image['subject_id']} in MIMIC-CXR-JPG",
            action="use the unchanged files of both",
        )
    boxes = _clip_boxes(gold_sentence.boxes, (image["height"], image["width"]), counted)
    if not boxes:
        counted[NO_BOX] += 1
        return None
    conditions = said(gold_sentence.mentions)
    counted[DISAGREEING] += (ABNORMAL in conditions) != _has_affirmed(conditions)
    return Sentence(_build_row(row_id, gold_sentence, image, boxes, conditions), conditions)


def _clip_boxes(corners: Mapping[str, Corners], size: Size, counted: Counter[str]) -> list[dict[str, Any]]:
    boxes = []
    for name, (x1, y1, x2, y2) in corners.items():
        box = convert_corners(name, (x1, y1, x2, y2), size)
        if box is None:
            counted[OUTSIDE] += 1
        else:
            counted[CUT] += x1 < 0 or y1 < 0 or x2 + 1 > size[1] or y2 + 1 > size[0]
            boxes.append(box)
    return boxes


def _has_affirmed(conditions: Iterable[Condition]) -> bool:
    """Tell whether a condition is affirmed (A.6), other than the summary labels normal and abnormal."""
    return any(context == "yes" and label not in ("normal", "abnormal") for label, context in conditions)


def _build_row(
    row_id: str,
    gold_sentence: Any,
    image: Mapping[str, Any],
    boxes: list[dict[str, Any]],
    conditions: Iterable[Condition],
) -> dict[str, Any]:
    labels = build_labels(conditions)
    return {
        "id": row_id,
        "image": {"source": "mimic_cxr", "key": image["key"], "view": image["view"]},
        "width": image["width"],
        "height": image["height"],
        "patient_id": gold_sentence.patient_id,
        "study_id": gold_sentence.study_id,
        "sentence": " ".join(gold_sentence.sentence.split()),
        "boxes": boxes,
        "labels": labels,
        "subsets": {"abnormal": is_abnormal(labels), "one_lung": has_one_lung(boxes), "mdrb": False},
    }


def build_labels(conditions: Iterable[Condition]) -> list[dict[str, str]]:
    """Build the column `labels`.

    Args:
        conditions: The conditions of a sentence.

    Returns:
        The labels.
    """
    return [{"name": label, "context": context} for label, context in conditions]


def is_abnormal(labels: Iterable[Mapping[str, str]]) -> bool:
    """Tell whether a sentence belongs to subset Abnormal: the label "abnormal" is affirmed.

    Args:
        labels: The labels of the row.

    Returns:
        True if it does.
    """
    return any((label["name"], label["context"]) == ABNORMAL for label in labels)


def has_one_lung(boxes: Iterable[Mapping[str, Any]]) -> bool:
    """Tell whether a sentence belongs to subset One Lung: it has a box of the left or the right lung, but not of both.

    Args:
        boxes: The boxes of the row.

    Returns:
        True if it does.
    """
    return len({box["label"] for box in boxes} & set(LUNGS)) == 1


def get_report(row: Mapping[str, Any]) -> tuple[str, str]:
    """Get what identifies the report of a sentence.

    Args:
        row: The row.

    Returns:
        The ids of the study and the image.
    """
    return row["study_id"], row["image"]["key"]


def select_most_diverse(rows: Sequence[Mapping[str, Any]]) -> list[bool]:
    """Select subset MDRB: the sentences of the reports whose sentences overlap least.

    Args:
        rows: The rows of all sentences.

    Returns:
        Whether each sentence is in the subset.
    """
    reports: defaultdict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        reports[get_report(row)].append(row)
    means = {report: mean_overlap(report_rows) for report, report_rows in reports.items()}
    return select_least_overlapping([means[get_report(row)] for row in rows]).tolist()


def select_least_overlapping(overlaps: Sequence[float]) -> np.ndarray:
    """Select the sentences whose reports have the lowest tenth of overlaps.

    Their number is a tenth of the known overlaps, rounded down; ties with the last one are included.

    Args:
        overlaps: `mean_overlap` of each sentence's report; NaN if it has none.

    Returns:
        Whether each sentence is selected: bool (n,).
    """
    values = np.asarray(overlaps, dtype=np.float64)
    known_overlaps = np.sort(values[~np.isnan(values)])
    n_first = int(MOST_DIVERSE * len(known_overlaps))
    return values <= (known_overlaps[n_first - 1] if n_first else -math.inf)


def mean_overlap(rows: Sequence[Mapping[str, Any]]) -> float:
    """Compute the mean IoU, over the pairs of a report's sentences, of the areas that their boxes cover in the view.

    Pairs without any area in the view are skipped.

    Args:
        rows: The rows of a report.

    Returns:
        The mean; NaN if no pair remains.
    """
    if len(rows) < 2:
        return math.nan
    masks = [mask([box["xywh"] for box in row["boxes"]], (row["height"], row["width"])) for row in rows]
    unions = [(a, b, np.count_nonzero(a | b)) for a, b in combinations(masks, 2)]
    ious = [np.count_nonzero(a & b) / union for a, b, union in unions if union]
    return float(np.mean(ious)) if ious else math.nan
