"""`medfaith audit`: the same rows with the image and under controls, and whether the model uses the image."""

from __future__ import annotations

import argparse
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medfaith import eval as evaluation
from medfaith.builders.options import whole
from medfaith.compare.command import points
from medfaith.loaders.atomic import require_own, scratch_folder
from medfaith.loaders.errors import MedfaithError
from medfaith.tasks import BASELINES, EXPLAINED
from medfaith.tasks.controls import BLIND, read_control
from medfaith.tasks.wordings import benchmarks, count_wordings

from . import CONTROLS, OTHER, RULES, TASKS, THOROUGH

if TYPE_CHECKING:
    from .plan import Task

_OURS = ("--tasks", "--output_path", "--log_samples", "--metadata", "--include_path", "--num_fewshot", "--samples")


def add_jobs(jobs: Any) -> None:
    """Adds `audit` to the command's jobs."""
    job = jobs.add_parser(
        "audit",
        allow_abbrev=False,  # lm_eval's own --model begins like our --model_name
        help="ask a model the same rows with and without the image, and say whether it uses the image",
        description="Asks a model the same rows with the image and under controls, and says whether it uses the image. "
        "Every option that is not listed here goes to lm_eval run, such as --model, --model_args, --batch_size and "
        "--apply_chat_template; medfaith eval --help lists medfaith's models. To resume a stopped audit, run the same "
        "command again.",
        epilog="Example: medfaith audit --data medfaith-data --root vindr_cxr=PATH --model hf-multimodal "
        "--model_args pretrained=MODEL --apply_chat_template --limit 500 --out audit",
    )
    evaluation.task_options(job)
    job.add_argument(
        "--benchmarks", nargs="+", choices=tuple(TASKS), metavar="BENCHMARK",
        help=f"benchmarks to ask: {', '.join(TASKS)} (default: all that have rows in --data)",
    )  # fmt: skip
    job.add_argument(
        "--controls", nargs="+", type=read_control, metavar="CONTROL",
        help="controls under which to ask; medfaith tasks --controls describes them; controls that a benchmark's rows "
        f"do not support are skipped (default: {' '.join(CONTROLS[2])}; rule 1: the first six)",
    )  # fmt: skip
    job.add_argument(
        "--thorough", action="store_true",
        help=f"ask under all {len(THOROUGH)} controls that the verdict or the tables can use, including three kinds of "
        f"edit in four doses each and three harmless changes (default: the {len(CONTROLS[2])} controls above)",
    )  # fmt: skip
    job.add_argument(
        "--wordings", type=whole(0), default=0, metavar="N",
        help="also ask N paraphrases of each question, with the options in another order (default: %(default)s)",
    )  # fmt: skip
    job.add_argument(
        "--rule", type=int, choices=RULES, default=RULES[-1],
        help="version of the rule for the verdict; audits whose audit.json names no version used 1 "
        "(default: %(default)s)",
    )  # fmt: skip
    job.add_argument(
        "--limit", type=whole(0), metavar="N",
        help="ask N rows of each task, in which each right answer and finding keeps its share (default: all rows)",
    )  # fmt: skip
    job.add_argument(
        "--margin", type=points, default=5.0, metavar="POINTS",
        help="smallest difference, in percentage points, that counts (equivalence margin; default: %(default)g)",
    )  # fmt: skip
    job.add_argument(
        "--also", type=Path, action="append", default=[], metavar="DIR",
        help="folder of a finished audit of another model on the same rows: blind_clean.csv then has only the rows "
        "that no model answers right without the image (repeatable; default: this model alone)",
    )  # fmt: skip
    evaluation.dry_run_option(job)
    job.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the logs and the tables")
    job.set_defaults(job=_audit, passes_on=True)


def _audit(arguments: argparse.Namespace, lm_eval_arguments: Sequence[str]) -> int:
    if any(argument.split("=", 1)[0] == "--shard" for argument in lm_eval_arguments):
        action = "let several machines serve the model (medfaith-server), or use medfaith eval --shard with --control"
        raise MedfaithError(
            f"--shard: an audit compares answers of all rows, and has no shards\n  what to do: {action}"
        )
    for option in _OURS:
        if any(argument.split("=", 1)[0] == option for argument in lm_eval_arguments):
            raise MedfaithError(f"{option}: medfaith audit sets it\n  what to do: leave it out; --out names the folder")
    name = evaluation.model_named(lm_eval_arguments)
    if name is None:
        raise MedfaithError("--model: none is named\n  what to do: name a type of model, as --model hf-multimodal")
    from .plan import plan
    from .run import RECORD

    require_own(arguments.out, RECORD)
    store = str(arguments.out / "heatmaps") if name in EXPLAINED else None
    metadata = evaluation.metadata(arguments) | ({"heatmaps": store} if store else {})
    benchmarks = arguments.benchmarks or [
        benchmark_name for benchmark_name in TASKS if benchmark_name != "wrong-lung" or store
    ]
    tasks_by_benchmark = {benchmark: TASKS[benchmark] for benchmark in benchmarks}
    conditions = _conditions(arguments)
    plan_options = {"explicit": arguments.benchmarks is not None, "looks": name not in BASELINES}
    tasks, notes = plan(
        tasks_by_benchmark,
        metadata,
        arguments.limit,
        has_other=arguments.rule != 1 and OTHER in conditions,
        **plan_options,
    )
    _print_lines(notes)
    lm_eval_arguments = evaluation.with_host(evaluation.with_store(lm_eval_arguments, store, arguments.out), metadata)
    if arguments.dry_run:
        print(_estimate_requests(evaluation.in_dry_run(lm_eval_arguments), tasks, conditions, metadata))
        return 0
    _run_audit(arguments, lm_eval_arguments, tasks, conditions, metadata)
    return 0


