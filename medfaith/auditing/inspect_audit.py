"""An audit by Inspect: the task `medfaith/audit` asks all questions, and `medfaith audit --answers LOG` judges its log.

inspect eval medfaith/audit -T data=medfaith-data -T roots=vindr_cxr=/data/vindr-cxr -T limit=500 \
        --model MODEL --no-log-images
medfaith audit --answers LOG.eval --out audit
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inspect_ai import task

from medfaith import eval as evaluation
from medfaith.loaders.atomic import scratch_folder
from medfaith.loaders.errors import MedfaithError
from medfaith.tasks.controls import UnsupportedControlError
from medfaith.tasks.harnesses import questions
from medfaith.tasks.harnesses.inspect_score import stop
from medfaith.tasks.harnesses.inspect_subtasks import AUDIT, Permission, Subtask
from medfaith.tasks.harnesses.inspect_task import Names, build_task, split
from medfaith.tasks.run import load_tasks
from medfaith.tasks.wordings import UnsupportedWordingError

from . import RULES, TASKS, Rule
from .audit import Plan, Request, plan_questions
from .plan import write_rows
from .run import get_condition_metadata


@task
def audit(  # noqa: PLR0913 (what -T names)
    data: str,
    roots: Any = None,
    benchmarks: Names = None,
    controls: Names = None,
    thorough: bool = False,
    wordings: int = 0,
    rule: Rule = RULES[-1],
    limit: int | None = None,
    rows: str | None = None,
    images: str = "all",
    skip_missing_images: bool = False,
    send_images_to: str | None = None,
    i_have_permission: Names = None,
):
    """Build the task of an audit: the same rows with the image and under each control, in each wording.

    Args:
        data: The folder that `medfaith build` wrote, or a Hub organisation.
        roots: The folder with each source's images: one or several source=path (a=PATH,b=PATH), or a mapping.
        benchmarks: Benchmarks to ask; by default all that have rows in `data`.
        controls: Controls to ask under; by default the controls of the rule.
        thorough: Whether to ask under all controls that the verdicts or the tables can use.
        wordings: Number of paraphrases of each question.
        rule: Version of the rule for the verdict.
        limit: Number of rows of each task; each right answer and finding keeps its share. By default all.
        rows: CSV file that names the rows to ask in its column id.
        images: "first" to show one image of each study of CXR-ContraBench.
        skip_missing_images: Whether to omit rows with a missing or broken image instead of stopping.
        send_images_to: The host or the provider of Inspect outside of your network that may get images and texts.
        i_have_permission: Sources whose owners permit that although their terms do not.
    """
    try:
        names = split(benchmarks) or None, split(controls) or None
        for task_name in (task_name for benchmark in names[0] or () for task_name in TASKS.get(benchmark, ())):
            questions.load_recipes(task_name)  # refuses a task that needs more than an output
        request = Request(Path(), *names, thorough, wordings, rule, limit)
        options = {"data": str(data), "rows": rows, "images": images, "skip_missing_images": skip_missing_images}
        roots_by_source = {source: str(path) for source, path in questions.resolve_roots(roots).items()}
        metadata = evaluation.collect_metadata(options, roots_by_source, "inspect eval medfaith/audit")
        audit_plan = plan_questions(request, metadata, makes_heatmaps=False, looks=True)
        _print_notes(audit_plan.notes)
        record = {
            "rule": rule,
            "thorough": thorough,
            "wordings": wordings,
            "conditions": list(audit_plan.conditions),
            "tasks": [planned._asdict() for planned in audit_plan.tasks],
            "asked": {name: metadata[name] for name in ("images", "skip_missing_images") if name in metadata},
        }
        permission = Permission(send_images_to, split(i_have_permission))
        return build_task("audit", _load_subtasks(audit_plan, metadata), permission, metadata={AUDIT: record})
    except MedfaithError as error:
        raise stop(error) from None


def _load_subtasks(audit_plan: Plan, metadata: dict[str, Any]) -> list[Subtask]:
    """Load each task under each condition that its rows support."""
    subtasks, described = [], {name: metadata[name] for name in ("builds", "command")}
    with scratch_folder() as folder:
        row_ids = str(write_rows(folder, audit_plan.tasks))
        for planned in audit_plan.tasks:
            for condition in (None, *audit_plan.conditions):
                condition_metadata = get_condition_metadata(condition)
                try:
                    with contextlib.redirect_stderr(io.StringIO()):  # counts of rows are in the tables of the audit
                        loaded = load_tasks(planned.name, {**metadata, **condition_metadata, "row_ids": row_ids})
                except (UnsupportedControlError, UnsupportedWordingError) as error:
                    _print_notes([f"{planned.name}, {condition}: {error.found}"])
                else:
                    subtasks.append(
                        Subtask(loaded["tasks"][planned.name], condition or "", {**described, **condition_metadata})
                    )
    return subtasks


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        print(f"medfaith: {note}", file=sys.stderr)
