"""Functions for all harnesses: load one of our lm-eval tasks, and read and score given answers."""

from __future__ import annotations

import base64
import functools
import io
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from ...loaders import sources
from ...loaders.errors import InputError
from .. import lm_eval_internals
from ..index import task_index

# Beginnings of the names of tasks that need more than an output of a model -> the reason.
MORE_THAN_OUTPUTS = {
    "medfaith_wrong_lung": "scores heatmaps, which no answer holds",
    "medfaith_surgx_occlusion": "paints out the region of a heatmap, which no answer holds",
    "medfaith_contrabench_option_scores": "scores the log-likelihood of given texts, which only models of lm-eval give",
}
# As above, for harnesses that read rows from files, which hold no masks, and pass on the text of an answer alone.
MORE_THAN_ANSWERS = MORE_THAN_OUTPUTS | dict.fromkeys(
    (
        "medfaith_contrabench_letter_scores",
        "medfaith_surgx",
        *(f"medfaith_heal_{source}_stated_boxes" for source in ("vindr", "mimic", "nih")),
    ),
    "is scored on more than answers",
)


def load_recipes(name: str, refused: Mapping[str, str] = MORE_THAN_OUTPUTS) -> dict[str, dict[str, Any]]:
    """Load the YAML of tasks, without reading rows.

    Args:
        name: A task, GROUP::TASK, or a group for all of its tasks.
        refused: Beginnings of the names of tasks that are refused -> the reason.

    Returns:
        Name of the task -> its YAML.

    Raises:
        InputError: The task is unknown, or more than answers is scored.
    """
    index = _load_index()
    group, _, member = name.partition("::")
    if group not in index:
        raise InputError(f"task {name!r}", "no such task", action="choose one that medfaith tasks --list names")
    members = dict(_iterate_members(group, index))
    if member and name not in members:
        raise InputError(f"task {name!r}", f"{group} has no such task", expected=f"one of {', '.join(members)}")
    members = {name: members[name]} if member else members
    for task in members:
        for reason in (reason for beginning, reason in refused.items() if task.startswith(beginning)):
            raise InputError(f"task {task!r}", reason, action="use medfaith eval")
    return members


@functools.cache
def _load_index() -> Mapping[str, Any]:
    """Load the index of all tasks once: an audit loads each of its tasks under ten conditions."""
    return task_index()


