"""Masks as COCO run-length encodings: encode, decode, scale and intersect them without decoding a large mask.

An RLE is `{"size": [height, width], "counts": str}`: the lengths of the runs of 0 and 1 in turn, down the columns from
the top left, compressed to text like the COCO tools. pycocotools trusts its input and fails silently, or worse, if
the runs do not fill the size. Therefore each RLE is parsed and validated before the library sees it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypedDict, TypeVar

import numpy as np
from pycocotools import mask as coco

MAX_PIXELS = 2**31 - 1  # the library counts pixels in 32 bits
MAX_CHARACTERS = 7  # characters of one run, 5 bits each

Arrays = TypeVar("Arrays", bound=tuple[np.ndarray, ...])
Size = tuple[int, int]
Box = tuple[int, int, int, int]


class Rle(TypedDict):
    """A run-length encoding.

    Attributes:
        size: [height, width].
        counts: The compressed runs, as text.
    """

    size: list[int]
    counts: str


def encode(mask: np.ndarray) -> Rle:
    """Encode a mask.

    Args:
        mask: Shape (h, w); nonzero pixels are set.

    Returns:
        The RLE.

    Raises:
        ValueError: The mask is empty or does not have two dimensions.
    """
    if mask.ndim != 2 or not mask.size:
        raise ValueError(f"a mask of shape {mask.shape}; expected (height, width)")
    return _convert_to_text(coco.encode(np.asfortranarray(mask, dtype=bool).view(np.uint8)))


def encode_polygons(polygons: Any, size: Size) -> Rle:
    """Encode the union of polygons as pycocotools draws them.

    Args:
        polygons: A list of polygons, each a list x1, y1, x2, y2 ... in pixels from the top left, as in COCO files.
        size: (height, width) of the mask.

    Returns:
        The RLE.

    Raises:
        ValueError: A polygon has fewer than three corners, or a corner is no pair of numbers or lies outside the mask.
    """
    height, width = get_size({"size": size})
    for polygon in polygons if isinstance(polygons, list) and polygons else [None]:
        if not isinstance(polygon, list) or len(polygon) < 6 or len(polygon) % 2:
            raise ValueError("a polygon is not a list of three or more corners x, y")
        if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in polygon):
            raise ValueError("a corner of a polygon is no number")
        corners = np.array(polygon, dtype=float).reshape(-1, 2)
        if not ((corners >= -1) & (corners <= np.array([width, height]) + 1)).all():  # false for NaN, too
            raise ValueError(f"a corner of a polygon is outside its image of {width} x {height} pixels")
    return _convert_to_text(coco.merge(coco.frPyObjects(polygons, height, width)))


def decode(rle: Mapping[str, Any]) -> np.ndarray:
    """Decode an RLE.

    Args:
        rle: The RLE.

    Returns:
        A bool mask of shape (h, w), with columns contiguous in memory.

    Raises:
        ValueError: As for `validate_rle`.
    """
    return coco.decode(_prepare_for_library(rle)).view(bool)


def validate_rle(rle: Mapping[str, Any]) -> Rle:
    """Validate an RLE and normalize it to compressed text without empty runs inside.

    Args:
        rle: The RLE; `counts` may be compressed (str or bytes) or a sequence of run lengths.

    Returns:
        The RLE in the form of this module.

    Raises:
        ValueError: The size is not two positive integers, or the counts are damaged or their sum is not height x width.
    """
    size, counts = get_size(rle), rle.get("counts")
    if isinstance(counts, str):
        return {"size": list(size), "counts": _validate_text(counts, size)}
    return _encode_spans(*_compute_spans(rle), size)


def get_size(rle: Mapping[str, Any]) -> Size:
    """Return the size of an RLE.

    Args:
        rle: The RLE.

    Returns:
        (height, width).

    Raises:
        ValueError: The size is missing, malformed or too large.
    """
    size = rle.get("size") if isinstance(rle, Mapping) else None
    numbers = size if isinstance(size, Sequence | np.ndarray) and not isinstance(size, str | bytes) else ()
    if len(numbers) != 2 or not all(isinstance(n, int | np.integer) and n > 0 for n in numbers):
        raise ValueError(f"size {size!r}; expected [height, width], both positive integers")
    height, width = (int(n) for n in numbers)
    if height * width > MAX_PIXELS:
        raise ValueError(f"size {height} x {width} is more than {MAX_PIXELS} pixels")
    return height, width


def area(rle: Mapping[str, Any]) -> int:
    """Count the set pixels.

    Args:
        rle: The RLE.

    Returns:
        The number of set pixels.
    """
    starts, stops = _compute_spans(rle)
    return int((stops - starts).sum())


def compute_bounding_box(rle: Mapping[str, Any]) -> Box:
    """Compute the tightest box around the set pixels.

    Args:
        rle: The RLE.

    Returns:
        (x, y, width, height) in pixels.

    Raises:
        ValueError: The mask is empty.
    """
    column, top, bottom = _compute_column_spans(rle)
    if not column.size:
        raise ValueError("an empty mask has no box")
    x, y = int(column[0]), int(top.min())
    return x, y, int(column[-1]) + 1 - x, int(bottom.max()) - y


def union(rles: Sequence[Mapping[str, Any]]) -> Rle:
    """Compute the union of masks.

    Args:
        rles: The RLEs, all of one size.

    Returns:
        The RLE of the pixels that are set in any of them.

    Raises:
        ValueError: The sizes differ.
    """
    _require_one_size(rles)
    return _convert_to_text(coco.merge([_prepare_for_library(rle) for rle in rles]))


def mask_rows(rle: Mapping[str, Any], start: int, stop: int) -> Rle:
    """Clear every row outside start .. stop - 1.

    Args:
        rle: The RLE.
        start: The first row to retain.
        stop: The row after the last one to retain.

    Returns:
        An RLE of the same size.
    """
    column, top, bottom = _compute_column_spans(rle)
    top, bottom = top.clip(start, stop), bottom.clip(start, stop)
    return _encode_columns(column, top, bottom, get_size(rle))


def crop_mask(rle: Mapping[str, Any], box: Box) -> Rle:
    """Crop a mask to a box.

    Args:
        rle: The RLE.
        box: (x, y, width, height), inside the mask.

    Returns:
        An RLE of the size of the box.
    """
    x, y, width, height = box
    column, top, bottom = _compute_column_spans(rle)
    inside = (column >= x) & (column < x + width)
    top, bottom = (edge[inside].clip(y, y + height) - y for edge in (top, bottom))
    return _encode_columns(column[inside] - x, top, bottom, (height, width))


def resize_mask(mask: np.ndarray | Mapping[str, Any], size: Size) -> Rle:
    """Resize a mask by nearest neighbour.

    Pixel i of `height` takes the source pixel that contains its centre, floor((i + 1/2) * h / height), and columns
    likewise. Only the ends of the runs are moved, so the large mask is never decoded.

    Args:
        mask: A mask (h, w) or an RLE.
        size: (height, width) of the result.

    Returns:
        The RLE of the resized mask.
    """
    small = encode(mask) if isinstance(mask, np.ndarray) else mask
    (h, w), (height, width) = get_size(small), get_size({"size": size})
    if (h, w) == (height, width):
        return validate_rle(small)
    row_edges = np.searchsorted(_compute_source_pixels(h, height), np.arange(h + 1))
    column, top, bottom = _compute_column_spans(small)
    top, bottom = row_edges[top], row_edges[bottom]
    first_span = np.searchsorted(column, np.arange(w + 1))  # for each source column; the spans are in order of columns
    source = _compute_source_pixels(w, width)
    n_spans = np.diff(first_span)[source]
    span_index = _expand_ranges(first_span[source], n_spans)
    target = np.repeat(np.arange(width), n_spans)
    return _encode_columns(target, top[span_index], bottom[span_index], (height, width))


def encode_boxes(xywh: np.ndarray, size: Size) -> list[Rle]:
    """Encode boxes as masks.

    A pixel is inside if its centre is: x <= column + 1/2 < x + width. Boxes in whole numbers are exact. Boxes are
    clipped to the image. A box that is narrower than a pixel may contain no centre.

    Args:
        xywh: Float of shape (n, 4), pixels from the top-left corner of the image.
        size: (height, width) of the image.

    Returns:
        One RLE a box.

    Raises:
        ValueError: A coordinate is not finite.
    """
    height, width = size
    boxes = np.asarray(xywh, dtype=np.float64).reshape(-1, 4)
    if not np.isfinite(boxes).all():
        raise ValueError("a box with a coordinate that is not a finite number")
    starts = np.ceil(boxes[:, :2] - 0.5).clip(0, (width, height)).astype(np.int64)
    stops = np.ceil(boxes[:, :2] + boxes[:, 2:] - 0.5).clip(0, (width, height)).astype(np.int64)
    rles = []
    for (x_start, y_start), (x_stop, y_stop) in zip(starts, stops, strict=True):
        column = np.arange(x_start, x_stop)
        rles.append(_encode_columns(column, np.full_like(column, y_start), np.full_like(column, y_stop), size))
    return rles


def count_shared_pixels(boxes: Sequence[Mapping[str, Any]], regions: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """Count the pixels that each of n boxes shares with each of m regions.

    Args:
        boxes: The n boxes, as RLEs.
        regions: The m regions, as RLEs of the same size.

    Returns:
        Exact numbers as float64 of shape (n, m).

    Raises:
        ValueError: The sizes differ.
    """
    if not boxes or not regions:
        return np.zeros((len(boxes), len(regions)))
    _require_one_size([*boxes, *regions])
    # The library divides the intersection by the area of the first mask if the second one is a crowd.
    shares = coco.iou(
        [_prepare_for_library(b) for b in boxes], [_prepare_for_library(r) for r in regions], [1] * len(regions)
    )
    return np.rint(np.asarray(shares) * np.array([[area(b)] for b in boxes]))


def _require_one_size(rles: Sequence[Mapping[str, Any]]) -> None:
    sizes = sorted({get_size(rle) for rle in rles})
    if len(sizes) != 1:
        raise ValueError(f"masks of different sizes (height, width): {', '.join(map(str, sizes)) or 'none at all'}")


def _prepare_for_library(rle: Mapping[str, Any]) -> Any:
    """Validate an RLE for pycocotools, whose types say bytes for the counts but which accepts text as well."""
    return validate_rle(rle)


def _convert_to_text(rle: Mapping[str, Any]) -> Rle:
    return {"size": [int(n) for n in rle["size"]], "counts": rle["counts"].decode("ascii")}


def _compute_source_pixels(count: int, scaled_count: int) -> np.ndarray:
    """Compute the source pixel of each scaled pixel, in whole numbers."""
    return (2 * np.arange(scaled_count) + 1) * count // (2 * scaled_count)


def _expand_ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Expand ranges to starts[0], starts[0] + 1, ... (lengths[0] numbers), then starts[1], ..."""
    return np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())


