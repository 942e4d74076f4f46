"""Proving a build: build.json is recomputed from the Parquet, and compared with a reference where there is one."""

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
from .checks import length_violations
from .label_keys import KEYS
from .row_digest import plain_lists
from .write import RECORD, Family, summarise

REBUILD = "build it again with medfaith build"
_KEY = re.compile("[0-9a-f]{64}")
_EXPORT = re.compile(r"([\w-]+/[\w-]+)\.jsonl")  # below the folder, whoever copies it


@dataclass(frozen=True, slots=True)
class Verdict:
    """One split, verified.

    problems: what is wrong with the rows themselves or differs from build.json; empty when the split is sound.
    summary: as `summarise` gives it; of a split whose columns are not the schema's only how many rows there are.
    reference: "equal", "differs", or "none" where no reference was built with the same arguments.
    same_labels: whether the reference was made from the very same label files, so that "differs" is a fault.
    """

    repository: str
    config: str
    split: str
    summary: Mapping[str, Any]
    problems: tuple[str, ...]
    reference: str
    same_labels: bool


def repositories(folder: Path) -> list[Path]:
    """The repositories that `folder` is or holds. Raises InputError when there is none."""
    if not folder.is_dir():
        raise InputError(folder, "is not a folder", expected="what medfaith build wrote", action="check the path")
    inside = (path.parent for path in folder.glob(f"*/{RECORD}"))
    found = [folder] if (folder / RECORD).is_file() else sorted(p for p in inside if not is_partial(Path(p.name)))
    if not found:
        raise InputError(folder, f"holds no build ({RECORD} is missing)", action=REBUILD)
    return found


def verify_repository(
    folder: Path, families: Callable[[str], Family], references: Sequence[Mapping[str, Any]]
) -> list[Verdict]:
    """Verifies every split of one repository. Raises InputError for a build.json or Parquet that cannot be read.

    Args:
        families: config -> its schema and checks.
        references: records in the form of build.json; the one of the same benchmark, source, seed and arguments counts.
    """
    record = _read_record(folder)
    reference = next((r for r in references if _comparable(r, record)), None)
    verdicts = []
    for key, recorded in _shown(folder, record["splits"]):
        config, split = key.split("/")
        family = families(config)
        table, problems = _read_split(folder, config, split, family)
        summary = {"rows": table.num_rows} if problems else summarise(table, family.counted)
        problems += [
            f"{k}: {recorded.get(k)} recorded, {summary[k]} found" for k in summary if summary[k] != recorded.get(k)
        ]
        problems = problems or length_violations(table) or family.violations(table)
        expected = reference["splits"].get(key) if reference else None
        verdicts.append(
            Verdict(
                folder.name,
                config,
                split,
                summary,
                tuple(problems),
                "none" if expected is None else "equal" if expected["sha256"] == summary.get("sha256") else "differs",
                reference is not None and _label_hashes(reference) <= _label_hashes(record),
            )
        )
    listed = {f"{s.config}/{s.split}" for s in verdicts}
    extra = {f"{p.parent.name}/{p.name.split('-')[0]}" for p in folder.glob("*/*.parquet")} - listed
    if extra:
        raise InputError(folder, f"holds {', '.join(sorted(extra))}, which {RECORD} does not list", action=REBUILD)
    return verdicts


