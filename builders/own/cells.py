"""Cells of a user's table: lists and objects as texts, and the errors that name a cell."""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...loaders import json_text
from ...loaders.errors import InputError
from .mapping import ColumnMapping, format_cell

IMAGES = "images"  # the source of all images
_QUOTED_LIST = re.compile(r"\[\s*(['\"]).*\1\s*,?\s*\]", re.DOTALL)


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


def list_texts(place: Place, name: str, value: Any) -> list[str]:
    """List the texts of a cell that are not blank.

    Args:
        place: The row.
        name: The field.
        value: The cell.

    Returns:
        The texts.

    Raises:
        InputError: The cell is the text of a list that cannot be read.
    """
    return [text for text in split_cell(place, name, value) if text]


def split_cell(place: Place, name: str, value: Any) -> list[str]:
    """Split a cell: the items of a list, also as a text, or the parts between separators.

    Args:
        place: The row.
        name: The field.
        value: The cell.

    Returns:
        The parts, which may be blank.

    Raises:
        InputError: The cell is the text of a list that cannot be read.
    """
    if value is None:
        return []
    if isinstance(value, str):
        parsed = _parse_list(value)
        if parsed is None and _QUOTED_LIST.fullmatch(value):
            expected = 'a list in JSON, ["a", "b"], or with commas as Python writes it'
            raise place.fail(name, f"{value[:60]!r} is no list that can be read", expected=expected)
        value = value.split(place.mapping.separator) if parsed is None else parsed
    return [format_cell(item) for item in value]


def _parse_list(text: str) -> list[Any] | None:
    """Parse the text of a list; None for any other text, which may begin with a bracket, too."""
    if not text.startswith("["):
        return None
    try:
        parsed = parse_literal(text)
    except ValueError:
        return None
    return parsed if isinstance(parsed, list) else None


def parse_literal(text: str) -> Any:
    """Parse a list, an object or a number in JSON, or as pandas writes Python's into a csv file.

    Args:
        text: The text.

    Returns:
        The content, with tuples as lists.

    Raises:
        ValueError: The text is neither.
    """
    try:
        return json_text.parse(text)
    except ValueError:
        if not text.startswith(("[", "{", "(")):
            raise
    try:
        content = ast.literal_eval(text)
        n_quoted = sum(token.type == tokenize.STRING for token in tokenize.generate_tokens(io.StringIO(text).readline))
        if _count_strings(content) < n_quoted:  # Python joins ['a' 'b'], which numpy prints for two texts
            raise ValueError("a comma is missing between two texts")
        return json_text.parse(json.dumps(content, allow_nan=False))
    except (SyntaxError, TypeError, MemoryError, RecursionError, tokenize.TokenError) as error:
        raise ValueError(f"neither JSON nor a list of Python's ({error})") from None


def _count_strings(content: Any) -> int:
    """Count the strings in lists and objects, names included."""
    if isinstance(content, dict):
        return sum(map(_count_strings, [*content, *content.values()]))
    return sum(map(_count_strings, content)) if isinstance(content, list | tuple) else isinstance(content, str)
