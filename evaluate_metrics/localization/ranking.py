"""Does a ranking of pixels put the labelled ones first (That's the Wrong Lung!, section 2.3)? One sort a map."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

TOPS = (5, 10, 30)
TIES = ("included", "excluded")  # of precision


def names(tops: Sequence[int] = TOPS) -> tuple[str, ...]:
    """What `localization` returns, in its order."""
    return "auroc", "average_precision", *(f"{name}_{top}" for name in ("iou", "precision") for top in tops)


def localization(
    scores: np.ndarray, labels: np.ndarray, tops: Sequence[int] = TOPS, precision_ties: str = TIES[0]
) -> dict[str, np.ndarray]:
    """AUROC, average precision, and IoU and precision of the pixels ranked highest, of n maps.

    Args:
        scores: float (n, ...), one score a pixel; more is more likely in the region.
        labels: bool of the same shape, whether the pixel is in the region.
        tops: percentages T, 0 < T < 100. The threshold is the highest of the lowest P - int(P * T / 100) of P pixels.
            IoU takes the pixels above it: fewer than T % where scores are tied there, none where all above are.
        precision_ties: "included" (the paper's released code): precision takes the pixels at the threshold, too, so
            that it is more than T % where scores are tied there. "excluded": the same pixels as IoU.

    Returns:
        name (see `names`) -> float64 (n,). All NaN where no pixel is labelled; AUROC where all are, too. Where no pixel
        is above the threshold, IoU is 0, and precision NaN if ties are excluded. Tied pixels share a threshold, as in
        scikit-learn's roc_auc_score and average_precision_score. Memory beyond the inputs is that of a few maps.

    Raises:
        ValueError: shapes that differ, a score that is not finite, a percentage out of its range, or another word for
        ties.

    >>> found = localization(np.array([[3.0, 1.0, 2.0, 1.0]]), np.array([[True, True, False, False]]), tops=(50,))
    >>> {name: float(value[0].round(3)) for name, value in found.items()}
    {'auroc': 0.625, 'average_precision': 0.75, 'iou_50': 0.333, 'precision_50': 0.5}
    """
    scores, labels = np.asarray(scores), np.asarray(labels)
    if scores.shape != labels.shape or scores.ndim < 2 or labels.dtype != np.bool_:
        raise ValueError(
            f"scores of shape {scores.shape} and {labels.dtype} labels of shape {labels.shape}; "
            "expected (n, ...) both, labels bool"
        )
    if not all(0 < top < 100 for top in tops):
        raise ValueError(f"tops {list(tops)}; expected percentages between 0 and 100")
    if precision_ties not in TIES:
        raise ValueError(f"precision_ties {precision_ties!r}; expected {' or '.join(TIES)}")
    found = np.full((len(scores), 2 + 2 * len(tops)), np.nan)
    for row, (ranked, inside) in enumerate(zip(scores, labels, strict=True)):
        keys = _keys(ranked.ravel(), inside.ravel(), row)
        if inside.any():
            keys.sort()
            found[row] = _values(keys, tops, precision_ties)
    return dict(zip(names(tops), found.T.copy(), strict=True))


def _keys(ranked: np.ndarray, inside: np.ndarray, row: int) -> np.ndarray:
    """One number a pixel that sorts by score, then label: the bits of a positive double, shifted, and the label.

    Bits of positive doubles are in the doubles' order and leave the sign's bit free (-0.0 loses it). A sort of such
    keys is several times faster than one of indices, and label and score stay together.
    """
    values = ranked.astype(np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"map {row + 1}: a score that is NaN or infinite; expected a finite number a pixel")
    if values.size and values.min() < 0:
        values = np.unique(values, return_inverse=True)[1].astype(np.float64)  # ranks instead, ties kept
    keys = values.view(np.uint64)
    keys <<= 1
    keys |= inside
    return keys


def _values(keys: np.ndarray, tops: Sequence[int], precision_ties: str) -> np.ndarray:
    """The values of one map in the order of `names`; keys: (P,), sorted, of `_keys`."""
    total, scores = len(keys), keys >> np.uint64(1)
    places = np.flatnonzero(keys & np.uint64(1))  # of the labelled pixels, and last among equal scores
    n_labelled = len(places)
    own = scores[places]
    # Of each group of equal labelled pixels: how many labelled are below, the first's place, where its score begins.
    below = np.concatenate(([0], np.flatnonzero(own[1:] != own[:-1]) + 1))
    first, own = places[below], own[below]
    start = first.copy()
    tied = (first > 0) & (scores[first - 1] == own)
    start[tied] = np.searchsorted(scores, own[tied])
    size = np.diff(below, append=n_labelled).astype(np.float64)
    # Sums, no dot products: BLAS would wake a thread a core for each map, which costs more than it saves.
    average_precision = (size * ((n_labelled - below) / (total - start))).sum() / n_labelled
    n_pairs = n_labelled * (total - n_labelled)
    auroc = (size * ((start + first) / 2 - below)).sum() / n_pairs if n_pairs else np.nan
    bounds = scores[[total - int(total * top / 100) - 1 for top in tops]]
    above = np.searchsorted(scores, bounds, side="right")
    true = n_labelled - np.searchsorted(places, above)
    iou = true / (total - above + n_labelled - true)
    if precision_ties == "included":
        above = np.searchsorted(scores, bounds, side="left")
        true = n_labelled - np.searchsorted(places, above)
    precision = np.divide(true, total - above, out=np.full(len(tops), np.nan), where=above < total)
    return np.concatenate(([auroc, average_precision], iou, precision))
