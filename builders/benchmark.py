"""What a benchmark is to everything that builds, verifies or publishes: one object, which holds what is its own."""

from __future__ import annotations

import importlib.metadata
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..loaders import sources
from ..loaders.errors import InputError, MissingSourceError
from ..loaders.progress import Progress
from .label_keys import KEYS, Labels, label_key
from .options import check
from .parallel import Workers
from .verify import Verdict, verify_repository
from .write import Family, Split, source_record, write_repository

SplitName = tuple[str, str]  # config, split
Words = frozenset[str] | re.Pattern[str]  # all texts, or their form


@dataclass(frozen=True, slots=True)
class Request:
    """What one build is asked for.

    roots: source id -> folder or file. named: the configs that the caller named; none: all that the roots allow.
    configs: those to make, each once. options: of the benchmark's own class. workers: the rows do not depend on them.
    """

    roots: Mapping[str, Path]
    named: Sequence[str]
    configs: Sequence[str]
    seed: int
    options: Any
    workers: Workers

    def root(self, source_id: str) -> Path:
        """Where a source lies. Raises MissingSourceError, which says how to get it."""
        return sources.require_root(source_id, self.roots)


def no_hashes() -> Mapping[str, Mapping[str, str]]:
    """Of a repository whose label files are all in `files`."""
    return {}


@dataclass(frozen=True, slots=True)
class Repository:
    """One repository that a build writes: `<benchmark>-<source>`.

    files: the label files by source, which are hashed beside the writing. arguments: what build.json says of options
    in place of their values. exports: files beside the Parquet, by path. The others are called when the rows are
    written: hashes: of label files that were read in another way, by source and name; keyed: the parsed labels that the
    key of a split is derived from (`label_keys`), by split or, of all splits, by ""; skipped: how many of what was left
    out, or is worth a count, by reason.
    """

    source: str
    splits: Sequence[Split]
    files: Mapping[str, Sequence[Path]]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    exports: Mapping[str, bytes] = field(default_factory=dict)
    hashes: Callable[[], Mapping[str, Mapping[str, str]]] = no_hashes
    keyed: Mapping[str, Labels] = field(default_factory=dict)
    skipped: Callable[[], Counter[str]] | None = None


