"""Atomic writing of a build in the form of a Hub data-set repository: Parquet files, README.md and build.json.

The files are `DIR/<benchmark>-<source>/<config>/<split>-00000-of-0000N.parquet`, so that
`load_dataset("DIR/<benchmark>-<source>", "<config>")` works before anything is published.
"""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from pathlib import Path, PurePosixPath
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from ..loaders import sources, unpacking
from ..loaders.atomic import atomic_folder, is_partial
from ..loaders.errors import NO_SPACE, STILL_THERE, InputError, MedfaithError
from .parallel import HERE, Workers, pieces
from .row_digest import Rows, StoredRows, compute_rowset_sha256, iterate_chunks, value_counts

Words = frozenset[str] | re.Pattern[str]  # all allowed texts, or a pattern that they match

MAX_LISTED_FILES = 20  # most label files that build.json lists one by one
FILES_A_TASK = 20
ROWS_PER_FILE = 500_000
ROWS_PER_GROUP = 10_000  # a few megabytes, which a streaming reader fetches at once
RECORD = "build.json"


@dataclass(frozen=True, slots=True)
class Family:
    """The family of a config's rows.

    Attributes:
        features: The schema.
        counted: The columns whose values build.json counts, each with all texts that its values may have.
        find_violations: Returns the problems of rows.
    """

    features: datasets.Features
    counted: Mapping[str, Words]
    find_violations: Callable[[pa.Table], list[str]]


@dataclass(frozen=True, slots=True)
class Split:
    """One split of one config. Its rows are made when it is written, so that only these are in memory.

    Attributes:
        config: The name of the config.
        name: The name of the split.
        make: Returns all rows, or, if they need too much memory, an iterator over tables of some of them.
    """

    config: str
    name: str
    make: Callable[[], pa.Table | Iterator[pa.Table]]


