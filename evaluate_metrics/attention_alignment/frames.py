"""One frame's inputs: its heatmaps in the frame's pixels, and its boxes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .boxes import pixel_rectangles

Size = tuple[int, int]


def to_frame(grid: Any, size: Size, window: Sequence[float], name: str = "heatmap") -> np.ndarray:
    """A coarse heatmap on the frame's pixels: bilinear between its cells' centres inside the window, 0 outside.

    Between the outermost centres and the window's edge the outermost value stays (`align_corners=False`).

    Args:
        grid: (h, w) equal cells that cover the window.
        size: (height, width) of the frame.
        window: [x, y, width, height] in the frame's pixels, the part that the model saw; it may reach beyond the frame.
        name: of the sample, for errors.

    Returns:
        float32 (height, width).

    Raises:
        ValueError: a grid that is no (h, w), a window of no size, or a number that is not finite.

    >>> to_frame([[0, 1]], (1, 6), [1, 0, 4, 1])
    array([[0.  , 0.  , 0.25, 0.75, 1.  , 0.  ]], dtype=float32)
    """
    cells = _numbers(grid, name)
    if not np.isfinite(cells).all():
        raise ValueError(f"{name}: a heatmap with NaN or infinity; expected a finite number a cell")
    if len(window) != 4 or not all(map(math.isfinite, window)) or min(window[2:]) <= 0:
        raise ValueError(f"{name}: window {list(window)}; expected [x, y, width, height], finite, of a positive size")
    x, y, w, h = window
    rows, above, below, down = _places(size[0], y, h, cells.shape[0])
    columns, before, after, across = _places(size[1], x, w, cells.shape[1])
    # This form, unlike a weighted sum, leaves equal neighbours exactly equal.
    tall = cells[above] + down[:, None] * (cells[below] - cells[above])
    frame = np.zeros(size, dtype=np.float32)
    frame[rows, columns] = tall[:, before] + across * (tall[:, after] - tall[:, before])
    return frame


def each_frame(
    predictions: Sequence[Mapping[str, Any]],
    references: Sequence[Mapping[str, Any]],
    ids: Sequence[str] | None,
    score: Callable[[Mapping[str, Any], Mapping[str, Any], list[np.ndarray | None], str], list[dict[str, Any]]],
) -> tuple[list[list[dict[str, Any]]], dict[str, int]]:
    """The records of each frame, and counts of frames and boxes.

    Args:
        predictions, references: n dicts; of references size, boxes and window are read here, of predictions maps.
        ids: n names of the frames, for errors.
        score: gives the records of a frame from its prediction, its reference, its maps in the frame's pixels and its
            name.

    Returns:
        n lists of records; n_frames, n_boxes and n_boxes_outside (boxes without a pixel in their frame).
    """
    frames, n_outside = [], 0
    for prediction, reference, name in _paired(predictions, references, ids):
        size = int(reference["size"][0]), int(reference["size"][1])
        n_outside += sum(not pixel_rectangles([box["xywh"]], size, name) for box in reference["boxes"])
        frames.append(score(prediction, reference, maps_of(prediction, reference, name), name))
    n_boxes = sum(len(reference["boxes"]) for reference in references)
    return frames, {"n_frames": len(references), "n_boxes": n_boxes, "n_boxes_outside": n_outside}


def maps_of(prediction: Mapping[str, Any], reference: Mapping[str, Any], name: str) -> list[np.ndarray | None]:
    """The frame's heatmaps in its pixels; None where the model gave none.

    Raises:
        ValueError: without a window, a map of another size than the frame; with one, as `to_frame`.
    """
    size, window = (int(reference["size"][0]), int(reference["size"][1])), reference["window"]
    found: list[np.ndarray | None] = []
    for number, heatmap in enumerate(prediction["maps"], start=1):
        where = f"{name}, map {number}"
        if heatmap is None:
            found.append(None)
            continue
        pixels = _numbers(heatmap, where) if window is None else to_frame(heatmap, size, window, where)
        if pixels.shape != size:
            raise ValueError(
                f"{where}: shape {pixels.shape}; expected that of the frame, {size}, or a window for a coarser map"
            )
        found.append(pixels)
    return found


def stacked(maps: Any, numbers: Sequence[int]) -> Any:
    """The maps of these numbers as one batch (n, height, width); a tensor stays one."""
    if hasattr(maps, "shape"):
        return maps if len(numbers) == len(maps) else maps[list(numbers)]
    return np.stack([np.asarray(maps[number]) for number in numbers])


def boxes_of(boxes: Sequence[Mapping[str, Any]], label: str | None = None) -> list[Sequence[float]]:
    """xywh of the frame's boxes, of one label or of all."""
    return [box["xywh"] for box in boxes if label is None or box["label"] == label]


def _paired(
    predictions: Sequence[Mapping[str, Any]], references: Sequence[Mapping[str, Any]], ids: Sequence[str] | None
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any], str]]:
    """Each frame's prediction and reference, with its name. Raises ValueError where lengths or a size are wrong."""
    for column, given in (("predictions", predictions), ("ids", ids)):
        if given is not None and len(given) != len(references):
            raise ValueError(f"{len(given)} {column} for {len(references)} references: give one for each")
    for row, (prediction, reference) in enumerate(zip(predictions, references, strict=True)):
        name = f"row {row + 1}" if ids is None else str(ids[row])
        size = list(reference["size"] or ())
        if len(size) != 2 or min(size) < 1:
            raise ValueError(f"{name}: size {size}; expected [height, width]")
        yield prediction, reference, name


def _places(pixels: int, start: float, extent: float, cells: int) -> tuple[slice, np.ndarray, np.ndarray, np.ndarray]:
    """Along one side: the pixels with a centre in the window, the cells before and after each, and how far between."""
    first = max(math.ceil(start - 0.5), 0)
    stop = max(min(math.ceil(start + extent - 0.5), pixels), first)
    places = ((np.arange(first, stop) + 0.5 - start) * (cells / extent) - 0.5).clip(0, cells - 1)
    before = np.floor(places).astype(np.intp)
    return slice(first, stop), before, np.minimum(before + 1, cells - 1), (places - before).astype(np.float32)


def _numbers(heatmap: Any, name: str) -> np.ndarray:
    try:
        numbers = np.asarray(heatmap, dtype=np.float32)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: no heatmap; expected rows of numbers, all of one length") from None
    if numbers.ndim != 2 or not numbers.size:
        raise ValueError(f"{name}: a heatmap of shape {numbers.shape}; expected (height, width)")
    return numbers
