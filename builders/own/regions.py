"""Boxes and masks of a user's table: the region of a question."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ...loaders import images, json_text, limits, rle
from ...loaders.errors import ImageError, InputError
from ...loaders.own_table import Record
from ..checks import is_inside
from .cells import IMAGES, Place, parse_literal
from .mapping import BOX_FORMS, format_cell

_MASK_FILE = ".png"
_BOX_KEYS = ("xywh", "xyxy", "bbox", "box")


def read_boxes(place: Place, record: Record, row: Mapping[str, Any], root: Path) -> list[dict[str, Any]]:
    """Read the boxes of a row.

    Args:
        place: The row, for messages.
        record: Its cells.
        row: The row as built so far: images, width, height, question, options, gold, topic and anatomy.
        root: The folder of the images.

    Returns:
        Label and `xywh` of each box, in pixels from the top left of the image.

    Raises:
        InputError: A box cannot be read, or is not inside of the image.
    """
    name = "boxes_file" if "boxes_file" in place.mapping.fields else "boxes"
    value = place.mapping.read_value(name, record) if name == "boxes" else _read_boxes_file(place, record, row, root)
    if isinstance(value, str):
        try:
            value = parse_literal(value)
        except ValueError:
            expected = "a list of four numbers, or a list of such lists, in JSON"
            raise place.fail(name, f"{value[:60]!r} is no JSON", expected=expected) from None
    return [_read_box(place, name, item, row) for item in _list_boxes(value)]


def _list_boxes(value: Any) -> list[Any]:
    """Return a list of boxes for a cell's content: none, one box (four numbers or an object), or a list of boxes."""
    if value is None or value == []:
        return []
    return value if isinstance(value, list) and isinstance(value[0], list | dict) else [value]


def _read_box(place: Place, name: str, item: Any, row: Mapping[str, Any]) -> dict[str, Any]:
    label, numbers, form = "", item, place.mapping.boxes_form
    if isinstance(item, dict):
        key = next((key for key in _BOX_KEYS if key in item), "")
        numbers, label = item.get(key), format_cell(item.get("label", item.get("class", "")))
        form = key + form.removeprefix("xywh").removeprefix("xyxy") if key in BOX_FORMS else form
    if not isinstance(numbers, list) or len(numbers) != 4 or not all(map(_is_finite, numbers)):
        expected = 'four numbers, or {"label": text, "xywh": four numbers}'
        raise place.fail(name, f"{item!r:.80} is no box", expected=expected)
    xywh = [float(number) for number in numbers]
    if form in ("xywh", "xyxy") and _are_fractions(numbers):
        other_form = "xyxy" if form == "xywh" else "xywh"
        action = f'write boxes_form = "{form}_relative" or "{other_form}_relative" into the mapping'
        raise place.fail(name, f"the box {numbers} has fractions", expected=f"{form} in pixels", action=action)
    if form.endswith("_relative"):
        xywh = [number * (row["width"], row["height"])[position % 2] for position, number in enumerate(xywh)]
    if form.startswith("xyxy"):
        xywh[2:] = [xywh[2] - xywh[0], xywh[3] - xywh[1]]
    if not is_inside(xywh, row):
        expected = f"{form}, inside of an image of {row['width']} x {row['height']} pixels"
        action = "write boxes_form into the mapping if the numbers mean something else"
        raise place.fail(name, f"the box {numbers} is not inside of the image", expected=expected, action=action)
    return {"label": label or row["anatomy"] or row["topic"], "xywh": xywh}


def _is_finite(number: Any) -> bool:
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    return is_number and abs(number) <= sys.float_info.max  # an integer may be larger


def _are_fractions(numbers: Sequence[float]) -> bool:
    """Return whether the numbers of a box seem to be shares of width and height: at most 1, and not all whole.

    In pixels, such a box would be one pixel in the upper left corner.
    """
    return max(numbers) <= 1 and any(number % 1 for number in numbers)


def _read_boxes_file(place: Place, record: Record, row: Mapping[str, Any], root: Path) -> list[dict[str, Any]]:
    """Read the boxes that the question or the answer names from the image's own file, [{label: four numbers}, ...]."""
    given = str(place.mapping.fields["boxes_file"])
    if "{" in given:
        path = root / str(place.mapping.read_value("boxes_file", record))
    else:
        path = (root / row["images"][0]["key"]).parent / given
    if not limits.has_file(path):
        return []
    expected = "a list of objects, each label: four numbers"
    content = json_text.read(path, expected=expected, action="correct boxes_file in the mapping")
    text = " ".join([row["question"], *([] if row["options"] else row["gold"])]).casefold()
    boxes = []
    for item in content if isinstance(content, list) else [content]:
        if not isinstance(item, dict):
            raise InputError(path, f"holds {item!r:.60}", expected=expected, action="correct boxes_file in the mapping")
        for label, numbers in item.items():
            if re.search(rf"\b{re.escape(label.casefold())}s?\b", text):
                boxes.append({"label": label, "xywh": numbers})
    return boxes


def read_mask(place: Place, record: Record, row: Mapping[str, Any], root: Path) -> rle.Rle | None:
    """Read the mask of a row: RLE, polygons, or a png whose pixels other than 0 are the mask.

    Args:
        place: The row, for messages.
        record: Its cells.
        row: The row as built so far: width and height of the image.
        root: The folder of the images.

    Returns:
        The mask (height, width); None without one, or if it is empty.

    Raises:
        InputError: The mask cannot be read, or has another size than the image.
    """
    value = place.mapping.read_value("mask", record)
    if value is None:
        return None
    size = row["height"], row["width"]
    if isinstance(value, str) and value.lower().endswith(_MASK_FILE):
        mask = rle.encode(_read_mask_file(place, value, root))
    else:
        try:
            content = parse_literal(value) if isinstance(value, str) else value
            polygons = (
                [content] if isinstance(content, list) and content and not isinstance(content[0], list) else content
            )
            mask = rle.validate_rle(content) if isinstance(content, dict) else rle.encode_polygons(polygons, size)
            if not isinstance(content, dict) and polygons and all(map(_are_fractions, polygons)):
                raise ValueError("its polygons have fractions; multiply them by width and height")
        except ValueError as error:
            expected = f"RLE ({{size, counts}}), polygons ([[x1, y1, x2, y2, ...]]), or the path of a {_MASK_FILE}"
            raise place.fail("mask", f"is no mask ({error})", expected=expected) from None
    if tuple(mask["size"]) != size:
        height, width = mask["size"]
        expected = f"{size[1]} x {size[0]} pixels, the size of its image"
        raise place.fail("mask", f"has {width} x {height} pixels", expected=expected)
    return mask if rle.area(mask) else None


def _read_mask_file(place: Place, text: str, root: Path) -> np.ndarray:
    """Read a png as a bool mask (h, w)."""
    path = root / text.replace("\\", "/")
    try:
        images.check_key(text.replace("\\", "/"), IMAGES)
        limits.require_file(path)
        with Image.open(path, formats=("PNG",)) as image:
            if image.width * image.height > limits.IMAGE_PIXELS:
                raise ValueError("it is too large")
            pixels = np.asarray(image)
    except (ImageError, OSError, ValueError) as error:
        problem = f"{text!r} cannot be read ({str(error).splitlines()[0]})"
        raise place.fail("mask", problem, expected="the path of a png below the folder of images") from None
    colours = pixels[..., : 3 if pixels.shape[-1] >= 3 else 1] if pixels.ndim == 3 else pixels[..., None]
    return (colours != 0).any(axis=-1)
