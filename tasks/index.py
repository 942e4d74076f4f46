"""Which tasks of this package there are, and which of them a name stands for."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..loaders.errors import MedfaithError
from . import include_path


class Task(NamedTuple):
    """One task of this package: its name, where its rows are, and whether it scores options by log-likelihood."""

    name: str
    rows: Mapping[str, Any]  # its `dataset_kwargs`
    scores: bool


def chosen(names: str | Sequence[str]) -> list[Task]:
    """This package's tasks among those that are named, groups and tags resolved; files and lm-eval's own are left out.

    Raises MedfaithError for a name that is none, but nearly the name of a task of this package.
    """
    index = task_index()
    asked = names.split(",") if isinstance(names, str) else [part for name in names for part in str(name).split(",")]
    found: dict[str, Task] = {}
    for name in (name.strip() for name in asked):
        matches = fnmatch.filter(index, name)
        close = difflib.get_close_matches(name, index, n=3, cutoff=0.7)  # lm-eval's own names are further away
        if not matches and (close or "medfaith" in name) and not Path(name).exists():
            nearest = f"did you mean {' or '.join(close)}? " if close else ""
            raise MedfaithError(f"--tasks {name}: there is no such task\n  what to do: {nearest}medfaith tasks --list")
        found |= {task.name: task for match in matches for task in leaves(match, index)}
    return list(found.values())


def task_index() -> Mapping[str, Any]:
    """lm-eval's entry of each task, group and tag of this package, by name."""
    from lm_eval.tasks import TaskManager

    return TaskManager(include_path=str(include_path()), include_defaults=False).task_index


def leaves(name: str, index: Mapping[str, Any]) -> Iterator[Task]:
    """The tasks that an entry of `task_index` stands for."""
    entry = index[name]
    for tagged in sorted(entry.tags) if entry.cfg is None else ():
        yield from leaves(tagged, index)
    config = entry.cfg or {}
    members = config.get("task", ())
    for member in [config] if isinstance(members, str) else members:
        if isinstance(member, str):
            yield from leaves(member, index)
        elif "dataset_kwargs" in member:
            full = name if member is config else f"{name}::{member['task']}"
            output = member.get("output_type", config.get("output_type"))
            yield Task(full, member["dataset_kwargs"], output == "multiple_choice")
