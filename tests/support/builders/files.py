"""Helpers that read the files of a build and forge their rows."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from medfaith.builders.registry import BENCHMARKS
from medfaith.builders.write import summarise


def digests(folder: Path) -> dict[str, str]:
    """Compute the sha256 of each file by its path relative to the folder; lock files are skipped."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".lock"]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def rows_of(repository: Path, config: str, split: str = "test") -> list[dict[str, Any]]:
    return pq.read_table(next((repository / config).glob(f"{split}-*.parquet"))).to_pylist()


def record_of(repository: Path) -> dict[str, Any]:
    return json.loads((repository / "build.json").read_text(encoding="utf-8"))


def skipped(repository: Path) -> dict[str, int]:
    return record_of(repository)["skipped"]


def problems(repository: Path) -> dict[tuple[str, str], tuple[str, ...]]:
    """Run `verify` and return its problems by config and split."""
    benchmark = BENCHMARKS[record_of(repository)["benchmark"]]
    return {(v.config, v.split): v.problems for v in benchmark.verify(repository)}


def keep_configs(repository: Path, configs: Collection[str]) -> None:
    """Remove the other configs from a repository and from its build.json."""
    record = record_of(repository)
    for name in [name for name in record["splits"] if name.split("/")[0] not in configs]:
        del record["splits"][name]
        shutil.rmtree(repository / name.split("/")[0], ignore_errors=True)  # another split may have removed it
    (repository / "build.json").write_text(json.dumps(record))


def forge(repository: Path, config: str, change: Callable[[list[dict]], Any], split: str = "test") -> None:
    """Change the rows of a split in place, or replace them by the result of `change`, and update build.json."""
    rows, record = rows_of(repository, config, split), record_of(repository)
    family = BENCHMARKS[record["benchmark"]].family(config)
    table = pa.Table.from_pylist(change(rows) or rows, schema=family.features.arrow_schema)
    pq.write_table(table, next((repository / config).glob(f"{split}-*.parquet")))
    record["splits"][f"{config}/{split}"] = summarise(table, family.counted)
    (repository / "build.json").write_text(json.dumps(record))


def edited(
    repository: Path, folder: Path, config: str, change: Callable[[pa.Table], pa.Table], split: str = "test"
) -> Path:
    """Copy a repository and change the table of one split; the README header changes, too (datasets caches by it)."""
    copy = Path(shutil.copytree(repository, folder / repository.name))
    (path,) = copy.glob(f"{config}/{split}-*.parquet")
    pq.write_table(change(pq.read_table(path)), path)
    card = copy / "README.md"
    card.write_text(card.read_text("utf-8").replace("description: rows", f"description: of {folder}, rows"), "utf-8")
    return copy


def copied(roots: Mapping[str, Path], source: str, folder: Path) -> dict[str, Path]:
    """Copy one source below `folder` for a test to change; return the roots with the copy."""
    return {**roots, source: Path(shutil.copytree(roots[source], folder / source))}


def root_words(roots: Mapping[str, Path]) -> list[str]:
    """Format roots as --root arguments of the command line."""
    return [word for name, root in roots.items() for word in ("--root", f"{name}={root}")]
