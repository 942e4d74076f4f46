"""One audit from its request to its files; `medfaith audit` and `medfaith.audit` call it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from medfaith.loaders.atomic import require_own
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.reporting.page.write import write_page
from medfaith.reporting.registry import BENCHMARKS
from medfaith.reporting.write import Report, collect
from medfaith.tasks import BASELINES
from medfaith.tasks.controls import BLIND, split_dose
from medfaith.tasks.wordings import benchmarks, count_wordings

from . import CONTROLS, OTHER, RULES, TASKS, THOROUGH, Rule, find_store
from .audited import Audited
from .edit_detection import Detection, detect_edits, read_detections
from .figures import read_audit
from .plan import ROWS, Task, plan
from .run import RECORD, ask, join_tasks, list_wording_names, name_of, read_earlier_tasks
from .verdicts import Judged, judge
from .write import has_table, read_others, write_blind_clean, write_tables

if TYPE_CHECKING:
    from medfaith.tasks.run import Model


class Request(NamedTuple):
    """The arguments of an audit.

    Attributes:
        out: Folder for the logs and the tables.
        benchmarks: Benchmarks to ask; None for all of which the data have rows.
        controls: Controls under which to ask; None for those of the rule.
        thorough: Whether to ask under all controls that the verdicts or the tables can use.
        wordings: Number of paraphrases of each question.
        rule: Version of the rule.
        limit: Rows of each task; None for all.
        margin: Equivalence margin, a fraction.
        also: Folders of finished audits of other models, for blind_clean.csv.
    """

    out: Path
    benchmarks: Sequence[str] | None = None
    controls: Sequence[str] | None = None
    thorough: bool = False
    wordings: int = 0
    rule: Rule = RULES[-1]
    limit: int | None = None
    margin: float = 0.05
    also: Sequence[Path] = ()

    @property
    def detects_edits(self) -> bool:
        """Whether the audit measures how well a classifier detects edits."""
        return self.thorough and self.rule != 1


class Plan(NamedTuple):
    """The questions of an audit.

    Attributes:
        tasks: Tasks and rows.
        conditions: Controls and wordings, in addition to the image.
        notes: A line for each task that is left out.
    """

    tasks: Sequence[Task]
    conditions: Sequence[str]
    notes: Sequence[str]


class Result(NamedTuple):
    """A finished audit.

    Attributes:
        judged: The figures and verdicts of each benchmark.
        report: The report on the logs.
        n_clean: Rows in blind_clean.csv; None without a blind control.
        n_guessed: Rows that are answered without evidence, clean ones included.
    """

    judged: Sequence[Judged]
    report: Report
    n_clean: int | None
    n_guessed: int


def plan_audit(request: Request, model_type: str, metadata: Mapping[str, Any]) -> Plan:
    """Choose the tasks, rows and conditions.

    Args:
        request: The request.
        model_type: Name of the model's type. A benchmark that scores attention needs one that makes heatmaps.
        metadata: Metadata of the tasks.

    Returns:
        The plan.

    Raises:
        InputError: `out` holds other files, a benchmark, control, rule or margin that there is not; or see
            `plan.plan`.
        MedfaithError: Controls and `thorough`, or more wordings than there are.
    """
    require_own(request.out, RECORD)
    makes_heatmaps = find_store(request.out, model_type) is not None
    return plan_questions(request, metadata, makes_heatmaps=makes_heatmaps, looks=model_type not in BASELINES)


def plan_questions(request: Request, metadata: Mapping[str, Any], *, makes_heatmaps: bool, looks: bool) -> Plan:
    """Choose the tasks, rows and conditions for a kind of model, whatever the folder `out` holds.

    Args:
        request: The request.
        metadata: Metadata of the tasks.
        makes_heatmaps: Whether the model makes heatmaps, which some benchmarks need.
        looks: Whether the model needs images.

    Returns:
        The plan.

    Raises:
        InputError: As `plan_audit`.
        MedfaithError: As `plan_audit`.
    """
    _check_values(request)
    conditions = _list_conditions(request)
    names = request.benchmarks or [
        name for name, benchmark in BENCHMARKS.items() if makes_heatmaps or not benchmark.needs_heatmaps
    ]
    tasks, notes = plan(
        {name: TASKS[name] for name in names},
        metadata,
        request.limit,
        explicit=request.benchmarks is not None,
        looks=looks,
        has_other=request.rule != 1 and OTHER in conditions,
    )
    return Plan(tasks, conditions, notes)


def _check_values(request: Request) -> None:
    """Raise InputError for a value that no audit can have."""
    if not 0 < request.margin < 1:
        expected = "more than 0 points, in which nothing can be equal, and below 100"
        raise InputError("margin", f"is {100 * request.margin:g} points", expected=expected)
    if request.rule not in RULES:
        raise InputError("rule", f"is {request.rule!r}", expected=f"one of {', '.join(map(str, RULES))}")
    if unknown := [name for name in request.benchmarks or () if name not in TASKS]:
        raise InputError("benchmarks", f"{unknown[0]!r} is unknown", expected=f"one of {', '.join(TASKS)}")
    for control in request.controls or ():
        split_dose(control)


def _list_conditions(request: Request) -> list[str]:
    """List the controls and wordings to ask, each once.

    Raise MedfaithError if the options name the controls twice, or ask for more wordings than there are.
    """
    if request.thorough and request.controls:
        raise MedfaithError("--thorough and --controls name controls both\n  what to do: give one of them")
    most = max(map(count_wordings, benchmarks()))
    if request.wordings > most:
        fault = f"--wordings {request.wordings}: there are {most} paraphrases of each question"
        raise MedfaithError(f"{fault}\n  what to do: give a number up to that; medfaith tasks --wordings lists them")
    controls = THOROUGH if request.thorough else request.controls or CONTROLS[request.rule]
    return [*dict.fromkeys(controls), *list_wording_names(request.wordings)]


def run_audit(request: Request, audit_plan: Plan, model: Model, metadata: Mapping[str, Any]) -> Result:
    """Ask a model, judge its answers and write all files of the audit.

    Benchmarks that an earlier run into the same folder has judged are judged again, so that all tables have this run's
    margin and none is lost.

    Args:
        request: The request.
        audit_plan: Its plan.
        model: The model.
        metadata: Metadata of the tasks.

    Returns:
        The result.

    Raises:
        InputError: See `run.ask` and `write.read_others`.
        MedfaithError: See `run.ask`.
    """
    out, tasks, conditions = request.out, audit_plan.tasks, audit_plan.conditions
    earlier = [task for task in read_earlier_tasks(out, tasks) if has_table(out, task.benchmark)]
    all_tasks = join_tasks(earlier, tasks)
    other_audits = read_others(request.also, all_tasks, request.margin, request.rule)
    ask({name_of(model): model}, tasks, conditions, metadata, out, rule=request.rule)
    detections = read_detections(earlier, out)
    if request.detects_edits:
        detections |= detect_edits(tasks, conditions, {**metadata, "row_ids": str(out / ROWS)}, out)
    return judge_answers(request, audit_plan._replace(tasks=all_tasks), name_of(model), other_audits, detections)


def judge_answers(
    request: Request,
    audit_plan: Plan,
    model_folder: str,
    other_audits: Sequence[Audited] = (),
    detections: Mapping[str, Mapping[str, Detection]] | None = None,
) -> Result:
    """Judge the answers in the folder of an audit, and write all files of the audit.

    Args:
        request: The request.
        audit_plan: Its plan.
        model_folder: Folder of the model's logs.
        other_audits: Audits of other models, for blind_clean.csv.
        detections: How well a classifier detects each edit.

    Returns:
        The result.
    """
    out, tasks, conditions = request.out, audit_plan.tasks, audit_plan.conditions
    audits = read_audit(out, [model_folder], tasks, request.margin, request.rule)
    judged = judge(audits, request.margin)
    write_tables(out, judged, request.margin, detections)
    report = collect([out], controls=False)
    write_page(out / "report.html", report, [out])
    if not {*conditions}.union(*(audit.answers for audit in audits)) & {*BLIND}:
        return Result(judged, report, None, 0)
    return Result(judged, report, *write_blind_clean(out, audits, other_audits))
