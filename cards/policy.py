"""What of a build may be published: by the licences of all sources that it was made of, or references."""

from __future__ import annotations

from collections.abc import Iterable

from ..loaders.sources import Source

ROWS, RECIPE = "rows", "recipe"


def policy_of(sources: Iterable[Source]) -> str:
    """ "rows" where every source allows it, else "recipe": the strictest licence counts.

    >>> from ..loaders.sources import source
    >>> policy_of([source("openi")]), policy_of([source("cholect45"), source("cholec80_boxes")])
    ('rows', 'recipe')
    """
    return ROWS if all(source.publish == ROWS for source in sources) else RECIPE


def withholds_ids(sources: Iterable[Source]) -> bool:
    """Whether a source's licence keeps its identifiers, or what ours say, with its holders: they are hashed, too."""
    return any(source.ids == "withheld" for source in sources)