def _shown(folder: Path, splits: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The splits, with their progress by the size of their files."""
    sizes = {path: path.stat().st_size for path in folder.glob("*/*.parquet") if path.is_file()}
    with Progress(title=f"verifying {folder.name}", total=sum(sizes.values()), unit="B") as bar:
        for key, recorded in splits.items():
            yield key, recorded
            bar.update(sum(n for path, n in sizes.items() if str(path).startswith(f"{folder / key}-")))


def read_split(folder: Path, config: str, split: str, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a split that has been verified, or some of their columns."""
    parts = sorted((folder / config).glob(f"{split}-*-of-*.parquet"))
    return pa.concat_tables([pq.ParquetFile(part).read(columns) for part in parts])


def benchmark_of(folder: Path) -> str:
    """The benchmark that a repository was built for. Raises InputError for a build.json that cannot be read."""
    return _read_record(folder)["benchmark"]


def skipped(folder: Path) -> Mapping[str, int]:
    """What a build left out, by reason, where its benchmark counts that."""
    return _read_record(folder).get("skipped", {})


def arguments(folder: Path) -> Mapping[str, Any]:
    """The options that a repository was built with."""
    return _read_record(folder)["arguments"]


def faults_of_record(record: Any) -> list[str]:
    """What of a build.json is missing or not as medfaith build writes it: the names of its entries; none if all is.

    >>> about = {"benchmark": "b", "source": "s", "seed": 0, "arguments": {}}
    >>> faults_of_record(about | {"sources": {"s": {"version": "1", "files": {}}}})
    ['splits']
    """
    shape = {"benchmark": str, "source": str, "seed": int, "arguments": dict, "sources": dict, "splits": dict}
    wrong = [k for k, kind in shape.items() if not isinstance(record, dict) or not isinstance(record.get(k), kind)]
    if not wrong:
        wrong += [k for k in ("skipped", "exports") if not isinstance(record.get(k, {}), dict)]
        exports = {} if wrong else record.get("exports", {})
        wrong += [f"exports/{k}" for k in exports if not (of := _EXPORT.fullmatch(k)) or of[1] not in record["splits"]]
        wrong += ["arguments/motion"] if not isinstance(record["arguments"].get("motion") or {}, dict) else []
        described = {record["source"]: None} | record["sources"]
        wrong += [f"sources/{k}" for k, v in described.items() if not _has(v, "files", dict)]
        wrong += [f"sources/{k}/version" for k, v in record["sources"].items() if not _has(v, "version", str)]
        listed = {k: v["files"] for k, v in described.items() if _has(v, "files", dict)}
        wrong += [
            f"sources/{k}/files" for k, v in listed.items() if not all(isinstance(one, str) for one in v.values())
        ]
        wrong += [] if _are_keys(record.get(KEYS, {})) else [KEYS]
        wrong += [
            f"splits/{k}" for k, v in record["splits"].items() if k.count("/") != 1 or not _has(v, "counts", dict)
        ]
    return wrong


def _read_record(folder: Path) -> dict[str, Any]:
    path = folder / RECORD
    try:
        record = json_text.parse(limits.read_bytes(path, limits.JSON_BYTES).decode())
    except (OSError, ValueError) as error:
        raise InputError(path, f"cannot be read ({error})", action=REBUILD) from None
    wrong = faults_of_record(record)  # a published one may have signs in place of counts
    if wrong := wrong or [f"skipped/{k}" for k, n in record.get("skipped", {}).items() if not isinstance(n, int)]:
        raise InputError(path, f"{', '.join(wrong)} is missing or not what medfaith build writes", action=REBUILD)
    return record


def _are_keys(keys: Any) -> bool:
    """Whether the keys that a build has, and what is published has not, are hexadecimal digits."""
    return isinstance(keys, dict) and all(isinstance(key, str) and _KEY.fullmatch(key) for key in keys.values())


def _has(value: Any, key: str, kind: type) -> bool:
    return isinstance(value, dict) and isinstance(value.get(key), kind)


def _comparable(reference: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    return all(reference[k] == record[k] for k in ("benchmark", "source", "seed", "arguments"))


def _label_hashes(record: Mapping[str, Any]) -> set[str]:
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
        table.validate(full=True)  # a text may be no UTF-8
        table = plain_lists(table)  # the schema of earlier builds had lists of a fixed length
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(files[0], f"is no readable Parquet ({str(error).splitlines()[0]})", action=REBUILD) from None
    if not table.schema.equals(schema, check_metadata=False):
        return table, [f"columns: {table.schema.names} with other types or names than the schema's {schema.names}"]
    return table, []
