"""lm-eval's metrics for That's the Wrong Lung! The attention of each answer is scored once, then all rows together.

The record of an answer, logged under the first metric of its task, is the input of `medfaith report`.
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
from medfaith.evaluate_metrics.localization.score import compute_symmetric_kl, entropy, score_row
from medfaith.loaders import limits
from medfaith.tasks.explain.store import REGIONS
from medfaith.tasks.scoring import SKIPPED, Scorer

Records = Sequence[Mapping[str, Any]]

SCORING = {"upsampling": UPSAMPLINGS, "precision_ties": TIES}  # options of a run; the first value is the default
COUNTS = (SKIPPED, "n_rows_left_out")  # counts of the task, which every row repeats
ATTENTION = "attention"  # name of a row's only map in the heatmap store
TAKES_BOXES = "takes_boxes"  # true in a record if the model's input has the reference boxes (section 2.2)
ENDS = ("", "_ci_low", "_ci_high")
SUBSETS = {"": "all", "_abnormal": "abnormal", "_one_lung": "one_lung", "_mdrb": "mdrb"}  # ending of a metric -> rows
RANKED = ("auroc", "average_precision")
OTHERS = ("iou_5", "iou_10", "iou_30", "precision_5", "precision_10", "precision_30", "entropy", "no_attn")
STATES = ("n_scored", "n_without_map", "n_degenerate")


class Reply(NamedTuple):
    """The parts of an aligning model's reply.

    Attributes:
        heatmaps: The reference of the stored attention.
        local: The local similarity of image and sentence.
        overall: The global similarity of image and sentence.
        relevancy: The relevancy of image tokens and text tokens (explain.token_relevancy), unchecked.
    """

    heatmaps: str | None = None
    local: float | None = None
    overall: float | None = None
    relevancy: Any = None


def read_reply(text: str) -> Reply:
    """Read the JSON object of a model that aligns. An answer in words has neither attention nor similarity.

    Args:
        text: The reply.

    Returns:
        The reference to the attention, both similarities and the relevancy; None if the reply does not have them.

    >>> read_reply('{"heatmaps": "a/b", "local": 0.5, "global": null}')
    Reply(heatmaps='a/b', local=0.5, overall=None, relevancy=None)
    >>> read_reply("Yes")
    Reply(heatmaps=None, local=None, overall=None, relevancy=None)
    """
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return Reply()
    if not isinstance(fields, dict):
        return Reply()
    heatmaps = fields.get("heatmaps")
    return Reply(
        heatmaps if isinstance(heatmaps, str) else None,
        _read_number(fields, "local"),
        _read_number(fields, "global"),
        fields.get("relevancy"),
    )


def _read_number(fields: Mapping[str, Any], name: str) -> float | None:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
        return None
    return float(value)


def gold_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Compute the metric values of the attention to a sentence.

    Args:
        doc: The document.
        results: The reply.

    Returns:
        Metric -> value of the row.
    """
    return GOLD.values(doc, _build_record(doc, results))


def perturbed_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Compute the metric values of the attention to an original sentence or to its perturbed partner.

    Args:
        doc: The document.
        results: The reply.

    Returns:
        Metric -> value of the row.
    """
    return PERTURBED.values(doc, _build_record(doc, results))


def random_sentences_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Compute the metric values of `perturbed_results`, and keep the attention itself, which the divergence compares.

    Args:
        doc: The document.
        results: The reply.

    Returns:
        Metric -> value of the row.
    """
    return RANDOM_SENTENCES.values(doc, _build_record(doc, results, keep_attention=True))


def _build_record(doc: Mapping[str, Any], results: Sequence[str], *, keep_attention: bool = False) -> dict[str, Any]:
    reply = read_reply(results[0])
    size = (doc["height"], doc["width"])
    grid, window, regions = None, None, None
    if reply.heatmaps is not None:
        entry = doc["heatmaps"].entry(reply.heatmaps, doc["id"], size)
        grid, window = entry.maps.get(ATTENTION), entry.geometry.window
        if REGIONS in entry.extra:
            regions = np.array([entry.extra[REGIONS]], dtype=np.float32)
    boxes = [box["xywh"] for box in doc["boxes"]]
    options = {name: doc[name] for name in SCORING}
    scored = score_row(grid, window, size, boxes, **options, name=doc["id"])
    if regions is not None:
        scored["entropy"] = entropy(regions)
    row = {
        "id": doc["id"],
        "original_id": doc["original_id"],
        "perturbation": doc["perturbation"],
        "cluster": doc["patient_id"],
        "subsets": {name: bool(value) for name, value in doc["subsets"].items()},
        "state": scored.pop("state"),
        "values": scored | {"local": reply.local, "global": reply.overall},
    }
    if regions is not None:
        row[TAKES_BOXES] = True
        grid = regions  # the divergence compares regions
    if keep_attention:
        row[ATTENTION] = packed(grid) if grid is not None else None
    return row


def packed(grid: np.ndarray) -> dict[str, Any]:
    """Encode a grid for JSON: its shape, and its compressed float32 numbers in base64.

    Args:
        grid: An array (h, w).

    Returns:
        {"shape": [h, w], "float32": text}.
    """
    numbers = np.ascontiguousarray(grid, dtype="<f4")
    return {"shape": list(numbers.shape), "float32": base64.b64encode(zlib.compress(numbers.tobytes())).decode()}


