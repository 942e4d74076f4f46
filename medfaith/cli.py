"""The `medfaith` command: arguments in, one call into a room, a table or a path out.

Exit status 0 when the job is done, 2 when the input or the environment has to be mended first; the message says how.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from medfaith import build, phantom, publish, read
from medfaith.annotate import command as annotate
from medfaith.compare import command as compare
from medfaith.evaluate_metrics.localization.ranking import TIES
from medfaith.evaluate_metrics.localization.view import UPSAMPLINGS
from medfaith.loaders import sources
from medfaith.loaders.errors import MedfaithError, exit_status
from medfaith.report import command as report
from medfaith.tasks.controls import CONTROLS, described
from medfaith.training import command as training

# Options that the tasks take as they are.
_METADATA = ("data", "model_name", "control", "heatmaps", "patients", "upsampling", "precision_ties")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one sub-command; returns the exit status."""
    command = parser()
    arguments, rest = command.parse_known_args(argv)
    if rest and arguments.job is not _eval:
        command.error(f"unrecognized arguments: {' '.join(rest)}")
    return exit_status(partial(arguments.job, arguments, rest))


def parser() -> argparse.ArgumentParser:
    """The whole command's parser, with all jobs."""
    import importlib.metadata

    parser = argparse.ArgumentParser(
        prog="medfaith",
        description="Audits whether medical vision-language models answer from the image.",
        epilog="medfaith JOB --help describes a job. Research only: no result says anything about clinical use.",
    )
    parser.add_argument(
        "--version",
        action="version",
        version=importlib.metadata.version("medfaith"),
        help="print the version of medfaith and exit",
    )
    jobs = parser.add_subparsers(required=True, metavar="JOB", parser_class=build.Parser)

    text = "list the licensed sources: found or missing, licence, how to get access"
    job = jobs.add_parser("sources", help=text, description=_sentence(text))
    build.root_argument(job)
    job.set_defaults(job=_sources)

    build.add_jobs(jobs)

    text = "compute a build's counts and hashes again and compare them with the references"
    job = jobs.add_parser("verify", help=text, description=_sentence(text))
    job.add_argument(
        "directory",
        type=Path,
        metavar="DIR",
        help="folder that medfaith build wrote: one repository, or a folder of several",
    )
    job.add_argument(
        "--against",
        metavar="ORG/NAME",
        help="compare the rows with those that this data set on the Hub publishes (default: with the references); exit "
        "status 0: all rows are equal, 3: some are missing, 4: some are extra, 5: some are different",
    )
    job.set_defaults(job=_verify)

    publish.add_jobs(jobs)

    text = "print the folder of medfaith's tasks, for lm_eval --include_path"
    job = jobs.add_parser("tasks", help=text, description=_sentence(text))
    instead = job.add_mutually_exclusive_group()
    instead.add_argument("--list", action="store_true", help="print the names of all tasks and groups instead")
    instead.add_argument("--controls", action="store_true", help="print the controls of medfaith eval instead")
    job.set_defaults(job=_tasks)

    job = jobs.add_parser(
        "eval",
        allow_abbrev=False,  # lm_eval's own --model begins like our --model_name
        help="score a model with lm_eval run and medfaith's tasks and models",
        description="Runs lm_eval with medfaith's tasks and models. Every option that is not listed here goes to "
        "lm_eval run; lm_eval run --help lists those.",
        epilog="Example: medfaith eval --data medfaith-data --root chexpert=PATH --model hf-multimodal "
        "--model_args pretrained=MODEL --apply_chat_template --tasks medfaith_contrabench",
    )
    job.add_argument(
        "--data",
        metavar="DIR|ORG",
        help="folder that medfaith build wrote, or an organisation on the Hub that published the rows (every task of "
        "medfaith needs it)",
    )
    build.root_argument(job)
    job.add_argument(
        "--skip-missing-images",
        action="store_true",
        help="leave out and count rows whose images are missing (default: a missing image stops the run)",
    )
    job.add_argument(
        "--images",
        choices=("all", "first"),
        default="all",
        help="which images of a study the model sees; first is for models that take one image, as in the paper of "
        "CXR-ContraBench (default: %(default)s)",
    )
    job.add_argument(
        "--model_name",
        metavar="NAME",
        help="name of the model in tables and figures (default: its name on the Hub, or the last part of its path)",
    )
    job.add_argument(
        "--control",
        choices=tuple(CONTROLS),
        help="change what the model sees, to find out what it owes to the image; medfaith tasks --controls describes "
        "each control (default: the images as they are)",
    )
    job.add_argument(
        "--heatmaps",
        metavar="DIR",
        help="folder for heatmaps of where the model looks; a repeated run computes only the missing ones (default: "
        "make no heatmaps; models that cannot make any ignore this option)",
    )
    job.add_argument(
        "--patients",
        metavar="FILE.ckpt.json",
        help="ask That's the Wrong Lung! only about patients that a trained model has not seen; this is the record "
        "that medfaith train wrote beside the model (default: ask about all patients)",
    )
    job.add_argument(
        "--upsampling",
        choices=UPSAMPLINGS,
        help="how That's the Wrong Lung! spreads attention over pixels: bilinear, as its paper says, or nearest, as "
        f"its code does (default: {UPSAMPLINGS[0]})",
    )
    job.add_argument(
        "--precision-ties",
        choices=TIES,
        help="whether the precision of That's the Wrong Lung! counts pixels that are tied with its threshold; the code "
        f"of the paper includes them (default: {TIES[0]})",
    )
    job.set_defaults(job=_eval)

    report.add_jobs(jobs)
    compare.add_jobs(jobs)
    annotate.add_jobs(jobs)
    training.add_jobs(jobs)
    read.add_jobs(jobs)

    phantom.add_jobs(jobs)

    text = "try everything on synthetic data, offline: build, verify, score reference models, print the tables"
    job = jobs.add_parser("quickstart", help=text, description=_sentence(text))
    job.add_argument(
        "--out",
        type=Path,
        default=Path("medfaith-quickstart"),
        metavar="DIR",
        help="folder for the synthetic data, the rows, the results and the sample logs (default: %(default)s)",
    )
    job.fill = build.add_wording
    job.set_defaults(job=_quickstart)
    return parser


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _sources(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith.printing import table

    roots = build.roots(arguments)
    states = [sources.status(source_id, roots) for source_id in sources.all_sources()]
    print(
        table(
            ["source", "state", "licence", "medfaith may publish", "where, or what is missing"],
            [
                [s.source.id, s.state, s.source.licence, {"rows": "rows", "recipe": "hashes of rows"}[s.source.publish],
                 " ".join(filter(None, [str(s.root or ""), f"lacks {', '.join(s.missing)}" if s.missing else ""]))]
                for s in states
            ],
        )
    )  # fmt: skip
    for s in states:
        if s.state == "missing":
            print(f"\n{s.source.title} ({s.source.id})\n{s.source.instructions()}")
    return 0


def _verify(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith.builders.verify import repositories

    folders = repositories(arguments.directory)
    if arguments.against is not None:
        return publish.print_against(folders, arguments.against)
    return 0 if build.print_verdicts(folders) else 2


def _tasks(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith.tasks import include_path

    if arguments.controls:
        from medfaith.printing import table

        print(table(["control", "what the model sees", "for"], [[name, *of] for name, of in described().items()]))
    elif arguments.list:
        from medfaith.tasks.run import task_names

        print("\n".join(task_names()))
    else:
        print(include_path())
    return 0


def _eval(arguments: argparse.Namespace, rest: Sequence[str]) -> int:
    from medfaith.tasks.run import run_lm_eval

    roots = sources.parse_root_arguments(arguments.root)
    metadata: Mapping[str, object] = {
        **({"roots": roots} if roots else {}),
        **({"skip_missing_images": True} if arguments.skip_missing_images else {}),
        **({"images": arguments.images} if arguments.images != "all" else {}),
        **{name: value for name in _METADATA if (value := getattr(arguments, name))},
    }
    logs = run_lm_eval(_with_store(rest, arguments.heatmaps) if arguments.heatmaps else rest, metadata)
    if logs:
        from medfaith.report.unread import unread_shares

        try:
            print(unread_shares(logs), end="")
        except MedfaithError as error:  # the run is done, and its results are saved
            print(f"medfaith: unread answers are not counted: {error}", file=sys.stderr)
    return 0


def _with_store(rest: Sequence[str], folder: str) -> list[str]:
    """lm_eval's arguments with the heatmaps' folder among those of the model, where it is one that makes heatmaps."""
    from medfaith.tasks import EXPLAINED

    named = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    named.add_argument("--model", "-M")
    model = named.parse_known_args(list(rest))[0].model
    return [*rest, "--model_args", f"store={folder}"] if model in EXPLAINED else list(rest)


def _quickstart(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith.quickstart import quickstart

    verify = partial(build.print_verdicts, official=False)
    print(quickstart(arguments.out, build.wording(arguments), verify))
    return 0
