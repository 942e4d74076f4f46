r"""Boxes that a detector drew on the images of a source: COCO results JSON, or a folder of YOLO text files.

HEAL-MedVQA (section 3.2) trains YOLOv5 on VinDr-CXR and takes its boxes for MIMIC-CXR. No weights are published, so the
user has to provide the boxes. With ultralytics, from a data set in its layout (`vindr.yaml` names the 22 classes and
the folders of images and labels):

    yolo detect train model=yolov5m.pt data=vindr.yaml imgsz=1024 epochs=100 fliplr=0 name=vindr
    yolo detect predict model=runs/detect/vindr/weights/best.pt source=images.txt imgsz=1024 conf=0.05 \
        save=False save_txt=True save_conf=True name=mimic

`images.txt` lists the images' paths, one a line; `fliplr=0`, because a mirrored chest has its heart on the wrong side.
The root is then `runs/detect/mimic`, with `vindr.yaml` copied into it as `data.yaml`. Text files hold shares of the
image's sides, so they fit any size of the detector's input. Boxes of COCO results are in pixels of the original image.

COCO results: `[{image_id, category_id, bbox: [x, y, width, height], score}, ...]`, next to `categories.json`
(`[{id, name}, ...]`, or an object with `categories` and `images`) or `classes.txt` (category 0 is its first line); or
one object with `images`, `categories` and `annotations`. An image_id is the image's id, its file name, or a number that
`images` resolves. Tools number categories from 0 or from 1: `categories.json` states the numbers, and is safer.

YOLO: `<image id>.txt`, in the folder or in `labels/`, with lines `class x y width height [confidence]`, and
`classes.txt` (a name a line) or `data.yaml` (`names`). Lines without a confidence count as 1.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from . import coco, json_text, layouts, limits, yaml_names
from .errors import InputError
from .progress import Progress
from .vindr_cxr import CLASSES, find_class

CATEGORIES, CLASSES_TXT, DATA_YAML = "categories.json", "classes.txt", "data.yaml"
# Shares of a side go a little beyond 1 at an image's edge; pixels go far beyond.
LARGEST_SHARE = 2.0
_CLASS_NUMBER = re.compile(r"[0-9]{1,9}")
_NUMBER = re.compile(r"-?[0-9.]+(e[+-]?[0-9]+)?")
_WRITTEN_CLASS_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{0,20})?(e[+-]?[0-9]{1,2})?")
RESULTS = "COCO results: [{image_id, category_id, bbox, score}, ...], or an object with annotations"
ACTION = "write the detector's boxes again: COCO results JSON, or YOLO text files with their class names"
ORIGINAL = "boxes in pixels of the original images"
SCALE = "scale the boxes and sizes to the original images, or write YOLO text files, which hold shares"
FEWEST_ENDS = 50  # fewer boxes may all be in the upper left by chance
UPPER_LEFT = 0.6  # share of the width and height: lungs reach further
BEYOND, SHARE_BEYOND = 1.01, 0.05
SCHEMA = pa.schema(
    [("image", pa.int32()), ("label", pa.string())]
    + [(name, pa.float64()) for name in ("x", "y", "width", "height", "score")]
)


# Reasons for a skipped box.
REASONS = UNKNOWN_IMAGE, OTHER_CLASS, BELOW_THRESHOLD, OUTSIDE_IMAGE = (
    "unknown_image", "other_class", "below_threshold", "outside_image",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Detections:
    """The boxes of a detector that were selected, and the number of those that were not.

    Attributes:
        boxes: image int32 (index into the requested ids), label (a class of VinDr-CXR), x, y, width, height float64 in
            pixels of the image, clipped to it, and score; ordered by image, then as in the files.
        skipped: Number of skipped boxes by reason (`REASONS`).
    """

    boxes: pa.Table
    skipped: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Box:
    """One box of a file; `unit` is the unit of xywh, `pixel` or `share` of the image's sides."""

    image: str
    label: str
    xywh: tuple[float, float, float, float]
    score: float
    unit: str


def list_image_paths(key: str) -> tuple[str, ...]:
    """List the candidate paths of a key. Detections have no images; their rows reference MIMIC-CXR's.

    Args:
        key: The key.

    Returns:
        The key alone.
    """
    return (key,)


def find_label_files(root: Path) -> dict[str, Path]:
    """Find every file with boxes or class names.

    Args:
        root: The folder of the detector's results, or the JSON file.

    Returns:
        The paths by file name.

    Raises:
        InputError: The root has no boxes, or several kinds.
    """
    boxes, names = _find_files(root)
    return {path.name: path for path in (*boxes, names) if path is not None}


