"""Attention alignment (AA) and attention coverage (AC) of SurgXBench, sections 3.4.1 and 4.3.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..arguments.kinds import (
    BOXES,
    COUNT,
    FLAG,
    FLOAT,
    LABEL,
    LEVEL,
    MAPS,
    SEED,
    TEXT,
    TEXTS,
    one_of,
    rows_of,
    sequence,
)
from ..arguments.schema import check_arguments
from .frames import BOX, FRAME, MAP_LIST, merge_maps, score_frames, select_boxes
from .frames import IDS as FRAME_IDS
from .regions import IDS, TOP_FRACTION, compute_shares_inside, find_attention_region
from .spread import count_cut_at_zero, group_records, spread

__all__ = ["attention_alignment", "find_attention_region", "score_frame", "score_predictions", "summarise"]

SCORED, DEGENERATE, WITHOUT_MAP = "scored", "degenerate", "without_map"

_PER_MAP = sequence(BOXES)
_RECORDS = rows_of(
    {
        "video": LABEL,
        "label": TEXT,
        "outcome": one_of(("tp", "fp")),
        "state": one_of((SCORED, DEGENERATE, WITHOUT_MAP)),
        "aa": FLOAT,
        "ac": FLOAT,
    }
)
_BOOTSTRAP = {"n_resamples": COUNT, "seed": SEED, "confidence_level": LEVEL}


@check_arguments(maps=MAPS, class_boxes=_PER_MAP, all_boxes=_PER_MAP, top_fraction=TOP_FRACTION, ids=IDS)
def attention_alignment(
    maps: Any,
    class_boxes: Sequence,
    all_boxes: Sequence,
    *,
    top_fraction: float = 0.2,
    ids: Sequence[str] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute AA (equation 3) and AC (equation 2) of heatmaps.

    Args:
        maps: Shape (n, height, width), one heatmap per predicted class, in the frame's pixels; numpy, or torch on any
            device.
        class_boxes: n times (k, 4), xywh in pixels: the true boxes of the predicted class; empty if the class is not in
            the frame (a false positive, whose AA is 0 by definition).
        all_boxes: n times (k, 4): the boxes of all classes in the frame.
        top_fraction: Share of the pixels in the attention region, see `regions.find_attention_region`.
        ids: n names of the samples, for errors.

    Returns:
        aa, ac: float64, shape (n,), the shares of the region inside the boxes, NaN for a degenerate map.
        degenerate: Bool, shape (n,), maps without a region.

    Raises:
        ValueError: A map with NaN or infinity, arrays of another shape, or an invalid box. The message names the
            sample.

    >>> heatmap = np.zeros((1, 4, 5))
    >>> heatmap[0, 1:3, 1:3] = 1
    >>> attention_alignment(heatmap, [[[1, 1, 2, 1]]], [[[1, 1, 2, 1], [2, 1, 1, 2]]])[:2]
    (array([0.5]), array([0.75]))
    """
    (aa, ac), degenerate, _ = compute_shares_inside(maps, [class_boxes, all_boxes], top_fraction=top_fraction, ids=ids)
    return aa, ac, degenerate


@check_arguments(
    prefix="name",
    maps=MAP_LIST,
    labels=TEXTS,
    boxes=BOX,
    video=LABEL,
    top_fraction=TOP_FRACTION,
    name=TEXT,
)
def score_frame(
    maps: Any,
    labels: Sequence[str],
    boxes: Sequence[Mapping[str, Any]],
    *,
    video: str,
    top_fraction: float = 0.2,
    name: str = "frame",
) -> list[dict[str, Any]]:
    """Score the predictions of one frame by AA and AC.

    Args:
        maps: One (height, width) heatmap for each label, or None if the model gave none; all of the same size.
        labels: The k predicted classes.
        boxes: The frame's true boxes, {"label", "xywh"}; their labels are its true classes.
        video: Name of the frame's video.
        top_fraction: See `regions.find_attention_region`.
        name: Name of the frame, for errors.

    Returns:
        k dicts of video, label, outcome ("tp" or "fp"), state ("scored", "degenerate" or "without_map"), aa and ac (NaN
        unless scored), and cut_at_zero (whether `L > 0` removes pixels from its region).

    Raises:
        ValueError: See `attention_alignment`; a class predicted twice, or another number of maps than labels.
    """
    if len(set(labels)) != len(labels) or len(maps) != len(labels):
        raise ValueError(
            f"{name}: {len(maps)} maps for the labels {list(labels)}; expected one map for each label, each once"
        )
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
    mapped = [number for number, heatmap in enumerate(maps) if heatmap is not None]
    if mapped:
        (aa, ac), degenerate, is_cut = compute_shares_inside(
            merge_maps(maps, mapped),
            [[select_boxes(boxes, labels[number]) for number in mapped], [select_boxes(boxes)] * len(mapped)],
            top_fraction=top_fraction,
            ids=[f"{name}, map of {labels[number]}" for number in mapped],
        )
        for position, number in enumerate(mapped):
            state = DEGENERATE if degenerate[position] else SCORED
            values = {
                "state": state,
                "aa": float(aa[position]),
                "ac": float(ac[position]),
                "cut_at_zero": bool(is_cut[position]),
            }
            records[number] |= values
    return records


