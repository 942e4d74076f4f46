"""Scores of the attention-based occlusion (sections 4.3.2 and 5.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean


def occlusion_scores(rows: Sequence[Mapping[str, Any]], **bootstrap: Any) -> dict[str, float | int]:
    """How many frames lose their IVT matches, and by how much the similarity of those that keep one falls.

    Args:
        rows: one a frame: video, gold (triplets), and occluded: None where no prediction was right, else triplet (the
            best ranked right one, whose region was painted black), before and after (its similarity) and predicted
            (afterwards, best first); the last two None where its heatmap has no region.
        bootstrap: further arguments of `confidence.bootstrap_mean`, whose intervals draw whole videos.

    Returns:
        lost: share of the n_covered frames none of whose true triplets is predicted afterwards (n_lost);
        similarity_drop: mean of before - after over the others; both with _ci_low and _ci_high, NaN without frames.
        n_without_region: frames with a right prediction that are left out, as nothing could be painted.
    """
    changed = [row for row in rows if row["occluded"] is not None]
    painted = [row for row in changed if row["occluded"]["after"] is not None]
    lost = [not set(row["gold"]) & set(row["occluded"]["predicted"]) for row in painted]
    kept = [row for row, gone in zip(painted, lost, strict=True) if not gone]
    drops = [row["occluded"]["before"] - row["occluded"]["after"] for row in kept]
    result: dict[str, float | int] = {
        "n_covered": len(painted),
        "n_lost": sum(lost),
        "n_without_region": len(changed) - len(painted),
    }
    of_lost = ("lost", [float(gone) for gone in lost], painted, (0, 1))
    for name, values, of, bounds in (of_lost, ("similarity_drop", drops, kept, None)):
        interval = bootstrap_mean(values, groups=[row["video"] for row in of], bounds=bounds, **bootstrap)
        result |= {name: interval.mean, f"{name}_ci_low": interval.low, f"{name}_ci_high": interval.high}
    return result
