"""Dice and IoU of masks in COCO's compressed run-length encoding (size [height, width], counts column-major)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pycocotools import mask as coco

from .masks import checked


def score_predictions(
    predictions: Sequence[Mapping[str, Any] | None],
    references: Sequence[Mapping[str, Any]],
    *,
    ids: Sequence[str] | None = None,
    per_sample: bool = False,
) -> dict[str, Any]:
    """Overlap of each predicted mask with its reference.

    Args:
        predictions: n masks {"size": [height, width], "counts": str}; None where the model gave none, which is scored
            as an empty mask and counted.
        references: n masks, none missing.
        ids: n names of the samples, for errors; default: their rows.
        per_sample: whether to return each pair's dice and iou too.

    Returns:
        dice and iou, unrounded means over the n_valid pairs where they are defined (NaN without any): 2 I / (A + B) and
        I / (A + B - I) with the areas A, B and I of the masks and their intersection. Two empty masks have neither;
        they are left out and counted (n_both_empty). One empty mask scores 0. On request "per_sample": n dicts.

    Raises:
        ValueError: lengths differ, two sizes differ, or a mask that is no such encoding; it names the sample.
    """
    for name, column in (("predictions", predictions), ("ids", ids)):
        if column is not None and len(column) != len(references):
            raise ValueError(f"{len(column)} {name} for {len(references)} references: give one for each")
    areas = np.zeros((len(references), 3))
    for row, (prediction, reference) in enumerate(zip(predictions, references, strict=True)):
        name = f"row {row + 1}" if ids is None else str(ids[row])
        areas[row] = _areas(prediction, reference, name)
    both, ours, theirs = areas.T
    with np.errstate(invalid="ignore"):
        dice, iou = 2 * both / (ours + theirs), both / (ours + theirs - both)
    valid = ours + theirs > 0
    result: dict[str, Any] = {
        "dice": float(np.mean(dice[valid])) if valid.any() else float("nan"),
        "iou": float(np.mean(iou[valid])) if valid.any() else float("nan"),
        "n": len(references),
        "n_valid": int(valid.sum()),
        "n_both_empty": int(np.sum(~valid)),
        "n_empty_predictions": int(np.sum(ours == 0)),
        "n_empty_references": int(np.sum(theirs == 0)),
        "n_without_prediction": sum(prediction is None for prediction in predictions),
    }
    if per_sample:
        result["per_sample"] = [{"dice": float(d), "iou": float(i)} for d, i in zip(dice, iou, strict=True)]
    return result


def _areas(prediction: Mapping[str, Any] | None, reference: Mapping[str, Any], name: str) -> tuple[int, int, int]:
    """Pixels of the intersection, of the prediction and of the reference."""
    theirs = checked(reference, f"{name}, reference")
    if prediction is None:
        return 0, 0, int(coco.area(theirs))
    ours = checked(prediction, f"{name}, prediction")
    if ours["size"] != theirs["size"]:
        raise ValueError(f"{name}: the prediction has size {ours['size']} and the reference {theirs['size']}")
    return int(coco.area(coco.merge([ours, theirs], intersect=True))), int(coco.area(ours)), int(coco.area(theirs))