def read_detections(
    root: Path,
    image_ids: Sequence[str],
    classes: Collection[str] = CLASSES,
    *,
    threshold: float = 0.25,
    sizes: Mapping[str, tuple[int, int]],
) -> Detections:
    """Read the boxes of some images and classes.

    Boxes of other images and classes are counted, without an error. Class names are matched like VinDr-CXR's
    (`vindr_cxr.find_class`).

    Args:
        root: The folder of the detector's results, or the JSON file.
        image_ids: The images.
        classes: The classes.
        threshold: The smallest score of a box.
        sizes: (width, height) in pixels of every image.

    Returns:
        The selected boxes, and the number of the others by reason.

    Raises:
        InputError: A line is malformed, a class is unknown, or a box has no positive sides. The error names file and
            row.
    """
    boxes, names = _find_files(root)
    detected = _read_coco(boxes[0], names, sizes) if boxes[0].suffix == ".json" else _read_yolo(boxes, names)
    selected = frozenset(classes)
    position = {image_id: n for n, image_id in enumerate(image_ids)}
    skipped: Counter[str] = Counter()
    rows, ends = [], []
    for box in detected:
        if box.image in position and box.unit == "pixel":
            ends.append(_compute_end(box, sizes[box.image]))
        if box.image not in position:
            skipped[UNKNOWN_IMAGE] += 1
        elif box.label not in selected:
            skipped[OTHER_CLASS] += 1
        elif box.score < threshold:
            skipped[BELOW_THRESHOLD] += 1
        elif (xywh := _clip_to_image(box, sizes[box.image])) is None:
            skipped[OUTSIDE_IMAGE] += 1
        else:
            rows.append((position[box.image], box.label, *xywh, box.score))
    _check_ends(ends, boxes[0])
    rows.sort(key=lambda row: row[0])
    columns = zip(*rows, strict=True) if rows else [()] * len(SCHEMA)
    table = pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)
    return Detections(table, dict(skipped))


def _compute_end(box: _Box, size: tuple[int, int]) -> tuple[float, float]:
    """Compute where a box in pixels ends, as shares of the image's (width, height)."""
    x, y, width, height = box.xywh
    return (x + width) / size[0], (y + height) / size[1]


def _check_ends(ends: Sequence[tuple[float, float]], path: Path) -> None:
    """Check that boxes, if there are many, fit the sizes of their images.

    Args:
        ends: The right and the lower end of each box, as shares of its image's width and height.
        path: The file, for the message.

    Raises:
        InputError: All boxes end in the upper left of their images, or many end beyond them: the detector saw copies
            of another size.
    """
    if len(ends) < FEWEST_ENDS:
        return
    columns = list(zip(*ends, strict=True))
    right, bottom = map(max, columns)
    beyond = sum(max(end) > BEYOND for end in ends)
    if max(right, bottom) < UPPER_LEFT:
        problem = f"all {len(ends)} boxes end within the first {right:.0%} of the width and {bottom:.0%} of the height"
    elif beyond > SHARE_BEYOND * len(ends):
        problem = f"{beyond} of {len(ends)} boxes reach beyond their images"
    else:
        return
    raise InputError(path, f"{problem}: they belong to copies of another size", expected=ORIGINAL, action=SCALE)


def _clip_to_image(box: _Box, size: tuple[int, int]) -> tuple[float, float, float, float] | None:
    """Clip a box to an image of `size` (width, height), in pixels; return None if they do not overlap."""
    width, height = size
    across, down = (width, height) if box.unit == "share" else (1, 1)
    x, y, w, h = box.xywh
    x_min, x_max = max(x * across, 0.0), min((x + w) * across, float(width))
    y_min, y_max = max(y * down, 0.0), min((y + h) * down, float(height))
    return (x_min, y_min, x_max - x_min, y_max - y_min) if x_min < x_max and y_min < y_max else None


def _find_files(root: Path) -> tuple[list[Path], Path | None]:
    """Find the files with boxes (one .json, or .txt files in order of name), and the one with class names, if any."""
    if root.is_file():
        folders, texts, jsons = (root.parent,), [], [root] if root.suffix == ".json" else []
    else:
        folders = (root / "labels", root)
        texts, texts_at_top = map(_list_text_files, folders)
        if texts and any(map(_has_yolo_line, texts_at_top)):
            problem = f"holds text files with boxes in {folders[0].name}/ and at its top"
            expected = "those of one run, in one folder"
            raise InputError(root, problem, expected=expected, action="move the others out of the folder")
        texts = texts or texts_at_top
        jsons = sorted(path for path in root.glob("*.json") if path.name != CATEGORIES)
    if len(jsons) + bool(texts) != 1:
        found = ", ".join([path.name for path in jsons] + ([f"{len(texts)} text files"] if texts else [])) or "no boxes"
        expected = "one .json of COCO results, or YOLO text files named after the images"
        raise InputError(root, f"holds {found}", expected=expected, action=ACTION)
    kinds = (CATEGORIES, CLASSES_TXT) if jsons else (CLASSES_TXT, DATA_YAML)
    places = [folder / kind for kind in kinds for folder in folders]
    return jsons or texts, next((path for path in places if limits.has_file(path)), None)


