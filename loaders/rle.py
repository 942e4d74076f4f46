"""Masks as COCO run-length encodings: made, read, scaled and intersected at their own size, without a large mask.

An RLE is `{"size": [height, width], "counts": str}`: the lengths of the runs of 0 and 1 in turn, down the columns from
the top left, compressed to text as the COCO tools do. pycocotools trusts its input and fails silently, or worse, where
the runs do not fill the size, so each RLE is parsed and checked here before the library sees it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypedDict, TypeVar

import numpy as np
from pycocotools import mask as coco

MAX_PIXELS = 2**31 - 1  # the library counts pixels in 32 bits
MAX_CHARACTERS = 7  # of one run, 5 bits each

Arrays = TypeVar("Arrays", bound=tuple[np.ndarray, ...])
Size = tuple[int, int]
Box = tuple[int, int, int, int]


class Rle(TypedDict):
    """size: [height, width]. counts: compressed, as text."""

    size: list[int]
    counts: str


def encode(mask: np.ndarray) -> Rle:
    """The RLE of a mask (h, w); what is not 0 is set."""
    if mask.ndim != 2 or not mask.size:
        raise ValueError(f"a mask of shape {mask.shape}; expected (height, width)")
    return _text(coco.encode(np.asfortranarray(mask, dtype=bool).view(np.uint8)))


def decode(rle: Mapping[str, Any]) -> np.ndarray:
    """The mask of an RLE: bool (h, w), columns contiguous in memory. Raises ValueError as `checked` does."""
    return coco.decode(_library(rle)).view(bool)


def checked(rle: Mapping[str, Any]) -> Rle:
    """The RLE as this module writes it: compressed text without empty runs inside.

    `counts` may be compressed (str or bytes) or a sequence of run lengths. Raises ValueError with the reason where the
    size is not two positive integers, or the counts are damaged or do not add up to height x width.
    """
    size, counts = size_of(rle), rle.get("counts")
    if isinstance(counts, str):
        return {"size": list(size), "counts": _checked_text(counts, size)}
    return _from_spans(*_spans(rle), size)


def size_of(rle: Mapping[str, Any]) -> Size:
    """(height, width) of an RLE. Raises ValueError where it has none."""
    size = rle.get("size") if isinstance(rle, Mapping) else None
    numbers = size if isinstance(size, Sequence | np.ndarray) and not isinstance(size, str | bytes) else ()
    if len(numbers) != 2 or not all(isinstance(n, int | np.integer) and n > 0 for n in numbers):
        raise ValueError(f"size {size!r}; expected [height, width], both positive integers")
    height, width = (int(n) for n in numbers)
    if height * width > MAX_PIXELS:
        raise ValueError(f"size {height} x {width} is more than {MAX_PIXELS} pixels")
    return height, width


def area(rle: Mapping[str, Any]) -> int:
    """The number of set pixels."""
    starts, stops = _spans(rle)
    return int((stops - starts).sum())


def bounding_box(rle: Mapping[str, Any]) -> Box:
    """(x, y, width, height) of the tightest box around the set pixels. Raises ValueError where there are none."""
    column, top, bottom = _column_spans(rle)
    if not column.size:
        raise ValueError("an empty mask has no box")
    x, y = int(column[0]), int(top.min())
    return x, y, int(column[-1]) + 1 - x, int(bottom.max()) - y


def union(rles: Sequence[Mapping[str, Any]]) -> Rle:
    """The pixels that are set in any of the RLEs, all of one size."""
    _one_size(rles)
    return _text(coco.merge([_library(rle) for rle in rles]))


def rows(rle: Mapping[str, Any], first: int, stop: int) -> Rle:
    """The mask with every row outside first .. stop - 1 cleared; the size stays."""
    column, top, bottom = _column_spans(rle)
    top, bottom = top.clip(first, stop), bottom.clip(first, stop)
    return _from_columns(column, top, bottom, size_of(rle))


def cropped(rle: Mapping[str, Any], box: Box) -> Rle:
    """The part of the mask inside a box (x, y, width, height) that lies within it; its size is the box's."""
    x, y, width, height = box
    column, top, bottom = _column_spans(rle)
    inside = (column >= x) & (column < x + width)
    top, bottom = (edge[inside].clip(y, y + height) - y for edge in (top, bottom))
    return _from_columns(column[inside] - x, top, bottom, (height, width))


