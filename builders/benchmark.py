"""The Benchmark object: everything that build, verify and publish need to know about one benchmark."""

from __future__ import annotations

import importlib.metadata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..loaders import layouts, limits, sources
from ..loaders.errors import InputError, MissingSourceError
from ..loaders.progress import Progress
from .options import check
from .parallel import Workers
from .verify import Verdict, verify_repository
from .write import Family, Split, Words, describe_source, write_repository

SplitName = tuple[str, str]  # config, split
LARGEST_SEED = 10**10 - 1  # ten digits
NO_FILE, NO_ROWS = "its label file is absent", "no row could be made"  # reasons for an absent split


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of one build.

    Attributes:
        roots: Folder or file of each source, by source id.
        named_configs: The configs that the caller named; empty if the build takes all configs that `roots` allow.
        configs: The configs to build, each once.
        seed: The seed of the random choices.
        options: An instance of the benchmark's own options class.
        workers: The workers that do the work. The rows do not depend on them.
    """

    roots: Mapping[str, Path]
    named_configs: Sequence[str]
    configs: Sequence[str]
    seed: int
    options: Any
    workers: Workers

    def find_root(self, source_id: str) -> Path:
        """Find the folder or file of a source.

        Args:
            source_id: The id of the source in sources.toml.

        Returns:
            The path of the source.

        Raises:
            MissingSourceError: The source has no root. The message says how to get the source.
        """
        root = sources.require_root(source_id, self.roots)
        layouts.check_root(source_id, root)
        return root


def collect_no_hashes() -> Mapping[str, Mapping[str, str]]:
    """Default for `Repository.hashes`: no label files other than those in `files`."""
    return {}


@dataclass(frozen=True, slots=True)
class Repository:
    """One repository that a build writes: `<benchmark>-<source>`.

    `hashes` and `skipped` are called when the rows are written.

    Attributes:
        source: The id of the source.
        splits: The splits to write.
        files: The label files by source. They are hashed while the rows are written.
        arguments: Values that build.json records in place of the values of options.
        exports: Files next to the Parquet files, by path.
        hashes: Returns the hashes of label files that are not in `files`, by source and name.
        skipped: Returns how many items the build skipped or counted, by reason.
        absent: The splits (for all configs) that the source's release gives and this build lacks, with NO_FILE.
            build.json also lists the splits without rows, as `config/split`.
    """

    source: str
    splits: Sequence[Split]
    files: Mapping[str, Sequence[Path]]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    exports: Mapping[str, bytes] = field(default_factory=dict)
    hashes: Callable[[], Mapping[str, Mapping[str, str]]] = collect_no_hashes
    skipped: Callable[[], Counter[str]] | None = None
    absent: Mapping[str, str] = field(default_factory=dict)


def find_no_problems(folder: Path, config: str, split: str, sound: Collection[SplitName]) -> list[str]:
    """Default for `Benchmark.check`: no check needs more than one split.

    Args:
        folder: The folder of the repository.
        config: The name of the config.
        split: The name of the split.
        sound: The splits whose rows are sound.

    Returns:
        An empty list.
    """
    return []


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One benchmark.

    Attributes:
        name: The name on the command line. The names of the repositories begin with it.
        title: The rows in a few words, a line in the help of the command.
        needs: The sources of each config. The repository of the first source holds the config.
        family: Returns the row family of a config.
        make: Yields the repositories of a build.
        options: The class of the build's options (`options.py`).
        draws: Help text: the choices that depend on the seed.
        unasked: Help text: the configs that are built by default.
        note: Help text: further facts about the configs.
        check: Returns the problems of a split whose own rows are sound, given the sound splits of its repository.
        quoted: Columns in a source's own words, by source. The source's licence covers them, so build.json does not
            count their values.
        reasons: All reasons for which a build counts items (`Repository.skipped`).
        vocabulary: Returns the texts that a row may have, by column or dotted path; None if rows are not published.
        root_flags: Sources whose root has an option of its own: `--table PATH` for `--root table=PATH`.
    """

    name: str
    title: str
    needs: Mapping[str, Sequence[str]]
    family: Callable[[str], Family]
    make: Callable[[Request], Iterable[Repository]]
    options: type
    draws: str
    reasons: frozenset[str] = frozenset()
    unasked: str = "all whose sources are found"
    note: str = ""
    check: Callable[[Path, str, str, Collection[SplitName]], list[str]] = find_no_problems
    quoted: Mapping[str, Sequence[str]] = field(default_factory=dict)
    vocabulary: Callable[[], Mapping[str, Words]] | None = None
    root_flags: Sequence[str] = ()

    def build(  # noqa: PLR0913 (one for each option of `medfaith build`)
        self,
        roots: Mapping[str, Path],
        out: Path,
        *,
        configs: Sequence[str] | None = None,
        seed: int = 0,
        options: Any = None,
        workers: int = 1,
        dask: str | None = None,
        card: Callable[[str], str] = lambda name: f"# {name}\n",
    ) -> list[Path]:
        """Build configs below `out`.

        The bytes written do not depend on `workers` and `dask`.

        Args:
            roots: Folder or label file of each source, by source id.
            out: The folder that the repositories are written to.
            configs: The configs to build. Default: all configs whose sources have roots.
            seed: The seed of the random choices.
            options: An instance of the benchmark's options class. Default: its default values.
            workers: Number of processes or threads.
            dask: Address of a Dask scheduler. Its workers replace the processes.
            card: Returns the body of README.md for a repository's name.

        Returns:
            The folders of the repositories.

        Raises:
            InputError: A config is unknown, an option or the seed is out of range, or a source is faulty.
            MissingSourceError: A config has a source without a root.
            MedfaithError: A worker was killed, or the cluster cannot be used.
        """
        options = self.options() if options is None else options
        check(options)
        if abs(seed) > LARGEST_SEED:
            raise InputError(f"--seed {seed}", "is out of range", expected="a whole number of at most ten digits")
        if not limits.is_utf8(out):
            raise InputError(out, "the path is no UTF-8 text", action="name another folder with --out")
        config_names = self.select_configs(configs, roots)
        worker_pool = Workers(workers, dask)
        worker_pool.check()
        request = Request(roots, tuple(configs or ()), config_names, seed, options, worker_pool)
        return [self._write(repository, request, out, card) for repository in self.make(request)]

    def select_configs(self, configs: Sequence[str] | None, roots: Mapping[str, Path]) -> list[str]:
        """Select the configs to build.

        Args:
            configs: The configs that the caller named, if any.
            roots: Folder or label file of each source, by source id.

        Returns:
            The configs, each once. Default: all configs whose sources have roots.

        Raises:
            InputError: A config is unknown.
            MissingSourceError: No config has all its sources.
        """
        for config in configs or ():
            if config not in self.needs:
                expected = f"one of {', '.join(self.needs)}"
                raise InputError(f"--config {config}", f"{self.name} has no such config", expected=expected)
        config_names = list(
            dict.fromkeys(
                configs
                or (c for c, source_ids in self.needs.items() if all(source_id in roots for source_id in source_ids))
            )
        )
        if not config_names:
            missing_sources = dict.fromkeys(
                source_id for source_ids in self.needs.values() for source_id in source_ids if source_id not in roots
            )
            instructions = [
                f"{sources.source(source_id).title} ({source_id})\n{sources.source(source_id).instructions()}"
                for source_id in missing_sources
            ]
            raise MissingSourceError(f"{self.name} needs all sources of one of its configs\n" + "\n".join(instructions))
        return config_names

    def find_incomplete(self, roots: Mapping[str, Path]) -> dict[str, list[str]]:
        """Find the configs that have some of their sources but not all.

        Args:
            roots: Folder or label file of each source, by source id.

        Returns:
            The missing sources of each such config.
        """
        missing_by_config = {
            config: [source_id for source_id in source_ids if source_id not in roots]
            for config, source_ids in self.needs.items()
        }
        return {
            config: missing_ids
            for config, missing_ids in missing_by_config.items()
            if 0 < len(missing_ids) < len(self.needs[config])
        }

    def _write(self, repository: Repository, request: Request, out: Path, card: Callable[[str], str]) -> Path:
        name = f"{self.name}-{repository.source}"
        # Hashing unpacks the label files again, so it runs in parallel with the writing.
        with ThreadPoolExecutor(1) as executor:
            described_sources = executor.submit(_describe_sources, repository, request.workers)
            return write_repository(
                out,
                name,
                repository.splits,
                exports=repository.exports,
                families=self.family,
                record=lambda empty: self._build_record(repository, request, described_sources.result(), empty),
                card=card(name),
                workers=request.workers,
            )

    def _build_record(
        self,
        repository: Repository,
        request: Request,
        described_sources: Mapping[str, Any],
        empty: Sequence[Split],
    ) -> dict[str, Any]:
        """Build the part of build.json that does not describe the rows: version, arguments, sources, what is absent.

        Raise InputError if a config that the request names has no rows.
        """
        _require_named_rows(repository, request, empty)
        source_records = dict(described_sources)
        for source_id, hashes in repository.hashes().items():
            source_records[source_id] |= {"files": source_records[source_id]["files"] | hashes}
        record = {
            "benchmark": self.name,
            "source": repository.source,
            "medfaith": importlib.metadata.version("medfaith"),
            "seed": request.seed,
            "arguments": asdict(request.options) | dict(repository.arguments),
            "sources": source_records,
        }
        if repository.skipped is not None:
            record["skipped"] = dict(sorted(repository.skipped().items()))
        if absent := dict(repository.absent) | {f"{split.config}/{split.name}": NO_ROWS for split in empty}:
            record["absent"] = absent
        return record

    def verify(self, folder: Path, references: Sequence[Mapping[str, Any]] = ()) -> list[Verdict]:
        """Verify every split of one repository, and that its splits belong together.

        Args:
            folder: The folder of the repository.
            references: Reference records in the form of build.json.

        Returns:
            One verdict per split.

        Raises:
            InputError: A build.json or Parquet file cannot be read.
        """
        verdicts = verify_repository(folder, self.family, references)
        sound = {(verdict.config, verdict.split) for verdict in verdicts if not verdict.problems}
        return [
            v if v.problems else replace(v, problems=tuple(self.check(folder, v.config, v.split, sound)))
            for v in Progress(verdicts, title=f"comparing the splits of {folder.name}", unit="splits")
        ]


def _require_named_rows(repository: Repository, request: Request, empty: Sequence[Split]) -> None:
    """Raise an InputError if a config that the caller named has no row."""
    filled_configs = {split.config for split in repository.splits if split not in empty}
    for config in request.named_configs:
        if config not in filled_configs and any(split.config == config for split in empty):
            action = f"leave it out, or check that the labels of {repository.source} are complete"
            raise InputError(f"--config {config}", "no row could be made", action=action)


def _describe_sources(repository: Repository, workers: Workers) -> dict[str, Any]:
    """Describe each source, with the hashes of its label files."""
    return {
        source_id: describe_source(source_id, paths, workers) for source_id, paths in sorted(repository.files.items())
    }