def _list_text_files(folder: Path) -> list[Path]:
    return [path for path in layouts.list_files(folder, ".txt") if path.name != CLASSES_TXT]


def _has_yolo_line(path: Path) -> bool:
    """Return whether a text begins with a line of numbers, as the texts with boxes do and a README does not."""
    first_line = next(iter(_read_text(path).strip().splitlines()), "").split()
    return len(first_line) in (5, 6) and all(_NUMBER.fullmatch(field) for field in first_line)


def _map_classes(listed: Mapping[int, Any], path: Path) -> dict[int, str]:
    """Map the class numbers of a detector to classes of VinDr-CXR; raise InputError for an unknown name."""
    classes = {}
    for number, name in listed.items():
        label = find_class(name) if isinstance(name, str) else None
        if label is None:
            expected = "classes of VinDr-CXR: " + ", ".join(CLASSES)
            raise InputError(path, f"class {number} is {name!r}", expected=expected, action=ACTION)
        classes[number] = label
    return classes


def _read_text(path: Path) -> str:
    try:
        return limits.read_bytes(path, limits.TEXT_BYTES).decode("utf-8-sig")
    except (UnicodeDecodeError, OSError) as error:
        raise InputError(path, f"cannot be read ({error})", expected="UTF-8 text", action=ACTION) from None


def _parse_number(value: object, path: Path, row: int | str, column: str) -> float:
    """Parse a finite number that a file holds as text or as a JSON number."""
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(path, f"{value!r}", row=row, column=column, expected="a number", action=ACTION)
    return number


def _build_box(
    image: str, number: object, values: Sequence[object], score: object, place: tuple[Path, int | str],
    classes: Mapping[int, str], *, unit: str,
) -> _Box:  # fmt: skip
    """Check the values x, y, width, height, where x and y are the top-left corner, and build a box.

    `place` is the file and the row, for messages.
    """
    path, row = place
    if not isinstance(number, int) or isinstance(number, bool) or number not in classes:
        expected = f"one of the class numbers {min(classes)} to {max(classes)}"
        raise InputError(path, f"class {number!r}", row=row, expected=expected, action=ACTION)
    x, y, width, height = (
        _parse_number(v, path, row, name) for v, name in zip(values, ("x", "y", "width", "height"), strict=True)
    )
    if width <= 0 or height <= 0:
        problem = f"a box of width {width} and height {height}"
        raise InputError(path, problem, row=row, expected="both above 0", action=ACTION)
    confidence = _parse_number(score, path, row, "score")
    if not 0 <= confidence <= 1:
        raise InputError(path, f"{score!r}", row=row, column="score", expected="0 to 1", action=ACTION)
    return _Box(image, classes[number], (x, y, width, height), confidence, unit)


def _read_yolo(paths: Sequence[Path], names: Path | None) -> Iterator[_Box]:
    classes = _read_yolo_classes(names, paths[0].parent)
    for path in Progress(paths, title="reading detected boxes", unit="files"):
        for row, line in enumerate(_read_text(path).splitlines(), 1):
            fields = line.split()
            if not fields:
                continue
            if len(fields) not in (5, 6):
                expected = "class x y width height [confidence]"
                raise InputError(path, f"{len(fields)} values", row=row, expected=expected, action=ACTION)
            centre_x, centre_y, width, height = (_parse_number(value, path, row, "box") for value in fields[1:5])
            if max(abs(centre_x), abs(centre_y), width, height) > LARGEST_SHARE:
                expected = "shares of the image's width and height, 0 to 1"
                raise InputError(path, "coordinates in pixels", row=row, expected=expected, action=ACTION)
            corner = (centre_x - width / 2, centre_y - height / 2, width, height)
            number = _parse_class_number(fields[0])
            score = fields[5] if len(fields) == 6 else 1.0
            yield _build_box(path.stem, number, corner, score, (path, row), classes, unit="share")


def _parse_class_number(text: str) -> int | str:
    """Parse a class number, which np.savetxt writes as 3.0 or 3.000e+00; return another text as it is."""
    is_number = _WRITTEN_CLASS_NUMBER.fullmatch(text) and float(text).is_integer()
    return int(float(text)) if is_number else text