def _iterate_members(name: str, index: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    path = index[name].yaml_path
    recipe = lm_eval_internals.read_task_file(path) if path else {"task": sorted(index[name].tags)}  # tags have no file
    if isinstance(recipe["task"], str):
        yield name, recipe
        return
    common_settings = {key: value for key, value in recipe.items() if key not in ("group", "task", "tag")}
    for member in recipe["task"]:
        if isinstance(member, str):
            yield from _iterate_members(member, index)
        else:
            full_name = f"{name}::{member['task']}"
            yield full_name, common_settings | member | {"task": full_name}


def load(
    name: str,
    data: str,
    roots: Any = None,
    skip_missing_images: bool = False,
    refused: Mapping[str, str] = MORE_THAN_ANSWERS,
    need_images: bool = True,
    **options: Any,
) -> dict[str, Any]:
    """Load a task, or all tasks of a group, with their rows.

    Args:
        name: A task, GROUP::TASK, or a group.
        data: The folder that `medfaith build` wrote, or a Hub organisation.
        roots: Roots of the sources, as in `resolve_roots`.
        skip_missing_images: Whether to omit rows with a missing or broken image.
        refused: As in `load_recipes`.
        need_images: Whether to open the images of the first row, so that a source without root fails at once.
        **options: Further metadata of the tasks, such as `control` (`tasks.rows.Options`).

    Returns:
        Name -> lm-eval task.
    """
    from lm_eval.api.task import ConfigurableTask

    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    paths = {source: str(path) for source, path in resolve_roots(roots).items()}
    metadata = {"data": data, "roots": paths, "skip_missing_images": skip_missing_images, **options}
    tasks: dict[str, Any] = {}
    for task_name, recipe in load_recipes(name, refused).items():
        settings = {key: value for key, value in recipe.items() if key != "tag"}
        tasks[task_name] = ConfigurableTask(config=settings | {"metadata": recipe.get("metadata", {}) | metadata})
        if need_images:
            tasks[task_name].test_docs()[0]["images"][:]
    return tasks


def load_one(name: str, *arguments: Any, **options: Any) -> Any:
    """Load one task.

    Args:
        name: A task, or GROUP::TASK.
        *arguments: Further arguments of `load`.
        **options: Further named arguments of `load`.

    Returns:
        The task, an lm-eval `ConfigurableTask`.

    Raises:
        InputError: The name belongs to a group.
    """
    if name not in (loaded_recipes := load_recipes(name, MORE_THAN_ANSWERS)):
        raise InputError(f"task {name!r}", "is not one task", expected=f"one of {', '.join(loaded_recipes)}")
    return load(name, *arguments, **options)[name]


@functools.cache
def load_settings(name: str) -> Any:
    """Load the settings of one task, which suffice to score answers without its rows.

    Args:
        name: A task, or GROUP::TASK.

    Returns:
        lm-eval's `TaskConfig`.
    """
    return lm_eval_internals.make_task_config(load_recipes(name)[name])


def resolve_roots(arguments: Mapping[str, str] | Sequence[str] | str | None) -> dict[str, Path]:
    """Resolve the folder of each source, from arguments or from the user's settings.

    Args:
        arguments: A mapping, or one or several `chexpert=PATH`.

    Returns:
        Source id -> folder.
    """
    if not isinstance(arguments, Mapping):
        arguments = sources.parse_root_arguments([arguments] if isinstance(arguments, str) else [*(arguments or ())])
    return sources.resolve_roots(arguments, environ=os.environ, config=sources.find_user_config())


def get_filters(config: Any) -> dict[str, Callable[[list[list[str]], list[dict]], list[str]] | None]:
    """Get the filters of a task.

    Args:
        config: Settings of the task.

    Returns:
        Name -> function; the filter "none" returns the answer unchanged.
    """
    filter_list = config.filter_list or ()
    return {item["name"]: item["filter"][0]["filter_fn"] for item in filter_list} or {"none": None}


def choose_filter(config: Any, filter_name: str | None) -> str:
    """Choose a filter of a task.

    Args:
        config: Settings of the task.
        filter_name: Name of the filter; by default the task's first.

    Returns:
        Name of the filter.

    Raises:
        InputError: The task has no such filter.
    """
    if filter_name not in (None, *(names := [*get_filters(config)])):
        raise InputError(
            f"filter {filter_name!r}", "the task has no such filter", expected=f"one of {', '.join(names)}"
        )
    return filter_name or names[0]


def read(config: Any, doc: Mapping[str, Any], text: str, filter_name: str) -> str:
    """Apply a filter of the task to an answer.

    Args:
        config: Settings of the task.
        doc: The row.
        text: The answer.
        filter_name: Name of the filter.

    Returns:
        The filter's reading; the answer itself for a filter without a function.
    """
    function = get_filters(config)[filter_name]
    return function([[text]], [dict(doc)])[0] if function else text


def aggregate(config: Any, scored_rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Aggregate rows that `process_results` has scored, as lm-eval does.

    Args:
        config: Settings of the task.
        scored_rows: Output of `process_results` for each row.

    Returns:
        Value by metric.
    """
    from lm_eval.api.registry import get_aggregation

    aggregations = {item["metric"]: item["aggregation"] for item in config.metric_list}
    functions: dict[str, Any] = {
        name: get_aggregation(item) if isinstance(item, str) else item for name, item in aggregations.items()
    }
    names = dict.fromkeys(name for items in scored_rows for name in items)
    return {name: functions[name]([items[name] for items in scored_rows if name in items]) for name in names}


def split_prompt(task: Any, doc: Mapping[str, Any]) -> list[str]:
    """Split the text of a prompt at its images.

    Args:
        task: The task.
        doc: The row.

    Returns:
        One text more than images, empty between adjacent images.
    """
    return [text.strip() for text in task.doc_to_text(doc).split("<image>")]


def encode_png(image: Image.Image) -> str:
    """Encode an image's unchanged pixels as base64 text of a PNG file.

    Args:
        image: The image.

    Returns:
        The text.
    """
    file = io.BytesIO()
    image.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()
