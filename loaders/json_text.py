"""JSON as sources hold it, which need not be what rows can hold."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import limits
from .errors import InputError

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read(path: Path, *, expected: str, action: str, repeats: bool = True) -> Any:
    """What a JSON file holds. `expected` and `action` are what a message says; `repeats` False refuses a name that an
    object has twice, of which JSON readers keep the last.

    Raises InputError naming the file where it cannot be read, and for what `parse` refuses.
    """
    try:
        return parse(limits.read_bytes(path, limits.JSON_BYTES), None if repeats else _without_repeats)
    except (ValueError, OSError) as error:
        raise InputError(path, f"cannot be read as JSON ({error})", expected=expected, action=action) from None


def parse(data: str | bytes, object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """As `json.loads`.

    Raises ValueError for what is no JSON, for one that is nested too deeply, and for half of a surrogate pair: JSON can
    spell it, and no UTF-8, so no Parquet, can hold it.
    """
    try:
        text = data if isinstance(data, str) else data.decode(json.detect_encoding(data))
        found = json.loads(text, object_pairs_hook=object_pairs_hook)
        if _SURROGATE.search(text):
            json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"half a character: \\u{ord(error.object[error.start]):x}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return found


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"one object has the name {twice!r} twice")
    return found
