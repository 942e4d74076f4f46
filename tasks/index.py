"""The tasks, groups and tags of this package, and the tasks that a name selects."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..loaders.errors import MedfaithError
from . import include_path


class Task(NamedTuple):
    """One task of this package.

    Attributes:
        name: The name that lm-eval's `--tasks` takes.
        rows: The `dataset_kwargs`, which name the rows.
        scores: Whether the task scores options by log-likelihood.
    """

    name: str
    rows: Mapping[str, Any]
    scores: bool


def select_tasks(names: str | Sequence[str], own_tasks: Path | None = None) -> list[Task]:
    """Select the tasks of this package, and the user's own tasks built on them, from a list of names.

    Groups and tags are resolved. Files and the tasks of lm-eval itself are left out.

    Args:
        names: Names or patterns, as a list or as one text with commas.
        own_tasks: The folder of the user's own tasks.

    Returns:
        The tasks, each once, in the order of the names.

    Raises:
        MedfaithError: A name is unknown, and close to the name of a task of this package.
    """
    index = task_index(own_tasks)
    tasks: dict[str, Task] = {}
    for name in _split_names(names):
        matches = fnmatch.filter(index, name)
        close = difflib.get_close_matches(name, index, n=3, cutoff=0.7)  # lm-eval's own names are further away
        if not matches and (close or "medfaith" in name) and not Path(name).exists():
            nearest = f"did you mean {' or '.join(close)}? " if close else ""
            raise MedfaithError(f"--tasks {name}: there is no such task\n  what to do: {nearest}medfaith tasks --list")
        tasks |= {task.name: task for match in matches for task in iterate_tasks(match, index)}
    return list(tasks.values())


def drop_repeats(names: str | Sequence[str], own_tasks: Path | None = None) -> list[str]:
    """Replace patterns by names, and omit names that another name covers: lm-eval refuses a task that is named twice.

    Args:
        names: As in `select_tasks`.
        own_tasks: As in `select_tasks`.

    Returns:
        The names of groups and tasks, which cover each task once; files and lm-eval's own tasks stay.

    Raises:
        MedfaithError: Two groups share some of their tasks, but not all.
    """
    index, selected = task_index(own_tasks), dict[str, set[str]]()
    requested = _split_names(names)
    matches = dict.fromkeys(match for name in requested for match in fnmatch.filter(index, name))
    covers = {match: {task.name for task in iterate_tasks(match, index)} for match in matches}
    for name in sorted(covers, key=lambda match: -len(covers[match])):
        covered = set[str]().union(*selected.values())
        if covers[name] <= covered:
            continue
        if shared := covers[name] & covered:
            problem = f"--tasks {name}: shares {min(shared)} with another group that is named"
            raise MedfaithError(f"{problem}\n  what to do: name one of the two groups, or single tasks")
        selected[name] = covers[name]
    unmatched_names = [name for name in requested if not fnmatch.filter(index, name)]
    return [*(match for match in matches if match in selected), *unmatched_names]


def is_complete(names: str | Sequence[str], own_tasks: Path | None = None) -> bool:
    """Return whether this package and the user's own tasks have all that the names select, so that none is lm-eval's.

    Args:
        names: As in `select_tasks`.
        own_tasks: As in `select_tasks`.

    Returns:
        False for a name without a match, for a file, and for a group with a task of lm-eval itself.
    """
    index = task_index(own_tasks)
    matches = [fnmatch.filter(index, name) for name in _split_names(names)]
    return all(matches) and all(_has_members(match, index) for found in matches for match in found)


def _has_members(name: str, index: Mapping[str, Any]) -> bool:
    """Return whether an index has a name, and each task and group that the name means."""
    if name not in index:
        return False
    config = index[name].cfg
    if config is None:  # a tag, which lm-eval's own tasks may have, too
        return name.startswith("medfaith_")
    members = config.get("task", ())
    return isinstance(members, str) or all(
        _has_members(member, index) if isinstance(member, str) else "dataset_kwargs" in member for member in members
    )


def _split_names(names: str | Sequence[str]) -> list[str]:
    texts = [names] if isinstance(names, str) else map(str, names)
    return [name.strip() for text in texts for name in text.split(",")]


def task_index(own_tasks: Path | None = None) -> Mapping[str, Any]:
    """Load lm-eval's index of this package: one entry by the name of each task, group and tag.

    Args:
        own_tasks: The folder of the user's own tasks, which the index then has, too.

    Returns:
        Name -> entry.
    """
    from lm_eval.tasks import TaskManager

    paths: list[str | Path] = [include_path(), *([own_tasks] if own_tasks is not None else [])]
    return TaskManager(include_path=paths, include_defaults=False).task_index


def iterate_tasks(name: str, index: Mapping[str, Any]) -> Iterator[Task]:
    """Iterate over the tasks of one entry of `task_index`.

    Args:
        name: The name of a task, group or tag.
        index: The result of `task_index`.

    Yields:
        The tasks of this package. Tasks of lm-eval itself are left out.
    """
    entry = index[name]
    for tagged in sorted(entry.tags) if entry.cfg is None else ():
        yield from iterate_tasks(tagged, index)
    config = entry.cfg or {}
    members = config.get("task", ())
    for member in [config] if isinstance(members, str) else members:
        if isinstance(member, str):
            yield from iterate_tasks(member, index)
        elif "dataset_kwargs" in member:
            full = name if member is config else f"{name}::{member['task']}"
            output = member.get("output_type", config.get("output_type"))
            yield Task(full, member["dataset_kwargs"], output == "multiple_choice")
