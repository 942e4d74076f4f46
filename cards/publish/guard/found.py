"""Input and output of the guard's searches: texts and leaks."""

from __future__ import annotations

from typing import NamedTuple

from ....loaders.errors import InputError

SHOWN = 60  # number of characters of a leak in a message
REBUILD = "build it again with medfaith build; if it is refused again, do not publish it, and report it"


class Value(NamedTuple):
    """One text to be published: a distinct value of a column, a text in a JSON file, or a card.

    Attributes:
        where: The file, below the repository's name.
        text: The text.
        row: The first row with the value.
        column: The dotted path of the column.
        limited: Whether a template bounds its length.
    """

    where: str
    text: str
    row: int | None = None
    column: str | None = None
    limited: bool = False


class Found(NamedTuple):
    """A leak inside a text.

    Attributes:
        what: Description of the leak.
        start: Position in the text.
        expected: The expected content.
    """

    what: str
    start: int
    expected: str


def build_refusal(value: Value, leak: Found) -> InputError:
    """Build the error for a leak, with the line of a card or the row and column of a value.

    Args:
        value: The text.
        leak: The leak in it.

    Returns:
        The error.
    """
    row = value.row
    where = value.where
    if row is None and value.column is None:
        where += f", line {value.text.count(chr(10), 0, leak.start) + 1}"
    return InputError(where, leak.what, row=row, column=value.column, expected=leak.expected, action=REBUILD)


def shorten(text: str) -> str:
    """Shorten a text for a message: printable, on one line, SHOWN characters at most.

    Args:
        text: The text.

    Returns:
        The quoted text.
    """
    printable = ascii(text[: SHOWN + 1].strip())[1:-1]
    return f"'{printable if len(printable) <= SHOWN else printable[: SHOWN - 3] + '...'}'"
