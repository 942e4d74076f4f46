"""`medfaith build`, with a parser made of the benchmarks' declarations, and helpers for other commands.

The benchmarks take seconds to import, so the parser loads their arguments only on demand.
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medfaith.builders.options import check, declared, groups, whole
from medfaith.control_counts import print_control_counts
from medfaith.loaders import sources
from medfaith.loaders.errors import MedfaithError

if TYPE_CHECKING:
    from medfaith.builders.benchmark import Benchmark
    from medfaith.builders.verify import Verdict

DEFAULT_OUT = "medfaith-data"
BUILD = "rebuild a benchmark's splits from licensed sources"


class Parser(argparse.ArgumentParser):
    """A parser that gets its arguments when it first has something to parse."""

    fill: Callable[[argparse.ArgumentParser], None] | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Fill in the arguments, then parse.

        Args:
            args: The words of the command; None for those of the process.
            namespace: As in argparse.

        Returns:
            As in argparse.
        """
        if self.fill is not None:
            fill, self.fill = self.fill, None
            fill(self)
        return super().parse_known_args(args, namespace)


def add_jobs(jobs: Any) -> None:
    """Add `build` to the command's jobs.

    Args:
        jobs: The sub-parsers of the command, made by `Parser`.
    """
    job = jobs.add_parser("build", help=BUILD, description=f"{BUILD[0].upper()}{BUILD[1:]}.")
    job.fill = _add_benchmarks


def _add_benchmarks(job: argparse.ArgumentParser) -> None:
    from medfaith.builders.parallel import MOST_WORKERS
    from medfaith.builders.registry import BENCHMARKS

    benchmarks = job.add_subparsers(required=True, metavar="BENCHMARK")
    for name, benchmark in BENCHMARKS.items():
        job = benchmarks.add_parser(
            name, help=benchmark.title, description=f"Build {benchmark.title}.", epilog=benchmark.note or None
        )
        job.add_argument(
            "--config",
            action="append",
            choices=tuple(benchmark.needs),
            metavar="NAME",
            help="build this config only; give the option again for further ones (default: "
            f"{benchmark.unasked}); one of {', '.join(benchmark.needs)}",
        )
        root_argument(job)
        for source_id in benchmark.root_flags:
            job.add_argument(
                f"--{source_id}",
                action="append",
                dest="root",
                type=partial("{}={}".format, source_id),
                metavar="PATH",
                help=f"the same as --root {source_id}=PATH: {sources.source(source_id).title}",
            )
        job.add_argument(
            "--out",
            type=Path,
            default=Path(DEFAULT_OUT),
            metavar="DIR",
            help="folder to write to (default: %(default)s)",
        )
        job.add_argument("--seed", type=int, default=0, metavar="N", help=f"{benchmark.draws} (default: %(default)s)")
        job.add_argument(
            "--workers", type=whole(above=0, most=MOST_WORKERS), default=1, metavar="N",
            help="number of processes or threads, at most 64 or 4 for each core (default: %(default)s); the output is "
            "the same for every number",
        )  # fmt: skip
        job.add_argument(
            "--dask", metavar="ADDRESS",
            help="read images, masks, reports, videos and scene graphs on the workers of the Dask scheduler at this "
            "address, such as tcp://HOST:8786 (default: in processes of this machine)",
        )  # fmt: skip
        job.add_argument(
            "--dry-run", action="store_true",
            help="build into a temporary folder, print how many rows each control of an audit could ask, and keep "
            "nothing (default: keep the build)",
        )  # fmt: skip
        add_options(job, benchmark.options)
        job.set_defaults(job=partial(_run_build, benchmark))


def root_argument(job: argparse.ArgumentParser) -> None:
    """Add --root.

    Args:
        job: The parser of the job.
    """
    job.add_argument(
        "--root",
        action="append",
        default=[],
        metavar="SOURCE=PATH",
        help="folder of a source (repeatable); chexpert=torchxrayvision reads the labels from that Python package",
    )


def add_wording(job: argparse.ArgumentParser) -> None:
    """Add the options of CXR-ContraBench that other commands share.

    Args:
        job: The parser of the job.
    """
    from medfaith.builders.cxr_contrabench.questions import Wording

    add_options(job, Wording)


def wording(arguments: argparse.Namespace) -> Any:
    """Read the options of `add_wording` from the arguments.

    Args:
        arguments: The parsed options.

    Returns:
        An instance of `Wording`.
    """
    from medfaith.builders.cxr_contrabench.questions import Wording

    return options_of(arguments, Wording)


def add_options(job: argparse.ArgumentParser, option_class: type) -> None:
    """Add the options of a class (`builders.options`), and of its groups.

    Args:
        job: The parser of the job.
        option_class: The class.
    """
    for name, option in declared(option_class).items():
        listed = f"; one of {', '.join(option.choices)}" if option.choices and option.metavar else ""
        job.add_argument(
            option.flag,
            dest=name,
            type=option.kind or str,
            choices=option.choices or None,
            action="append" if option.repeatable else "store",
            metavar=option.metavar,
            help=f"{option.help} (default: {option.default}){listed}".replace("%", "%%"),
        )
    for grouped in groups(option_class).values():
        add_options(job, grouped)


def options_of(arguments: argparse.Namespace, option_class: type) -> Any:
    """Make an instance of an option class from the arguments (`read_options`).

    Args:
        arguments: The parsed options.
        option_class: The class.

    Returns:
        The instance.
    """
    return read_options(vars(arguments), option_class, arguments.out)


