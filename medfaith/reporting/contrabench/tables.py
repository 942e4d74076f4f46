"""All tables of CXR-ContraBench from chosen options, and the table of runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from medfaith.loaders.progress import Progress

from ..tables import (
    MODEL,
    ORIGINAL,
    OUTCOMES,
    PROMPT,
    PROTOCOL,
    SIZE,
    UNANSWERED,
    Column,
    Table,
    count,
    get_outcome_shares,
    percent,
)
from .casebook import build_casebook_table
from .confidence import build_confidence_tables
from .evidence import build_evidence_tables
from .external import build_external_tables
from .intervals import build_interval_tables
from .interventions import build_intervention_tables
from .names import format_base_name, protocol_name
from .rexvqa import build_internal_tables
from .runs import Run
from .stress import build_layout_tables, build_wording_tables

_R = TypeVar("_R", bound=Run)
_TARGET_FIRST = (
    "The target comes first in these rows, for comparison with the paper: whoever always answers A is right. In the "
    "other tables each row has an order of its own."
)


def build_contrabench_tables(runs: Sequence[Run]) -> list[Table]:
    """Build the table of runs, the tables of each layout, and the tables that compare layouts.

    Args:
        runs: Runs with answers.

    Returns:
        The tables; none without runs.
    """
    if not runs:
        return []
    return [_build_runs_table(runs), *build_for_each_layout(runs, _build_layout_tables), *build_layout_tables(runs)]


def build_for_each_layout(runs: Sequence[_R], build_tables: Callable[[Sequence[_R]], list[Table]]) -> list[Table]:
    """Build the tables of shuffled options and, marked, the tables of options with the target first.

    No table mixes layouts: always answering A is right in one layout, and in a third of the questions of the other.

    Args:
        runs: The runs.
        build_tables: Builds the tables of runs in one layout.

    Returns:
        The tables.
    """
    shuffled_runs, original_runs = (
        [run for run in runs if (run.setting.layout == ORIGINAL) == is_original] for is_original in (False, True)
    )
    return build_tables(shuffled_runs) + [
        replace(
            table, name=f"{table.name}_{ORIGINAL}", title=f"{table.title} – options in the original order",
            notes=[_TARGET_FIRST, *table.notes],
        )
        for table in build_tables(original_runs)
    ]  # fmt: skip


def _build_layout_tables(runs: Sequence[Run]) -> list[Table]:
    """Build the matrix, the other tables by number, and the casebook."""
    builders: list[Callable[[Sequence[Run]], list[Table]]] = [
        build_external_tables,
        build_evidence_tables,
        build_interval_tables,
        build_internal_tables,
        build_wording_tables,
        build_confidence_tables,
        build_intervention_tables,
    ]
    progress = Progress(builders, title="making tables of CXR-ContraBench", unit="kinds")
    tables = [table for build in progress for table in build(runs)]
    tables.sort(key=lambda table: (table.name != "table_09_matrix", table.name))
    casebook = build_casebook_table(runs)
    return [*tables, *([casebook] if casebook.rows else [])]


def _build_runs_table(runs: Sequence[Run]) -> Table:
    rows = [
        [run.model_name, format_base_name(run.setting), protocol_name(run), run.changed_values, run.setting.layout,
         run.n, run.n_data, run.n_skipped, run.scores()["accuracy"], *get_outcome_shares(run.scores()),
         run.source.n_unanswered, run.source.task, run.source.date]
        for run in runs
    ]  # fmt: skip
    columns = [
        MODEL, PROMPT, PROTOCOL, Column("Changed wording", ("forms",)),
        Column("Order of options", ("layout",)), SIZE,
        Column("Without images", ("n_skipped",), count), Column("Base acc.", ("accuracy",), percent),
        *OUTCOMES, UNANSWERED, Column("Task", ("task",)), Column("Date", ("date",)),
    ]  # fmt: skip
    notes = ["n: questions asked; “a of b” marks a run with --limit or without the rows whose images are missing."]
    return Table("runs", "Runs", columns, rows, notes)
