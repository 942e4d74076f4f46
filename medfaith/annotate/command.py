"""`medfaith annotate`: heatmaps of several models judged by a person in a browser on this machine."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from medfaith import build_command
from medfaith.builders.options import whole
from medfaith.loaders.errors import MedfaithError
from medfaith.reporting.registry import BENCHMARKS


def add_jobs(jobs: Any) -> None:
    """Add `annotate` to the command's jobs.

    Args:
        jobs: The subparsers of the command.
    """
    judged = " or ".join(benchmark.title for benchmark in BENCHMARKS.values() if benchmark.has_failures_judged)
    title, task = next((known.title, known.annotated_task) for known in BENCHMARKS.values() if known.annotated_task)
    job = jobs.add_parser(
        "annotate",
        help="judge models' heatmaps, or classify failed answers, in a browser",
        description="Open a page on this machine on which a person judges the heatmaps of several models. The page "
        f"hides the names of the models. Radiologists do the same in {title}",
    )
    job.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN",
        help=f"folder that lm_eval wrote for the task {task.name}, one for each model; with --errors, "
        f"folder with runs of {judged}",
    )  # fmt: skip
    job.add_argument(
        "--data", metavar="DIR|ORG",
        help="folder that medfaith build wrote, or organisation on the Hub (required to judge heatmaps)",
    )  # fmt: skip
    job.add_argument(
        "--heatmaps",
        type=Path,
        metavar="DIR",
        help="folder that medfaith eval --heatmaps wrote (required to judge heatmaps)",
    )
    job.add_argument(
        "--errors",
        action="store_true",
        help=f"classify failed answers of {judged} by their cause and a possible fix; with --data and --root the page "
        "shows their images (default: judge heatmaps)",
    )
    job.add_argument(
        "--cases", type=whole(0), default=100, metavar="N",
        help="with --errors: number of failed answers, sampled at random (default: %(default)s)",
    )  # fmt: skip
    build_command.root_argument(job)
    job.add_argument(
        "--out",
        type=Path,
        default=Path("annotations.jsonl"),
        metavar="FILE",
        help="file for the judgements; a new session adds to it (default: %(default)s)",
    )
    job.add_argument(
        "--annotator",
        default="annotator",
        metavar="NAME",
        help="name of the person who judges (default: %(default)s)",
    )
    job.add_argument(
        "--live", action="append", default=[], metavar="NAME=PRETRAINED[,OPTION=VALUE]",
        help="model that draws heatmaps for sentences that the person writes; PRETRAINED is as in the --model_args of "
        "medfaith-alignment, such as gloria:PATH or clip:NAME (repeatable; default: none)",
    )  # fmt: skip
    job.add_argument(
        "--port",
        type=int,
        default=7860,
        metavar="PORT",
        help="port of 127.0.0.1 on which the page is served (default: %(default)s)",
    )
    job.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="seed of the order of the images and of the letters that stand for the models, or of the sample of failed "
        "answers (default: %(default)s)",
    )
    job.set_defaults(job=_annotate)


def _annotate(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    if arguments.errors:
        return _sort_errors(arguments)
    if arguments.data is None or arguments.heatmaps is None:
        raise MedfaithError(
            "--data and --heatmaps: one is missing\n"
            "  what to do: name the build and the folder of the heatmaps; or sort failed answers with --errors"
        )
    from medfaith.annotate import local_server
    from medfaith.annotate.answers import open_answers
    from medfaith.annotate.session_setup import Wanted, load_aligners, prepare

    local_server.require_gradio()
    request = Wanted(
        arguments.runs,
        arguments.data,
        arguments.heatmaps,
        build_command.roots(arguments),
        arguments.annotator,
        arguments.seed,
    )
    live_models = _parse_live(arguments.live)
    with ExitStack() as stack:
        listening = stack.enter_context(local_server.listen(arguments.port))
        answers, notes = stack.enter_context(open_answers(arguments.out))
        aligners, reason = load_aligners(live_models)
        session, session_notes = prepare(request, answers, aligners)
        for note in (*notes, *session_notes):
            print(f"medfaith: {note}", file=sys.stderr)
        # Now, as gradio takes seconds to import: everything that can be refused was.
        from medfaith.annotate.app import build as build_page

        page = build_page(session, reason)
        print(f"{session.n_done} of {len(session.plan.instances)} images done; answers go to {answers.path}")
        local_server.serve(page, listening)
        print(f"\n{session.n_done} of {len(session.plan.instances)} images done")
    return 0


def _sort_errors(arguments: argparse.Namespace) -> int:
    from medfaith.annotate import local_server
    from medfaith.annotate.answers import open_answers
    from medfaith.annotate.errors import JUDGED, ErrorSession, failures, render_pictures
    from medfaith.logs.inspect_logs import converted_logs
    from medfaith.reporting.page.cases import collect_cases
    from medfaith.reporting.results import read_results

    local_server.require_gradio()
    with converted_logs(arguments.runs) as converted:
        runs = read_results(converted).runs
        sampled = failures(collect_cases(runs, most=sys.maxsize).cases, arguments.cases, arguments.seed)
    if not sampled:
        raise MedfaithError(
            f"no answer of {' or '.join(JUDGED)} failed in these runs\n"
            "  what to do: name runs of its tasks, with the image"
        )
    with ExitStack() as stack:
        listening = stack.enter_context(local_server.listen(arguments.port))
        answers, notes = stack.enter_context(open_answers(arguments.out))
        pictures, picture_notes = render_pictures(sampled, runs, arguments.data, build_command.roots(arguments))
        for note in (*notes, *picture_notes):
            print(f"medfaith: {note}", file=sys.stderr)
        session = ErrorSession(sampled, answers, arguments.annotator)
        # Now, as gradio takes seconds to import: everything that can be refused was.
        from medfaith.annotate.errors_page import build as build_page

        page = build_page(session, pictures)
        print(f"{session.n_done} of {len(sampled)} cases done; answers go to {answers.path}")
        local_server.serve(page, listening)
        print(f"\n{session.n_done} of {len(sampled)} cases done")
    return 0


def _parse_live(arguments: Sequence[str]) -> dict[str, tuple[str, dict[str, str]]]:
    """Parse --live: name -> model and options, as `load_aligner` takes them."""
    models: dict[str, tuple[str, dict[str, str]]] = {}
    for argument in arguments:
        name, _, value = argument.partition("=")
        pretrained, *options = value.split(",")
        if not name or not pretrained or name in models or not all("=" in option for option in options):
            expected = "NAME=PRETRAINED or NAME=PRETRAINED,OPTION=VALUE, each name once"
            raise MedfaithError(f"--live {argument!r}\n  expected: {expected}")
        models[name] = pretrained, dict(option.split("=", 1) for option in options)
    return models
