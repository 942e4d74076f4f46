"""Kinds of arguments of public functions; `schema` checks arguments by them.

A value of another kind raises ValueError, and the message names the argument and the row: 0.5 is no index, "False" is
no flag, and a text or a complex number is no number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from .arrays import (
    is_list,
    is_real,
    is_whole,
    read_boxes,
    read_entries,
    read_grid,
    read_labels,
    read_numbers,
    read_size,
    read_window,
    refuse,
)

ROUNDING = 1e-9  # a number beyond its bound by no more is at its bound: 0.1 + 0.2 + 0.7 is above 1


@dataclass(frozen=True, slots=True)
class Kind:
    """The kind of an argument.

    Attributes:
        name: Name of the kind, by which tests choose bad values.
        convert: Returns the value in the form that the function uses, or raises ValueError; takes the value and its
            place, for the message.
        is_column: Whether the value has one entry per row, as many as the argument `like` of the function.
        entry: The kind of the entries of a list or mapping.
        fields: The kind of each column of a dict, or of each field of a record.
        read: The reader of a value that the function itself reads; takes the value and the beginning of messages.
    """

    name: str
    convert: Callable[[Any, str], Any]
    is_column: bool = False
    entry: Kind | None = None
    fields: Mapping[str, Kind] | None = None
    read: Callable[[Any, str], Any] | None = None


def read_later(name: str, read: Callable[[Any, str], Any] | None = None) -> Kind:
    """Build the kind of a value that the function itself reads, by a reader of `arrays`.

    Args:
        name: Name of the kind.
        read: See `Kind`.

    Returns:
        The kind, which checks nothing.
    """
    return Kind(name, _pass, read=read)


def optional(kind: Kind) -> Kind:
    """Allow None, which the function documents, besides a kind; a masked entry counts as None.

    Args:
        kind: The kind of other values.

    Returns:
        The kind.
    """

    def convert(value: Any, place: str) -> Any:
        return None if value is None or value is np.ma.masked else kind.convert(value, place)

    # Readers of a later kind take None, too, and a list of these stays the array or tensor that it is.
    return replace(kind, name=f"optional {kind.name}", convert=_pass if kind.convert is _pass else convert)


def one(name: str, expected: str, accepts: Callable[[Any], bool]) -> Kind:
    """Build the kind of a single value.

    Args:
        name: Name of the kind.
        expected: The required value, for the message.
        accepts: Whether a value is of the kind.

    Returns:
        The kind.
    """

    def convert(value: Any, place: str) -> Any:
        if value is np.ma.masked or not accepts(value):
            refuse(value, place, expected)
        return value

    return Kind(name, convert)


def whole(lowest: int) -> Kind:
    """Build the kind of sizes, counts and seeds.

    Args:
        lowest: The smallest number.

    Returns:
        The kind.
    """
    return one("whole", f"at least {lowest}, a whole number", lambda value: is_whole(value) and value >= lowest)


def real(expected: str, accepts: Callable[[float], bool]) -> Kind:
    """Build the kind of a finite number.

    Args:
        expected: The required number, for the message.
        accepts: Whether a number is in its range.

    Returns:
        The kind.
    """
    return one("real", expected, lambda value: is_real(value) and accepts(value))


def one_of(names: Collection[str]) -> Kind:
    """Build the kind of one of several names.

    Args:
        names: The names.

    Returns:
        The kind.
    """
    expected = f"one of {', '.join(names)}" if len(names) > 2 else " or ".join(names)
    return one("choice", expected, lambda value: isinstance(value, str) and value in names)


def instance(*types: type) -> Kind:
    """Build the kind of results of other functions.

    Args:
        types: The classes.

    Returns:
        The kind.
    """
    names = " or ".join(type_.__name__ for type_ in types)
    return one("instance", f"an instance of {names}", lambda value: isinstance(value, types))


def record(type_: type, **fields: Kind) -> Kind:
    """Build the kind of a NamedTuple whose fields are checked, too.

    Args:
        type_: The class.
        fields: The kind of each field to check.

    Returns:
        The kind.
    """
    whole_record = instance(type_)

    def convert(value: Any, place: str) -> Any:
        whole_record.convert(value, place)
        return value._replace(
            **{name: kind.convert(getattr(value, name), f"{place}.{name}") for name, kind in fields.items()}
        )

    return Kind("record", convert, fields=fields)


def numbers(
    expected: str = "a number or NaN",
    accepts: Callable[[np.ndarray], np.ndarray] | None = None,
    *,
    shape: str = "(n,)",
    is_column: bool = False,
    name: str = "numbers",
) -> Kind:
    """Build the kind of an array of numbers; missing ones are NaN.

    Args:
        expected: What each number has to be, for the message.
        accepts: Marks the numbers of an array that are in their range.
        shape: The shape, for the number of dimensions and the message.
        is_column: See `Kind`.
        name: Name of the kind.

    Returns:
        The kind; its values become float64.
    """
    n_dimensions = len([side for side in shape.strip("()").split(",") if side])

    def convert(values: Any, place: str) -> np.ndarray:
        array = read_numbers(values, place, expected).astype(np.float64, copy=False)
        if array.ndim != n_dimensions:
            raise ValueError(f"{place}: shape {array.shape}; expected numbers of shape {shape}")
        is_bad = np.isinf(array)
        if accepts is not None:
            is_bad |= ~accepts(array)
        if is_bad.any():
            position = np.argwhere(is_bad)[0]
            value = array[tuple(position)]
            written = "infinite" if np.isinf(value) else "NaN or masked" if np.isnan(value) else f"{value:g}"
            raise ValueError(f"{place}, row {position[0] + 1}: {written}; expected {expected}")
        return array

    return Kind(name, convert, is_column)


def indices(lowest: int = -1, *, is_column: bool = False) -> Kind:
    """Build the kind of whole numbers, one or an array of shape (n,); masked entries are refused.

    Args:
        lowest: The smallest number; -1 means none.
        is_column: See `Kind`.

    Returns:
        The kind; its values become an array of integers.
    """
    expected = f"a whole number of at least {lowest}"

    def convert(values: Any, place: str) -> np.ndarray:
        if type(values) is int and values >= lowest:  # adapters check row by row, and checks of arrays are slow
            return np.asarray(values)
        if not (type(values) is np.ndarray and values.dtype.kind in "iu" and values.ndim <= 1):
            values = read_entries(values, place, is_whole, expected)
        if (values < lowest).any():
            row = int(np.argmax(np.atleast_1d(values) < lowest))
            refuse(int(np.atleast_1d(values)[row]), f"{place}, row {row + 1}", expected)
        return values

    return Kind("indices", convert, is_column)


def flags(*, is_column: bool = False) -> Kind:
    """Build the kind of an array of True and False, shape (n,); masked entries are refused.

    Args:
        is_column: See `Kind`.

    Returns:
        The kind; its values become an array of bool.
    """

    def convert(values: Any, place: str) -> np.ndarray:
        if not is_list(values):
            refuse(values, place, "True or False in each row")
        if type(values) is np.ndarray and values.dtype == bool and values.ndim == 1:
            return values
        return read_entries(values, place, _is_flag, "True or False", dtype=bool)

    return Kind("flags", convert, is_column)


def choices(names: Sequence[str]) -> Kind:
    """Build the kind of names, one or an array of shape (n,); masked entries are refused.

    Args:
        names: The possible names.

    Returns:
        The kind; its values become an array of texts.
    """
    expected, known_names = f"one of {', '.join(names)}", frozenset(names)

    def convert(values: Any, place: str) -> np.ndarray:
        if isinstance(values, str) and values in known_names:  # see `indices`
            return np.asarray(values)
        if not (type(values) is np.ndarray and values.dtype.kind == "U" and values.ndim <= 1):
            values = read_entries(values, place, lambda value: isinstance(value, str), expected, dtype=str)
        is_known = np.isin(values, names) if values.ndim else np.asarray(values.item() in known_names)
        if not is_known.all():
            row = int(np.argmin(np.atleast_1d(is_known)))
            refuse(str(np.atleast_1d(values)[row]), f"{place}, row {row + 1}", expected)
        return values

    return Kind("choices", convert)


def sequence(kind: Kind, *, is_column: bool = False, word: str = "row") -> Kind:
    """Build the kind of a list with entries of one kind.

    Args:
        kind: The kind of the entries.
        is_column: See `Kind`.
        word: Name of an entry in messages.

    Returns:
        The kind.
    """

    def convert(values: Any, place: str) -> Any:
        if not is_list(values):
            refuse(values, place, "a list")
        if kind.convert is _pass:  # an array or tensor stays one
            return values
        return [_convert(kind, value, place, word, number) for number, value in enumerate(values, start=1)]

    return Kind("list", convert, is_column, entry=kind)


def texts(expected: str = "a list of texts") -> Kind:
    """Build the kind of a list or set of texts, such as options or classes.

    Args:
        expected: The required value, for the message.

    Returns:
        The kind.
    """

    def accepts(values: Any) -> bool:
        is_collection = is_list(values) or isinstance(values, set | frozenset)
        return is_collection and all(isinstance(value, str) for value in values)

    return one("texts", expected, accepts)


def columns(kinds: Mapping[str, Kind]) -> Kind:
    """Build the kind of a dict with certain columns; more are allowed.

    Args:
        kinds: The kind of each column; each is required.

    Returns:
        The kind.
    """

    def convert(value: Any, place: str) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            refuse(value, place, f"a dict of {', '.join(kinds)}")
        if missing := [column for column in kinds if column not in value]:
            raise ValueError(f"{place}: no column {missing[0]!r}; expected {', '.join(kinds)}")
        converted = {name: _convert(kind, value[name], place, "column", name) for name, kind in kinds.items()}
        return _update(value, converted)

    return Kind("dict", convert, fields=kinds)


def rows_of(kinds: Mapping[str, Kind], *, is_column: bool = True, word: str = "row") -> Kind:
    """Build the kind of a list of dicts with the same columns.

    Args:
        kinds: The kind of each column; each is required.
        is_column: See `Kind`.
        word: Name of an entry in messages.

    Returns:
        The kind.
    """
    return sequence(columns(kinds), is_column=is_column, word=word)


def mapping(kind: Kind) -> Kind:
    """Build the kind of a dict with values of one kind.

    Args:
        kind: The kind of the values.

    Returns:
        The kind.
    """

    def convert(values: Any, place: str) -> Mapping[str, Any]:
        if not isinstance(values, Mapping):
            refuse(values, place, "a dict")
        return _update(values, {key: kind.convert(value, f"{place}[{key!r}]") for key, value in values.items()})

    return Kind("mapping", convert, entry=kind)


def _convert(kind: Kind, value: Any, place: str, word: str, name: object) -> Any:
    """Convert an entry; only the message of an error needs its place, which takes longer to write than to convert."""
    try:
        return kind.convert(value, "")
    except ValueError:
        kind.convert(value, f"{place}, {word} {name!r}")
        raise


def _pass(value: Any, _: str) -> Any:
    return value


def _update(values: Mapping[str, Any], converted: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values with the converted ones, or the same object if nothing is converted."""
    return values if all(converted[key] is values[key] for key in converted) else {**values, **converted}


