"""The policy of a publication, from the licences of all sources of its labels and images."""

from __future__ import annotations

from collections.abc import Iterable

from ..loaders.sources import Source

ROWS, RECIPE = "rows", "recipe"


def compute_policy(sources: Iterable[Source]) -> str:
    """Compute the policy: "rows" if every source allows it, else "recipe". The strictest licence counts.

    >>> from ..loaders.sources import source
    >>> compute_policy([source("openi")]), compute_policy([source("cholect45"), source("cholec80_boxes")])
    ('rows', 'recipe')

    Args:
        sources: The sources.

    Returns:
        "rows" or "recipe".
    """
    return ROWS if all(source.publish == ROWS for source in sources) else RECIPE


def withholds_ids(sources: Iterable[Source]) -> bool:
    """Return whether a source's licence withholds identifiers, or the information in ours; they are hashed, too.

    Args:
        sources: The sources.

    Returns:
        True if ids must be hashed.
    """
    return any(source.ids == "withheld" for source in sources)
