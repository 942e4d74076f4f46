"""Boxes of anatomies: from the data set's corners to rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...loaders.errors import InputError

Corners = tuple[float, float, float, float]  # x1, y1, x2, y2 in pixels of the image, both ends included
Box = dict[str, Any]  # label, xywh: as in a row
Size = tuple[int, int]  # height, width
ELSEWHERE = "boxes of sentences that the annotations file has elsewhere"
UNKNOWN = "boxes of sentences that the annotations file has not"


def box(label: str, corners: Corners, size: Size) -> Box | None:
    """A row's box, cut off at the image's edges; None where nothing of it is in the image.

    >>> box("trachea", (10, 20, 19, 400), (100, 50))
    {'label': 'trachea', 'xywh': [10, 20, 10, 80]}
    """
    x1, y1, x2, y2 = corners
    return cut(label, (x1, y1, x2 - x1 + 1, y2 - y1 + 1), size)


def cut(label: str, xywh: Iterable[float], size: Size) -> Box | None:
    """A row's box of [x, y, width, height], cut off at the image's edges; None where nothing of it is in the image."""
    x, y, width, height = xywh
    left, top, right, bottom = max(x, 0), max(y, 0), min(x + width, size[1]), min(y + height, size[0])
    if left >= right or top >= bottom:
        return None
    return {"label": label, "xywh": [left, top, right - left, bottom - top]}


def placed(names: Iterable[str], known: Iterable[Box], anatomy: Mapping[str, Corners], size: Size) -> list[Box]:
    """The boxes of these anatomies in an image, each once: as `known` has them, else from `anatomy`; without those that
    neither has.
    """
    of_name = {known_box["label"]: known_box for known_box in known}
    found = (
        of_name[name] if name in of_name else box(name, anatomy[name], size)
        for name in dict.fromkeys(names)
        if name in of_name or name in anatomy
    )
    return [each for each in found if each is not None]


def check_corners(gold: Iterable[Any], anatomy: Mapping[str, Mapping[str, Corners]], root: Path) -> Counter[str]:
    """How many boxes of the sentences the annotations file has not, or more than a pixel from there.

    Raises InputError where most are: then the corners of one of the files are in another order or scale.
    """
    boxes = [(corners, anatomy.get(one.image_id, {}).get(name)) for one in gold for name, corners in one.boxes.items()]
    far = [
        max(abs(a - b) for a, b in zip(corners, there, strict=True)) > 1
        for corners, there in boxes
        if there is not None
    ]
    if sum(far) > len(far) / 2:
        raise InputError(
            root,
            f"{sum(far)} of {len(far)} boxes of the sentences are not where the annotations file has them",
            expected="coord_original as [x1, y1, x2, y2] in pixels of the image, as original_x1 to original_y2",
            action="use the unchanged files of the release",
        )
    return Counter({ELSEWHERE: sum(far), UNKNOWN: len(boxes) - len(far)})
