"""Planning of an audit: the tasks of each benchmark, and the rows of each task."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from medfaith.loaders.errors import InputError, MissingSourceError
from medfaith.loaders.row_ids import write_ids
from medfaith.tasks.controls import UnsupportedControlError
from medfaith.tasks.run import load_tasks
from medfaith.tasks.shards import Shard, list_patients, positions

ROWS = "rows.csv"


class Task(NamedTuple):
    """A task and its rows in this audit.

    Attributes:
        name: Name of the task in lm-eval.
        benchmark: Name of its benchmark.
        ids: Ids of the rows.
        digest: Hash of the rows' questions, options, answers and images; it differs between two builds.
    """

    name: str
    benchmark: str
    ids: tuple[str, ...]
    digest: str


def plan(
    tasks_by_benchmark: Mapping[str, Sequence[str]],
    metadata: Mapping[str, Any],
    limit: int | None = None,
    *,
    explicit: bool = True,
    looks: bool = False,
    has_other: bool = False,
) -> tuple[list[Task], list[str]]:
    """Choose the tasks and rows of an audit.

    Args:
        tasks_by_benchmark: Benchmark -> names of its tasks.
        metadata: Metadata of the tasks.
        limit: Number of rows of each task; None for all.
        explicit: Whether each benchmark must have a task in the data.
        looks: Whether the model needs images. A task whose first image cannot be opened is then left out.
        has_other: Whether the audit asks with another patient's image. A benchmark without such an image is refused,
            since rule 2 rests on it.

    Returns:
        The tasks, and a note for each task that is left out.

    Raises:
        InputError: A benchmark has none of its tasks, or no task is left; see also `tasks.rows.load`.
    """
    tasks, notes = [], []
    for benchmark, names in tasks_by_benchmark.items():
        faults = []
        for name in names:
            try:
                tasks.append(_task(name, benchmark, metadata, limit, looks=looks))
            except (InputError, MissingSourceError) as error:
                faults.append(error)
        if len(faults) == len(names) and explicit:
            raise faults[0]
        notes += [f"left out: {str(error).splitlines()[0]}" for error in faults]
    if not tasks:
        fault = "has no row of a task that can be audited"
        raise InputError(str(metadata.get("data")), fault, expected="what medfaith build wrote", action=notes[0])
    if has_other:
        for benchmark in dict.fromkeys(task.benchmark for task in tasks):
            _require_donors([task for task in tasks if task.benchmark == benchmark], metadata)
    return tasks, notes


def restrict_tasks(tasks: Sequence[Task], shard: Shard, metadata: Mapping[str, Any]) -> list[Task]:
    """Restrict the tasks of an audit to the patients of a shard, the same ones under each control.

    Args:
        tasks: Tasks with their rows.
        shard: The shard.
        metadata: Metadata of the tasks.

    Returns:
        The tasks that have a row in the shard.
    """
    restricted = []
    for task in tasks:
        loaded = load_tasks(task.name, metadata)["tasks"][task.name]
        patients = dict(zip(loaded.eval_docs.with_format(None)["id"], list_patients(loaded), strict=True))
        places = positions([patients[row_id] for row_id in task.ids], shard)
        if places:
            restricted.append(task._replace(ids=tuple(task.ids[place] for place in places)))
    return restricted


def _require_donors(tasks: Sequence[Task], metadata: Mapping[str, Any]) -> None:
    """Raise InputError if no row of a benchmark has an image of another patient with another right answer."""
    faults = []
    for task in tasks:
        try:
            with contextlib.redirect_stderr(io.StringIO()):  # the run itself says which rows are left out
                loaded = load_tasks(task.name, dict(metadata) | {"control": "other"})
            rows = loaded["tasks"][task.name].dataset["test"]
            if {*task.ids} & {*rows.with_format(None)["id"]}:
                return
            faults.append("none of the chosen rows has one")
        except UnsupportedControlError as error:
            faults.append(error.found)
    fault = f"{tasks[0].benchmark}: no row can be asked with another patient's image ({faults[0]})"
    action = "audit more rows, leave the benchmark out, or give --rule 1 or --controls without other"
    raise InputError(
        "control other", fault, expected="rows of two patients with different right answers", action=action
    )


def write_rows(out: Path, tasks: Sequence[Task]) -> Path:
    """Write the ids of the rows to rows.csv, for `--rows` and for the tasks themselves.

    Args:
        out: Folder of the audit.
        tasks: Tasks with their rows.

    Returns:
        Path of the file.
    """
    rows = [{"id": row_id, "benchmark": task.benchmark, "task": task.name} for task in tasks for row_id in task.ids]
    write_ids(out / ROWS, rows)
    return out / ROWS


def sample_strata(strata: Sequence[tuple[str, ...]], ids: Sequence[str], limit: int | None) -> list[int]:
    """Sample rows so that each stratum keeps its share, up to rounding.

    The rows are sorted by stratum and, within one, by a hash of the id. Every (n / limit)-th row is taken.

    Args:
        strata: Stratum of each row.
        ids: Id of each row.
        limit: Number of rows to take; None for all.

    Returns:
        Positions of the rows, ascending.

    >>> sample_strata([("A",), ("B",), ("A",), ("B",)], ["1", "2", "3", "4"], 2)
    [2, 3]
    """
    n = len(ids)
    if limit is None or limit >= n:
        return list(range(n))
    ordered = sorted(
        range(n), key=lambda position: (strata[position], hashlib.blake2b(ids[position].encode()).digest())
    )
    return sorted(ordered[int((step + 0.5) * n / limit)] for step in range(limit))


def _task(name: str, benchmark: str, metadata: Mapping[str, Any], limit: int | None, *, looks: bool) -> Task:
    rows = load_tasks(name, metadata)["tasks"][name].dataset["test"]
    if looks:
        rows[0]["images"][0]
    docs = [doc | {"images": str(doc["images"])} for doc in rows]
    strata = [(doc["options"][doc["answer"]], doc.get("finding") or doc["topic"]) for doc in docs]
    selected = [docs[position] for position in sample_strata(strata, [doc["id"] for doc in docs], limit)]
    questions = [[doc["id"], doc["question"], [*doc["options"]], doc["answer"], doc["images"]] for doc in selected]
    digest = hashlib.sha256(json.dumps(questions).encode()).hexdigest()[:16]
    return Task(name, benchmark, tuple(doc["id"] for doc in selected), digest)
