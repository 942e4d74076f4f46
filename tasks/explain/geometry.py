"""Which part of a frame a model saw, and heatmaps brought back to the frame.

A model sees a frame resized, cropped, perhaps padded. All of these keep straight lines parallel to the axes, so that
what was seen is a rectangle of the frame, the window. A heatmap is a grid of equal cells over the window.
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
    """size: the frame's (height, width). window: (x, y, width, height), what the model saw, in pixels of the frame.

    Pixel (row, column) covers column <= x < column + 1 and row <= y < row + 1. A window that reaches beyond the frame
    saw padding there. Raises ValueError where a size or the window's extent is not positive and finite.
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
        """The model saw the whole frame, however it was squashed."""
        return cls((int(size[0]), int(size[1])), (0.0, 0.0, float(size[1]), float(size[0])))

    def part(self, canvas: Size, top: float, left: float, height: float, width: float) -> Geometry:
        """The geometry after a crop (or, with a negative corner, padding) of the window drawn `canvas` pixels large."""
        x, y, w, h = self.window
        down, across = h / canvas[0], w / canvas[1]
        return Geometry(self.size, (x + left * across, y + top * down, width * across, height * down))


def resize_and_crop(size: Size, resize: int | Sequence[int], crop: int | Sequence[int] | None = None) -> Geometry:
    """The geometry of torchvision's Resize and CenterCrop.

    Args:
        size: (height, width) of the frame.
        resize: the shorter side, or (height, width).
        crop: the side of the square in the middle, or (height, width); None where nothing is cropped.
    """
    whole = Geometry.whole(size)
    if crop is None:
        return whole
    height, width = _resized(size, resize)
    crop_height, crop_width = _pair(crop)
    top, left = round((height - crop_height) / 2), round((width - crop_width) / 2)
    return whole.part((height, width), top, left, crop_height, crop_width)


def compute_transform_geometry(transform: Any, size: Size) -> Geometry:
    """The geometry of a torchvision Compose of at most one Resize and one CenterCrop, as OpenCLIP makes it.

    Raises:
        MedfaithError: a step changes the geometry in another way.
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
    """The geometry of a Hugging Face image processor, from its attributes (padding, resizing, centre crop).

    Raises:
        MedfaithError: it cuts the image into tiles, or pads it in a way that is not known.
    """
    tiles = [name for name in TILING if getattr(processor, name, None)]
    pads = bool(getattr(processor, "do_pad", False))
    if tiles or (pads and not hasattr(processor, "pad_to_square")):
        raise MedfaithError(
            f"{type(processor).__name__}: {', '.join(tiles) or 'do_pad'} gives images whose geometry is not known\n"
            "  what to do: use --model medfaith-hf-vlm, which answers without heatmaps, or another model"
        )
    geometry, canvas = Geometry.whole(size), size
    if pads:  # LLaVA's: to a square, the image in its middle
        side = max(size)
        geometry = geometry.part(canvas, -((side - size[0]) // 2), -((side - size[1]) // 2), side, side)
        canvas = (side, side)
    if not getattr(processor, "do_center_crop", False):
        return geometry
    if processor.do_resize:
        canvas = _resized(canvas, _processor_size(processor))
    height, width = (_entry(processor.crop_size, name) for name in ("height", "width"))
    # Truncation towards zero is the processors' own; a crop larger than the image pads it.
    top, left = int((canvas[0] - height) / 2), int((canvas[1] - width) / 2)
    return geometry.part(canvas, top, left, height, width)


def to_frame(grids: np.ndarray | Sequence[np.ndarray], geometry: Geometry) -> np.ndarray:
    """Heatmaps on the frame's pixels, as the metric puts them there (attention_alignment.frames.to_frame).

    Args:
        grids: (N, h, w), finite.

    Returns:
        float32 (N, H, W).

    Raises:
        ValueError: a heatmap that is no (h, w) of finite numbers.
    """
    frames = np.zeros((len(grids), *geometry.size), dtype=np.float32)
    for frame, grid in zip(frames, grids, strict=True):
        frame[:] = on_frame(grid, geometry.size, geometry.window)
    return frames


def visible_share(boxes: np.ndarray | Sequence[Sequence[float]], geometry: Geometry) -> np.ndarray:
    """The share of each box's area that the model could see, of what of the box lies in the frame.

    Args:
        boxes: xywh (n, 4), pixels of the frame, top-left origin.

    Returns:
        float64 (n,) in [0, 1]; NaN for a box without area in the frame.
    """
    xywh = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    height, width = geometry.size
    in_frame = _overlap(xywh, (0.0, 0.0, float(width), float(height)))
    x, y, w, h = geometry.window
    left, top = max(x, 0.0), max(y, 0.0)
    seen = (left, top, min(x + w, width) - left, min(y + h, height) - top)
    area = in_frame > 0
    return np.divide(_overlap(xywh, seen), in_frame, out=np.full(len(xywh), np.nan), where=area)


def _overlap(xywh: np.ndarray, window: tuple[float, float, float, float]) -> np.ndarray:
    corner = np.maximum(xywh[:, :2], window[:2])
    end = np.minimum(xywh[:, :2] + xywh[:, 2:], (window[0] + window[2], window[1] + window[3]))
    return (end - corner).clip(0).prod(axis=1)


def _resized(size: Size, resize: int | Sequence[int]) -> Size:
    """(height, width) after torchvision's Resize; one number is the shorter side's, the longer is cut to a whole."""
    sides = [resize] if isinstance(resize, int) else list(resize)
    if len(sides) == 2:
        return sides[0], sides[1]
    short, long = min(size), max(size)
    other = int(sides[0] * long / short)
    return (sides[0], other) if size[0] <= size[1] else (other, sides[0])


def _processor_size(processor: Any) -> int | Sequence[int]:
    height, width, shortest = (_entry(processor.size, name) for name in ("height", "width", "shortest_edge"))
    if height and width:
        return height, width
    if shortest and not _entry(processor.size, "longest_edge"):
        return shortest
    raise MedfaithError(
        f"{type(processor).__name__} resizes to {processor.size} before it crops, whose geometry is not known\n"
        "  what to do: use a model whose size is a shortest_edge, or a height and a width"
    )


def _entry(size: Any, name: str) -> Any:
    return size.get(name) if isinstance(size, Mapping) else getattr(size, name, None)


def _pair(side: int | Sequence[int]) -> Size:
    if isinstance(side, int):
        return side, side
    return (side[0], side[0]) if len(side) == 1 else (side[0], side[1])
