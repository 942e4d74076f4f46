"""Does attention follow the text: perturbed rows beside their originals (That's the Wrong Lung!, sections 3.1 to 4.2).

A row is a dict of id, original_id and perturbation (None of an original), cluster (the patient: intervals draw whole
patients), subsets ({"abnormal", "one_lung", "mdrb"}: bool), state and values (name -> float, None where undefined), as
`score.score_row` finds them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..confidence.score import bootstrap_mean
from .score import METRICS, RANKED, STATES

SIMILARITIES = ("local", "global")
VALUES = (*METRICS, *SIMILARITIES)
SHARES = (*RANKED, "no_attn")  # those in [0, 1]
ALL = "all"
SUBSETS = (ALL, "abnormal", "one_lung", "mdrb")
RANDOM_SENTENCES = "random_sentences"

Row = Mapping[str, Any]


def summarise(
    rows: Sequence[Row],
    subset: str = ALL,
    *,
    n_resamples: int = 2000,
    seed: int = 42,
    confidence_level: float = 0.95,
) -> dict[str, Any]:
    """The mean of each value over the rows of a subset (Tables 1 to 3, 7 and 10 to 12).

    Args:
        rows: originals, or the rows of one perturbation.
        subset: "all", "abnormal", "one_lung" or "mdrb".
        n_resamples, seed, confidence_level: of the bootstrap intervals, which draw whole clusters.

    Returns:
        of each of VALUES: its name (mean, NaN without any), with _ci_low and _ci_high, and n_<name>, the rows in which
        it is defined; n_rows, n_clusters and n_<state> for each of `score.STATES`.

    Raises:
        ValueError: another subset, or a parameter out of its range.
    """
    options = {"n_resamples": n_resamples, "seed": seed, "confidence_level": confidence_level}
    chosen = _in(rows, subset)
    result: dict[str, Any] = {"n_rows": len(chosen), "n_clusters": len({row["cluster"] for row in chosen})}
    result |= {f"n_{state}": sum(row["state"] == state for row in chosen) for state in STATES}
    for name in VALUES:
        of_name = options | {"bounds": (0, 1) if name in SHARES else None}
        result |= _mean(name, [row["values"].get(name) for row in chosen], chosen, of_name)
    return result


def deltas(
    rows: Sequence[Row], *, n_resamples: int = 2000, seed: int = 42, confidence_level: float = 0.95
) -> dict[str, dict[str, dict[str, Any]]]:
    """What a perturbation changes: perturbed less original, averaged over pairs (Figures 3, 5, 14 and 15; Table 8).

    Args:
        rows: originals and perturbed rows, in any order; a perturbed row's partner is the row with its original_id.
        n_resamples, seed, confidence_level: see `summarise`.

    Returns:
        perturbation -> subset -> dict of n_pairs, n_unpaired (perturbed rows without their original), and of each of
        VALUES delta_<name> with _ci_low, _ci_high and n_delta_<name>, the pairs in which both are defined. Where
        perturbed rows have a value "kl" (`score.symmetric_kl` of the two), its mean in the same way.

    Raises:
        ValueError: an id that occurs twice, or a parameter out of its range.
    """
    options = {"n_resamples": n_resamples, "seed": seed, "confidence_level": confidence_level}
    paired = pairs(rows)
    result: dict[str, dict[str, dict[str, Any]]] = {}
    for perturbation in dict.fromkeys(row["perturbation"] for row, _ in paired):
        of_it = [pair for pair in paired if pair[0]["perturbation"] == perturbation]
        result[perturbation] = {subset: _deltas(of_it, subset, options) for subset in SUBSETS}
    return result


def candidate_accuracy(
    rows: Sequence[Row],
    *,
    perturbation: str = RANDOM_SENTENCES,
    n_resamples: int = 2000,
    seed: int = 42,
    confidence_level: float = 0.95,
) -> dict[str, dict[str, Any]]:
    """How often an image is more similar to its own sentence than to a random one (section 4.2.4; Tables 4 and 9).

    Args:
        rows: as of `deltas`; local and global among their values.
        perturbation: whose rows are the other candidates.
        n_resamples, seed, confidence_level: see `summarise`.

    Returns:
        subset -> local_accuracy and global_accuracy with _ci_low, _ci_high and n_..., the pairs in which both
        similarities are known. Of two equal ones, the sentence's own is not the greater.

    Raises:
        ValueError: as `deltas`.
    """
    options = {"n_resamples": n_resamples, "seed": seed, "confidence_level": confidence_level}
    known = [(row, original) for row, original in pairs(rows) if original and row["perturbation"] == perturbation]
    result: dict[str, dict[str, Any]] = {}
    for subset in SUBSETS:
        chosen = [pair for pair in known if _is_in(pair[0], subset)]
        result[subset] = {}
        for name in SIMILARITIES:
            gaps = [_difference(row, original, name) for row, original in chosen]
            right = [gap if math.isnan(gap) else float(gap < 0) for gap in gaps]
            of_pairs = [row for row, _ in chosen]
            result[subset] |= _mean(f"{name}_accuracy", right, of_pairs, options | {"bounds": (0, 1)})
    return result


def correlations(rows: Sequence[Row], names: Sequence[str] = VALUES) -> dict[tuple[str, str], tuple[float, int]]:
    """Pearson correlation over rows of each two values (section 4.2.5 and B.10).

    Returns:
        (a, b), a before b in `names`, -> r and the number of rows in which both are defined; r is NaN with fewer than
        two of them, or where one of the values is the same in all.
    """
    table = np.array([[_number(row["values"].get(name)) for name in names] for row in rows]).reshape(-1, len(names))
    found = {}
    for first, a in enumerate(names):
        for second, b in enumerate(names[first + 1 :], start=first + 1):
            both = table[:, [first, second]]
            both = both[~np.isnan(both).any(axis=1)]
            varied = len(both) > 1 and (both != both[0]).any(axis=0).all()
            r = float(np.corrcoef(both, rowvar=False)[0, 1]) if varied else float("nan")
            found[a, b] = r, len(both)
    return found


def pairs(rows: Sequence[Row]) -> list[tuple[Row, Row | None]]:
    """Each perturbed row and its original, None where that is not there. Raises ValueError where an id occurs twice."""
    of_id: dict[str, Row] = {}
    for row in rows:
        if row["id"] in of_id:
            raise ValueError(f"{row['id']}: this id occurs twice; expected one row for each id")
        of_id[row["id"]] = row
    return [(row, of_id.get(row["original_id"])) for row in rows if row["perturbation"] is not None]


def _deltas(paired: Sequence[tuple[Row, Row | None]], subset: str, options: Mapping[str, Any]) -> dict[str, Any]:
    chosen = [pair for pair in paired if _is_in(pair[0], subset)]
    known = [(row, original) for row, original in chosen if original is not None]
    of = [row for row, _ in known]
    result: dict[str, Any] = {"n_pairs": len(known), "n_unpaired": len(chosen) - len(known)}
    for name in VALUES:
        result |= _mean(f"delta_{name}", [_difference(row, original, name) for row, original in known], of, options)
    if any("kl" in row["values"] for row in of):
        result |= _mean("kl", [row["values"].get("kl") for row in of], of, options)
    return result


def _difference(row: Row, original: Row, name: str) -> float:
    return _number(row["values"].get(name)) - _number(original["values"].get(name))


def _mean(
    name: str, values: Sequence[float | None], rows: Sequence[Row], options: Mapping[str, Any]
) -> dict[str, float | int]:
    interval = bootstrap_mean([_number(value) for value in values], groups=[row["cluster"] for row in rows], **options)
    return {name: interval.mean, f"{name}_ci_low": interval.low, f"{name}_ci_high": interval.high} | {
        f"n_{name}": interval.n
    }


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _in(rows: Sequence[Row], subset: str) -> list[Row]:
    if subset not in SUBSETS:
        raise ValueError(f"subset {subset!r}; expected one of {', '.join(SUBSETS)}")
    return [row for row in rows if _is_in(row, subset)]


def _is_in(row: Row, subset: str) -> bool:
    return subset == ALL or bool(row["subsets"][subset])
