"""The inputs of one frame: its heatmaps in the frame's pixels, and its boxes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..arguments.arrays import is_list, read_grid, read_size, read_window
from ..arguments.kinds import (
    FUNCTION,
    GRID,
    LABEL,
    SEED,
    SIZE,
    TEXT,
    WINDOW,
    XYWH,
    one,
    optional,
    read_later,
    rows_of,
    sequence,
)
from ..arguments.schema import check_arguments
from .boxes import find_pixel_rectangles

Size = tuple[int, int]
IDS = optional(sequence(LABEL, is_column=True))
MAP_LIST = sequence(optional(GRID), word="map")
BOX = rows_of({"label": TEXT, "xywh": XYWH}, word="box", is_column=False)
FRAME = {"size": SIZE, "window": optional(WINDOW), "boxes": BOX}
_PREDICTION = one("row", "a dict with maps", lambda value: isinstance(value, Mapping) and is_list(value.get("maps")))
_REFERENCE = one(
    "row",
    "a dict with size and window",
    lambda value: isinstance(value, Mapping) and {"size", "window"} <= value.keys(),
)


@check_arguments(grid=GRID, size=SIZE, window=WINDOW, name=TEXT)
def to_frame(grid: Any, size: Size, window: Sequence[float], name: str = "heatmap") -> np.ndarray:
    """Resample a coarse heatmap to the frame's pixels: bilinear between cell centres inside the window, 0 outside.

    Between the outermost centres and the window's edge the outermost value continues (`align_corners=False`).

    Args:
        grid: Shape (h, w), equal cells that cover the window.
        size: (height, width) of the frame.
        window: [x, y, width, height] in the frame's pixels, the part that the model saw; it may extend beyond the
            frame.
        name: Name of the sample, for errors.

    Returns:
        Shape (height, width), float32 for a heatmap of float32 or half precision, otherwise float64.

    Raises:
        ValueError: A grid that is not (h, w), an empty window, or a non-finite number.

    >>> to_frame([[0, 1]], (1, 6), [1, 0, 4, 1])
    array([[0.  , 0.  , 0.25, 0.75, 1.  , 0.  ]])
    """
    cells = read_grid(grid, f"{name}: ")
    if not np.isfinite(cells).all():
        raise ValueError(f"{name}: a heatmap with NaN or infinity; expected a finite number per cell")
    x, y, w, h = read_window(window, f"{name}: ")
    size = read_size(size, f"{name}: ")
    rows, cells_above, cells_below, row_weights = _find_places(size[0], y, h, cells.shape[0])
    columns, cells_before, cells_after, column_weights = _find_places(size[1], x, w, cells.shape[1])
    # Unlike a weighted sum, this form keeps equal neighbours exactly equal.
    row_weights, column_weights = row_weights.astype(cells.dtype), column_weights.astype(cells.dtype)
    stretched = cells[cells_above] + row_weights[:, None] * (cells[cells_below] - cells[cells_above])
    frame = np.zeros(size, dtype=cells.dtype)
    frame[rows, columns] = stretched[:, cells_before] + column_weights * (
        stretched[:, cells_after] - stretched[:, cells_before]
    )
    return frame


@check_arguments(
    like="references",
    predictions=rows_of({"maps": MAP_LIST}),
    references=rows_of(FRAME),
    ids=IDS,
    score=FUNCTION,
)
def score_frames(
    predictions: Sequence[Mapping[str, Any]],
    references: Sequence[Mapping[str, Any]],
    ids: Sequence[str] | None,
    score: Callable[[Mapping[str, Any], Mapping[str, Any], list[np.ndarray | None], str], list[dict[str, Any]]],
) -> tuple[list[list[dict[str, Any]]], dict[str, int]]:
    """Score each frame, and count frames and boxes.

    Args:
        predictions: n dicts; this function reads maps.
        references: n dicts; this function reads size, boxes and window.
        ids: n names of the frames, for errors.
        score: Computes the records of a frame from its prediction, its reference, its maps in the frame's pixels and
            its name.

    Returns:
        n lists of records; n_frames, n_boxes and n_boxes_outside (boxes without a pixel in their frame).
    """
    frames, n_outside = [], 0
    for prediction, reference, name in _iterate_pairs(predictions, references, ids):
        size = read_size(reference["size"], f"{name}: ")
        n_outside += sum(not find_pixel_rectangles([box["xywh"]], size, name) for box in reference["boxes"])
        frames.append(score(prediction, reference, build_maps(prediction, reference, name), name))
    n_boxes = sum(len(reference["boxes"]) for reference in references)
    return frames, {"n_frames": len(references), "n_boxes": n_boxes, "n_boxes_outside": n_outside}


@check_arguments(prediction=_PREDICTION, reference=_REFERENCE, name=TEXT)
def build_maps(prediction: Mapping[str, Any], reference: Mapping[str, Any], name: str) -> list[np.ndarray | None]:
    """Build the frame's heatmaps in its pixels.

    Args:
        prediction: A dict with maps.
        reference: A dict with size and window.
        name: Name of the frame, for errors.

    Returns:
        A map per predicted class; None if the model gave none.

    Raises:
        ValueError: A map of another size than the frame, without a window; otherwise see `to_frame`.
    """
    size, window = read_size(reference["size"], f"{name}: "), reference["window"]
    maps: list[np.ndarray | None] = []
    for number, heatmap in enumerate(prediction["maps"], start=1):
        where = f"{name}, map {number}"
        if heatmap is None:
            maps.append(None)
            continue
        pixels = read_grid(heatmap, f"{where}: ") if window is None else to_frame(heatmap, size, window, where)
        if pixels.shape != size:
            raise ValueError(
                f"{where}: shape {pixels.shape}; expected that of the frame, {size}, or a window for a coarser map"
            )
        maps.append(pixels)
    return maps


@check_arguments(maps=sequence(read_later("single map"), word="map"), numbers=sequence(SEED, word="number"))
def merge_maps(maps: Any, numbers: Sequence[int]) -> Any:
    """Stack the maps of some numbers into one batch.

    Args:
        maps: The maps, as a list, an array or a tensor.
        numbers: Positions of the maps to select.

    Returns:
        Shape (n, height, width); a tensor stays a tensor.
    """
    if hasattr(maps, "shape"):
        return maps if len(numbers) == len(maps) else maps[list(numbers)]
    return np.stack([read_grid(maps[number], f"map {number + 1}: ") for number in numbers])


@check_arguments(
    boxes=rows_of({"label": TEXT, "xywh": read_later("unread")}, is_column=False, word="box"),
    label=optional(TEXT),
)
def select_boxes(boxes: Sequence[Mapping[str, Any]], label: str | None = None) -> list[Sequence[float]]:
    """Select the boxes of one label, or of all.

    Args:
        boxes: The frame's boxes, {"label", "xywh"}.
        label: The label; None for all boxes.

    Returns:
        xywh of each box.
    """
    return [box["xywh"] for box in boxes if label is None or box["label"] == label]


def _iterate_pairs(
    predictions: Sequence[Mapping[str, Any]], references: Sequence[Mapping[str, Any]], ids: Sequence[str] | None
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any], str]]:
    """Iterate over each frame's prediction, reference and name; ValueError for wrong sizes."""
    for row, (prediction, reference) in enumerate(zip(predictions, references, strict=True)):
        name = f"row {row + 1}" if ids is None else str(ids[row])
        read_size(reference["size"], f"{name}: ")
        yield prediction, reference, name


def _find_places(
    pixels: int, start: float, extent: float, cells: int
) -> tuple[slice, np.ndarray, np.ndarray, np.ndarray]:
    """Compute the interpolation along one side of a frame.

    Returns:
        The pixels whose centre is in the window, as a slice; for each of them the cells before and after its centre;
        and the distance from the first cell, in cells, which is the weight of the second.
    """
    first_pixel = max(math.ceil(start - 0.5), 0)
    stop_pixel = max(min(math.ceil(start + extent - 0.5), pixels), first_pixel)
    positions = ((np.arange(first_pixel, stop_pixel) + 0.5 - start) * (cells / extent) - 0.5).clip(0, cells - 1)
    before = np.floor(positions).astype(np.intp)
    return (
        slice(first_pixel, stop_pixel),
        before,
        np.minimum(before + 1, cells - 1),
        positions - before,
    )
