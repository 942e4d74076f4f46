"""Transplants a region of one radiograph, the donor, into the same region of another (HEAL-MedVQA, section 3.1, VPT).

The paper says that the region of a donor is "resized and blended onto" the target, and no more. Here: the donor's
region is scaled so that its box covers the target's (Pillow, bilinear); each row is stretched so that the donor's
region, from its first to its last pixel, fills the target's; grey levels are matched linearly, and the result is laid
over the target through a feathered mask. The same input gives the same bytes.

Levels are matched on what surrounds both regions: matched on the regions themselves, the brightness of the target's
disease would return with them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageChops, ImageFilter

from ...loaders import rle
from ...loaders.rle import Box

FEATHER = 0.03  # of the square root of the area of the region's box
SURROUNDINGS = 0.3  # width of the ring on which grey levels are matched, of the same length
LIKENESS = 2  # columns of difference between spans that are worth one row
SAMPLES = 64  # points of the ring's box along each side
GAIN = (0.5, 2.0)  # least and most contrast that matching gives the donor
DROPPED = 0.25  # share of the points, those that agree least, that matching leaves out
ROUNDS = 3


def transplant(
    target: np.ndarray,
    region: Mapping[str, Any],
    donor: np.ndarray,
    donor_region: Mapping[str, Any],
    feather: int | None = None,
) -> np.ndarray:
    """The target with its region replaced by the donor's.

    Args:
        target: uint8 (h, w) or (h, w, 3).
        region: RLE of the target's size; all of it will show the donor.
        donor: uint8 (h, w) or (h, w, 3), of any size.
        donor_region: RLE of the donor's size.
        feather: pixels over which the donor fades out around the region; by default FEATHER of the region's box.

    Returns an array like `target`. Where a pixel is further than `feather` rows and columns from the region, it is
    the target's. Raises ValueError for an empty region, or one whose size is not its image's.
    """
    box, mask = _box_and_mask(target, region, "target")
    donor_box, donor_mask = _box_and_mask(donor, donor_region, "donor")
    feather = max(1, round(FEATHER * _side(box))) if feather is None else feather
    if feather < 0:
        raise ValueError(f"feather {feather}; expected 0 or more pixels")
    window = _grown(box, feather, target)
    patch = _cut(target, window)
    is_grey = patch.ndim == 2 or all(np.array_equal(patch[..., 0], patch[..., channel]) for channel in (1, 2))
    below = Image.fromarray(patch[..., 0] if is_grey and patch.ndim == 3 else patch)
    levels = _matching(target, mask, box, donor, donor_mask, donor_box)
    placed = _placed(mask, box, window)
    source = _scaled_donor(donor, donor_box, box, window, "L" if is_grey else "RGB")
    above = _stretched(source, _placed(_fitted(donor_mask, box), box, window), placed)
    blended = _blended(Image.fromarray(above), below, levels, placed, feather)
    result = target.copy()
    _cut(result, window)[...] = np.asarray(blended.convert("RGB" if patch.ndim == 3 else "L"))
    return result


def _box_and_mask(image: np.ndarray, region: Mapping[str, Any], role: str) -> tuple[Box, np.ndarray]:
    """The box of a region, and the region inside it: bool (height, width of the box)."""
    if image.dtype != np.uint8 or image.ndim not in (2, 3) or image.shape[2:] not in ((), (3,)):
        raise ValueError(f"{role} of {image.dtype}, shape {image.shape}; expected uint8 (h, w) or (h, w, 3)")
    try:
        size, box = rle.get_size(region), rle.compute_bounding_box(region)
    except ValueError as error:
        raise ValueError(f"region of the {role}: {error}") from None
    if size != image.shape[:2]:
        raise ValueError(f"{role} of height and width {image.shape[:2]}, its region of {size}; expected the same")
    return box, rle.decode(rle.crop_mask(region, box))


def _grown(box: Box, by: int, image: np.ndarray) -> Box:
    """A box with `by` pixels more on each side, as far as the image goes."""
    x, y, width, height = box
    left, top = max(0, x - by), max(0, y - by)
    right, bottom = min(image.shape[1], x + width + by), min(image.shape[0], y + height + by)
    return left, top, right - left, bottom - top


def _cut(image: np.ndarray, box: Box) -> np.ndarray:
    x, y, width, height = box
    return image[y : y + height, x : x + width]


def _scaled_donor(donor: np.ndarray, donor_box: Box, box: Box, window: Box, mode: str) -> np.ndarray:
    """The donor on the window, scaled so that its region's box falls on the target's.

    What the window shows beyond the donor's edge repeats the edge.
    """
    first, last, pad = [], [], []
    for axis, length in ((0, donor.shape[1]), (1, donor.shape[0])):
        scale = donor_box[2 + axis] / box[2 + axis]
        first.append(donor_box[axis] + (window[axis] - box[axis]) * scale)
        last.append(first[-1] + window[2 + axis] * scale)
        pad.append((max(0, math.ceil(-first[-1])), max(0, math.ceil(last[-1] - length))))
    if pad != [(0, 0), (0, 0)]:
        sides = [pad[1], pad[0], (0, 0)]
        donor = np.pad(donor, sides[: donor.ndim], mode="edge")
    x, y = (math.floor(edge + before) for edge, (before, _) in zip(first, pad, strict=True))
    right, bottom = (math.ceil(edge + before) for edge, (before, _) in zip(last, pad, strict=True))
    cut = Image.fromarray(donor[y:bottom, x:right]).convert(mode)
    edges = (first[0] + pad[0][0] - x, first[1] + pad[1][0] - y, last[0] + pad[0][0] - x, last[1] + pad[1][0] - y)
    inside = (max(0, edges[0]), max(0, edges[1]), min(cut.width, edges[2]), min(cut.height, edges[3]))
    return np.asarray(cut.resize(window[2:], Image.Resampling.BILINEAR, box=inside))


def _fitted(donor_mask: np.ndarray, box: Box) -> np.ndarray:
    """The donor's region scaled to a box; all of the box where scaling down loses every pixel of it."""
    scaled = Image.fromarray(donor_mask.view(np.uint8)).resize(box[2:], Image.Resampling.NEAREST)
    mask = np.asarray(scaled).view(bool)
    return mask if mask.any() else np.ones_like(mask)


