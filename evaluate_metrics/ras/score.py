"""RAFT attention score (RAS) of SurgXBench, sections 3.4.2 and 4.3.2: attention on moving tissue and instruments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..arguments.arrays import is_list, read_flags, read_numbers, refuse
from ..arguments.kinds import (
    BOXES,
    COUNT,
    FLAG,
    FLOAT,
    LABEL,
    LEVEL,
    MAPS,
    MASK,
    SEED,
    TEXT,
    one_of,
    optional,
    read_later,
    rows_of,
    sequence,
)
from ..arguments.schema import check_arguments
from ..attention_alignment.frames import BOX, FRAME, MAP_LIST, merge_maps, score_frames, select_boxes
from ..attention_alignment.frames import IDS as FRAME_IDS
from ..attention_alignment.regions import IDS, TOP_FRACTION, compute_shares_inside, find_attention_region
from ..attention_alignment.spread import count_cut_at_zero, spread
from ..confidence.score import bootstrap_mean
from ..mask_overlap.masks import decode_mask
from .levels import LEVELS, TRIPLET_TEXT, Triplet, is_null, match, parsed

__all__ = ["find_attention_region", "match", "ras", "score_frame", "score_predictions", "summarise"]

# Reasons for a missing score of a true triplet; the first one that applies counts.
SCORED, WITHOUT_MOTION, WITHOUT_PREDICTION, WITHOUT_MAP, DEGENERATE = (
    "scored", "without_motion", "without_prediction", "without_map", "degenerate",
)  # fmt: skip

_PER_MAP, _TRIPLETS = sequence(BOXES), sequence(TRIPLET_TEXT)
_MOTION = read_later("motion")
_RECORDS = rows_of(
    {
        "video": LABEL,
        "null": FLAG,
        "has_box": FLAG,
        "level": one_of(LEVELS),
        "state": one_of((SCORED, WITHOUT_MOTION, WITHOUT_PREDICTION, WITHOUT_MAP, DEGENERATE)),
        "ras": FLOAT,
        "n_left_out": SEED,
    }
)
_TOP_K = optional(COUNT)
_BOOTSTRAP = {"n_resamples": COUNT, "seed": SEED, "confidence_level": LEVEL}


@check_arguments(
    maps=MAPS,
    instrument_boxes=_PER_MAP,
    all_boxes=_PER_MAP,
    motion=optional(_MOTION),
    top_fraction=TOP_FRACTION,
    ids=IDS,
)
def ras(
    maps: Any,
    instrument_boxes: Sequence,
    all_boxes: Sequence,
    motion: Any,
    *,
    top_fraction: float = 0.2,
    ids: Sequence[str] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute RAS_local (equation 4) and RAS_global (equation 5) of heatmaps.

    Args:
        maps: Shape (n, height, width), one heatmap per predicted triplet, in the frame's pixels; numpy, or torch on any
            device.
        instrument_boxes: n times (k, 4), xywh in pixels: the true boxes of the predicted instrument.
        all_boxes: n times (k, 4): the boxes of all instruments in the frame.
        motion: Bool, shape (n, height, width), the masks of motion; or n masks of (height, width), None where a frame's
            motion is unknown; or None if all motion is unknown.
        top_fraction: Share of the pixels in the attention region, see `regions.find_attention_region`.
        ids: n names of the samples, for errors.

    Returns:
        local, global: float64, shape (n,), the shares of the region inside motion or boxes; NaN for a degenerate map
            and for unknown motion.
        degenerate: Bool, shape (n,), maps without a region.

    Raises:
        ValueError: A map with NaN or infinity, arrays of another shape, or an invalid box. The message names the
            sample.

    >>> heatmap, moving = np.zeros((1, 4, 5)), np.zeros((1, 4, 5), dtype=bool)
    >>> heatmap[0, 1:3, 1:3], moving[0, :2] = 1, True
    >>> ras(heatmap, [[[1, 1, 1, 2]]], [[[1, 1, 2, 2]]], moving)[:2]
    (array([0.75]), array([1.]))
    """
    return _compute_ras(maps, instrument_boxes, all_boxes, motion, top_fraction, ids)[:3]


