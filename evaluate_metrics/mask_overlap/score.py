"""Dice and IoU of masks in COCO's compressed run-length encoding (size [height, width], counts column-major)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pycocotools import mask as coco

_LOWEST, _BITS, _MORE, _SIGN = 48, 5, 0x20, 0x10  # COCO's text form: five bits a character, from "0" on


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
    theirs = _checked(reference, f"{name}, reference")
    if prediction is None:
        return 0, 0, int(coco.area(theirs))
    ours = _checked(prediction, f"{name}, prediction")
    if ours["size"] != theirs["size"]:
        raise ValueError(f"{name}: the prediction has size {ours['size']} and the reference {theirs['size']}")
    return int(coco.area(coco.merge([ours, theirs], intersect=True))), int(coco.area(ours)), int(coco.area(theirs))


def _checked(mask: Mapping[str, Any] | None, name: str) -> Any:
    """The mask as pycocotools takes it, which itself checks nothing."""
    if mask is None or mask.get("size") is None:
        raise ValueError(f"{name}: {mask}; expected a mask of size [height, width] and counts")
    size, counts = mask["size"], mask.get("counts")
    if len(size) != 2 or min(size) < 1:
        raise ValueError(f"{name}: size {list(size)}; expected [height, width]")
    if not isinstance(counts, str):
        raise ValueError(f"{name}: counts of type {type(counts).__name__}; expected COCO's compressed text")
    height, width = (int(side) for side in size)
    pixels = sum(_runs(counts, name))
    if pixels != height * width:
        raise ValueError(f"{name}: the runs cover {pixels} pixels; expected {height} x {width} = {height * width}")
    return {"size": [height, width], "counts": counts}


def _runs(counts: str, name: str) -> list[int]:
    """Run lengths of COCO's text form; from the fourth on it gives a run as the difference to the last but one."""
    runs: list[int] = []
    value = shift = 0
    for character in counts:
        bits = ord(character) - _LOWEST
        if not 0 <= bits < 2 * _MORE:
            raise ValueError(f"{name}: {character!r} in counts; expected COCO's compressed text")
        value |= (bits & (_MORE - 1)) << shift
        shift += _BITS
        if bits & _MORE:
            continue
        if bits & _SIGN:
            value -= 1 << shift
        runs.append(value + runs[-2] if len(runs) > 2 else value)
        if runs[-1] < 0:
            raise ValueError(f"{name}: a run of {runs[-1]} pixels in counts; expected COCO's compressed text")
        value = shift = 0
    if shift:
        raise ValueError(f"{name}: counts end within a run; the text is cut")
    return runs
