"""Questions of a user's table as rows: one row for each record, or an error that names the row and the column."""

from __future__ import annotations

import json
import re
import string
import sys
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ...loaders import images, json_text, limits, rle
from ...loaders.errors import ImageError, InputError
from ...loaders.own_table import Record
from ...loaders.progress import Progress
from ..checks import is_inside
from .mapping import BOX_FORMS, ColumnMapping, format_cell
from .reasons import NOT_KEPT, TRUTH_VALUES

IMAGES = "images"  # the source of all images
YES_NO, CHOICE, OPEN = "yes_no", "choice", "open"
YES_NO_OPTIONS = ("Yes", "No")
_OTHER_YES_NO = {"true", "false", "t", "f", "y", "n"}  # as spreadsheets and JSON write yes and no
SPLITS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "validate", "dev"),
    "test": ("test", "testing"),
}
DEFAULT_SPLIT = "test"
_SPLIT_BY_TEXT = {text: split for split, texts in SPLITS.items() for text in texts}
_LETTER = re.compile(r"\(?([A-Za-z])[).:]?")
_LETTERED = re.compile(r"\(?([A-Za-z])[).:]\s*(\S.*)", re.DOTALL)  # a letter and a text, "A. edema" or "(a) edema"
_MASK_FILE = ".png"
PLACEHOLDER = "<image>"  # of an image, which tables for training have in their questions
_BOX_KEYS = ("xywh", "xyxy", "bbox", "box")


@dataclass(frozen=True)
class Place:
    """The place of a value in the table, for messages.

    Attributes:
        table: The table.
        row: The number of the row, from 1.
        mapping: The mapping.
    """

    table: Path
    row: int
    mapping: ColumnMapping

    def fail(self, name: str, problem: str, *, expected: str = "", action: str = "") -> InputError:
        """Build the error about a field of the row.

        Args:
            name: The field.
            problem: The fault.
            expected: The value that should be there.
            action: The advice to the user.

        Returns:
            The error, to raise.
        """
        column = self.mapping.fields.get(name, name)
        column = column if isinstance(column, str) else ", ".join(column)
        return InputError(self.table, problem, row=self.row, column=column, expected=expected, action=action)


def build_rows(
    records: Sequence[Record], mapping: ColumnMapping, table: Path, root: Path
) -> tuple[dict[str, list[dict[str, Any]]], Counter[str]]:
    """Build the rows of all splits.

    Args:
        records: The rows of the table.
        mapping: Which column holds what.
        table: The table, for messages.
        root: The folder of the images.

    Returns:
        The rows of each split, in the order of the table; and how many records were left out or counted, by reason.

    Raises:
        InputError: A cell cannot be read, an image is missing, a region does not fit its image, or an id is repeated.
    """
    rows_by_split: dict[str, list[dict[str, Any]]] = {}
    skipped: Counter[str] = Counter()
    sizes: dict[str, tuple[int, int]] = {}
    row_by_id: dict[str, int] = {}
    for number, record in enumerate(Progress(records, title=f"reading {table.name}", unit="rows"), start=1):
        if record and all(isinstance(cell, str) and not cell.strip() for cell in record.values()):
            continue  # spreadsheets write rows below the last one
        if not mapping.is_kept(record):
            skipped[NOT_KEPT] += 1
            continue
        place = Place(table, number, mapping)
        split = _read_split(place, record)
        row = _build_row(place, record, root, sizes)
        row["id"] = _build_id(place, record, row, split, row_by_id)
        rows_by_split.setdefault(split, []).append(row)
        skipped[TRUTH_VALUES] += row["kind"] == OPEN and {*map(str.casefold, row["gold"])} <= _OTHER_YES_NO
    if not rows_by_split and not skipped:
        raise InputError(table, "has blank rows only", action="name a table with at least one question")
    if not rows_by_split:
        action = "correct the columns and texts of keep in the mapping"
        raise InputError(table, "the mapping keeps no row", action=action)
    return {split: rows_by_split[split] for split in SPLITS if split in rows_by_split}, +skipped


