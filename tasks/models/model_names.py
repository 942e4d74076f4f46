"""Names of models and of their weights, as results and errors print them."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def strip_folder(name: str) -> str:
    """Remove the folder from a model's name if the name is a path.

    Args:
        name: Name of the model, possibly with prefixes and colons.

    Returns:
        The name, with its last path component alone if the path exists.
    """
    kind, colon, location = name.rpartition(":")
    return (
        kind + colon + (Path(location).name if "/" in location and Path(location).expanduser().exists() else location)
    )


def format_few(keys: Any) -> str:
    """Format at most three names, and the number of remaining names.

    Args:
        keys: The names.

    Returns:
        The text; the names are sorted.
    """
    names = sorted(keys)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
