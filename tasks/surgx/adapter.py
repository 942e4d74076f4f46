"""Between lm-eval and SurgXBench: each answer is read once, its heatmaps are measured, aggregations take all rows.

What an aggregation needs of a row travels under the name of each metric. The first name keeps it for the sample log,
from which `medfaith report` makes its tables; under the others it is the same, and not logged again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from medfaith.evaluate_metrics.attention_alignment.score import score_frame
from medfaith.evaluate_metrics.ras.score import score_frame as ras_of_frame
from medfaith.evaluate_metrics.reading.surgery import Reply, read_instruments, read_reply, read_triplets
from medfaith.loaders import rle
from medfaith.tasks.explain.geometry import visible_share

ENDS = ("", "_ci_low", "_ci_high")
LOOKS = ("tp_aa", "tp_ac", "fp_ac")
INSTRUMENTS = (
    *(f"f1{end}" for end in ENDS), "precision", "recall", "n_unparsed",
    *(f"{name}{end}" for name in LOOKS for end in ENDS), "n_tp", "n_fp", "n_degenerate", "n_without_map",
    "visible_share",
)  # fmt: skip
PARTS = ("ivt", "iv", "it", "i", "v", "t")
LEVELS = ("ivt", "iv", "it", "i", "missed")
RAS = ("ras_local_ivt", "ras_local_iv", "ras_local_it", "ras_local_i", "ras_global_missed")
TRIPLETS = (
    *(f"coverage{end}" for end in ENDS), "n_unparsed", *(f"ap_{part}" for part in PARTS),
    *(f"share_{level}{end}" for level in LEVELS for end in ENDS), *(f"{name}{end}" for name in RAS for end in ENDS),
    "n_gold", "n_without_motion", "n_without_prediction", "n_without_map", "n_degenerate", "visible_share",
)  # fmt: skip
OCCLUSION = (
    *(f"lost{end}" for end in ENDS), "n_covered", "n_lost", "n_without_region",
    *(f"similarity_drop{end}" for end in ENDS), "n_unparsed",
)  # fmt: skip
SKIPPED = "n_rows_skipped"


class Unlogged:
    """A row's values that the sample log has under another metric's name."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.row = row

    def __str__(self) -> str:
        return ""


def instruments_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Per-row values of a frame's instruments: what was predicted, and AA and AC of each prediction's heatmap."""
    reply = read_reply(results[0])
    predicted, outcome = _instruments(reply)
    maps, visible = heatmaps(doc, reply)
    looks = score_frame(
        [maps.get(name) for name in predicted], predicted, doc["boxes"], video=str(doc["video"]), name=doc["id"]
    )
    row = {
        "video": doc["video"],
        "gold": doc["gold"],
        "predicted": None if outcome == "unparsed" else predicted,
        "outcome": outcome,
        "looks": looks,
        "visible": visible,
    }
    return under_each(INSTRUMENTS, row) | {SKIPPED: doc[SKIPPED]}


def triplets_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Per-row values of a frame's triplets: those predicted, best first, and how each true one is matched."""
    reply = read_reply(results[0])
    predicted, outcome = _triplets(reply)
    maps, visible = heatmaps(doc, reply)
    scored = reply.predicted is not None
    seen = ras_of_frame(
        [maps.get(name) for name in predicted],
        predicted,
        doc["gold"],
        doc["boxes"],
        rle.decode(doc["motion"]) if doc["motion"] is not None else None,
        video=str(doc["video"]),
        top_k=doc["top_k"] if scored else None,  # a model that writes its triplets has given all that it means
        name=doc["id"],
    )
    row = {
        "video": doc["video"],
        "gold": doc["gold"],
        "predicted": None if outcome == "unparsed" else predicted,
        "outcome": outcome,
        "scores": _all_scores(reply, len(doc["classes"])),
        "occluded": reply.occluded,
        "seen": seen,
        "visible": visible,
    }
    return under_each(TRIPLETS, row) | {SKIPPED: doc[SKIPPED]}


def occlusion_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Per-row values of a frame's triplets before and after what the model looked at is painted black."""
    reply = read_reply(results[0])
    predicted, outcome = _triplets(reply)
    row = {
        "video": doc["video"],
        "gold": doc["gold"],
        "predicted": None if outcome == "unparsed" else predicted,
        "outcome": outcome,
        "occluded": reply.occluded,
    }
    return under_each(OCCLUSION, row) | {SKIPPED: doc[SKIPPED]}


def _triplets(reply: Reply) -> tuple[list[str], str]:
    if reply.predicted is not None:
        return list(dict.fromkeys(reply.predicted)), "given"
    if reply.unparsed:
        return [], "unparsed"
    reading = read_triplets(reply.text)
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


def under_each(names: Sequence[str], row: dict[str, Any]) -> dict[str, Any]:
    """The row under each name, logged under the first."""
    return {name: Unlogged(row) if number else row for number, name in enumerate(names)}


def _instruments(reply: Reply) -> tuple[list[str], str]:
    if reply.predicted is not None:
        return list(dict.fromkeys(reply.predicted)), "given"
    if reply.unparsed:
        return [], "unparsed"
    reading = read_instruments(reply.text)
    return list(dict.fromkeys(reading.names)), reading.outcome
