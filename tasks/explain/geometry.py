"""The part of a frame that a model saw, and heatmaps mapped back to the frame.

A model sees a frame after resizing, cropping and perhaps padding. All of these keep axis-parallel lines, so the visible
part is a rectangle of the frame, the window. A heatmap is a grid of equal cells over the window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...evaluate_metrics.attention_alignment.frames import to_frame as on_frame
from ...loaders.errors import MedfaithError

Size = tuple[int, int]  # (height, width) in pixels
TILING = ("image_grid_pinpoints", "do_image_splitting", "do_pan_and_scan", "crop_to_patches")


@dataclass(frozen=True)
class Geometry:
    """The size of a frame and the window that the model saw.

    Pixel (row, column) covers column <= x < column + 1 and row <= y < row + 1. A window beyond the frame includes
    padding. A size or extent that is not positive and finite raises ValueError.

    Attributes:
        size: (height, width) of the frame.
        window: (x, y, width, height) of the visible part, in pixels of the frame.
    """

    size: Size
    window: tuple[float, float, float, float]

    def __post_init__(self) -> None:
        numbers = np.array([*self.size, *self.window], dtype=np.float64)
        if len(self.size) != 2 or len(self.window) != 4 or not np.isfinite(numbers).all():
            raise ValueError(f"geometry of size {self.size}, window {self.window}; expected (h, w) and (x, y, w, h)")
        if min(*self.size, *self.window[2:]) <= 0:
            raise ValueError(f"geometry of size {self.size}, window {self.window}: an extent that is not positive")

    @classmethod
    def whole(cls, size: Size) -> Geometry:
        """Build the geometry of a model that saw the full frame, whatever its resizing.

        Args:
            size: (height, width) of the frame.

        Returns:
            The geometry, whose window is the frame.
        """
        return cls((int(size[0]), int(size[1])), (0.0, 0.0, float(size[1]), float(size[0])))

    def part(self, canvas: Size, top: float, left: float, height: float, width: float) -> Geometry:
        """Compute the geometry after a crop of the window, or after padding if the corner is negative.

        Args:
            canvas: (height, width) of the window in the units of the crop.
            top: Top edge of the crop.
            left: Left edge of the crop.
            height: Height of the crop.
            width: Width of the crop.

        Returns:
            The geometry of the crop, on the same frame.
        """
        x, y, w, h = self.window
        down, across = h / canvas[0], w / canvas[1]
        return Geometry(self.size, (x + left * across, y + top * down, width * across, height * down))


def resize_and_crop(size: Size, resize: int | Sequence[int], crop: int | Sequence[int] | None = None) -> Geometry:
    """Compute the geometry of torchvision's Resize and CenterCrop.

    Args:
        size: (height, width) of the frame.
        resize: Length of the shorter side, or (height, width).
        crop: Side of the centred square, or (height, width), or None without a crop.

    Returns:
        The geometry: the full frame without a crop.
    """
    full_frame = Geometry.whole(size)
    if crop is None:
        return full_frame
    height, width = _compute_resized(size, resize)
    crop_height, crop_width = _make_pair(crop)
    y_offset, x_offset = round((height - crop_height) / 2), round((width - crop_width) / 2)
    return full_frame.part((height, width), y_offset, x_offset, crop_height, crop_width)


def compute_transform_geometry(transform: Any, size: Size) -> Geometry:
    """Compute the geometry of a torchvision Compose with at most one Resize and one CenterCrop, as in OpenCLIP.

    Args:
        transform: The Compose.
        size: (height, width) of the frame.

    Returns:
        The geometry.

    Raises:
        MedfaithError: A step changes the geometry in another way.
    """
    resize, crop = None, None
    for step in transform.transforms:
        name = type(step).__name__
        if name == "Resize" and resize is None and crop is None and getattr(step, "max_size", None) is None:
            resize = step.size
        elif name == "CenterCrop" and crop is None:
            crop = step.size
        elif any(word in name for word in ("Resize", "Crop", "Pad", "Flip", "Rotat", "Affine", "Perspective")):
            raise MedfaithError(
                f"the model's preprocessing has a step {name}, whose geometry is not known\n"
                "  what to do: use a model that resizes and crops at the centre"
            )
    return resize_and_crop(size, min(size) if resize is None else resize, crop)


def compute_processor_geometry(processor: Any, size: Size) -> Geometry:
    """Compute the geometry of a Hugging Face image processor from its attributes (padding, resizing, centre crop).

    Args:
        processor: The image processor.
        size: (height, width) of the frame.

    Returns:
        The geometry.

    Raises:
        MedfaithError: The processor splits the image into tiles, or its padding is unknown.
    """
    tiling = [name for name in TILING if getattr(processor, name, None)]
    pads = bool(getattr(processor, "do_pad", False))
    if tiling or (pads and not hasattr(processor, "pad_to_square")):
        raise MedfaithError(
            f"{type(processor).__name__}: {', '.join(tiling) or 'do_pad'} gives images whose geometry is not known\n"
            "  what to do: use --model medfaith-hf-vlm, which answers without heatmaps, or another model"
        )
    geometry, canvas = Geometry.whole(size), size
    if pads:  # LLaVA pads to a square with the image at its centre
        side = max(size)
        geometry = geometry.part(canvas, -((side - size[0]) // 2), -((side - size[1]) // 2), side, side)
        canvas = (side, side)
    if not getattr(processor, "do_center_crop", False):
        return geometry
    if processor.do_resize:
        canvas = _compute_resized(canvas, _get_processor_size(processor))
    height, width = (_get_entry(processor.crop_size, name) for name in ("height", "width"))
    # The processors truncate towards zero; a crop larger than the image pads it.
    y_offset, x_offset = int((canvas[0] - height) / 2), int((canvas[1] - width) / 2)
    return geometry.part(canvas, y_offset, x_offset, height, width)


def to_frame(grids: np.ndarray | Sequence[np.ndarray], geometry: Geometry) -> np.ndarray:
    """Map heatmaps to the frame's pixels, as the metric does (attention_alignment.frames.to_frame).

    Args:
        grids: Heatmaps (N, h, w), finite.
        geometry: Place of the grids on the frame.

    Returns:
        float32 (N, H, W).

    Raises:
        ValueError: A heatmap is not an array (h, w) of finite numbers.
    """
    frames = np.zeros((len(grids), *geometry.size), dtype=np.float32)
    for frame, grid in zip(frames, grids, strict=True):
        frame[:] = on_frame(grid, geometry.size, geometry.window)
    return frames


def visible_share(boxes: np.ndarray | Sequence[Sequence[float]], geometry: Geometry) -> np.ndarray:
    """Compute the share of each box's area within the frame that the model could see.

    Args:
        boxes: xywh (n, 4), pixels of the frame, top-left origin.
        geometry: Geometry of the model's view.

    Returns:
        float64 (n,) in [0, 1]; NaN for a box without area in the frame.
    """
    xywh = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    height, width = geometry.size
    in_frame = _compute_overlap(xywh, (0.0, 0.0, float(width), float(height)))
    x, y, w, h = geometry.window
    x_min, y_min = max(x, 0.0), max(y, 0.0)
    visible_window = (x_min, y_min, min(x + w, width) - x_min, min(y + h, height) - y_min)
    has_area = in_frame > 0
    return np.divide(_compute_overlap(xywh, visible_window), in_frame, out=np.full(len(xywh), np.nan), where=has_area)


def _compute_overlap(xywh: np.ndarray, window: tuple[float, float, float, float]) -> np.ndarray:
    corner = np.maximum(xywh[:, :2], window[:2])
    end = np.minimum(xywh[:, :2] + xywh[:, 2:], (window[0] + window[2], window[1] + window[3]))
    return (end - corner).clip(0).prod(axis=1)


def _compute_resized(size: Size, resize: int | Sequence[int]) -> Size:
    """Compute (height, width) after torchvision's Resize, which truncates the longer side."""
    sides = [resize] if isinstance(resize, int) else list(resize)
    if len(sides) == 2:
        return sides[0], sides[1]
    short, long = min(size), max(size)
    longer_side = int(sides[0] * long / short)
    return (sides[0], longer_side) if size[0] <= size[1] else (longer_side, sides[0])


def _get_processor_size(processor: Any) -> int | Sequence[int]:
    height, width, shortest = (_get_entry(processor.size, name) for name in ("height", "width", "shortest_edge"))
    if height and width:
        return height, width
    if shortest and not _get_entry(processor.size, "longest_edge"):
        return shortest
    raise MedfaithError(
        f"{type(processor).__name__} resizes to {processor.size} before it crops, whose geometry is not known\n"
        "  what to do: use a model whose size is a shortest_edge, or a height and a width"
    )


def _get_entry(size: Any, name: str) -> Any:
    return size.get(name) if isinstance(size, Mapping) else getattr(size, name, None)


def _make_pair(side: int | Sequence[int]) -> Size:
    if isinstance(side, int):
        return side, side
    return (side[0], side[0]) if len(side) == 1 else (side[0], side[1])
