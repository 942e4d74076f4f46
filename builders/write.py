"""Writing a build to disk in the shape of a Hub data-set repository: Parquet, README.md and build.json, atomically.

`DIR/<benchmark>-<source>/<config>/<split>-00000-of-0000N.parquet`, so that
`load_dataset("DIR/<benchmark>-<source>", "<config>")` works before anything is published.
"""

from __future__ import annotations

import gzip
import hashlib
import json
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

from ..loaders import sources
from ..loaders.atomic import atomic_folder, is_partial
from ..loaders.errors import NO_SPACE, STILL_THERE, InputError, MedfaithError
from .parallel import HERE, Workers, pieces
from .row_digest import Rows, Stored, parts_of, rowset_sha256, value_counts

FEW = 20  # label files that build.json lists one by one
FILES_A_TASK = 20
ROWS_PER_FILE = 500_000
ROWS_PER_GROUP = 10_000  # a few megabytes: what a reader that streams fetches at a time
RECORD = "build.json"


@dataclass(frozen=True, slots=True)
class Family:
    """Rows of one kind: their schema, the columns whose values build.json counts, and what they must satisfy."""

    features: datasets.Features
    counted: Sequence[str]
    violations: Callable[[pa.Table], list[str]]


@dataclass(frozen=True, slots=True)
class Split:
    """One split of one config, made when it is called, so that only what is being written is in memory.

    make: gives all rows, or, where they would fill the memory, tables of some of them one after another, one at least.
    """

    config: str
    name: str
    make: Callable[[], pa.Table | Iterator[pa.Table]]