def _build_row(place: Place, record: Record, root: Path, sizes: dict[str, tuple[int, int]]) -> dict[str, Any]:
    mapping = place.mapping
    keys = _read_keys(place, record, root)
    references = [{"source": IMAGES, "key": key, "view": ""} for key in keys]
    for reference in references:
        if reference["key"] not in sizes:
            sizes[reference["key"]] = _read_size(place, reference, root)
    width, height = sizes[keys[0]]
    question = format_cell(mapping.read_value("question", record)).replace(PLACEHOLDER, "").strip()
    if not question:
        raise place.fail("question", "is blank", expected="the text of the question")
    answers = _list_texts(mapping.read_value("answer", record), mapping.separator)
    if not answers:
        raise place.fail(
            "answer", "is blank", expected="the right answer", action="fill it in, or leave the row out by keep"
        )
    options = _read_options(place, record)
    kind, options, answer, gold = _read_gold(place, options, answers)
    row = {
        "id": "",
        "kind": kind,
        "patient_id": format_cell(mapping.read_value("patient", record)) or keys[0],
        "images": references,
        "width": width,
        "height": height,
        "question": question,
        "options": options,
        "answer": answer,
        "gold": gold,
        "topic": format_cell(mapping.read_value("topic", record)),
        "anatomy": format_cell(mapping.read_value("anatomy", record)),
    }
    boxes = _read_boxes(place, record, row, root)
    region = _read_mask(place, record, row, root)
    if region is None and boxes:
        numbers = np.array([box["xywh"] for box in boxes], dtype=float)
        region = rle.union(rle.encode_boxes(numbers, (height, width)))
    if region is not None and len(keys) > 1:
        problem = f"the row has {len(keys)} images and a region"
        raise place.fail("image", problem, expected="one image", action="leave the region out, or the other images")
    return row | {"region": region, "boxes": boxes}


def _build_id(place: Place, record: Record, row: Mapping[str, Any], split: str, row_by_id: dict[str, int]) -> str:
    """Build the id: from its column, or else from the content of the row, so that it does not depend on the order."""
    given = format_cell(place.mapping.read_value("id", record))
    if "id" in place.mapping.fields and not given:
        raise place.fail("id", "is blank", expected="a value in each row")
    content = [row[name] for name in ("images", "question", "options", "gold")]
    text = given or blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=8).hexdigest()
    row_id = f"{place.mapping.name}/{split}/{text}"
    if row_id in row_by_id:
        if given:
            action = (
                'choose a column of unique values, or write id = "" into the mapping: the content then makes the id'
            )
            raise place.fail(
                "id", f"{text!r} repeats row {row_by_id[row_id]}", expected="each value once", action=action
            )
        action = "delete one of them: the same question about the same image would count twice"
        raise place.fail("question", f"the row repeats row {row_by_id[row_id]}", action=action)
    row_by_id[row_id] = place.row
    return row_id


def _read_split(place: Place, record: Record) -> str:
    text = place.mapping.read_value("split", record)
    if text is None:
        if "split" in place.mapping.fields:
            raise place.fail("split", "is blank", expected=f"one of {', '.join(_SPLIT_BY_TEXT)}")
        return DEFAULT_SPLIT
    split = _SPLIT_BY_TEXT.get(format_cell(text).casefold())
    if split is None:
        action = f'write values.split = {{ "{text}" = "test" }} into the mapping, with a line for each value'
        raise place.fail("split", f"{text!r}", expected=f"one of {', '.join(_SPLIT_BY_TEXT)}", action=action)
    return split


def _read_keys(place: Place, record: Record, root: Path) -> list[str]:
    """Read the images' paths below the folder of images."""
    texts = _list_texts(place.mapping.read_value("image", record), place.mapping.separator)
    if not texts:
        raise place.fail("image", "is blank", expected="the path of an image below the folder of images")
    keys = []
    for text in texts:
        key = text.replace("\\", "/").removeprefix("./")
        if Path(key).is_absolute() and Path(key).is_relative_to(root):
            key = Path(key).relative_to(root).as_posix()
        try:
            images.check_key(key, IMAGES)
        except ImageError:
            action = f"write the path relative to the folder of images, {root}"
            raise place.fail("image", f"{text!r} is no path below the folder of images", action=action) from None
        keys.append(key)
    return keys