def write_repository(  # noqa: PLR0913 (one for each part of a repository)
    out: Path,
    name: str,
    splits: Sequence[Split],
    *,
    families: Callable[[str], Family],
    record: Callable[[Sequence[Split]], dict[str, Any]],
    card: str,
    exports: Mapping[str, bytes] | None = None,
    workers: Workers = HERE,
) -> Path:
    """Write one repository below `out`. If the write fails or is killed, the old repository stays unchanged.

    A split without rows gets no file: `load_dataset` cannot read it, and fails for the other splits of its config, too.

    Args:
        out: The folder for repositories.
        name: Name of folder and repository, `<benchmark>-<source>`.
        splits: The splits.
        families: Returns the row family of a config.
        record: Takes the splits without rows, and returns the provenance for build.json (version, seed, arguments,
            sources). It is called after the rows are written.
        card: Body of README.md below the YAML header.
        exports: Files next to the Parquet files of a split, by path in the repository, `<config>/<split>.<suffix>`.
            build.json lists their hashes.
        workers: They make and write several splits at a time. The bytes do not depend on their number.

    Returns:
        The folder of the repository.

    Raises:
        InputError: The folder exists and has no build, it cannot be written, or no split has a row.
    """
    target = (out / name).resolve()  # keeps a link to a folder on another disk
    is_foreign = target.exists() and not (target.is_dir() and not any(target.iterdir()))
    if is_foreign and not (target / RECORD).is_file():
        raise InputError(
            target, "is there and was not written by medfaith build", action="move it away, or use another --out"
        )
    try:
        with atomic_folder(target) as folder:
            work, title = partial(_write_split, folder, families), f"writing {name}"
            with workers.map(
                work, pieces(splits, 1), title=title, unit="splits", total=len(splits), small=True
            ) as results:
                summaries = dict(zip(splits, results, strict=True))
            filled = {split: summary for split, summary in summaries.items() if summary["rows"]}
            if not filled:
                action = "check that the labels of its source are complete"
                raise InputError(target, "was not written, because no row could be made", action=action)
            keys = [f"{split.config}/{split.name}" for split in filled]
            full_record = record([split for split in splits if split not in filled])
            full_record["splits"] = dict(zip(keys, filled.values(), strict=True))
            filled_exports = {
                path: data for path, data in sorted((exports or {}).items()) if path.rpartition(".")[0] in keys
            }
            for path, data in filled_exports.items():
                (folder / path).write_bytes(data)
            if filled_exports:
                full_record["exports"] = {
                    path: hashlib.sha256(data).hexdigest() for path, data in filled_exports.items()
                }
            (folder / RECORD).write_text(json.dumps(full_record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            (folder / "README.md").write_text(
                _format_readme(name, list(filled), families, full_record, card), encoding="utf-8"
            )
    except OSError as error:
        raise _make_write_error(error, out) from error
    return out / name


def _write_split(folder: Path, families: Callable[[str], Family], task: Sequence[Split]) -> dict[str, Any]:
    (split,) = task
    family = families(split.config)
    schema, rows = family.features.arrow_schema, split.make()
    write_tables = partial(write_split, folder, split.config, split.name)
    if isinstance(rows, Iterator):
        paths = write_tables(part.cast(schema) for part in rows)
        return summarise(StoredRows(paths), family.counted) if paths else {"rows": 0}
    table = rows.cast(schema)
    if not table.num_rows:
        return {"rows": 0}
    with ThreadPoolExecutor(1) as executor:  # compressing and hashing both release the GIL
        summary = executor.submit(summarise, table, family.counted)
        write_tables([table])
        return summary.result()


def write_split(folder: Path, config: str, split: str, tables: Iterable[pa.Table]) -> list[Path]:
    """Write the Parquet files of one split: `<config>/<split>-00000-of-0000N.parquet`.

    The bytes depend on the rows and the version of pyarrow, not on the division into tables.

    Args:
        folder: The folder of the repository.
        config: The name of the config.
        split: The name of the split.
        tables: The rows in one or more tables.

    Returns:
        The paths of the files; none without rows.
    """
    paths = []
    groups = enumerate(_iterate_row_groups(tables))
    for file_number, numbered_groups in groupby(groups, lambda pair: pair[0] * ROWS_PER_GROUP // ROWS_PER_FILE):
        paths.append(folder / config / f"{split}-{file_number:05d}")
        file_groups = (group for _, group in numbered_groups)
        first_group = next(file_groups)
        paths[-1].parent.mkdir(exist_ok=True)
        with pq.ParquetWriter(paths[-1], first_group.schema, write_page_index=True) as file:
            for group in chain([first_group], file_groups):
                file.write_table(group)
    return [path.rename(f"{path}-of-{len(paths):05d}.parquet") for path in paths]


def _iterate_row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Regroup the rows, ROWS_PER_GROUP at a time.

    Parquet pages end where Arrow's chunks end. The chunks depend on how the rows were assembled, so each column of a
    group becomes one chunk.
    """
    pending = None
    for table in tables:
        pending = table if pending is None else pa.concat_tables([pending, table])
        while pending.num_rows > ROWS_PER_GROUP:
            yield pending.slice(0, ROWS_PER_GROUP).combine_chunks()
            pending = pending.slice(ROWS_PER_GROUP)
    if pending is not None and pending.num_rows:
        yield pending.combine_chunks()


def summarise(rows: Rows, counted: Iterable[str]) -> dict[str, Any]:
    """Summarise the rows of a split for build.json.

    Args:
        rows: The rows.
        counted: The columns whose values are counted.

    Returns:
        The number of rows, of studies and of images (if the rows have these columns), the value counts and a hash.
    """
    summary: dict[str, Any] = {"rows": rows.num_rows}
    names = rows.schema.names
    if "study_id" in names:
        summary["studies"] = _count_distinct(iterate_chunks(rows, "study_id"))
    if "images" in names:
        lengths = map(pc.list_value_length, iterate_chunks(rows, "images"))
        summary["multi_image"] = sum(pc.sum(pc.greater(chunk_lengths, 1)).as_py() or 0 for chunk_lengths in lengths)
    if "image" in names:
        summary["images"] = _count_distinct(pc.struct_field(chunk, "key") for chunk in iterate_chunks(rows, "image"))
    summary["counts"] = {column: value_counts(iterate_chunks(rows, column)) for column in counted}
    summary["sha256"] = compute_rowset_sha256(rows)
    return summary


def _count_distinct(chunks: Iterable[pa.Array]) -> int:
    """Count the distinct values."""
    return len(pa.chunked_array([chunk.unique() for chunk in chunks], pa.string()).unique())


def describe_source(source_id: str, files: Sequence[Path], workers: Workers = HERE) -> dict[str, Any]:
    """Describe a source for build.json.

    Args:
        source_id: The id of the source.
        files: The label files that were read.
        workers: The workers that hash the files.

    Returns:
        The version of the source and the hashes of the files.
    """
    version = sources.source(source_id).version
    return {"version": version, "files": hash_files(files, workers)}


def hash_files(files: Sequence[Path], workers: Workers = HERE) -> dict[str, str]:
    """Hash the content of label files.

    The hash of a file that gzip packed is the hash of the file inside; each file inside a .tgz has its own hash. If two
    files have the same name, the name of their folder comes first.

    Args:
        files: The label files.
        workers: The workers that hash the files.

    Returns:
        The hash of each file by its name; for more than 20 files, one hash over all names and hashes.
    """
    shared_names = {name for name, n_files in Counter(path.name for path in files).items() if n_files > 1}
    names = (f"{path.parent.name}/{path.name}" if path.name in shared_names else path.name for path in sorted(files))
    tasks = pieces(list(zip(sorted(files), names, strict=True)), FILES_A_TASK)
    with workers.map(_hash_task, tasks, title="hashing files", unit="files", total=len(files), small=True) as results:
        hashes = {name: digest for task_hashes in results for name, digest in task_hashes}
    if len(hashes) <= MAX_LISTED_FILES:
        return dict(sorted(hashes.items()))
    listing = "".join(f"{digest}  {name}\n" for name, digest in sorted(hashes.items()))
    return {f"{len(hashes)} files": hashlib.sha256(listing.encode()).hexdigest()}


def _hash_task(files: Sequence[tuple[Path, str]]) -> list[tuple[str, str]]:
    return [(name, hashlib.file_digest(file, "sha256").hexdigest()) for name, file in _iterate_unpacked(files)]


def _iterate_unpacked(files: Sequence[tuple[Path, str]]) -> Iterator[tuple[str, Any]]:
    """Yield the name and content of each file, unpacked and open for reading."""
    for path, name in files:
        if path.name.endswith((".tgz", ".tar.gz")):
            with tarfile.open(path) as archive:
                for member in archive:
                    if member.isfile() and (content := archive.extractfile(member)) is not None:
                        yield PurePosixPath(member.name).name, content
        else:
            with unpacking.open_unpacked(path) as file:
                yield name.removesuffix(".gz"), file


def build_configs_header(
    features: Mapping[str, datasets.Features], splits: Mapping[tuple[str, str], str]
) -> dict[str, list[dict[str, Any]]]:
    """Build the part of a README.md header that the Hub and `load_dataset` read: configs with their files and features.

    Args:
        features: The schema of each config.
        splits: The hash of the rows, by config and split.

    Returns:
        The entries `configs` and `dataset_info`.
    """
    configs: dict[str, dict[str, str]] = {}
    for (config, split), digest in splits.items():
        configs.setdefault(config, {})[split] = digest
    return {
        "configs": [
            {
                "config_name": config,
                # load_dataset caches a folder by this header, not by its files. Without the hashes it would return the
                # rows of an older build.
                "description": "rows " + " ".join(digests.values()),
                "data_files": [{"split": split, "path": f"{config}/{split}-*.parquet"} for split in digests],
            }
            for config, digests in configs.items()
        ],
        "dataset_info": [
            {
                "config_name": config,
                "features": datasets.DatasetInfo(features=features[config])._to_yaml_dict()["features"],
            }
            for config in configs
        ],
    }


def front_matter(header: Mapping[str, Any]) -> str:
    """Format the YAML header of a README.md.

    Args:
        header: The entries of the header.

    Returns:
        The text, with its delimiters.
    """
    text = yaml.dump(dict(header), Dumper=_PlainDumper, sort_keys=False, allow_unicode=True)
    return f"---\n{text}---\n\n"


def _format_readme(
    name: str, splits: Sequence[Split], families: Callable[[str], Family], record: Mapping[str, Any], card: str
) -> str:
    """Format the README.md of a build: header, card and how to load the rows."""
    features = {split.config: families(split.config).features for split in splits}
    hashes = {(s.config, s.name): record["splits"][f"{s.config}/{s.name}"]["sha256"] for s in splits}
    header = {"pretty_name": record["benchmark"], "language": ["en"], **build_configs_header(features, hashes)}
    first_split = splits[0]
    return f"""{front_matter(header)}{card}
## Load it

```python
from datasets import load_dataset

rows = load_dataset("DIR/{name}", "{first_split.config}", split="{first_split.name}")
```

`DIR` is the folder that `medfaith build --out DIR` wrote to.
"""


class _PlainDumper(yaml.SafeDumper):
    """YAML dumper that writes a list shared between configs in full, because the Hub does not need anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _make_write_error(error: OSError, out: Path) -> MedfaithError:
    """Make the error for an OSError during a build: most often `out` is the cause, otherwise a source."""
    failed_path = Path(error.filename) if isinstance(error.filename, str) else None
    # `out` may contain links to other disks. Files that are written there are recognised by their name.
    if (
        failed_path is not None
        and not is_partial(failed_path)
        and not any(map(failed_path.is_relative_to, (out, out.resolve())))
    ):
        return InputError(failed_path, f"cannot be read ({error.strerror}); nothing was changed", action=STILL_THERE)
    action = "free some space or choose another --out" if error.errno in NO_SPACE else "choose another --out"
    return InputError(out, f"cannot be written ({error.strerror or error}); nothing was changed", action=action)
