"""JSON as sources hold it, which rows cannot always hold."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import limits, placeholders
from .errors import InputError

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read(path: Path, *, expected: str, action: str, repeats: bool = True, allow_surrogates: bool = False) -> Any:
    """Read a JSON file.

    Args:
        path: The file.
        expected: The expectation in the error message.
        action: Advice of the error message.
        repeats: False refuses an object that has the same name twice. JSON readers keep the last value.
        allow_surrogates: As in `parse`.

    Returns:
        The decoded content.

    Raises:
        InputError: The file cannot be read, is a placeholder of another, or `parse` refuses its content.
    """
    try:
        data, hook = limits.read_bytes(path, limits.JSON_BYTES), None if repeats else require_unique_names
        placeholders.refuse_placeholder(path, data[: placeholders.HEAD_BYTES])
        return parse(data, hook, allow_surrogates=allow_surrogates)
    except (ValueError, OSError) as error:
        raise InputError(path, f"cannot be read as JSON ({error})", expected=expected, action=action) from None


def parse(
    data: str | bytes,
    object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None,
    *,
    allow_surrogates: bool = False,
) -> Any:
    """Parse a JSON text, like `json.loads`, but refuse content that Parquet cannot hold.

    Args:
        data: The text, or its bytes in UTF-8, UTF-16 or UTF-32.
        object_pairs_hook: Passed on to `json.loads`.
        allow_surrogates: Whether to allow half of a surrogate pair. The caller has to replace it.

    Returns:
        The decoded content.

    Raises:
        ValueError: The text is not JSON, is nested too deeply, or has half of a surrogate pair. JSON can spell the
            latter, but UTF-8, and so Parquet, cannot.
    """
    try:
        text = data if isinstance(data, str) else data.decode(json.detect_encoding(data))
        content = json.loads(text, object_pairs_hook=object_pairs_hook)
        if not allow_surrogates and _SURROGATE.search(text):
            json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"half a character: \\u{ord(error.object[error.start]):x}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return content


def require_unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make the object of pairs, and refuse a repeated name: a hook of `parse`.

    Args:
        pairs: Name and value.

    Returns:
        The object.

    Raises:
        ValueError: A name is repeated.
    """
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"one object has the name {repeated!r} twice")
    return content