def read_options(values: Mapping[str, Any], option_class: type, out: Path) -> Any:
    """Make an instance of an option class.

    Options without a value keep the class's defaults; a default folder is put below `out`.

    Args:
        values: Value of each option by its name; None and missing mean that it was not given. A repeatable option has
            several values, or one text.
        option_class: A class of `builders.options`.
        out: Folder that the build writes to.

    Returns:
        The instance.

    Raises:
        MedfaithError: An option of a group was given without the group's first option.
    """
    fields: dict[str, Any] = {}
    for name, option in declared(option_class).items():
        value = values.get(name)
        if value is not None:
            values_given = [value] if isinstance(value, str) else value
            fields[name] = tuple(dict.fromkeys(values_given)) if option.repeatable else value
        elif option.below_out:
            fields[name] = out / option.below_out
    for name, grouped in groups(option_class).items():
        first_option, *following = declared(grouped).items()
        if values.get(first_option[0]) is not None:
            fields[name] = read_options(values, grouped, out)
        elif unused := [option.flag for option_name, option in following if values.get(option_name) is not None]:
            needed = first_option[1].flag
            raise MedfaithError(f"{unused[0]} changes nothing without {needed}\n  what to do: give {needed}, too")
    return option_class(**fields)


def roots(arguments: argparse.Namespace) -> dict[str, Path]:
    """Resolve the folders of all sources from arguments, environment and settings.

    Args:
        arguments: The parsed options.

    Returns:
        Source id -> folder.
    """
    named_roots = sources.parse_root_arguments(arguments.root)
    return sources.resolve_roots(named_roots, environ=os.environ, config=sources.find_user_config())


def _run_build(benchmark: Benchmark, arguments: argparse.Namespace, _: Sequence[str]) -> int:
    """Build the requested configs, and name the configs with missing sources."""
    if not arguments.dry_run:
        status = _build(benchmark, arguments)
        print(f"written to {arguments.out}")
        return status
    with tempfile.TemporaryDirectory(prefix="medfaith-dry-run-") as folder:
        arguments.out = Path(folder)
        status = _build(benchmark, arguments)
        print_control_counts(benchmark.name, arguments.out, roots(arguments))
    print("nothing was kept (--dry-run)")
    return status


def _build(benchmark: Benchmark, arguments: argparse.Namespace) -> int:
    """Build below `arguments.out`, verify, and print what was left out; return the status."""
    from medfaith import cards
    from medfaith.builders.verify import skipped

    options = options_of(arguments, benchmark.options)
    check(options)
    source_roots = roots(arguments)
    with sources.reading(source_roots):
        folders = benchmark.build(
            source_roots,
            arguments.out,
            configs=arguments.config,
            seed=arguments.seed,
            options=options,
            workers=arguments.workers,
            dask=arguments.dask,
            card=cards.read_body,
        )
    for config, lacking in () if arguments.config else benchmark.find_incomplete(source_roots).items():
        print(f"{config} was not built: it also needs {', '.join(lacking)}")
    sound = print_verdicts(folders)
    for folder in folders:
        for reason, count in skipped(folder).items():
            print(f"{folder.name}: left out, or counted: {count} {reason}")
        for warning in find_missing_parts(folder, source_roots):
            print(f"{folder.name}: WARNING: {warning}")
    return 0 if sound else 2


def find_missing_parts(folder: Path, roots: Mapping[str, Path]) -> list[str]:
    """Find the splits that a build lacks, and missing, unreadable and resized images.

    Args:
        folder: The folder of a repository.
        roots: The root of each source, by source id.

    Returns:
        A sentence for each reason why splits are absent, and for each problem of the images.
    """
    from medfaith.builders.verify import read_absent
    from medfaith.image_check import find_image_problems

    absent = read_absent(folder)
    missing = []
    for reason in dict.fromkeys(absent.values()):
        names = ", ".join(name for name, split_reason in absent.items() if split_reason == reason)
        missing.append(f"without {names}: {reason}")
    return missing + find_image_problems(folder, roots)


def print_verdicts(folders: Sequence[Path], *, official: bool = True) -> bool:
    """Verify repositories, and print the result.

    Args:
        folders: Repositories of one build.
        official: Whether to compare with the paper's counts and the committed references (not for synthetic data).

    Returns:
        Whether every split is sound; True without folders.
    """
    from medfaith import cards
    from medfaith.printing import verdict_table

    verdicts = verify_folders(folders, official=official)
    for name, benchmark_verdicts in verdicts.items():
        print(verdict_table(benchmark_verdicts, cards.read_published(name) if official else None))
    return all(is_sound(verdict) for benchmark_verdicts in verdicts.values() for verdict in benchmark_verdicts)


def verify_folders(folders: Sequence[Path], *, official: bool = True) -> dict[str, list[Verdict]]:
    """Verify repositories.

    Args:
        folders: Repositories of one build.
        official: Whether to compare with the committed references.

    Returns:
        Benchmark -> a verdict for each split; benchmarks sorted by name.
    """
    from medfaith import cards
    from medfaith.builders import registry
    from medfaith.builders.verify import read_benchmark_name

    references = cards.read_references() if official else []
    by_name = itertools.groupby(sorted(folders, key=read_benchmark_name), key=read_benchmark_name)
    return {
        name: [verdict for folder in benchmark_folders for verdict in registry.verify(folder, references)]
        for name, benchmark_folders in by_name
    }


def is_sound(verdict: Verdict) -> bool:
    """Return whether a split has no problem, and equals the reference of the same labels.

    Args:
        verdict: The verdict on the split.

    Returns:
        False if it has a problem, or differs from the reference of the same labels.
    """
    return not verdict.problems and not (verdict.reference == "differs" and verdict.same_labels)
