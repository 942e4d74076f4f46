"""`medfaith build`, whose parser is made of what each benchmark declares; and what other jobs share with it.

The benchmarks take seconds to import, so that their arguments are added when they are asked for.
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medfaith.builders.options import check, declared, groups, whole
from medfaith.loaders import sources
from medfaith.loaders.errors import MedfaithError

if TYPE_CHECKING:
    from medfaith.builders.benchmark import Benchmark

DEFAULT_OUT = "medfaith-data"


class Parser(argparse.ArgumentParser):
    """A parser that gets its arguments when it first has something to parse."""

    fill: Callable[[argparse.ArgumentParser], None] | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self.fill is not None:
            fill, self.fill = self.fill, None
            fill(self)
        return super().parse_known_args(args, namespace)


def add_jobs(jobs: Any) -> None:
    """Adds `build` to the command's jobs, which are made by `Parser`."""
    job = jobs.add_parser("build", help="rebuild a benchmark's splits from licensed sources")
    job.fill = _add_benchmarks


def _add_benchmarks(job: argparse.ArgumentParser) -> None:
    from medfaith.builders.registry import BENCHMARKS

    benchmarks = job.add_subparsers(required=True, metavar="BENCHMARK")
    for name, benchmark in BENCHMARKS.items():
        job = benchmarks.add_parser(name, help=benchmark.title, epilog=benchmark.note or None)
        job.add_argument(
            "--config",
            action="append",
            choices=tuple(benchmark.needs),
            metavar="C",
            help="build this config only; repeat the option for several (default: "
            f"{benchmark.unasked}); one of {', '.join(benchmark.needs)}",
        )
        root_argument(job)
        job.add_argument(
            "--out", type=Path, default=Path(DEFAULT_OUT), help="folder to write to (default: %(default)s)"
        )
        job.add_argument("--seed", type=int, default=0, help=f"{benchmark.draws} (default: %(default)s)")
        job.add_argument(
            "--workers", type=whole(above=0), default=1,
            help="how many processes or threads of this machine work at a time (default: %(default)s); the bytes "
            "written do not depend on it",
        )  # fmt: skip
        job.add_argument(
            "--dask", metavar="ADDRESS",
            help="let the workers of the Dask scheduler at this address, such as tcp://HOST:8786, read images, masks, "
            "reports, videos and scene graphs (default: processes of this machine)",
        )  # fmt: skip
        add_options(job, benchmark.options)
        job.set_defaults(job=partial(_build, benchmark))


def root_argument(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--root",
        action="append",
        default=[],
        metavar="SOURCE=PATH",
        help="where a source lies (repeatable); chexpert=torchxrayvision reads the labels inside that package",
    )


def add_wording(job: argparse.ArgumentParser) -> None:
    """The options of CXR-ContraBench, which others have, too."""
    from medfaith.builders.cxr_contrabench.questions import Wording

    add_options(job, Wording)


def wording(arguments: argparse.Namespace) -> Any:
    """What was given of the options of `add_wording`."""
    from medfaith.builders.cxr_contrabench.questions import Wording

    return options_of(arguments, Wording)


def add_options(job: argparse.ArgumentParser, of: type) -> None:
    """The options of a class (`builders.options`), and of its groups."""
    for name, one in declared(of).items():
        listed = f"; one of {', '.join(one.choices)}" if one.choices and one.metavar else ""
        job.add_argument(
            one.flag,
            dest=name,
            type=one.kind or str,
            choices=one.choices or None,
            action="append" if one.repeatable else "store",
            metavar=one.metavar,
            help=f"{one.help} (default: {one.default}){listed}".replace("%", "%%"),
        )
    for grouped in groups(of).values():
        add_options(job, grouped)


def options_of(arguments: argparse.Namespace, of: type) -> Any:
    """An instance of the class from what was given of its options. Raises MedfaithError for a group without its first.

    What was not given keeps the class's default; a folder goes below `arguments.out`.
    """
    given: dict[str, Any] = {}
    for name, one in declared(of).items():
        value = getattr(arguments, name)
        if value is not None:
            given[name] = tuple(dict.fromkeys(value)) if one.repeatable else value
        elif one.below_out:
            given[name] = arguments.out / one.below_out
    for name, grouped in groups(of).items():
        first, *others = declared(grouped).items()
        if getattr(arguments, first[0]) is not None:
            given[name] = options_of(arguments, grouped)
        elif alone := [one.flag for other, one in others if getattr(arguments, other) is not None]:
            needed = first[1].flag
            raise MedfaithError(f"{alone[0]} changes nothing without {needed}\n  what to do: give {needed}, too")
    return of(**given)


def roots(arguments: argparse.Namespace) -> dict[str, Path]:
    given = sources.parse_root_arguments(arguments.root)
    return sources.resolve_roots(given, environ=os.environ, config=sources.user_config())


def _build(benchmark: Benchmark, arguments: argparse.Namespace, _: Sequence[str]) -> int:
    """Builds what the arguments ask for, and names the configs of which only some sources are there."""
    from medfaith import cards
    from medfaith.builders.verify import skipped

    options = options_of(arguments, benchmark.options)
    check(options)
    found = roots(arguments)
    with sources.reading(found):
        folders = benchmark.build(
            found,
            arguments.out,
            configs=arguments.config,
            seed=arguments.seed,
            options=options,
            workers=arguments.workers,
            dask=arguments.dask,
            card=cards.body,
        )
    for config, lacking in () if arguments.config else benchmark.find_incomplete(found).items():
        print(f"{config} was not built: it also needs {', '.join(lacking)}")
    sound = print_verdicts(folders)
    for folder in folders:
        for reason, count in skipped(folder).items():
            print(f"{folder.name}: left out, or counted: {count} {reason}")
    print(f"written to {arguments.out}")
    return 0 if sound else 2


def print_verdicts(folders: Sequence[Path], *, official: bool = True) -> bool:
    """Prints what verifying the repositories gave; False when any split is not what it should be.

    official: whether the paper's counts and the committed references are worth a comparison (not for synthetic data).
    """
    from medfaith import cards
    from medfaith.builders import registry
    from medfaith.builders.verify import read_benchmark_name
    from medfaith.printing import verdict_table

    references = cards.references() if official else []
    verdicts = []
    for name, of_benchmark in itertools.groupby(sorted(folders, key=read_benchmark_name), key=read_benchmark_name):
        found = [v for folder in of_benchmark for v in registry.verify(folder, references)]
        print(verdict_table(found, cards.published(name) if official else None))
        verdicts += found
    return all(not v.problems and not (v.reference == "differs" and v.same_labels) for v in verdicts)
