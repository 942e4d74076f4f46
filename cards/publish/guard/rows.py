"""Rows of a build in the texts of its recipe: an object with two or more of the rows' columns, as JSON or Python."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from ...publication import Publication
from .found import Found
from .tables import fields

SHARED = frozenset({"name", "source", "key"})  # names that objects of build.json and croissant.json have, too
EXPECTED = "no row of the build but the synthetic example of the card"
_NAME = re.compile(r"""["'](\w+)\\*["']\s*:""")


def columns(publication: Publication) -> frozenset[str]:
    """The names of a build's columns and of the fields inside them, but for SHARED."""
    paths = (path for features in publication.built.values() for path, _ in fields(features.arrow_schema))
    return frozenset(name for path in paths for name in path.split(".")) - SHARED


def find(text: str, names: Collection[str]) -> Found | None:
    """The first row that is written out in a text. names: `columns`."""
    matches = [match for match in _NAME.finditer(text) if match[1] in names]
    return of_names((match[1] for match in matches), names, matches[0].start() if matches else 0)


def of_names(found: Iterable[str], names: Collection[str], start: int = 0) -> Found | None:
    """Whether the names of an object are those of a row. start: where it stands in its text."""
    both = list(dict.fromkeys(name for name in found if name in names))
    return Found(f"holds a row: {', '.join(both[:4])}", start, EXPECTED) if len(both) > 1 else None
