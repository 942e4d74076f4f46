"""`medfaith report`: the papers' tables from what lm_eval wrote, of one model or many."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medfaith import build, extractor
from medfaith.loaders.errors import MedfaithError

if TYPE_CHECKING:
    from .surgx_overlays import Sheet


def add_jobs(jobs: Any) -> None:
    """Adds `report` to the command's jobs."""
    job = jobs.add_parser(
        "report",
        help="print the papers' tables from lm_eval's results",
        description="Prints the papers' tables. lm_eval has to run with --output_path DIR and --log_samples.",
        epilog="Example: medfaith report results --out report",
    )
    job.add_argument(
        "results", type=Path, nargs="+", metavar="RESULTS",
        help="folders or files that lm_eval wrote, of one model or of many",
    )  # fmt: skip
    job.add_argument(
        "--out", type=Path, metavar="DIR",
        help="save the report here: report.md, each table as CSV and LaTeX, and pictures (default: print it only)",
    )  # fmt: skip
    job.add_argument(
        "--html", type=Path, metavar="FILE",
        help="write the report as one HTML file, too, which opens without a network: verdicts, tables, plots and every "
        "answer; it holds no picture and no sentence of a report (default: write none)",
    )  # fmt: skip
    job.add_argument(
        "--annotations", type=Path, action="append", default=[], metavar="FILE",
        help="a file of answers that medfaith annotate wrote; adds tables of what people said (repeatable)",
    )  # fmt: skip
    job.add_argument(
        "--data",
        help="the folder that medfaith build wrote, or a Hub organisation; with --annotations it adds Figure 16 of "
        "That's the Wrong Lung!, with --heatmaps the pictures of SurgXBench (default: leave them out)",
    )
    job.add_argument(
        "--compare", action="store_true",
        help="add a table that compares the model of each RESULTS with that of the first, as medfaith compare does",
    )  # fmt: skip
    job.add_argument(
        "--rows", type=Path, metavar="FILE",
        help="count only the rows that this csv names in its column id, as blind_clean.csv of medfaith audit does "
        "(default: count all rows)",
    )  # fmt: skip
    build.root_argument(job)
    sheet = job.add_argument_group(
        "frames of SurgXBench",
        "With --out, --data and --root: pictures of frames under the models' heatmaps (a contact sheet), and of frames "
        "before and after what a model looked at is painted black.",
    )
    sheet.add_argument("--heatmaps", type=Path, metavar="DIR", help="the folder that medfaith eval --heatmaps filled")
    extractor.add_options(job)
    job.set_defaults(job=_report)


def _report(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from .write import write_report

    reader, sheet = extractor.from_options(arguments), _sheet(arguments)
    how = {"annotations": arguments.annotations, "data": arguments.data, "compared": arguments.compare}
    how |= {"rows": arguments.rows, "html": arguments.html}
    print(write_report(arguments.results, arguments.out, reader, sheet, **how), end="")
    return 0


def _sheet(arguments: argparse.Namespace) -> Sheet | None:
    """What SurgXBench's contact sheet is drawn from; None where none is asked for."""
    from .surgx_overlays import Sheet

    for_labels = arguments.data is None or arguments.annotations  # --data may be there for Figure 16 alone
    if arguments.heatmaps is None and for_labels and not arguments.root:
        return None
    if arguments.heatmaps is None or arguments.data is None or arguments.out is None:
        action = "give --heatmaps DIR, --data DIR and --out DIR (and --root SOURCE=PATH for the frames)"
        raise MedfaithError(f"a contact sheet needs heatmaps, their rows and a place\n  what to do: {action}")
    return Sheet(arguments.heatmaps, arguments.data, build.roots(arguments))
