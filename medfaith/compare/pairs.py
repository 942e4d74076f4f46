"""Which answers of two runs may be compared: those to the same rows of the same task, put in the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from medfaith.loaders.errors import InputError
from medfaith.report.results import read_results

from .answers import Answers, all_answers

_COMMON = "--common compares the rows that both have"


class Side(NamedTuple):
    """What one RUN holds: the answers of one model. name: the model's."""

    path: Path
    name: str
    answers: list[Answers]
    notes: list[str]


class Pair(NamedTuple):
    """Two models' figures of the rows of one task. before, after: shape (n,); groups: shape (n,), as numbers."""

    task: str
    metric: str
    before: np.ndarray
    after: np.ndarray
    groups: np.ndarray


def read_side(path: Path, rows: Path | None = None) -> Side:
    """The answers in a folder, results file or sample log; rows: see `results.read_results`.

    Raises:
        InputError: see `results.read_results`; or it holds several models, or one model twice.
    """
    results = read_results([path], rows)
    answers, notes = all_answers(results)
    if not answers:
        raise InputError(path, "holds no run that can be compared", expected="a task in which more is better")
    models = sorted({one.model for one in answers})
    if len(models) > 1:
        found = f"holds runs of {len(models)} models ({', '.join(models)})"
        raise InputError(path, found, expected="the run of one model", action="name the folder of each model")
    seen: dict[tuple, Answers] = {}
    for one in answers:
        other = seen.setdefault((one.task, one.metric, *sorted(one.how.items())), one)
        if other is not one:
            found = f"holds {one.task} twice, with {other.variant or 'no arguments'} and {one.variant or 'none'}"
            raise InputError(path, found, expected="one run of a task", action="name the folder of each run")
    return Side(path, models[0], answers, notes + results.notes)


def match(first: Side, other: Side, *, common: bool = False) -> tuple[list[Pair], list[str]]:
    """A pair for each task of both, and notes on what is left out.

    common: of rows that only one side has, or of which something else was asked, leave both out.

    Raises:
        InputError: no task of both, or tasks that were put in another way or to other rows; it names what differs.
    """
    mine, theirs = _tasks(first), _tasks(other)
    both = [task for task in mine if task in theirs]
    if not both:
        expected = f"a task of {first.path}: {', '.join(task for task, _ in mine)}"
        lacks = f"has none of its tasks, but {', '.join(task for task, _ in theirs)}"
        raise InputError(other.path, lacks, expected=expected, action="run lm-eval again with a task of both")
    notes = [
        f"{task} ({metric}) is left out: only {side.path} has it"
        for side, tasks in ((first, mine), (other, theirs))
        for task, metric in tasks
        if (task, metric) not in both
    ]
    found, faults = [], []
    for task in both:
        alike = [(one, two) for one in mine[task] for two in theirs[task] if one.how == two.how]
        if not alike:
            faults.append(_difference(mine[task][0], theirs[task][0]))
        notes += _unmatched([*mine[task], *theirs[task]], [one.how for one, _ in alike])
        for one, two in alike:
            pair, difference = _same_rows(one, two)
            if len(alike) > 1:
                pair = pair._replace(task=f"{pair.task} ({_telling(one.how, [other.how for other, _ in alike])})")
            if difference and (not common or not len(pair.groups)):
                faults.append(f"{pair.task}: {difference}")
            elif difference:
                notes.append(f"{pair.task}: {len(pair.groups):,} common rows are compared; {difference}")
            found.append(pair)
    if faults:
        raise InputError(
            other.path,
            f"cannot be compared with {first.path}:" + "".join(f"\n    {fault}" for fault in faults),
            expected="the same rows, prompt, layout, control, wording and version of each common task",
            action=f"run one of them again as the other; of other rows, {_COMMON}",
        )
    return found, notes


def _tasks(side: Side) -> dict[tuple[str, str], list[Answers]]:
    tasks: dict[tuple[str, str], list[Answers]] = {}
    for one in side.answers:
        tasks.setdefault((one.task, one.metric), []).append(one)
    return tasks


def _telling(how: Mapping[str, str], others: Sequence[Mapping[str, str]]) -> str:
    """What tells this way to put a task from others: "original", where only the layouts differ."""
    return ", ".join(value for name, value in how.items() if any(other.get(name) != value for other in others))


def _unmatched(answers: Sequence[Answers], matched: Sequence[Mapping[str, str]]) -> list[str]:
    """Notes on answers to a task that only one of the runs has put in this way, while both have put it in another."""
    alone = [one for one in answers if matched and one.how not in matched]
    return [f"{one.task} ({_telling(one.how, matched)}) is left out: only one run has it" for one in alone]


def _difference(one: Answers, two: Answers) -> str:
    """In what the second run of a task was put in another way than the first."""
    names = [name for name in {**one.how, **two.how} if one.how.get(name) != two.how.get(name)]
    told = (f"{name} {two.how.get(name, 'unset')}, not {one.how.get(name, 'unset')}" for name in names)
    return f"{one.task}: {'; '.join(told).replace('_', ' ')}"


def _same_rows(one: Answers, two: Answers) -> tuple[Pair, str]:
    """The rows that both have, and what differs, or ""."""
    place = {row: number for number, row in enumerate(two.ids)}
    shared = [(number, place[row]) for number, row in enumerate(one.ids) if row in place]
    same = [(i, j) for i, j in shared if one.asked[i] == two.asked[j]]
    parts = [
        (len(one.ids) - len(shared), "rows are only in the first run"),
        (len(two.ids) - len(shared), "rows are only in the second"),
        (len(shared) - len(same), "rows have another question, options or gold answer"),
    ]
    left, right = (np.array(column, dtype=int) for column in (zip(*same, strict=True) if same else ((), ())))
    numbers: dict = {}
    groups = [numbers.setdefault(one.groups[i], len(numbers)) for i in left]
    pair = Pair(one.task, one.metric, one.values[left], two.values[right], np.array(groups, dtype=int))
    return pair, ", ".join(f"{n:,} {text}" for n, text in parts if n)
