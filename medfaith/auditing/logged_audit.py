"""The audit of a log that `inspect eval medfaith/audit` wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from medfaith.loaders.atomic import atomic_folder, require_own, scratch_folder
from medfaith.loaders.errors import InputError
from medfaith.logs.inspect_logs import MODEL_TYPE, convert_log, name_folder, read_generation, read_header
from medfaith.logs.inspect_logs import read_model_arguments as read_arguments
from medfaith.tasks.run import Model

from .audit import Plan, Request, Result, judge_answers
from .edit_detection import Detection, detect_edits
from .plan import Task, plan
from .run import IMAGE, RECORD, begin, folder
from .write import read_others


def judge_log(
    log: Path, out: Path, margin: float, also: Sequence[Path] = (), metadata: Mapping[str, Any] | None = None
) -> tuple[Request, Result]:
    """Judge the answers of a log, and write all files of the audit.

    Args:
        log: The log.
        out: Folder for the logs and the tables.
        margin: Equivalence margin, a fraction.
        also: Folders of finished audits of other models, for blind_clean.csv.
        metadata: Metadata of the tasks with the data and the roots, to measure how well edits are detected; None to
            leave that out.

    Returns:
        The request that the log records, and the result.

    Raises:
        InputError: The log is not of an audit or not complete, `out` holds other files or another audit, or `metadata`
            is given and names other rows, or the audit measures no detection.
        MedfaithError: inspect_ai is not installed.
    """
    header = read_header(log)
    from medfaith.tasks.harnesses.inspect_subtasks import AUDIT, SUBTASKS

    logged = header.eval.metadata or {}
    if AUDIT not in logged:
        problem = f"is a log of the task {header.eval.task}"
        raise InputError(
            log, problem, expected="a log of inspect eval medfaith/audit", action="run it, or name its log"
        )
    n_asked, n = len(header.eval.dataset.sample_ids or ()), sum(subtask["n"] for subtask in logged[SUBTASKS])
    if n_asked < n:
        action = "run it without Inspect's --limit and --sample-id; -T limit= draws rows"
        raise InputError(
            log, f"asked {n_asked:,} of {n:,} questions", expected="all questions of the audit", action=action
        )
    record = logged[AUDIT]
    require_own(out, RECORD)
    request = Request(
        out, thorough=record["thorough"], wordings=record["wordings"], rule=record["rule"], margin=margin, also=also
    )
    if metadata is not None and not request.detects_edits:
        problem = "opens images to measure how well edits are detected, and the audit of this log was not thorough"
        raise InputError("--data", problem, action="leave it out, or ask with -T thorough=true")
    tasks = [Task(task["name"], task["benchmark"], tuple(task["ids"]), task["digest"]) for task in record["tasks"]]
    other_audits = read_others(also, tasks, margin, request.rule)
    # The id of the log keeps answers of two logs apart.
    arguments = {**read_arguments(header), "eval_id": header.eval.eval_id}
    model = Model(
        MODEL_TYPE, arguments, _refuse_to_answer, generation=read_generation(header, logged[SUBTASKS][0]["settings"])
    )
    task_metadata = begin({name_folder(header): model}, tasks, record["asked"], out, request.rule)
    with scratch_folder(out) as scratch:
        convert_log(log, scratch / "logs")
        for subtask in logged[SUBTASKS]:
            place = folder(out, subtask["task"], subtask["condition"] or None)
            if not place.is_dir():
                with atomic_folder(place) as logs:
                    for path in (scratch / "logs" / subtask["task"] / (subtask["condition"] or IMAGE)).iterdir():
                        path.rename(logs / path.name)
    audit_plan = Plan(tasks, record["conditions"], ())
    detections = {} if metadata is None else _detect_edits(audit_plan, {**metadata, **task_metadata}, out)
    return request, judge_answers(request, audit_plan, name_folder(header), other_audits, detections)


def _detect_edits(audit_plan: Plan, task_metadata: Mapping[str, Any], out: Path) -> dict[str, dict[str, Detection]]:
    """Measure how well edits are detected. Raise InputError if the data have other rows than the log."""
    names: dict[str, list[str]] = {}
    for task in audit_plan.tasks:
        names.setdefault(task.benchmark, []).append(task.name)
    tasks, notes = plan(names, task_metadata)
    if tasks != [*audit_plan.tasks]:
        problem = notes[0] if notes else "has other rows than the log"
        raise InputError(task_metadata["data"], problem, expected="the data that the model was asked about")
    return detect_edits(tasks, audit_plan.conditions, task_metadata, out)


def _refuse_to_answer() -> NoReturn:
    raise AssertionError("the model of a log answers nothing more")
