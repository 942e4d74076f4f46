"""Scores of the attention of n sentences; perturbed sentences are paired with their originals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..arguments.arrays import read_size
from ..arguments.kinds import COUNT, FLAG, FLOAT, GRID, LABEL, LEVEL, SEED, SIZE, TEXT, WINDOW, XYWH, optional, rows_of
from ..arguments.schema import check_arguments
from .input_view import UPSAMPLING, UPSAMPLINGS
from .pairs import RANDOM_SENTENCES, SUBSET_FLAGS, SUBSETS, candidate_accuracy, deltas, pairs, summarise
from .ranking import PRECISION_TIES, TIES
from .score import compute_symmetric_kl, score_row

ORIGINAL, PER_SAMPLE = "original", "per_sample"

_SIMILARITY = optional(FLOAT)
_PREDICTIONS = rows_of(
    {"attention": optional(GRID), "window": optional(WINDOW), "local": _SIMILARITY, "global": _SIMILARITY}
)
_REFERENCES = rows_of(
    {
        "id": LABEL,
        "original_id": optional(LABEL),
        "perturbation": optional(TEXT),
        "cluster": LABEL,
        "size": SIZE,
        "boxes": rows_of({"xywh": XYWH}, is_column=False, word="box"),
        **SUBSET_FLAGS,
    }
)


@check_arguments(
    like="references",
    predictions=_PREDICTIONS,
    references=_REFERENCES,
    upsampling=UPSAMPLING,
    precision_ties=PRECISION_TIES,
    kl_no_attn=FLAG,
    n_resamples=COUNT,
    seed=SEED,
    confidence_level=LEVEL,
    per_sample=FLAG,
)
def score_predictions(  # noqa: PLR0913 (options of the metric)
    predictions: Sequence[Mapping[str, Any]],
    references: Sequence[Mapping[str, Any]],
    *,
    upsampling: str = UPSAMPLINGS[0],
    precision_ties: str = TIES[0],
    kl_no_attn: bool = False,
    n_resamples: int = 2000,
    seed: int = 42,
    confidence_level: float = 0.95,
    per_sample: bool = False,
) -> dict[str, Any]:
    """Score the location of the attention of sentences, and its change when the sentences are perturbed.

    Args:
        predictions: n dicts of attention ((h, w), at least 0, with the sum 1 - no_attn; None for no attention), window
            ([x, y, width, height] in the image's pixels, the part it covers; None for the full image), local and global
            (similarity of image and sentence; None where unknown).
        references: n dicts of id, original_id and perturbation (None for an original), cluster (the patient), size
            ([height, width] of the image), boxes ([{"label", "xywh"}], pixels), abnormal, one_lung and mdrb (bool).
        upsampling: See `score.score_row`.
        precision_ties: See `score.score_row`.
        kl_no_attn: See `score.compute_symmetric_kl`.
        n_resamples: Number of bootstrap resamples; they draw whole clusters.
        seed: Seed of the resampling.
        confidence_level: Level of the intervals, between 0 and 1.
        per_sample: Whether to return the rows as well.

    Returns:
        "original" and each perturbation -> subset ("all", "abnormal", "one_lung", "mdrb") -> the dict of
        `pairs.summarise`; for a perturbation also the dict of `pairs.deltas` and, for random sentences, the dict of
        `pairs.candidate_accuracy`. On request "per_sample": n rows of `pairs`, with their state. The values of a
        perturbed row include kl if both rows of the pair have attention of the same shape.

    Raises:
        ValueError: Different lengths, an id that occurs twice, a row with only one of original_id and perturbation, or
            see `score.score_row`. The message names the row.
    """
    row_options = {"upsampling": upsampling, "precision_ties": precision_ties}
    rows = [_score_pair(*pair, row_options) for pair in zip(predictions, references, strict=True)]
    attention = {row["id"]: prediction["attention"] for row, prediction in zip(rows, predictions, strict=True)}
    for row, original in pairs(rows):
        attention_pair = attention[row["id"]], None if original is None else attention[original["id"]]
        row["values"]["kl"] = _compute_kl(*attention_pair, kl_no_attn=kl_no_attn)
    options = {"n_resamples": n_resamples, "seed": seed, "confidence_level": confidence_level}
    deltas_by_perturbation, candidates = deltas(rows, **options), candidate_accuracy(rows, **options)
    result: dict[str, Any] = {}
    for config in dict.fromkeys((ORIGINAL, *deltas_by_perturbation)):
        config_rows = [row for row in rows if (row["perturbation"] or ORIGINAL) == config]
        result[config] = {subset: summarise(config_rows, subset, **options) for subset in SUBSETS}
        for subset in SUBSETS:
            result[config][subset] |= deltas_by_perturbation[config][subset] if config in deltas_by_perturbation else {}
            result[config][subset] |= candidates[subset] if config == RANDOM_SENTENCES else {}
    if per_sample:
        result[PER_SAMPLE] = rows
    return result


def _score_pair(
    prediction: Mapping[str, Any], reference: Mapping[str, Any], row_options: Mapping[str, str]
) -> dict[str, Any]:
    name = str(reference["id"])
    original_id, perturbation = reference["original_id"], reference["perturbation"]
    if (original_id is None) != (perturbation is None) or perturbation in {ORIGINAL, PER_SAMPLE}:
        raise ValueError(
            f"{name}: original_id {original_id!r} and perturbation {perturbation!r}; expected both, or neither for an "
            f"original, and no perturbation named {ORIGINAL} or {PER_SAMPLE}"
        )
    size = read_size(reference["size"], f"{name}: ")
    window = (0, 0, *reversed(size)) if prediction["window"] is None else prediction["window"]
    boxes = [box["xywh"] for box in reference["boxes"]]
    values = score_row(prediction["attention"], window, size, boxes, **row_options, name=name)
    return {
        "id": reference["id"],
        "original_id": original_id,
        "perturbation": perturbation,
        "cluster": reference["cluster"],
        "subsets": {subset: bool(reference[subset]) for subset in SUBSETS[1:]},
        "state": values.pop("state"),
        "values": values | {name: prediction[name] for name in ("local", "global")},
    }


def _compute_kl(attention: Any, other_attention: Any, *, kl_no_attn: bool) -> float | None:
    if attention is None or other_attention is None or np.shape(attention) != np.shape(other_attention):
        return None
    return compute_symmetric_kl(attention, other_attention, kl_no_attn=kl_no_attn)
