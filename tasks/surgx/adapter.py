"""lm-eval's metrics for SurgXBench. Each answer is read and its heatmaps measured once; all rows are scored together.

The record of an answer, logged under the first metric of its task, is the input of `medfaith report`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from medfaith.evaluate_metrics.attention_alignment.score import score_frame, summarise
from medfaith.evaluate_metrics.ivt.score import instrument_scores, score_triplets, triplet_coverage
from medfaith.evaluate_metrics.ras.score import score_frame as ras_of_frame
from medfaith.evaluate_metrics.ras.score import summarise as summarise_ras
from medfaith.evaluate_metrics.reading.outcome import DECLINED, UNREAD
from medfaith.evaluate_metrics.reading.surgery import (
    Reading,
    Reply,
    TripletReading,
    read_instruments,
    read_reply,
    read_triplets,
)
from medfaith.loaders import rle
from medfaith.tasks.explain.geometry import visible_share
from medfaith.tasks.outcomes import is_cut
from medfaith.tasks.scoring import Scorer
from medfaith.tasks.surgx.occlusion import compute_occlusion_scores

Records = Sequence[Mapping[str, Any]]

ENDS = ("", "_ci_low", "_ci_high")
PARTS = ("ivt", "iv", "it", "i", "v", "t")
LEVELS = ("ivt", "iv", "it", "i", "missed")
TIED = "tied"  # outcome of a frame with tied similarities: not all of its predictions are known
RAS = ("ras_local_ivt", "ras_local_iv", "ras_local_it", "ras_local_i", "ras_global_missed")


def instruments_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Compute a frame's metric values for instruments: the predictions, and AA and AC of each prediction's heatmap.

    Args:
        doc: The document.
        results: The answer.

    Returns:
        Metric -> value of the row.
    """
    reply = read_reply(results[0])
    predicted, outcome = _read_prediction(doc, reply, read_instruments)
    maps, visible = read_heatmaps(doc, reply)
    predicted_names = predicted or []
    alignments = score_frame(
        [maps.get(name) for name in predicted_names],
        predicted_names,
        doc["boxes"],
        video=str(doc["video"]),
        name=doc["id"],
    )
    return INSTRUMENTS.values(doc, _build_record(doc, predicted, outcome) | {"looks": alignments, "visible": visible})


def triplets_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Compute a frame's metric values for triplets: the predictions, best first, and the match of each true triplet.

    Args:
        doc: The document.
        results: The answer.

    Returns:
        Metric -> value of the row.
    """
    reply = read_reply(results[0])
    predicted, outcome = _read_prediction(doc, reply, read_triplets)
    maps, visible = read_heatmaps(doc, reply)
    has_scores = reply.predicted is not None
    names = predicted or []
    matches = ras_of_frame(
        [maps.get(name) for name in names],
        names,
        doc["gold"],
        doc["boxes"],
        rle.decode(doc["motion"]) if doc["motion"] is not None else None,
        video=str(doc["video"]),
        top_k=doc["top_k"] if has_scores else None,  # a model that writes its triplets has no further ones
        name=doc["id"],
    )
    fields = {"scores": _get_all_scores(reply, len(doc["classes"])), "occluded": reply.occluded, "seen": matches}
    return TRIPLETS.values(doc, _build_record(doc, predicted, outcome) | fields | {"visible": visible})


def occlusion_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Compute a frame's metric values for triplets before and after the model's region is painted black.

    Args:
        doc: The document.
        results: The answer.

    Returns:
        Metric -> value of the row.
    """
    reply = read_reply(results[0])
    return OCCLUSION.values(
        doc, _build_record(doc, *_read_prediction(doc, reply, read_triplets)) | {"occluded": reply.occluded}
    )


def _build_record(doc: Mapping[str, Any], predicted: Sequence[str] | None, outcome: str) -> dict[str, Any]:
    return {"video": doc["video"], "gold": doc["gold"], "predicted": predicted, "outcome": outcome}


def _read_prediction(
    doc: Mapping[str, Any], reply: Reply, read_answer: Callable[..., Reading | TripletReading]
) -> tuple[list[str] | None, str]:
    """Read the classes of an answer, best first (None if it is unread or declined), and its outcome.

    The outcome is "answered", "declined" or "unread". It is "given" or `TIED` if the model returns its classes itself.
    """
    if reply.predicted is not None:
        return list(dict.fromkeys(reply.predicted)), TIED if reply.tied else "given"
    if reply.unparsed:
        return None, UNREAD
    reading = read_answer(reply.text, cut=is_cut(doc))
    if reading.outcome in (UNREAD, DECLINED):
        return None, reading.outcome
    return list(dict.fromkeys(reading.names)), reading.outcome


def _get_all_scores(reply: Reply, n_classes: int) -> list[float] | None:
    if reply.scores is None or len(reply.scores) != n_classes:
        return None
    return list(reply.scores)


