"""Aggregations over all rows of a SurgXBench task, one function a metric; the rows are those of `adapter`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from medfaith.evaluate_metrics.attention_alignment.score import summarise
from medfaith.evaluate_metrics.ivt.score import instrument_scores, score_triplets, triplet_coverage
from medfaith.evaluate_metrics.ras.score import summarise as summarise_ras
from medfaith.tasks.surgx.adapter import Unlogged
from medfaith.tasks.surgx.occlusion import occlusion_scores

Rows = Sequence[dict[str, Any] | Unlogged]


def _plain(rows: Rows) -> list[dict[str, Any]]:
    return [row.row if isinstance(row, Unlogged) else row for row in rows]


def _said(key: str) -> Callable[[Rows], float]:
    def aggregate(rows: Rows) -> float:
        given = _plain(rows)
        predicted, gold, videos = ([row[name] for row in given] for name in ("predicted", "gold", "video"))
        return instrument_scores(predicted, gold, groups=videos)[key]

    return aggregate


def _looked(key: str) -> Callable[[Rows], float]:
    def aggregate(rows: Rows) -> float:
        return summarise([look for row in _plain(rows) for look in row["looks"]])[key]

    return aggregate


def _covered(key: str) -> Callable[[Rows], float]:
    def aggregate(rows: Rows) -> float:
        given = _plain(rows)
        predicted = [row["predicted"] or () for row in given]
        return triplet_coverage(predicted, [row["gold"] for row in given], groups=[row["video"] for row in given])[key]

    return aggregate


def _precision_of(part: str) -> Callable[[Rows], float]:
    def aggregate(rows: Rows) -> float:
        given = _plain(rows)
        if any(row["scores"] is None for row in given):  # a model that writes its triplets ranks none of the others
            return float("nan")
        references = [{"triplets": row["gold"], "video": row["video"]} for row in given]
        return score_triplets([row["scores"] for row in given], references, n_resamples=1)[f"ap_{part}"]

    return aggregate


def _seen(key: str) -> Callable[[Rows], float]:
    def aggregate(rows: Rows) -> float:
        return summarise_ras([record for row in _plain(rows) for record in row["seen"]])[key]

    return aggregate


def _occluded(key: str) -> Callable[[Rows], float]:
    def aggregate(rows: Rows) -> float:
        return occlusion_scores(_plain(rows))[key]

    return aggregate


def visible_share(rows: Rows) -> float:
    """Mean share of a box that the model could see, after its resizing and cropping, of the frames with heatmaps."""
    shares = [share for row in _plain(rows) for share in row["visible"] or () if not math.isnan(share)]
    return sum(shares) / len(shares) if shares else float("nan")


def triplets_n_unparsed(rows: Rows) -> int:
    """Answers that could not be read."""
    return sum(row["predicted"] is None for row in _plain(rows))


def largest(items: Sequence[int]) -> int:
    """Aggregation of a count that every row repeats."""
    return max(items)


f1 = _said("f1")
f1_ci_low = _said("f1_ci_low")
f1_ci_high = _said("f1_ci_high")
precision = _said("precision")
recall = _said("recall")
n_unparsed = _said("n_unparsed")

tp_aa = _looked("tp_aa")
tp_aa_ci_low = _looked("tp_aa_ci_low")
tp_aa_ci_high = _looked("tp_aa_ci_high")
tp_ac = _looked("tp_ac")
tp_ac_ci_low = _looked("tp_ac_ci_low")
tp_ac_ci_high = _looked("tp_ac_ci_high")
fp_ac = _looked("fp_ac")
fp_ac_ci_low = _looked("fp_ac_ci_low")
fp_ac_ci_high = _looked("fp_ac_ci_high")
n_tp = _looked("n_tp")
n_fp = _looked("n_fp")
n_degenerate = _looked("n_degenerate")
n_without_map = _looked("n_without_map")

coverage = _covered("coverage")
coverage_ci_low = _covered("coverage_ci_low")
coverage_ci_high = _covered("coverage_ci_high")

ap_ivt = _precision_of("ivt")
ap_iv = _precision_of("iv")
ap_it = _precision_of("it")
ap_i = _precision_of("i")
ap_v = _precision_of("v")
ap_t = _precision_of("t")

share_ivt = _seen("share_ivt")
share_ivt_ci_low = _seen("share_ivt_ci_low")
share_ivt_ci_high = _seen("share_ivt_ci_high")
share_iv = _seen("share_iv")
share_iv_ci_low = _seen("share_iv_ci_low")
share_iv_ci_high = _seen("share_iv_ci_high")
share_it = _seen("share_it")
share_it_ci_low = _seen("share_it_ci_low")
share_it_ci_high = _seen("share_it_ci_high")
share_i = _seen("share_i")
share_i_ci_low = _seen("share_i_ci_low")
share_i_ci_high = _seen("share_i_ci_high")
share_missed = _seen("share_missed")
share_missed_ci_low = _seen("share_missed_ci_low")
share_missed_ci_high = _seen("share_missed_ci_high")
ras_local_ivt = _seen("ras_local_ivt")
ras_local_ivt_ci_low = _seen("ras_local_ivt_ci_low")
ras_local_ivt_ci_high = _seen("ras_local_ivt_ci_high")
ras_local_iv = _seen("ras_local_iv")
ras_local_iv_ci_low = _seen("ras_local_iv_ci_low")
ras_local_iv_ci_high = _seen("ras_local_iv_ci_high")
ras_local_it = _seen("ras_local_it")
ras_local_it_ci_low = _seen("ras_local_it_ci_low")
ras_local_it_ci_high = _seen("ras_local_it_ci_high")
ras_local_i = _seen("ras_local_i")
ras_local_i_ci_low = _seen("ras_local_i_ci_low")
ras_local_i_ci_high = _seen("ras_local_i_ci_high")
ras_global_missed = _seen("ras_global_missed")
ras_global_missed_ci_low = _seen("ras_global_missed_ci_low")
ras_global_missed_ci_high = _seen("ras_global_missed_ci_high")
n_gold = _seen("n_gold")
n_without_motion = _seen("n_without_motion")
n_without_prediction = _seen("n_without_prediction")
triplets_n_without_map = _seen("n_without_map")
triplets_n_degenerate = _seen("n_degenerate")

lost = _occluded("lost")
lost_ci_low = _occluded("lost_ci_low")
lost_ci_high = _occluded("lost_ci_high")
n_covered = _occluded("n_covered")
n_lost = _occluded("n_lost")
n_without_region = _occluded("n_without_region")
similarity_drop = _occluded("similarity_drop")
similarity_drop_ci_low = _occluded("similarity_drop_ci_low")
similarity_drop_ci_high = _occluded("similarity_drop_ci_high")