def scaled(mask: np.ndarray | Mapping[str, Any], size: Size) -> Rle:
    """A mask (h, w) or an RLE scaled to (height, width) by nearest neighbour.

    Pixel i of `height` takes the source pixel that its centre falls into, floor((i + 1/2) * h / height), and so along
    the width. Only the ends of the runs are moved: the large mask is never made.
    """
    small = encode(mask) if isinstance(mask, np.ndarray) else mask
    (h, w), (height, width) = size_of(small), size_of({"size": size})
    if (h, w) == (height, width):
        return checked(small)
    row_edges = np.searchsorted(_sources(h, height), np.arange(h + 1))
    column, top, bottom = _column_spans(small)
    top, bottom = row_edges[top], row_edges[bottom]
    first_span = np.searchsorted(column, np.arange(w + 1))  # of each source column; the spans are in order of columns
    source = _sources(w, width)
    spans_here = np.diff(first_span)[source]
    chosen = _ranges(first_span[source], spans_here)
    target = np.repeat(np.arange(width), spans_here)
    return _from_columns(target, top[chosen], bottom[chosen], (height, width))


def from_boxes(xywh: np.ndarray, size: Size) -> list[Rle]:
    """One RLE a box. xywh: float (n, 4), pixels from the top-left corner of the image; size: (height, width).

    A pixel is inside where its centre is: x <= column + 1/2 < x + width. Whole-numbered boxes are exact; what lies
    outside the image is cut off; a box that is narrower than a pixel may hold no centre.
    """
    height, width = size
    boxes = np.asarray(xywh, dtype=np.float64).reshape(-1, 4)
    if not np.isfinite(boxes).all():
        raise ValueError("a box with a coordinate that is not a finite number")
    first = np.ceil(boxes[:, :2] - 0.5).clip(0, (width, height)).astype(np.int64)
    stop = np.ceil(boxes[:, :2] + boxes[:, 2:] - 0.5).clip(0, (width, height)).astype(np.int64)
    rles = []
    for (left, top), (right, bottom) in zip(first, stop, strict=True):
        column = np.arange(left, right)
        rles.append(_from_columns(column, np.full_like(column, top), np.full_like(column, bottom), size))
    return rles


