"""Readers of arguments that hold one entry per row or pixel: numbers, labels, sizes, boxes, windows and heatmaps.

NaN, None and masked entries (`numpy.ma`) are missing numbers and become NaN. A missing label is refused by its row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from numbers import Real
from typing import Any, NoReturn

import numpy as np


def refuse(value: Any, place: str, expected: str) -> NoReturn:
    """Raise the error of a bad value.

    Args:
        value: The value.
        place: Name of the argument, or argument, row and column.
        expected: The required value.

    Raises:
        ValueError: Always.
    """
    written = "masked" if value is np.ma.masked else repr(value.item() if isinstance(value, np.generic) else value)
    written = written if len(written) <= 200 else f"{written[:197]}..."
    raise ValueError(
        f"{place}: {written}; expected {expected}" if ", " in place else f"{place} {written}: expected {expected}"
    )


def is_whole(value: Any) -> bool:
    """Whether a value is an integer, of Python or numpy; True and 1.0 are none.

    Args:
        value: The value.

    Returns:
        True for an integer.
    """
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_real(value: Any) -> bool:
    """Whether a value is a finite real number; True, complex numbers and texts are none.

    Args:
        value: The value.

    Returns:
        True for a number.
    """
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def is_list(values: Any) -> bool:
    """Whether a value has ordered entries: a list, an array or a column, but no text, dict or set.

    Args:
        values: The value.

    Returns:
        True for a list.
    """
    if isinstance(values, str | bytes | Mapping | AbstractSet):
        return False
    try:
        len(values), iter(values)
    except TypeError:
        return False
    return True


def read_numbers(values: Any, place: str, expected: str = "a number") -> np.ndarray:
    """Convert numbers to an array of floats; None, masked entries and NaN become NaN.

    Args:
        values: A list or array, also a masked one, of any shape. Booleans count as 0 and 1.
        place: Name of the argument, for errors.
        expected: What each entry has to be, for errors.

    Returns:
        float32 for floats of at most 32 bits, otherwise float64.

    Raises:
        ValueError: An entry is no real number, or rows have different lengths. The message names the row.

    >>> read_numbers(np.ma.array([1, 2], mask=[False, True]), "values").tolist()
    [1.0, nan]
    """
    if not is_list(values):
        refuse(values, place, f"{expected} in each row")
    filled = _fill_masked(values)
    try:
        array = np.asarray(filled)
    except ValueError:
        _require_numbers(filled, place, expected)
        raise ValueError(f"{place}: rows of different lengths; expected rows of one length") from None
    if array.dtype.kind not in "fiub":
        _require_numbers(filled, place, expected)
        if array.dtype.kind != "O":
            raise ValueError(f"{place}: values of type {array.dtype}; expected {expected} in each row")
    is_single = array.dtype.kind == "f" and array.dtype.itemsize <= 4
    return array.astype(np.float32 if is_single else np.float64, copy=False)


def read_labels(values: Any, place: str) -> np.ndarray:
    r"""Convert labels to an array in which equal labels, of equal types, have equal numbers.

    numpy alone would join 1 and "1", "a" and "a\0", or large integers and floats. Labels of one type keep their order.

    Args:
        values: A list or array of labels.
        place: Name of the argument, for errors.

    Returns:
        Integers, shape (n,).

    Raises:
        ValueError: A label is None, NaN, masked, or cannot be hashed. The message names the row.

    >>> read_labels(["b", "a", "b"], "groups").tolist(), read_labels([1, "1", 1.5, 1], "groups").tolist()
    ([1, 0, 1], [0, 1, 2, 0])
    """
    if not is_list(values):
        refuse(values, place, "one label per value")
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise ValueError(f"{place}: shape {values.shape}; expected one label per value, shape (n,)")
        if values.dtype.kind in "iub" and not np.ma.is_masked(values):
            return np.asarray(values)
    labels = list(values)
    types = set(map(type, labels))
    if types != {str}:
        for row, label in enumerate(labels):
            if _is_missing(label):
                refuse(label, f"{place}, row {row + 1}", "a label, such as a text or a number")
        labels = [label.item() if isinstance(label, np.generic) else label for label in labels]
        types = set(map(type, labels))
        if len(types) > 1:
            labels = [(type(label), label) for label in labels]
    distinct_labels = list(dict.fromkeys(labels))
    if len(types) == 1 and issubclass(next(iter(types)), str | int | float):
        distinct_labels.sort()
    codes = {label: code for code, label in enumerate(distinct_labels)}
    return np.array([codes[label] for label in labels], dtype=np.intp)


def read_entries(
    values: Any, place: str, accepts: Callable[[Any], bool], expected: str, dtype: type = np.int64
) -> np.ndarray:
    """Convert one entry, or one entry per row, to an array.

    Args:
        values: An entry, or a list or array of entries.
        place: Name of the argument, for errors.
        accepts: Whether an entry is allowed; a masked entry is not.
        expected: What each entry has to be, for errors.
        dtype: Type of an array without entries.

    Returns:
        Shape () or (n,).

    Raises:
        ValueError: An entry is not accepted. The message names the row.
    """
    if isinstance(values, np.ndarray) and values.ndim == 0 and values is not np.ma.masked:
        values = values[()]
    if not is_list(values):
        if values is np.ma.masked or not accepts(values):
            refuse(values, place, expected)
        return np.asarray(values)
    if isinstance(values, np.ndarray) and values.ndim > 1:
        raise ValueError(f"{place}: shape {values.shape}; expected one entry or shape (n,)")
    entries = list(values)
    for row, entry in enumerate(entries):
        if entry is np.ma.masked or not accepts(entry):
            refuse(entry, f"{place}, row {row + 1}", expected)
    return np.array(entries) if entries else np.array([], dtype=dtype)


def read_flags(values: Any, place: str) -> np.ndarray:
    """Convert True and False, or 1 and 0, to an array; masked entries are refused.

    Args:
        values: A list or array of any shape.
        place: Name of the argument, for errors.

    Returns:
        Bool, of the same shape.

    Raises:
        ValueError: An entry is neither. The message names the row.
    """
    if type(values) is np.ndarray and values.dtype == bool:
        return values
    array = read_numbers(values, place, "True or False")
    is_bad = (array != 0) & (array != 1)
    if is_bad.any():
        position = np.argwhere(is_bad)[0]
        refuse(array[tuple(position)].item(), f"{place}, row {position[0] + 1}", "True or False")
    return array == 1


def read_grid(grid: Any, place: str, word: str = "a heatmap") -> np.ndarray:
    """Convert a heatmap to an array of the precision that it has.

    Args:
        grid: Shape (height, width).
        place: Beginning of messages, "" or the name of the sample with a colon and a blank.
        word: Name of the grid in messages.

    Returns:
        The array, whose masked entries are NaN.

    Raises:
        ValueError: It is no grid of numbers.
    """
    try:
        cells = read_numbers(grid, word.removeprefix("a "))
    except ValueError as error:
        raise ValueError(
            f"{place}no {word.removeprefix('a ')}; expected rows of numbers, all of one length ({error})"
        ) from None
    if cells.ndim != 2 or not cells.size:
        raise ValueError(f"{place}{word} of shape {cells.shape}; expected (height, width)")
    return cells


def read_size(size: Any, place: str = "") -> tuple[int, int]:
    """Read the size of an image or frame.

    Args:
        size: [height, width] in pixels.
        place: Beginning of messages, see `read_grid`.

    Returns:
        (height, width).

    Raises:
        ValueError: Not two whole numbers from 1.
    """
    sides = list(size) if is_list(size) else []
    if len(sides) != 2 or not all(is_real(side) and side >= 1 and side == int(side) for side in sides):
        written = sides if is_list(size) or size is None else size
        raise ValueError(f"{place}size {written!r}; expected [height, width], whole numbers from 1")
    return int(sides[0]), int(sides[1])


def read_window(window: Any, place: str = "") -> tuple[float, float, float, float]:
    """Read the part of an image that a grid covers.

    Args:
        window: [x, y, width, height] in pixels.
        place: Beginning of messages, see `read_grid`.

    Returns:
        (x, y, width, height).

    Raises:
        ValueError: Not four finite numbers, or no positive size.
    """
    numbers = list(window) if is_list(window) else []
    if len(numbers) != 4 or not all(map(is_real, numbers)) or min(numbers[2:]) <= 0:
        written = numbers if is_list(window) else window
        raise ValueError(f"{place}window {written!r}; expected [x, y, width, height], finite, of a positive size")
    x, y, width, height = numbers
    return x, y, width, height


def read_boxes(boxes: Any, place: str = "") -> np.ndarray:
    """Read boxes.

    Args:
        boxes: k boxes [x, y, width, height] in pixels.
        place: Name of the sample, for errors; "" for none.

    Returns:
        float64, shape (k, 4).

    Raises:
        ValueError: Not (k, 4) finite numbers, or a width or height that is not positive.
    """
    beginning = f"{place}: " if place else ""
    try:
        numbers = read_numbers(boxes, "boxes").astype(np.float64)
    except ValueError as error:
        raise ValueError(
            f"{beginning}boxes that are not all four numbers; expected [x, y, width, height] ({error})"
        ) from None
    if not numbers.size:
        return np.empty((0, 4))
    if numbers.ndim != 2 or numbers.shape[1] != 4:
        raise ValueError(f"{beginning}boxes of shape {numbers.shape}; expected (k, 4), [x, y, width, height] each")
    is_bad = ~(np.isfinite(numbers).all(axis=1) & (numbers[:, 2:] > 0).all(axis=1))
    if is_bad.any():
        number = int(np.argmax(is_bad))
        raise ValueError(
            f"{place}{', ' if place else ''}box {number + 1}: {numbers[number].tolist()}; "
            "expected [x, y, width, height], finite, with a size"
        )
    return numbers


def _fill_masked(values: Any) -> Any:
    """Replace the masked entries of numbers by NaN, also within lists; of other masked arrays, keep the hidden data."""
    if isinstance(values, np.ma.MaskedArray):
        if values.dtype.kind not in "fiubO":
            return values.data
        return np.ma.filled(values.astype(np.float64) if values.dtype.kind in "iub" else values, np.nan)
    if isinstance(values, list | tuple) and any(isinstance(v, np.ma.MaskedArray | list | tuple) for v in values):
        return [math.nan if value is np.ma.masked else _fill_masked(value) for value in values]
    return values


def _require_numbers(values: Any, place: str, expected: str) -> None:
    """Refuse the first row with an entry that is no real number."""
    for row, entry in enumerate(values):
        for value in _flatten(entry):
            if not (value is None or isinstance(value, Real | np.bool_)):
                refuse(value, f"{place}, row {row + 1}", expected)


def _flatten(entry: Any) -> list:
    return [value for part in entry for value in _flatten(part)] if is_list(entry) else [entry]


def _is_missing(label: Any) -> bool:
    try:
        hash(label)
        return label is None or label is np.ma.masked or bool(label != label)  # noqa: PLR0124 (NaN)
    except (TypeError, ValueError):
        return True
