"""Transplantation of a region of one radiograph, the donor, into the same region of another (HEAL-MedVQA, 3.1, VPT).

The paper says only that the donor's region is "resized and blended onto" the target. Here, the donor's region is scaled
until its box covers the target's box (Pillow, bilinear). Each row is stretched until the donor's region, from its first
to its last pixel, fills the target's. Grey levels are matched linearly, and the result is put on the target through a
feathered mask. The same input gives the same bytes.

Levels are matched on the surroundings of both regions. Matched on the regions themselves, the brightness of the
target's disease would return with them.
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

FEATHER = 0.03  # width of the fade, in square roots of the area of the region's box
SURROUNDINGS = 0.3  # width of the ring on which grey levels are matched, in the same unit
LIKENESS = 2  # cost of one row, in columns of difference between spans
SAMPLES = 64  # points of the ring's box along each side
GAIN = (0.5, 2.0)  # smallest and largest gain of the donor's contrast
DROPPED = 0.25  # share of the points with the worst agreement, which matching drops
ROUNDS = 3


def transplant(
    target: np.ndarray,
    region: Mapping[str, Any],
    donor: np.ndarray,
    donor_region: Mapping[str, Any],
    feather: int | None = None,
) -> np.ndarray:
    """Replace the target's region by the donor's region.

    Args:
        target: Uint8 (h, w) or (h, w, 3).
        region: RLE of the target's size. All of it will show the donor.
        donor: Uint8 (h, w) or (h, w, 3), of any size.
        donor_region: RLE of the donor's size.
        feather: Pixels over which the donor fades out around the region; by default FEATHER of the region's box.

    Returns:
        An array like `target`. A pixel that is further than `feather` rows and columns from the region is unchanged.

    Raises:
        ValueError: A region is empty, or has another size than its image.
    """
    box, mask = _read_box_and_mask(target, region, "target")
    donor_box, donor_mask = _read_box_and_mask(donor, donor_region, "donor")
    feather = max(1, round(FEATHER * _compute_side(box))) if feather is None else feather
    if feather < 0:
        raise ValueError(f"feather {feather}; expected 0 or more pixels")
    window = _pad_box(box, feather, target)
    patch = _crop(target, window)
    is_grey = patch.ndim == 2 or all(np.array_equal(patch[..., 0], patch[..., channel]) for channel in (1, 2))
    below = Image.fromarray(patch[..., 0] if is_grey and patch.ndim == 3 else patch)
    levels = _match_levels(target, mask, box, donor, donor_mask, donor_box)
    placed = _put_mask(mask, box, window)
    source = _resize_donor(donor, donor_box, box, window, "L" if is_grey else "RGB")
    above = _stretch_rows(source, _put_mask(_fit_mask(donor_mask, box), box, window), placed)
    blended = _blend(Image.fromarray(above), below, levels, placed, feather)
    result = target.copy()
    _crop(result, window)[...] = np.asarray(blended.convert("RGB" if patch.ndim == 3 else "L"))
    return result


def _read_box_and_mask(image: np.ndarray, region: Mapping[str, Any], role: str) -> tuple[Box, np.ndarray]:
    """Read the box of a region, and the region inside it: bool (height, width of the box)."""
    if image.dtype != np.uint8 or image.ndim not in (2, 3) or image.shape[2:] not in ((), (3,)):
        raise ValueError(f"{role} of {image.dtype}, shape {image.shape}; expected uint8 (h, w) or (h, w, 3)")
    try:
        size, box = rle.get_size(region), rle.compute_bounding_box(region)
    except ValueError as error:
        raise ValueError(f"region of the {role}: {error}") from None
    if size != image.shape[:2]:
        raise ValueError(f"{role} of height and width {image.shape[:2]}, its region of {size}; expected the same")
    return box, rle.decode(rle.crop_mask(region, box))


def _pad_box(box: Box, margin: int, image: np.ndarray) -> Box:
    """Pad a box by `margin` pixels on each side, within the image."""
    x, y, width, height = box
    x0, y0 = max(0, x - margin), max(0, y - margin)
    x1, y1 = min(image.shape[1], x + width + margin), min(image.shape[0], y + height + margin)
    return x0, y0, x1 - x0, y1 - y0


def _crop(image: np.ndarray, box: Box) -> np.ndarray:
    x, y, width, height = box
    return image[y : y + height, x : x + width]


def _resize_donor(donor: np.ndarray, donor_box: Box, box: Box, window: Box, mode: str) -> np.ndarray:
    """Resize the donor to the window: its region's box falls on the target's box.

    Pixels beyond the donor's edge repeat the edge.
    """
    starts, ends, pad = [], [], []
    for axis, length in ((0, donor.shape[1]), (1, donor.shape[0])):
        scale = donor_box[2 + axis] / box[2 + axis]
        starts.append(donor_box[axis] + (window[axis] - box[axis]) * scale)
        ends.append(starts[-1] + window[2 + axis] * scale)
        pad.append((max(0, math.ceil(-starts[-1])), max(0, math.ceil(ends[-1] - length))))
    if pad != [(0, 0), (0, 0)]:
        sides = [pad[1], pad[0], (0, 0)]
        donor = np.pad(donor, sides[: donor.ndim], mode="edge")
    x, y = (math.floor(edge + before) for edge, (before, _) in zip(starts, pad, strict=True))
    right, bottom = (math.ceil(edge + before) for edge, (before, _) in zip(ends, pad, strict=True))
    cut = Image.fromarray(donor[y:bottom, x:right]).convert(mode)
    edges = (starts[0] + pad[0][0] - x, starts[1] + pad[1][0] - y, ends[0] + pad[0][0] - x, ends[1] + pad[1][0] - y)
    inside = (max(0, edges[0]), max(0, edges[1]), min(cut.width, edges[2]), min(cut.height, edges[3]))
    return np.asarray(cut.resize(window[2:], Image.Resampling.BILINEAR, box=inside))


def _fit_mask(donor_mask: np.ndarray, box: Box) -> np.ndarray:
    """Resize the donor's mask to a box. If scaling loses every pixel, the mask is the full box."""
    scaled = Image.fromarray(donor_mask.view(np.uint8)).resize(box[2:], Image.Resampling.NEAREST)
    mask = np.asarray(scaled).view(bool)
    return mask if mask.any() else np.ones_like(mask)