def _placed(mask: np.ndarray, box: Box, window: Box) -> np.ndarray:
    """The mask of a box in the window around it."""
    x, y = box[0] - window[0], box[1] - window[1]
    wide = np.zeros((window[3], window[2]), dtype=bool)
    wide[y : y + box[3], x : x + box[2]] = mask
    return wide


def _matching(
    target: np.ndarray, mask: np.ndarray, box: Box, donor: np.ndarray, donor_mask: np.ndarray, donor_box: Box
) -> np.ndarray:
    """uint8 (256,): the donor's grey levels -> the target's, by mean and spread of what surrounds the regions.

    The surroundings are compared point by point, and the points that agree least are dropped and the rest matched
    again: a finding beside the region in one of the images must not shift the levels.
    """
    points, donor_points = [], []
    margin = SURROUNDINGS * _side(box)
    for axis, (length, donor_length) in enumerate(zip(target.shape[1::-1], donor.shape[1::-1], strict=True)):
        at = np.linspace(box[axis] - margin, box[axis] + box[2 + axis] + margin, SAMPLES)
        donor_at = donor_box[axis] + (at - box[axis]) * donor_box[2 + axis] / box[2 + axis]
        seen = (at >= 0) & (at < length) & (donor_at >= 0) & (donor_at < donor_length)
        points.append(at[seen].astype(int))
        donor_points.append(donor_at[seen].astype(int))
    around = ~_inside(mask, box, *points) & ~_inside(donor_mask, donor_box, *donor_points)
    ours, theirs = (_grey(image, *at)[around] for image, at in ((target, points), (donor, donor_points)))
    gain, shift, kept = 1.0, 0.0, np.ones(ours.size, dtype=bool)
    for _ in range(ROUNDS if ours.size else 0):
        spread, their_spread = ours[kept].std(), theirs[kept].std()
        gain = float(np.clip(spread / their_spread, *GAIN)) if spread and their_spread else 1.0
        shift = ours[kept].mean() - gain * theirs[kept].mean()
        apart = np.abs(ours - gain * theirs - shift)
        kept = apart <= np.quantile(apart, 1 - DROPPED)
    return np.rint(gain * np.arange(256.0) + shift).clip(0, 255).astype(np.uint8)


