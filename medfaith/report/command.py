"""`medfaith report`: the papers' tables from what lm_eval wrote, of one model or many."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medfaith import build
from medfaith.loaders.errors import MedfaithError

if TYPE_CHECKING:
    from .heal_extractors import Extractor
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
        help="save the report here: report.md, one CSV file for each table, and pictures (default: print it only)",
    )  # fmt: skip
    job.add_argument(
        "--annotations", type=Path, action="append", default=[], metavar="FILE",
        help="a file of answers that medfaith annotate wrote; adds tables of what people said (repeatable)",
    )  # fmt: skip
    job.add_argument(
        "--compare", action="store_true",
        help="add a table that compares the model of each RESULTS with that of the first, as medfaith compare does",
    )  # fmt: skip
    build.root_argument(job)
    sheet = job.add_argument_group(
        "contact sheet of SurgXBench", "With --out and --root: a picture of frames under the models' heatmaps."
    )
    sheet.add_argument("--heatmaps", type=Path, metavar="DIR", help="the folder that medfaith eval --heatmaps filled")
    sheet.add_argument("--data", help="the folder that medfaith build wrote, or a Hub organisation")
    extractor = job.add_argument_group(
        "a second reader of HEAL-MedVQA's open-ended answers",
        "A language model reads the same answers, and a table compares the two readings.",
    )
    extractor.add_argument(
        "--extractor-model", metavar="NAME",
        help="the language model; transformers loads it unless --extractor-url is given",
    )  # fmt: skip
    extractor.add_argument(
        "--extractor-url", metavar="URL",
        help="an OpenAI-compatible endpoint that gets the answers, for example http://127.0.0.1:8000/v1; its key is "
        "read from MEDFAITH_EXTRACTOR_KEY or OPENAI_API_KEY",
    )  # fmt: skip
    extractor.add_argument(
        "--extractor-cache", type=Path, metavar="FILE",
        help="keep the language model's replies in this file, so that an interrupted run can go on",
    )  # fmt: skip
    job.set_defaults(job=_report)


def _report(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from .write import write_report

    extractor, sheet = _extractor(arguments), _sheet(arguments)
    how = {"annotations": arguments.annotations, "compared": arguments.compare}
    print(write_report(arguments.results, arguments.out, extractor, sheet, **how), end="")
    return 0


def _sheet(arguments: argparse.Namespace) -> Sheet | None:
    """What SurgXBench's contact sheet is drawn from; None where none is asked for."""
    from .surgx_overlays import Sheet

    if arguments.heatmaps is None and arguments.data is None and not arguments.root:
        return None
    if arguments.heatmaps is None or arguments.data is None or arguments.out is None:
        action = "give --heatmaps DIR, --data DIR and --out DIR (and --root SOURCE=PATH for the frames)"
        raise MedfaithError(f"a contact sheet needs heatmaps, their rows and a place\n  what to do: {action}")
    return Sheet(arguments.heatmaps, arguments.data, build.roots(arguments))


def _extractor(arguments: argparse.Namespace) -> Extractor | None:
    from .heal_extractors import language_model

    name, url, cache = arguments.extractor_model, arguments.extractor_url, arguments.extractor_cache
    if name:
        key = os.environ.get("MEDFAITH_EXTRACTOR_KEY") or os.environ.get("OPENAI_API_KEY")
        return language_model(name, url=url, api_key=key, cache=cache)
    if url or cache:
        option = "--extractor-url" if url else "--extractor-cache"
        raise MedfaithError(f"{option} names no language model\n  what to do: give --extractor-model NAME, too")
    return None
