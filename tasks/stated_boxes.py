"""The tasks `medfaith_<benchmark>_stated_boxes`: where is an anatomy or an instrument, in boxes or points?

`--box-format` names the form in which the model writes them, one of `reading.stated_regions.KINDS`. It chooses the
prompt, too. The boxes of an answer, all together, are compared with the boxes of the row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import datasets
import numpy as np

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.evaluate_metrics.mask_overlap.score import score_predictions
from medfaith.evaluate_metrics.reading.clauses import split_clauses
from medfaith.evaluate_metrics.reading.outcome import ANSWERED, DECLINED, UNREAD
from medfaith.evaluate_metrics.reading.reasoning import extract_answer
from medfaith.evaluate_metrics.reading.stated_regions import FOUND, KINDS, NONE, Shape, read_regions, write_boxes
from medfaith.loaders import rle
from medfaith.loaders.errors import InputError
from medfaith.tasks.decoding.regions import format_location_prompt
from medfaith.tasks.heal.localization import read_reply
from medfaith.tasks.scoring import Scorer

ASK = "stated_boxes"
DEFAULT_FORMAT = "gemini"  # also that of MedGemma 1.5; its prompt states the order and the range of the numbers
EMPTY = "empty"  # outcome of an answer without text
OVERLAP = 0.5  # least IoU of a located region, as in studies of referring expressions
ENDS = ("", "_ci_low", "_ci_high")
FIGURES = ("iou", "iou_50", "hit")
COUNTS = {"n_unparsed": UNREAD, "n_declined": DECLINED, "n_empty": EMPTY}
_SIDE, _LEAST, _MOST = 28, 56 * 56, 28 * 28 * 16384  # of the images that Qwen2.5-VL's checkpoints receive, in pixels

COLUMNS = {  # of a document, next to those of its benchmark
    "box_format": datasets.Value("string"),
    "located": datasets.Value("string"),  # name of the anatomy or the instrument
    "input_size": datasets.List(datasets.Value("int32")),  # (height, width) of the image that the model receives
}


class Located(NamedTuple):
    """The boxes of a row.

    Attributes:
        boxes: n boxes [x, y, width, height] in pixels of the image.
        size: (height, width) of the image.
    """

    boxes: Sequence[Sequence[float]]
    size: tuple[int, int]


def build_columns(name: str, located: Located, box_format: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Build the columns that a document needs to ask where an anatomy or an instrument is.

    Args:
        name: Name of the anatomy or the instrument.
        located: The boxes of the row.
        box_format: The form of the model's boxes.
        options: Metadata of the task, with the model's arguments `min_pixels` and `max_pixels`.

    Returns:
        `COLUMNS`, the question, and the indices of the replies of `attach_options`.

    Raises:
        InputError: The form is unknown.
    """
    if box_format not in KINDS:
        raise InputError("--box-format", f"is {box_format!r}", expected=f"one of {', '.join(KINDS)}")
    input_size = compute_input_size(
        located.size, int(options.get("min_pixels") or _LEAST), int(options.get("max_pixels") or _MOST)
    )
    return {
        "box_format": box_format,
        "located": name,
        "input_size": input_size,
        "question": format_location_prompt(box_format, name).removeprefix("<image>"),
        "answer": 1,
        "negated": 2,
        "reply_in_words": True,
    }


def attach_options(batch: dict[str, list]) -> dict[str, list]:
    """Attach the replies of reference models: the box of the whole image, the right boxes, and a refusal.

    The right boxes are written when the batch is read, because controls move boxes.

    Args:
        batch: Columns of documents.

    Returns:
        The columns with `options`.
    """
    docs = [dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True)]
    return batch | {"options": [_list_options(doc) for doc in docs]}


def _list_options(doc: Mapping[str, Any]) -> list[str]:
    boxes, size = find_located(doc)
    return [
        *(
            write_boxes(doc["located"], stated, doc["box_format"], size, tuple(doc["input_size"]))
            for stated in ([[0, 0, *size[::-1]]], boxes)
        ),
        f"I cannot say where the {doc['located']} is.",
    ]


def compute_input_size(size: tuple[int, int], least: int = _LEAST, most: int = _MOST) -> tuple[int, int]:
    """Compute the size of the image that Qwen2.5-VL receives, whose boxes are in pixels of that image.

    Args:
        size: (height, width) of the image.
        least: Least number of pixels, the processor's `min_pixels`.
        most: Largest number of pixels, the processor's `max_pixels`.

    Returns:
        (height, width), multiples of 28.

    >>> compute_input_size((1000, 500)), compute_input_size((1000, 500), most=28 * 28 * 100)
    ((1008, 504), (392, 196))
    """
    sides = tuple(max(round(side / _SIDE), 1) * _SIDE for side in size)
    scale = math.sqrt(math.prod(size) / most)
    if math.prod(sides) > most:
        sides = tuple(max(math.floor(side / scale / _SIDE), 1) * _SIDE for side in size)
    elif math.prod(sides) < least:
        scale = math.sqrt(least / math.prod(size))
        sides = tuple(math.ceil(side * scale / _SIDE) * _SIDE for side in size)
    return sides[0], sides[1]


