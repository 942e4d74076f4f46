"""What an audit asks: the tasks of each benchmark, and the rows of each task."""

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

ROWS = "rows.csv"


class Task(NamedTuple):
    """A task and the rows that are asked. digest: of what they ask, which tells rows of two builds apart."""

    name: str
    benchmark: str
    ids: tuple[str, ...]
    digest: str


def plan(
    wanted: Mapping[str, Sequence[str]],
    metadata: Mapping[str, Any],
    limit: int | None = None,
    *,
    explicit: bool = True,
    looks: bool = False,
    has_other: bool = False,
) -> tuple[list[Task], list[str]]:
    """The tasks of these benchmarks whose rows are there, and notes on what is not.

    Args:
        wanted: benchmark -> its tasks. metadata: what the tasks take.
        limit: how many rows of each task to ask; None: all.
        explicit: whether each benchmark has to have a task in the data.
        looks: whether the images are needed; then a task whose first image cannot be opened is not there.
        has_other: whether the rows are to be asked with another patient's image. A benchmark of which no row has one is
            refused, since rule 2 rests on it.

    Raises:
        InputError: a benchmark without any of its tasks, or no task at all; see also `tasks.rows.load`.
    """
    tasks, notes = [], []
    for benchmark, names in wanted.items():
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
        found = "has no row of a task that can be audited"
        raise InputError(str(metadata.get("data")), found, expected="what medfaith build wrote", action=notes[0])
    if has_other:
        for benchmark in dict.fromkeys(task.benchmark for task in tasks):
            _require_donors([task for task in tasks if task.benchmark == benchmark], metadata)
    return tasks, notes


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
    found = f"{tasks[0].benchmark}: no row can be asked with another patient's image ({faults[0]})"
    action = "audit more rows, leave the benchmark out, or give --rule 1 or --controls without other"
    raise InputError(
        "control other", found, expected="rows of two patients with different right answers", action=action
    )


def write_rows(out: Path, tasks: Sequence[Task]) -> Path:
    """Writes the ids of the rows that are asked, for `--rows` and for the tasks themselves."""
    rows = [{"id": row_id, "benchmark": task.benchmark, "task": task.name} for task in tasks for row_id in task.ids]
    write_ids(out / ROWS, rows)
    return out / ROWS


def stratified(strata: Sequence[tuple[str, ...]], ids: Sequence[str], limit: int | None) -> list[int]:
    """Positions of `limit` rows in which each stratum has its share, up to rounding; all positions without a limit.

    The rows are laid in the order of their strata, within one by a hash of the id, and every (n / limit)-th is taken.

    >>> stratified([("A",), ("B",), ("A",), ("B",)], ["1", "2", "3", "4"], 2)
    [2, 3]
    """
    n = len(ids)
    if limit is None or limit >= n:
        return list(range(n))
    order = sorted(range(n), key=lambda place: (strata[place], hashlib.blake2b(ids[place].encode()).digest()))
    return sorted(order[int((step + 0.5) * n / limit)] for step in range(limit))


def _task(name: str, benchmark: str, metadata: Mapping[str, Any], limit: int | None, *, looks: bool) -> Task:
    rows = load_tasks(name, metadata)["tasks"][name].dataset["test"]
    if looks:
        rows[0]["images"][0]
    docs = [doc | {"images": str(doc["images"])} for doc in rows]
    strata = [(doc["options"][doc["answer"]], doc.get("finding") or doc["topic"]) for doc in docs]
    chosen = [docs[place] for place in stratified(strata, [doc["id"] for doc in docs], limit)]
    asked = [[doc["id"], doc["question"], [*doc["options"]], doc["answer"], doc["images"]] for doc in chosen]
    digest = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]
    return Task(name, benchmark, tuple(doc["id"] for doc in chosen), digest)
