"""Dice and IoU of masks in COCO's compressed run-length encoding (size [height, width], counts column-major)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pycocotools import mask as coco

from ..arguments.kinds import FLAG, LABEL, MASK, optional, sequence
from ..arguments.schema import check_arguments
from .masks import require_mask


@check_arguments(
    like="references",
    predictions=sequence(optional(MASK), is_column=True),
    references=sequence(MASK),
    ids=optional(sequence(LABEL, is_column=True)),
    per_sample=FLAG,
)
def score_predictions(
    predictions: Sequence[Mapping[str, Any] | None],
    references: Sequence[Mapping[str, Any]],
    *,
    ids: Sequence[str] | None = None,
    per_sample: bool = False,
) -> dict[str, Any]:
    """Compute the overlap of each predicted mask with its reference.

    Args:
        predictions: n masks {"size": [height, width], "counts": str}; None if the model gave no mask, which is scored
            as an empty mask and counted.
        references: n masks, all present.
        ids: n names of the samples, for errors; by default their rows.
        per_sample: Whether to return each pair's dice and iou too.

    Returns:
        dice and iou, unrounded means over the n_valid pairs with both defined (NaN without any): 2 I / (A + B) and I /
        (A + B - I) with the areas A, B and I of the masks and their intersection. Two empty masks are undefined; they
        are left out and counted (n_both_empty). One empty mask scores 0. On request "per_sample": n dicts.

    Raises:
        ValueError: Different lengths, two different sizes, or an invalid encoding. The message names the sample.
    """
    areas = np.zeros((len(references), 3))
    for row, (prediction, reference) in enumerate(zip(predictions, references, strict=True)):
        name = f"row {row + 1}" if ids is None else str(ids[row])
        areas[row] = _compute_areas(prediction, reference, name)
    intersection, predicted, true = areas.T
    with np.errstate(invalid="ignore"):
        dice, iou = 2 * intersection / (predicted + true), intersection / (predicted + true - intersection)
    is_valid = predicted + true > 0
    result: dict[str, Any] = {
        "dice": float(np.mean(dice[is_valid])) if is_valid.any() else float("nan"),
        "iou": float(np.mean(iou[is_valid])) if is_valid.any() else float("nan"),
        "n": len(references),
        "n_valid": int(is_valid.sum()),
        "n_both_empty": int(np.sum(~is_valid)),
        "n_empty_predictions": int(np.sum(predicted == 0)),
        "n_empty_references": int(np.sum(true == 0)),
        "n_without_prediction": sum(prediction is None for prediction in predictions),
    }
    if per_sample:
        result["per_sample"] = [{"dice": float(d), "iou": float(i)} for d, i in zip(dice, iou, strict=True)]
    return result


def _compute_areas(
    prediction: Mapping[str, Any] | None, reference: Mapping[str, Any], name: str
) -> tuple[int, int, int]:
    """Count the pixels of the intersection, of the prediction (None: 0) and of the reference.

    Raise ValueError if the two masks have different sizes.
    """
    true_mask = require_mask(reference, f"{name}, reference")
    if prediction is None:
        return 0, 0, int(coco.area(true_mask))
    predicted_mask = require_mask(prediction, f"{name}, prediction")
    if predicted_mask["size"] != true_mask["size"]:
        raise ValueError(
            f"{name}: the prediction has size {predicted_mask['size']} and the reference {true_mask['size']}"
        )
    return (
        int(coco.area(coco.merge([predicted_mask, true_mask], intersect=True))),
        int(coco.area(predicted_mask)),
        int(coco.area(true_mask)),
    )
