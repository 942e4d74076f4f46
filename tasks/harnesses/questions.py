"""What the harnesses share: an lm-eval task of ours, and how it reads and scores given answers."""

from __future__ import annotations

import base64
import functools
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from ...loaders import sources
from ...loaders.errors import InputError
from .. import include_path

NOT_BY_ANSWERS = ("medfaith_wrong_lung", "medfaith_surgx", "medfaith_contrabench_option_scores")


def recipes(name: str) -> dict[str, dict[str, Any]]:
    """Name -> the YAML of a task: of one task, of GROUP::TASK, or of all tasks of a group. No row is read."""
    from lm_eval.tasks import TaskManager

    index = TaskManager(include_path=str(include_path()), include_defaults=False).task_index
    group, _, member = name.partition("::")
    if group not in index:
        raise InputError(f"task {name!r}", "no such task", action="choose one that medfaith tasks --list names")
    found = dict(_members(group, index))
    if member and name not in found:
        raise InputError(f"task {name!r}", f"{group} has no such task", expected=f"one of {', '.join(found)}")
    found = {name: found[name]} if member else found
    if refused := next((one for one in found if one.startswith(NOT_BY_ANSWERS)), None):
        raise InputError(f"task {refused!r}", "is scored on more than answers", action="use medfaith eval")
    return found


def _members(name: str, index: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    from lm_eval.tasks._yaml_loader import load_yaml

    path = index[name].yaml_path
    given = load_yaml(path) if path else {"task": sorted(index[name].tags)}  # a tag has no file
    if isinstance(given["task"], str):
        yield name, given
        return
    shared = {key: value for key, value in given.items() if key not in ("group", "task", "tag")}
    for member in given["task"]:
        if isinstance(member, str):
            yield from _members(member, index)
        else:
            one = f"{name}::{member['task']}"
            yield one, shared | member | {"task": one}


def load(name: str, data: str, roots: Any = None, skip_missing_images: bool = False) -> dict[str, Any]:
    """Name -> lm-eval task, with its rows: one, or those of a group. roots: as in `resolve_roots`."""
    from lm_eval.api.task import ConfigurableTask

    known = {source: str(path) for source, path in resolve_roots(roots).items()}
    metadata = {"data": data, "roots": known, "skip_missing_images": skip_missing_images}
    tasks: dict[str, Any] = {}
    for one, recipe in recipes(name).items():
        own = {key: value for key, value in recipe.items() if key != "tag"}
        tasks[one] = ConfigurableTask(config=own | {"metadata": recipe.get("metadata", {}) | metadata})
        list(tasks[one].test_docs()[0]["images"])  # a source without a root stops here, not at each question
    return tasks


def load_one(name: str, *where: Any) -> Any:
    """One task: the name of one, or GROUP::TASK. where: further arguments of `load`."""
    if name not in (known := recipes(name)):
        raise InputError(f"task {name!r}", "is not one task", expected=f"one of {', '.join(known)}")
    return load(name, *where)[name]


@functools.cache
def scoring(name: str) -> Any:
    """The settings of one task, which are enough to score answers without its rows."""
    from lm_eval.config.task import TaskConfig

    return TaskConfig(**recipes(name)[name])


def resolve_roots(given: Mapping[str, str] | Sequence[str] | str | None) -> dict[str, Path]:
    """Source -> folder, as given or from the user's settings. given: a mapping, or one or several `chexpert=PATH`."""
    if not isinstance(given, Mapping):
        given = sources.parse_root_arguments([given] if isinstance(given, str) else [*(given or ())])
    return sources.resolve_roots(given, environ=os.environ, config=sources.user_config())


def filters(config: Any) -> dict[str, Callable[[list[list[str]], list[dict]], list[str]] | None]:
    """Name of each filter of a task -> its function; the filter "none" takes the answer as it is."""
    given = config.filter_list or ()
    return {one["name"]: one["filter"][0]["filter_fn"] for one in given} or {"none": None}


def reading(config: Any, wanted: str | None) -> str:
    """The name of the wanted filter, by default of the task's first."""
    if wanted not in (None, *(known := [*filters(config)])):
        raise InputError(f"filter {wanted!r}", "the task has no such filter", expected=f"one of {', '.join(known)}")
    return wanted or known[0]


def read(config: Any, doc: Mapping[str, Any], text: str, reading: str) -> str:
    """An answer as a filter of the task hands it on."""
    function = filters(config)[reading]
    return function([[text]], [dict(doc)])[0] if function else text


def aggregate(config: Any, found: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What lm-eval's aggregations make of rows that `process_results` has scored, by metric."""
    from lm_eval.api.registry import get_aggregation

    given = {one["metric"]: one["aggregation"] for one in config.metric_list}
    functions: dict[str, Any] = {
        name: get_aggregation(one) if isinstance(one, str) else one for name, one in given.items()
    }
    names = dict.fromkeys(name for items in found for name in items)
    return {name: functions[name]([items[name] for items in found if name in items]) for name in names}


def texts(task: Any, doc: Mapping[str, Any]) -> list[str]:
    """The texts of a prompt around its images: one more than images, empty between two that follow each other."""
    return [text.strip() for text in task.doc_to_text(doc).split("<image>")]


def encode_png(image: Image.Image) -> str:
    """An image's pixels, unchanged, as base64 text of a PNG file."""
    file = io.BytesIO()
    image.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()