def _read_yolo_classes(path: Path | None, folder: Path) -> dict[int, str]:
    if path is None:
        raise InputError(
            folder, "has no class names", expected=f"{CLASSES_TXT} or {DATA_YAML} next to it", action=ACTION
        )
    if path.suffix == ".txt":
        return _read_class_list(path)
    try:
        content = yaml_names.parse(_read_text(path))
    except ValueError as error:
        raise InputError(path, f"is no YAML that can be read ({error})", action=ACTION) from None
    listed = content.get("names") if isinstance(content, dict) else None
    if isinstance(listed, list):
        listed = {str(number): name for number, name in enumerate(listed)}
    if not isinstance(listed, dict) or not listed or not all(_CLASS_NUMBER.fullmatch(number) for number in listed):
        raise InputError(path, "names no classes", expected="names: a list, or numbers with names", action=ACTION)
    return _map_classes({int(number): name for number, name in listed.items()}, path)


def _read_class_list(path: Path) -> dict[int, str]:
    """Read the classes of a file with one name a line, numbered from 0."""
    listed = [line.strip() for line in _read_text(path).strip().splitlines()]
    if not listed:
        raise InputError(path, "is empty", expected="a class name a line", action=ACTION)
    return _map_classes(dict(enumerate(listed)), path)


def _read_coco(path: Path, names: Path | None, sizes: Mapping[str, tuple[int, int]]) -> Iterator[_Box]:
    content = json_text.read(path, expected=RESULTS, action=ACTION)
    table = "annotations" if isinstance(content, dict) else "results"
    results = coco.iterate_entries(path, content if isinstance(content, dict) else {table: content}, table)
    if isinstance(content, dict):
        place, description = path, content
    elif names is None:
        raise InputError(
            path, "has no class names", expected=f"{CATEGORIES} or {CLASSES_TXT} next to it", action=ACTION
        )
    else:
        place, description = names, _read_description(names)
    classes = _read_class_list(place) if description is None else _read_coco_classes(description, place)
    images = coco.read_images(place, description) if description is not None and "images" in description else {}
    _check_sizes(images.values(), place, sizes)
    ids = {number: image_id for number, (image_id, _) in images.items()}
    for row, entry in results:
        bbox = entry.get("bbox")
        if not isinstance(bbox, list) or len(bbox) != 4:
            expected = "[x, y, width, height]"
            raise InputError(path, f"{bbox!r}", row=row, column="bbox", expected=expected, action=ACTION)
        image = _resolve_image(entry.get("image_id"), ids, path, row)
        yield _build_box(
            image, entry.get("category_id"), bbox, entry.get("score", 1.0), (path, row), classes, unit="pixel"
        )


def _read_description(names: Path) -> Any:
    """Read categories.json; a bare list becomes its `categories`. Return None for a file with one name a line."""
    if names.suffix != ".json":
        return None
    content = json_text.read(names, expected="categories, and images if the ids are numbers", action=ACTION)
    return {"categories": content} if isinstance(content, list) else content


def _read_coco_classes(description: Any, path: Path) -> dict[int, str]:
    numbered = {
        number: name for number, name in coco.read_categories(path, description).items() if isinstance(number, int)
    }
    if not numbered:
        problem = "lists no category whose id is a number"
        raise InputError(path, problem, expected='[{"id": 1, "name": "Edema"}, ...]', action=ACTION)
    return _map_classes(numbered, path)


def _check_sizes(
    images: Iterable[tuple[str, coco.CocoImage]], path: Path, sizes: Mapping[str, tuple[int, int]]
) -> None:
    """Raise InputError if the file states another size of an image: its boxes would not fit the original image."""
    for image_id, image in images:
        stated, size = image.size, sizes.get(image_id)
        if stated is not None and size is not None and stated != tuple(size):
            raise InputError(
                path,
                f"image {image_id} is {stated[0]} x {stated[1]} pixels, in the source {size[0]} x {size[1]}",
                expected=ORIGINAL,
                action=SCALE,
            )


def _resolve_image(image_id: object, ids: Mapping[int | str, str], path: Path, row: str) -> str:
    if isinstance(image_id, str | int) and not isinstance(image_id, bool):
        if image_id in ids:
            return ids[image_id]
        if isinstance(image_id, str) and image_id:
            return coco.parse_image_id(image_id)
    expected = "an image's id or file name, or a number that `images` resolves"
    raise InputError(path, f"{image_id!r}", row=row, column="image_id", expected=expected, action=ACTION)
