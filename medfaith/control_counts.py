"""How many rows of a build each control of an audit could ask."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def print_control_counts(benchmark: str, data: Path, roots: Mapping[str, Path]) -> None:
    """Print a table: for each control, how many rows of each audited task it could ask.

    Args:
        benchmark: The name of the benchmark.
        data: The folder of the build.
        roots: Source id -> folder with the images.

    Raises:
        ImageError: An image of a row is missing.
    """
    from medfaith.printing import table
    from medfaith.reporting.registry import BENCHMARKS

    counts = count_rows(BENCHMARKS[benchmark].audited_tasks, data, roots)
    if not counts:
        return
    names = next(iter(counts.values()))
    rows = [[name, *(str(by_control[name]) for by_control in counts.values())] for name in names]
    print(table(["rows that can be asked", *counts], rows))


def count_rows(tasks: Sequence[str], data: Path, roots: Mapping[str, Path]) -> dict[str, dict[str, int]]:
    """Count the rows of tasks under each control.

    Args:
        tasks: Names of tasks; tasks without a row in the build are left out.
        data: The folder of the build.
        roots: Source id -> folder with the images.

    Returns:
        Task -> control ("with the image" first) -> number of rows.
    """
    from medfaith.loaders.errors import InputError
    from medfaith.tasks.controls import CONTROLS, UnsupportedControlError
    from medfaith.tasks.run import load_tasks

    metadata = {"data": str(data), "roots": {source_id: str(root) for source_id, root in roots.items()}}

    def load(task: str, settings: Mapping[str, Any]) -> Any:
        return load_tasks(task, settings)["tasks"][task].dataset["test"]

    counts: dict[str, dict[str, int]] = {}
    for task in tasks:
        with contextlib.suppress(InputError):
            counts[task] = {"with the image": len(load(task, metadata))}
    for task, by_control in counts.items():
        for control in CONTROLS:
            try:
                with contextlib.redirect_stderr(io.StringIO()):  # the notes on rows that are left out
                    by_control[control] = len(load(task, metadata | {"control": control}))
            except UnsupportedControlError:
                by_control[control] = 0
    return counts
