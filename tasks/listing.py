"""What there is to run, for people who choose: the tasks and groups of this package, read from their YAML files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from . import BASELINES, LOOKING
from .index import Task, leaves, task_index
from .preflight import KINDS

_IMAGES_ELSEWHERE = {"chexstruct": "openi", "chest_imagenome": "mimic_cxr"}  # labels -> whose images they are about


class Listed(NamedTuple):
    """A task, a group of tasks, or a tag of lm-eval.

    tasks: those in it. data: the repositories of their rows, which `medfaith build` writes. roots: ids of the sources
    of the images. models: the only model types that can answer it, () for any. scores: it needs a model type that gives
    log-likelihoods. heatmaps: the model types whose heatmaps it also scores. prompts: by their names, () for the
    benchmark's usual one.
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
    """Every name that lm-eval's `--tasks` takes of this package; of each benchmark groups, then tasks, then tags."""
    index, kinds = task_index(), ("GROUP", "TASK", "TAG")
    benchmark = {name: name.split("_")[1] for name in index}
    names = sorted(index, key=lambda name: (benchmark[name], kinds.index(index[name].kind.name), name))
    return [_listed(name, index) for name in names]


def scoring_models() -> list[str]:
    """Model types that give log-likelihoods with images, reference models left out."""
    return [name for name, kind in KINDS.items() if kind.scores and name not in BASELINES | LOOKING]


def _listed(name: str, index: Mapping[str, Any]) -> Listed:
    tasks = list(leaves(name, index))
    # The tasks that a group writes itself have no file, and are as their group.
    own = [_metadata(index, task.name if task.name in index else name) for task in tasks]
    models = [tuple(of.get("only_models", ())) for of in own]
    return Listed(
        name,
        _metadata(index, name).get("description", "All tasks of the benchmark that have a file of their own"),
        tasks,
        _distinct(repository for task in tasks for repository in _repositories(task)),
        _distinct(root for task in tasks for root in _roots(task)),
        models[0] if len(set(models)) == 1 else (),
        all(task.scores for task in tasks),
        _distinct(model for of in own for model in of.get("heatmap_models", ())),
        _distinct(task.rows["prompt"] for task in tasks if "prompt" in task.rows),
    )


def _metadata(index: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return (index[name].cfg or {}).get("metadata", {})


def _repositories(task: Task) -> list[str]:
    """Of the rows, and of the examples before them."""
    return [task.rows[name] for name in ("repository", "pool_repository") if name in task.rows]


def _roots(task: Task) -> list[str]:
    """Of the rows, and of the examples that are shown with their images."""
    shown = _repositories(task) if task.rows.get("exemplar_images") else [task.rows["repository"]]
    sources = [repository.rpartition("-")[2] for repository in shown]
    return [_IMAGES_ELSEWHERE.get(source, source) for source in sources]


def _distinct(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(words)))