@check_arguments(
    prefix="name",
    maps=MAP_LIST,
    predictions=_TRIPLETS,
    gold=_TRIPLETS,
    boxes=BOX,
    motion=optional(_MOTION),
    video=LABEL,
    top_k=_TOP_K,
    top_fraction=TOP_FRACTION,
    name=TEXT,
)
def score_frame(  # noqa: PLR0913 (options of the metric)
    maps: Any,
    predictions: Sequence[str],
    gold: Sequence[str],
    boxes: Sequence[Mapping[str, Any]],
    motion: Any,
    *,
    video: str,
    top_k: int | None = 5,
    top_fraction: float = 0.2,
    name: str = "frame",
) -> list[dict[str, Any]]:
    """Score the true triplets of one frame: the level at which each is matched, and its RAS.

    For a matched triplet (ivt, iv, it, i) the score is RAS_local of the best ranked matching prediction. For a missed
    one it is the mean RAS_global of all predictions of the frame; predictions without a score are left out of it and
    counted.

    Args:
        maps: One (height, width) heatmap for each prediction, or None if the model gave none; all of the same size.
        predictions: Triplets "instrument,verb,target", best first.
        gold: The true triplets.
        boxes: The frame's true boxes, {"label" (an instrument), "xywh"}.
        motion: Bool, shape (height, width), or None if it is unknown.
        video: Name of the frame's video.
        top_k: Number of predictions that count; None for all (a model that writes its triplets).
        top_fraction: See `regions.find_attention_region`.
        name: Name of the frame, for errors.

    Returns:
        A dict for each true triplet: video, triplet, null (whether its instrument does nothing), has_box (whether its
        instrument has a box), level, rank (of the prediction, from 0; None if missed), state ("scored", or the reason:
        "without_motion", "without_prediction", "without_map", "degenerate"), ras (NaN unless scored), n_left_out
        (predictions left out of the mean for a missed triplet) and cut_at_zero (whether `L > 0` removes pixels from the
        region of a map that the score uses, see `regions`).

    Raises:
        ValueError: See `ras`; an invalid triplet, one that occurs twice, or another number of maps than predictions.
    """
    if len(maps) != len(predictions):
        raise ValueError(f"{name}: {len(maps)} maps for {len(predictions)} predictions; expected one for each")
    ranked = _parse_triplets(predictions, f"{name}, predictions")[:top_k]
    true_triplets = _parse_triplets(gold, f"{name}, ground truth")
    matches = [match(triplet, ranked) for triplet in true_triplets]
    is_missed = any(level == "missed" for level, _ in matches)
    required_ranks = range(len(ranked)) if is_missed else sorted({rank for _, rank in matches if rank is not None})
    mapped_ranks = [rank for rank in required_ranks if maps[rank] is not None]
    scores = _compute_scores(maps, ranked, mapped_ranks, boxes, motion, top_fraction, name) if mapped_ranks else {}
    return [
        {
            "video": video,
            "triplet": ",".join(triplet),
            "null": is_null(triplet),
            "has_box": bool(select_boxes(boxes, triplet[0])),
            **_build_record(level, rank, len(ranked), scores, motion is not None),
        }
        for triplet, (level, rank) in zip(true_triplets, matches, strict=True)
    ]


