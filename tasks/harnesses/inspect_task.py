"""Our lm-eval tasks as tasks of Inspect (`inspect_ai`).

    inspect eval medfaith/heal_medvqa -T data=medfaith-data -T roots=vindr_cxr=/data/vindr-cxr --model MODEL
    inspect eval medfaith/lm_eval -T name=medfaith_heal_vindr_vpt -T data=medfaith-data \
        -T roots=vindr_cxr=/data/vindr-cxr --model MODEL --no-log-images
    inspect score LOG --scorer medfaith/answers -S filter=m1   # the same answers with another filter

Rows, messages, settings and figures equal lm-eval's. Each row is asked once, so `--epochs` is refused. Images are
opened and edited when a sample starts. `--no-log-images` keeps licensed pixels out of the log.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset
from inspect_ai.model import GenerateConfig, get_model
from inspect_ai.solver import Generate, Solver, TaskState, solver

from ...loaders.errors import InputError, MedfaithError, MissingSourceError
from ..stated_boxes import DEFAULT_FORMAT
from . import questions
from .inspect_score import answers, stop
from .inspect_subtasks import SUBTASKS, Permission, Subtask, build_content, build_samples, read_answer

Names = str | list[str] | None


@task
def lm_eval(  # noqa: PLR0913 (what -T names)
    name: str,
    data: str,
    roots: Any = None,
    filter: str | None = None,
    skip_missing_images: bool = False,
    control: str | None = None,
    wording: int = 0,
    rows: str | None = None,
    images: str = "all",
    box_format: str = DEFAULT_FORMAT,
    send_images_to: str | None = None,
    i_have_permission: Names = None,
):
    """Build the task of one of our lm-eval tasks.

    Args:
        name: A task of `medfaith tasks --list`, or GROUP::TASK.
        data: The folder that `medfaith build` wrote, or a Hub organisation.
        roots: The folder with each source's images: one or several source=path (a=PATH,b=PATH), or a mapping.
        filter: The filter that reads answers, such as "m1" for CXR-ContraBench; by default the task's first.
        skip_missing_images: Whether to omit rows with a missing or broken image instead of stopping.
        control: A control of `medfaith tasks --controls`, which changes or removes the image.
        wording: Number of a paraphrase of each question (`medfaith tasks --wordings`).
        rows: CSV file that names the rows to ask in its column id.
        images: "first" to show one image of each study of CXR-ContraBench.
        box_format: The form in which the model writes boxes, for tasks that ask where something is.
        send_images_to: The host or the provider of Inspect outside of your network that may get images and texts.
        i_have_permission: Sources whose owners permit that although their terms do not.
    """
    permission = Permission(send_images_to, split(i_have_permission))
    return _build_task(
        name, [name], data, roots, filter, permission, skip_missing_images=skip_missing_images, control=control,
        wording=wording, row_ids=rows, images=images, box_format=box_format,
    )  # fmt: skip


@task
def heal_medvqa(  # noqa: PLR0913 (what -T names)
    data: str,
    roots: Any = None,
    tasks: Names = None,
    filter: str | None = None,
    skip_missing_images: bool = False,
    control: str | None = None,
    wording: int = 0,
    rows: str | None = None,
    send_images_to: str | None = None,
    i_have_permission: Names = None,
):
    """Build the task of HEAL-MedVQA.

    Args:
        data: As in `lm_eval`.
        roots: As in `lm_eval`.
        tasks: Names or groups; by default all in `medfaith_heal_vindr`, `..._mimic` and `..._nih` with rows in `data`.
        filter: As in `lm_eval`.
        skip_missing_images: As in `lm_eval`.
        control: As in `lm_eval`.
        wording: As in `lm_eval`.
        rows: As in `lm_eval`.
        send_images_to: As in `lm_eval`.
        i_have_permission: As in `lm_eval`.
    """
    permission = Permission(send_images_to, split(i_have_permission))
    return _build_task(
        "heal_medvqa", tasks, data, roots, filter, permission,
        ("medfaith_heal_vindr", "medfaith_heal_mimic", "medfaith_heal_nih"),
        skip_missing_images=skip_missing_images, control=control, wording=wording, row_ids=rows,
    )  # fmt: skip


@task
def cxr_contrabench(  # noqa: PLR0913 (what -T names)
    data: str,
    roots: Any = None,
    tasks: Names = None,
    filter: str | None = None,
    skip_missing_images: bool = False,
    control: str | None = None,
    wording: int = 0,
    rows: str | None = None,
    images: str = "all",
    send_images_to: str | None = None,
    i_have_permission: Names = None,
):
    """Build the task of CXR-ContraBench.

    Args:
        data: As in `lm_eval`.
        roots: As in `lm_eval`.
        tasks: Names or groups, which also choose the prompt; by default all in `medfaith_contrabench` with rows in
            `data`.
        filter: As in `lm_eval`.
        skip_missing_images: As in `lm_eval`.
        control: As in `lm_eval`.
        wording: As in `lm_eval`.
        rows: As in `lm_eval`.
        images: As in `lm_eval`.
        send_images_to: As in `lm_eval`.
        i_have_permission: As in `lm_eval`.
    """
    permission = Permission(send_images_to, split(i_have_permission))
    return _build_task(
        "cxr_contrabench", tasks, data, roots, filter, permission, ("medfaith_contrabench",),
        skip_missing_images=skip_missing_images, control=control, wording=wording, row_ids=rows, images=images,
    )  # fmt: skip


@task
def surgxbench(  # noqa: PLR0913 (what -T names)
    data: str,
    roots: Any = None,
    tasks: Names = None,
    skip_missing_images: bool = False,
    control: str | None = None,
    wording: int = 0,
    rows: str | None = None,
    send_images_to: str | None = None,
    i_have_permission: Names = None,
):
    """Build the task of SurgXBench. Answers in words have no heatmaps, so scores of attention are undefined.

    Args:
        data: As in `lm_eval`.
        roots: As in `lm_eval`.
        tasks: Names or groups; by default all in `medfaith_surgx` with rows in `data`.
        skip_missing_images: As in `lm_eval`.
        control: As in `lm_eval`.
        wording: As in `lm_eval`.
        rows: As in `lm_eval`.
        send_images_to: As in `lm_eval`.
        i_have_permission: As in `lm_eval`.
    """
    permission = Permission(send_images_to, split(i_have_permission))
    return _build_task(
        "surgxbench", tasks, data, roots, None, permission, ("medfaith_surgx",),
        skip_missing_images=skip_missing_images, control=control, wording=wording, row_ids=rows,
    )  # fmt: skip


def _build_task(
    title: str,
    names: Names,
    data: str,
    roots: Any,
    filter: str | None,
    permission: Permission,
    default: Sequence[str] = (),
    **options: Any,
) -> Task:
    """Build the task of some lm-eval tasks under one condition.

    Args:
        title: Name of the data set in the log.
        names: Names or groups; None for all tasks of `default` with rows in `data`.
        data: As in `lm_eval`.
        roots: As in `lm_eval`.
        filter: As in `lm_eval`.
        permission: Who may get images.
        default: Groups.
        **options: Metadata of the tasks.
    """
    changed = {name: value for name, value in options.items() if value not in (None, False, 0, "all")}
    condition_metadata = {name: changed[name] for name in ("control", "wording") if name in changed}
    condition = ", ".join(
        f"wording_{value}" if name == "wording" else value for name, value in condition_metadata.items()
    )
    try:
        loaded = _load_tasks(names, default, str(data), roots, changed)
        for loaded_task in loaded:
            questions.choose_filter(loaded_task.config, filter)
        subtasks = [Subtask(loaded_task, condition, condition_metadata) for loaded_task in loaded]
        return build_task(title, subtasks, permission, filter)
    except MedfaithError as error:
        raise stop(error) from None


def _load_tasks(names: Names, default: Sequence[str], data: str, roots: Any, options: Mapping[str, Any]) -> list[Any]:
    """Load the named tasks, or all tasks of the default groups with rows and roots; a note names each omitted task."""
    requested = split(names)
    tasks: dict[str, Any] = {}
    faults = []
    for name in requested or [member for group in default for member in questions.load_recipes(group)]:
        try:
            tasks |= questions.load(name, data, roots, refused=questions.MORE_THAN_OUTPUTS, **options)
        except (InputError, MissingSourceError) as error:
            if requested:
                raise
            faults.append(error)
    if not tasks:
        raise faults[0]
    for error in faults:
        print(f"medfaith: left out: {str(error).splitlines()[0]}", file=sys.stderr)
    return [*tasks.values()]


def split(names: Names) -> list[str]:
    """Split an argument of a task that may name several things.

    Args:
        names: A text with commas, or a list.

    Returns:
        The list of names; empty for None.
    """
    return [] if names is None else names.split(",") if isinstance(names, str) else names


def build_task(
    title: str,
    subtasks: Sequence[Subtask],
    permission: Permission,
    filter: str | None = None,
    metadata: Mapping[str, Any] = MappingProxyType({}),
) -> Task:
    """Build the task of Inspect for some subtasks.

    Args:
        title: Name of the data set in the log.
        subtasks: The subtasks.
        permission: Who may get images.
        filter: As in `lm_eval`.
        metadata: Further metadata of the log.

    Returns:
        The task.
    """
    all_settings = [subtask.settings for subtask in subtasks]
    common = {
        name: value
        for name, value in all_settings[0].items()
        if all(settings[name] == value for settings in all_settings)
    }
    return Task(
        dataset=MemoryDataset(list(build_samples(subtasks)), name=title),
        solver=ask(Questions(subtasks, common, permission)),
        scorer=answers(filter),
        config=GenerateConfig(**common),  # the options of `inspect eval` take precedence
        metadata={SUBTASKS: [subtask.describe() for subtask in subtasks], **metadata},
    )


class Questions:
    """The subtasks of a task, passed to its solver. A log shows only their labels.

    Args:
        subtasks: The subtasks.
        common: Settings of generation that all subtasks share.
        permission: Who may get images.
    """

    def __init__(self, subtasks: Sequence[Subtask], common: Mapping[str, Any], permission: Permission) -> None:
        self.subtasks, self.permission, self._common = subtasks, permission, common

    def __repr__(self) -> str:
        return ", ".join(subtask.label for subtask in self.subtasks)

    def own_settings(self, subtask: Subtask) -> dict[str, Any]:
        """Return the settings of generation that a subtask does not share.

        Args:
            subtask: The subtask.

        Returns:
            Name -> value.
        """
        return {name: value for name, value in subtask.settings.items() if name not in self._common}


@solver
def ask(task_questions: Questions) -> Solver:
    """Build the solver that shows a row's images and prompt, asks the model and reads its answer.

    Args:
        task_questions: The subtasks of the task.

    Returns:
        The solver.
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        subtask, row = task_questions.subtasks[state.metadata["part"]], state.metadata["row"]
        try:
            if state.epoch > 1:
                raise InputError("--epochs", "asks each row again", expected="one answer a row", action="leave it out")
            task_questions.permission.check(get_model(), subtask, row)
            state.user_prompt.content = build_content(subtask, row)
            state = await generate(state, **task_questions.own_settings(subtask))
            state.metadata |= read_answer(subtask, row, state.output)
        except MedfaithError as error:
            raise stop(error) from None
        return state

    return solve
