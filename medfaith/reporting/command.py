"""`medfaith report`: a summary and the papers' tables, from sample logs of one model or many."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medfaith import build_command, extractor
from medfaith.builders.options import whole
from medfaith.loaders.errors import MedfaithError

if TYPE_CHECKING:
    from .benchmark import Sheet
    from .page.pictures import Pixels
    from .write import Report


def add_jobs(jobs: Any) -> None:
    """Add `report` to the command's jobs.

    Args:
        jobs: Subparsers of the command.
    """
    job = jobs.add_parser(
        "report",
        help="print a summary of lm_eval's results, and save the papers' tables",
        description="Print verdicts or scores with warnings and notes, and save the papers' tables. Run lm_eval with "
        "--output_path DIR and --log_samples first.",
        epilog="Example: medfaith report results --out report",
    )
    job.add_argument(
        "results", type=Path, nargs="+", metavar="RESULTS",
        help="folders or files that lm_eval wrote, or logs of Inspect, of one model or of many",
    )  # fmt: skip
    job.add_argument(
        "--out", type=Path, metavar="DIR",
        help="save the papers' tables here: report.md, each table as CSV and LaTeX, and figures (default: save none)",
    )  # fmt: skip
    job.add_argument(
        "--html", type=Path, metavar="FILE",
        help="also write the report as one HTML file, which opens without a network: verdicts, tables, plots and every "
        "answer; it contains no image, unless you give --with-images, and no sentence of a radiology report (default: "
        "write none)",
    )  # fmt: skip
    job.add_argument(
        "--with-images", action="store_true",
        help="with --data and --root: add thumbnails of the models' inputs to the page (--html) and to sheets (--out), "
        "with regions, boxes and heatmaps (--heatmaps); these images are licensed: do not share them (default: add "
        "no images)",
    )  # fmt: skip
    job.add_argument(
        "--max-cases", type=whole(0), default=200, metavar="N",
        help="with --with-images: maximum number of questions with images (default: %(default)s)",
    )  # fmt: skip
    job.add_argument(
        "--markdown", action="store_true", help="print the papers' tables as Markdown (default: print a summary)"
    )
    job.add_argument(
        "--results-yaml", type=Path, metavar="DIR",
        help="write the scores as files .eval_results/*.yaml for the models' repositories on the Hub, in a folder for "
        "each model; needs --org (default: write none)",
    )  # fmt: skip
    job.add_argument(
        "--org",
        metavar="ORG",
        help="with --results-yaml: organisation on the Hub whose data sets have the rows (default: none)",
    )
    job.add_argument(
        "--annotations", type=Path, action="append", default=[], metavar="FILE",
        help="file of answers that medfaith annotate wrote; adds tables of people's judgements (repeatable)",
    )  # fmt: skip
    job.add_argument(
        "--data",
        metavar="DIR|ORG",
        help="folder that medfaith build wrote, or organisation on the Hub; with --annotations it adds the table of "
        "judgements by abnormality, with --heatmaps contact sheets of frames (default: omit both)",
    )
    job.add_argument(
        "--compare", action="store_true",
        help="add a table that compares each model with the model of the first RESULTS, as medfaith compare does",
    )  # fmt: skip
    job.add_argument(
        "--rows", type=Path, metavar="FILE",
        help="count only the rows whose ids are in the column id of this CSV file, such as blind_clean.csv of medfaith "
        "audit (default: count all rows)",
    )  # fmt: skip
    build_command.root_argument(job)
    sheet = job.add_argument_group(
        "contact sheets of frames",
        "With --out, --data and --root: a contact sheet of frames with the models' heatmaps, and frames "
        "before and after the region of a model's attention is painted black.",
    )
    sheet.add_argument("--heatmaps", type=Path, metavar="DIR", help="folder that medfaith eval --heatmaps wrote")
    sheet.add_argument(
        "--causal-graphs", type=Path, metavar="DIR",
        help="with --heatmaps: folder causal_graphs=DIR of medfaith-explained-vlm; adds pictures of the causal graphs "
        "of right and wrong predictions (default: add none)",
    )  # fmt: skip
    extractor.add_options(job)
    job.set_defaults(job=_run_report)


def _run_report(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith.logs.inspect_logs import converted_logs

    with converted_logs(arguments.results) as results:
        return _report(arguments, results)


def _report(arguments: argparse.Namespace, results: Sequence[Path]) -> int:
    from .benchmark import ReportSources
    from .page.audits import audits
    from .summary import Tail, summary
    from .write import make_report

    if (arguments.results_yaml is None) is not (arguments.org is None):
        raise MedfaithError("--results-yaml and --org must be given together\n  what to do: give both, or neither")
    extractor_model, sheet = extractor.from_options(arguments), _read_sheet(arguments)
    sources = ReportSources(arguments.annotations, arguments.data, sheet, extractor_model)
    report = make_report(
        results,
        arguments.out,
        sources,
        html=arguments.html,
        pixels=_read_pixels(arguments),
        compared=arguments.compare,
        rows=arguments.rows,
    )
    saved, notes = _list_saved_files(arguments, report), [*report.notes]
    if arguments.results_yaml is not None:
        from .hub_results import collect_hub_results, write_hub_results

        results_on_hub = collect_hub_results(report.results, arguments.org)
        saved += write_hub_results(results_on_hub, arguments.results_yaml)
        notes = results_on_hub.notes + notes
    if arguments.markdown:
        print(report.markdown(), end="")
        return 0
    audited = audits(results)
    folders = [path for path in results if (path / "audit.csv").is_file()]
    tail = Tail(saved, _list_next_commands(arguments, bool(audited.verdicts)))
    print(summary(report.results, notes, tail, audited, folders), end="")
    return 0


def _list_saved_files(arguments: argparse.Namespace, report: Report) -> list[str]:
    lines = []
    if arguments.out is not None:
        n_tables = sum(len(section.tables) for section in report.sections)
        lines.append(f"{arguments.out}: report.md, {n_tables} tables as CSV and LaTeX, {len(report.figures)} figures")
    return lines + ([f"{arguments.html}: a page with tables, plots and every answer"] if arguments.html else [])


def _list_next_commands(arguments: argparse.Namespace, is_audited: bool) -> list[str]:
    """List the commands that show more of the same runs."""
    paths = shlex.join(map(str, arguments.results))
    commands = []
    if arguments.html is None:
        commands.append(f"medfaith report {paths} --html report.html  # tables, plots and every answer on one page")
    if arguments.out is None:
        commands.append(f"medfaith report {paths} --out report  # the papers' tables as Markdown and CSV")
    if not is_audited:
        commands.append("medfaith audit --help  # does the model use the image?")
    return commands[:2]


def _read_pixels(arguments: argparse.Namespace) -> Pixels | None:
    """Read the sources of pictures from the arguments; None without --with-images."""
    from .page.pictures import Pixels

    if not arguments.with_images:
        return None
    roots = build_command.roots(arguments)
    if not (arguments.html or arguments.out) or arguments.data is None or not roots:
        action = "give --html FILE or --out DIR, with --data DIR and --root SOURCE=PATH for each source"
        raise MedfaithError(
            f"--with-images needs a page or a folder, the rows and their images\n  what to do: {action}"
        )
    return Pixels(arguments.data, roots, arguments.heatmaps, arguments.max_cases)


def _read_sheet(arguments: argparse.Namespace) -> Sheet | None:
    """Read the sources of a contact sheet from the arguments; None if no sheet is requested."""
    from .benchmark import Sheet

    for_labels = arguments.data is None or arguments.annotations  # --data may serve Figure 16 alone
    if arguments.with_images and arguments.out is None:
        return None
    is_unasked = (for_labels and not arguments.root) or arguments.with_images
    if arguments.heatmaps is None and arguments.causal_graphs is None and is_unasked:
        return None
    if arguments.heatmaps is None or arguments.data is None or arguments.out is None:
        action = "give --heatmaps DIR, --data DIR and --out DIR (and --root SOURCE=PATH for the frames)"
        subject = "a contact sheet needs" if arguments.causal_graphs is None else "pictures of causal graphs need"
        raise MedfaithError(f"{subject} heatmaps, their rows and a folder\n  what to do: {action}")
    roots = build_command.roots(arguments)
    return Sheet(arguments.heatmaps, arguments.data, roots, arguments.causal_graphs)