def _compute_spans(rle: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Compute start and stop of each run of set pixels, as positions down the columns, without empty runs."""
    size, counts = get_size(rle), rle.get("counts")
    if isinstance(counts, str):
        return _parse_spans(counts, size)
    return _compute_spans_of_runs(
        _decode_counts(counts) if isinstance(counts, bytes) else _read_run_lengths(counts), size
    )


# A build uses each of an image's few masks several times: the last ones stay parsed.
@lru_cache(maxsize=64)
def _parse_spans(counts: str, size: Size) -> tuple[np.ndarray, np.ndarray]:
    return _freeze(_compute_spans_of_runs(_decode_counts(counts), size))


@lru_cache(maxsize=64)
def _validate_text(counts: str, size: Size) -> str:
    return _encode_spans(*_parse_spans(counts, size), size)["counts"]


def _freeze(arrays: Arrays) -> Arrays:
    """Make arrays read-only and return them."""
    for array in arrays:
        array.flags.writeable = False
    return arrays


def _compute_spans_of_runs(runs: np.ndarray, size: Size) -> tuple[np.ndarray, np.ndarray]:
    height, width = size
    if (runs < 0).any():
        raise ValueError("counts that hold a negative run")
    edges = np.cumsum(runs)
    if not edges.size or edges[-1] != height * width:
        total = int(edges[-1]) if edges.size else 0
        raise ValueError(f"counts of {total} pixels; expected {height} x {width} = {height * width}")
    stops = edges[1::2]
    starts = edges[0::2][: len(stops)]
    nonempty = stops > starts
    return starts[nonempty], stops[nonempty]


def _read_run_lengths(counts: Any) -> np.ndarray:
    try:
        runs = np.asarray(counts)
    except ValueError:
        runs = np.empty(0)
    if runs.ndim != 1 or runs.dtype.kind not in "iu" or (runs > MAX_PIXELS).any():
        raise ValueError(f"counts of type {type(counts).__name__}; expected compressed text or a list of run lengths")
    return runs.astype(np.int64)


def _decode_counts(counts: str | bytes) -> np.ndarray:
    """Decode the run lengths of a compressed text: groups of 5 bits, the lowest first, one character each.

    From the fourth run on, the text stores the difference to the run two before. Raise ValueError for a text that is
    empty, ends within a run, or has other characters or more than MAX_CHARACTERS for a run.
    """
    try:
        raw = counts.encode("ascii") if isinstance(counts, str) else counts
    except UnicodeEncodeError:
        raise ValueError("counts that hold a character outside the code") from None
    codes = np.frombuffer(raw, dtype=np.uint8).astype(np.int64) - 48
    if codes.size and not 0 <= codes.min() <= codes.max() < 64:
        raise ValueError("counts that hold a character outside the code")
    end = np.flatnonzero(codes < 32)  # bit 5 says that the run goes on
    if not end.size or end[-1] != len(codes) - 1:
        raise ValueError("counts that break off within a run" if codes.size else "counts that are empty")
    start = np.concatenate([[0], end[:-1] + 1])
    length = end - start + 1
    if length.max() > MAX_CHARACTERS:
        raise ValueError("counts that hold a run too long for any image")
    shift = 5 * (np.arange(len(codes)) - np.repeat(start, length))
    runs = np.add.reduceat((codes & 31) << shift, start)
    runs -= np.where(codes[end] & 16, 1, 0) << (5 * length)  # bit 4 of the last group is the sign
    runs[1::2] = np.cumsum(runs[1::2])
    runs[2::2] = np.cumsum(runs[2::2])
    return runs


def _compute_column_spans(rle: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split the runs of set pixels at the ends of columns: column, first row and row after the last, in order."""
    size, counts = get_size(rle), rle.get("counts")
    return (
        _parse_column_spans(counts, size)
        if isinstance(counts, str)
        else _split_at_columns(*_compute_spans(rle), size[0])
    )


@lru_cache(maxsize=64)
def _parse_column_spans(counts: str, size: Size) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return _freeze(_split_at_columns(*_parse_spans(counts, size), size[0]))


def _split_at_columns(starts: np.ndarray, stops: np.ndarray, height: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    first_column = starts // height
    columns = (stops - 1) // height - first_column + 1
    column = _expand_ranges(first_column, columns)
    top = np.maximum(np.repeat(starts, columns) - column * height, 0)
    bottom = np.minimum(np.repeat(stops, columns) - column * height, height)
    return column, top, bottom


def _encode_columns(column: np.ndarray, top: np.ndarray, bottom: np.ndarray, size: Size) -> Rle:
    return _encode_spans(column * size[0] + top, column * size[0] + bottom, size)


def _encode_spans(starts: np.ndarray, stops: np.ndarray, size: Size) -> Rle:
    """Encode runs in order of their positions; empty runs are dropped, adjacent runs are joined."""
    nonempty = stops > starts
    starts, stops = starts[nonempty], stops[nonempty]
    separate = starts[1:] > stops[:-1]
    height, width = size
    edges = np.zeros(2 + 2 * (int(separate.sum()) + bool(starts.size)), dtype=np.int64)  # with the two ends of the mask
    edges[-1] = height * width
    if starts.size:
        edges[1:-1:2] = starts[np.concatenate([[True], separate])]
        edges[2:-1:2] = stops[np.concatenate([separate, [True]])]
    runs = edges[1:] - edges[:-1]
    if starts.size and not runs[-1]:
        runs = runs[:-1]
    return _convert_to_text(coco.frPyObjects({"size": [height, width], "counts": runs.tolist()}, height, width))