def _read_size(place: Place, reference: Mapping[str, str], root: Path) -> tuple[int, int]:
    """Read (width, height) of an image from its header."""
    try:
        return images.read_image_size(reference, {IMAGES: root})
    except ImageError as error:
        raise place.fail("image", str(error).splitlines()[0], action=_advise_on_image(reference["key"], root)) from None


def _advise_on_image(key: str, root: Path) -> str:
    """Say what may be wrong with the path of an image that cannot be opened."""
    if (root / key).exists():
        return "replace the file; jpg, png and DICOM are read, so convert other formats to png"
    column = "{COLUMN}"
    path = root / key
    names = sorted(entry.name for entry in path.parent.iterdir()) if path.parent.is_dir() else []
    if similar_name := next((name for name in names if _fold_name(name) == _fold_name(path.name)), None):
        is_same_case = unicodedata.normalize("NFC", similar_name) == unicodedata.normalize("NFC", path.name)
        form = "with its letters in another form of Unicode" if is_same_case else "in another case"
        return f"write the name as that of the file: {similar_name} is there, {form}"
    if same_name := [name for name in names if name.startswith(f"{path.name}.")]:
        suffix = Path(same_name[0]).suffix
        return f'write image = "{column}{suffix}" into the mapping: {" and ".join(same_name)} is there'
    elsewhere = next(iter(sorted(root.glob(f"*/{key}"))), None)
    if elsewhere is not None:
        folder = elsewhere.relative_to(root).parts[0]
        return f'pass --images {root / folder}, or write image = "{folder}/{column}" into the mapping'
    if (root.parent / key).exists():
        return f"pass --images {root.parent}: {key} is below it"
    return "correct the path or the folder of images, or leave the row out by keep in the mapping"


def _fold_name(name: str) -> str:
    """Fold the name of a file: case, and the form in which Unicode writes letters such as ü, which macOS changes."""
    return unicodedata.normalize("NFC", name).casefold()


def _read_options(place: Place, record: Record) -> list[str]:
    """Read the options in the order of their letters. An object has them by letter: {"A": "text", ...}."""
    cell = place.mapping.read_value("options", record)
    if isinstance(cell, dict):
        letters = sorted(cell)
        if letters != [*string.ascii_uppercase[: len(letters)]]:
            raise place.fail("options", f"have the names {letters!r:.80}", expected="the letters A, B, C ...")
        cell = [cell[letter] for letter in letters]
    options = _split_cell(cell, place.mapping.separator)
    while options and not options[-1]:  # tables with a column for each option leave the last ones blank
        options.pop()
    if "" in options:
        action = "fill it in: without it, the letters of the options after it would change"
        raise place.fail("options", f"option {string.ascii_uppercase[options.index('')]} is blank", action=action)
    if any(PLACEHOLDER in option for option in options):
        raise place.fail("options", f"hold {PLACEHOLDER}", expected="options in words", action="delete it")
    return _strip_letters(place, options)


def _strip_letters(place: Place, options: list[str]) -> list[str]:
    """Remove the letters that all options begin with: the prompt has letters of its own, in their order."""
    matches = [_LETTERED.fullmatch(option) for option in options]
    letters = [match[1].upper() for match in matches if match]
    if sorted(letters) != [*string.ascii_uppercase[: len(options)]]:
        return options
    if letters != sorted(letters):
        action = "sort the options by their letters, or delete the letters and write the text of the answer"
        raise place.fail("options", f"have the letters {', '.join(letters)}", expected="A, B, C ...", action=action)
    return [match[2] for match in matches if match]


def _list_texts(value: Any, separator: str) -> list[str]:
    """List the texts of a cell that are not blank."""
    return [text for text in _split_cell(value, separator) if text]


def _split_cell(value: Any, separator: str) -> list[str]:
    """Split a cell: the items of a list, also in JSON, or the parts between separators. Parts may be blank."""
    if value is None:
        return []
    if isinstance(value, str):
        parsed = _parse_json_list(value)
        value = value.split(separator) if parsed is None else parsed
    return [format_cell(item) for item in value]


def _parse_json_list(text: str) -> list[Any] | None:
    """Parse a list in JSON; None for any other text, which may begin with a bracket, too."""
    if not text.startswith("["):
        return None
    try:
        parsed = json_text.parse(text)
    except ValueError:
        return None
    return parsed if isinstance(parsed, list) else None


