"""The attention region of a heatmap (SurgXBench, equation 1) and its shares in boxes and in motion.

A heatmap L has one number per pixel. Its region is where L >= quantile(L, 1 - top_fraction) and L > 0, with numpy's
linear quantile. The paper's text and appendix C.1 take the top 20 % (its formula, read with tau = 0.8, would select
80 %). A map with equal values only, or without a positive value, has no region: it is degenerate. `L > 0` is not in the
paper: if less than the top fraction is positive, equation 1 alone also selects pixels without attention.

Batches are numpy or torch arrays (n, height, width). Tensors on a device stay there; only a few numbers per map leave
it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arguments.arrays import read_flags, read_numbers
from ..arguments.kinds import BOXES, LABEL, MAPS, optional, read_later, real, sequence
from ..arguments.schema import check_arguments
from .boxes import Rectangle, find_pixel_rectangles, split_disjoint

_LATTICE = 8  # the first sample is every 8th pixel of every 8th row of a map
# Margins in ranks, divided by sqrt(sample size). A smooth map seldom needs more than the first. Independent pixels,
# whose rank has a standard deviation of at most 0.5, seldom need more than the second.
_MARGINS = (0.3, 2)
_BLOCK = 2**17  # values in one comparison: they fit into the cache
TOP_FRACTION = real("a share of the pixels, more than 0 and at most 1", lambda value: 0 < value <= 1)
IDS = optional(sequence(LABEL))


@check_arguments(maps=MAPS, top_fraction=TOP_FRACTION, ids=IDS)
def find_attention_region(maps: Any, top_fraction: float = 0.2, *, ids: Sequence[str] | None = None) -> Any:
    """Find the pixels of the attention region.

    Args:
        maps: Shape (n, height, width), numpy or torch, finite. Half precision is read as float32, integers as float64.
        top_fraction: Share of the pixels, in (0, 1]; all ties at the threshold are included.
        ids: n names of the samples, for errors; by default their rows.

    Returns:
        Bool, shape (n, height, width), of the same kind and on the same device; all False for a degenerate map.

    Raises:
        ValueError: Another shape, or a NaN or infinity. The message names the sample.
    """
    original_maps, (maps, names) = maps, _require_maps(maps, ids)
    if not isinstance(maps, np.ndarray):
        return maps > _find_bounds_on_device(maps, top_fraction, names)[:, None, None]
    bounds = [_find_bound(heatmap, top_fraction, name)[0] for heatmap, name in zip(maps, names, strict=True)]
    region = maps > np.array(bounds, dtype=maps.dtype)[:, None, None]
    return original_maps.new_tensor(region).bool() if _is_tensor(original_maps) else region


@check_arguments(
    maps=MAPS,
    unions=sequence(sequence(BOXES, word="map"), word="union"),
    motion=optional(read_later("motion")),
    top_fraction=TOP_FRACTION,
    ids=IDS,
)
def compute_shares_inside(
    maps: Any,
    unions: Sequence[Sequence],
    *,
    motion: Any = None,
    top_fraction: float = 0.2,
    ids: Sequence[str] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute the shares of each map's region inside a union of boxes, or inside the motion mask.

    Args:
        maps: See `find_attention_region`.
        unions: g lists of n times (k, 4) boxes xywh in pixels (`boxes.find_pixel_rectangles`); overlaps count once.
        motion: Bool, shape (n, height, width), numpy or torch; added to every union.
        top_fraction: See `find_attention_region`.
        ids: See `find_attention_region`.

    Returns:
        shares: float64, shape (g, n), NaN for a degenerate map.
        degenerate: Bool, shape (n,).
        cut: Bool, shape (n,), maps with a region from which `L > 0` removes pixels that equation 1 alone would select.

    Raises:
        ValueError: See `find_attention_region`; boxes for another number of maps, or an invalid box.
    """
    maps, names = _require_maps(maps, ids)
    if any(len(union) != len(maps) for union in unions):
        raise ValueError(f"boxes for {[len(union) for union in unions]} maps; expected {len(maps)} each, as maps")
    motion = motion if motion is None or _is_tensor(motion) else read_flags(motion, "motion")
    if motion is not None and tuple(motion.shape) != tuple(maps.shape):
        raise ValueError(f"motion of shape {tuple(motion.shape)}; expected that of the maps, {tuple(maps.shape)}")
    size = maps.shape[1], maps.shape[2]
    rectangles = [
        [split_disjoint(find_pixel_rectangles(boxes, size, name)) for boxes, name in zip(union, names, strict=True)]
        for union in unions
    ]
    if isinstance(maps, np.ndarray):
        areas, inside = _count_inside(maps, rectangles, motion, top_fraction, names)
    else:
        areas, inside = _count_on_device(maps, rectangles, motion, top_fraction, names)
    with np.errstate(invalid="ignore"):
        return inside / areas, areas == 0, (areas > 0) & (areas < _compute_least_area(size[0] * size[1], top_fraction))