def _inside(mask: np.ndarray, box: Box, columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Which points of a grid on the image are set in the mask of a box: bool (rows, columns)."""
    x, y, width, height = box
    at = np.ix_((rows - y).clip(0, height - 1), (columns - x).clip(0, width - 1))
    return mask[at] & ((rows >= y) & (rows < y + height))[:, None] & (columns >= x) & (columns < x + width)


def _grey(image: np.ndarray, columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Grey levels of a grid of points: float (rows, columns)."""
    pixels = image[np.ix_(rows, columns)]
    return pixels.astype(np.float64) if pixels.ndim == 2 else pixels.mean(axis=2)


def _side(box: Box) -> float:
    return math.sqrt(box[2] * box[3])


@dataclass(frozen=True, slots=True)
class _Spans:
    """Where the pixels of each row (h,) of a mask begin and end; an empty row has those of the nearest other one."""

    nearest: np.ndarray
    left: np.ndarray
    right: np.ndarray

    @classmethod
    def of(cls, mask: np.ndarray) -> _Spans:
        filled = np.flatnonzero(mask.any(axis=1))
        left, right = mask[filled].argmax(axis=1), mask.shape[1] - mask[filled, ::-1].argmax(axis=1)
        which = np.searchsorted((filled[:-1] + filled[1:] + 1) // 2, np.arange(len(mask)), side="right")
        return cls(filled[which], left[which], right[which])


def _donor_rows(donor: _Spans, target: _Spans) -> np.ndarray:
    """The row of the donor for each row of the target (h,).

    It is the same row, or one within a tenth of the height whose span is more like the target's, each row away costing
    as much as LIKENESS columns. So outlines that differ, such as those of lungs over a higher or a lower diaphragm,
    meet where they widen and narrow. Above and below the region, rows follow one by one.
    """
    rows = np.arange(len(target.nearest))
    steps = np.arange(-(len(rows) // 10), len(rows) // 10 + 1)
    near = (rows[:, None] + steps).clip(0, rows[-1])
    unlike = abs(donor.left[near] - target.left[:, None]) + abs(donor.right[near] - target.right[:, None])
    row = donor.nearest[near[rows, (unlike + LIKENESS * abs(steps)).argmin(axis=1)]]
    first, last = target.nearest[[0, -1]]
    row[:first] = row[first] + rows[:first] - first
    row[last + 1 :] = row[last] + rows[last + 1 :] - last
    return row.clip(0, rows[-1])


def _stretched(source: np.ndarray, donor_mask: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Each row of `source` (h, w[, 3]) moved so that its span in `donor_mask` (h, w) fills that in `mask` (h, w).

    Inside the span only the donor's span is used; outside, the row goes on at the same scale. Pixels are the nearest.
    """
    target, donor = _Spans.of(mask), _Spans.of(donor_mask)
    row = _donor_rows(donor, target)
    left, right, donor_left, donor_right = target.left, target.right, donor.left[row], donor.right[row]
    scale = (donor_right - donor_left) / (right - left)
    start = donor_left - (left - 0.5) * scale
    at = np.arange(mask.shape[1], dtype=np.float32) * scale.astype(np.float32)[:, None]
    at += start.astype(np.float32)[:, None]
    index = at.clip(0, mask.shape[1] - 1, out=at).astype(np.intp)
    index += (row * mask.shape[1])[:, None]
    return source.reshape(-1, *source.shape[2:]).take(index, axis=0)


def _blended(above: Image.Image, below: Image.Image, levels: np.ndarray, mask: np.ndarray, feather: int) -> Image.Image:
    """`above` at the target's levels where the mask is set, fading into `below` over `feather` pixels around it."""
    cover = Image.fromarray(mask.view(np.uint8) * np.uint8(255))
    if feather:
        # Half of a box blur's weight lies on either side of a straight edge: doubled, it falls from 1 to 0 outside.
        faded = cover.filter(ImageFilter.BoxBlur(feather)).point([min(255, 2 * weight) for weight in range(256)])
        cover = ImageChops.lighter(cover, faded)
    matched = above.point(levels.tolist() * len(above.getbands()))
    return Image.composite(matched, below, cover)
