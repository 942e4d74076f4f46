"""Pixel rankings compared with labels (That's the Wrong Lung!, section 2.3); one sort per map."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arguments.arrays import is_list, is_real, read_numbers
from ..arguments.kinds import MAPS, one, one_of, read_later
from ..arguments.schema import check_arguments

TOPS = (5, 10, 30)
TIES = ("included", "excluded")  # treatment of tied pixels in precision

PRECISION_TIES = one_of(TIES)
_TOPS = one(
    "percentages",
    "percentages between 0 and 100",
    lambda tops: is_list(tops) and all(is_real(top) and 0 < top < 100 for top in tops),
)


@check_arguments(tops=_TOPS)
def names(tops: Sequence[int] = TOPS) -> tuple[str, ...]:
    """List the names that `localization` returns, in its order.

    Args:
        tops: Percentages of the pixels.

    Returns:
        The names.
    """
    return "auroc", "average_precision", *(f"{name}_{top}" for name in ("iou", "precision") for top in tops)


@check_arguments(scores=MAPS, labels=read_later("labelled pixels"), tops=_TOPS, precision_ties=PRECISION_TIES)
def localization(
    scores: np.ndarray, labels: np.ndarray, tops: Sequence[int] = TOPS, precision_ties: str = TIES[0]
) -> dict[str, np.ndarray]:
    """Compute AUROC, average precision, and IoU and precision of the pixels ranked highest, for n maps.

    Args:
        scores: Float, shape (n, ...), one score per pixel; a higher score is more likely inside the region.
        labels: Bool, the same shape, whether the pixel is inside the region.
        tops: Percentages T, 0 < T < 100. The threshold is the highest of the lowest P - int(P * T / 100) of P pixels.
            IoU uses the pixels above it: fewer than T % if scores are tied at the threshold, none if all above are
            tied.
        precision_ties: "included" (the paper's code): precision also uses the pixels at the threshold, which are more
            than T % if scores are tied there. "excluded": the same pixels as IoU.

    Returns:
        name (see `names`) -> float64, shape (n,). All are NaN if no pixel is labelled; AUROC also if all pixels are. If
        no pixel is above the threshold, IoU is 0, and precision is NaN if ties are excluded. Tied pixels share a
        threshold, as in scikit-learn's roc_auc_score and average_precision_score. The function needs memory for a few
        maps.

    Raises:
        ValueError: Different shapes, a non-finite score, a percentage outside its range, or an unknown
            `precision_ties`.

    >>> values = localization(np.array([[3.0, 1.0, 2.0, 1.0]]), np.array([[True, True, False, False]]), tops=(50,))
    >>> {name: float(value[0].round(3)) for name, value in values.items()}
    {'auroc': 0.625, 'average_precision': 0.75, 'iou_50': 0.333, 'precision_50': 0.5}
    """
    scores, labels = read_numbers(scores, "scores"), np.asarray(labels)
    if scores.shape != labels.shape or scores.ndim < 2 or labels.dtype != np.bool_:
        raise ValueError(
            f"scores of shape {scores.shape} and {labels.dtype} labels of shape {labels.shape}; "
            "expected (n, ...) both, labels bool"
        )
    values = np.full((len(scores), 2 + 2 * len(tops)), np.nan)
    for row, (map_scores, inside) in enumerate(zip(scores, labels, strict=True)):
        keys = _build_sort_keys(map_scores.ravel(), inside.ravel(), row)
        if inside.any():
            keys.sort()
            values[row] = _compute_values(keys, tops, precision_ties)
    return dict(zip(names(tops), values.T.copy(), strict=True))


def _build_sort_keys(map_scores: np.ndarray, inside: np.ndarray, row: int) -> np.ndarray:
    """Build a number per pixel that sorts by score, then label: the shifted bits of a positive double, and the label.

    Bits of positive doubles are in the order of the doubles and leave the sign bit free (-0.0 loses it). Sorting these
    keys is several times faster than sorting indices, and label and score stay together.
    """
    values = map_scores.astype(np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"map {row + 1}: a score that is NaN or infinite; expected a finite number per pixel")
    if values.size and values.min() < 0:
        values = np.unique(values, return_inverse=True)[1].astype(np.float64)  # ranks instead; ties stay ties
    keys = values.view(np.uint64)
    keys <<= 1
    keys |= inside
    return keys


def _compute_values(keys: np.ndarray, tops: Sequence[int], precision_ties: str) -> np.ndarray:
    """Compute the values of one map in the order of `names`; keys: shape (P,), the sorted `_build_sort_keys`."""
    total, scores = len(keys), keys >> np.uint64(1)
    labelled_ranks = np.flatnonzero(keys & np.uint64(1))  # labelled pixels are last among equal scores
    n_labelled = len(labelled_ranks)
    labelled_scores = scores[labelled_ranks]
    # For each group of equal labelled pixels: the labelled pixels below it, its first rank, and its score's first rank.
    n_below = np.concatenate(([0], np.flatnonzero(labelled_scores[1:] != labelled_scores[:-1]) + 1))
    first_rank, labelled_scores = labelled_ranks[n_below], labelled_scores[n_below]
    start_rank = first_rank.copy()
    is_tied = (first_rank > 0) & (scores[first_rank - 1] == labelled_scores)
    start_rank[is_tied] = np.searchsorted(scores, labelled_scores[is_tied])
    n_tied = np.diff(n_below, append=n_labelled).astype(np.float64)
    # Sums instead of dot products: BLAS would wake one thread per core for each map, which costs more than it saves.
    average_precision = (n_tied * ((n_labelled - n_below) / (total - start_rank))).sum() / n_labelled
    n_pairs = n_labelled * (total - n_labelled)
    auroc = (n_tied * ((start_rank + first_rank) / 2 - n_below)).sum() / n_pairs if n_pairs else np.nan
    thresholds = scores[[total - int(total * top / 100) - 1 for top in tops]]
    n_not_above = np.searchsorted(scores, thresholds, side="right")
    n_true = n_labelled - np.searchsorted(labelled_ranks, n_not_above)
    iou = n_true / (total - n_not_above + n_labelled - n_true)
    if precision_ties == "included":
        n_not_above = np.searchsorted(scores, thresholds, side="left")
        n_true = n_labelled - np.searchsorted(labelled_ranks, n_not_above)
    precision = np.divide(n_true, total - n_not_above, out=np.full(len(tops), np.nan), where=n_not_above < total)
    return np.concatenate(([auroc, average_precision], iou, precision))