def no_problems(folder: Path, config: str, split: str, sound: Collection[SplitName]) -> list[str]:
    """Of a benchmark whose splits are proved each by itself."""
    return []


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One benchmark.

    name: on the command line, and where the names of its repositories begin. title: what its rows are, in a few words.
    needs: config -> the sources that it is made of; the first one's repository holds it.
    family: config -> what its rows are.
    make: the repositories of a build, one after another.
    options: class of what a build can be told (`options.py`). In the command's help: draws: what the seed decides;
    unasked: which configs a build makes where none is named; note: more about them.
    check: problems of a split whose own rows are sound, beside the others (`sound`) of its repository.
    quoted: source -> columns in the source's own words, which its licence keeps: they are in no count of build.json.
    vocabulary: the texts that a row may have, by column or dotted path; None where rows are not published.
    """

    name: str
    title: str
    needs: Mapping[str, Sequence[str]]
    family: Callable[[str], Family]
    make: Callable[[Request], Iterable[Repository]]
    options: type
    draws: str
    unasked: str = "all whose sources are there"
    note: str = ""
    check: Callable[[Path, str, str, Collection[SplitName]], list[str]] = no_problems
    quoted: Mapping[str, Sequence[str]] = field(default_factory=dict)
    vocabulary: Callable[[], Mapping[str, Words]] | None = None

    def build(
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
        """Builds the configs (default: all whose sources have roots) below `out`; returns the repositories' folders.

        Args:
            roots: source id -> folder or label file. card: README body for a repository's name.
            seed: of what is drawn at random. workers: processes or threads; dask: the address of a scheduler whose
                workers take the place of processes. The bytes written do not depend on them.

        Raises:
            InputError: an unknown config or option, and whatever is wrong with a source.
            MissingSourceError: a config whose sources have no root.
            MedfaithError: a worker that was killed, a cluster that cannot be used.
        """
        options = self.options() if options is None else options
        check(options)
        chosen = self.wanted(configs, roots)
        who = Workers(workers, dask)
        who.check()
        request = Request(roots, tuple(configs or ()), chosen, seed, options, who)
        return [self._write(repository, request, out, card) for repository in self.make(request)]

    def wanted(self, configs: Sequence[str] | None, roots: Mapping[str, Path]) -> list[str]:
        """The configs to build, each once. Raises InputError for an unknown one, MissingSourceError for none at all."""
        for config in configs or ():
            if config not in self.needs:
                expected = f"one of {', '.join(self.needs)}"
                raise InputError(f"--config {config}", f"{self.name} has no such config", expected=expected)
        chosen = list(dict.fromkeys(configs or (c for c, need in self.needs.items() if all(s in roots for s in need))))
        if not chosen:
            lacking = dict.fromkeys(s for need in self.needs.values() for s in need if s not in roots)
            texts = [f"{sources.source(s).title} ({s})\n{sources.source(s).instructions()}" for s in lacking]
            raise MissingSourceError(f"{self.name} needs all sources of one of its configs\n" + "\n".join(texts))
        return chosen

    def incomplete(self, roots: Mapping[str, Path]) -> dict[str, list[str]]:
        """Configs of which some sources have roots and others not: config -> the missing sources."""
        missing = {config: [s for s in need if s not in roots] for config, need in self.needs.items()}
        return {config: lacking for config, lacking in missing.items() if 0 < len(lacking) < len(self.needs[config])}

    def _write(self, repository: Repository, request: Request, out: Path, card: Callable[[str], str]) -> Path:
        name = f"{self.name}-{repository.source}"
        # Hashing unpacks the label files again: it runs beside the writing.
        with ThreadPoolExecutor(1) as beside:
            described = beside.submit(_described, repository, request.workers)
            return write_repository(
                out,
                name,
                repository.splits,
                exports=repository.exports,
                families=self.family,
                record=lambda: self._record(repository, request, described.result()),
                card=card(name),
                workers=request.workers,
            )

    def _record(self, repository: Repository, request: Request, described: Mapping[str, Any]) -> dict[str, Any]:
        """What build.json says of a build beside its rows."""
        of_sources = dict(described["sources"])
        for source_id, hashes in repository.hashes().items():
            of_sources[source_id] |= {"files": of_sources[source_id]["files"] | hashes}
        record = {
            "benchmark": self.name,
            "source": repository.source,
            "medfaith": importlib.metadata.version("medfaith"),
            "seed": request.seed,
            "arguments": asdict(request.options) | dict(repository.arguments),
            "sources": of_sources,
        }
        if described[KEYS]:
            record[KEYS] = described[KEYS]
        if repository.skipped is not None:
            record["skipped"] = dict(sorted(repository.skipped().items()))
        return record

    def verify(self, folder: Path, references: Sequence[Mapping[str, Any]] = ()) -> list[Verdict]:
        """Verifies every split of one repository, and that its splits belong together.

        Raises InputError for a build.json or Parquet that cannot be read. references: records in the form of
        build.json.
        """
        verdicts = verify_repository(folder, self.family, references)
        sound = {(verdict.config, verdict.split) for verdict in verdicts if not verdict.problems}
        return [
            v if v.problems else replace(v, problems=tuple(self.check(folder, v.config, v.split, sound)))
            for v in Progress(verdicts, title=f"comparing the splits of {folder.name}", unit="splits")
        ]


def _described(repository: Repository, workers: Workers) -> dict[str, Any]:
    """What takes time to describe: the label files, and the keys."""
    files = {source_id: source_record(source_id, of, workers) for source_id, of in sorted(repository.files.items())}
    return {"sources": files, KEYS: {split: label_key(labels()) for split, labels in repository.keyed.items()}}