def overlaps(boxes: Sequence[Mapping[str, Any]], regions: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """The number of pixels that each of n boxes (as RLEs) shares with each of m regions: float64 (n, m), exact.

    Raises ValueError where the RLEs are not all of one size.
    """
    if not boxes or not regions:
        return np.zeros((len(boxes), len(regions)))
    _one_size([*boxes, *regions])
    # The library divides the intersection by the area of the first mask where the second one is a crowd.
    shares = coco.iou([_library(b) for b in boxes], [_library(r) for r in regions], [1] * len(regions))
    return np.rint(np.asarray(shares) * np.array([[area(b)] for b in boxes]))


def _one_size(rles: Sequence[Mapping[str, Any]]) -> None:
    sizes = sorted({size_of(rle) for rle in rles})
    if len(sizes) != 1:
        raise ValueError(f"masks of different sizes (height, width): {', '.join(map(str, sizes)) or 'none at all'}")


def _library(rle: Mapping[str, Any]) -> Any:
    """A checked RLE; the library's type says bytes for its counts, and it takes text as well."""
    return checked(rle)


def _text(rle: Mapping[str, Any]) -> Rle:
    return {"size": [int(n) for n in rle["size"]], "counts": rle["counts"].decode("ascii")}


def _sources(count: int, scaled_count: int) -> np.ndarray:
    """The source pixel of each scaled pixel, in whole numbers."""
    return (2 * np.arange(scaled_count) + 1) * count // (2 * scaled_count)


def _ranges(first: np.ndarray, count: np.ndarray) -> np.ndarray:
    """first[0], first[0] + 1, ... (count[0] of them), then first[1], ..."""
    return np.repeat(first - (np.cumsum(count) - count), count) + np.arange(count.sum())


def _spans(rle: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Where each run of set pixels starts and stops, as positions down the columns; empty runs are left out."""
    size, counts = size_of(rle), rle.get("counts")
    if isinstance(counts, str):
        return _spans_of_text(counts, size)
    return _spans_of_runs(_decompressed(counts) if isinstance(counts, bytes) else _run_lengths(counts), size)


# A build asks several things of each of an image's few masks: the last ones stay parsed.
@lru_cache(maxsize=64)
def _spans_of_text(counts: str, size: Size) -> tuple[np.ndarray, np.ndarray]:
    return _fixed(_spans_of_runs(_decompressed(counts), size))


@lru_cache(maxsize=64)
def _checked_text(counts: str, size: Size) -> str:
    return _from_spans(*_spans_of_text(counts, size), size)["counts"]


def _fixed(arrays: Arrays) -> Arrays:
    """The same arrays, which nobody can change from now on."""
    for one in arrays:
        one.flags.writeable = False
    return arrays


def _spans_of_runs(runs: np.ndarray, size: Size) -> tuple[np.ndarray, np.ndarray]:
    height, width = size
    if (runs < 0).any():
        raise ValueError("counts that hold a negative run")
    edges = np.cumsum(runs)
    if not edges.size or edges[-1] != height * width:
        total = int(edges[-1]) if edges.size else 0
        raise ValueError(f"counts of {total} pixels; expected {height} x {width} = {height * width}")
    stops = edges[1::2]
    starts = edges[0::2][: len(stops)]
    kept = stops > starts
    return starts[kept], stops[kept]


def _run_lengths(counts: Any) -> np.ndarray:
    try:
        runs = np.asarray(counts)
    except ValueError:
        runs = np.empty(0)
    if runs.ndim != 1 or runs.dtype.kind not in "iu" or (runs > MAX_PIXELS).any():
        raise ValueError(f"counts of type {type(counts).__name__}; expected compressed text or a list of run lengths")
    return runs.astype(np.int64)


def _decompressed(counts: str | bytes) -> np.ndarray:
    """Run lengths of a compressed text: each run in groups of 5 bits, from the third on as a difference."""
    try:
        raw = counts.encode("ascii") if isinstance(counts, str) else counts
    except UnicodeEncodeError:
        raise ValueError("counts that hold a character outside the code") from None
    codes = np.frombuffer(raw, dtype=np.uint8).astype(np.int64) - 48
    if codes.size and not 0 <= codes.min() <= codes.max() < 64:
        raise ValueError("counts that hold a character outside the code")
    last = np.flatnonzero(codes < 32)  # bit 5 says that the run goes on
    if not last.size or last[-1] != len(codes) - 1:
        raise ValueError("counts that break off within a run" if codes.size else "counts that are empty")
    first = np.concatenate([[0], last[:-1] + 1])
    length = last - first + 1
    if length.max() > MAX_CHARACTERS:
        raise ValueError("counts that hold a run too long for any image")
    shift = 5 * (np.arange(len(codes)) - np.repeat(first, length))
    runs = np.add.reduceat((codes & 31) << shift, first)
    runs -= np.where(codes[last] & 16, 1, 0) << (5 * length)  # bit 4 of the last group is the sign
    runs[1::2] = np.cumsum(runs[1::2])
    runs[2::2] = np.cumsum(runs[2::2])
    return runs


def _column_spans(rle: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The runs of set pixels, cut at the columns' ends: column, first row and row after the last, in order."""
    size, counts = size_of(rle), rle.get("counts")
    return _columns_of_text(counts, size) if isinstance(counts, str) else _cut(*_spans(rle), size[0])


@lru_cache(maxsize=64)
def _columns_of_text(counts: str, size: Size) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return _fixed(_cut(*_spans_of_text(counts, size), size[0]))


def _cut(starts: np.ndarray, stops: np.ndarray, height: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    first = starts // height
    columns = (stops - 1) // height - first + 1
    column = _ranges(first, columns)
    top = np.maximum(np.repeat(starts, columns) - column * height, 0)
    bottom = np.minimum(np.repeat(stops, columns) - column * height, height)
    return column, top, bottom


def _from_columns(column: np.ndarray, top: np.ndarray, bottom: np.ndarray, size: Size) -> Rle:
    return _from_spans(column * size[0] + top, column * size[0] + bottom, size)


def _from_spans(starts: np.ndarray, stops: np.ndarray, size: Size) -> Rle:
    """The RLE of runs in order of their positions; empty ones are dropped, those that touch are joined."""
    kept = stops > starts
    starts, stops = starts[kept], stops[kept]
    apart = starts[1:] > stops[:-1]
    height, width = size
    edges = np.zeros(2 + 2 * (int(apart.sum()) + bool(starts.size)), dtype=np.int64)  # and the mask's two ends
    edges[-1] = height * width
    if starts.size:
        edges[1:-1:2] = starts[np.concatenate([[True], apart])]
        edges[2:-1:2] = stops[np.concatenate([apart, [True]])]
    runs = edges[1:] - edges[:-1]
    if starts.size and not runs[-1]:
        runs = runs[:-1]
    return _text(coco.frPyObjects({"size": [height, width], "counts": runs.tolist()}, height, width))