def _put_mask(mask: np.ndarray, box: Box, window: Box) -> np.ndarray:
    """Put the mask of a box into the window around it."""
    x, y = box[0] - window[0], box[1] - window[1]
    wide = np.zeros((window[3], window[2]), dtype=bool)
    wide[y : y + box[3], x : x + box[2]] = mask
    return wide


def _match_levels(
    target: np.ndarray, mask: np.ndarray, box: Box, donor: np.ndarray, donor_mask: np.ndarray, donor_box: Box
) -> np.ndarray:
    """Match the donor's grey levels to the target's, by mean and spread of the regions' surroundings.

    The surroundings are compared point by point. The points with the worst agreement are dropped, and the other points
    are matched again, because a finding next to the region in one of the images must not shift the levels.

    Returns:
        Uint8 (256,): the target's level for each level of the donor.
    """
    points, donor_points = [], []
    margin = SURROUNDINGS * _compute_side(box)
    for axis, (length, donor_length) in enumerate(zip(target.shape[1::-1], donor.shape[1::-1], strict=True)):
        at = np.linspace(box[axis] - margin, box[axis] + box[2 + axis] + margin, SAMPLES)
        donor_at = donor_box[axis] + (at - box[axis]) * donor_box[2 + axis] / box[2 + axis]
        visible = (at >= 0) & (at < length) & (donor_at >= 0) & (donor_at < donor_length)
        points.append(at[visible].astype(int))
        donor_points.append(donor_at[visible].astype(int))
    around = ~_select_inside(mask, box, *points) & ~_select_inside(donor_mask, donor_box, *donor_points)
    target_levels, donor_levels = (
        _sample_grey(image, *at)[around] for image, at in ((target, points), (donor, donor_points))
    )
    gain, shift, is_used = 1.0, 0.0, np.ones(target_levels.size, dtype=bool)
    for _ in range(ROUNDS if target_levels.size else 0):
        spread, donor_spread = target_levels[is_used].std(), donor_levels[is_used].std()
        gain = float(np.clip(spread / donor_spread, *GAIN)) if spread and donor_spread else 1.0
        shift = target_levels[is_used].mean() - gain * donor_levels[is_used].mean()
        differences = np.abs(target_levels - gain * donor_levels - shift)
        is_used = differences <= np.quantile(differences, 1 - DROPPED)
    return np.rint(gain * np.arange(256.0) + shift).clip(0, 255).astype(np.uint8)