def read_heatmaps(doc: Mapping[str, Any], reply: Reply) -> tuple[dict[str, np.ndarray], list[float] | None]:
    """Read the heatmaps of an answer, and the share of each box that the model could see.

    Args:
        doc: The document.
        reply: The reply of the model.

    Returns:
        Class -> heatmap (H, W), and one share for each box; {} and None if the model keeps no heatmaps.
    """
    if reply.heatmaps is None:
        return {}, None
    maps, geometry = doc["heatmaps"].read(reply.heatmaps, doc["id"], (doc["height"], doc["width"]))
    return maps, [float(share) for share in visible_share([box["xywh"] for box in doc["boxes"]], geometry)]


def _compute_instrument_figures(records: Records) -> dict[str, float]:
    columns = ([record[name] for record in records] for name in ("predicted", "gold", "video", "outcome"))
    predicted, gold, videos, outcomes = columns
    alignments = summarise([look for record in records for look in record["looks"]])
    prediction_scores = instrument_scores(predicted, gold, groups=videos, outcomes=outcomes)
    return {
        **prediction_scores,
        **alignments,
        "n_tied": _count_tied(records),
        "visible_share": _compute_visible_share(records),
    }


def _compute_triplet_figures(records: Records) -> dict[str, float]:
    gold, videos = ([record[name] for record in records] for name in ("gold", "video"))
    return {
        **triplet_coverage([record["predicted"] or () for record in records], gold, groups=videos),
        **_compute_average_precision(records),
        **summarise_ras([match for record in records for match in record["seen"]]),
        **_count_unanswered(records),
        "n_tied": _count_tied(records),
        "visible_share": _compute_visible_share(records),
    }


def _compute_occlusion_figures(records: Records) -> dict[str, float]:
    return {**compute_occlusion_scores(records), **_count_unanswered(records), "n_tied": _count_tied(records)}


def _compute_average_precision(records: Records) -> dict[str, float]:
    """Compute average precision by component; NaN if an answer has no scores of all classes, such as one in words."""
    if any(record["scores"] is None for record in records):
        return {f"ap_{component}": float("nan") for component in PARTS}
    references = [{"triplets": record["gold"], "video": record["video"]} for record in records]
    scores = score_triplets([record["scores"] for record in records], references, n_resamples=1)
    return {f"ap_{component}": scores[f"ap_{component}"] for component in PARTS}


def _count_unanswered(records: Records) -> dict[str, int]:
    """Count the unread and the declined answers."""
    outcomes = [record["outcome"] for record in records]
    return {"n_unparsed": outcomes.count(UNREAD), "n_declined": outcomes.count(DECLINED)}


def _count_tied(records: Records) -> int:
    return sum(record["outcome"] == TIED for record in records)


def _compute_visible_share(records: Records) -> float:
    """Compute the mean share of a box that the model could see after resizing and cropping, if it keeps heatmaps."""
    shares = [share for record in records for share in record["visible"] or () if not math.isnan(share)]
    return sum(shares) / len(shares) if shares else float("nan")


INSTRUMENTS = Scorer(
    _compute_instrument_figures,
    (
        *(f"f1{end}" for end in ENDS), "precision", "recall", "n_unparsed", "n_declined",
        *(f"{name}{end}" for name in ("tp_aa", "tp_ac", "fp_ac") for end in ENDS),
        "n_tied", "n_tp", "n_fp", "n_degenerate", "n_cut_at_zero", "n_without_map", "visible_share",
    ),
    lower=("n_unparsed", "n_declined", "n_tied", "n_fp", "n_degenerate", "n_cut_at_zero", "n_without_map"),
)  # fmt: skip
TRIPLETS = Scorer(
    _compute_triplet_figures,
    (
        *(f"coverage{end}" for end in ENDS), "n_unparsed", "n_declined", *(f"ap_{component}" for component in PARTS),
        *(f"share_{level}{end}" for level in LEVELS for end in ENDS), *(f"{name}{end}" for name in RAS for end in ENDS),
        "n_tied", "n_gold", "n_without_motion", "n_without_prediction", "n_without_map", "n_degenerate",
        "n_cut_at_zero", "visible_share",
    ),
    lower=(
        *(f"share_missed{end}" for end in ENDS),
        "n_unparsed", "n_declined", "n_tied", "n_without_motion", "n_without_prediction", "n_without_map",
        "n_degenerate", "n_cut_at_zero",
    ),
)  # fmt: skip
OCCLUSION = Scorer(
    _compute_occlusion_figures,
    (
        *(f"lost{end}" for end in ENDS), "n_covered", "n_lost", "n_without_region",
        *(f"similarity_drop{end}" for end in ENDS), "n_unparsed", "n_declined", "n_tied",
    ),
    lower=("n_without_region", "n_unparsed", "n_declined", "n_tied"),
)  # fmt: skip

instruments_metrics, triplets_metrics, occlusion_metrics = (
    scorer.metric_list for scorer in (INSTRUMENTS, TRIPLETS, OCCLUSION)
)
