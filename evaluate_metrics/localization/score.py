"""Where a sentence's attention lies, and how it is spread (That's the Wrong Lung!, sections 2.3, 4.2.5, B.6, B.8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .input_view import UPSAMPLINGS, mask, scores
from .ranking import TIES, localization, names

RANKED = names()
METRICS = (*RANKED, "entropy", "no_attn")

SCORED, WITHOUT_MAP, DEGENERATE, WITHOUT_BOX = "scored", "without_map", "degenerate", "without_box"
STATES = (SCORED, WITHOUT_MAP, DEGENERATE, WITHOUT_BOX)

ROUNDING, MOST = 1e-6, 1e-4  # a sum this close below 1 is 1; one further above is none of a distribution
FLOOR = 2.0**-23  # the least probability in a logarithm: float32's precision, torch's for a Categorical


def score_row(
    grid: Any,
    window: Sequence[float] | None,
    size: tuple[int, int],
    boxes: Sequence[Sequence[float]],
    *,
    upsampling: str = UPSAMPLINGS[0],
    precision_ties: str = TIES[0],
    name: str = "row",
) -> dict[str, Any]:
    """The values of one sentence.

    Args:
        grid: (h, w), its attention, averaged over its words: at least 0, sum 1 - no_attn; None where there is none.
        window: [x, y, width, height] in the image's pixels, what the grid covers; None with no grid.
        size: (height, width) of the image.
        boxes: k times [x, y, width, height] in the image's pixels, what the sentence is about.
        upsampling: "bilinear" or "nearest", see `view.scores`.
        precision_ties: "included" or "excluded", see `ranking.localization`.
        name: of the row, for errors.

    Returns:
        dict of each of METRICS, a float or None where it is undefined, and state: "scored"; "without_map" (no grid:
        nothing is defined); "degenerate" (a grid of zeros: no pixel is before another, all attention is on none);
        "without_box" (no box holds a pixel of the view; entropy and no_attn are defined).

    Raises:
        ValueError: NaN, infinity or a negative number in the grid, a sum above 1, a box or a window that is none; it
        names the row.

    >>> row = score_row([[0, 0.5], [0, 0.25]], [16, 16, 224, 224], (256, 256), [[128, 0, 128, 256]])
    >>> row["state"], round(row["auroc"], 4), round(row["iou_30"], 4), round(row["entropy"], 4), row["no_attn"]
    ('scored', 0.9897, 0.5995, 1.0397, 0.25)
    """
    values: dict[str, Any] = dict.fromkeys(METRICS)
    try:
        inside = mask(boxes, size)
        if grid is None:
            return values | {"state": WITHOUT_MAP}
        if window is None:
            raise ValueError("attention without a window; expected [x, y, width, height], what of the image it covers")
        shares = distribution(grid)
        values |= {"entropy": _entropy(shares), "no_attn": float(shares[-1])}
        if not shares[:-1].any():
            return values | {"state": DEGENERATE}
        if not inside.any():
            return values | {"state": WITHOUT_BOX}
        spread = scores(grid, size, window, upsampling)[None]
        ranked = localization(spread, inside[None], precision_ties=precision_ties)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return values | {metric: _known(value[0]) for metric, value in ranked.items()} | {"state": SCORED}


def distribution(grid: Any) -> np.ndarray:
    """A grid's cells and, last, what is attended of no cell ("No Attn"): 1 minus their sum.

    Args:
        grid: (h, w) numbers of at least 0. A sum within 1e-6 below 1 or 1e-4 above it is 1 but for rounding.

    Returns:
        float64 (h * w + 1,), sum 1.

    Raises:
        ValueError: not (h, w), a number that is negative or not finite, or a larger sum.

    >>> distribution([[0.5, 0.25]]).tolist()
    [0.5, 0.25, 0.25]
    """
    try:
        cells = np.asarray(grid, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("no grid of attention; expected rows of numbers, all of one length") from None
    if cells.ndim != 2 or not cells.size:
        raise ValueError(f"attention of shape {cells.shape}; expected (height, width)")
    if not np.isfinite(cells).all() or cells.min() < 0:
        raise ValueError("attention with NaN, infinity or a negative number; expected numbers of at least 0")
    total = float(cells.sum())
    if total > 1 + MOST:
        raise ValueError(f"attention that sums to {total:.6g}; expected 1 less the attention on no region")
    rest = 1 - total if total < 1 - ROUNDING else 0.0
    shares = np.append(cells, rest)
    return shares / shares.sum()


def entropy(grid: Any) -> float:
    """Entropy in nats over the cells and "No Attn" (Table 10): ln(h * w) at most without, ln(h * w + 1) with it.

    Raises ValueError as `distribution`.

    >>> round(entropy(np.full((19, 19), 1 / 361)), 3)
    5.889
    """
    return _entropy(distribution(grid))


def no_attn(grid: Any) -> float:
    """The share of attention that is on no cell. Raises ValueError as `distribution`."""
    return float(distribution(grid)[-1])


def symmetric_kl(first: Any, second: Any, *, kl_no_attn: bool = False) -> float:
    """Half the sum of both Kullback-Leibler divergences, in nats, over the cells (section B.6).

    As in the paper's released code, the cells are not scaled to sum to 1: where a model attends to no region, its share
    "No Attn" is left out, and the cells keep theirs. It is at least 0 all the same, each cell's part being so. Inside
    the logarithms a share is at least 2**-23, so that it is finite where a cell is 0 in one of them.

    Args:
        first, second: (h, w) each, as for `distribution`.
        kl_no_attn: whether "No Attn" is one share more, which makes both of them distributions.

    Raises:
        ValueError: shapes that differ, or as `distribution`.

    >>> round(symmetric_kl([[0.75, 0.25]], [[0.25, 0.75]]), 4)
    0.5493
    >>> round(symmetric_kl([[0.5, 0.25]], [[0.25, 0.5]]), 4), round(symmetric_kl([[0.5]], [[0.25]], kl_no_attn=True), 4)
    (0.1733, 0.1373)
    """
    if np.shape(first) != np.shape(second):
        raise ValueError(f"attention of shapes {np.shape(first)} and {np.shape(second)}; expected the same cells")
    shares = slice(None) if kl_no_attn else slice(-1)
    p, q = distribution(first)[shares], distribution(second)[shares]
    return float(np.sum((p - q) * (np.log(np.maximum(p, FLOOR)) - np.log(np.maximum(q, FLOOR)))) / 2)


def _entropy(shares: np.ndarray) -> float:
    some = shares[shares > 0]
    return abs(float(np.sum(some * np.log(some))))


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
