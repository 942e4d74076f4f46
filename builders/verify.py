"""Verification of a build: recompute build.json from the Parquet files and compare it with a reference, if any."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..loaders import json_text, limits
from ..loaders.atomic import is_partial
from ..loaders.errors import InputError
from ..loaders.progress import Progress
from .checks import find_length_violations
from .row_digest import convert_fixed_lists
from .write import RECORD, Family, summarise

REBUILD = "build it again with medfaith build"
_EXPORT = re.compile(r"([\w-]+/[\w-]+)\.jsonl")  # path below the repository's folder


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of verifying one split.

    Attributes:
        repository: The name of the repository.
        config: The name of the config.
        split: The name of the split.
        summary: The result of `summarise`. If the columns differ from the schema, only the number of rows.
        problems: Faults of the rows and differences from build.json; empty if the split is sound.
        reference: "equal" or "differs"; "none" if no reference has the same build arguments.
        same_labels: Whether the reference was built from the same label files, so that "differs" is an error.
    """

    repository: str
    config: str
    split: str
    summary: Mapping[str, Any]
    problems: tuple[str, ...]
    reference: str
    same_labels: bool


def repositories(folder: Path) -> list[Path]:
    """Find the repositories at or below a folder.

    Args:
        folder: A repository, or a folder of repositories.

    Returns:
        The folders of the repositories.

    Raises:
        InputError: There is no repository.
    """
    if not folder.is_dir():
        raise InputError(folder, "is not a folder", expected="what medfaith build wrote", action="check the path")
    candidates = (path.parent for path in folder.glob(f"*/{RECORD}"))
    folders = [folder] if (folder / RECORD).is_file() else sorted(p for p in candidates if not is_partial(Path(p.name)))
    if not folders:
        raise InputError(folder, f"holds no build ({RECORD} is missing)", action=REBUILD)
    return folders


def verify_repository(
    folder: Path, families: Callable[[str], Family], references: Sequence[Mapping[str, Any]]
) -> list[Verdict]:
    """Verify every split of one repository.

    Args:
        folder: The folder of the repository.
        families: Returns the schema and checks of a config.
        references: Records in the form of build.json. The first one with the same benchmark, source, seed and arguments
            is compared.

    Returns:
        One verdict per split.

    Raises:
        InputError: A build.json or Parquet file cannot be read.
    """
    record = _read_record(folder)
    reference = next((r for r in references if _is_comparable(r, record)), None)
    verdicts = []
    for key, recorded in _iterate_splits(folder, record["splits"]):
        config, split = key.split("/")
        family = families(config)
        table, problems = _read_split(folder, config, split, family)
        summary = {"rows": table.num_rows} if problems else summarise(table, family.counted)
        problems += [
            f"{k}: {recorded.get(k)} recorded, {summary[k]} found" for k in summary if summary[k] != recorded.get(k)
        ]
        problems = problems or find_length_violations(table) or family.find_violations(table)
        expected = reference["splits"].get(key) if reference else None
        verdicts.append(
            Verdict(
                folder.name,
                config,
                split,
                summary,
                tuple(problems),
                "none" if expected is None else "equal" if expected["sha256"] == summary.get("sha256") else "differs",
                reference is not None and _collect_label_hashes(reference) <= _collect_label_hashes(record),
            )
        )
    listed = {f"{s.config}/{s.split}" for s in verdicts}
    extra = {f"{p.parent.name}/{p.name.split('-')[0]}" for p in folder.glob("*/*.parquet")} - listed
    if extra:
        raise InputError(folder, f"holds {', '.join(sorted(extra))}, which {RECORD} does not list", action=REBUILD)
    return verdicts


