"""What of a build may be published: by the licences of all sources that it was made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..loaders import sources
from ..loaders.sources import Source

ROWS, RECIPE = "rows", "recipe"


def sources_of(record: Mapping[str, Any]) -> list[Source]:
    """The sources of a build, as its build.json names them. Raises InputError for one that sources.toml has not."""
    return [sources.source(source_id) for source_id in record["sources"]]


def policy_of(record: Mapping[str, Any]) -> str:
    """ "rows" where every source allows it, else "recipe": the strictest licence counts.

    >>> policy_of({"sources": {"openi": {}}}), policy_of({"sources": {"cholect45": {}, "cholec80_boxes": {}}})
    ('rows', 'recipe')
    """
    return ROWS if all(source.publish == ROWS for source in sources_of(record)) else RECIPE


def withholds_ids(record: Mapping[str, Any]) -> bool:
    """Whether a source's licence keeps its identifiers, or what ours say, with its holders: they are hashed, too."""
    return any(source.ids == "withheld" for source in sources_of(record))
