"""Between lm-eval and SurgXBench: each answer is read once, its heatmaps are measured, all rows are scored together.

The record of an answer, logged under the first metric of its task, is what `medfaith report` makes its tables from.
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
from medfaith.tasks.surgx.occlusion import occlusion_scores

Records = Sequence[Mapping[str, Any]]

ENDS = ("", "_ci_low", "_ci_high")
PARTS = ("ivt", "iv", "it", "i", "v", "t")
LEVELS = ("ivt", "iv", "it", "i", "missed")
TIED = "tied"  # the outcome of a frame whose similarities tie, so that not all of its predictions can be named
RAS = ("ras_local_ivt", "ras_local_iv", "ras_local_it", "ras_local_i", "ras_global_missed")


def instruments_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Per-row values of a frame's instruments: what was predicted, and AA and AC of each prediction's heatmap."""
    reply = read_reply(results[0])
    predicted, outcome = _predicted(doc, reply, read_instruments)
    maps, visible = heatmaps(doc, reply)
    named = predicted or []
    looks = score_frame(
        [maps.get(name) for name in named], named, doc["boxes"], video=str(doc["video"]), name=doc["id"]
    )
    return INSTRUMENTS.values(doc, _said(doc, predicted, outcome) | {"looks": looks, "visible": visible})


def triplets_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Per-row values of a frame's triplets: those predicted, best first, and how each true one is matched."""
    reply = read_reply(results[0])
    predicted, outcome = _predicted(doc, reply, read_triplets)
    maps, visible = heatmaps(doc, reply)
    scored = reply.predicted is not None
    names = predicted or []
    seen = ras_of_frame(
        [maps.get(one) for one in names],
        names,
        doc["gold"],
        doc["boxes"],
        rle.decode(doc["motion"]) if doc["motion"] is not None else None,
        video=str(doc["video"]),
        top_k=doc["top_k"] if scored else None,  # a model that writes its triplets has given all that it means
        name=doc["id"],
    )
    found = {"scores": _all_scores(reply, len(doc["classes"])), "occluded": reply.occluded, "seen": seen}
    return TRIPLETS.values(doc, _said(doc, predicted, outcome) | found | {"visible": visible})


def occlusion_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Per-row values of a frame's triplets before and after what the model looked at is painted black."""
    reply = read_reply(results[0])
    return OCCLUSION.values(doc, _said(doc, *_predicted(doc, reply, read_triplets)) | {"occluded": reply.occluded})


def _said(doc: Mapping[str, Any], predicted: Sequence[str] | None, outcome: str) -> dict[str, Any]:
    return {"video": doc["video"], "gold": doc["gold"], "predicted": predicted, "outcome": outcome}


def _predicted(
    doc: Mapping[str, Any], reply: Reply, read: Callable[..., Reading | TripletReading]
) -> tuple[list[str] | None, str]:
    """The classes that an answer names, best first, None where it is unread or declined; and its outcome.

    The outcome is "answered", "declined" or "unread"; "given" or `TIED` where the model gives its classes itself.
    """
    if reply.predicted is not None:
        return list(dict.fromkeys(reply.predicted)), TIED if reply.tied else "given"
    if reply.unparsed:
        return None, UNREAD
    reading = read(reply.text, cut=is_cut(doc))
    if reading.outcome in (UNREAD, DECLINED):
        return None, reading.outcome
    return list(dict.fromkeys(reading.names)), reading.outcome


def _all_scores(reply: Reply, n_classes: int) -> list[float] | None:
    if reply.scores is None or len(reply.scores) != n_classes:
        return None
    return list(reply.scores)


def heatmaps(doc: Mapping[str, Any], reply: Reply) -> tuple[dict[str, np.ndarray], list[float] | None]:
    """Class -> heatmap (H, W) that the model kept of its answer, and the share of each box that the model could see.

    None of them where it keeps none: then it is not known what it saw.
    """
    if reply.heatmaps is None:
        return {}, None
    maps, geometry = doc["heatmaps"].read(reply.heatmaps, doc["id"], (doc["height"], doc["width"]))
    return maps, [float(share) for share in visible_share([box["xywh"] for box in doc["boxes"]], geometry)]


def _instrument_figures(records: Records) -> dict[str, float]:
    columns = ([record[name] for record in records] for name in ("predicted", "gold", "video", "outcome"))
    predicted, gold, videos, outcomes = columns
    looks = summarise([look for record in records for look in record["looks"]])
    said = instrument_scores(predicted, gold, groups=videos, outcomes=outcomes)
    return {**said, **looks, "n_tied": _n_tied(records), "visible_share": _visible_share(records)}


def _triplet_figures(records: Records) -> dict[str, float]:
    gold, videos = ([record[name] for record in records] for name in ("gold", "video"))
    return {
        **triplet_coverage([record["predicted"] or () for record in records], gold, groups=videos),
        **_average_precision(records),
        **summarise_ras([seen for record in records for seen in record["seen"]]),
        **_unanswered(records),
        "n_tied": _n_tied(records),
        "visible_share": _visible_share(records),
    }


def _occlusion_figures(records: Records) -> dict[str, float]:
    return {**occlusion_scores(records), **_unanswered(records), "n_tied": _n_tied(records)}


def _average_precision(records: Records) -> dict[str, float]:
    """NaN of a model that writes its triplets: it does not rank the others."""
    if any(record["scores"] is None for record in records):
        return {f"ap_{part}": float("nan") for part in PARTS}
    references = [{"triplets": record["gold"], "video": record["video"]} for record in records]
    scores = score_triplets([record["scores"] for record in records], references, n_resamples=1)
    return {f"ap_{part}": scores[f"ap_{part}"] for part in PARTS}


def _unanswered(records: Records) -> dict[str, int]:
    """How many answers are unread, and how many declined."""
    outcomes = [record["outcome"] for record in records]
    return {"n_unparsed": outcomes.count(UNREAD), "n_declined": outcomes.count(DECLINED)}


def _n_tied(records: Records) -> int:
    return sum(record["outcome"] == TIED for record in records)


def _visible_share(records: Records) -> float:
    """Mean share of a box that the model could see, after its resizing and cropping, of the frames with heatmaps."""
    shares = [share for record in records for share in record["visible"] or () if not math.isnan(share)]
    return sum(shares) / len(shares) if shares else float("nan")


INSTRUMENTS = Scorer(
    _instrument_figures,
    (
        *(f"f1{end}" for end in ENDS), "precision", "recall", "n_unparsed", "n_declined",
        *(f"{name}{end}" for name in ("tp_aa", "tp_ac", "fp_ac") for end in ENDS),
        "n_tied", "n_tp", "n_fp", "n_degenerate", "n_cut_at_zero", "n_without_map", "visible_share",
    ),
    lower=("n_unparsed", "n_declined", "n_tied", "n_fp", "n_degenerate", "n_cut_at_zero", "n_without_map"),
)  # fmt: skip
TRIPLETS = Scorer(
    _triplet_figures,
    (
        *(f"coverage{end}" for end in ENDS), "n_unparsed", "n_declined", *(f"ap_{part}" for part in PARTS),
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
    _occlusion_figures,
    (
        *(f"lost{end}" for end in ENDS), "n_covered", "n_lost", "n_without_region",
        *(f"similarity_drop{end}" for end in ENDS), "n_unparsed", "n_declined", "n_tied",
    ),
    lower=("n_without_region", "n_unparsed", "n_declined", "n_tied"),
)  # fmt: skip

instruments_metrics, triplets_metrics, occlusion_metrics = (of.metric_list for of in (INSTRUMENTS, TRIPLETS, OCCLUSION))