def _iterate_splits(folder: Path, splits: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the splits and show progress by the size of their files."""
    sizes = {path: path.stat().st_size for path in folder.glob("*/*.parquet") if path.is_file()}
    with Progress(title=f"verifying {folder.name}", total=sum(sizes.values()), unit="B") as bar:
        for key, recorded in splits.items():
            yield key, recorded
            bar.update(sum(n for path, n in sizes.items() if str(path).startswith(f"{folder / key}-")))


def read_split(folder: Path, config: str, split: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Read the rows of a verified split.

    Args:
        folder: The folder of the repository.
        config: The name of the config.
        split: The name of the split.
        columns: The columns to read; None reads all.

    Returns:
        The rows.
    """
    paths = sorted((folder / config).glob(f"{split}-*-of-*.parquet"))
    return pa.concat_tables([pq.ParquetFile(path).read(columns) for path in paths])


def read_benchmark_name(folder: Path) -> str:
    """Read the name of the benchmark that a repository was built for.

    Args:
        folder: The folder of the repository.

    Returns:
        The name.

    Raises:
        InputError: build.json cannot be read.
    """
    return _read_record(folder)["benchmark"]


def skipped(folder: Path) -> Mapping[str, int]:
    """Read how many items a build skipped.

    Args:
        folder: The folder of the repository.

    Returns:
        The counts by reason; empty if the benchmark does not count.
    """
    return _read_record(folder).get("skipped", {})


def read_absent(folder: Path) -> Mapping[str, str]:
    """Read the splits that a build lacks.

    Args:
        folder: The folder of the repository.

    Returns:
        The reason for each `split` or `config/split`; empty for a complete build.
    """
    return _read_record(folder).get("absent", {})


def read_arguments(folder: Path) -> Mapping[str, Any]:
    """Read the options that a repository was built with.

    Args:
        folder: The folder of the repository.

    Returns:
        The values by option.
    """
    return _read_record(folder)["arguments"]


def find_record_faults(record: Any) -> list[str]:
    """Find entries of a build.json that are missing or differ from the form that medfaith build writes.

    Args:
        record: The parsed content of build.json.

    Returns:
        The names of the entries; empty if the record is sound.

    >>> about = {"benchmark": "b", "source": "s", "seed": 0, "arguments": {}}
    >>> find_record_faults(about | {"sources": {"s": {"version": "1", "files": {}}}})
    ['splits']
    """
    shape = {"benchmark": str, "source": str, "seed": int, "arguments": dict, "sources": dict, "splits": dict}
    faults = [k for k, kind in shape.items() if not isinstance(record, dict) or not isinstance(record.get(k), kind)]
    if not faults:
        faults += [k for k in ("skipped", "exports", "absent") if not isinstance(record.get(k, {}), dict)]
        exports = {} if faults else record.get("exports", {})
        faults += [
            f"exports/{k}" for k in exports if not (match := _EXPORT.fullmatch(k)) or match[1] not in record["splits"]
        ]
        faults += ["arguments/motion"] if not isinstance(record["arguments"].get("motion") or {}, dict) else []
        source_entries = {record["source"]: None} | record["sources"]
        faults += [f"sources/{k}" for k, v in source_entries.items() if not _has_entry(v, "files", dict)]
        faults += [f"sources/{k}/version" for k, v in record["sources"].items() if not _has_entry(v, "version", str)]
        file_lists = {k: v["files"] for k, v in source_entries.items() if _has_entry(v, "files", dict)}
        faults += [
            f"sources/{k}/files"
            for k, v in file_lists.items()
            if not all(isinstance(digest, str) for digest in v.values())
        ]
        faults += [
            f"splits/{k}" for k, v in record["splits"].items() if k.count("/") != 1 or not _has_entry(v, "counts", dict)
        ]
    return faults


def _read_record(folder: Path) -> dict[str, Any]:
    path = folder / RECORD
    try:
        record = json_text.parse(limits.read_bytes(path, limits.JSON_BYTES).decode())
    except (OSError, ValueError) as error:
        raise InputError(path, f"cannot be read ({error})", action=REBUILD) from None
    faults = find_record_faults(record)  # a published build.json may have signs in place of counts
    if faults := faults or [f"skipped/{k}" for k, n in record.get("skipped", {}).items() if not isinstance(n, int)]:
        raise InputError(path, f"{', '.join(faults)} is missing or not what medfaith build writes", action=REBUILD)
    return record


def _has_entry(value: Any, key: str, kind: type) -> bool:
    return isinstance(value, dict) and isinstance(value.get(key), kind)


def _is_comparable(reference: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    return all(reference[k] == record[k] for k in ("benchmark", "source", "seed", "arguments"))


def _collect_label_hashes(record: Mapping[str, Any]) -> set[str]:
    return {digest for entry in record["sources"].values() for digest in entry["files"].values()}


def _read_split(folder: Path, config: str, split: str, family: Family) -> tuple[pa.Table, list[str]]:
    files = sorted((folder / config).glob(f"{split}-*-of-*.parquet"))
    if not files:
        raise InputError(folder / config, f"no Parquet file of split {split!r}", action=REBUILD)
    expected = int(total) if (total := files[0].stem.rsplit("-", 1)[1]).isdecimal() else 0
    if len(files) != expected:
        raise InputError(
            folder / config, f"{len(files)} of {expected} Parquet files of split {split!r}", action=REBUILD
        )
    schema = family.features.arrow_schema
    try:
        for path in files:
            limits.require_file(path)
        table = pa.concat_tables([pq.ParquetFile(path).read() for path in files])
        table.validate(full=True)  # finds text that is not UTF-8
        table = convert_fixed_lists(table)  # the schema of earlier builds had lists of a fixed length
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(files[0], f"is no readable Parquet ({str(error).splitlines()[0]})", action=REBUILD) from None
    if not table.schema.equals(schema, check_metadata=False):
        return table, [f"columns: {table.schema.names} with other types or names than the schema's {schema.names}"]
    return table, []
