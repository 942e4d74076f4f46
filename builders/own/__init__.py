"""A user's own questions, from a table and a folder of images (docs/your-own-data.md)."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from ...loaders import own_table
from ...loaders.escaping import escape_controls
from ..benchmark import Benchmark, Repository, Request
from ..options import FILE, option
from ..schemas.own import QUESTION
from ..write import Family, Split
from .cells import IMAGES
from .checks import find_violations
from .mapping import build_mapping, find_mapping, list_shipped, read_entries
from .reasons import REASONS
from .rows import CHOICE, OPEN, YES_NO, build_rows

NAME = "own"
TABLE = "table"  # the source of the rows
CONFIG = "rows"
SHOWN_COLUMNS = 20
NEEDS = {CONFIG: (TABLE, IMAGES)}
FAMILY = Family(QUESTION, {"kind": frozenset((YES_NO, CHOICE, OPEN))}, find_violations)


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a build.

    Attributes:
        mapping: A TOML file that says which column holds what, or the name of a shipped mapping.
    """

    mapping: str | None = field(
        default=None,
        metadata=option(
            f"TOML file that says which column holds what, or one of {', '.join(list_shipped())}",
            recorded=rf"({'|'.join(list_shipped())})\.toml|{FILE}",
            kind=str,
            default="columns have the names of the fields: image, question, answer ...",
            metavar="FILE",
        ),
    )


def select_family(config: str) -> Family:
    """Select the row family of a config.

    Args:
        config: The name of the config.

    Returns:
        The only family.
    """
    return FAMILY


def make(request: Request) -> Iterator[Repository]:
    """Make the repository of a table.

    Args:
        request: The arguments of the build.

    Yields:
        The only repository.

    Raises:
        InputError: The table, the mapping, an image or a region is faulty.
        MissingSourceError: The table or the folder of images is not named.
    """
    options: Options = request.options
    given, root = (request.find_root(source_id) for source_id in NEEDS[CONFIG])
    table = own_table.find_table(given)
    path = find_mapping(options.mapping) if options.mapping else None
    entries = read_entries(path)
    records = own_table.read_records(table, multiline=entries.get(own_table.LINE_BREAKS, False))
    columns = list(dict.fromkeys(name for record in records for name in record))
    mapping = build_mapping(entries, path or table, table, columns)
    unread = [name for name in columns if name not in mapping.fields.values()]
    if unread and path is None:  # a mapping leaves columns out knowingly
        names = escape_controls(", ".join(unread[:SHOWN_COLUMNS]))
        print(f"{table.name}: no field reads these columns: {names} (a mapping can: --mapping)", file=sys.stderr)
    rows_by_split, skipped = build_rows(records, mapping, table, root)
    yield Repository(
        TABLE,
        [Split(CONFIG, split, partial(_make_table, rows)) for split, rows in rows_by_split.items()],
        {TABLE: [table, *([path] if path else [])], IMAGES: []},
        arguments={"mapping": path.name if path else None},
        skipped=partial(Counter, skipped),
    )


def _make_table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=QUESTION.arrow_schema)


BENCHMARK = Benchmark(
    name=NAME,
    title="your own questions, from a table and a folder of images",
    needs=NEEDS,
    family=select_family,
    make=make,
    options=Options,
    draws="seed; nothing is drawn",
    reasons=REASONS,
    note="docs/your-own-data.md explains the columns and the mapping.",
    root_flags=(TABLE, IMAGES),
)
build, verify = BENCHMARK.build, BENCHMARK.verify
