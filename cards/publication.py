"""A repository on the Hub: a verified build, and the part of it that its licences allow to publish."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq

from ..builders import registry
from ..builders.options import hide_files
from ..builders.schemas.structs import MASK
from ..builders.write import RECORD
from ..loaders import sources
from ..loaders.errors import InputError
from ..loaders.sources import Source
from . import file_names, policy, row_keys, small_counts

MANIFEST = "manifest"  # config of a recipe's tables; its splits have the names of the build's configs
WITHOUT_MASKS = "sha256_without_masks"  # in a manifest of rows with masks, which the publisher may have made
MANIFEST_FEATURES = datasets.Features(dict.fromkeys(("config", "split", "id", "sha256"), datasets.Value("string")))


@dataclass(frozen=True)
class Publication:
    """One repository of `medfaith build`.

    Attributes:
        folder: The folder of the build.
        record: The content of build.json.
        sources: Sources of labels.
        referenced: Sources of images that rows reference.
        built: Config -> features.
        published_on: The date of the first publication (ISO 8601); "" if it is not known.
    """

    folder: Path
    record: Mapping[str, Any]
    sources: tuple[Source, ...]
    referenced: tuple[Source, ...]
    built: Mapping[str, datasets.Features]
    published_on: str = ""

    @property
    def all_sources(self) -> tuple[Source, ...]:
        """All sources with licences to respect: of labels, then of images alone."""
        return tuple(dict.fromkeys((*self.sources, *self.referenced)))

    @property
    def policy(self) -> str:
        """The policy, "rows" or "recipe"."""
        return policy.compute_policy(self.all_sources)

    @property
    def withholds_ids(self) -> bool:
        """Whether the policy of the sources keeps row ids private."""
        return policy.withholds_ids(self.all_sources)

    @property
    def name(self) -> str:
        """The name of the repository, `<benchmark>-<source>`."""
        return f"{self.record['benchmark']}-{self.record['source']}"

    @property
    def described_record(self) -> Mapping[str, Any]:
        """The part of build.json that a card prints.

        A recipe has no small counts (`small_counts`). Files that the user named appear as a number only (`file_names`),
        or as `FILE` among the options.
        """
        described = {
            name: {**entry, "files": file_names.group_unknown(sources.source(name), entry["files"])}
            for name, entry in self.record["sources"].items()
        }
        arguments = hide_files(registry.BENCHMARKS[self.record["benchmark"]].options, self.record["arguments"])
        record = {**self.record, "sources": described, "arguments": arguments}
        if self.policy == policy.ROWS:
            return record
        hidden: dict[str, Any] = {
            "splits": {name: small_counts.hide_split_counts(split) for name, split in record["splits"].items()}
        }
        if "skipped" in record:
            hidden["skipped"] = small_counts.hide_small_counts(self.record["skipped"])
        return record | hidden

    @property
    def published_record(self) -> Mapping[str, Any]:
        """The published form of build.json: the part that a card prints and, in a recipe, the locked key of each split.

        The hash of the rows of a recipe's split is made with the key (`row_keys`).
        """
        record = self.described_record
        if self.policy == policy.ROWS:
            return record
        keys = {"/".join(name): key for name, key in self.split_keys.items()}
        splits = {
            name: split | {"sha256": row_keys.compute_hash(split["sha256"].encode(), keys[name].secret)}
            for name, split in record["splits"].items()
        }
        return {**record, "splits": splits, row_keys.LOCKS: {name: key.lock for name, key in keys.items()}}

    @cached_property
    def split_keys(self) -> Mapping[tuple[str, str], row_keys.SplitKey]:
        """The key of each (config, split); none if the rows are published."""
        if self.policy == policy.ROWS:
            return {}
        return {name: row_keys.make_key(hashed) for name, hashed in self.hash_splits().items()}

    def hash_splits(self) -> dict[tuple[str, str], row_keys.Hashed]:
        """Hash the rows of each split without their masks.

        Returns:
            The hashes by config and split.
        """
        return {
            (config, split): row_keys.hash_split(
                f"{config}/{split}", rows.drop_columns(list_mask_columns(self.built[config]))
            )
            for config, split, rows in self.tables()
        }

    @property
    def features(self) -> Mapping[str, datasets.Features]:
        """The features of the published configs."""
        return self.built if self.policy == policy.ROWS else {MANIFEST: self.manifest_features}

    @property
    def manifest_features(self) -> datasets.Features:
        """The features of a recipe's tables; with one more column if rows have masks."""
        more = {WITHOUT_MASKS: datasets.Value("string")} if any(map(list_mask_columns, self.built.values())) else {}
        return datasets.Features({**MANIFEST_FEATURES, **more})

    @property
    def splits(self) -> Mapping[tuple[str, str], int]:
        """The number of rows of each published (config, split)."""
        rows = {(config, split): n for (config, split), n in self._iterate_row_counts()}
        if self.policy == policy.ROWS:
            return rows
        return {
            (MANIFEST, config): sum(n for (row_config, _), n in rows.items() if row_config == config)
            for config, _ in rows
        }

    def _iterate_row_counts(self) -> Iterator[tuple[tuple[str, str], int]]:
        for key, split in self.record["splits"].items():
            config, _, name = key.partition("/")
            yield (config, name), split["rows"]

    def tables(self) -> Iterator[tuple[str, str, pa.Table]]:
        """Iterate over the rows of the build, one split at a time.

        Yields:
            Config, split and rows.
        """
        for key in self.record["splits"]:
            config, split = key.split("/")
            yield (
                config,
                split,
                pa.concat_tables([pq.ParquetFile(path).read() for path in self.list_parquet_files(config, split)]),
            )

    def list_parquet_files(self, config: str, split: str) -> list[Path]:
        """List the build's Parquet files of a split.

        Args:
            config: The config.
            split: The split.

        Returns:
            The paths in order.
        """
        return sorted((self.folder / config).glob(f"{split}-*-of-*.parquet"))


