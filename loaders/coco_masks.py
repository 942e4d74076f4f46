"""Masks in COCO JSON files (images, categories, annotations with RLE), the standard way and as CXAS writes them.

CXAS nests the images once more in its files of one image, leaves out their sizes, and repeats annotation ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from . import json_text, rle
from .errors import InputError

ACTION = "write the file again with the tool that made it"
_KINDS = {str: "a text", int: "a whole number", int | str: "a whole number or a text"}


@dataclass(frozen=True, slots=True)
class CocoImage:
    """One image of a COCO file.

    path: the file. size: (width, height) where stated. masks: name, number of its annotation in the file (from 1), and
    segmentation as it stands there.
    """

    path: Path
    size: tuple[int, int] | None
    masks: list[tuple[str, int, Any]] = field(default_factory=list)

    def read(self) -> dict[str, rle.Rle]:
        """The masks by name, several annotations of one name united. Raises InputError naming file and annotation."""
        parts: dict[str, list[rle.Rle]] = {}
        for name, number, segmentation in self.masks:
            row = f"{number} of annotations"
            try:
                mask = rle.checked(segmentation)
                sizes = {tuple(part["size"]) for part in parts.get(name, ())}
                if self.size is not None and rle.size_of(mask) != self.size[::-1]:
                    raise ValueError(f"size {mask['size']}; its image has {list(self.size[::-1])}")
                if sizes - {tuple(mask["size"])}:
                    raise ValueError(f"size {mask['size']}; another annotation of {name!r} has another one")
            except ValueError as error:
                expected = "a COCO RLE, compressed or a list of run lengths, of its image's height and width"
                found = f"mask of {name!r}: {error}"
                raise InputError(self.path, found, row=row, expected=expected, action=ACTION) from None
            parts.setdefault(name, []).append(mask)
        return {name: rle.union(masks) if len(masks) > 1 else masks[0] for name, masks in parts.items()}


def normalised(label: str) -> str:
    """A label without case, "_" and "-"."""
    return " ".join(re.sub(r"[_-]", " ", label).lower().split())


def parse(path: Path, names: Mapping[str, str]) -> dict[str, CocoImage]:
    """The images of a COCO file by id (the stem of `file_name`), with the masks whose normalised label is in `names`.

    Raises InputError naming the file and the entry that is at fault.
    """
    try:
        document = json_text.parse(path.read_bytes())
    except (ValueError, OSError) as error:
        raise InputError(path, f"not JSON ({error})", expected="a COCO file", action=ACTION) from error
    categories = {}
    for row, entry in _entries(path, document, "categories"):
        label = _field(path, row, entry, "name", str)
        categories[_field(path, row, entry, "id", int | str)] = names.get(normalised(label))
    images: dict[str, CocoImage] = {}
    by_number: dict[int | str, CocoImage] = {}
    for row, entry in _entries(path, document, "images"):
        file_name = _field(path, row, entry, "file_name", str)
        image_id = PurePosixPath(file_name.replace("\\", "/")).stem
        number = _field(path, row, entry, "id", int | str)
        if image_id in images or number in by_number:
            raise InputError(path, f"image {image_id!r} or its id {number!r} stands twice", row=row, action=ACTION)
        images[image_id] = by_number[number] = CocoImage(path, _size(path, row, entry))
    for count, (row, entry) in enumerate(_entries(path, document, "annotations"), 1):
        image = by_number.get(_field(path, row, entry, "image_id", int | str))
        category = _field(path, row, entry, "category_id", int | str)
        if image is None or category not in categories:
            missing = "image_id" if image is None else "category_id"
            raise InputError(path, f"{missing} {entry[missing]!r} is not in the file", row=row, action=ACTION)
        if (name := categories[category]) is not None:
            image.masks.append((name, count, entry.get("segmentation")))
    return images


def _entries(path: Path, document: Any, table: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The entries of one list of the file, with a name for errors; lists inside it are opened."""
    listed = document.get(table) if isinstance(document, dict) else None
    if not isinstance(listed, list):
        expected = "a COCO file with images, categories and annotations"
        raise InputError(path, f"has no list {table!r}", expected=expected, action=ACTION)
    flat = [entry for item in listed for entry in (item if isinstance(item, list) else [item])]
    for number, entry in enumerate(flat, 1):
        row = f"{number} of {table}"
        if not isinstance(entry, dict):
            raise InputError(path, f"{type(entry).__name__} {str(entry)[:40]!r}", row=row, expected="an object {...}")
        yield row, entry


def _field(path: Path, row: str, entry: Mapping[str, Any], column: str, kind: Any) -> Any:
    value = entry.get(column)
    if not isinstance(value, kind) or isinstance(value, bool) or value == "":
        raise InputError(path, f"value {value!r}", row=row, column=column, expected=_KINDS[kind], action=ACTION)
    return value


def _size(path: Path, row: str, entry: Mapping[str, Any]) -> tuple[int, int] | None:
    if entry.get("width") is None and entry.get("height") is None:
        return None
    width, height = (_field(path, row, entry, side, int) for side in ("width", "height"))
    if min(width, height) < 1:
        raise InputError(path, f"{width} x {height} pixels", row=row, column="width", expected="a size", action=ACTION)
    return width, height
