"""Between lm-eval and That's the Wrong Lung!: the attention of each answer is scored once, then all rows together.

The record of an answer, logged under the first metric of its task, is what `medfaith report` makes its tables from.
"""

from __future__ import annotations

import base64
import json
import math
import sys
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from medfaith.evaluate_metrics.localization.input_view import UPSAMPLINGS
from medfaith.evaluate_metrics.localization.pairs import candidate_accuracy, deltas, pairs, summarise
from medfaith.evaluate_metrics.localization.ranking import TIES
from medfaith.evaluate_metrics.localization.score import compute_symmetric_kl, score_row
from medfaith.loaders import limits
from medfaith.tasks.scoring import SKIPPED, Scorer

Records = Sequence[Mapping[str, Any]]

SCORING = {"upsampling": UPSAMPLINGS, "precision_ties": TIES}  # what a run may choose; by default the first
COUNTS = (SKIPPED, "n_rows_left_out")  # of the task; every row repeats them
ATTENTION = "attention"  # name of the one map of a row in the heatmap store
ENDS = ("", "_ci_low", "_ci_high")
SUBSETS = {"": "all", "_abnormal": "abnormal", "_one_lung": "one_lung", "_mdrb": "mdrb"}  # ending of a metric -> rows
RANKED = ("auroc", "average_precision")
OTHERS = ("iou_5", "iou_10", "iou_30", "precision_5", "precision_10", "precision_30", "entropy", "no_attn")
STATES = ("n_scored", "n_without_map", "n_degenerate")


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
    except (ValueError, RecursionError):
        return Reply()
    if not isinstance(given, dict):
        return Reply()
    heatmaps = given.get("heatmaps")
    return Reply(heatmaps if isinstance(heatmaps, str) else None, _number(given, "local"), _number(given, "global"))


def _number(given: Mapping[str, Any], name: str) -> float | None:
    value = given.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
        return None
    return float(value)


def gold_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Per-row values of a sentence."""
    return GOLD.values(doc, _row(doc, results))


def perturbed_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Per-row values of an original or of its perturbed partner."""
    return PERTURBED.values(doc, _row(doc, results))


def random_sentences_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """As `perturbed_results`, with the attention itself, two of which the divergence compares."""
    return RANDOM_SENTENCES.values(doc, _row(doc, results, keep=True))


def _row(doc: Mapping[str, Any], results: Sequence[str], *, keep: bool = False) -> dict[str, Any]:
    reply = read_reply(results[0])
    size = (doc["height"], doc["width"])
    grid, window = None, None
    if reply.heatmaps is not None:
        entry = doc["heatmaps"].entry(reply.heatmaps, doc["id"], size)
        grid, window = entry.maps.get(ATTENTION), entry.geometry.window
    boxes = [box["xywh"] for box in doc["boxes"]]
    how = {name: doc[name] for name in SCORING}
    scored = score_row(grid, window, size, boxes, **how, name=doc["id"])
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
    """The grid of `packed`, float32. Raises ValueError for more numbers than `limits.MASK_PIXELS` or another shape."""
    n = math.prod(kept["shape"])
    if n > limits.MASK_PIXELS:
        raise ValueError(f"a grid of {n:,} numbers")
    numbers = zlib.decompressobj().decompress(base64.b64decode(kept["float32"]), 4 * n + 1)  # more are not of it
    return np.frombuffer(numbers, dtype="<f4").reshape(kept["shape"])


def with_divergence(rows: Records) -> list[dict[str, Any]]:
    """The rows without their attention; those of a pair that both have it with its divergence, `kl` (B.6)."""
    of_pair = {
        row["id"]: compute_symmetric_kl(unpacked(original[ATTENTION]), unpacked(row[ATTENTION]))
        for row, original in pairs(rows)
        if original is not None and row.get(ATTENTION) and original.get(ATTENTION)
    }
    return [
        {key: value for key, value in row.items() if key != ATTENTION}
        | {"values": row["values"] | {"kl": of_pair.get(row["id"])}}
        for row in rows
    ]


def _gold_figures(rows: Records) -> dict[str, float]:
    return _by_subset(RANKED, lambda subset: summarise(_only(rows, RANKED), subset)) | summarise(
        _only(rows, (*RANKED, *OTHERS))
    )


def _perturbed_figures(rows: Records) -> dict[str, float]:
    changed = summarise(_only([row for row in rows if row["perturbation"] is not None], RANKED))
    known = [(row, original) for row, original in pairs(rows) if original is not None]
    undefined = [pair for pair in known if any(one["values"]["auroc"] is None for one in pair)]
    return {
        **_of_pairs(rows, RANKED, [f"delta_{name}" for name in RANKED]),
        **{name: changed[name] for name in RANKED},
        **{name: count for name, count in summarise(_only(rows, ())).items() if name in STATES},
        "n_pairs": len(known),
        "n_undefined": len(undefined),
    }


def _random_sentences_figures(rows: Records) -> dict[str, float]:
    right = candidate_accuracy(rows)
    return {
        **_perturbed_figures(rows),
        **_by_subset(ACCURACIES, right.__getitem__),
        **_of_pairs(with_divergence(rows), ("kl",), ("kl",)),
    }


def _of_pairs(rows: Records, values: Collection[str], names: Sequence[str]) -> dict[str, float]:
    """Figures of `deltas` over the one perturbation of a task; NaN where a limit cuts off the first pair."""
    found = next(iter(deltas(_only(rows, values)).values()), {})
    undefined = {f"{name}{end}": float("nan") for name in names for end in ENDS}
    return _by_subset(names, lambda subset: undefined | found.get(subset, {}))


def _by_subset(names: Sequence[str], score: Callable[[str], Mapping[str, float]]) -> dict[str, float]:
    """The named figures of all rows and of each subset, with both ends of their intervals."""
    found = {ending: score(subset) for ending, subset in SUBSETS.items()}
    return {f"{name}{of}{end}": found[of][f"{name}{end}"] for name in names for of in SUBSETS for end in ENDS}


def _only(rows: Records, names: Collection[str]) -> list[dict[str, Any]]:
    """The rows with these values alone: intervals of the others would take time."""
    return [{**row, "values": {name: row["values"].get(name) for name in names}} for row in rows]


def _names(metrics: Sequence[str]) -> list[str]:
    return [f"{name}{of}{end}" for name in metrics for of in SUBSETS for end in ENDS]


ACCURACIES = ("local_accuracy", "global_accuracy")
_DELTAS = _names([f"delta_{name}" for name in RANKED])
_PAIRED = (*_DELTAS, *RANKED, "n_pairs", "n_undefined", *STATES)
_LOST = ("n_without_map", "n_degenerate")

GOLD = Scorer(
    _gold_figures,
    (*_names(RANKED), *OTHERS, *STATES),
    lower=("entropy", "no_attn", *_LOST),
    counts=COUNTS,
)
PERTURBED = Scorer(_perturbed_figures, _PAIRED, lower=(*_DELTAS, "n_undefined", *_LOST), counts=COUNTS)
RANDOM_SENTENCES = Scorer(
    _random_sentences_figures,
    (*_PAIRED, *_names((*ACCURACIES, "kl"))),
    lower=PERTURBED.lower,
    counts=COUNTS,
)

gold_metrics, perturbed_metrics, random_sentences_metrics = (
    of.metric_list for of in (GOLD, PERTURBED, RANDOM_SENTENCES)
)
