"""Boxes of anatomies: from the data set's corners to rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Corners = tuple[float, float, float, float]  # x1, y1, x2, y2 in pixels of the image, both ends included
Box = dict[str, Any]  # label, xywh: as in a row
Size = tuple[int, int]  # height, width


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
