"""RAFT attention score (RAS) of SurgXBench, sections 3.4.2 and 4.3.2: attention on moving tissue and instruments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..attention_alignment.frames import boxes_of, each_frame, stacked
from ..attention_alignment.regions import attention_region, shares_inside
from ..attention_alignment.spread import n_cut_at_zero, spread
from ..confidence.score import bootstrap_mean
from ..mask_overlap.masks import decoded
from .levels import LEVELS, Triplet, is_null, match, parsed

__all__ = ["attention_region", "match", "ras", "score_frame", "score_predictions", "summarise"]

# Why a true triplet has no score; the first that applies.
SCORED, WITHOUT_MOTION, WITHOUT_PREDICTION, WITHOUT_MAP, DEGENERATE = (
    "scored", "without_motion", "without_prediction", "without_map", "degenerate",
)  # fmt: skip


def ras(
    maps: Any,
    instrument_boxes: Sequence,
    all_boxes: Sequence,
    motion: Any,
    *,
    top_fraction: float = 0.2,
    ids: Sequence[str] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """RAS_local (equation 4) and RAS_global (equation 5) of heatmaps.

    Args:
        maps: (n, height, width), one heatmap a predicted triplet, in the frame's pixels; numpy, or torch on any device.
        instrument_boxes: n times (k, 4) numbers xywh in pixels: the true boxes of the predicted instrument.
        all_boxes: n times (k, 4): the boxes of all instruments in the frame.
        motion: bool (n, height, width), the masks of motion; or n of (height, width) or None, where a frame's motion is
            not known; or None, where none is.
        top_fraction: share of the pixels that make the attention region, see `regions.attention_region`.
        ids: n names of the samples, for errors.

    Returns:
        local, global: float64 (n,), the shares of the region inside motion or boxes; NaN for a degenerate map and where
        motion is not known.
        degenerate: bool (n,), maps without a region.

    Raises:
        ValueError: a map with NaN or infinity, arrays of another shape, or a box that is none; it names the sample.

    >>> heatmap, moving = np.zeros((1, 4, 5)), np.zeros((1, 4, 5), dtype=bool)
    >>> heatmap[0, 1:3, 1:3], moving[0, :2] = 1, True
    >>> ras(heatmap, [[[1, 1, 1, 2]]], [[[1, 1, 2, 2]]], moving)[:2]
    (array([0.75]), array([1.]))
    """
    return _ras(maps, instrument_boxes, all_boxes, motion, top_fraction, ids)[:3]


def score_frame(
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
    """The true triplets of one frame, each with the level at which it is matched and its RAS.

    Matched (ivt, iv, it, i): RAS_local of the best ranked prediction that matches. Missed: the mean RAS_global of all
    predictions of the frame; those without a score are left out of it, and counted.

    Args:
        maps: one (height, width) heatmap for each prediction, or None where the model gave none; all of one size.
        predictions: triplets "instrument,verb,target", best first.
        gold: the true triplets.
        boxes: the frame's true boxes, {"label" (an instrument), "xywh"}.
        motion: bool (height, width), or None where it is not known.
        video: of the frame.
        top_k: predictions that count; None for all (a model that writes its triplets).
        name: of the frame, for errors.

    Returns:
        a dict for each true triplet: video, triplet, null (whether its instrument does nothing), has_box (whether its
        instrument has a box), level, rank (of the prediction, from 0; None if missed), state ("scored", or why not:
        "without_motion", "without_prediction", "without_map", "degenerate"), ras (NaN unless scored), n_left_out
        (predictions left out of the mean of a missed one) and cut_at_zero (whether `L > 0` takes pixels from the region
        of a map behind its score, see `regions`).

    Raises:
        ValueError: as `ras`; text that is no triplet, one that occurs twice, or not one map for each prediction.
    """
    if len(maps) != len(predictions):
        raise ValueError(f"{name}: {len(maps)} maps for {len(predictions)} predictions; expected one for each")
    ranked = _triplets(predictions, f"{name}, predictions")[:top_k]
    true = _triplets(gold, f"{name}, ground truth")
    matches = [match(triplet, ranked) for triplet in true]
    missed = any(level == "missed" for level, _ in matches)
    needed = range(len(ranked)) if missed else sorted({rank for _, rank in matches if rank is not None})
    given = [rank for rank in needed if maps[rank] is not None]
    scores = _scores(maps, ranked, given, boxes, motion, top_fraction, name) if given else {}
    return [
        {
            "video": video,
            "triplet": ",".join(triplet),
            "null": is_null(triplet),
            "has_box": bool(boxes_of(boxes, triplet[0])),
            **_record(level, rank, len(ranked), scores, motion is not None),
        }
        for triplet, (level, rank) in zip(true, matches, strict=True)
    ]


def summarise(
    records: Sequence[Mapping[str, Any]],
    *,
    null_triplets: bool = True,
    n_resamples: int = 2000,
    seed: int = 42,
    confidence_level: float = 0.95,
) -> dict[str, Any]:
    """RAS and share of each level (figure 4) over the records of `score_frame`.

    Args:
        records: of `score_frame`, of all frames.
        null_triplets: whether true triplets in which the instrument does nothing take part, as they do in the paper's
            "each ground truth"; else they are left out, and counted.
        n_resamples, seed, confidence_level: of the bootstrap intervals, which draw whole videos.

    Returns:
        ras_local_ivt, ras_local_iv, ras_local_it, ras_local_i and ras_global_missed: unrounded means over the scored
        true triplets of a level (NaN without any), each with the endings of `spread.spread`; share_<level>, of all
        true triplets, with _ci_low and _ci_high; n_<level> and n_<level>_scored; and the counts n_gold, n_null,
        n_null_left_out, n_without_motion, n_without_prediction, n_without_map, n_degenerate (true triplets without a
        score, by reason), n_cut_at_zero, n_without_box, n_left_out_of_missed and n_videos.
    """
    options = {"n_resamples": n_resamples, "seed": seed, "confidence_level": confidence_level}
    used = [record for record in records if null_triplets or not record["null"]]
    videos = [record["video"] for record in used]
    result: dict[str, Any] = {}
    for level in LEVELS:
        here = [record for record in used if record["level"] == level]
        name = "ras_global_missed" if level == "missed" else f"ras_local_{level}"
        result |= spread(name, [record["ras"] for record in here], [record["video"] for record in here], **options)
        of_level = [float(record["level"] == level) for record in used]
        share = bootstrap_mean(of_level, groups=videos, bounds=(0, 1), **options)
        result |= {
            f"share_{level}": share.mean,
            f"share_{level}_ci_low": share.low,
            f"share_{level}_ci_high": share.high,
            f"n_{level}": len(here),
            f"n_{level}_scored": sum(record["state"] == SCORED for record in here),
        }
    for state in (WITHOUT_MOTION, WITHOUT_PREDICTION, WITHOUT_MAP, DEGENERATE):
        result[f"n_{state}"] = sum(record["state"] == state for record in used)
    return result | {
        "n_gold": len(used),
        "n_null": sum(record["null"] for record in used),
        "n_null_left_out": len(records) - len(used),
        "n_without_box": sum(not record["has_box"] for record in used),
        "n_left_out_of_missed": sum(record["n_left_out"] for record in used),
        "n_cut_at_zero": n_cut_at_zero(used),
        "n_videos": len(set(videos)),
    }


def score_predictions(
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
    """RAS of the true triplets of n frames.

    Args:
        predictions: n dicts of triplets ("instrument,verb,target", best first) and maps (one for each, or None).
        references: n dicts of video, triplets (the true ones), size ([height, width] of the frame), boxes ([{"label",
            "xywh"}], pixels), motion ({"size", "counts"}, COCO's compressed runs; None where it is not known) and
            window: None where the maps have the frame's size, else [x, y, width, height], the part of the frame, in
            pixels, that the model saw and that its coarser maps cover (`frames.to_frame`).
        top_k, top_fraction: see `score_frame`.
        null_triplets, n_resamples, seed, confidence_level: see `summarise`.
        ids: n names of the frames, for errors.
        per_sample: whether to return the true triplets of each frame as well.

    Returns:
        the results of `summarise` and the counts of `frames.each_frame`; on request "per_sample": n lists of the
        records of `score_frame`.

    Raises:
        ValueError: lengths differ, or as `score_frame`, `frames.maps_of` and `masks.decoded`; it names the frame.
    """
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k {top_k}; expected at least 1, or None for all predictions")

    def score(prediction: Mapping, reference: Mapping, maps: list, name: str) -> list[dict[str, Any]]:
        mask, (height, width) = reference["motion"], reference["size"]
        return score_frame(
            maps,
            prediction["triplets"],
            reference["triplets"],
            reference["boxes"],
            None if mask is None else decoded(mask, (int(height), int(width)), f"{name}, motion"),
            video=reference["video"],
            top_k=top_k,
            top_fraction=top_fraction,
            name=name,
        )

    frames, counts = each_frame(predictions, references, ids, score)
    how = {"n_resamples": n_resamples, "seed": seed, "confidence_level": confidence_level}
    result = summarise([record for frame in frames for record in frame], null_triplets=null_triplets, **how) | counts
    if per_sample:
        result["per_sample"] = frames
    return result


def _ras(
    maps: Any, instrument_boxes: Sequence, all_boxes: Sequence, motion: Any, top_fraction: float, ids: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What `ras` returns, and bool (n,), maps from whose regions `L > 0` takes pixels."""
    maps = maps if hasattr(maps, "shape") else np.asarray(maps)
    masks, known = _motion(motion, maps)
    (local, everywhere), degenerate, cut = shares_inside(
        maps, [instrument_boxes, all_boxes], motion=masks, top_fraction=top_fraction, ids=ids
    )
    local[~known] = everywhere[~known] = np.nan
    return local, everywhere, degenerate, cut


def _scores(
    maps: Any,
    ranked: Sequence[Triplet],
    given: Sequence[int],
    boxes: Sequence[Mapping[str, Any]],
    motion: Any,
    top_fraction: float,
    name: str,
) -> dict[int, tuple[float, float, bool, bool]]:
    """(RAS_local, RAS_global, degenerate, cut at zero) of the ranks that are given."""
    columns = _ras(
        stacked(maps, given),
        [boxes_of(boxes, ranked[rank][0]) for rank in given],
        [boxes_of(boxes)] * len(given),
        None if motion is None else [motion] * len(given),
        top_fraction,
        [f"{name}, map {rank + 1}" for rank in given],
    )
    return dict(zip(given, zip(*(column.tolist() for column in columns), strict=True), strict=True))


def _motion(motion: Any, maps: Any) -> tuple[Any, np.ndarray]:
    """All masks as one batch (n, height, width), or None without any; and bool (n,), where motion is known."""
    if motion is None:
        return None, np.zeros(len(maps), dtype=bool)
    if len(motion) != len(maps):
        raise ValueError(f"motion of {len(motion)} maps; expected {len(maps)}, one for each")
    if hasattr(motion, "shape"):
        return motion, np.ones(len(maps), dtype=bool)
    masks = np.zeros(tuple(maps.shape), dtype=bool)
    for row, mask in enumerate(motion):
        if mask is None:
            continue
        pixels = np.asarray(mask.cpu() if hasattr(mask, "cpu") else mask, dtype=bool)
        if pixels.shape != masks.shape[1:]:
            raise ValueError(f"motion of map {row + 1} of shape {pixels.shape}; expected {masks.shape[1:]}, as maps")
        masks[row] = pixels
    return masks, np.array([mask is not None for mask in motion], dtype=bool)


def _triplets(texts: Sequence[str], name: str) -> list[Triplet]:
    triplets = [parsed(text, name) for text in texts]
    if len(set(triplets)) != len(triplets):
        raise ValueError(f"{name}: {list(texts)}; expected each triplet once")
    return triplets


def _record(
    level: str, rank: int | None, n_ranked: int, scores: Mapping[int, tuple], has_motion: bool
) -> dict[str, Any]:
    """Rank, score and state of a true triplet; scores: see `_scores`."""
    chosen = range(n_ranked) if rank is None else [rank]
    values = [scores[number][1 if rank is None else 0] for number in chosen if number in scores]
    known = [value for value in values if not np.isnan(value)]
    state = SCORED
    if not known:
        state = DEGENERATE if values else WITHOUT_MAP if n_ranked else WITHOUT_PREDICTION
        state = state if has_motion else WITHOUT_MOTION
    return {
        "level": level,
        "rank": rank,
        "state": state,
        "ras": float(np.mean(known)) if known else float("nan"),
        "n_left_out": len(chosen) - len(known) if rank is None else 0,
        "cut_at_zero": bool(known) and any(scores[number][3] for number in chosen if number in scores),
    }
