"""Hide counts of a few rows in a recipe: they would reveal something about a few patients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

FEWEST = 5  # smallest count that is printed
HIDDEN = f"<{FEWEST}"
OR_MORE = f"≥{FEWEST}"  # replaces a count that would reveal another one
ANY = "≥1"  # replaces every count, if no other way hides the small ones
SIGNS = (HIDDEN, OR_MORE, ANY)


def hide_small_counts(counts: Mapping[str, int]) -> dict[str, int | str]:
    """Replace small counts by a sign, and as many others as it takes that the sum does not reveal them.

    The sum is known: the manifest shows the number of rows. At least two values stay possible for each small count. The
    second count is the smallest that allows this. Where none does, all counts are hidden.

    >>> hide_small_counts({"edema": 3, "mass": 9, "nodule": 6})
    {'edema': '<5', 'mass': 9, 'nodule': '≥5'}
    >>> hide_small_counts({"edema": 1, "mass": 5})
    {'edema': '≥1', 'mass': '≥1'}

    Args:
        counts: The counts by value.

    Returns:
        The counts for publication.
    """
    few = [n for n in counts.values() if n < FEWEST]
    if not few:
        return dict(counts)
    others = sorted((name for name, n in counts.items() if n >= FEWEST), key=lambda name: counts[name])
    for companions in ([], *([name] for name in others)):
        if _is_open(few, [counts[name] for name in companions]) or len(counts) == 1:
            return {name: HIDDEN if n < FEWEST else OR_MORE if name in companions else n for name, n in counts.items()}
    return dict.fromkeys(counts, ANY)


def _is_open(few: Sequence[int], companions: Sequence[int]) -> bool:
    """Whether two or more values are possible for each small count, given the sum of all hidden counts."""
    hidden_sum, n_other_few = sum(few) + sum(companions), len(few) - 1
    lowest = 1 if companions else max(1, hidden_sum - (FEWEST - 1) * n_other_few)
    highest = min(FEWEST - 1, hidden_sum - n_other_few - FEWEST * len(companions))
    return highest > lowest


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
