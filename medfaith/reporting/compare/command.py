"""`medfaith compare`: whether one model answers the same rows better than another, and how sure that is."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medfaith.loaders.escaping import escape_controls

if TYPE_CHECKING:
    from .tables import Comparison

_WORSE = 3  # the exit status of a gate that does not open


def add_jobs(jobs: Any) -> None:
    """Add `compare` to the command's jobs.

    Args:
        jobs: The sub-parsers of the command.
    """
    job = jobs.add_parser(
        "compare",
        help="compare models on the same rows: difference, interval, p-value, minimum detectable effect",
        description="Compare each run with the first one, on the same rows, patient by patient. Run lm_eval with "
        "--output_path DIR and --log_samples first. Runs that differ in rows, prompt, layout, control, wording or "
        "version are refused.",
        epilog="Example: medfaith compare results/old results/new --fail-below 2",
    )
    job.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN",
        help="folder, results file, sample log or log of Inspect of one model; all other runs are compared with the "
        "first one",
    )  # fmt: skip
    job.add_argument(
        "--common", action="store_true",
        help="compare only the rows that both runs have, and print their number (default: refuse runs with "
        "different rows)",
    )  # fmt: skip
    job.add_argument(
        "--margin", type=points, default=2.0, metavar="POINTS",
        help="smallest difference, in percentage points, that counts (equivalence margin; default: %(default)g)",
    )  # fmt: skip
    job.add_argument(
        "--fail-below", type=points, metavar="POINTS",
        help="exit with status 3 if a model is significantly worse, by more percentage points than this; 0 counts "
        "every significant loss (default: exit with status 0 for every result)",
    )  # fmt: skip
    job.set_defaults(job=_run_compare)


def points(text: str) -> float:
    """Parse a number of percentage points for argparse.

    Args:
        text: The argument.

    Returns:
        The number, at least 0 and below 100.
    """
    try:
        points = float(text)
    except ValueError:
        points = -1.0
    if not 0 <= points < 100:
        raise argparse.ArgumentTypeError(f"{text!r}; expected percentage points from 0 to 100, but below 100, as 2")
    return points


def _run_compare(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith.printing import table

    from .tables import compare

    comparison = compare(arguments.runs, common=arguments.common, margin=arguments.margin / 100)
    printed = comparison.table()
    notes = (textwrap.fill(note, 120) for note in printed.notes)
    print(escape_controls("\n\n".join([printed.title, table(*printed.cells()), *notes])))
    if remarks := [*comparison.warnings, *comparison.notes]:
        print(escape_controls("\n" + "\n".join(f"- {remark}" for remark in remarks)))
    return 0 if arguments.fail_below is None else _print_gate(comparison, arguments.fail_below)


def _print_gate(comparison: Comparison, points: float) -> int:
    """Print which tasks are worse by more points, and which have too few rows to tell; return the exit status."""
    worse, blind = comparison.worse(points / 100), comparison.blind(points / 100)
    print(
        escape_controls(f"\nWorse by more than {points:g} points: {', '.join(map(comparison.named, worse)) or 'none'}")
    )
    if blind:
        names = ", ".join(map(comparison.named, blind))
        print(textwrap.fill(escape_controls(f"Too few rows to be sure to see such a loss: {names}"), 120))
    return _WORSE if worse else 0
