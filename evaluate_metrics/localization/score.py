"""Location and spread of a sentence's attention (That's the Wrong Lung!, sections 2.3, 4.2.5, B.6, B.8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arguments.arrays import read_grid
from ..arguments.kinds import BOXES, FLAG, GRID, SIZE, TEXT, WINDOW, optional
from ..arguments.schema import check_arguments
from .input_view import UPSAMPLING, UPSAMPLINGS, mask, scores
from .ranking import PRECISION_TIES, TIES, localization, names

RANKED = names()
METRICS = (*RANKED, "entropy", "no_attn")

SCORED, WITHOUT_MAP, DEGENERATE, WITHOUT_BOX = "scored", "without_map", "degenerate", "without_box"
STATES = (SCORED, WITHOUT_MAP, DEGENERATE, WITHOUT_BOX)

ROUNDING, MOST = 1e-6, 1e-4  # tolerances of a sum: this far below 1 it is 1; farther above 1 it is invalid
FLOOR = 2.0**-23  # smallest probability in a logarithm: float32's precision, as in torch's Categorical


@check_arguments(
    prefix="name",
    grid=optional(GRID),
    window=optional(WINDOW),
    size=SIZE,
    boxes=BOXES,
    upsampling=UPSAMPLING,
    precision_ties=PRECISION_TIES,
    name=TEXT,
)
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
    """Score the attention of one sentence.

    Args:
        grid: Shape (h, w), the attention averaged over the sentence's words, at least 0 with the sum 1 - no_attn; None
            for no attention.
        window: [x, y, width, height] in the image's pixels, the part that the grid covers; None without a grid.
        size: (height, width) of the image in pixels.
        boxes: k boxes [x, y, width, height] in the image's pixels, the regions of the sentence.
        upsampling: "bilinear" or "nearest", see `input_view.scores`.
        precision_ties: "included" or "excluded", see `ranking.localization`.
        name: Name of the row, for errors.

    Returns:
        A dict with a float for each of METRICS, None where undefined, and the state: "scored"; "without_map" (no grid,
        everything is undefined); "degenerate" (a grid of zeros, which ranks no pixel); "without_box" (no box contains a
        pixel of the view; entropy and no_attn are defined).

    Raises:
        ValueError: NaN, infinity or a negative number in the grid, a sum above 1, or an invalid box or window. The
            message names the row.

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
            raise ValueError(
                "attention without a window; expected [x, y, width, height], the part of the image that it covers"
            )
        shares = distribution(grid)
        values |= {"entropy": _compute_entropy(shares), "no_attn": float(shares[-1])}
        if not shares[:-1].any():
            return values | {"state": DEGENERATE}
        if not inside.any():
            return values | {"state": WITHOUT_BOX}
        pixel_scores = scores(grid, size, window, upsampling)[None]
        ranking_values = localization(pixel_scores, inside[None], precision_ties=precision_ties)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return values | {metric: _convert_nan(value[0]) for metric, value in ranking_values.items()} | {"state": SCORED}


@check_arguments(grid=GRID)
def distribution(grid: Any) -> np.ndarray:
    """Compute the shares of a grid's cells and, as the last one, of "No Attn": 1 minus their sum.

    Args:
        grid: Shape (h, w), numbers of at least 0. A sum within 1e-6 below 1 or 1e-4 above it counts as 1.

    Returns:
        float64, shape (h * w + 1,), with the sum 1.

    Raises:
        ValueError: Another shape, a negative or non-finite number, or a larger sum.

    >>> distribution([[0.5, 0.25]]).tolist()
    [0.5, 0.25, 0.25]
    """
    cells = read_grid(grid, "", "a grid of attention").astype(np.float64)
    if not np.isfinite(cells).all() or cells.min() < 0:
        raise ValueError("attention with NaN, infinity or a negative number; expected numbers of at least 0")
    total = float(cells.sum())
    if total > 1 + MOST:
        raise ValueError(f"attention that sums to {total:.6g}; expected 1 less the attention on no region")
    no_attn_share = 1 - total if total < 1 - ROUNDING else 0.0
    shares = np.append(cells, no_attn_share)
    return shares / shares.sum()


@check_arguments(grid=GRID)
def entropy(grid: Any) -> float:
    """Compute the entropy in nats over the cells and "No Attn" (Table 10).

    The maximum is ln(h * w) without "No Attn" and ln(h * w + 1) with it.

    Args:
        grid: See `distribution`.

    Returns:
        The entropy.

    Raises:
        ValueError: See `distribution`.

    >>> round(entropy(np.full((19, 19), 1 / 361)), 3)
    5.889
    """
    return _compute_entropy(distribution(grid))


@check_arguments(grid=GRID)
def no_attn(grid: Any) -> float:
    """Compute the share of attention outside the cells.

    Args:
        grid: See `distribution`.

    Returns:
        The share.

    Raises:
        ValueError: See `distribution`.
    """
    return float(distribution(grid)[-1])


@check_arguments(grid=GRID, other_grid=GRID, kl_no_attn=FLAG)
def compute_symmetric_kl(grid: Any, other_grid: Any, *, kl_no_attn: bool = False) -> float:
    """Compute half the sum of both Kullback-Leibler divergences, in nats, over the cells (section B.6).

    The cells are not scaled to sum to 1, as in the paper's code. If a model attends to no region, its share "No Attn"
    is left out, and the cells keep their shares. The result is still at least 0, because each cell's term is. Inside
    the logarithms a share is at least 2**-23, so the result is finite if a cell is 0 in one grid.

    Args:
        grid: Shape (h, w), see `distribution`.
        other_grid: Shape (h, w), likewise.
        kl_no_attn: Whether "No Attn" is one more share, which makes both grids distributions.

    Returns:
        The divergence.

    Raises:
        ValueError: Different shapes, or see `distribution`.

    >>> round(compute_symmetric_kl([[0.75, 0.25]], [[0.25, 0.75]]), 4)
    0.5493
    >>> round(compute_symmetric_kl([[0.5, 0.25]], [[0.25, 0.5]]), 4)
    0.1733
    >>> round(compute_symmetric_kl([[0.5]], [[0.25]], kl_no_attn=True), 4)
    0.1373
    """
    grid, other_grid = (read_grid(cells, "", "a grid of attention") for cells in (grid, other_grid))
    if grid.shape != other_grid.shape:
        raise ValueError(f"attention of shapes {grid.shape} and {other_grid.shape}; expected the same cells")
    used_shares = slice(None) if kl_no_attn else slice(-1)
    p, q = distribution(grid)[used_shares], distribution(other_grid)[used_shares]
    return float(np.sum((p - q) * (np.log(np.maximum(p, FLOOR)) - np.log(np.maximum(q, FLOOR)))) / 2)


def _compute_entropy(shares: np.ndarray) -> float:
    positive = shares[shares > 0]
    return abs(float(np.sum(positive * np.log(positive))))


def _convert_nan(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