@check_arguments(records=_RECORDS, null_triplets=FLAG, **_BOOTSTRAP)
def summarise(
    records: Sequence[Mapping[str, Any]],
    *,
    null_triplets: bool = True,
    n_resamples: int = 2000,
    seed: int = 42,
    confidence_level: float = 0.95,
) -> dict[str, Any]:
    """Compute RAS and share of each level (figure 4) over the records of `score_frame`.

    Args:
        records: The records of `score_frame` for all frames.
        null_triplets: Whether true triplets in which the instrument does nothing take part, like in the paper's "each
            ground truth"; otherwise they are left out and counted.
        n_resamples: Number of bootstrap resamples; they draw whole videos.
        seed: Seed of the resampling.
        confidence_level: Level of the intervals, between 0 and 1.

    Returns:
        ras_local_ivt, ras_local_iv, ras_local_it, ras_local_i and ras_global_missed: unrounded means over the scored
        true triplets of a level (NaN without any), each with the suffixes of `spread.spread`; share_<level>,
        among all true triplets, with _ci_low and _ci_high; n_<level> and n_<level>_scored; and the counts n_gold,
        n_null, n_null_left_out, n_without_motion, n_without_prediction, n_without_map, n_degenerate (true triplets
        without a score, by reason), n_cut_at_zero, n_without_box, n_left_out_of_missed and n_videos.
    """
    options = {"n_resamples": n_resamples, "seed": seed, "confidence_level": confidence_level}
    used_records = [record for record in records if null_triplets or not record["null"]]
    videos = [record["video"] for record in used_records]
    result: dict[str, Any] = {}
    for level in LEVELS:
        level_records = [record for record in used_records if record["level"] == level]
        name = "ras_global_missed" if level == "missed" else f"ras_local_{level}"
        result |= spread(
            name, [record["ras"] for record in level_records], [record["video"] for record in level_records], **options
        )
        is_level = [float(record["level"] == level) for record in used_records]
        share = bootstrap_mean(is_level, groups=videos, bounds=(0, 1), **options)
        result |= {
            f"share_{level}": share.mean,
            f"share_{level}_ci_low": share.low,
            f"share_{level}_ci_high": share.high,
            f"n_{level}": len(level_records),
            f"n_{level}_scored": sum(record["state"] == SCORED for record in level_records),
        }
    for state in (WITHOUT_MOTION, WITHOUT_PREDICTION, WITHOUT_MAP, DEGENERATE):
        result[f"n_{state}"] = sum(record["state"] == state for record in used_records)
    return result | {
        "n_gold": len(used_records),
        "n_null": sum(record["null"] for record in used_records),
        "n_null_left_out": len(records) - len(used_records),
        "n_without_box": sum(not record["has_box"] for record in used_records),
        "n_left_out_of_missed": sum(record["n_left_out"] for record in used_records),
        "n_cut_at_zero": count_cut_at_zero(used_records),
        "n_videos": len(set(videos)),
    }


@check_arguments(
    like="references",
    predictions=rows_of({"triplets": _TRIPLETS, "maps": MAP_LIST}),
    references=rows_of({"video": LABEL, "triplets": _TRIPLETS, "motion": optional(MASK), **FRAME}),
    top_k=_TOP_K,
    top_fraction=TOP_FRACTION,
    null_triplets=FLAG,
    **_BOOTSTRAP,
    ids=FRAME_IDS,
    per_sample=FLAG,
)
def score_predictions(  # noqa: PLR0913 (options of the metric)
    predictions: Sequence[Mapping[str, Any]],
    references: Sequence[Mapping[str, Any]],
    *,
    top_k: int | None = 5,
    top_fraction: float = 0.2,
    null_triplets: bool = True,
    n_resamples: int = 2000,
    seed: int = 42,
    confidence_level: float = 0.95,
    ids: Sequence[str] | None = None,
    per_sample: bool = False,
) -> dict[str, Any]:
    """Score the true triplets of n frames by RAS.

    Args:
        predictions: n dicts of triplets ("instrument,verb,target", best first) and maps (one per triplet, or None).
        references: n dicts of video, triplets (the true ones), size ([height, width] of the frame), boxes ([{"label",
            "xywh"}], pixels), motion ({"size", "counts"}, COCO's compressed runs; None if unknown) and window: None if
            the maps have the frame's size, otherwise [x, y, width, height], the part of the frame, in pixels, that the
            model saw and that its coarser maps cover (`frames.to_frame`).
        top_k: See `score_frame`.
        top_fraction: See `score_frame`.
        null_triplets: See `summarise`.
        n_resamples: Number of bootstrap resamples; they draw whole videos.
        seed: Seed of the resampling.
        confidence_level: Level of the intervals, between 0 and 1.
        ids: n names of the frames, for errors.
        per_sample: Whether to return the true triplets of each frame as well.

    Returns:
        The results of `summarise` and the counts of `frames.score_frames`; on request "per_sample": n lists of the
        records of `score_frame`.

    Raises:
        ValueError: Different lengths, or see `score_frame`, `frames.build_maps` and `masks.decode_mask`. The message
            names the frame.
    """

    def score(prediction: Mapping, reference: Mapping, maps: list, name: str) -> list[dict[str, Any]]:
        mask = reference["motion"]
        return score_frame(
            maps,
            prediction["triplets"],
            reference["triplets"],
            reference["boxes"],
            None if mask is None else decode_mask(mask, reference["size"], f"{name}, motion"),
            video=reference["video"],
            top_k=top_k,
            top_fraction=top_fraction,
            name=name,
        )

    frames, counts = score_frames(predictions, references, ids, score)
    options = {"n_resamples": n_resamples, "seed": seed, "confidence_level": confidence_level}
    result = (
        summarise([record for frame in frames for record in frame], null_triplets=null_triplets, **options) | counts
    )
    if per_sample:
        result["per_sample"] = frames
    return result


