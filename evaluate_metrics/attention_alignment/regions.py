"""The attention region of a heatmap (SurgXBench, equation 1) and the shares of it that lie in boxes and in motion.

A heatmap L has one number a pixel. Its region is where L >= quantile(L, 1 - top_fraction) and L > 0, with the linear
quantile of numpy; the paper's text and appendix C.1 take the top 20 % (its formula, read with tau = 0.8, would keep
80 %). A map whose values are all equal, or of which none is positive, has no region: it is degenerate. `L > 0` is not
in the paper: where less than the top fraction is positive, equation 1 as it stands keeps pixels without attention, too.

Batches are numpy or torch arrays (n, height, width). Tensors on a device stay there; only a few numbers a map leave it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .boxes import Rectangle, disjoint, pixel_rectangles

_LATTICE = 8  # every 8th pixel of every 8th row of a map is looked at first
# Times sqrt(sample size), in ranks: a smooth map seldom needs more than the first; of independent pixels, whose rank
# has a standard deviation of at most 0.5, few need more than the second.
_MARGINS = (0.3, 2)
_BLOCK = 2**17  # values compared at once: they stay in the cache


def attention_region(maps: Any, top_fraction: float = 0.2, *, ids: Sequence[str] | None = None) -> Any:
    """The pixels that hold the model's attention.

    Args:
        maps: (n, height, width), numpy or torch, finite. Half precision is read as float32, whole numbers as float64.
        top_fraction: share of the pixels, in (0, 1]; ties at the threshold are all in.
        ids: n names of the samples, for errors; default: their rows.

    Returns:
        bool (n, height, width), of the same kind and on the same device; nothing is set in a degenerate map.

    Raises:
        ValueError: another shape, or a NaN or infinity; it names the sample.
    """
    given, (maps, names) = maps, _checked(maps, top_fraction, ids)
    if not isinstance(maps, np.ndarray):
        return maps > _device_bounds(maps, top_fraction, names)[:, None, None]
    bounds = [_bound(heatmap, top_fraction, name)[0] for heatmap, name in zip(maps, names, strict=True)]
    region = maps > np.array(bounds, dtype=maps.dtype)[:, None, None]
    return given.new_tensor(region).bool() if _is_tensor(given) else region


def shares_inside(
    maps: Any,
    unions: Sequence[Sequence],
    *,
    motion: Any = None,
    top_fraction: float = 0.2,
    ids: Sequence[str] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shares of each map's region that lie in a union of boxes, or in the motion mask.

    Args:
        maps, top_fraction, ids: as of `attention_region`.
        unions: g lists of n times (k, 4) boxes xywh in pixels (`boxes.pixel_rectangles`); overlaps count once.
        motion: bool (n, height, width), numpy or torch; added to every union.

    Returns:
        shares: float64 (g, n), NaN for a degenerate map.
        degenerate: bool (n,).
        cut: bool (n,), maps with a region from which `L > 0` takes pixels that equation 1 alone would keep.

    Raises:
        ValueError: as `attention_region`; boxes for another number of maps, or a box that is none.
    """
    maps, names = _checked(maps, top_fraction, ids)
    if any(len(union) != len(maps) for union in unions):
        raise ValueError(f"boxes for {[len(union) for union in unions]} maps; expected {len(maps)} each, as maps")
    if motion is not None and tuple(motion.shape) != tuple(maps.shape):
        raise ValueError(f"motion of shape {tuple(motion.shape)}; expected that of the maps, {tuple(maps.shape)}")
    size = maps.shape[1], maps.shape[2]
    rectangles = [
        [disjoint(pixel_rectangles(boxes, size, name)) for boxes, name in zip(union, names, strict=True)]
        for union in unions
    ]
    if isinstance(maps, np.ndarray):
        areas, inside = _counts(maps, rectangles, motion, top_fraction, names)
    else:
        areas, inside = _device_counts(maps, rectangles, motion, top_fraction, names)
    with np.errstate(invalid="ignore"):
        return inside / areas, areas == 0, (areas > 0) & (areas < _fewest(size[0] * size[1], top_fraction))


