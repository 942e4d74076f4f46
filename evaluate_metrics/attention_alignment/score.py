"""Attention alignment (AA) and attention coverage (AC) of SurgXBench, sections 3.4.1 and 4.3.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .frames import boxes_of, each_frame, stacked
from .regions import attention_region, shares_inside
from .spread import n_cut_at_zero, spread, sum_by_group

__all__ = ["attention_alignment", "attention_region", "score_frame", "score_predictions", "summarise"]

SCORED, DEGENERATE, WITHOUT_MAP = "scored", "degenerate", "without_map"


def attention_alignment(
    maps: Any,
    class_boxes: Sequence,
    all_boxes: Sequence,
    *,
    top_fraction: float = 0.2,
    ids: Sequence[str] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """AA (equation 3) and AC (equation 2) of heatmaps.

    Args:
        maps: (n, height, width), one heatmap a predicted class, in the frame's pixels; numpy, or torch on any device.
        class_boxes: n times (k, 4) numbers xywh in pixels: the true boxes of the predicted class; none where the class
            is not in the frame (a false positive, whose AA is 0 by definition).
        all_boxes: n times (k, 4): the boxes of all classes in the frame.
        top_fraction: share of the pixels that make the attention region, see `regions.attention_region`.
        ids: n names of the samples, for errors.

    Returns:
        aa, ac: float64 (n,), the shares of the region inside the boxes, NaN for a degenerate map.
        degenerate: bool (n,), maps without a region.

    Raises:
        ValueError: a map with NaN or infinity, arrays of another shape, or a box that is none; it names the sample.

    >>> heatmap = np.zeros((1, 4, 5))
    >>> heatmap[0, 1:3, 1:3] = 1
    >>> attention_alignment(heatmap, [[[1, 1, 2, 1]]], [[[1, 1, 2, 1], [2, 1, 1, 2]]])[:2]
    (array([0.5]), array([0.75]))
    """
    (aa, ac), degenerate, _ = shares_inside(maps, [class_boxes, all_boxes], top_fraction=top_fraction, ids=ids)
    return aa, ac, degenerate


def score_frame(
    maps: Any,
    labels: Sequence[str],
    boxes: Sequence[Mapping[str, Any]],
    *,
    video: str,
    top_fraction: float = 0.2,
    name: str = "frame",
) -> list[dict[str, Any]]:
    """The predictions of one frame, each with its AA and AC.

    Args:
        maps: one (height, width) heatmap for each label, or None where the model gave none; all of one size.
        labels: the k predicted classes.
        boxes: the frame's true boxes, {"label", "xywh"}; their labels are its true classes.
        video: of the frame.
        name: of the frame, for errors.

    Returns:
        k dicts of video, label, outcome ("tp" or "fp"), state ("scored", "degenerate" or "without_map"), aa and ac (NaN
        unless scored), and cut_at_zero (whether `L > 0` takes pixels from its region).

    Raises:
        ValueError: as `attention_alignment`; a class predicted twice, or not one map for each label.
    """
    if len(set(labels)) != len(labels) or len(maps) != len(labels):
        raise ValueError(f"{name}: {len(maps)} maps for the labels {list(labels)}; expected one for each, each once")
    records = [
        {
            "video": video,
            "label": label,
            "outcome": "tp" if any(box["label"] == label for box in boxes) else "fp",
            "state": WITHOUT_MAP,
            "aa": float("nan"),
            "ac": float("nan"),
            "cut_at_zero": False,
        }
        for label in labels
    ]
    given = [number for number, heatmap in enumerate(maps) if heatmap is not None]
    if given:
        (aa, ac), degenerate, cut = shares_inside(
            stacked(maps, given),
            [[boxes_of(boxes, labels[number]) for number in given], [boxes_of(boxes)] * len(given)],
            top_fraction=top_fraction,
            ids=[f"{name}, map of {labels[number]}" for number in given],
        )
        for at, number in enumerate(given):
            state = DEGENERATE if degenerate[at] else SCORED
            values = {"state": state, "aa": float(aa[at]), "ac": float(ac[at]), "cut_at_zero": bool(cut[at])}
            records[number] |= values
    return records


def summarise(
    records: Sequence[Mapping[str, Any]],
    *,
    n_resamples: int = 2000,
    seed: int = 42,
    confidence_level: float = 0.95,
) -> dict[str, Any]:
    """TP_AA, TP_AC and FP_AC (section 4.3.1) over the records of `score_frame`, all together and per instrument.

    Args:
        records: of `score_frame`, of all frames.
        n_resamples, seed, confidence_level: of the bootstrap intervals, which draw whole videos.

    Returns:
        tp_aa, tp_ac and fp_ac, unrounded means over the scored predictions (NaN without any), each with the endings of
        `spread.spread` (interval and box plot); n_predictions, n_tp, n_fp, n_tp_scored, n_fp_scored, n_degenerate,
        n_without_map, n_cut_at_zero and n_videos; and per_instrument, a dict of the same for each class that was
        predicted.
    """
    options = {"n_resamples": n_resamples, "seed": seed, "confidence_level": confidence_level}
    result = _summary(records, options)
    result["per_instrument"] = {label: _summary(of, options) for label, of in sum_by_group(records, "label").items()}
    return result


def score_predictions(
    predictions: Sequence[Mapping[str, Any]],
    references: Sequence[Mapping[str, Any]],
    *,
    top_fraction: float = 0.2,
    n_resamples: int = 2000,
    seed: int = 42,
    confidence_level: float = 0.95,
    ids: Sequence[str] | None = None,
    per_sample: bool = False,
) -> dict[str, Any]:
    """AA and AC of the predictions of n frames.

    Args:
        predictions: n dicts of labels (the predicted classes) and maps (one for each, or None where there is none).
        references: n dicts of video, size ([height, width] of the frame), boxes ([{"label", "xywh"}], pixels) and
            window: None where the maps have the frame's size, else [x, y, width, height], the part of the frame, in
            pixels, that the model saw and that its coarser maps cover (`frames.to_frame`).
        top_fraction: see `regions.attention_region`.
        n_resamples, seed, confidence_level: see `summarise`.
        ids: n names of the frames, for errors.
        per_sample: whether to return the predictions of each frame as well.

    Returns:
        the results of `summarise` and the counts of `frames.each_frame`; on request "per_sample": n lists of the
        records of `score_frame`.

    Raises:
        ValueError: lengths differ, or as `score_frame` and `frames.maps_of`; it names the frame.
    """

    def score(prediction: Mapping, reference: Mapping, maps: list, name: str) -> list[dict[str, Any]]:
        boxes, video = reference["boxes"], reference["video"]
        return score_frame(maps, prediction["labels"], boxes, video=video, top_fraction=top_fraction, name=name)

    frames, counts = each_frame(predictions, references, ids, score)
    how = {"n_resamples": n_resamples, "seed": seed, "confidence_level": confidence_level}
    result = summarise([record for frame in frames for record in frame], **how) | counts
    if per_sample:
        result["per_sample"] = frames
    return result


def _summary(records: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> dict[str, Any]:
    positive = [record for record in records if record["outcome"] == "tp"]
    negative = [record for record in records if record["outcome"] == "fp"]
    result: dict[str, Any] = {}
    for name, of, value in (("tp_aa", positive, "aa"), ("tp_ac", positive, "ac"), ("fp_ac", negative, "ac")):
        result |= spread(name, [record[value] for record in of], [record["video"] for record in of], **options)
    return result | {
        "n_predictions": len(records),
        "n_tp": len(positive),
        "n_fp": len(negative),
        "n_tp_scored": sum(record["state"] == SCORED for record in positive),
        "n_fp_scored": sum(record["state"] == SCORED for record in negative),
        "n_degenerate": sum(record["state"] == DEGENERATE for record in records),
        "n_without_map": sum(record["state"] == WITHOUT_MAP for record in records),
        "n_cut_at_zero": n_cut_at_zero(records),
        "n_videos": len({record["video"] for record in records}),
    }
