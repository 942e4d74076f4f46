"""Between lm-eval and That's the Wrong Lung!: the attention of each answer is scored once, aggregations take all rows.

What an aggregation needs of a row travels under the name of each metric. The first name keeps it for the sample log,
from which `medfaith report` makes its tables; under the others it is the same, and not logged again.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from medfaith.evaluate_metrics.localization.score import score_row
from medfaith.tasks.surgx.adapter import under_each

COUNTS = ("n_rows_skipped", "n_rows_left_out")  # of the task; every row repeats them
ATTENTION = "attention"  # name of the one map of a row in the heatmap store
ENDS = ("", "_ci_low", "_ci_high")
OF = ("", "_abnormal", "_one_lung", "_mdrb")  # all rows, and the subsets
RANKED = ("auroc", "average_precision")
TOPS = ("iou_5", "iou_10", "iou_30", "precision_5", "precision_10", "precision_30")
STATES = ("n_scored", "n_without_map", "n_degenerate")
GOLD = (*(f"{name}{of}{end}" for name in RANKED for of in OF for end in ENDS), *TOPS, "entropy", "no_attn", *STATES)
PERTURBED = (
    *(f"delta_{name}{of}{end}" for name in RANKED for of in OF for end in ENDS),
    *RANKED, "n_pairs", "n_undefined", *STATES,
)  # fmt: skip
SIMILAR = ("local_accuracy", "global_accuracy", "kl")
RANDOM_SENTENCES = (*PERTURBED, *(f"{name}{of}{end}" for name in SIMILAR for of in OF for end in ENDS))


class Reply(NamedTuple):
    """heatmaps: where the model keeps its attention; local, overall: how similar it finds image and sentence."""

    heatmaps: str | None = None
    local: float | None = None
    overall: float | None = None


def read_reply(text: str) -> Reply:
    """The JSON object of a model that aligns; an answer in words has neither attention nor similarity.

    >>> read_reply('{"heatmaps": "a/b", "local": 0.5, "global": null}')
    Reply(heatmaps='a/b', local=0.5, overall=None)
    >>> read_reply("Yes")
    Reply(heatmaps=None, local=None, overall=None)
    """
    try:
        given = json.loads(text)
    except ValueError:
        return Reply()
    if not isinstance(given, dict):
        return Reply()
    heatmaps = given.get("heatmaps")
    return Reply(heatmaps if isinstance(heatmaps, str) else None, _number(given, "local"), _number(given, "global"))


def _number(given: Mapping[str, Any], name: str) -> float | None:
    value = given.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def gold_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Per-row values of a sentence."""
    return under_each(GOLD, _row(doc, results)) | _counts(doc)


def perturbed_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Per-row values of an original or of its perturbed partner."""
    return under_each(PERTURBED, _row(doc, results)) | _counts(doc)


def random_sentences_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """As `perturbed_results`, with the attention itself, two of which the divergence compares."""
    row = _row(doc, results, keep=True)
    return under_each(RANDOM_SENTENCES, row) | _counts(doc)


def _counts(doc: Mapping[str, Any]) -> dict[str, int]:
    return {name: doc[name] for name in COUNTS}


def _row(doc: Mapping[str, Any], results: Sequence[str], *, keep: bool = False) -> dict[str, Any]:
    reply = read_reply(results[0])
    size = (doc["height"], doc["width"])
    grid, window = None, None
    if reply.heatmaps is not None:
        entry = doc["heatmaps"].entry(reply.heatmaps, doc["id"], size)
        grid, window = entry.maps.get(ATTENTION), entry.geometry.window
    boxes = [box["xywh"] for box in doc["boxes"]]
    scored = score_row(grid, window, size, boxes, upsampling=doc["upsampling"], name=doc["id"])
    row = {
        "id": doc["id"],
        "original_id": doc["original_id"],
        "perturbation": doc["perturbation"],
        "cluster": doc["patient_id"],
        "subsets": {name: bool(value) for name, value in doc["subsets"].items()},
        "state": scored.pop("state"),
        "values": scored | {"local": reply.local, "global": reply.overall},
    }
    if keep:
        row[ATTENTION] = packed(grid) if grid is not None else None
    return row


def packed(grid: np.ndarray) -> dict[str, Any]:
    """A grid (h, w) in a form for JSON: its shape, and its float32 numbers compressed, in base64."""
    numbers = np.ascontiguousarray(grid, dtype="<f4")
    return {"shape": list(numbers.shape), "float32": base64.b64encode(zlib.compress(numbers.tobytes())).decode()}


def unpacked(kept: Mapping[str, Any]) -> np.ndarray:
    """The grid of `packed`, float32."""
    numbers = zlib.decompress(base64.b64decode(kept["float32"]))
    return np.frombuffer(numbers, dtype="<f4").reshape(kept["shape"])
