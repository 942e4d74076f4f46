"""Which rows a data set has, without the rows: config, split, id and hash of each. Made, read back, compared.

Ids of some sources say what their rows say, and few rows are possible for an image. Plain hashes would give both away
to anyone who tries all of them. In a recipe they are HMACs. Only people who hold the label files can derive the key.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter

import pyarrow as pa

from ...builders.label_keys import compute_config_key, key_of
from ...builders.row_digest import iterate_row_json
from ...loaders.progress import Progress
from .. import policy
from ..publication import WITHOUT_MASKS, Publication, masks

Rows = Mapping[str, str]  # id -> hash
Splits = dict[tuple[str, str], Rows]  # by config and split


@dataclass(frozen=True, slots=True)
class Difference:
    """One split of a build beside the published one: how many rows are equal, and the ids of those that are not.

    missing: published and not built. extra: built and not published. different: in both, with other values.
    other_masks: in both, with other masks and else the same.
    """

    config: str
    split: str
    n_equal: int
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    different: tuple[str, ...]
    other_masks: tuple[str, ...] = ()


def hashed(content: bytes, key: bytes = b"") -> str:
    """SHA-256, or HMAC-SHA256 where there is a key, in hexadecimal digits."""
    return hmac.new(key, content, hashlib.sha256).hexdigest() if key else hashlib.sha256(content).hexdigest()


def of_build(publication: Publication) -> Splits:
    """The rows of a build, as they are published: in its order or, hashed with keys, in that of the hashes.

    The order of a build tells something of its rows: a source's order, or which rows were drawn.

    Raises InputError for a recipe without a key (`label_keys.key_of`).
    """
    return _of_tables(publication, publication.tables())


def without_masks(publication: Publication) -> Splits:
    """As `of_build`, of the rows without their masks; only of splits whose rows have some."""
    of_masks = {config: masks(features) for config, features in publication.built.items()}
    tables = (
        (config, split, rows.drop_columns(of_masks[config]))
        for config, split, rows in publication.tables()
        if of_masks[config]
    )
    return _of_tables(publication, tables)


def _of_tables(publication: Publication, tables: Iterable[tuple[str, str, pa.Table]]) -> Splits:
    found: Splits = {}
    for config, split, rows in tables:
        key = _key(publication, config, split)
        bar = Progress(iterate_row_json(rows), title=f"hashing {config}/{split}", total=len(rows), unit="rows")
        pairs = zip(_names(publication, rows, key), (hashed(row, key) for row in bar), strict=True)
        found[config, split] = dict(sorted(pairs, key=itemgetter(1)) if key else pairs)
    return found


def ids(publication: Publication) -> dict[tuple[str, str], Mapping[str, str]]:
    """By config and split: what stands for each row of a build in its manifest -> the row's id."""
    return {
        (config, split): dict(
            zip(_names(publication, rows, _key(publication, config, split)), rows["id"].to_pylist(), strict=True)
        )
        for config, split, rows in publication.tables()
    }


def _key(publication: Publication, config: str, split: str) -> bytes:
    """Empty where the rows are published."""
    is_recipe = publication.policy == policy.RECIPE
    return compute_config_key(key_of(publication.record, split), config) if is_recipe else b""


def _names(publication: Publication, rows: pa.Table, key: bytes) -> list[str]:
    """The rows' ids, or hashes in their place."""
    own = rows["id"].to_pylist()
    return [hashed(row_id.encode(), key) for row_id in own] if publication.withholds_ids else own


def plain(rows: pa.Table) -> Rows:
    """The rows of one split of a data set whose rows are published."""
    return dict(zip(rows["id"].to_pylist(), map(hashed, iterate_row_json(rows)), strict=True))


def tables(publication: Publication) -> dict[str, pa.Table]:
    """As they are published, with a recipe's features: config -> its rows, split after split."""
    splits, others, features = of_build(publication), without_masks(publication), publication.manifest_features
    found: dict[str, list[pa.Table]] = {}
    for (config, split), rows in splits.items():
        of_split: dict[str, list[str | None]] = {
            "config": [config] * len(rows),
            "split": [split] * len(rows),
            "id": [*rows],
            "sha256": [*rows.values()],
        }
        if WITHOUT_MASKS in features:
            of_split[WITHOUT_MASKS] = [others.get((config, split), {}).get(name) for name in rows]
        found.setdefault(config, []).append(pa.table(of_split, schema=features.arrow_schema))
    return {config: pa.concat_tables(of_config) for config, of_config in found.items()}


def of_table(published: pa.Table, column: str = "sha256") -> Splits:
    """What `tables` made of a config: its hashes, or those of another column."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for row in published.select(["config", "split", "id", column]).to_pylist():
        found.setdefault((row["config"], row["split"]), {})[row["id"]] = row[column]
    return dict(found)


def told_apart(found: Difference, built: Splits, published: Splits) -> Difference:
    """The same, with rows that have other masks apart from rows that are different. built, published: without masks."""
    ours, theirs = (of.get((found.config, found.split), {}) for of in (built, published))
    alike = {row_id for row_id in found.different if ours.get(row_id) and ours.get(row_id) == theirs.get(row_id)}
    different = tuple(row_id for row_id in found.different if row_id not in alike)
    return replace(
        found, different=different, other_masks=tuple(row_id for row_id in found.different if row_id in alike)
    )


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
