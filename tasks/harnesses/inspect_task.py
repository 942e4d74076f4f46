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
from . import questions
from .inspect_parts import PARTS, Part, Permission, build_content, build_samples, read_answer
from .inspect_score import answers, stop

Words = str | list[str] | None


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
    send_images_to: str | None = None,
    i_have_permission: Words = None,
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
        send_images_to: The host or the provider of Inspect outside of your network that may get images and texts.
        i_have_permission: Sources whose owners permit that although their terms do not.
    """
    permission = Permission(send_images_to, split(i_have_permission))
    return _build_task(
        name, [name], data, roots, filter, permission, skip_missing_images=skip_missing_images, control=control,
        wording=wording, row_ids=rows, images=images,
    )  # fmt: skip


@task
def heal_medvqa(  # noqa: PLR0913 (what -T names)
    data: str,
    roots: Any = None,
    tasks: Words = None,
    filter: str | None = None,
    skip_missing_images: bool = False,
    control: str | None = None,
    wording: int = 0,
    rows: str | None = None,
    send_images_to: str | None = None,
    i_have_permission: Words = None,
):
    """Build the task of HEAL-MedVQA.

    Args:
        data: As in `lm_eval`.
        roots: As in `lm_eval`.
        tasks: Words or groups; by default those of `medfaith_heal_vindr` and `medfaith_heal_mimic` with rows in `data`.
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
        "heal_medvqa", tasks, data, roots, filter, permission, ("medfaith_heal_vindr", "medfaith_heal_mimic"),
        skip_missing_images=skip_missing_images, control=control, wording=wording, row_ids=rows,
    )  # fmt: skip


@task
def cxr_contrabench(  # noqa: PLR0913 (what -T names)
    data: str,
    roots: Any = None,
    tasks: Words = None,
    filter: str | None = None,
    skip_missing_images: bool = False,
    control: str | None = None,
    wording: int = 0,
    rows: str | None = None,
    images: str = "all",
    send_images_to: str | None = None,
    i_have_permission: Words = None,
):
    """Build the task of CXR-ContraBench.

    Args:
        data: As in `lm_eval`.
        roots: As in `lm_eval`.
        tasks: Words or groups, which also choose the prompt; by default those of `medfaith_contrabench` with rows in
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
    tasks: Words = None,
    skip_missing_images: bool = False,
    control: str | None = None,
    wording: int = 0,
    rows: str | None = None,
    send_images_to: str | None = None,
    i_have_permission: Words = None,
):
    """Build the task of SurgXBench. Answers in words have no heatmaps, so scores of attention are undefined.

    Args:
        data: As in `lm_eval`.
        roots: As in `lm_eval`.
        tasks: Words or groups; by default those of `medfaith_surgx` with rows in `data`.
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
    names: Words,
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
        names: Words or groups; None for all tasks of `default` with rows in `data`.
        data: As in `lm_eval`.
        roots: As in `lm_eval`.
        filter: As in `lm_eval`.
        permission: Who may get images.
        default: Groups.
        **options: Metadata of the tasks.
    """
    changed = {name: value for name, value in options.items() if value not in (None, False, 0, "all")}
    asked = {name: changed[name] for name in ("control", "wording") if name in changed}
    condition = ", ".join(f"wording_{value}" if name == "wording" else value for name, value in asked.items())
    try:
        loaded = _load_tasks(names, default, str(data), roots, changed)
        for loaded_task in loaded:
            questions.choose_filter(loaded_task.config, filter)
        return build_task(title, [Part(loaded_task, condition, asked) for loaded_task in loaded], permission, filter)
    except MedfaithError as error:
        raise stop(error) from None


def _load_tasks(names: Words, default: Sequence[str], data: str, roots: Any, options: Mapping[str, Any]) -> list[Any]:
    """Load the named tasks, or all tasks of the default groups with rows and roots; a note names those left out."""
    listed = split(names)
    tasks: dict[str, Any] = {}
    faults = []
    for name in listed or [member for group in default for member in questions.load_recipes(group)]:
        try:
            tasks |= questions.load(name, data, roots, refused=questions.NO_WORDS, **options)
        except (InputError, MissingSourceError) as error:
            if listed:
                raise
            faults.append(error)
    if not tasks:
        raise faults[0]
    for error in faults:
        print(f"medfaith: left out: {str(error).splitlines()[0]}", file=sys.stderr)
    return [*tasks.values()]


def split(words: Words) -> list[str]:
    """Split an argument of a task that may name several things.

    Args:
        words: A text with commas, or a list.

    Returns:
        The names; empty without any.
    """
    return [] if words is None else words.split(",") if isinstance(words, str) else words


def build_task(
    title: str,
    parts: Sequence[Part],
    permission: Permission,
    filter: str | None = None,
    metadata: Mapping[str, Any] = MappingProxyType({}),
) -> Task:
    """Build the task of Inspect for some parts.

    Args:
        title: Name of the data set in the log.
        parts: The parts.
        permission: Who may get images.
        filter: As in `lm_eval`.
        metadata: Further metadata of the log.

    Returns:
        The task.
    """
    settings = [part.settings for part in parts]
    common = {name: value for name, value in settings[0].items() if all(other[name] == value for other in settings)}
    return Task(
        dataset=MemoryDataset(list(build_samples(parts)), name=title),
        solver=ask(Questions(parts, common, permission)),
        scorer=answers(filter),
        config=GenerateConfig(**common),  # in which the options of `inspect eval` take precedence
        metadata={PARTS: [part.describe() for part in parts], **metadata},
    )


class Questions:
    """The parts of a task, as an argument of its solver: a log shows the short text.

    Args:
        parts: The parts.
        common: Settings of generation that all parts share.
        permission: Who may get images.
    """

    def __init__(self, parts: Sequence[Part], common: Mapping[str, Any], permission: Permission) -> None:
        self.parts, self.permission, self._common = parts, permission, common

    def __repr__(self) -> str:
        return ", ".join(part.label for part in self.parts)

    def own_settings(self, part: Part) -> dict[str, Any]:
        """Return the settings of generation that a part does not share.

        Args:
            part: The part.

        Returns:
            Name -> value.
        """
        return {name: value for name, value in part.settings.items() if name not in self._common}


@solver
def ask(asked: Questions) -> Solver:
    """Build the solver that shows a row's images and prompt, asks the model and reads its answer.

    Args:
        asked: The parts of the task.

    Returns:
        The solver.
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        part, row = asked.parts[state.metadata["part"]], state.metadata["row"]
        try:
            if state.epoch > 1:
                raise InputError("--epochs", "asks each row again", expected="one answer a row", action="leave it out")
            asked.permission.check(get_model(), part, row)
            state.user_prompt.content = build_content(part, row)
            state = await generate(state, **asked.own_settings(part))  # pyright: ignore[reportArgumentType]
            state.metadata |= read_answer(part, row, state.output)
        except MedfaithError as error:
            raise stop(error) from None
        return state

    return solve
