"""The one reader of COCO JSON files (images, categories, annotations), in the standard form and as CXAS writes it.

In its files of one image, CXAS nests the list of images once more, leaves out their sizes, and repeats annotation ids.
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

    Attributes:
        path: The COCO file.
        size: (width, height), if the file states it.
        masks: Name of the structure, 1-based number of the annotation in the file, and its segmentation as stored.
    """

    path: Path
    size: tuple[int, int] | None
    masks: list[tuple[str, int, Any]] = field(default_factory=list)

    def read(self) -> dict[str, rle.Rle]:
        """Decode the masks; several annotations of one name are united.

        Returns:
            The masks by name.

        Raises:
            InputError: A mask is damaged or has another size; the error names file and annotation.
        """
        masks_by_name: dict[str, list[rle.Rle]] = {}
        for name, number, segmentation in self.masks:
            row = f"{number} of annotations"
            try:
                mask = self._encode(segmentation)
                sizes = {tuple(other_mask["size"]) for other_mask in masks_by_name.get(name, ())}
                if self.size is not None and rle.get_size(mask) != self.size[::-1]:
                    raise ValueError(f"size {mask['size']}; its image has {list(self.size[::-1])}")
                if sizes - {tuple(mask["size"])}:
                    raise ValueError(f"size {mask['size']}; another annotation of {name!r} has another one")
            except ValueError as error:
                expected = "polygons, or a COCO RLE (text or a list of run lengths) of its image's height and width"
                problem = f"mask of {name!r}: {error}"
                raise InputError(self.path, problem, row=row, expected=expected, action=ACTION) from None
            masks_by_name.setdefault(name, []).append(mask)
        return {name: rle.union(masks) if len(masks) > 1 else masks[0] for name, masks in masks_by_name.items()}

    def _encode(self, segmentation: Any) -> rle.Rle:
        """Encode a segmentation, which is a list of polygons or an RLE. Raise ValueError if it is neither."""
        if not isinstance(segmentation, list):
            return rle.validate_rle(segmentation)
        if self.size is None:
            raise ValueError("polygons, and the file does not state height and width of the image")
        width, height = self.size
        return rle.encode_polygons(segmentation, (height, width))


def parse_image_id(file_name: str) -> str:
    """Return the id of the image that a file name or path denotes.

    >>> parse_image_id("images/abc.jpg"), parse_image_id("1.2.840")
    ('abc', '1.2.840')

    Args:
        file_name: The name or path of an image, or its id.

    Returns:
        The name without folder and without the suffix of an image.
    """
    file = PurePosixPath(file_name.replace("\\", "/"))
    return file.stem if file.suffix.lower() in IMAGE_SUFFIXES else file.name


def normalize_label(label: str) -> str:
    """Return a label without case, "_" and "-".

    Args:
        label: The name of a structure.

    Returns:
        Lower-case words, separated by single spaces.
    """
    return " ".join(re.sub(r"[_-]", " ", label).lower().split())


def read_masks(path: Path, names: Mapping[str, str]) -> dict[str, CocoImage]:
    """Read the images of a COCO file with the masks of some structures.

    Args:
        path: The COCO file.
        names: The name to use for each normalized label; masks with other labels are skipped.

    Returns:
        The images by id.

    Raises:
        InputError: An entry is malformed; the error names the file and the entry.
    """
    document = json_text.read(path, expected=EXPECTED, action=ACTION)
    labels = {number: names.get(normalize_label(label)) for number, label in read_categories(path, document).items()}
    images_by_number = read_images(path, document)
    images_by_id = dict(images_by_number.values())
    if len(images_by_id) < len(images_by_number):
        image_ids = [name for name, _ in images_by_number.values()]
        repeated = next(name for name in image_ids if image_ids.count(name) > 1)
        raise InputError(path, f"two images are called {repeated!r}", expected="each image once", action=ACTION)
    for count, (row, entry) in enumerate(iterate_entries(path, document, "annotations"), 1):
        number = require_value(path, row, entry, "image_id", int | str)
        category = require_value(path, row, entry, "category_id", int | str)
        if number not in images_by_number or category not in labels:
            missing = "category_id" if number in images_by_number else "image_id"
            raise InputError(path, f"{missing} {entry[missing]!r} is not in the file", row=row, action=ACTION)
        if (name := labels[category]) is not None:
            images_by_number[number][1].masks.append((name, count, entry.get("segmentation")))
    return images_by_id


def read_categories(path: Path, document: Any) -> dict[int | str, str]:
    """Read the names of the categories.

    Args:
        path: The COCO file, for messages.
        document: Its content.

    Returns:
        The name of each category by its id.

    Raises:
        InputError: An entry is malformed; the error names the file and the entry.
    """
    listed = iterate_entries(path, document, "categories")
    return {
        require_value(path, row, entry, "id", int | str): require_value(path, row, entry, "name", str)
        for row, entry in listed
    }


def read_images(path: Path, document: Any) -> dict[int | str, tuple[str, CocoImage]]:
    """Read the images, without masks.

    Args:
        path: The COCO file, for messages.
        document: Its content.

    Returns:
        Id and image by the number of the image in the file.

    Raises:
        InputError: An entry is malformed; the error names the file and the entry.
    """
    images_by_number: dict[int | str, tuple[str, CocoImage]] = {}
    for row, entry in iterate_entries(path, document, "images"):
        name = parse_image_id(require_value(path, row, entry, "file_name", str))
        number = require_value(path, row, entry, "id", int | str)
        if number in images_by_number:
            raise InputError(path, f"the id {number!r} is that of an earlier image, too", row=row, action=ACTION)
        images_by_number[number] = name, CocoImage(path, _read_size(path, row, entry))
    return images_by_number


def iterate_entries(path: Path, document: Any, table: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Iterate over the entries of a list of the file; nested lists are flattened.

    Args:
        path: The COCO file, for messages.
        document: Its content.
        table: The name of the list: images, categories or annotations.

    Yields:
        The position of the entry, for messages, and the entry.

    Raises:
        InputError: The list is missing, or an entry is not an object.
    """
    listed = document.get(table) if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise InputError(path, f"has no list {table!r}", expected=EXPECTED, action=ACTION)
    flat = [entry for item in listed for entry in (item if isinstance(item, list) else [item])]
    for number, entry in enumerate(flat, 1):
        row = f"{number} of {table}"
        if not isinstance(entry, dict):
            problem = f"{type(entry).__name__} {str(entry)[:40]!r}"
            raise InputError(path, problem, row=row, expected="an object {...}", action=ACTION)
        yield row, entry


def require_value(path: Path, row: str, entry: Mapping[str, Any], column: str, kind: Any) -> Any:
    """Return a value of an entry.

    Args:
        path: The COCO file, for messages.
        row: The position of the entry, for messages.
        entry: The entry.
        column: The name of the value.
        kind: The expected type: int, str or int | str.

    Returns:
        The value.

    Raises:
        InputError: The value is missing or has another type.
    """
    content = entry.get(column)
    if not isinstance(content, kind) or isinstance(content, bool) or content == "":
        raise InputError(path, f"value {content!r}", row=row, column=column, expected=_KINDS[kind], action=ACTION)
    return content


def _read_size(path: Path, row: str, entry: Mapping[str, Any]) -> tuple[int, int] | None:
    if entry.get("width") is None and entry.get("height") is None:
        return None
    width, height = (require_value(path, row, entry, side, int) for side in ("width", "height"))
    if min(width, height) < 1:
        raise InputError(path, f"{width} x {height} pixels", row=row, column="width", expected="a size", action=ACTION)
    return width, height