def _select_inside(mask: np.ndarray, box: Box, columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return which points of a grid on the image are set in the mask of a box: bool (rows, columns)."""
    x, y, width, height = box
    at = np.ix_((rows - y).clip(0, height - 1), (columns - x).clip(0, width - 1))
    return mask[at] & ((rows >= y) & (rows < y + height))[:, None] & (columns >= x) & (columns < x + width)


def _sample_grey(image: np.ndarray, columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Sample the grey levels of a grid of points: float (rows, columns)."""
    pixels = image[np.ix_(rows, columns)]
    return pixels.astype(np.float64) if pixels.ndim == 2 else pixels.mean(axis=2)


def _compute_side(box: Box) -> float:
    return math.sqrt(box[2] * box[3])


@dataclass(frozen=True, slots=True)
class _Spans:
    """Start and end of the pixels of each row (h,) of a mask. An empty row has the span of the nearest filled row."""

    nearest: np.ndarray
    start: np.ndarray
    end: np.ndarray

    @classmethod
    def from_mask(cls, mask: np.ndarray) -> _Spans:
        """Compute the spans of a mask."""
        filled = np.flatnonzero(mask.any(axis=1))
        start, end = mask[filled].argmax(axis=1), mask.shape[1] - mask[filled, ::-1].argmax(axis=1)
        which = np.searchsorted((filled[:-1] + filled[1:] + 1) // 2, np.arange(len(mask)), side="right")
        return cls(filled[which], start[which], end[which])


def _match_rows(donor: _Spans, target: _Spans) -> np.ndarray:
    """Match each row of the target (h,) with a row of the donor.

    The match is the same row, or one within a tenth of the height whose span is more similar to the target's. Each row
    of distance costs LIKENESS columns. Different outlines, such as lungs over a higher or a lower diaphragm, therefore
    meet where they widen and narrow. Above and below the region, rows follow one by one.
    """
    rows = np.arange(len(target.nearest))
    steps = np.arange(-(len(rows) // 10), len(rows) // 10 + 1)
    near = (rows[:, None] + steps).clip(0, rows[-1])
    differences = abs(donor.start[near] - target.start[:, None]) + abs(donor.end[near] - target.end[:, None])
    row = donor.nearest[near[rows, (differences + LIKENESS * abs(steps)).argmin(axis=1)]]
    top, bottom = target.nearest[[0, -1]]
    row[:top] = row[top] + rows[:top] - top
    row[bottom + 1 :] = row[bottom] + rows[bottom + 1 :] - bottom
    return row.clip(0, rows[-1])


def _stretch_rows(source: np.ndarray, donor_mask: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Stretch each row of `source` (h, w[, 3]) until its span in `donor_mask` (h, w) fills its span in `mask` (h, w).

    Inside the span only the donor's span is used. Outside, the row continues at the same scale. Pixels are the nearest.
    """
    target, donor = _Spans.from_mask(mask), _Spans.from_mask(donor_mask)
    row = _match_rows(donor, target)
    target_start, target_end, donor_start, donor_end = target.start, target.end, donor.start[row], donor.end[row]
    scale = (donor_end - donor_start) / (target_end - target_start)
    origin = donor_start - (target_start - 0.5) * scale
    at = np.arange(mask.shape[1], dtype=np.float32) * scale.astype(np.float32)[:, None]
    at += origin.astype(np.float32)[:, None]
    index = at.clip(0, mask.shape[1] - 1, out=at).astype(np.intp)
    index += (row * mask.shape[1])[:, None]
    return source.reshape(-1, *source.shape[2:]).take(index, axis=0)


def _blend(above: Image.Image, below: Image.Image, levels: np.ndarray, mask: np.ndarray, feather: int) -> Image.Image:
    """Blend `above`, at the target's levels where the mask is set, into `below` over `feather` pixels around it."""
    cover = Image.fromarray(mask.view(np.uint8) * np.uint8(255))
    if feather:
        # A box blur puts half of its weight on either side of a straight edge. Doubled, it falls from 1 to 0 outside.
        faded = cover.filter(ImageFilter.BoxBlur(feather)).point([min(255, 2 * weight) for weight in range(256)])
        cover = ImageChops.lighter(cover, faded)
    matched = above.point(levels.tolist() * len(above.getbands()))
    return Image.composite(matched, below, cover)