def _counts(
    maps: np.ndarray, rectangles: list, motion: Any, top_fraction: float, names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Pixels of the regions (n,), and of their parts inside each union (g, n); one map after the other."""
    areas, inside = np.zeros(len(maps)), np.zeros((len(rectangles), len(maps)))
    moving = None if motion is None else np.asarray(motion.cpu() if _is_tensor(motion) else motion, dtype=bool)
    for row, (heatmap, name) in enumerate(zip(maps, names, strict=True)):
        bound, areas[row] = _bound(heatmap, top_fraction, name)
        if moving is not None:
            region = heatmap > bound
            inside[:, row] = np.count_nonzero(region & moving[row])
            remaining, bound = region & ~moving[row], False
        else:
            remaining = heatmap
        parts = {part for union in rectangles for part in union[row]}  # unions share boxes
        found = {part: np.count_nonzero(remaining[_slices(part)] > bound) for part in parts}
        for number, union in enumerate(rectangles):
            inside[number, row] += sum(found[part] for part in union[row])
    return areas, inside


def _slices(rectangle: Rectangle) -> tuple[slice, slice]:
    left, top, right, bottom = rectangle
    return slice(top, bottom), slice(left, right)


def _bound(heatmap: np.ndarray, top_fraction: float, name: str) -> tuple[Any, int]:
    """The number that exactly the pixels of the region exceed, and how many they are; infinity and 0 without any."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _bound_and_area(np.ascontiguousarray(heatmap).reshape(-1), _sample(heatmap), top_fraction, name)


def _bound_and_area(values: np.ndarray, sample: np.ndarray, top_fraction: float, name: str) -> tuple[Any, int]:
    rank, weight = _position(len(values), top_fraction)
    if sample[rank * len(sample) // len(values)] <= 0:
        _require_finite(_finite(values), name)
        positive = int(np.count_nonzero(values > 0))
        if positive < len(values) - rank:  # the value at `rank` is not: all positive ones are from the quantile on
            return (0, positive) if positive else (np.inf, 0)
    start, between = _enclosed(values, sample, rank, name)
    lower, upper = between[rank - start], between[min(rank - start + 1, len(between) - 1)]
    bound = _below(_interpolated(lower, upper, weight))
    area = len(values) - start - int(np.count_nonzero(between <= bound))
    all_equal = area == len(values) and values.min() == values.max()
    return (np.inf, 0) if all_equal or not area else (bound, area)


def _sample(heatmap: np.ndarray) -> np.ndarray:
    """Values on a lattice of a map, sorted."""
    top, left = (min(_LATTICE // 2, side // 2) for side in heatmap.shape)
    return np.sort(heatmap[top::_LATTICE, left::_LATTICE], axis=None)


def _enclosed(values: np.ndarray, sample: np.ndarray, rank: int, name: str) -> tuple[int, np.ndarray]:
    """The sorted values from position `start` on, with those at rank and rank + 1 among them.

    The sample proposes two numbers, and only the values between them are sorted. Counting over all values proves that
    the two positions are among these, so the result does not depend on the sample; where it misled, all are sorted.
    """
    centre = rank * len(sample) / len(values)
    for margin in _MARGINS:
        first = math.floor(centre - margin * math.sqrt(len(sample)) - 1)
        last = math.ceil(centre + margin * math.sqrt(len(sample)) + 1)
        low = sample[first] if first >= 0 else -np.inf
        high = sample[last] if last < len(sample) else np.inf
        start, found = len(values), []
        for at in range(0, len(values), _BLOCK):
            block = values[at : at + _BLOCK]
            _require_finite(_finite(block), name)
            above = block > low
            start -= int(np.count_nonzero(above))
            found.append(block[above & (block < high)])
        between = np.concatenate(found)
        if start <= rank and rank + 1 < start + len(between):
            between.sort()
            return start, between
    return 0, np.sort(values)


def _position(n: int, top_fraction: float) -> tuple[int, float]:
    """Where the quantile lies among n sorted values: how far (weight) from the one at `rank` to the next one."""
    place = (n - 1) * (1 - top_fraction)
    rank = min(math.floor(place), max(n - 2, 0))
    return rank, place - rank


def _fewest(n: int, top_fraction: float) -> int:
    """Of n pixels, how many at least are not below the quantile."""
    rank, weight = _position(n, top_fraction)
    return n - rank - (weight > 0)


def _interpolated(lower: Any, upper: Any, weight: float) -> Any:
    """Between two neighbours, rounded as numpy's quantile rounds."""
    step = upper - lower
    return lower + step * weight if weight < 0.5 else upper - step * (1 - weight)


def _below(threshold: Any) -> Any:
    """The largest number under a threshold, and no negative one: L > that is L >= threshold and L > 0."""
    return np.maximum(np.nextafter(threshold, threshold.dtype.type(-np.inf)), threshold.dtype.type(0))


def _finite(values: np.ndarray) -> bool:
    return math.isfinite(values @ values) or bool(np.isfinite(values).all())  # one pass; it overflows at most


def _device_bounds(maps: Any, top_fraction: float, names: Sequence[str]) -> Any:
    """`_bound` of every map of a tensor (n, height, width): a tensor (n,)."""
    values = maps.reshape(len(maps), -1)
    lowest, highest = values.amin(dim=1), values.amax(dim=1)
    for finite, name in zip((lowest.isfinite() & highest.isfinite()).tolist(), names, strict=True):
        _require_finite(finite, name)
    rank, weight = _position(values.shape[1], top_fraction)
    lower = values.kthvalue(rank + 1, dim=1).values
    larger = values > lower[:, None]
    following = values.where(larger, values.new_tensor(math.inf)).amin(dim=1)
    is_tie = larger.logical_not().sum(dim=1) > rank + 1
    upper = lower.where(is_tie | following.isinf(), following)
    bounds = _below(_interpolated(lower.cpu().numpy(), upper.cpu().numpy(), weight))
    return values.new_tensor(bounds).where((highest > 0) & (lowest < highest), values.new_tensor(math.inf))


def _device_counts(
    maps: Any, rectangles: list, motion: Any, top_fraction: float, names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """`_counts` on a tensor's device: one summed-area table of the batch answers all rectangles."""
    region = maps > _device_bounds(maps, top_fraction, names)[:, None, None]
    areas = region.sum(dim=(1, 2)).cpu().numpy().astype(float)
    inside = np.zeros((len(rectangles), len(maps)))
    if motion is not None:
        moving = (motion.to(region.device) if _is_tensor(motion) else region.new_tensor(motion)).bool()
        inside += (region & moving).sum(dim=(1, 2)).cpu().numpy()
        region = region & moving.logical_not()
    ones = region.int()
    table = ones.new_zeros((len(maps), maps.shape[1] + 1, maps.shape[2] + 1))
    table[:, 1:, 1:] = ones.cumsum(dim=1, dtype=ones.dtype).cumsum(dim=2, dtype=ones.dtype)
    listed = [
        (number, row, *rectangle)
        for number, union in enumerate(rectangles)
        for row, parts in enumerate(union)
        for rectangle in parts
    ]
    if listed:
        corners = np.array(listed, dtype=np.int32)
        _, row, left, top, right, bottom = ones.new_tensor(corners).unbind(dim=1)
        sums = table[row, bottom, right] - table[row, top, right] - table[row, bottom, left] + table[row, top, left]
        np.add.at(inside, (corners[:, 0], corners[:, 1]), sums.cpu().numpy())
    return areas, inside


def _checked(maps: Any, top_fraction: float, ids: Sequence[str] | None) -> tuple[Any, Sequence[str]]:
    """The maps as floats, tensors of the host as arrays, and a name for each."""
    if not 0 < top_fraction <= 1:
        raise ValueError(f"top_fraction {top_fraction}; expected a share of the pixels, more than 0 and at most 1")
    maps = _on_host(maps)
    if not _is_tensor(maps):
        maps = np.asarray(maps)
        if maps.dtype.kind not in "fiub":
            raise ValueError(f"maps of type {maps.dtype}; expected numbers")
        if maps.dtype not in (np.float32, np.float64):
            maps = maps.astype(np.float32 if maps.dtype.kind == "f" else np.float64)
    else:
        maps = maps.detach()
        maps = maps.double() if not maps.is_floating_point() else maps.float() if maps.element_size() < 4 else maps
    if maps.ndim != 3 or 0 in maps.shape[1:]:
        raise ValueError(f"maps of shape {tuple(maps.shape)}; expected (n, height, width)")
    if ids is not None and len(ids) != len(maps):
        raise ValueError(f"{len(ids)} ids for {len(maps)} maps: give one for each")
    return maps, [f"row {row + 1}" for row in range(len(maps))] if ids is None else [str(name) for name in ids]


def _on_host(array: Any) -> Any:
    """A torch tensor of the host as the numpy array that shares its memory; anything else as it is."""
    if not _is_tensor(array) or array.device.type != "cpu":
        return array
    halved = array.is_floating_point() and array.element_size() < 4  # numpy has no bfloat16
    return (array.float() if halved else array).detach().numpy()


def _is_tensor(array: Any) -> bool:
    return hasattr(array, "detach")  # torch is not imported here


def _require_finite(finite: bool, name: str) -> None:
    if not finite:
        raise ValueError(f"{name}: a heatmap with NaN or infinity; expected a finite number a pixel")
