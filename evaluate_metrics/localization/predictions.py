"""Attention of n sentences at once: each scored, perturbed ones paired with their originals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .input_view import UPSAMPLINGS
from .pairs import RANDOM_SENTENCES, SUBSETS, candidate_accuracy, deltas, pairs, summarise
from .ranking import TIES
from .score import score_row, symmetric_kl

ORIGINAL, PER_SAMPLE = "original", "per_sample"


def score_predictions(
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
    """Where the attention of sentences lies, and what perturbing them changes.

    Args:
        predictions: n dicts of attention ((h, w), at least 0, sum 1 - no_attn; None where there is none), window ([x,
            y, width, height] in the image's pixels, what it covers; None for the whole image), local and global
            (similarity of image and sentence; None where unknown).
        references: n dicts of id, original_id and perturbation (None of an original), cluster (the patient), size
            ([height, width] of the image), boxes ([{"label", "xywh"}], pixels), abnormal, one_lung and mdrb (bool).
        upsampling, precision_ties: as of `score.score_row`.
        kl_no_attn: as of `score.symmetric_kl`.
        n_resamples, seed, confidence_level: of the bootstrap intervals, which draw whole clusters.
        per_sample: whether to return the rows as well.

    Returns:
        "original" and each perturbation -> subset ("all", "abnormal", "one_lung", "mdrb") -> the dict of
        `pairs.summarise`; of a perturbation also those of `pairs.deltas` and, of random sentences, of
        `pairs.candidate_accuracy`. On request "per_sample": n rows of `pairs`, with state, and among the values of a
        perturbed row kl, where both of the pair have attention of one shape.

    Raises:
        ValueError: lengths differ, an id that occurs twice, a row with only one of original_id and perturbation, or as
            `score.score_row`; it names the row.
    """
    if len(predictions) != len(references):
        raise ValueError(f"{len(predictions)} predictions for {len(references)} references: give one for each")
    how = {"upsampling": upsampling, "precision_ties": precision_ties}
    rows = [_row(*pair, how) for pair in zip(predictions, references, strict=True)]
    attention = {row["id"]: prediction["attention"] for row, prediction in zip(rows, predictions, strict=True)}
    for row, original in pairs(rows):
        both = attention[row["id"]], None if original is None else attention[original["id"]]
        row["values"]["kl"] = _kl(*both, kl_no_attn=kl_no_attn)
    options = {"n_resamples": n_resamples, "seed": seed, "confidence_level": confidence_level}
    changed, candidates = deltas(rows, **options), candidate_accuracy(rows, **options)
    result: dict[str, Any] = {}
    for config in dict.fromkeys((ORIGINAL, *changed)):
        of_it = [row for row in rows if (row["perturbation"] or ORIGINAL) == config]
        result[config] = {subset: summarise(of_it, subset, **options) for subset in SUBSETS}
        for subset in SUBSETS:
            result[config][subset] |= changed[config][subset] if config in changed else {}
            result[config][subset] |= candidates[subset] if config == RANDOM_SENTENCES else {}
    if per_sample:
        result[PER_SAMPLE] = rows
    return result


def _row(prediction: Mapping[str, Any], reference: Mapping[str, Any], how: Mapping[str, str]) -> dict[str, Any]:
    name = str(reference["id"])
    original_id, perturbation = reference["original_id"], reference["perturbation"]
    if (original_id is None) != (perturbation is None) or perturbation in {ORIGINAL, PER_SAMPLE}:
        raise ValueError(
            f"{name}: original_id {original_id!r} and perturbation {perturbation!r}; expected both, or neither of an "
            f"original, and no perturbation named {ORIGINAL} or {PER_SAMPLE}"
        )
    size = tuple(reference["size"])
    window = (0, 0, *reversed(size)) if prediction["window"] is None else prediction["window"]
    boxes = [box["xywh"] for box in reference["boxes"]]
    scored = score_row(prediction["attention"], window, size, boxes, **how, name=name)
    return {
        "id": reference["id"],
        "original_id": original_id,
        "perturbation": perturbation,
        "cluster": reference["cluster"],
        "subsets": {subset: bool(reference[subset]) for subset in SUBSETS[1:]},
        "state": scored.pop("state"),
        "values": scored | {name: prediction[name] for name in ("local", "global")},
    }


def _kl(first: Any, second: Any, *, kl_no_attn: bool) -> float | None:
    if first is None or second is None or np.shape(first) != np.shape(second):
        return None
    return symmetric_kl(first, second, kl_no_attn=kl_no_attn)
