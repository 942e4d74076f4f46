"""Pixels of all image formats: the limits of their number, and grey levels as 8 bits.

Grey levels. Pixels of 8 bits do not change. Deeper ones (16-bit png, DICOM without a window) are assumed to span
0 .. 2^k - 1 with the smallest k >= 8 that holds the image's largest value. Radiographs of 10 to 15 bits are often
stored in a 16-bit container: division by 65535 would show them almost black, and a stretch from the minimum to the
maximum of each image would hide its exposure. The scaling is linear and preserves the order of all pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from . import limits

DOWNLOAD_AGAIN = "download the file again and compare its size or checksum with the source's"


class CannotOpenError(Exception):
    """A known reason why a file cannot be used, with what to do about it; `images.open_image` adds source and key."""

    def __init__(self, problem: str, action: str) -> None:
        super().__init__(problem)
        self.action = action


def check_size(width: int, height: int) -> None:
    """Require a number of pixels that an image can have.

    Args:
        width: The width in pixels.
        height: The height in pixels.

    Raises:
        CannotOpenError: There are no pixels, or more than `limits.IMAGE_PIXELS`.
    """
    if width < 1 or height < 1:
        raise CannotOpenError(f"{width} x {height} pixels", DOWNLOAD_AGAIN)
    if width * height > limits.IMAGE_PIXELS:
        limit = f"{limits.IMAGE_PIXELS // 10**6} megapixels"
        raise CannotOpenError(
            f"{width} x {height} pixels, more than {limit}", "no radiograph is that large: check the file"
        )


def check_scans(path: Path) -> None:
    """Limit the scans of a jpg, or of the jpg in a DICOM. The marker of a scan never occurs in compressed data.

    Args:
        path: The file.

    Raises:
        CannotOpenError: There are more than `limits.JPEG_SCANS`.
    """
    with path.open("rb") as file:
        n_scans = sum(piece.count(b"\xff\xda") for piece in iter(lambda: file.read(1 << 20), b""))
    if n_scans > limits.JPEG_SCANS:
        problem = f"a jpg of more than {limits.JPEG_SCANS} scans"
        raise CannotOpenError(problem, "no program writes so many: check the file")


def map_levels(stored: np.ndarray, display: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Map stored pixels to 8 bits.

    Each step from stored to displayed value depends on one pixel only. It is computed once a level, not once a pixel,
    so a 20-megapixel radiograph needs no float copies of itself.

    Args:
        stored: Stored pixels of at most 16 bits, of any shape.
        display: Maps integer grey levels to numbers from 0 to 1.

    Returns:
        The displayed pixels: uint8 of the same shape.
    """
    lowest, highest = int(stored.min()), int(stored.max())
    table = np.rint(np.clip(display(np.arange(lowest, highest + 1)), 0, 1) * 255).astype(np.uint8)
    return table[stored.astype(np.int32) - lowest]


def find_range(values: np.ndarray) -> tuple[int, int]:
    """Compute the range of grey levels of unknown depth: 0 to 2^k - 1, with the smallest k >= 8 that holds all levels.

    If a level is negative, the range is that of signed numbers, -2^(k-1) to 2^(k-1) - 1. The module's docstring says
    why.

    Args:
        values: Integer grey levels.

    Returns:
        The lowest and the highest level of the range.
    """
    lowest, highest = int(values.min()), int(values.max())
    if lowest >= 0:
        return 0, 2 ** max(8, highest.bit_length()) - 1
    bits = max(7, highest.bit_length(), (-lowest - 1).bit_length())
    return -(2**bits), 2**bits - 1


def scale_to_unit(values: np.ndarray, span: tuple[float, float]) -> np.ndarray:
    """Scale values linearly, so that `span` becomes 0 to 1.

    Args:
        values: The values.
        span: The value that becomes 0 and the value that becomes 1.

    Returns:
        The scaled values: float64 of the same shape.

    Raises:
        ValueError: The two ends of the span are equal.
    """
    low, high = span
    if low == high:
        raise ValueError(f"the levels from {low} to {high} are one")
    return (values - low) / (high - low)
