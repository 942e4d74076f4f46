"""TOML as users write it: settings and mappings."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from . import limits


def read(path: Path) -> dict[str, Any]:
    """Read a TOML file of a user.

    Args:
        path: The file.

    Returns:
        The decoded content.

    Raises:
        OSError: The file cannot be read, is not a regular file, or is larger than `limits.TEXT_BYTES`.
        ValueError: The text is no UTF-8 or no TOML, has a number of too many digits, or is nested too deeply.
    """
    try:
        return tomllib.loads(limits.read_bytes(path, limits.TEXT_BYTES).decode())
    except RecursionError:
        raise ValueError("nested too deeply") from None
