"""The mapping of a user's table: a TOML file that says which column holds what.

    name = "vqa-rad"                     # begins the ids of the rows
    image = "{image_name}"               # a column, or a text with columns in braces
    question = "question"
    answer = "answer"
    split = "phrase_type"
    values.split = { test_freeform = "test", freeform = "train" }

A field that the mapping does not name is read from the column of its own name, if there is one. An empty text turns a
field off.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...loaders import toml_text
from ...loaders.errors import InputError
from ...loaders.own_table import LINE_BREAKS, Record

SHIPPED = Path(__file__).parent / "mappings"  # mappings of public data sets
FIELDS = (
    "id", "image", "question", "answer", "options", "patient", "topic", "anatomy", "split", "boxes", "boxes_file",
    "mask",
)  # fmt: skip
MISSING = frozenset({"nan", "NaN", "<NA>", "NULL", "#N/A"})  # blank cells as pandas, databases and Excel write them
MISSING_NAMES = frozenset({"None", "null"})  # the same; in a question or an answer, these are words
IN_WORDS = ("question", "answer", "options")
NEEDED = ("image", "question", "answer")
BOX_FORMS = ("xywh", "xyxy", "xywh_relative", "xyxy_relative")
_COLUMN = re.compile(r"\{([^{}]+)\}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ACTION = "docs/your-own-data.md shows each entry"


@dataclass(frozen=True)
class ColumnMapping:
    """Which column of a table holds what.

    Attributes:
        name: The name of the data set, with which the ids of its rows begin.
        fields: Field (`FIELDS`) -> its column, a text with columns in braces, or, for options, one column for each.
            A field without a column is missing.
        values: Field -> text of a cell -> the value that it stands for.
        keep: Column -> the texts of the cells of the rows to keep; other rows are left out and counted.
        separator: The separator of several images, options or accepted answers in one cell.
        boxes_form: The form of the boxes' numbers (`BOX_FORMS`).
        multiline: Whether the cells of a csv file may have line breaks.
    """

    name: str
    fields: Mapping[str, str | Sequence[str]]
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    keep: Mapping[str, Collection[str]] = field(default_factory=dict)
    separator: str = "|"
    boxes_form: str = BOX_FORMS[0]
    multiline: bool = False

    def read_value(self, name: str, record: Record) -> Any:
        """Read the value of a field.

        Args:
            name: The field.
            record: A row of the table.

        Returns:
            The text of the cell, or the list or object that it holds; None for a blank cell or a missing field. With an
            entry for the text in `values`, that entry's value.
        """
        columns = self.fields.get(name)
        if columns is None:
            return None
        if not isinstance(columns, str):
            cells = [format_cell(record.get(column)) for column in columns]
            texts = ["" if text in MISSING else text for text in cells]
            return texts if any(texts) else None
        if "{" in columns:
            cell: Any = _COLUMN.sub(lambda match: format_cell(record.get(match[1])), columns)
        else:
            cell = record.get(columns)
        if isinstance(cell, list | dict):
            return cell or None
        text = format_cell(cell)
        if text in MISSING or (text in MISSING_NAMES and name not in IN_WORDS):
            return self.values.get(name, {}).get(text) or None
        return self.values.get(name, {}).get(text, text) or None

    def is_kept(self, record: Record) -> bool:
        """Tell whether `keep` keeps a row.

        Args:
            record: A row of the table.

        Returns:
            True if each column in `keep` has one of its texts.
        """
        return all(format_cell(record.get(column)) in texts for column, texts in self.keep.items())


def format_cell(cell: Any) -> str:
    """Format a cell as text, without blanks around it. Whole numbers have no decimal point; a missing value is "".

    Args:
        cell: A text, number, truth value or None.

    Returns:
        The text.

    >>> format_cell(" a "), format_cell(3.0), format_cell(True), format_cell(None), format_cell(float("nan"))
    ('a', '3', 'true', '', '')
    """
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip()


def list_shipped() -> list[str]:
    """List the names of the mappings of public data sets.

    Returns:
        The names, sorted.
    """
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def find_mapping(given: str) -> Path:
    """Find a mapping.

    Args:
        given: The path of a TOML file, or the name of a shipped mapping.

    Returns:
        The path of the file.

    Raises:
        InputError: There is neither.
    """
    path = Path(given).expanduser()
    if path.is_file():
        return path
    if given in list_shipped():
        return SHIPPED / f"{given}.toml"
    expected = f"a TOML file, or one of {', '.join(list_shipped())}"
    raise InputError(f"--mapping {given}", "there is no such file", expected=expected)


def read_entries(path: Path | None) -> dict[str, Any]:
    """Read the entries of a mapping, and check their types.

    Args:
        path: The TOML file; None for no entries.

    Returns:
        The entries.

    Raises:
        InputError: The file is no TOML, or an entry is unknown or has another type.
    """
    if path is None:
        return {}
    try:
        entries = toml_text.read(path)
    except (ValueError, OSError) as error:
        raise InputError(path, f"cannot be read as TOML ({error})", action=_ACTION) from None
    for name, value in entries.items():
        if name not in _TYPES:
            expected = f"one of {', '.join(_TYPES)}"
            raise InputError(path, "is no entry of a mapping", column=name, expected=expected, action=_ACTION)
        is_right, expected = _TYPES[name]
        if not is_right(value):
            raise InputError(path, f"is {value!r:.80}", column=name, expected=expected, action=_ACTION)
    return entries


def build_mapping(entries: Mapping[str, Any], where: Path, table: Path, columns: Collection[str]) -> ColumnMapping:
    """Build the mapping of a table, and check it against the columns of the table.

    Args:
        entries: The entries of `read_entries`.
        where: The file of the entries, or the table, for messages.
        table: The table, which gives the default name.
        columns: The columns of the table.

    Returns:
        The mapping.

    Raises:
        InputError: A column is missing, a needed field has none, or the name cannot begin an id.
    """
    own_columns = {name: _find_own_column(name, columns) for name in FIELDS if name not in entries}
    fields = {name: entries.get(name) or own_columns.get(name) for name in FIELDS}
    fields = {name: value for name, value in fields.items() if value}
    for name in NEEDED:
        if name not in fields:
            action = f'write {name} = "COLUMN" into the mapping (--mapping FILE.toml); {_ACTION}'
            expected = f"one of the columns {', '.join(sorted(columns))}"
            raise InputError(where, f"no column is named for the {name}", expected=expected, action=action)
    keep = {name: [text] if isinstance(text, str) else text for name, text in entries.get("keep", {}).items()}
    used = {name: _list_columns(name, value) for name, value in fields.items()} | {f"keep.{n}": [n] for n in keep}
    for entry, names in used.items():
        missing = [name for name in names if name not in columns]
        if missing:
            expected = f"one of the columns {', '.join(sorted(columns))}"
            problem = f"the table has no column {missing[0]!r}"
            raise InputError(where, problem, column=entry, expected=expected, action=_ACTION)
    data_set = entries.get("name") or re.sub(r"[^A-Za-z0-9._-]+", "-", table.name.split(".")[0]).strip("-._") or "own"
    if not _NAME.fullmatch(data_set):
        expected = "at most 64 letters, digits, dots, hyphens and underscores"
        raise InputError(where, f"{data_set!r:.80}", column="name", expected=expected)
    further = {name: entries[name] for name in ("values", "separator", "boxes_form", LINE_BREAKS) if name in entries}
    return ColumnMapping(data_set, fields, keep=keep, **further)


def _find_own_column(name: str, columns: Collection[str]) -> str | None:
    """Find the column of a field's own name, also in another case, such as `Patient`, if there is only one."""
    if name in columns:
        return name
    similar_columns = [column for column in columns if column.casefold() == name]
    return similar_columns[0] if len(similar_columns) == 1 else None


