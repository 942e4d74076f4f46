"""The manifest of a data set: config, split, id and hash of each row, to publish and compare rows without showing them.

Ids of some sources reveal the content of rows, and few rows are possible for an image. Anyone could find both from
plain hashes by trying all of them. In a recipe they are HMACs. Only who can build the rows can compute the key
(`row_keys`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter

import pyarrow as pa

from ...builders.row_digest import iterate_row_json
from ...loaders.progress import Progress
from ..publication import WITHOUT_MASKS, Publication, list_mask_columns
from ..row_keys import compute_hash

Rows = Mapping[str, str]  # id -> hash
Splits = dict[tuple[str, str], Rows]  # by config and split
Keys = Mapping[tuple[str, str], bytes]  # by config and split


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of one split from the published one.

    Attributes:
        config: The config.
        split: The split.
        n_equal: The number of equal rows.
        missing: Ids that are published, but not built.
        extra: Ids that are built, but not published.
        different: Ids in both, with other values.
        other_masks: Ids in both that differ in the masks only.
        other_order: Whether all rows are equal, in another order.
    """

    config: str
    split: str
    n_equal: int
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    different: tuple[str, ...]
    other_masks: tuple[str, ...] = ()
    other_order: bool = False

    @property
    def is_equal(self) -> bool:
        """Whether all rows are equal, in any order."""
        return not (self.missing or self.extra or self.different or self.other_masks)


def hash_build(publication: Publication, keys: Keys) -> Splits:
    """Hash the rows of a build for publication.

    They have the build's order or, if hashed with keys, the order of the hashes.

    The order of a build reveals something about its rows: a source's order, or the random selection.

    Args:
        publication: The build.
        keys: The key of each split that is hashed with one.

    Returns:
        The hashes.
    """
    return _hash_tables(publication, publication.tables(), keys)


def hash_without_masks(publication: Publication, keys: Keys) -> Splits:
    """Hash the rows of a build without their masks, for splits that have masks.

    Args:
        publication: The build.
        keys: The key of each split that is hashed with one.

    Returns:
        The hashes.
    """
    mask_columns = {config: list_mask_columns(features) for config, features in publication.built.items()}
    tables = (
        (config, split, rows.drop_columns(mask_columns[config]))
        for config, split, rows in publication.tables()
        if mask_columns[config]
    )
    return _hash_tables(publication, tables, keys)


def _hash_tables(publication: Publication, tables: Iterable[tuple[str, str, pa.Table]], keys: Keys) -> Splits:
    hashes: Splits = {}
    for config, split, rows in tables:
        key = keys.get((config, split), b"")
        bar = Progress(iterate_row_json(rows), title=f"hashing {config}/{split}", total=len(rows), unit="rows")
        pairs = zip(_compute_names(publication, rows, key), (compute_hash(row, key) for row in bar), strict=True)
        hashes[config, split] = dict(sorted(pairs, key=itemgetter(1)) if key else pairs)
    return hashes


def map_hashes_to_ids(publication: Publication, keys: Keys) -> dict[tuple[str, str], Mapping[str, str]]:
    """Map the name of each row in the manifest to the row's id.

    Args:
        publication: The build.
        keys: The key of each split that is hashed with one.

    Returns:
        The names and ids by config and split.
    """
    return {
        (config, split): dict(
            zip(
                _compute_names(publication, rows, keys.get((config, split), b"")),
                rows["id"].to_pylist(),
                strict=True,
            )
        )
        for config, split, rows in publication.tables()
    }


def _compute_names(publication: Publication, rows: pa.Table, key: bytes) -> list[str]:
    """Return the rows' ids, or their hashes."""
    row_ids = rows["id"].to_pylist()
    return [compute_hash(row_id.encode(), key) for row_id in row_ids] if publication.withholds_ids else row_ids


def hash_rows(rows: pa.Table) -> Rows:
    """Hash the rows of a split without a key.

    Args:
        rows: The rows.

    Returns:
        Id -> hash.
    """
    return dict(zip(rows["id"].to_pylist(), map(compute_hash, iterate_row_json(rows)), strict=True))


def build_tables(publication: Publication) -> dict[str, pa.Table]:
    """Build the published tables of a recipe.

    Args:
        publication: The build.

    Returns:
        Config -> its rows, split after split.
    """
    keys = {name: key.secret for name, key in publication.split_keys.items()}
    splits, hashes_without_masks = hash_build(publication, keys), hash_without_masks(publication, keys)
    features = publication.manifest_features
    tables_by_config: dict[str, list[pa.Table]] = {}
    for (config, split), rows in splits.items():
        columns: dict[str, list[str | None]] = {
            "config": [config] * len(rows),
            "split": [split] * len(rows),
            "id": [*rows],
            "sha256": [*rows.values()],
        }
        if WITHOUT_MASKS in features:
            columns[WITHOUT_MASKS] = [hashes_without_masks.get((config, split), {}).get(name) for name in rows]
        tables_by_config.setdefault(config, []).append(pa.table(columns, schema=features.arrow_schema))
    return {config: pa.concat_tables(split_tables) for config, split_tables in tables_by_config.items()}


def read_hashes(published: pa.Table, column: str = "sha256") -> Splits:
    """Read the hashes in a published table.

    Args:
        published: The table of a config.
        column: The column of hashes.

    Returns:
        The hashes.
    """
    hashes: dict[tuple[str, str], dict[str, str]] = {}
    for row in published.select(["config", "split", "id", column]).to_pylist():
        hashes.setdefault((row["config"], row["split"]), {})[row["id"]] = row[column]
    return dict(hashes)


def separate_other_masks(difference: Difference, built: Splits, published: Splits) -> Difference:
    """Separate rows with other masks from rows that differ otherwise.

    Args:
        difference: The difference of a split.
        built: The hashes of the build, without masks.
        published: The published hashes, without masks.

    Returns:
        The difference with `other_masks`.
    """
    ours, theirs = (hashes.get((difference.config, difference.split), {}) for hashes in (built, published))
    alike = {row_id for row_id in difference.different if ours.get(row_id) and ours.get(row_id) == theirs.get(row_id)}
    different = tuple(row_id for row_id in difference.different if row_id not in alike)
    return replace(
        difference, different=different, other_masks=tuple(row_id for row_id in difference.different if row_id in alike)
    )


def compare(built: Splits, published: Splits) -> list[Difference]:
    """Compare hashes split by split.

    Args:
        built: The hashes of the build.
        published: The published hashes.

    Returns:
        The differences in the order of the published splits; splits that were only built come last.
    """
    return [
        _compare_split(config, split, built.get((config, split), {}), published.get((config, split), {}))
        for config, split in dict.fromkeys([*published, *built])
    ]


def _compare_split(config: str, split: str, built: Rows, published: Rows) -> Difference:
    shared = [row_id for row_id in published if row_id in built]
    different = tuple(row_id for row_id in shared if built[row_id] != published[row_id])
    return Difference(
        config,
        split,
        len(shared) - len(different),
        _list_missing(published, built),
        _list_missing(built, published),
        different,
    )


def _list_missing(ids: Iterable[str], rows: Rows) -> tuple[str, ...]:
    return tuple(row_id for row_id in ids if row_id not in rows)
