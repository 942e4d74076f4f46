"""Hide counts of a few rows in a recipe: they would reveal something about a few patients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FEWEST = 5  # smallest count that is printed
HIDDEN = f"<{FEWEST}"
OR_MORE = f"≥{FEWEST}"  # replaces a count that would reveal another one


def hide_small_counts(counts: Mapping[str, int]) -> dict[str, int | str]:
    """Replace small counts by a sign. If there is only one, hide a second count, too.

    With the sum known, a single hidden count could be computed.

    >>> hide_small_counts({"edema": 3, "mass": 9, "nodule": 6})
    {'edema': '<5', 'mass': 9, 'nodule': '≥5'}

    Args:
        counts: The counts by value.

    Returns:
        The counts for publication.
    """
    few = [name for name, n in counts.items() if n < FEWEST]
    published: dict[str, int | str] = {name: HIDDEN if name in few else n for name, n in counts.items()}
    if len(few) == 1 and len(counts) > 1:
        smallest = min((name for name in counts if name not in few), key=lambda name: counts[name])
        published[smallest] = OR_MORE
    return published


def format_count(count: int | str) -> str:
    """Format a count for a card.

    Args:
        count: The count, or the sign of a hidden one.

    Returns:
        The text.
    """
    return f"{count:,}" if isinstance(count, int) else count


def hide_split_counts(split: Mapping[str, Any]) -> dict[str, Any]:
    """Hide the small counts in the entry of a split of build.json, except its number of rows.

    Args:
        split: The entry.

    Returns:
        The entry for publication.
    """
    fields = {
        name: HIDDEN if name != "rows" and isinstance(value, int) and value < FEWEST else value
        for name, value in split.items()
    }
    return fields | {"counts": {column: hide_small_counts(counts) for column, counts in split["counts"].items()}}