def _read_gold(place: Place, options: list[str], answers: list[str]) -> tuple[str, list[str], int, list[str]]:
    """Read kind, options, index of the right option and accepted answers of a question."""
    if not options:
        folded = {answer.casefold().rstrip(".") for answer in answers}
        if folded <= {"yes", "no"}:
            if len(folded) > 1:
                raise place.fail("answer", "is both yes and no", expected="one of them")
            answer = int(folded == {"no"})
            return YES_NO, [*YES_NO_OPTIONS], answer, [YES_NO_OPTIONS[answer]]
        return OPEN, [], -1, list(dict.fromkeys(answers))
    names = [option.casefold() for option in options]
    if not 2 <= len(options) <= len(string.ascii_uppercase) or len({*names}) < len(names):
        expected = f"2 to {len(string.ascii_uppercase)} different options"
        action = f"write them as a list, or separate them by {place.mapping.separator!r} (separator in the mapping)"
        raise place.fail("options", f"are {options!r:.100}", expected=expected, action=action)
    if len(answers) > 1:
        raise place.fail("answer", f"names {len(answers)} answers", expected="one of the options")
    text = answers[0].casefold()
    letter = _LETTER.fullmatch(answers[0])
    if text not in names:
        lettered_names = [f"{letter} {name}" for letter, name in zip(string.ascii_lowercase, names, strict=False)]
        match = _LETTERED.fullmatch(text)
        if match and f"{match[1]} {match[2]}" in lettered_names:
            text = match[2]
    if text in names:
        answer = names.index(text)
    elif letter and string.ascii_uppercase.index(letter[1].upper()) < len(options):
        answer = string.ascii_uppercase.index(letter[1].upper())
    else:
        last = string.ascii_uppercase[len(options) - 1]
        expected = f"the text of an option, {options!r:.100}, or its letter, A to {last}"
        action = 'translate other values in the mapping, such as values.answer = { 0 = "A", 1 = "B" }'
        raise place.fail("answer", f"{answers[0]!r} is no option", expected=expected, action=action)
    return CHOICE, options, answer, [options[answer]]


def _read_boxes(place: Place, record: Record, row: Mapping[str, Any], root: Path) -> list[dict[str, Any]]:
    """Read the boxes of a row, in pixels from the top left of its image."""
    name = "boxes_file" if "boxes_file" in place.mapping.fields else "boxes"
    value = place.mapping.read_value(name, record) if name == "boxes" else _read_boxes_file(place, record, row, root)
    if isinstance(value, str):
        try:
            value = json_text.parse(value)
        except ValueError:
            expected = "a list of four numbers, or a list of such lists, in JSON"
            raise place.fail(name, f"{value[:60]!r} is no JSON", expected=expected) from None
    return [_read_box(place, name, item, row) for item in _list_boxes(value)]


def _list_boxes(value: Any) -> list[Any]:
    """List boxes: one box or several."""
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
    text = " ".join([row["question"], *(row["gold"] if row["kind"] == OPEN else [])]).casefold()
    boxes = []
    for item in content if isinstance(content, list) else [content]:
        if not isinstance(item, dict):
            raise InputError(path, f"holds {item!r:.60}", expected=expected, action="correct boxes_file in the mapping")
        for label, numbers in item.items():
            if re.search(rf"\b{re.escape(label.casefold())}s?\b", text):
                boxes.append({"label": label, "xywh": numbers})
    return boxes


def _read_mask(place: Place, record: Record, row: Mapping[str, Any], root: Path) -> rle.Rle | None:
    """Read the mask of a row: RLE, polygons, or a png whose pixels other than 0 are the mask."""
    value = place.mapping.read_value("mask", record)
    if value is None:
        return None
    size = row["height"], row["width"]
    if isinstance(value, str) and value.lower().endswith(_MASK_FILE):
        mask = rle.encode(_read_mask_file(place, value, root))
    else:
        try:
            content = json_text.parse(value) if isinstance(value, str) else value
            polygons = (
                [content] if isinstance(content, list) and content and not isinstance(content[0], list) else content
            )
            mask = rle.validate_rle(content) if isinstance(content, dict) else rle.encode_polygons(polygons, size)
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
