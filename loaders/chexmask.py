"""CheXmask: masks of both lungs and the heart of NIH ChestX-ray14, from its csv file of run lengths.

Source: Gaggion et al., "CheXmask: a large-scale dataset of anatomical segmentation masks for multi-center chest x-ray
images" (Scientific Data, 2024), PhysioNet. The masks are the output of HybridGNet, not drawn by hand. Accepted:
`OriginalResolution/ChestX-Ray8.csv` or `Preprocessed/ChestX-Ray8.csv` of the release, or the file alone, also packed by
gzip.

A mask is a text of pairs "start length", separated by blanks. Starts count from 1 along the rows of the mask, which has
`Height` rows of `Width` pixels. Left and right are the patient's: the left lung is in the right half of an image.
These facts are from the functions and the example of the official repository (ngaggion/CheXmask-Database). The database
advises to use masks with a mean Dice coefficient (RCA) of at least 0.7; the others are left out here and counted.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from . import csv_table, layouts, limits, rle
from .anatomy_masks import AnatomyMasks, Layout, Size
from .errors import InputError
from .rle import Rle

STRUCTURES = {"Left Lung": "left lung", "Right Lung": "right lung", "Heart": "heart"}
IMAGE, QUALITY, HEIGHT, WIDTH = "Image Index", "Dice RCA (Mean)", "Height", "Width"
LOWEST_QUALITY = 0.7
NAME = "ChestX-Ray8.csv"
POOR = f"images whose masks CheXmask rates as poor (Dice below {LOWEST_QUALITY})"
ACTION = f"use OriginalResolution/{NAME} of CheXmask (PhysioNet), unchanged"


class MaskRow(NamedTuple):
    """The masks of one image as stored in the file.

    Attributes:
        row: The 1-based row of the file.
        size: Height and width of the masks in pixels.
        texts: The compressed text of each structure, in the order of STRUCTURES.
    """

    row: int
    size: Size
    texts: tuple[bytes, ...]


def list_image_paths(key: str) -> tuple[str, ...]:
    """List the paths that a key may have below the root.

    Masks do not count as images. Rows that are made from them refer to the images of ChestX-ray14.

    Args:
        key: The key.

    Returns:
        Paths relative to the root, the key alone.
    """
    return (key,)


def find_label_file(root: Path) -> Path:
    """Find the csv file of ChestX-ray14.

    Args:
        root: The folder of CheXmask, or the file.

    Returns:
        The path.

    Raises:
        InputError: The root has no such file, or only a packed one.
    """
    if root.is_file():
        return root
    path = layouts.find_label_file("chexmask", root, "masks")
    if path is not None:
        return path
    packed = next((path for path in sorted(root.rglob("*.zip")) if "chest" in path.name.casefold()), None)
    if packed is not None:
        raise InputError(packed, "is packed", expected=NAME, action="unpack it")
    raise InputError(root, f"holds no {NAME}", expected=f"OriginalResolution/{NAME}", action=ACTION)


def open_masks(root: Path, image_ids: Collection[str], anatomies: Sequence[str]) -> tuple[AnatomyMasks, list[str]]:
    """Read the masks of some images.

    Args:
        root: The folder of CheXmask, or the file.
        image_ids: The images.
        anatomies: The anatomies to read: the structures, or thirds of a lung (anatomies.toml).

    Returns:
        The masks, to be decoded image by image; and the images that were left out because the quality that CheXmask
        estimates for their masks is below LOWEST_QUALITY.

    Raises:
        InputError: The file is malformed, an image occurs twice, or a cell is no number.
    """
    path, required = find_label_file(root), frozenset(image_ids)
    rows: dict[str, MaskRow] = {}
    earlier_ids: set[str] = set()
    poor: list[str] = []
    columns = (IMAGE, QUALITY, HEIGHT, WIDTH, *STRUCTURES)
    for row, (image_id, quality, height, width, *texts) in csv_table.iterate_rows(path, columns, action=ACTION):
        if image_id in earlier_ids:
            problem = f"{image_id!r} repeats an earlier row"
            raise InputError(path, problem, row=row, column=IMAGE, expected="each image once", action=ACTION)
        earlier_ids.add(image_id)
        if image_id not in required:
            continue
        size = (_parse_number(height, path, row, HEIGHT), _parse_number(width, path, row, WIDTH))
        if not _parse_share(quality, path, row) >= LOWEST_QUALITY:
            poor.append(image_id)
            continue
        rows[image_id] = MaskRow(row, size, tuple(zlib.compress(text.encode("ascii", "replace"), 1) for text in texts))
    return AnatomyMasks(_Rows(path, rows), anatomies), poor


def decode_runs(text: str, size: Size) -> np.ndarray:
    """Decode a mask from its pairs of start and length.

    Args:
        text: The pairs; blank for an empty mask.
        size: Height and width of the mask in pixels.

    Returns:
        Bool of shape (height, width).

    Raises:
        ValueError: The text holds no pairs of numbers, or a run is empty, overlaps an earlier one or leaves the mask.

    >>> decode_runs("2 1 4 2", (2, 3)).astype(int).tolist()
    [[0, 1, 0], [1, 1, 0]]
    """
    numbers = text.split()
    if len(numbers) % 2 or not all(number.isdecimal() and len(number) < 10 for number in numbers):
        raise ValueError("it holds no pairs of whole numbers")
    starts, lengths = np.array(numbers, dtype=np.int64).reshape(-1, 2).T
    edges = np.stack([starts - 1, starts - 1 + lengths], axis=1).ravel()
    if numbers and (edges[0] < 0 or edges[-1] > size[0] * size[1] or (np.diff(edges) < 0).any() or not lengths.all()):
        raise ValueError(f"its runs overlap, or leave a mask of {size[0]} x {size[1]} pixels (height x width)")
    steps = np.zeros(size[0] * size[1] + 1, dtype=np.int8)
    np.add.at(steps, edges[0::2], 1)
    np.add.at(steps, edges[1::2], -1)
    return steps[:-1].cumsum(dtype=np.int8).astype(bool).reshape(size)


class _Rows(Layout):
    """The layout of rows that `open_masks` has read: compressed texts, decoded when an image is read."""

    def __init__(self, path: Path, rows: Mapping[str, MaskRow]) -> None:
        super().__init__(dict.fromkeys(rows, path))
        self._rows = rows

    def select(self, image_ids: Iterable[str]) -> Self:
        subset = super().select(image_ids)
        subset._rows = {image_id: self._rows[image_id] for image_id in subset.places}
        return subset

    def get_declared_size(self, image_id: str) -> Size | None:
        height, width = self._rows[image_id].size
        return width, height

    def read(self, image_id: str) -> dict[str, Rle]:
        row, size, texts = self._rows[image_id]
        masks = {}
        for (column, name), text in zip(STRUCTURES.items(), texts, strict=True):
            try:
                masks[name] = rle.encode(decode_runs(zlib.decompress(text).decode("ascii"), size))
            except ValueError as error:
                expected = "pairs of start and length, in the order of the pixels"
                raise InputError(
                    self.places[image_id], str(error), row=row, column=column, expected=expected, action=ACTION
                ) from None
        return masks


def _parse_number(text: str, path: Path, row: int, column: str) -> int:
    number = int(text) if text.isdecimal() and len(text) < 6 else 0
    if not 0 < number**2 <= limits.IMAGE_PIXELS:
        raise InputError(path, f"{text!r}", row=row, column=column, expected="pixels, above 0", action=ACTION)
    return number


def _parse_share(text: str, path: Path, row: int) -> float:
    try:
        share = float(text)
    except ValueError:
        share = float("nan")
    if not 0 <= share <= 1:
        raise InputError(path, f"{text!r}", row=row, column=QUALITY, expected="a number from 0 to 1", action=ACTION)
    return share
