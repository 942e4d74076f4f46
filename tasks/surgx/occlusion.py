"""Scores of the attention-based occlusion (sections 4.3.2 and 5.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean


def compute_occlusion_scores(rows: Sequence[Mapping[str, Any]], **bootstrap: Any) -> dict[str, float | int]:
    """Compute how many frames lose their IVT matches, and how much the similarity falls for the other frames.

    Args:
        rows: One row for each frame, with video, gold (triplets) and occluded. `occluded` is None if no prediction was
            right. Otherwise it has triplet (the best-ranked right one, whose region was painted black), before and
            after (its similarity), and predicted (the predictions afterwards, best first). The last two are None if the
            heatmap has no region.
        bootstrap: Further arguments of `confidence.bootstrap_mean`, which resamples whole videos.

    Returns:
        lost, the share of the n_covered frames without a true triplet among the later predictions (n_lost);
        similarity_drop, the mean of before - after over the other frames; both with _ci_low and _ci_high, NaN without
        frames; n_without_region, the number of frames with a right prediction but no region to paint.
    """
    changed = [row for row in rows if row["occluded"] is not None]
    painted = [row for row in changed if row["occluded"]["after"] is not None]
    lost = [not set(row["gold"]) & set(row["occluded"]["predicted"]) for row in painted]
    unlost = [row for row, gone in zip(painted, lost, strict=True) if not gone]
    drops = [row["occluded"]["before"] - row["occluded"]["after"] for row in unlost]
    result: dict[str, float | int] = {
        "n_covered": len(painted),
        "n_lost": sum(lost),
        "n_without_region": len(changed) - len(painted),
    }
    lost_figure = ("lost", [float(gone) for gone in lost], painted, (0, 1))
    for name, values, frames, bounds in (lost_figure, ("similarity_drop", drops, unlost, None)):
        interval = bootstrap_mean(values, groups=[row["video"] for row in frames], bounds=bounds, **bootstrap)
        result |= {name: interval.mean, f"{name}_ci_low": interval.low, f"{name}_ci_high": interval.high}
    return result
