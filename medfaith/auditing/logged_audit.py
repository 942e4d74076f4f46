"""The audit of a log that `inspect eval medfaith/audit` wrote."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from medfaith.loaders.atomic import atomic_folder, require_own, scratch_folder
from medfaith.loaders.errors import InputError
from medfaith.logs.inspect_logs import MODEL_TYPE, convert_log, name_folder, read_generation, read_header
from medfaith.logs.inspect_logs import read_model_arguments as read_arguments
from medfaith.tasks.run import Model

from .audit import Plan, Request, Result, judge_answers
from .plan import Task
from .run import IMAGE, RECORD, begin, folder
from .write import read_others


def judge_log(log: Path, out: Path, margin: float, also: Sequence[Path] = ()) -> tuple[Request, Result]:
    """Judge the answers of a log, and write all files of the audit.

    Args:
        log: The log.
        out: Folder for the logs and the tables.
        margin: Equivalence margin, a fraction.
        also: Folders of finished audits of other models, for blind_clean.csv.

    Returns:
        The request that the log records, and the result.

    Raises:
        InputError: The log is not of an audit or not complete, or `out` holds other files or another audit.
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
    tasks = [Task(task["name"], task["benchmark"], tuple(task["ids"]), task["digest"]) for task in record["tasks"]]
    other_audits = read_others(also, tasks, margin, request.rule)
    # The id of the log keeps answers of two logs apart.
    arguments = {**read_arguments(header), "eval_id": header.eval.eval_id}
    model = Model(
        MODEL_TYPE, arguments, _refuse_to_answer, generation=read_generation(header, logged[SUBTASKS][0]["settings"])
    )
    begin({name_folder(header): model}, tasks, record["asked"], out, request.rule)
    with scratch_folder(out) as scratch:
        convert_log(log, scratch / "logs")
        for subtask in logged[SUBTASKS]:
            place = folder(out, subtask["task"], subtask["condition"] or None)
            if not place.is_dir():
                with atomic_folder(place) as logs:
                    for path in (scratch / "logs" / subtask["task"] / (subtask["condition"] or IMAGE)).iterdir():
                        path.rename(logs / path.name)
    return request, judge_answers(request, Plan(tasks, record["conditions"], ()), name_folder(header), other_audits)


def _refuse_to_answer() -> NoReturn:
    raise AssertionError("the model of a log answers nothing more")