def _is_sized(value: Any) -> bool:
    """Whether a mask has a size; `evaluate` or the function refuses others."""
    return isinstance(value, Mapping) and value.get("size") is not None


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


TEXT = one("text", "a text", lambda value: isinstance(value, str))
FLAG = one("flag", "True or False", _is_flag)
LABEL = one("label", "a text or a whole number", lambda value: isinstance(value, str) or is_whole(value))
FUNCTION = one("function", "a function", callable)
INDEX = one("index", "a whole number", is_whole)
SIZE = read_later("size", read_size)
GRID = read_later("grid", read_grid)
WINDOW = read_later("window", read_window)
XYWH = read_later("box", lambda value, place: read_boxes([value], place.removesuffix(": ")))
MASK = read_later("mask", lambda value, place: read_size(value["size"], place) if _is_sized(value) else None)
BOXES = read_later("boxes")
MAPS = read_later("maps")
LABELS = Kind("labels", read_labels, is_column=True)
TEXTS = texts()
SEED = whole(0)
COUNT = whole(1)
NUMBER = real("a finite number", math.isfinite)
FLOAT = one("float", "a number or NaN", lambda value: isinstance(value, Real) and not isinstance(value, bool))
LEVEL = real("a share between 0 and 1, for example 0.95", lambda value: 0 < value < 1)
SHARE = real("a share from 0 to 1", lambda value: 0 <= value <= 1)
INNER_LEVEL = real("a share of at least 0 and below 1", lambda value: 0 <= value < 1)
MARGIN = real("a fraction, at least 0 and below 1; 5 percentage points are 0.05", lambda value: 0 <= value < 1)
DIFFERENCE = real("a fraction between -1 and 1; 5 percentage points are 0.05", lambda value: -1 < value < 1)
VALUES = numbers()
UNIT = numbers(
    "a number from 0 to 1, or NaN",
    lambda array: np.isnan(array) | ((array >= -ROUNDING) & (array <= 1 + ROUNDING)),
    name="unit",
)
BOUNDS = one(
    "bounds",
    "the lowest and the highest number, for example (0, 1)",
    lambda bounds: is_list(bounds) and len(bounds) == 2 and all(map(is_real, bounds)) and bounds[0] < bounds[1],
)