def unpacked(encoded: Mapping[str, Any]) -> np.ndarray:
    """Decode the grid of `packed`.

    Args:
        encoded: The result of `packed`.

    Returns:
        A float32 array (h, w).

    Raises:
        ValueError: The grid has more numbers than `limits.MASK_PIXELS`, or another shape.
    """
    n = math.prod(encoded["shape"])
    if n > limits.MASK_PIXELS:
        raise ValueError(f"a grid of {n:,} numbers")
    numbers = zlib.decompressobj().decompress(
        base64.b64decode(encoded["float32"]), 4 * n + 1
    )  # further bytes are not decoded
    return np.frombuffer(numbers, dtype="<f4").reshape(encoded["shape"])


def add_divergence(rows: Records) -> list[dict[str, Any]]:
    """Replace the attention of the rows by the divergence `kl` of each pair (B.6), None if one has no attention.

    Args:
        rows: The records of originals and partners.

    Returns:
        The records without attention, in their order, with `kl` among their values.
    """
    divergences = {
        row["id"]: compute_symmetric_kl(unpacked(original[ATTENTION]), unpacked(row[ATTENTION]))
        for row, original in pairs(rows)
        if original is not None and row.get(ATTENTION) and original.get(ATTENTION)
    }
    return [
        {key: value for key, value in row.items() if key != ATTENTION}
        | {"values": row["values"] | {"kl": divergences.get(row["id"])}}
        for row in rows
    ]


def _compute_gold_figures(rows: Records) -> dict[str, float]:
    return _compute_by_subset(RANKED, lambda subset: summarise(_select_values(rows, RANKED), subset)) | summarise(
        _select_values(rows, (*RANKED, *OTHERS))
    )


def _compute_perturbed_figures(rows: Records) -> dict[str, float]:
    changed = summarise(_select_values([row for row in rows if row["perturbation"] is not None], RANKED))
    complete = [(row, original) for row, original in pairs(rows) if original is not None]
    undefined = [pair for pair in complete if any(record["values"]["auroc"] is None for record in pair)]
    return {
        **_compute_pair_figures(rows, RANKED, [f"delta_{name}" for name in RANKED]),
        **{name: changed[name] for name in RANKED},
        **{name: count for name, count in summarise(_select_values(rows, ())).items() if name in STATES},
        "n_pairs": len(complete),
        "n_undefined": len(undefined),
    }


def _compute_random_sentences_figures(rows: Records) -> dict[str, float]:
    right = candidate_accuracy(rows)
    return {
        **_compute_perturbed_figures(rows),
        **_compute_by_subset(ACCURACIES, right.__getitem__),
        **_compute_pair_figures(add_divergence(rows), ("kl",), ("kl",)),
    }


def _compute_pair_figures(rows: Records, values: Collection[str], names: Sequence[str]) -> dict[str, float]:
    """Compute figures of `deltas` over the only perturbation of a task; NaN if a limit cuts off the first pair."""
    figures = next(iter(deltas(_select_values(rows, values)).values()), {})
    undefined = {f"{name}{end}": float("nan") for name in names for end in ENDS}
    return _compute_by_subset(names, lambda subset: undefined | figures.get(subset, {}))


def _compute_by_subset(names: Sequence[str], score: Callable[[str], Mapping[str, float]]) -> dict[str, float]:
    """Compute the named figures of all rows and of each subset, with both ends of their intervals."""
    figures = {ending: score(subset) for ending, subset in SUBSETS.items()}
    return {
        f"{name}{suffix}{end}": figures[suffix][f"{name}{end}"] for name in names for suffix in SUBSETS for end in ENDS
    }


def _select_values(rows: Records, names: Collection[str]) -> list[dict[str, Any]]:
    """Keep only the named values of the rows: intervals of other values would take time."""
    return [{**row, "values": {name: row["values"].get(name) for name in names}} for row in rows]


def _list_names(metrics: Sequence[str]) -> list[str]:
    return [f"{name}{ending}{end}" for name in metrics for ending in SUBSETS for end in ENDS]


ACCURACIES = ("local_accuracy", "global_accuracy")
_DELTAS = _list_names([f"delta_{name}" for name in RANKED])
_PAIRED = (*_DELTAS, *RANKED, "n_pairs", "n_undefined", *STATES)
_LOST = ("n_without_map", "n_degenerate")

GOLD = Scorer(
    _compute_gold_figures,
    (*_list_names(RANKED), *OTHERS, *STATES),
    lower=("entropy", "no_attn", *_LOST),
    counts=COUNTS,
)
PERTURBED = Scorer(_compute_perturbed_figures, _PAIRED, lower=(*_DELTAS, "n_undefined", *_LOST), counts=COUNTS)
RANDOM_SENTENCES = Scorer(
    _compute_random_sentences_figures,
    (*_PAIRED, *_list_names((*ACCURACIES, "kl"))),
    lower=PERTURBED.lower,
    counts=COUNTS,
)

gold_metrics, perturbed_metrics, random_sentences_metrics = (
    scorer.metric_list for scorer in (GOLD, PERTURBED, RANDOM_SENTENCES)
)
