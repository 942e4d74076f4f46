"""Sentences of Chest ImaGenome as rows, and their subsets (That's the Wrong Lung!, sections 2.3, 3.2, A.6)."""

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
NO_ANATOMY = "sentences of the gold images' reports that name no anatomy with a box"
UNLISTED = "gold sentences that the list of all sentences has not"
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
        made = in_image(one, image, f"{benchmark}:{one.id}", counted)
        if made is not None:
            kept.append(made)
    counted[NO_IMAGE] += len(without)
    for row, diverse in zip((each.row for each in kept), most_diverse([each.row for each in kept]), strict=True):
        row["subsets"]["mdrb"] = diverse
        counted.update(text for name, text in SUBSETS.items() if row["subsets"][name])
    return kept, counted


def without_anatomy(gold: Sequence[Any], listed: Iterable[tuple[str, str]]) -> Counter[str]:
    """How many sentences of the gold images are in no row of gold, since they name no anatomy that has a box.

    By their ids. The list also has each patient's later study, which nobody linked to anatomies: images of which gold
    has no sentence do not count. Gold sentences whose id the list has not are counted, too: with any, the two files
    do not name sentences alike, and the first count is too high.

    Args:
        gold: `chest_imagenome.read_gold`. listed: image_id, row_id of `chest_imagenome.read_all_sentences`.
    """
    known, images = {one.id for one in gold}, {one.image_id for one in gold}
    told = {row_id for image_id, row_id in listed if image_id in images}
    return Counter({NO_ANATOMY: len(told - known), UNLISTED: len(known - told)})


def in_image(one: Any, image: Mapping[str, Any], row_id: str, counted: Counter[str]) -> Sentence | None:
    """A sentence with its boxes in its image, not yet in subset MDRB; None without one. `counted` goes on counting.

    Raises:
        InputError: an image that MIMIC-CXR-JPG has in another study than Chest ImaGenome.
    """
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
        return None
    conditions = said(one.mentions)
    counted[DISAGREEING] += (ABNORMAL in conditions) != _affirms(conditions)
    return Sentence(_row(row_id, one, image, boxes, conditions), conditions)


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
    """Subset MDRB: which sentences are in reports whose sentences overlap least (`least`)."""
    reports: defaultdict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        reports[report_of(row)].append(row)
    means = {report: mean_overlap(of_report) for report, of_report in reports.items()}
    return least([means[report_of(row)] for row in rows]).tolist()


def least(overlaps: Sequence[float]) -> np.ndarray:
    """Of sentences, by their report's `mean_overlap` (NaN: it has none): which are among the first tenth, bool (n,).

    The first tenth of those that have one, rounded down, and all that have no more than the last of these.
    """
    values = np.asarray(overlaps, dtype=np.float64)
    known = np.sort(values[~np.isnan(values)])
    n_first = int(MOST_DIVERSE * len(known))
    return values <= (known[n_first - 1] if n_first else -math.inf)


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