def write_repository(
    out: Path,
    name: str,
    splits: Sequence[Split],
    *,
    families: Callable[[str], Family],
    record: Callable[[], dict[str, Any]],
    card: str,
    exports: Mapping[str, bytes] | None = None,
    workers: Workers = HERE,
) -> Path:
    """Writes one repository below `out` and returns its folder; a killed or failed write leaves the old one as it was.

    Args:
        name: folder and repository name, `<benchmark>-<source>`.
        splits: what to write; `workers` make and write several at a time, with the same bytes for any number.
        families: config -> what its rows are.
        record: gives the provenance for build.json (version, seed, arguments, sources) when the rows are written.
        card: body of README.md below the YAML header.
        exports: files beside the Parquet, by their path in the repository; build.json lists their hashes.
    """
    target = (out / name).resolve()  # a link to a folder on another disk stays a link
    foreign = target.exists() and not (target.is_dir() and not any(target.iterdir()))
    if foreign and not (target / RECORD).is_file():
        raise InputError(
            target, "is there and was not written by medfaith build", action="move it away, or use another --out"
        )
    try:
        with atomic_folder(target) as folder:
            work, title = partial(_write_split, folder, families), f"writing {name}"
            with workers.each(
                work, pieces(splits, 1), title=title, unit="splits", total=len(splits), small=True
            ) as made:
                summaries = list(made)
            keys = (f"{split.config}/{split.name}" for split in splits)
            written = record() | {"splits": dict(zip(keys, summaries, strict=True))}
            for path, data in (exports or {}).items():
                (folder / path).write_bytes(data)
            if exports:
                digests = {path: hashlib.sha256(data).hexdigest() for path, data in sorted(exports.items())}
                written["exports"] = digests
            (folder / RECORD).write_text(json.dumps(written, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            (folder / "README.md").write_text(_readme(name, splits, families, written, card), encoding="utf-8")
    except OSError as error:
        raise _explain(error, out) from error
    return out / name


def _write_split(folder: Path, families: Callable[[str], Family], task: Sequence[Split]) -> dict[str, Any]:
    (split,) = task
    family = families(split.config)
    schema, rows = family.features.arrow_schema, split.make()
    write = partial(write_split, folder, split.config, split.name)
    if isinstance(rows, Iterator):
        return summarise(Stored(write(part.cast(schema) for part in rows)), family.counted)
    table = rows.cast(schema)
    with ThreadPoolExecutor(1) as beside:  # both leave Python's lock: to compress, and to hash
        summary = beside.submit(summarise, table, family.counted)
        write([table])
        return summary.result()


def write_split(folder: Path, config: str, split: str, tables: Iterable[pa.Table]) -> list[Path]:
    """The Parquet files of one split, `<config>/<split>-00000-of-0000N.parquet` below a folder.

    Their bytes depend on the rows and pyarrow's version alone, and not on how many tables, one at least, the rows are
    in.
    """
    (folder / config).mkdir(exist_ok=True)
    written = []
    groups = enumerate(_row_groups(tables))
    for number, numbered in groupby(groups, lambda pair: pair[0] * ROWS_PER_GROUP // ROWS_PER_FILE):
        written.append(folder / config / f"{split}-{number:05d}")
        of_file = (group for _, group in numbered)
        first = next(of_file)
        with pq.ParquetWriter(written[-1], first.schema, write_page_index=True) as file:
            for group in chain([first], of_file):
                file.write_table(group)
    return [path.rename(f"{path}-of-{len(written):05d}.parquet") for path in written]


def _row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows, ROWS_PER_GROUP at a time; one empty table where there are none.

    Pages end where Arrow's chunks do, which are whatever the rows were put together of: here a column is one chunk.
    """
    waiting = None
    for table in tables:
        waiting = table if waiting is None else pa.concat_tables([waiting, table])
        while waiting.num_rows > ROWS_PER_GROUP:
            yield waiting.slice(0, ROWS_PER_GROUP).combine_chunks()
            waiting = waiting.slice(ROWS_PER_GROUP)
    if waiting is not None:
        yield waiting.combine_chunks()


def summarise(rows: Rows, counted: Sequence[str]) -> dict[str, Any]:
    """What build.json records of a split: rows, studies or images where rows have them, value counts, a hash."""
    summary: dict[str, Any] = {"rows": rows.num_rows}
    names = rows.schema.names
    if "study_id" in names:
        summary["studies"] = _distinct(parts_of(rows, "study_id"))
    if "images" in names:
        lengths = map(pc.list_value_length, parts_of(rows, "images"))
        summary["multi_image"] = sum(pc.sum(pc.greater(of_part, 1)).as_py() or 0 for of_part in lengths)
    if "image" in names:
        summary["images"] = _distinct(pc.struct_field(part, "key") for part in parts_of(rows, "image"))
    summary["counts"] = {column: value_counts(parts_of(rows, column)) for column in counted}
    summary["sha256"] = rowset_sha256(rows)
    return summary


def _distinct(parts: Iterable[pa.Array]) -> int:
    """How many values there are."""
    return len(pa.chunked_array([part.unique() for part in parts], pa.string()).unique())


def source_record(source_id: str, files: Sequence[Path], workers: Workers = HERE) -> dict[str, Any]:
    """What build.json says of a source: its version, and the hashes of the label files that were read."""
    version = sources.source(source_id).version
    return {"version": version, "files": sha256_of_files(files, workers)}


def sha256_of_files(files: Sequence[Path], workers: Workers = HERE) -> dict[str, str]:
    """Hash of each label file's content by its name; of more than 20 files, one hash over all names and hashes.

    Files that share a name go by their folder's name, too. What is hashed does not depend on the packing: a .gz counts
    as the file inside, a .tgz as the files inside.
    """
    shared = {name for name, times in Counter(path.name for path in files).items() if times > 1}
    alone = (f"{path.parent.name}/{path.name}" if path.name in shared else path.name for path in sorted(files))
    named = pieces(list(zip(sorted(files), alone, strict=True)), FILES_A_TASK)
    with workers.each(_hashes, named, title="hashing files", unit="files", total=len(files), small=True) as hashed:
        hashes = {name: digest for of_task in hashed for name, digest in of_task}
    if len(hashes) <= FEW:
        return dict(sorted(hashes.items()))
    listing = "".join(f"{digest}  {name}\n" for name, digest in sorted(hashes.items()))
    return {f"{len(hashes)} files": hashlib.sha256(listing.encode()).hexdigest()}


def _hashes(files: Sequence[tuple[Path, str]]) -> list[tuple[str, str]]:
    return [(name, hashlib.file_digest(file, "sha256").hexdigest()) for name, file in _unpacked(files)]


def _unpacked(files: Sequence[tuple[Path, str]]) -> Iterator[tuple[str, Any]]:
    """Name and content of each file, unpacked and open for reading."""
    for path, name in files:
        if path.name.endswith((".tgz", ".tar.gz")):
            with tarfile.open(path) as archive:
                for member in archive:
                    if member.isfile() and (content := archive.extractfile(member)) is not None:
                        yield PurePosixPath(member.name).name, content
        elif path.suffix == ".gz":
            with gzip.open(path) as file:
                yield name.removesuffix(".gz"), file
        else:
            with path.open("rb") as file:
                yield name, file


def configs_header(
    features: Mapping[str, datasets.Features], splits: Mapping[tuple[str, str], str]
) -> dict[str, list[dict[str, Any]]]:
    """What the Hub and `load_dataset` read of a README.md's header: configs with their files and features.

    Args:
        features: by config. splits: (config, split) -> hash of its rows.
    """
    configs: dict[str, dict[str, str]] = {}
    for (config, split), digest in splits.items():
        configs.setdefault(config, {})[split] = digest
    return {
        "configs": [
            {
                "config_name": config,
                # load_dataset caches a folder by this header and not by its files: without the hashes it would go on
                # giving the rows of an older build.
                "description": "rows " + " ".join(of_config.values()),
                "data_files": [{"split": split, "path": f"{config}/{split}-*.parquet"} for split in of_config],
            }
            for config, of_config in configs.items()
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
    """A README.md's YAML header as text."""
    text = yaml.dump(dict(header), Dumper=_PlainDumper, sort_keys=False, allow_unicode=True)
    return f"---\n{text}---\n\n"


def _readme(
    name: str, splits: Sequence[Split], families: Callable[[str], Family], record: Mapping[str, Any], card: str
) -> str:
    """README.md of a build: header, card and how to load it."""
    features = {split.config: families(split.config).features for split in splits}
    hashes = {(s.config, s.name): record["splits"][f"{s.config}/{s.name}"]["sha256"] for s in splits}
    header = {"pretty_name": record["benchmark"], "language": ["en"], **configs_header(features, hashes)}
    first = splits[0]
    return f"""{front_matter(header)}{card}
## Load it

```python
from datasets import load_dataset

rows = load_dataset("DIR/{name}", "{first.config}", split="{first.name}")
```

`DIR` is the folder that `medfaith build --out DIR` wrote to.
"""


class _PlainDumper(yaml.SafeDumper):
    """Writes a list that is shared between configs out in full: the Hub's YAML has no use for anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _explain(error: OSError, out: Path) -> MedfaithError:
    """Of an error while a build is made and written: most often `out` is at fault, else a source."""
    named = Path(error.filename) if isinstance(error.filename, str) else None
    # `out` may hold links to other disks: what is written there is known by its name.
    if named is not None and not is_partial(named) and not any(map(named.is_relative_to, (out, out.resolve()))):
        return InputError(named, f"cannot be read ({error.strerror}); nothing was changed", action=STILL_THERE)
    action = "free some space or choose another --out" if error.errno in NO_SPACE else "choose another --out"
    return InputError(out, f"cannot be written ({error.strerror or error}); nothing was changed", action=action)
