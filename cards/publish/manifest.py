"""Which rows a data set has, without the rows: config, split, id and hash of each. Made, read back, compared.

Ids of some sources say what their rows say, and few rows are possible for an image. Plain hashes would give both away
to anyone who tries all of them. In a recipe they are HMACs. Only people who hold the label files can derive the key.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from tqdm import tqdm

from ...builders import registry
from ...builders.rowset import row_json
from .. import policy
from ..publication import MANIFEST_FEATURES, Publication

Rows = Mapping[str, str]  # id -> hash
Splits = dict[tuple[str, str], Rows]  # by config and split


@dataclass(frozen=True, slots=True)
class Difference:
    """One split of a build beside the published one: how many rows are equal, and the ids of those that are not.

    missing: published and not built. extra: built and not published. different: in both, with other values.
    """

    config: str
    split: str
    n_equal: int
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    different: tuple[str, ...]


def hashed(content: bytes, key: bytes = b"") -> str:
    """SHA-256, or HMAC-SHA256 where there is a key, in hexadecimal digits."""
    return hmac.new(key, content, hashlib.sha256).hexdigest() if key else hashlib.sha256(content).hexdigest()


def of_build(publication: Publication) -> Splits:
    """The rows of a build, as they are published.

    Raises InputError for a recipe without a key (`registry.key_of`).
    """
    found: Splits = {}
    for config, split, rows in publication.tables():
        key = b"" if publication.policy == policy.ROWS else registry.key_of(publication.record, split)
        ids: list[str] = rows["id"].to_pylist()
        names = [hashed(row_id.encode(), key) for row_id in ids] if publication.withholds_ids else ids
        bar = tqdm(row_json(rows), desc=f"hash {config}/{split}", total=len(ids), disable=None, leave=False)
        found[config, split] = dict(zip(names, (hashed(row, key) for row in bar), strict=True))
    return found


def plain(rows: pa.Table) -> Rows:
    """The rows of one split of a data set whose rows are published."""
    return dict(zip(rows["id"].to_pylist(), map(hashed, row_json(rows)), strict=True))


def table(splits: Splits) -> pa.Table:
    """As it is published, with MANIFEST_FEATURES; in the order of the build."""
    rows = [(config, split, *row) for (config, split), of_split in splits.items() for row in of_split.items()]
    columns = zip(*rows, strict=True) if rows else [()] * len(MANIFEST_FEATURES)
    arrays = {name: pa.array(values, pa.string()) for name, values in zip(MANIFEST_FEATURES, columns, strict=True)}
    return pa.table(arrays, schema=MANIFEST_FEATURES.arrow_schema)


def of_table(published: pa.Table) -> Splits:
    """What `table` made."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for row in published.select(list(MANIFEST_FEATURES)).to_pylist():
        found.setdefault((row["config"], row["split"]), {})[row["id"]] = row["sha256"]
    return dict(found)


def compare(built: Splits, published: Splits) -> list[Difference]:
    """Split by split, in the order of the published ones; those that were built alone come last."""
    return [
        _difference(config, split, built.get((config, split), {}), published.get((config, split), {}))
        for config, split in dict.fromkeys([*published, *built])
    ]


def _difference(config: str, split: str, built: Rows, published: Rows) -> Difference:
    both = [row_id for row_id in published if row_id in built]
    different = tuple(row_id for row_id in both if built[row_id] != published[row_id])
    return Difference(
        config, split, len(both) - len(different), _without(published, built), _without(built, published), different
    )


def _without(ids: Iterable[str], others: Rows) -> tuple[str, ...]:
    return tuple(row_id for row_id in ids if row_id not in others)
