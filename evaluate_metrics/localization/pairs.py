"""The reaction of attention to the text: perturbed rows and their originals (That's the Wrong Lung!, 3.1 to 4.2).

A row is a dict of id, original_id and perturbation (None for an original), cluster (the patient: intervals draw whole
patients), subsets ({"abnormal", "one_lung", "mdrb"}: bool), state and values (name -> float, None where undefined), as
`score.score_row` computes them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..arguments.kinds import (
    COUNT,
    FLAG,
    FLOAT,
    LABEL,
    LEVEL,
    SEED,
    TEXT,
    TEXTS,
    columns,
    mapping,
    one_of,
    optional,
    rows_of,
)
from ..arguments.schema import check_arguments
from ..confidence.score import bootstrap_mean
from .score import METRICS, RANKED, STATES

SIMILARITIES = ("local", "global")
VALUES = (*METRICS, *SIMILARITIES)
SHARES = (*RANKED, "no_attn")  # values in [0, 1]
NOT_NEGATIVE = ("entropy", "kl")  # Student's interval of few patients may begin below 0
ALL = "all"
SUBSETS = (ALL, "abnormal", "one_lung", "mdrb")
RANDOM_SENTENCES = "random_sentences"

Row = Mapping[str, Any]
SUBSET_FLAGS = dict.fromkeys(SUBSETS[1:], FLAG)
_ROWS = rows_of(
    {
        "id": LABEL,
        "original_id": optional(LABEL),
        "perturbation": optional(TEXT),
        "cluster": LABEL,
        "subsets": columns(SUBSET_FLAGS),
        "state": one_of(STATES),
        "values": mapping(optional(FLOAT)),
    }
)
_BOOTSTRAP = {"n_resamples": COUNT, "seed": SEED, "confidence_level": LEVEL}


@check_arguments(rows=_ROWS, subset=one_of(SUBSETS), **_BOOTSTRAP)
def summarise(
    rows: Sequence[Row],
    subset: str = ALL,
    *,
    n_resamples: int = 2000,
    seed: int = 42,
    confidence_level: float = 0.95,
) -> dict[str, Any]:
    """Compute the mean of each value over the rows of a subset (Tables 1 to 3, 7 and 10 to 12).

    Args:
        rows: Originals, or the rows of one perturbation.
        subset: "all", "abnormal", "one_lung" or "mdrb".
        n_resamples: Number of bootstrap resamples; they draw whole clusters.
        seed: Seed of the resampling.
        confidence_level: Level of the intervals, between 0 and 1.

    Returns:
        For each of VALUES its name (mean, NaN without any), with _ci_low and _ci_high, and n_<name>, the number of rows
        with the value; n_rows, n_clusters and n_<state> for each of `score.STATES`.

    Raises:
        ValueError: Another subset, or a parameter outside its range.
    """
    options = {"n_resamples": n_resamples, "seed": seed, "confidence_level": confidence_level}
    selected = _select_subset(rows, subset)
    result: dict[str, Any] = {"n_rows": len(selected), "n_clusters": len({row["cluster"] for row in selected})}
    result |= {f"n_{state}": sum(row["state"] == state for row in selected) for state in STATES}
    for name in VALUES:
        value_options = options | {"bounds": (0, 1) if name in SHARES else None}
        result |= _compute_mean(name, [row["values"].get(name) for row in selected], selected, value_options)
    return result


@check_arguments(rows=_ROWS, **_BOOTSTRAP)
def deltas(
    rows: Sequence[Row], *, n_resamples: int = 2000, seed: int = 42, confidence_level: float = 0.95
) -> dict[str, dict[str, dict[str, Any]]]:
    """Compute the change under each perturbation: perturbed minus original (Figures 3, 5, 14 and 15; Table 8).

    Args:
        rows: Originals and perturbed rows, in any order. The partner of a perturbed row has the id original_id.
        n_resamples: Number of bootstrap resamples; they draw whole clusters.
        seed: Seed of the resampling.
        confidence_level: Level of the intervals, between 0 and 1.

    Returns:
        perturbation -> subset -> dict of n_pairs, n_unpaired (perturbed rows without their original), and for each of
        VALUES delta_<name> with _ci_low, _ci_high and n_delta_<name>, the pairs with both values. If perturbed rows
        have a value "kl" (`score.compute_symmetric_kl` of the two), also its mean in the same way.

    Raises:
        ValueError: An id that occurs twice, or a parameter outside its range.
    """
    options = {"n_resamples": n_resamples, "seed": seed, "confidence_level": confidence_level}
    all_pairs = pairs(rows)
    result: dict[str, dict[str, dict[str, Any]]] = {}
    for perturbation in dict.fromkeys(row["perturbation"] for row, _ in all_pairs):
        perturbation_pairs = [pair for pair in all_pairs if pair[0]["perturbation"] == perturbation]
        result[perturbation] = {subset: _compute_deltas(perturbation_pairs, subset, options) for subset in SUBSETS}
    return result


@check_arguments(rows=_ROWS, perturbation=TEXT, **_BOOTSTRAP)
def candidate_accuracy(
    rows: Sequence[Row],
    *,
    perturbation: str = RANDOM_SENTENCES,
    n_resamples: int = 2000,
    seed: int = 42,
    confidence_level: float = 0.95,
) -> dict[str, dict[str, Any]]:
    """Compute how often an image is more similar to its own sentence than to a random one (4.2.4; Tables 4, 9).

    Args:
        rows: See `deltas`; local and global are among their values.
        perturbation: The perturbation whose rows are the other candidates.
        n_resamples: Number of bootstrap resamples; they draw whole clusters.
        seed: Seed of the resampling.
        confidence_level: Level of the intervals, between 0 and 1.

    Returns:
        subset -> local_accuracy and global_accuracy with _ci_low, _ci_high and n_..., the number of pairs with both
        similarities. If both are equal, the sentence's own similarity does not count as greater.

    Raises:
        ValueError: See `deltas`.
    """
    options = {"n_resamples": n_resamples, "seed": seed, "confidence_level": confidence_level}
    candidate_pairs = [
        (row, original) for row, original in pairs(rows) if original and row["perturbation"] == perturbation
    ]
    result: dict[str, dict[str, Any]] = {}
    for subset in SUBSETS:
        subset_pairs = [pair for pair in candidate_pairs if _is_in(pair[0], subset)]
        result[subset] = {}
        for name in SIMILARITIES:
            gaps = [_compute_difference(row, original, name) for row, original in subset_pairs]
            is_right = [gap if math.isnan(gap) else float(gap < 0) for gap in gaps]
            perturbed_rows = [row for row, _ in subset_pairs]
            result[subset] |= _compute_mean(f"{name}_accuracy", is_right, perturbed_rows, options | {"bounds": (0, 1)})
    return result


@check_arguments(rows=_ROWS, names=TEXTS)
def correlations(rows: Sequence[Row], names: Sequence[str] = VALUES) -> dict[tuple[str, str], tuple[float, int]]:
    """Compute the Pearson correlation over rows of each two values (sections 4.2.5 and B.10).

    Args:
        rows: The rows.
        names: Names of the values.

    Returns:
        (a, b), a before b in `names`, -> r and the number of rows with both values; r is NaN with fewer than two rows,
        or if one of the values is constant.
    """
    table = np.array([[_convert_missing(row["values"].get(name)) for name in names] for row in rows]).reshape(
        -1, len(names)
    )
    results = {}
    for column, a in enumerate(names):
        for other_column, b in enumerate(names[column + 1 :], start=column + 1):
            values = table[:, [column, other_column]]
            values = values[~np.isnan(values).any(axis=1)]
            is_varied = len(values) > 1 and (values != values[0]).any(axis=0).all()
            r = float(np.corrcoef(values, rowvar=False)[0, 1]) if is_varied else float("nan")
            results[a, b] = r, len(values)
    return results


@check_arguments(rows=_ROWS)
def pairs(rows: Sequence[Row]) -> list[tuple[Row, Row | None]]:
    """Pair each perturbed row with its original.

    Args:
        rows: Originals and perturbed rows, in any order.

    Returns:
        Each perturbed row and its original, None if the original is missing.

    Raises:
        ValueError: An id that occurs twice.
    """
    rows_by_id: dict[str, Row] = {}
    for row in rows:
        if row["id"] in rows_by_id:
            raise ValueError(f"{row['id']}: this id occurs twice; expected one row for each id")
        rows_by_id[row["id"]] = row
    return [(row, rows_by_id.get(row["original_id"])) for row in rows if row["perturbation"] is not None]


def _compute_deltas(
    perturbation_pairs: Sequence[tuple[Row, Row | None]], subset: str, options: Mapping[str, Any]
) -> dict[str, Any]:
    subset_pairs = [pair for pair in perturbation_pairs if _is_in(pair[0], subset)]
    complete_pairs = [(row, original) for row, original in subset_pairs if original is not None]
    perturbed_rows = [row for row, _ in complete_pairs]
    result: dict[str, Any] = {"n_pairs": len(complete_pairs), "n_unpaired": len(subset_pairs) - len(complete_pairs)}
    for name in VALUES:
        result |= _compute_mean(
            f"delta_{name}",
            [_compute_difference(row, original, name) for row, original in complete_pairs],
            perturbed_rows,
            {**options, "bounds": (-1, 1) if name in SHARES else None},
        )
    if any("kl" in row["values"] for row in perturbed_rows):
        result |= _compute_mean("kl", [row["values"].get("kl") for row in perturbed_rows], perturbed_rows, options)
    return result


def _compute_difference(row: Row, original: Row, name: str) -> float:
    return _convert_missing(row["values"].get(name)) - _convert_missing(original["values"].get(name))


def _compute_mean(
    name: str, values: Sequence[float | None], rows: Sequence[Row], options: Mapping[str, Any]
) -> dict[str, float | int]:
    interval = bootstrap_mean(
        [_convert_missing(value) for value in values], groups=[row["cluster"] for row in rows], **options
    )
    low = max(interval.low, 0.0) if name in NOT_NEGATIVE else interval.low
    return {name: interval.mean, f"{name}_ci_low": low, f"{name}_ci_high": interval.high, f"n_{name}": interval.n}


def _convert_missing(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _select_subset(rows: Sequence[Row], subset: str) -> list[Row]:
    return [row for row in rows if _is_in(row, subset)]


def _is_in(row: Row, subset: str) -> bool:
    return subset == ALL or bool(row["subsets"][subset])