def prompt(doc: Mapping[str, Any]) -> str:
    """Format the image and the question for a location.

    Args:
        doc: The document.

    Returns:
        The prompt.
    """
    return f"{'<image>' * len(doc['images'])}{doc['question']}"


def find_located(doc: Mapping[str, Any]) -> Located:
    """Return the reference boxes of a document: those in its column `boxes`, or else the box around its region.

    Args:
        doc: The document.

    Returns:
        The boxes.
    """
    if doc.get("boxes") is not None:
        return Located([box["xywh"] for box in doc["boxes"]], (doc["height"], doc["width"]))
    return Located([rle.compute_bounding_box(doc["region"])], rle.get_size(doc["region"]))


def results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Compute the metric values of an answer that states boxes.

    Args:
        doc: The document.
        results: The response.

    Returns:
        Metric -> value of the row.
    """
    record = score_answer(read_reply(results[0]).text, find_located(doc), doc["box_format"], tuple(doc["input_size"]))
    return STATED_BOXES.values(doc, record | {"group": doc.get("video", doc["image_id"])})


def score_answer(text: str, located: Located, box_format: str, input_size: tuple[int, int]) -> dict[str, Any]:
    """Score the regions that an answer states.

    Args:
        text: The answer.
        located: The boxes of the row.
        box_format: The form of the model's boxes.
        input_size: (height, width) of the image that the model received.

    Returns:
        outcome: "answered", "empty", "declined" or "unread". iou: of all boxes of the answer and all boxes of the row,
        None if the model points. hit: share of the answer's points, or of the middles of its boxes, in a box of the
        row. Both are 0 without a region. boxes: those of the answer, in pixels; a region that it repeats counts once.
    """
    answer = extract_answer(text)
    stated = read_regions(text, box_format, located.size, input_size)
    iou = None if KINDS[box_format].is_point else 0.0
    if stated.outcome != FOUND:
        outcome = _find_outcome(text, answer) if stated.outcome == NONE else UNREAD
        return {"outcome": outcome, "iou": iou, "hit": 0.0, "boxes": []}
    boxes = np.array([*dict.fromkeys(map(_compute_extent, stated.shapes))])
    if iou is not None:
        masks = [rle.union(rle.encode_boxes(np.array(b, float), located.size)) for b in (boxes, located.boxes)]
        iou = score_predictions(masks[:1], masks[1:])["iou"]
    hit = _compute_hit_share(boxes, np.array(located.boxes, float))
    return {"outcome": ANSWERED, "iou": iou, "hit": hit, "boxes": boxes.round(1).tolist()}


def _find_outcome(text: str, answer: str) -> str:
    """Return the outcome of a text that states no region: EMPTY without words, DECLINED if the answer declines.

    Any other text is UNREAD. `answer` is the text without reasoning.
    """
    if not text.strip():
        return EMPTY
    return DECLINED if any(clause.act == "decline" for clause in split_clauses(answer)) else UNREAD


def _compute_extent(shape: Shape) -> tuple[float, float, float, float]:
    """Compute the smallest box (x, y, width, height) that holds all corners of a stated box, polygon or point."""
    (x_min, y_min), (x_max, y_max) = np.min(shape.corners, axis=0), np.max(shape.corners, axis=0)
    return x_min, y_min, x_max - x_min, y_max - y_min


def _compute_hit_share(stated: np.ndarray, boxes: np.ndarray) -> float:
    """Compute the share of the stated boxes, (n, 4), whose middle is in one of the row's boxes, (k, 4)."""
    middles = stated[:, None, :2] + stated[:, None, 2:] / 2
    is_inside = (middles >= boxes[:, :2]) & (middles <= boxes[:, :2] + boxes[:, 2:])
    return float(is_inside.all(-1).any(-1).mean())


def compute_figures(records: Sequence[Mapping[str, Any]], **bootstrap: Any) -> dict[str, float]:
    """Compute the figures of answers with stated boxes.

    Args:
        records: Results of `score_answer`, each with the `group` that intervals resample.
        bootstrap: Further arguments of `confidence.bootstrap_mean`.

    Returns:
        iou, iou_50 (share of the answers with an IoU of at least 0.5) and hit, each with _ci_low and _ci_high; NaN for
        the IoU of points. n_unparsed, n_declined and n_empty, whose answers score 0.
    """
    groups = [record["group"] for record in records]
    ious = [math.nan if record["iou"] is None else record["iou"] for record in records]
    values = {
        "iou": ious,
        "iou_50": [iou if math.isnan(iou) else float(iou >= OVERLAP) for iou in ious],
        "hit": [record["hit"] for record in records],
    }
    figures: dict[str, float] = {}
    for name in FIGURES:
        interval = bootstrap_mean(values[name], groups=groups, bounds=(0, 1), **bootstrap)
        figures |= {f"{name}{end}": number for end, number in zip(ENDS, interval[:3], strict=True)}
    outcomes = [record["outcome"] for record in records]
    return figures | {name: outcomes.count(outcome) for name, outcome in COUNTS.items()}


STATED_BOXES = Scorer(
    compute_figures, (*(f"{name}{end}" for name in FIGURES for end in ENDS), *COUNTS), lower=tuple(COUNTS)
)
metrics = STATED_BOXES.metric_list
