"""Questions of a user's table as rows: one row for each record, or an error that names the row and the column."""

from __future__ import annotations

import json
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from ...loaders import images, rle
from ...loaders.errors import ImageError, InputError
from ...loaders.own_table import Record
from ...loaders.progress import Progress
from .cells import IMAGES, Place, list_texts, parse_literal, split_cell
from .mapping import ColumnMapping, format_cell
from .reasons import NOT_KEPT, TRUTH_VALUES
from .regions import read_boxes, read_mask

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
PLACEHOLDER = "<image>"  # of an image, which tables for training have in their questions


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
        try:
            row = _build_row(place, record, root, sizes)
        except InputError as error:
            n_missing = _lacks_image(place, record, root) and sum(
                mapping.is_kept(later_record) and _lacks_image(Place(table, later, mapping), later_record, root)
                for later, later_record in enumerate(records[number:], start=number + 1)
            )
            if not n_missing:
                raise
            problem = f"{error.found}; {n_missing} more rows have no such image"
            texts = {"expected": error.expected, "action": error.action, "row": error.row, "column": error.column}
            raise InputError(error.where, problem, **texts) from None
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
    answers = list_texts(place, "answer", mapping.read_value("answer", record))
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
    boxes = read_boxes(place, record, row, root)
    region = read_mask(place, record, row, root)
    if region is None and boxes:
        numbers = np.array([box["xywh"] for box in boxes], dtype=float)
        region = rle.union(rle.encode_boxes(numbers, (height, width)))
    if region is not None and len(keys) > 1:
        problem = f"the row has {len(keys)} images and a region"
        raise place.fail("image", problem, expected="one image", action="leave the region out, or the other images")
    return row | {"region": region, "boxes": boxes}


def _build_id(place: Place, record: Record, row: Mapping[str, Any], split: str, row_by_id: dict[str, int]) -> str:
    """Build the id: from its column, or else from the content of the row, so that it does not depend on the order.

    Enter it into `row_by_id`. Raise InputError if it is blank, or is there already.
    """
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
    texts = list_texts(place, "image", _unwrap_paths(place, place.mapping.read_value("image", record)))
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


def _lacks_image(place: Place, record: Record, root: Path) -> bool:
    """Return whether an image of a row is missing, or its path cannot be used."""
    try:
        for key in _read_keys(place, record, root):
            images.locate({"source": IMAGES, "key": key, "view": ""}, {IMAGES: root})
    except (InputError, ImageError):
        return True
    return False


def _unwrap_paths(place: Place, value: Any) -> Any:
    """Take the paths out of what `datasets` writes for images, {"bytes": null, "path": "a.png"}."""
    if isinstance(value, str) and value.startswith(("{", "[{")):
        with suppress(ValueError):  # then it is a name with a brace
            value = parse_literal(value)
    cells = value if isinstance(value, list) else [value]
    if not any(isinstance(cell, dict) for cell in cells):
        return value
    paths = [cell.get("path") if isinstance(cell, dict) and not cell.get("bytes") else None for cell in cells]
    if not all(isinstance(path, str) for path in paths):
        action = "save the images as files of a folder, and write their names into the column"
        raise place.fail("image", f"is {value!r:.60}", expected="the path of an image, or several", action=action)
    return paths


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
    path = root / key
    names = sorted(entry.name for entry in path.parent.iterdir()) if path.parent.is_dir() else []
    if advice := _advise_on_name(path, names):
        return advice
    if sign := next((sign for sign in (",", ";") if (root / key.partition(sign)[0].strip()).is_file()), None):
        return f'write separator = "{sign}" into the mapping, if the cell names several images'
    elsewhere = next(iter(sorted(root.glob(f"*/{key}"))), None)
    if elsewhere is not None:
        folder = elsewhere.relative_to(root).parts[0]
        return f'pass --images {root / folder}, or write image = "{folder}/{{COLUMN}}" into the mapping'
    if (root.parent / key).exists():
        return f"pass --images {root.parent}: {key} is below it"
    return "correct the path or the folder of images, or leave the row out by keep in the mapping"


def _advise_on_name(path: Path, names: Sequence[str]) -> str | None:
    """Name a file in the folder of a missing one whose name is almost that of the missing one."""
    if similar_name := next((name for name in names if _fold_name(name) == _fold_name(path.name)), None):
        is_same_case = unicodedata.normalize("NFC", similar_name) == unicodedata.normalize("NFC", path.name)
        form = "with its letters in another form of Unicode" if is_same_case else "in another case"
        return f"write the name as that of the file: {similar_name} is there, {form}"
    if same_name := [name for name in names if name.startswith(f"{path.name}.")]:
        suffix = Path(same_name[0]).suffix
        return f'write image = "{{COLUMN}}{suffix}" into the mapping: {" and ".join(same_name)} is there'
    if same_stem := [name for name in names if Path(name).stem == path.stem]:
        return f"write the name as that of the file: {' and '.join(same_stem)} is there"
    return None


def _fold_name(name: str) -> str:
    """Fold the name of a file: case, and the form in which Unicode writes letters such as ü, which macOS changes."""
    return unicodedata.normalize("NFC", name).casefold()


def _read_options(place: Place, record: Record) -> list[str]:
    """Read the options in the order of their letters. An object has them by letter: {"A": "text", ...}."""
    cell = place.mapping.read_value("options", record)
    if isinstance(cell, str) and cell.startswith("{"):
        with suppress(ValueError):  # then it is an option in words
            cell = parse_literal(cell)
    if isinstance(cell, dict):
        letters = sorted(cell)
        if letters != [*string.ascii_uppercase[: len(letters)]]:
            raise place.fail("options", f"have the names {letters!r:.80}", expected="the letters A, B, C ...")
        cell = [cell[letter] for letter in letters]
    options = split_cell(place, "options", cell)
    while options and not options[-1]:  # tables with a column for each option leave the last ones blank
        options.pop()
    if "" in options:
        action = "fill it in: without it, the letters of the options after it would change"
        raise place.fail("options", f"option {string.ascii_uppercase[options.index('')]} is blank", action=action)
    if any(PLACEHOLDER in option for option in options):
        raise place.fail("options", f"hold {PLACEHOLDER}", expected="options in words", action="delete it")
    return _strip_letters(place, options)


def _strip_letters(place: Place, options: list[str]) -> list[str]:
    """Remove the letters A, B, ... that the options begin with, if all do: the prompt has letters of its own.

    Raise InputError if the letters are complete but not in this order.
    """
    matches = [_LETTERED.fullmatch(option) for option in options]
    letters = [match[1].upper() for match in matches if match]
    if sorted(letters) != [*string.ascii_uppercase[: len(options)]]:
        return options
    if letters != sorted(letters):
        action = "sort the options by their letters, or delete the letters and write the text of the answer"
        raise place.fail("options", f"have the letters {', '.join(letters)}", expected="A, B, C ...", action=action)
    return [match[2] for match in matches if match]


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
