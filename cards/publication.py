"""What one repository on the Hub is made of: a build that was proved sound, and what its licences let out of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq

from ..builders import registry
from ..builders.write import RECORD
from ..loaders import sources
from ..loaders.errors import InputError
from ..loaders.sources import Source
from . import policy

MANIFEST = "manifest"  # config and split of a recipe's one table
MANIFEST_FEATURES = datasets.Features(dict.fromkeys(("config", "split", "id", "sha256"), datasets.Value("string")))


@dataclass(frozen=True)
class Publication:
    """One repository of `medfaith build`.

    record: its build.json. sources: whose labels were read. referenced: whose images rows reference. built: config ->
    features.
    """

    folder: Path
    record: Mapping[str, Any]
    sources: tuple[Source, ...]
    referenced: tuple[Source, ...]
    built: Mapping[str, datasets.Features]

    @property
    def all_sources(self) -> tuple[Source, ...]:
        """Whose licences hold: of labels, then of images alone."""
        return tuple(dict.fromkeys((*self.sources, *self.referenced)))

    @property
    def policy(self) -> str:
        """ "rows" or "recipe"."""
        return policy.policy_of(self.all_sources)

    @property
    def withholds_ids(self) -> bool:
        return policy.withholds_ids(self.all_sources)

    @property
    def name(self) -> str:
        """`<benchmark>-<source>`, which the repository on the Hub is called, too."""
        return f"{self.record['benchmark']}-{self.record['source']}"

    @property
    def published_record(self) -> Mapping[str, Any]:
        """build.json as it is published: without the keys, which stay with those who hold the sources.

        A recipe has the fingerprints of those that its hashes were made with: whose fingerprints are others has keys of
        other label files, and hashes that cannot be compared.
        """
        described: dict[str, dict[str, Any]] = {
            source_id: {name: value for name, value in of_source.items() if name != "keys"}
            for source_id, of_source in self.record["sources"].items()
        }
        if self.policy == policy.RECIPE:
            for key in self.record["splits"]:
                source_id, name = registry.key_file(self.record, key.split("/")[1])
                fingerprint = _fingerprint(self.record["sources"][source_id]["keys"][name])
                described[source_id].setdefault("key_fingerprints", {})[name] = fingerprint
        return {**self.record, "sources": described}

    @property
    def features(self) -> Mapping[str, datasets.Features]:
        """Config -> features of what is published."""
        return self.built if self.policy == policy.ROWS else {MANIFEST: MANIFEST_FEATURES}

    @property
    def splits(self) -> Mapping[tuple[str, str], int]:
        """(config, split) -> rows, of what is published."""
        rows = {tuple(key.split("/")): split["rows"] for key, split in self.record["splits"].items()}
        return rows if self.policy == policy.ROWS else {(MANIFEST, MANIFEST): sum(rows.values())}

    def tables(self) -> Iterator[tuple[str, str, pa.Table]]:
        """Config, split and rows of the build, one split at a time."""
        for key in self.record["splits"]:
            config, split = key.split("/")
            yield config, split, pa.concat_tables([pq.ParquetFile(part).read() for part in self.parts(config, split)])

    def parts(self, config: str, split: str) -> list[Path]:
        """The build's Parquet files of a split, in order."""
        return sorted((self.folder / config).glob(f"{split}-*-of-*.parquet"))


def _fingerprint(key: str) -> str:
    return hashlib.sha256(b"medfaith fingerprint\0" + bytes.fromhex(key)).hexdigest()


def read(folder: Path) -> Publication:
    """The repository below `folder`, proved: every row, count and hash is what its build.json says.

    Raises InputError where it is not, or is no build.
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
    named = tuple(sources.source(source_id) for source_id in record["sources"])
    labels = Publication(folder, record, named, (), built)
    referenced = sorted({source_id for _, _, table in labels.tables() for source_id in _referenced(table)})
    return replace(labels, referenced=tuple(map(sources.source, referenced)))


def _referenced(rows: pa.Table) -> Iterator[str]:
    """Sources whose images rows reference."""
    for column in rows.columns:
        values = column.combine_chunks()
        kind = values.type
        if pa.types.is_list(kind):
            values, kind = values.flatten(), kind.value_type
        if pa.types.is_struct(kind) and {"source", "key"} <= {field.name for field in kind}:
            yield from values.field("source").drop_null().unique().to_pylist()
