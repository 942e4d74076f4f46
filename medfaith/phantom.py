"""`medfaith phantom`: synthetic sources in the official layouts, and the builds that they serve."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from medfaith.builders.options import whole
from medfaith.builders.parallel import HERE, Workers, pieces
from medfaith.loaders import phantom
from medfaith.loaders.atomic import atomic_folder
from medfaith.loaders.errors import InputError

MOST_STUDIES = 300_000  # MIMIC-CXR has 227,835
FIRST = ("chexpert", "openi")  # default: the sources of the first guide


def add_jobs(jobs: Any) -> None:
    """Add `phantom` to the command's jobs.

    Args:
        jobs: The sub-parsers of the command.
    """
    job = jobs.add_parser(
        "phantom",
        help="write synthetic sources in the official layouts, to try a build without licensed data",
        description="Write synthetic sources in the official layouts, each into a folder of its name, and print the "
        "commands that build from them. The sources contain no patient data.",
        epilog="Example: medfaith phantom synthetic --source vindr_cxr --source vindr_cxr_anatomy",
    )
    job.add_argument("directory", type=Path, metavar="DIR", help="folder to write to; it must be new or empty")
    choice = job.add_mutually_exclusive_group()
    choice.add_argument("--all", action="store_true", help=f"write every source (default: {' and '.join(FIRST)} only)")
    choice.add_argument(
        "--source",
        action="append",
        choices=phantom.SOURCES,
        metavar="NAME",
        help=f"write this source only (repeatable; default: {' and '.join(FIRST)}); one of "
        f"{', '.join(phantom.SOURCES)}",
    )
    job.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of the images and labels (default: %(default)s)"
    )
    job.add_argument(
        "--studies",
        type=whole(above=0, most=MOST_STUDIES),
        metavar="N",
        help=f"number of studies of {', '.join(phantom.STUDIES)} (default: 40)",
    )
    job.set_defaults(job=_run_phantom)


def _run_phantom(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    folder = arguments.directory
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        action = "name a new folder: real and synthetic data must not mix"
        raise InputError(folder, "is not an empty folder", action=action)
    sources = phantom.SOURCES if arguments.all else tuple(dict.fromkeys(arguments.source or FIRST))
    if arguments.studies and not set(sources) & set(phantom.STUDIES):
        expected = f"--source with one of {', '.join(phantom.STUDIES)}"
        raise InputError("--studies", "changes none of the sources", expected=expected)
    roots = write_whole(folder, seed=arguments.seed, sources=sources, n_studies=arguments.studies)
    print(
        "\n".join([*(_format_root(source_id, roots) for source_id in roots), "", "Next:", *_list_build_commands(roots)])
    )
    return 0


def write_whole(
    folder: Path, *, seed: int, sources: Sequence[str], n_studies: int | None = None, workers: Workers = HERE
) -> dict[str, Path]:
    """Write synthetic sources atomically, and replace the content of `folder`.

    Args:
        folder: Folder to write to.
        seed: Seed of images and labels.
        sources: Names of sources.
        n_studies: As in `loaders.phantom.write`.
        workers: Processes.

    Returns:
        Source -> its root.
    """
    with atomic_folder(folder) as unfinished:
        write, batches = partial(_write, unfinished, seed, n_studies), pieces(sources, 1)
        with workers.map(write, batches, title="writing sources", unit="sources", total=len(batches)) as written:
            places = {source_id: place for batch_roots in written for source_id, place in batch_roots.items()}
    return {source_id: folder / place for source_id, place in places.items()}


def _write(folder: Path, seed: int, n_studies: int | None, sources: Sequence[str]) -> dict[str, Path]:
    """Write sources; return each one's path relative to the folder."""
    roots = phantom.write(folder, seed=seed, sources=sources, n_studies=n_studies)
    return {source_id: root.relative_to(folder) for source_id, root in roots.items()}


def _format_root(source_id: str, roots: Mapping[str, Path]) -> str:
    return f"--root {source_id}={shlex.quote(str(roots[source_id]))}"


def _list_build_commands(roots: Mapping[str, Path]) -> Iterator[str]:
    """List the command that builds each benchmark from these sources, or else the sources that are missing."""
    from medfaith.builders.registry import BENCHMARKS

    commands: list[str] = []
    lacking: dict[str, None] = {}  # in order, each once
    for name, benchmark in BENCHMARKS.items():
        ready = {source for need in benchmark.needs.values() if set(need) <= set(roots) for source in need}
        if ready:
            root_options = [_format_root(source_id, roots) for source_id in roots if source_id in ready]
            commands.append(f"  medfaith build {name} {' '.join(root_options)} --out medfaith-synthetic")
        for missing in benchmark.find_incomplete(roots).values():
            lacking[f"  medfaith build {name} also needs --source {' --source '.join(missing)}"] = None
    yield from commands or lacking or ["  these sources only add to others; medfaith phantom DIR --all writes all"]
