"""The gold sentences of Chest ImaGenome as rows, and their subsets (That's the Wrong Lung!, sections 2.3, 3.2, A.6)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from ...loaders.errors import InputError
from .boxes import Corners, Size, box
from .synthetic import Condition, Locations, said
from .view import mask

ABNORMAL = Condition("abnormal", "yes")
LUNGS = ("left lung", "right lung")
MOST_DIVERSE = 0.1  # share of the sentences that MDRB takes
NO_IMAGE = "gold images that MIMIC-CXR-JPG's metadata has not"
NO_BOX = "sentences without a box in their image"
CUT = "boxes that their image's edge cuts off"
OUTSIDE = "boxes that lie outside of their image"
DISAGREEING = "sentences that affirm a condition and are not labelled abnormal, or the reverse"
SUBSETS = {"abnormal": "sentences of subset Abnormal", "one_lung": "sentences of subset One Lung",
           "mdrb": "sentences of subset MDRB"}  # fmt: skip


class Sentence(NamedTuple):
    """A row, and what it was made of: the conditions with their anatomies."""

    row: dict[str, Any]
    said: dict[Condition, Locations]


def sentences(
    gold: Iterable[Any], images: Mapping[str, Mapping[str, Any]], *, benchmark: str
) -> tuple[list[Sentence], Counter[str]]:
    """The sentences that have an image and boxes, in the file's order, and how many of what was left out or counted.

    Args:
        gold: `chest_imagenome.read_gold`. images: rows of `mimic_cxr.read_images` by dicom_id.
        benchmark: with which each id begins.

    Raises:
        InputError: an image that MIMIC-CXR-JPG has in another study than Chest ImaGenome.
    """
    kept, counted, without = [], Counter(), set()
    for one in gold:
        image = images.get(one.image_id)
        if image is None:
            without.add(one.image_id)
            continue
        if (image["subject_id"], image["study_id"]) != (one.patient_id, one.study_id):
            raise InputError(
                f"image {one.image_id}",
                f"is of study {one.study_id} of patient {one.patient_id} in Chest ImaGenome, and of study "
                f"{image['study_id']} of patient {image['subject_id']} in MIMIC-CXR-JPG",
                action="use the unchanged files of both",
            )
        boxes = _boxes(one.boxes, (image["height"], image["width"]), counted)
        if not boxes:
            counted[NO_BOX] += 1
            continue
        conditions = said(one.mentions)
        counted[DISAGREEING] += (ABNORMAL in conditions) != _affirms(conditions)
        kept.append(Sentence(_row(f"{benchmark}:{one.id}", one, image, boxes, conditions), conditions))
    counted[NO_IMAGE] += len(without)
    for row, diverse in zip((each.row for each in kept), most_diverse([each.row for each in kept]), strict=True):
        row["subsets"]["mdrb"] = diverse
        counted.update(text for name, text in SUBSETS.items() if row["subsets"][name])
    return kept, counted


def _boxes(corners: Mapping[str, Corners], size: Size, counted: Counter[str]) -> list[dict[str, Any]]:
    found = []
    for name, (x1, y1, x2, y2) in corners.items():
        inside = box(name, (x1, y1, x2, y2), size)
        if inside is None:
            counted[OUTSIDE] += 1
        else:
            counted[CUT] += x1 < 0 or y1 < 0 or x2 + 1 > size[1] or y2 + 1 > size[0]
            found.append(inside)
    return found


def _affirms(conditions: Iterable[Condition]) -> bool:
    """Whether any condition is mentioned in a positive context (A.6), beside the summary labels themselves."""
    return any(context == "yes" and label not in ("normal", "abnormal") for label, context in conditions)


def _row(
    row_id: str, one: Any, image: Mapping[str, Any], boxes: list[dict[str, Any]], conditions: Iterable[Condition]
) -> dict[str, Any]:
    labels = labels_of(conditions)
    return {
        "id": row_id,
        "image": {"source": "mimic_cxr", "key": image["key"], "view": image["view"]},
        "width": image["width"],
        "height": image["height"],
        "patient_id": one.patient_id,
        "study_id": one.study_id,
        "sentence": " ".join(one.sentence.split()),
        "boxes": boxes,
        "labels": labels,
        "subsets": {"abnormal": abnormal(labels), "one_lung": one_lung(boxes), "mdrb": False},
    }


def labels_of(conditions: Iterable[Condition]) -> list[dict[str, str]]:
    """The column `labels`."""
    return [{"name": label, "context": context} for label, context in conditions]


def abnormal(labels: Iterable[Mapping[str, str]]) -> bool:
    """Subset Abnormal: the label "abnormal", affirmed."""
    return any((label["name"], label["context"]) == ABNORMAL for label in labels)


def one_lung(boxes: Iterable[Mapping[str, Any]]) -> bool:
    """Subset One Lung: a box of the left or the right lung, not both."""
    return len({each["label"] for each in boxes} & set(LUNGS)) == 1


def report_of(row: Mapping[str, Any]) -> tuple[str, str]:
    """What the sentences of one report share: their study and image."""
    return row["study_id"], row["image"]["key"]


def most_diverse(rows: Sequence[Mapping[str, Any]]) -> list[bool]:
    """Subset MDRB: which sentences are in reports whose sentences overlap least.

    Of the sentences in reports of several, sorted by their report's `mean_overlap`, the first tenth (rounded down), and
    all that have no more than the last of these.
    """
    reports: defaultdict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        reports[report_of(row)].append(row)
    means = {report: mean_overlap(of_report) for report, of_report in reports.items()}
    known = sorted(mean for row in rows if not math.isnan(mean := means[report_of(row)]))
    n_first = int(MOST_DIVERSE * len(known))
    threshold = known[n_first - 1] if n_first else -math.inf
    return [means[report_of(row)] <= threshold for row in rows]


def mean_overlap(rows: Sequence[Mapping[str, Any]]) -> float:
    """Mean IoU, over the pairs of a report's sentences, of what their boxes cover in the view.

    Pairs of which neither is in the view have none; NaN where that is all there are.
    """
    if len(rows) < 2:
        return math.nan
    masks = [mask([each["xywh"] for each in row["boxes"]], (row["height"], row["width"])) for row in rows]
    unions = [(a, b, np.count_nonzero(a | b)) for a, b in combinations(masks, 2)]
    ious = [np.count_nonzero(a & b) / union for a, b, union in unions if union]
    return float(np.mean(ious)) if ious else math.nan
