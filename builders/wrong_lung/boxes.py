"""Boxes of anatomies, converted from the data set's corners for rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...loaders import chest_imagenome
from ...loaders.chest_imagenome import Corners
from ...loaders.errors import InputError
from .reasons import ELSEWHERE, UNKNOWN

Box = dict[str, Any]  # label, xywh: the form in rows
Size = tuple[int, int]  # height, width


def convert_corners(label: str, corners: Corners, size: Size) -> Box | None:
    """Convert corners to a row's box, clipped at the image's edges.

    Args:
        label: The name of the anatomy.
        corners: x1, y1, x2, y2 in pixels, both ends included.
        size: Height and width of the image in pixels.

    Returns:
        The box; None if it lies outside of the image.

    >>> convert_corners("trachea", (10, 20, 19, 400), (100, 50))
    {'label': 'trachea', 'xywh': [10, 20, 10, 80]}
    """
    xywh = chest_imagenome.convert_corners(corners, size)
    return None if xywh is None else {"label": label, "xywh": xywh}


def clip_box(label: str, xywh: Iterable[float], size: Size) -> Box | None:
    """Clip a box at the image's edges.

    Args:
        label: The name of the anatomy.
        xywh: x, y, width and height in pixels.
        size: Height and width of the image in pixels.

    Returns:
        The box; None if it lies outside of the image.
    """
    clipped = chest_imagenome.clip_box(xywh, size)
    return None if clipped is None else {"label": label, "xywh": clipped}


def find_boxes(
    names: Iterable[str], known_boxes: Iterable[Box], anatomy: Mapping[str, Corners], size: Size
) -> list[Box]:
    """Find the boxes of anatomies in an image, each once.

    Args:
        names: The anatomies.
        known_boxes: Boxes that have priority over `anatomy`.
        anatomy: The corners of each anatomy in the image.
        size: Height and width of the image in pixels.

    Returns:
        The boxes. Anatomies without a box are left out.
    """
    boxes_by_name = {known_box["label"]: known_box for known_box in known_boxes}
    boxes = (
        boxes_by_name[name] if name in boxes_by_name else convert_corners(name, anatomy[name], size)
        for name in dict.fromkeys(names)
        if name in boxes_by_name or name in anatomy
    )
    return [box for box in boxes if box is not None]


def check_corners(gold: Iterable[Any], anatomy: Mapping[str, Mapping[str, Corners]], root: Path) -> Counter[str]:
    """Count boxes of sentences that the annotations file does not have, or has more than a pixel away.

    Args:
        gold: The result of `chest_imagenome.read_gold`.
        anatomy: The corners by image and anatomy in the annotations file.
        root: The folder of Chest ImaGenome.

    Returns:
        The counts by reason.

    Raises:
        InputError: Most boxes differ, so the corners of one of the files have another order or scale.
    """
    boxes = [
        (corners, anatomy.get(sentence.image_id, {}).get(name))
        for sentence in gold
        for name, corners in sentence.boxes.items()
    ]
    is_far = [
        max(abs(a - b) for a, b in zip(corners, other_corners, strict=True)) > 1
        for corners, other_corners in boxes
        if other_corners is not None
    ]
    if sum(is_far) > len(is_far) / 2:
        raise InputError(
            root,
            f"{sum(is_far)} of {len(is_far)} boxes of the sentences are not where the annotations file has them",
            expected="coord_original as [x1, y1, x2, y2] in pixels of the image, as original_x1 to original_y2",
            action="use the unchanged files of the release",
        )
    return Counter({ELSEWHERE: sum(is_far), UNKNOWN: len(boxes) - len(is_far)})
