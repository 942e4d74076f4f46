"""The tasks and groups of this package for users who choose one, read from the YAML files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from . import BASELINES, LOOKING
from .index import Task, iterate_tasks, task_index
from .model_types import KINDS

_IMAGES_ELSEWHERE = {
    "chexstruct": "openi",
    "chest_imagenome": "mimic_cxr",
    "table": "images",
}  # source of labels -> source of images


class Listed(NamedTuple):
    """A task, a group of tasks, or a tag of lm-eval.

    Attributes:
        name: The name that lm-eval's `--tasks` takes.
        description: One line for users.
        tasks: The tasks of the entry.
        data: The repositories of their rows, which `medfaith build` writes.
        roots: The ids of the sources of the images.
        models: The only model types that can answer the tasks; () for any.
        scores: Whether the tasks need a model type that gives log-likelihoods.
        heatmaps: The model types whose heatmaps the tasks also score.
        prompts: The names of the prompts; () for the usual prompt of the benchmark.
    """

    name: str
    description: str
    tasks: Sequence[Task]
    data: Sequence[str]
    roots: Sequence[str]
    models: Sequence[str]
    scores: bool
    heatmaps: Sequence[str]
    prompts: Sequence[str]


def listed() -> list[Listed]:
    """List every name of this package that lm-eval's `--tasks` takes, by benchmark: groups, tasks, tags."""
    index, kinds = task_index(), ("GROUP", "TASK", "TAG")
    benchmark = {name: name.split("_")[1] for name in index}
    names = sorted(index, key=lambda name: (benchmark[name], kinds.index(index[name].kind.name), name))
    return [_describe_entry(name, index) for name in names]


def scoring_models() -> list[str]:
    """List the model types that give log-likelihoods with images, without the reference models."""
    return [name for name, kind in KINDS.items() if kind.scores and name not in BASELINES | LOOKING]


def _describe_entry(name: str, index: Mapping[str, Any]) -> Listed:
    """Describe one task, group or tag."""
    tasks = list(iterate_tasks(name, index))
    # A task that a group defines itself has no file. It has the metadata of its group.
    metadata = [_get_metadata(index, task.name if task.name in index else name) for task in tasks]
    models = [tuple(fields.get("only_models", ())) for fields in metadata]
    return Listed(
        name,
        _get_metadata(index, name).get("description", "All tasks of the benchmark that have a file of their own"),
        tasks,
        _sort_distinct(repository for task in tasks for repository in _list_repositories(task)),
        _sort_distinct(root for task in tasks for root in _list_roots(task)),
        models[0] if len(set(models)) == 1 else (),
        all(task.scores for task in tasks),
        _sort_distinct(model for fields in metadata for model in fields.get("heatmap_models", ())),
        _sort_distinct(task.rows["prompt"] for task in tasks if "prompt" in task.rows),
    )


def _get_metadata(index: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return (index[name].cfg or {}).get("metadata", {})


def _list_repositories(task: Task) -> list[str]:
    """List the repositories of a task's rows and of its exemplars."""
    return [task.rows[name] for name in ("repository", "pool_repository") if name in task.rows]


def _list_roots(task: Task) -> list[str]:
    """List the source ids of a task's images: of its rows, and of exemplars that have their images in the prompt."""
    repositories = _list_repositories(task) if task.rows.get("exemplar_images") else [task.rows["repository"]]
    sources = [repository.rpartition("-")[2] for repository in repositories]
    return [_IMAGES_ELSEWHERE.get(source, source) for source in sources]


def _sort_distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(values)))
