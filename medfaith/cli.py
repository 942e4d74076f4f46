"""The `medfaith` command: arguments in, one call into a room, a table or a path out.

Exit status 0: the job is done. 2: the input or the environment is at fault, and the message says how to fix it.
`medfaith eval` and `merge` end with 3 if a server left more than 1% of the rows unanswered, `answer` if it left any
request. The help of `verify` and `compare` lists further statuses.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from medfaith import answer, build_command, merge, models, phantom, publish, read, read_results
from medfaith import eval as evaluation
from medfaith.annotate import command as annotate
from medfaith.auditing import command as audit
from medfaith.loaders import sources
from medfaith.loaders.errors import exit_status
from medfaith.loaders.escaping import escape_unencodable
from medfaith.reporting import command as report
from medfaith.reporting.compare import command as compare
from medfaith.tasks.controls import describe_doses, described
from medfaith.training import command as training


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command and return the exit status.

    Args:
        argv: The words of the command; None for those of the process.

    Returns:
        The exit status: 0, 2 for bad input, or another one that the job documents.
    """
    escape_unencodable()
    command = parser()
    argument_words = list(sys.argv[1:] if argv is None else argv)
    arguments, unknown = command.parse_known_args(argument_words)
    arguments.words = argument_words
    if unknown and not getattr(arguments, "passes_on", False):
        command.error(f"unrecognized arguments: {' '.join(unknown)}")
    return exit_status(partial(arguments.job, arguments, unknown))


def parser() -> argparse.ArgumentParser:
    """Build the parser of the command with all its jobs."""
    import importlib.metadata

    parser = argparse.ArgumentParser(
        prog="medfaith",
        description="Audit whether medical vision-language models answer from the image.",
        epilog="medfaith JOB --help describes a job. Research only: no result says anything about clinical use.",
    )
    parser.add_argument(
        "--version",
        action="version",
        version=importlib.metadata.version("medfaith"),
        help="print the version of medfaith and exit",
    )
    jobs = parser.add_subparsers(required=True, metavar="JOB", parser_class=build_command.Parser)

    text = "list the licensed sources: found or missing, licence, how to get access"
    job = jobs.add_parser("sources", help=text, description=_format_sentence(text))
    build_command.root_argument(job)
    job.set_defaults(job=_run_sources)

    build_command.add_jobs(jobs)

    text = "compute a build's counts and hashes again and compare them with the references"
    job = jobs.add_parser("verify", help=text, description=_format_sentence(text))
    job.add_argument(
        "directory",
        type=Path,
        metavar="DIR",
        help="folder that medfaith build wrote: one repository, or a folder of several",
    )
    job.add_argument(
        "--against",
        metavar="ORG/NAME",
        help="compare the rows with those of this data set on the Hub (default: with the references); exit "
        "status 0: all rows are equal, 3: some are missing, 4: some are extra, 5: some are different, 6: only masks "
        "are different",
    )
    job.set_defaults(job=_run_verify)

    publish.add_jobs(jobs)

    text = "print the folder of medfaith's tasks, for lm_eval --include_path"
    job = jobs.add_parser("tasks", help=text, description=_format_sentence(text))
    instead = job.add_mutually_exclusive_group()
    listed = "print instead the question of each task and group, and the images and models that it needs"
    instead.add_argument("--list", action="store_true", help=listed)
    instead.add_argument("--names", action="store_true", help="print instead the names of all tasks and groups")
    instead.add_argument(
        "--controls", action="store_true", help="print instead the controls of medfaith eval and audit"
    )
    instead.add_argument("--wordings", action="store_true", help="print instead the paraphrases of each question")
    job.set_defaults(job=_run_tasks)

    models.add_jobs(jobs)
    evaluation.add_jobs(jobs)
    answer.add_jobs(jobs)
    merge.add_jobs(jobs)
    audit.add_jobs(jobs)
    report.add_jobs(jobs)
    compare.add_jobs(jobs)
    annotate.add_jobs(jobs)
    training.add_jobs(jobs)
    read.add_jobs(jobs)
    read_results.add_jobs(jobs)

    phantom.add_jobs(jobs)

    text = "try everything on synthetic data, offline: build, verify, score and audit reference models"
    job = jobs.add_parser("quickstart", help=text, description=_format_sentence(text))
    job.add_argument(
        "--out",
        type=Path,
        default=Path("medfaith-quickstart"),
        metavar="DIR",
        help="folder for the synthetic data, the rows, the results and the sample logs (default: %(default)s)",
    )
    job.fill = build_command.add_wording
    job.set_defaults(job=_run_quickstart)
    return parser


def _format_sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _run_sources(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith.printing import table

    roots = build_command.roots(arguments)
    states = [sources.status(source_id, roots) for source_id in sources.load_sources()]
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


def _run_verify(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith.builders.verify import repositories

    folders = repositories(arguments.directory)
    if arguments.against is not None:
        return publish.print_against(folders, arguments.against)
    return 0 if build_command.print_verdicts(folders) else 2


def _run_tasks(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith.tasks import include_path

    if arguments.controls:
        from medfaith.printing import table

        print(table(["control", "what the model sees", "for"], [[name, *cells] for name, cells in described().items()]))
        print(f"\n{describe_doses()}")
    elif arguments.wordings:
        from medfaith.task_list import wordings_text

        print(wordings_text())
    elif arguments.list:
        from medfaith import task_list

        print(task_list.text())
    elif arguments.names:
        from medfaith.tasks.run import list_task_names

        print("\n".join(list_task_names()))
    else:
        print(include_path())
    return 0


def _run_quickstart(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith.builders import cxr_contrabench
    from medfaith.quickstart import quickstart

    verify = partial(build_command.print_verdicts, official=False)
    options = {cxr_contrabench.NAME: build_command.wording(arguments)}
    print(quickstart(arguments.out, options, verify))
    return 0