def _count_inside(
    maps: np.ndarray, rectangles: list, motion: Any, top_fraction: float, names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Count the pixels of the regions (n,), and of their parts inside each union (g, n), one map after the other."""
    areas, inside = np.zeros(len(maps)), np.zeros((len(rectangles), len(maps)))
    moving = None if motion is None else np.asarray(motion.cpu() if _is_tensor(motion) else motion, dtype=bool)
    for row, (heatmap, name) in enumerate(zip(maps, names, strict=True)):
        bound, areas[row] = _find_bound(heatmap, top_fraction, name)
        if moving is not None:
            region = heatmap > bound
            inside[:, row] = np.count_nonzero(region & moving[row])
            remaining, bound = region & ~moving[row], False
        else:
            remaining = heatmap
        distinct_rectangles = {rectangle for union in rectangles for rectangle in union[row]}  # unions share boxes
        counts = {
            rectangle: np.count_nonzero(remaining[_build_slices(rectangle)] > bound)
            for rectangle in distinct_rectangles
        }
        for union_number, union in enumerate(rectangles):
            inside[union_number, row] += sum(counts[rectangle] for rectangle in union[row])
    return areas, inside


def _build_slices(rectangle: Rectangle) -> tuple[slice, slice]:
    left, top, right, bottom = rectangle
    return slice(top, bottom), slice(left, right)


def _find_bound(heatmap: np.ndarray, top_fraction: float, name: str) -> tuple[Any, int]:
    """Compute a bound such that the attention region is the pixels above it, and the number of these pixels.

    For a degenerate map, which has no region, the result is infinity and 0.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return _find_bound_and_area(
            np.ascontiguousarray(heatmap).reshape(-1), _sample_sorted(heatmap), top_fraction, name
        )


def _find_bound_and_area(values: np.ndarray, sample: np.ndarray, top_fraction: float, name: str) -> tuple[Any, int]:
    rank, weight = _find_position(len(values), top_fraction)
    if sample[rank * len(sample) // len(values)] <= 0:
        _require_finite(_is_finite(values), name)
        n_positive = int(np.count_nonzero(values > 0))
        # The value at `rank` is not positive: all positive values exceed the quantile.
        if n_positive < len(values) - rank:
            return (0, n_positive) if n_positive else (np.inf, 0)
    first_rank, enclosed = _find_enclosed(values, sample, rank, name)
    lower, upper = enclosed[rank - first_rank], enclosed[min(rank - first_rank + 1, len(enclosed) - 1)]
    bound = _compute_bound_below(_compute_between(lower, upper, weight))
    area = len(values) - first_rank - int(np.count_nonzero(enclosed <= bound))
    is_constant = area == len(values) and values.min() == values.max()
    return (np.inf, 0) if is_constant or not area else (bound, area)


def _sample_sorted(heatmap: np.ndarray) -> np.ndarray:
    """Sample the values on a lattice of a map, sorted."""
    top, left = (min(_LATTICE // 2, side // 2) for side in heatmap.shape)
    return np.sort(heatmap[top::_LATTICE, left::_LATTICE], axis=None)


def _find_enclosed(values: np.ndarray, sample: np.ndarray, rank: int, name: str) -> tuple[int, np.ndarray]:
    """Sort a part of the values that has those of rank and rank + 1, without a sort of all values.

    The sample proposes two numbers, and only the values between them are sorted. Counting over all values proves that
    both ranks are among these, so the result is independent of the sample. If the sample misleads, all values are
    sorted.

    Args:
        values: The values of a map, shape (p,).
        sample: Some of them, sorted.
        rank: Position of the first of the two among all values in ascending order.
        name: Name of the map, for errors.

    Returns:
        The rank of the first value in the sorted part, and the sorted part.
    """
    centre = rank * len(sample) / len(values)
    for margin in _MARGINS:
        first_index = math.floor(centre - margin * math.sqrt(len(sample)) - 1)
        last_index = math.ceil(centre + margin * math.sqrt(len(sample)) + 1)
        low = sample[first_index] if first_index >= 0 else -np.inf
        high = sample[last_index] if last_index < len(sample) else np.inf
        start, blocks = len(values), []
        for offset in range(0, len(values), _BLOCK):
            block = values[offset : offset + _BLOCK]
            _require_finite(_is_finite(block), name)
            is_above = block > low
            start -= int(np.count_nonzero(is_above))
            blocks.append(block[is_above & (block < high)])
        enclosed = np.concatenate(blocks)
        if start <= rank and rank + 1 < start + len(enclosed):
            enclosed.sort()
            return start, enclosed
    return 0, np.sort(values)


def _find_position(n: int, top_fraction: float) -> tuple[int, float]:
    """Compute the quantile's rank among n sorted values, and its relative distance (weight) to the next one."""
    position = (n - 1) * (1 - top_fraction)
    rank = min(math.floor(position), max(n - 2, 0))
    return rank, position - rank


def _compute_least_area(n: int, top_fraction: float) -> int:
    """Compute the least number of n pixels that are not below the quantile."""
    rank, weight = _find_position(n, top_fraction)
    return n - rank - (weight > 0)


def _compute_between(lower: Any, upper: Any, weight: float) -> Any:
    """Interpolate between two neighbours, with the rounding of numpy's quantile."""
    step = upper - lower
    return lower + step * weight if weight < 0.5 else upper - step * (1 - weight)


def _compute_bound_below(threshold: Any) -> Any:
    """Compute the largest float below `threshold`, at least 0: `L > result` means `L >= threshold and L > 0`."""
    return np.maximum(np.nextafter(threshold, threshold.dtype.type(-np.inf)), threshold.dtype.type(0))


def _is_finite(values: np.ndarray) -> bool:
    return math.isfinite(values @ values) or bool(np.isfinite(values).all())  # one pass; it overflows at most


def _find_bounds_on_device(maps: Any, top_fraction: float, names: Sequence[str]) -> Any:
    """Compute `_find_bound` of every map of a tensor (n, height, width), as a tensor (n,)."""
    values = maps.reshape(len(maps), -1)
    lowest, highest = values.amin(dim=1), values.amax(dim=1)
    for is_finite, name in zip((lowest.isfinite() & highest.isfinite()).tolist(), names, strict=True):
        _require_finite(is_finite, name)
    rank, weight = _find_position(values.shape[1], top_fraction)
    lower = values.kthvalue(rank + 1, dim=1).values
    is_larger = values > lower[:, None]
    next_larger = values.where(is_larger, values.new_tensor(math.inf)).amin(dim=1)
    is_tie = is_larger.logical_not().sum(dim=1) > rank + 1
    upper = lower.where(is_tie | next_larger.isinf(), next_larger)
    bounds = _compute_bound_below(_compute_between(lower.cpu().numpy(), upper.cpu().numpy(), weight))
    return values.new_tensor(bounds).where((highest > 0) & (lowest < highest), values.new_tensor(math.inf))


def _count_on_device(
    maps: Any, rectangles: list, motion: Any, top_fraction: float, names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Compute `_count_inside` on a tensor's device, with one summed-area table of the batch for all rectangles."""
    region = maps > _find_bounds_on_device(maps, top_fraction, names)[:, None, None]
    areas = region.sum(dim=(1, 2)).cpu().numpy().astype(float)
    inside = np.zeros((len(rectangles), len(maps)))
    if motion is not None:
        moving = (motion.to(region.device) if _is_tensor(motion) else region.new_tensor(motion)).bool()
        inside += (region & moving).sum(dim=(1, 2)).cpu().numpy()
        region = region & moving.logical_not()
    ones = region.int()
    table = ones.new_zeros((len(maps), maps.shape[1] + 1, maps.shape[2] + 1))
    table[:, 1:, 1:] = ones.cumsum(dim=1, dtype=ones.dtype).cumsum(dim=2, dtype=ones.dtype)
    indexed_rectangles = [
        (union_number, row, *rectangle)
        for union_number, union in enumerate(rectangles)
        for row, map_rectangles in enumerate(union)
        for rectangle in map_rectangles
    ]
    if indexed_rectangles:
        corners = np.array(indexed_rectangles, dtype=np.int32)
        _, row, left, top, right, bottom = ones.new_tensor(corners).unbind(dim=1)
        sums = table[row, bottom, right] - table[row, top, right] - table[row, bottom, left] + table[row, top, left]
        np.add.at(inside, (corners[:, 0], corners[:, 1]), sums.cpu().numpy())
    return areas, inside


def _require_maps(maps: Any, ids: Sequence[str] | None) -> tuple[Any, Sequence[str]]:
    """Convert the maps to floats, and tensors of the host to arrays, and name each map."""
    maps = _get_host_array(maps)
    if not _is_tensor(maps):
        maps = read_numbers(maps, "maps")
    else:
        maps = maps.detach()
        maps = maps.double() if not maps.is_floating_point() else maps.float() if maps.element_size() < 4 else maps
    if maps.ndim != 3 or 0 in maps.shape[1:]:
        raise ValueError(f"maps of shape {tuple(maps.shape)}; expected (n, height, width)")
    if ids is not None and len(ids) != len(maps):
        raise ValueError(f"{len(ids)} ids for {len(maps)} maps: give one for each")
    return maps, [f"row {row + 1}" for row in range(len(maps))] if ids is None else [str(name) for name in ids]


def _get_host_array(array: Any) -> Any:
    """Return a torch tensor of the host as the numpy array that shares its memory, and anything else unchanged."""
    if not _is_tensor(array) or array.device.type != "cpu":
        return array
    is_half = array.is_floating_point() and array.element_size() < 4  # numpy has no bfloat16
    return (array.float() if is_half else array).detach().numpy()


def _is_tensor(array: Any) -> bool:
    return hasattr(array, "detach")  # torch is not imported here


def _require_finite(is_finite: bool, name: str) -> None:
    if not is_finite:
        raise ValueError(f"{name}: a heatmap with NaN or infinity; expected a finite number per pixel")
