"""The one reader of COCO JSON files (images, categories, annotations), the standard way and as CXAS writes them.

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

EXPECTED = "a COCO file with images, categories and annotations"
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".dcm", ".dicom", ".bmp", ".tif", ".tiff", ".webp", ".npy", ".npz")
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


def image_id(file_name: str) -> str:
    """The id of the image that a file's name or path stands for.

    >>> image_id("images/abc.jpg"), image_id("1.2.840")
    ('abc', '1.2.840')
    """
    file = PurePosixPath(file_name.replace("\\", "/"))
    return file.stem if file.suffix.lower() in IMAGE_SUFFIXES else file.name


def normalised(label: str) -> str:
    """A label without case, "_" and "-"."""
    return " ".join(re.sub(r"[_-]", " ", label).lower().split())


def masks(path: Path, names: Mapping[str, str]) -> dict[str, CocoImage]:
    """The images of a COCO file by id, with the masks whose normalised label is in `names`.

    Raises InputError naming the file and the entry that is at fault.
    """
    document = json_text.read(path, expected=EXPECTED, action=ACTION)
    labels = {number: names.get(normalised(label)) for number, label in categories(path, document).items()}
    by_number = images(path, document)
    found = dict(by_number.values())
    if len(found) < len(by_number):
        names_found = [name for name, _ in by_number.values()]
        twice = next(name for name in names_found if names_found.count(name) > 1)
        raise InputError(path, f"two images are called {twice!r}", expected="each image once", action=ACTION)
    for count, (row, entry) in enumerate(entries(path, document, "annotations"), 1):
        number = value(path, row, entry, "image_id", int | str)
        category = value(path, row, entry, "category_id", int | str)
        if number not in by_number or category not in labels:
            missing = "category_id" if number in by_number else "image_id"
            raise InputError(path, f"{missing} {entry[missing]!r} is not in the file", row=row, action=ACTION)
        if (name := labels[category]) is not None:
            by_number[number][1].masks.append((name, count, entry.get("segmentation")))
    return found


def categories(path: Path, document: Any) -> dict[int | str, str]:
    """The name of each category by its id. Raises InputError naming the file and the entry."""
    listed = entries(path, document, "categories")
    return {value(path, row, entry, "id", int | str): value(path, row, entry, "name", str) for row, entry in listed}


def images(path: Path, document: Any) -> dict[int | str, tuple[str, CocoImage]]:
    """(id, image without masks) of each image by its number in the file. Raises InputError naming file and entry."""
    found: dict[int | str, tuple[str, CocoImage]] = {}
    for row, entry in entries(path, document, "images"):
        name = image_id(value(path, row, entry, "file_name", str))
        number = value(path, row, entry, "id", int | str)
        if number in found:
            raise InputError(path, f"the id {number!r} is that of an earlier image, too", row=row, action=ACTION)
        found[number] = name, CocoImage(path, _size(path, row, entry))
    return found


def entries(path: Path, document: Any, table: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The entries of one list of the file, each with its place for errors; lists inside it are opened."""
    listed = document.get(table) if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise InputError(path, f"has no list {table!r}", expected=EXPECTED, action=ACTION)
    flat = [entry for item in listed for entry in (item if isinstance(item, list) else [item])]
    for number, entry in enumerate(flat, 1):
        row = f"{number} of {table}"
        if not isinstance(entry, dict):
            found = f"{type(entry).__name__} {str(entry)[:40]!r}"
            raise InputError(path, found, row=row, expected="an object {...}", action=ACTION)
        yield row, entry


def value(path: Path, row: str, entry: Mapping[str, Any], column: str, kind: Any) -> Any:
    """One value of an entry. Raises InputError where it is missing or of another kind than int, str or int | str."""
    found = entry.get(column)
    if not isinstance(found, kind) or isinstance(found, bool) or found == "":
        raise InputError(path, f"value {found!r}", row=row, column=column, expected=_KINDS[kind], action=ACTION)
    return found


def _size(path: Path, row: str, entry: Mapping[str, Any]) -> tuple[int, int] | None:
    if entry.get("width") is None and entry.get("height") is None:
        return None
    width, height = (value(path, row, entry, side, int) for side in ("width", "height"))
    if min(width, height) < 1:
        raise InputError(path, f"{width} x {height} pixels", row=row, column="width", expected="a size", action=ACTION)
    return width, height