def list_mask_columns(features: datasets.Features) -> list[str]:
    """List the columns that hold masks.

    Args:
        features: The features of the rows.

    Returns:
        The names.
    """
    return [name for name, feature in features.items() if feature == MASK]


def read(folder: Path) -> Publication:
    """Read and verify a build: every row, count and hash must agree with its build.json.

    Args:
        folder: The folder of the build.

    Returns:
        The repository.

    Raises:
        InputError: The folder is not a build, or differs from its build.json.
    """
    problems = [
        f"{verdict.config}/{verdict.split}: {problem}"
        for verdict in registry.verify(folder)
        for problem in verdict.problems
    ]
    if problems:
        raise InputError(
            folder, f"is not what its {RECORD} says: {'; '.join(problems[:3])}", action="build it again: medfaith build"
        )
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    configs = dict.fromkeys(key.split("/")[0] for key in record["splits"])
    families = registry.BENCHMARKS[record["benchmark"]].family
    built = {config: families(config).features for config in configs}
    label_sources = tuple(sources.source(source_id) for source_id in record["sources"])
    labels = Publication(folder, record, label_sources, (), built)
    referenced = sorted({source_id for _, _, table in labels.tables() for source_id in _iterate_referenced(table)})
    return replace(labels, referenced=tuple(map(sources.source, referenced)))


def _iterate_referenced(rows: pa.Table) -> Iterator[str]:
    """Yield the sources of the images that rows reference."""
    for column in rows.columns:
        values = column.combine_chunks()
        kind = values.type
        if pa.types.is_list(kind):
            values, kind = values.flatten(), kind.value_type
        if pa.types.is_struct(kind) and {"source", "key"} <= {field.name for field in kind}:
            yield from values.field("source").drop_null().unique().to_pylist()