def _conditions(arguments: argparse.Namespace) -> list[str]:
    """The controls and wordings to ask.

    Raises:
        MedfaithError: both --controls and --thorough, or more wordings than there are.
    """
    from .run import list_wording_names

    if arguments.thorough and arguments.controls:
        raise MedfaithError("--thorough and --controls name controls both\n  what to do: give one of them")
    most = max(map(count_wordings, benchmarks()))
    if arguments.wordings > most:
        fault = f"--wordings {arguments.wordings}: there are {most} paraphrases of each question"
        raise MedfaithError(f"{fault}\n  what to do: give a number up to that; medfaith tasks --wordings lists them")
    controls = THOROUGH if arguments.thorough else arguments.controls or CONTROLS[arguments.rule]
    return [*dict.fromkeys(controls), *list_wording_names(arguments.wordings)]


def _estimate_requests(
    lm_eval_arguments: Sequence[str], tasks: Sequence[Task], conditions: Sequence[str], metadata: Mapping[str, Any]
) -> str:
    """Estimate the requests, tokens and price of the whole audit for a server; write nothing to --out."""
    from medfaith.tasks.run import build_model

    from .run import ask, name_of

    model = build_model(lm_eval_arguments, [task.name for task in tasks], metadata)
    with scratch_folder() as folder:
        ask({name_of(model): model}, tasks, conditions, metadata, folder, say=lambda line: None)
    return model.answering.format_estimate()


def _run_audit(
    arguments: argparse.Namespace,
    lm_eval_arguments: Sequence[str],
    tasks: Sequence[Task],
    conditions: Sequence[str],
    metadata: Mapping[str, Any],
) -> None:
    from medfaith.reporting.page.audits import audits
    from medfaith.reporting.page.write import write_page
    from medfaith.reporting.summary import Tail, summary
    from medfaith.reporting.write import collect
    from medfaith.tasks.run import build_model

    from .figures import read_audit
    from .run import ask, name_of
    from .sentences import write_sentences
    from .verdicts import judge
    from .wordings import compare_wordings
    from .write import read_others, write_blind_clean, write_tables

    margin, out, rule = arguments.margin / 100, arguments.out, arguments.rule
    other_audits = read_others(arguments.also, tasks, margin, rule)
    model = build_model(lm_eval_arguments, [task.name for task in tasks], metadata)
    ask({name_of(model): model}, tasks, conditions, metadata, out, rule=rule)
    results = read_audit(out, [name_of(model)], tasks, margin, rule)
    judged = judge(results, margin)
    write_tables(out, judged, margin)
    report = collect([out], controls=False)
    write_page(out / "report.html", report, [out])
    if len(judged) == 1:  # the words on several would be more than a screen
        sentences = write_sentences(judged[0], margin, compare_wordings(judged[0].audit, margin))
        _print_lines(["", f"{judged[0].title}:", *sentences])
    saved_lines = [f"{out}/report.html: a page to show"]
    saved_lines += [f"{out}/audit.md: what that means, in words; the score under each control (also as CSV)"]
    if {*conditions} & {*BLIND}:
        n_clean, n = write_blind_clean(out, results, other_audits)
        saved_lines.append(
            f"{out}/blind_clean.csv: {n_clean:,} rows; the other {n - n_clean:,} are right without evidence"
        )
    else:
        _print_lines(["", f"No blind control ({', '.join(BLIND)}) was asked, so there is no blind_clean.csv"])
    next_commands = [f"medfaith report {shlex.quote(str(out))} --out report  # the papers' tables as Markdown and CSV"]
    print("\n" + summary(report.results, report.notes, Tail(saved_lines, next_commands), audits([out]), [out]), end="")


def _print_lines(lines: Sequence[str]) -> None:
    for line in lines:
        print(textwrap.fill(line, 120))
