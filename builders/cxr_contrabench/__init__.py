"""CXR-ContraBench (papers: Fang et al., "CXR-ContraBench: Benchmarking Negated-Option Attraction in Medical VLMs").

`build` reads the sources, makes the rows and writes one repository a source.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from tqdm import tqdm

from ...loaders import chexpert as chexpert_labels
from ...loaders import openi as openi_reports
from ...loaders import sources
from ...loaders.errors import InputError, MissingSourceError
from ..schemas.contrabench import QUESTION
from ..verify import Family
from ..write import Split, sha256_of_files, write_repository
from . import chexpert, openi
from .questions import Wording, violations
from .wording import LAYOUTS, NEGATION_FORMS, QUESTION_FORMS

NAME = "cxr-contrabench"
CONFIGS = {**dict.fromkeys(chexpert.PROTOCOLS, "chexpert"), "openi_report_absence": "openi"}
COUNTED = ("protocol", "polarity", "finding")
FAMILY = Family(features=QUESTION, counted=COUNTED, violations=violations)
REPORTS_A_TASK = 200


def build(
    roots: Mapping[str, Path],
    out: Path,
    *,
    configs: Sequence[str] | None = None,
    seed: int = 0,
    wording: Wording | None = None,
    workers: int = 1,
    card: Callable[[str], str] = lambda name: f"# {name}\n",
) -> list[Path]:
    """Builds the configs (default: all whose source has a root) below `out` and returns the repositories' folders.

    Args:
        roots: source id -> folder or label file. card: README body for a repository's name.
        wording: negation form, question form, layout. seed: chooses among eligible distractors.
        workers: processes and threads; the bytes written do not depend on it.

    Raises InputError for an unknown config, MissingSourceError for a config whose source has no root.
    """
    wording = wording or Wording()
    _check(wording)
    unknown = [config for config in configs or () if config not in CONFIGS]
    if unknown:
        raise InputError(f"--config {unknown[0]}", f"no such config of {NAME}", expected=f"one of {', '.join(CONFIGS)}")
    wanted = list(configs) if configs else [config for config, source_id in CONFIGS.items() if source_id in roots]
    if not wanted:
        needed = dict.fromkeys(CONFIGS.values())
        texts = [f"{sources.source(s).title} ({s})\n{sources.source(s).instructions()}" for s in needed]
        raise MissingSourceError(f"{NAME} needs at least one of its sources\n" + "\n".join(texts))

    of_source: dict[str, list[str]] = {}
    for config in dict.fromkeys(wanted):
        of_source.setdefault(CONFIGS[config], []).append(config)
    plans = {s: READ[s](sources.root_of(s, roots), c, seed, wording, workers) for s, c in of_source.items()}

    folders = []
    for source_id, (files, splits) in plans.items():
        name = f"{NAME}-{source_id}"
        record = {
            "benchmark": NAME,
            "source": source_id,
            "medfaith": importlib.metadata.version("medfaith"),
            "seed": seed,
            "arguments": asdict(wording),
            "sources": {
                source_id: {
                    "version": sources.source(source_id).version,
                    "files": sha256_of_files(files, roots[source_id]),
                }
            },
        }
        with _progress(f"write {name}", splits) as tracked:
            folders.append(
                write_repository(
                    out,
                    name,
                    tracked,
                    features=QUESTION,
                    counted=COUNTED,
                    record=record,
                    card=card(name),
                    workers=workers,
                )
            )
    return folders


def _check(wording: Wording) -> None:
    for option, value, allowed in (
        ("--negation-form", wording.negation_form, NEGATION_FORMS),
        ("--question-form", wording.question_form, QUESTION_FORMS["presence"]),
        ("--layout", wording.layout, LAYOUTS),
    ):
        if value not in allowed:
            raise InputError(f"{option} {value}", "no such form", expected=f"one of {', '.join(allowed)}")


def _read_chexpert(
    root: Path, configs: Sequence[str], seed: int, wording: Wording, workers: int
) -> tuple[list[Path], list[Split]]:
    files = {s: path for s, path in chexpert_labels.label_files(root).items() if s in ("train", "validation")}
    if not files:
        raise InputError(root, "holds neither train.csv nor valid.csv", action=chexpert_labels.ACTION)
    with _bar(f"read {NAME}-chexpert", files.items()) as bar:
        tables = {s: chexpert.studies(chexpert_labels.read_labels(path, s), path) for s, path in bar}
    splits = [
        Split(config, s, partial(chexpert.questions, tables[s], config, s, seed=seed, wording=wording))
        for config in configs
        for s in tables
    ]
    return list(files.values()), splits


def _read_openi(
    root: Path, configs: Sequence[str], seed: int, wording: Wording, workers: int
) -> tuple[list[Path], list[Split]]:
    reports = openi_reports.read_reports(root)
    chunks = [reports[i : i + REPORTS_A_TASK] for i in range(0, len(reports), REPORTS_A_TASK)]
    transform = partial(openi.report_absence, seed=seed)
    if workers > 1:
        with (
            ProcessPoolExecutor(workers) as pool,
            _bar(f"read {NAME}-openi", pool.map(transform, chunks), len(chunks)) as bar,
        ):
            items = [item for part in bar for item in part]
    else:
        with _bar(f"read {NAME}-openi", map(transform, chunks), len(chunks)) as bar:
            items = [item for part in bar for item in part]
    make = partial(openi.questions, items, wording=wording)
    return openi_reports.label_files(root), [Split(config, "test", make) for config in configs]


READ = {"chexpert": _read_chexpert, "openi": _read_openi}


@contextmanager
def _bar(title: str, items: Any, total: int | None = None) -> Iterator[Any]:
    """A progress bar on a terminal, nothing in a pipe."""
    with tqdm(items, desc=title, total=total, disable=None, leave=False) as bar:
        yield bar


@contextmanager
def _progress(title: str, splits: Sequence[Split]) -> Iterator[list[Split]]:
    """The same splits, each of which moves a progress bar on when it has been made."""
    with tqdm(desc=title, total=len(splits), disable=None, leave=False) as bar:

        def ticking(split: Split) -> pa.Table:
            table = split.make()
            bar.update()
            return table

        yield [Split(s.config, s.name, partial(ticking, s)) for s in splits]
