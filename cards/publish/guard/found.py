"""What the guard looks at and what it finds there."""

from __future__ import annotations

from typing import NamedTuple

from ....loaders.errors import InputError

SHOWN = 60  # characters of a leak in a message
REBUILD = "build it again with medfaith build; if it is refused again, do not publish it, and report it"


class Value(NamedTuple):
    """One text of what is to be published: a value of a column (of its first row), a text in a JSON file, a card.

    where: the file, below the repository's name. column: dotted path. limited: whether a template bounds its length.
    """

    where: str
    text: str
    row: int | None = None
    column: str | None = None
    limited: bool = False


class Found(NamedTuple):
    """A leak inside a text. start: where in the text."""

    what: str
    start: int
    expected: str


def refusal(value: Value, found: Found) -> InputError:
    """The error for a leak, with the line of a card or the row and column of a value."""
    row = value.row
    where = value.where
    if row is None and value.column is None:
        where += f", line {value.text.count(chr(10), 0, found.start) + 1}"
    return InputError(where, found.what, row=row, column=value.column, expected=found.expected, action=REBUILD)


def shortened(text: str) -> str:
    """A text as it stands in a message: printable, on one line, SHOWN characters at most."""
    shown = ascii(text[: SHOWN + 1].strip())[1:-1]
    return f"'{shown if len(shown) <= SHOWN else shown[: SHOWN - 3] + '...'}'"