@check_arguments(records=_RECORDS, **_BOOTSTRAP)
def summarise(
    records: Sequence[Mapping[str, Any]],
    *,
    n_resamples: int = 2000,
    seed: int = 42,
    confidence_level: float = 0.95,
) -> dict[str, Any]:
    """Compute TP_AA, TP_AC and FP_AC (section 4.3.1) over the records of `score_frame`, and per instrument.

    Args:
        records: The records of `score_frame` for all frames.
        n_resamples: Number of bootstrap resamples; they draw whole videos.
        seed: Seed of the resampling.
        confidence_level: Level of the intervals, between 0 and 1.

    Returns:
        tp_aa, tp_ac and fp_ac, unrounded means over the scored predictions (NaN without any), each with the suffixes of
        `spread.spread` (interval and box plot); n_predictions, n_tp, n_fp, n_tp_scored, n_fp_scored,
        n_degenerate, n_without_map, n_cut_at_zero and n_videos; and per_instrument, a dict of the same for each
        predicted class.
    """
    options = {"n_resamples": n_resamples, "seed": seed, "confidence_level": confidence_level}
    result = _build_summary(records, options)
    result["per_instrument"] = {
        label: _build_summary(label_records, options)
        for label, label_records in group_records(records, "label").items()
    }
    return result


@check_arguments(
    like="references",
    predictions=rows_of({"labels": TEXTS, "maps": MAP_LIST}),
    references=rows_of({"video": LABEL, **FRAME}),
    top_fraction=TOP_FRACTION,
    **_BOOTSTRAP,
    ids=FRAME_IDS,
    per_sample=FLAG,
)
def score_predictions(  # noqa: PLR0913 (options of the metric)
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
    """Score the predictions of n frames by AA and AC.

    Args:
        predictions: n dicts of labels (the predicted classes) and maps (one per label, or None without a map).
        references: n dicts of video, size ([height, width] of the frame), boxes ([{"label", "xywh"}], pixels) and
            window: None if the maps have the frame's size, otherwise [x, y, width, height], the part of the frame, in
            pixels, that the model saw and that its coarser maps cover (`frames.to_frame`).
        top_fraction: See `regions.find_attention_region`.
        n_resamples: Number of bootstrap resamples; they draw whole videos.
        seed: Seed of the resampling.
        confidence_level: Level of the intervals, between 0 and 1.
        ids: n names of the frames, for errors.
        per_sample: Whether to return the predictions of each frame as well.

    Returns:
        The results of `summarise` and the counts of `frames.score_frames`; on request "per_sample": n lists of the
        records of `score_frame`.

    Raises:
        ValueError: Different lengths, or see `score_frame` and `frames.build_maps`. The message names the frame.
    """

    def score(prediction: Mapping, reference: Mapping, maps: list, name: str) -> list[dict[str, Any]]:
        boxes, video = reference["boxes"], reference["video"]
        return score_frame(maps, prediction["labels"], boxes, video=video, top_fraction=top_fraction, name=name)

    frames, counts = score_frames(predictions, references, ids, score)
    options = {"n_resamples": n_resamples, "seed": seed, "confidence_level": confidence_level}
    result = summarise([record for frame in frames for record in frame], **options) | counts
    if per_sample:
        result["per_sample"] = frames
    return result


def _build_summary(records: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> dict[str, Any]:
    true_positives = [record for record in records if record["outcome"] == "tp"]
    false_positives = [record for record in records if record["outcome"] == "fp"]
    result: dict[str, Any] = {}
    for name, outcome_records, key in (
        ("tp_aa", true_positives, "aa"),
        ("tp_ac", true_positives, "ac"),
        ("fp_ac", false_positives, "ac"),
    ):
        result |= spread(
            name,
            [record[key] for record in outcome_records],
            [record["video"] for record in outcome_records],
            **options,
        )
    return result | {
        "n_predictions": len(records),
        "n_tp": len(true_positives),
        "n_fp": len(false_positives),
        "n_tp_scored": sum(record["state"] == SCORED for record in true_positives),
        "n_fp_scored": sum(record["state"] == SCORED for record in false_positives),
        "n_degenerate": sum(record["state"] == DEGENERATE for record in records),
        "n_without_map": sum(record["state"] == WITHOUT_MAP for record in records),
        "n_cut_at_zero": count_cut_at_zero(records),
        "n_videos": len({record["video"] for record in records}),
    }
