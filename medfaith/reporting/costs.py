"""Costs of answers: seconds of the model and memory of its GPU (HEAL-MedVQA, Appendix A, Table 6)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from medfaith.logs.files import SampleFile, Work
from medfaith.tasks.decoding.titles import TITLES

from .tables import MODEL, UNDEFINED, Column, Table, count

PLAIN = ("", TITLES["greedy"])  # values of `decoding` without additional cost
_NOTES = (
    "Seconds in which the model was busy, also with a region that it finds itself, and the most memory that it took of "
    "its GPU. Answers that a store had kept are not counted. A row is one run with all its tasks. × plain: times what "
    "the same model takes without a decoder, for the same tasks, on the same device and in batches of the same size; "
    "of several such runs the newest.",
    "The paper's figures are seconds and MB for 100 questions on one A100 of 80 GB.",
)


def build_cost_tables(files: Iterable[SampleFile]) -> list[Table]:
    """Build the table of costs, with a row for each run that records them.

    Args:
        files: The sample logs.

    Returns:
        One table; none if no run records its cost.
    """
    runs: dict[tuple[Path, str], list[SampleFile]] = defaultdict(list)
    for file in sorted(files, key=lambda file: (file.model, file.adapter, file.date, file.task)):
        if file.work is not None:
            runs[file.path.parent, file.date].append(file)
    plain = {
        _get_comparison_key(files_of_run): files_of_run[0].work
        for files_of_run in sorted(runs.values(), key=_get_date)
        if files_of_run[0].decoding in PLAIN
    }
    rows = [_format_row(files_of_run, plain.get(_get_comparison_key(files_of_run))) for files_of_run in runs.values()]
    columns = [
        MODEL,
        Column("Tasks", ("tasks",)),
        Column("Answers", ("answers",), count),
        Column("Seconds of 100 answers", ("seconds_of_100",), _format_tenths),
        Column("× plain", ("seconds_ratio",), _format_ratio),
        Column("GPU memory (MiB)", ("peak_memory",), count),
        Column("× plain", ("memory_ratio",), _format_ratio),
        Column("Device", ("device",)),
        Column("Batch", ("batch_size",)),
    ]
    return [Table("heal_table_06_costs", "HEAL Table 6: what answers cost", columns, rows, _NOTES)] if rows else []


def _format_row(run: list[SampleFile], plain: Work | None) -> list[object]:
    first_file, work = run[0], run[0].work
    assert work is not None
    name = f"{first_file.model} + {first_file.adapter}" if first_file.adapter else first_file.model
    reference = None if first_file.decoding in PLAIN or plain is None else plain
    seconds, memory = work.seconds / work.answers, work.peak_memory
    return [
        name, ", ".join(dict.fromkeys(file.task for file in run)), work.answers, 100 * seconds,
        math.nan if reference is None else seconds / (reference.seconds / reference.answers), memory,
        math.nan if reference is None or not (memory and reference.peak_memory) else memory / reference.peak_memory,
        work.device, work.batch_size,
    ]  # fmt: skip


def _get_comparison_key(run: list[SampleFile]) -> tuple[object, ...]:
    """Get the model, tasks, device and batch size; costs of two runs are comparable if these are equal."""
    first_file, work = run[0], run[0].work
    assert work is not None
    adapter = first_file.adapter.removesuffix(first_file.decoding).removesuffix(" + ")
    return first_file.model, adapter, tuple((file.task, file.told) for file in run), work.device, work.batch_size


def _get_date(run: list[SampleFile]) -> str:
    return run[0].date


def _format_tenths(value: float) -> str:
    return f"{value:,.1f}"


def _format_ratio(value: float) -> str:
    """Format a ratio: `1.48`."""
    return UNDEFINED if math.isnan(value) else f"{value:.2f}"
