"""Pairs of answers that may be compared: answers to the same rows of the same task under the same settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from medfaith.loaders.errors import InputError
from medfaith.logs.inspect_logs import converted_logs

from ..answers import Answers
from ..results import read_results
from ..unread import collect_run_notes

_COMMON = "--common compares the rows that both have"


class Side(NamedTuple):
    """The answers of one model in one RUN.

    Attributes:
        path: Path of the run.
        name: Name of the model.
        answers: Answers by task.
        notes: Notes on runs that are left out.
        warnings: Warnings of unread, declined and cut answers, which count as wrong.
    """

    path: Path
    name: str
    answers: list[Answers]
    notes: list[str]
    warnings: list[str]


class Pair(NamedTuple):
    """Two models' figures for the rows of one task.

    Attributes:
        task: Title of the task.
        metric: Name of the figure.
        before: Shape (n,), the first model's figures.
        after: Shape (n,), the other model's figures.
        groups: Shape (n,), numbers of the groups.
    """

    task: str
    metric: str
    before: np.ndarray
    after: np.ndarray
    groups: np.ndarray


def read_side(path: Path, rows: Path | None = None) -> Side:
    """Read the answers in a folder, results file, sample log or log of Inspect.

    Args:
        path: The folder or file.
        rows: A csv file of row ids; see `results.read_results`.

    Returns:
        The answers of its one model.

    Raises:
        InputError: The runs are of several models, or hold a task twice; see also `results.read_results`.
    """
    with converted_logs([path]) as converted:
        results = read_results(converted, rows)
        warnings = collect_run_notes(results.in_words)  # reads answers again
    answers, notes = results.collect_answers()
    if not answers:
        raise InputError(path, "holds no run that can be compared", expected="a task in which more is better")
    models = sorted({answers_of_task.model for answers_of_task in answers})
    if len(models) > 1:
        fault = f"holds runs of {len(models)} models ({', '.join(models)})"
        raise InputError(path, fault, expected="the run of one model", action="name the folder of each model")
    sides: dict[tuple, Answers] = {}
    for answers_of_task in answers:
        earlier = sides.setdefault(
            (answers_of_task.task, answers_of_task.metric, *sorted(answers_of_task.how.items())), answers_of_task
        )
        if earlier is not answers_of_task:
            variants = f"{earlier.variant or 'no arguments'} and {answers_of_task.variant or 'none'}"
            fault = f"holds {answers_of_task.task} twice, with {variants}"
            raise InputError(path, fault, expected="one run of a task", action="name the folder of each run")
    return Side(path, models[0], answers, notes + results.notes, warnings)


def match(first_side: Side, other_side: Side, *, common: bool = False) -> tuple[list[Pair], list[str]]:
    """Pair the answers of two models, task by task.

    Args:
        first_side: The model of reference.
        other_side: The other model.
        common: Whether to compare only the rows that both have with the same question.

    Returns:
        The pairs, and notes on tasks that are left out.

    Raises:
        InputError: The models have no task in common, or differ in rows or settings; the message names the difference.
    """
    mine, theirs = _group_by_task(first_side), _group_by_task(other_side)
    common_tasks = [task for task in mine if task in theirs]
    if not common_tasks:
        expected = f"a task of {first_side.path}: {', '.join(task for task, _ in mine)}"
        lacks = f"has none of its tasks, but {', '.join(task for task, _ in theirs)}"
        raise InputError(other_side.path, lacks, expected=expected, action="run lm-eval again with a task of both")
    notes = [
        f"{task} ({metric}) is left out: only {side.path} has it"
        for side, tasks in ((first_side, mine), (other_side, theirs))
        for task, metric in tasks
        if (task, metric) not in common_tasks
    ]
    pairs, faults = [], []
    for task in common_tasks:
        alike = [
            (answers_one, answers_two)
            for answers_one in mine[task]
            for answers_two in theirs[task]
            if answers_one.how == answers_two.how
        ]
        if not alike:
            faults.append(_describe_difference(mine[task][0], theirs[task][0]))
        notes += _list_unmatched([*mine[task], *theirs[task]], [answers_one.how for answers_one, _ in alike])
        for answers_one, answers_two in alike:
            pair, difference = _match_rows(answers_one, answers_two)
            if len(alike) > 1:
                distinction = _describe_distinction(answers_one.how, [answers.how for answers, _ in alike])
                pair = pair._replace(task=f"{pair.task} ({distinction})")
            if difference and (not common or not len(pair.groups)):
                faults.append(f"{pair.task}: {difference}")
            elif difference:
                notes.append(f"{pair.task}: {len(pair.groups):,} common rows are compared; {difference}")
            pairs.append(pair)
    if faults:
        raise InputError(
            other_side.path,
            f"cannot be compared with {first_side.path}:" + "".join(f"\n    {fault}" for fault in faults),
            expected="the same rows, prompt, layout, control, wording and version of each common task",
            action=f"run one of them again as the other; of other rows, {_COMMON}",
        )
    return pairs, notes


def _group_by_task(side: Side) -> dict[tuple[str, str], list[Answers]]:
    tasks: dict[tuple[str, str], list[Answers]] = {}
    for task_answers in side.answers:
        tasks.setdefault((task_answers.task, task_answers.metric), []).append(task_answers)
    return tasks


def _describe_distinction(conditions: Mapping[str, str], other_conditions: Sequence[Mapping[str, str]]) -> str:
    """Describe the settings that distinguish these conditions, for example "original" if only layouts differ."""
    return ", ".join(
        value for name, value in conditions.items() if any(compared.get(name) != value for compared in other_conditions)
    )


def _list_unmatched(answers: Sequence[Answers], matched: Sequence[Mapping[str, str]]) -> list[str]:
    """List notes on answers whose settings only one run has."""
    unmatched = [task_answers for task_answers in answers if matched and task_answers.how not in matched]
    return [
        f"{task_answers.task} ({_describe_distinction(task_answers.how, matched)}) is left out: only one run has it"
        for task_answers in unmatched
    ]


def _describe_difference(answers_one: Answers, answers_two: Answers) -> str:
    """Describe the settings in which the second run of a task differs from the first."""
    names = [
        name
        for name in {**answers_one.how, **answers_two.how}
        if answers_one.how.get(name) != answers_two.how.get(name)
    ]
    changes = (
        f"{name} {answers_two.how.get(name, 'unset')}, not {answers_one.how.get(name, 'unset')}" for name in names
    )
    return f"{answers_one.task}: {'; '.join(changes).replace('_', ' ')}"


def _match_rows(answers_one: Answers, answers_two: Answers) -> tuple[Pair, str]:
    """Match the rows of both; the text describes their differences, or is ""."""
    positions = {row: number for number, row in enumerate(answers_two.ids)}
    shared = [(number, positions[row]) for number, row in enumerate(answers_one.ids) if row in positions]
    same = [(i, j) for i, j in shared if answers_one.asked[i] == answers_two.asked[j]]
    counts = [
        (len(answers_one.ids) - len(shared), "rows are only in the first run"),
        (len(answers_two.ids) - len(shared), "rows are only in the second"),
        (len(shared) - len(same), "rows have another question, options or gold answer"),
    ]
    rows_one, rows_two = (np.array(column, dtype=int) for column in (zip(*same, strict=True) if same else ((), ())))
    numbers: dict = {}
    groups = [numbers.setdefault(answers_one.groups[i], len(numbers)) for i in rows_one]
    pair = Pair(
        answers_one.task,
        answers_one.metric,
        answers_one.values[rows_one],
        answers_two.values[rows_two],
        np.array(groups, dtype=int),
    )
    return pair, ", ".join(f"{n:,} {text}" for n, text in counts if n)
