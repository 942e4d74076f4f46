"""`medfaith audit`: the same rows with the image and under controls, and whether the model uses the image."""

from __future__ import annotations

import argparse
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medfaith import batch
from medfaith import eval as evaluation
from medfaith.builders.options import whole
from medfaith.lm_eval_options import model_named
from medfaith.loaders.atomic import scratch_folder
from medfaith.loaders.errors import MedfaithError
from medfaith.reporting.compare.command import points
from medfaith.tasks.controls import BLIND, read_control
from medfaith.tasks.shards import read_shard

from . import CONTROLS, RULES, TASKS, THOROUGH, find_store

if TYPE_CHECKING:
    from .audit import Plan, Request, Result

_OURS = ("--tasks", "--output_path", "--log_samples", "--metadata", "--include_path", "--num_fewshot", "--samples")


def add_jobs(jobs: Any) -> None:
    """Add `audit` to the command's jobs.

    Args:
        jobs: The sub-parsers of the command.
    """
    job = jobs.add_parser(
        "audit",
        allow_abbrev=False,  # lm_eval's own --model begins like our --model_name
        help="ask a model the same rows with and without the image, and say whether it uses the image",
        description="Ask a model the same rows with the image and under controls, and say whether it uses the image. "
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
        f"edit in four doses each and three harmless changes, and measure how well a classifier detects the edits "
        f"(default: the {len(CONTROLS[2])} controls above)",
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
    batch.add_options(job)
    job.add_argument(
        "--shard", type=read_shard, metavar="I/N",
        help="with --write-requests or --write-missing: write only the requests about every Nth patient of each task, "
        "as shard I of N; --answers takes the answers to all shards at once (default: all patients)",
    )  # fmt: skip
    job.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the logs and the tables")
    job.set_defaults(job=_audit, passes_on=True)


def _judge_log(arguments: argparse.Namespace, lm_eval_arguments: Sequence[str]) -> int:
    choosing = (
        "rows", "benchmarks", "controls", "thorough", "wordings", "limit", "dry_run", "write_requests", "write_missing",
        "shard",
    )  # fmt: skip
    choosing = choosing if arguments.data else ("root", *choosing)
    options = [f"--{name.replace('_', '-')}" for name in choosing if getattr(arguments, name)]
    if further := [*options, *lm_eval_arguments]:
        action = "leave it out; the options of inspect eval medfaith/audit choose the model, the rows and the controls"
        raise MedfaithError(f"{further[0]}: --answers judges answers that a model gave\n  what to do: {action}")
    from .logged_audit import judge_log

    metadata = evaluation.metadata(arguments) if arguments.data else None
    request, result = judge_log(arguments.answers[0], arguments.out, arguments.margin / 100, arguments.also, metadata)
    if request.detects_edits and metadata is None:
        _print_lines(["The detection of edits is not measured: it opens images. Give --data and --root, too."])
    _print_result(request, result)
    return 0


def _audit(arguments: argparse.Namespace, lm_eval_arguments: Sequence[str]) -> int:
    if batch.names_log(arguments):
        return _judge_log(arguments, lm_eval_arguments)
    if arguments.shard and not batch.writes_requests(arguments):
        action = "add --write-requests FILE; or leave it out, and name the answers to all shards with --answers"
        raise MedfaithError(
            f"--shard {arguments.shard}: an audit compares answers of all rows, and only its requests have shards\n"
            f"  what to do: {action}"
        )
    for option in _OURS:
        if any(argument.split("=", 1)[0] == option for argument in lm_eval_arguments):
            raise MedfaithError(f"{option}: medfaith audit sets it\n  what to do: leave it out; --out names the folder")
    lm_eval_arguments = batch.add_model(lm_eval_arguments, arguments)
    name = model_named(lm_eval_arguments)
    if name is None:
        raise MedfaithError("--model: none is named\n  what to do: name a type of model, as --model hf-multimodal")
    out, store = arguments.out, find_store(arguments.out, name)
    metadata = evaluation.metadata(arguments) | ({"heatmaps": store} if store else {})
    from medfaith.tasks.run import build_model

    from .audit import Request, plan_audit, run_audit
    from .plan import restrict_tasks

    request = Request(
        out, arguments.benchmarks, arguments.controls, arguments.thorough, arguments.wordings, arguments.rule,
        arguments.limit, arguments.margin / 100, arguments.also,
    )  # fmt: skip
    audit_plan = plan_audit(request, name, metadata)
    _print_lines(audit_plan.notes)
    lm_eval_arguments = evaluation.with_host(evaluation.with_store(lm_eval_arguments, store, out), metadata)
    if arguments.dry_run:
        print(_ask_nothing(evaluation.in_dry_run(lm_eval_arguments), audit_plan, metadata).format_estimate())
        return 0
    if batch.writes_requests(arguments):
        if arguments.shard:
            tasks = restrict_tasks(audit_plan.tasks, arguments.shard, metadata)
            audit_plan = audit_plan._replace(tasks=tasks)
        print(_ask_nothing(lm_eval_arguments, audit_plan, metadata).close())
        return 0
    model = build_model(lm_eval_arguments, [task.name for task in audit_plan.tasks], metadata)
    _print_result(request, run_audit(request, audit_plan, model, metadata))
    return 0


def _ask_nothing(lm_eval_arguments: Sequence[str], audit_plan: Plan, metadata: Mapping[str, Any]) -> Any:
    """Hand the requests of the whole audit to a model that only counts or writes them, and return the model.

    Nothing is written to --out.
    """
    from medfaith.tasks.run import build_model

    from .run import ask, name_of

    model = build_model(lm_eval_arguments, [task.name for task in audit_plan.tasks], metadata)
    with scratch_folder() as folder:
        ask({name_of(model): model}, audit_plan.tasks, audit_plan.conditions, metadata, folder, say=lambda line: None)
    return model.answering


def _print_result(request: Request, result: Result) -> None:
    from medfaith.reporting.page.audits import audits
    from medfaith.reporting.summary import Tail, summary

    from .sentences import write_sentences
    from .wordings import compare_wordings

    out, judged, report = request.out, result.judged, result.report
    if len(judged) == 1:  # the words on several would be more than a screen
        wordings = compare_wordings(judged[0].audit, request.margin)
        _print_lines(["", f"{judged[0].title}:", *write_sentences(judged[0], request.margin, wordings)])
    saved_lines = [f"{out}/report.html: a page to show"]
    saved_lines += [f"{out}/audit.md: what that means, in words; the score under each control (also as CSV)"]
    if result.n_clean is None:
        _print_lines(["", f"No blind control ({', '.join(BLIND)}) was asked, so there is no blind_clean.csv"])
    else:
        saved_lines.append(
            f"{out}/blind_clean.csv: {result.n_clean:,} of {result.n_guessed:,} rows; the others are right without "
            "evidence"
        )
    next_commands = [f"medfaith report {shlex.quote(str(out))} --out report  # the papers' tables as Markdown and CSV"]
    print("\n" + summary(report.results, report.notes, Tail(saved_lines, next_commands), audits([out]), [out]), end="")


def _print_lines(lines: Sequence[str]) -> None:
    for line in lines:
        print(textwrap.fill(line, 120))