def _list_columns(entry: str, value: str | Sequence[str]) -> list[str]:
    """List the columns that an entry names. A file of boxes without braces has a fixed name, next to each image."""
    if not isinstance(value, str):
        return [*value]
    if "{" in value:
        return _COLUMN.findall(value)
    return [] if entry == "boxes_file" else [value]


def _is_text_table(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _is_column_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(text, str) for text in value)


_TYPES = {
    **dict.fromkeys(("name", *FIELDS), (lambda value: isinstance(value, str), "a text")),
    "options": (lambda value: isinstance(value, str) or _is_column_list(value), "a column, or a list of columns"),
    "separator": (lambda value: isinstance(value, str) and bool(value), "a text"),
    "boxes_form": (lambda value: value in BOX_FORMS, f"one of {', '.join(BOX_FORMS)}"),
    LINE_BREAKS: (lambda value: isinstance(value, bool), "true or false"),
    "keep": (
        lambda value: (
            isinstance(value, dict) and all(isinstance(text, str) or _is_column_list(text) for text in value.values())
        ),
        "columns, each with the text, or the list of texts, of the rows to keep",
    ),
    "values": (
        lambda value: (
            isinstance(value, dict) and value.keys() <= {*FIELDS} and all(map(_is_text_table, value.values()))
        ),
        "fields, each with a table: text of a cell = its value",
    ),
}