def _compute_ras(
    maps: Any, instrument_boxes: Sequence, all_boxes: Sequence, motion: Any, top_fraction: float, ids: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Compute the result of `ras`, and bool (n,), maps whose regions lose pixels to `L > 0`."""
    maps = maps if hasattr(maps, "shape") else read_numbers(maps, "maps")
    masks, is_known = _load_motion(motion, maps)
    (local_shares, global_shares), degenerate, is_cut = compute_shares_inside(
        maps, [instrument_boxes, all_boxes], motion=masks, top_fraction=top_fraction, ids=ids
    )
    local_shares[~is_known] = global_shares[~is_known] = np.nan
    return local_shares, global_shares, degenerate, is_cut


def _compute_scores(
    maps: Any,
    ranked: Sequence[Triplet],
    mapped_ranks: Sequence[int],
    boxes: Sequence[Mapping[str, Any]],
    motion: Any,
    top_fraction: float,
    name: str,
) -> dict[int, tuple[float, float, bool, bool]]:
    """Compute (RAS_local, RAS_global, degenerate, cut at zero) for the ranks with a map."""
    columns = _compute_ras(
        merge_maps(maps, mapped_ranks),
        [select_boxes(boxes, ranked[rank][0]) for rank in mapped_ranks],
        [select_boxes(boxes)] * len(mapped_ranks),
        None if motion is None else [motion] * len(mapped_ranks),
        top_fraction,
        [f"{name}, map {rank + 1}" for rank in mapped_ranks],
    )
    return dict(zip(mapped_ranks, zip(*(column.tolist() for column in columns), strict=True), strict=True))


def _load_motion(motion: Any, maps: Any) -> tuple[Any, np.ndarray]:
    """Load all masks into one batch (n, height, width), or None without any; and bool (n,), known motion."""
    if motion is None:
        return None, np.zeros(len(maps), dtype=bool)
    if not is_list(motion):
        refuse(motion, "motion", "masks of shape (n, height, width), or None")
    if len(motion) != len(maps):
        raise ValueError(f"motion of {len(motion)} maps; expected {len(maps)}, one for each")
    if hasattr(motion, "shape"):
        return motion, np.ones(len(maps), dtype=bool)
    masks = np.zeros(tuple(maps.shape), dtype=bool)
    for row, mask in enumerate(motion):
        if mask is None:
            continue
        pixels = read_flags(mask.cpu() if hasattr(mask, "cpu") else mask, f"motion of map {row + 1}")
        if pixels.shape != masks.shape[1:]:
            raise ValueError(f"motion of map {row + 1} of shape {pixels.shape}; expected {masks.shape[1:]}, as maps")
        masks[row] = pixels
    return masks, np.array([mask is not None for mask in motion], dtype=bool)


def _parse_triplets(texts: Sequence[str], name: str) -> list[Triplet]:
    triplets = [parsed(text, name) for text in texts]
    if len(set(triplets)) != len(triplets):
        raise ValueError(f"{name}: {list(texts)}; expected each triplet once")
    return triplets


def _build_record(
    level: str, rank: int | None, n_ranked: int, scores: Mapping[int, tuple], has_motion: bool
) -> dict[str, Any]:
    """Build rank, score and state of a true triplet; scores: see `_compute_scores`."""
    selected_ranks = range(n_ranked) if rank is None else [rank]
    values = [
        scores[selected_rank][1 if rank is None else 0] for selected_rank in selected_ranks if selected_rank in scores
    ]
    known_values = [value for value in values if not np.isnan(value)]
    state = SCORED
    if not known_values:
        state = DEGENERATE if values else WITHOUT_MAP if n_ranked else WITHOUT_PREDICTION
        state = state if has_motion else WITHOUT_MOTION
    return {
        "level": level,
        "rank": rank,
        "state": state,
        "ras": float(np.mean(known_values)) if known_values else float("nan"),
        "n_left_out": len(selected_ranks) - len(known_values) if rank is None else 0,
        "cut_at_zero": bool(known_values)
        and any(scores[selected_rank][3] for selected_rank in selected_ranks if selected_rank in scores),
    }
