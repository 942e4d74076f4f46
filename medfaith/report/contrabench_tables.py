"""All tables of CXR-ContraBench that choices give, and the one that lists the runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from medfaith.loaders.progress import Progress

from .contrabench_casebook import build_casebook_table
from .contrabench_confidence import build_confidence_tables
from .contrabench_evidence import build_evidence_tables
from .contrabench_external import build_external_tables
from .contrabench_intervals import build_interval_tables
from .contrabench_interventions import build_intervention_tables
from .contrabench_names import base_name, protocol_name
from .contrabench_rexvqa import internal_tables
from .contrabench_runs import ORIGINAL, Run
from .contrabench_stress import layout_tables, wording_tables
from .tables import (
    MODEL,
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

_R = TypeVar("_R", bound=Run)
_TARGET_FIRST = (
    "The target comes first in these rows, for comparison with the paper: whoever always answers A is right. In the "
    "other tables each row has an order of its own."
)


def contrabench_tables(runs: Sequence[Run]) -> list[Table]:
    """The runs, the tables of each layout, and those that compare layouts; none without runs."""
    if not runs:
        return []
    return [_runs_table(runs), *in_each_layout(runs, _of_one_layout), *layout_tables(runs)]


def in_each_layout(runs: Sequence[_R], tables_of: Callable[[Sequence[_R]], list[Table]]) -> list[Table]:
    """The tables of the runs whose options are shuffled, and apart from them, marked, of those with the target first.

    No table holds runs of both: whoever always answers A is right in one layout and in a third of the other.
    """
    shuffled, original = ([run for run in runs if (run.setting.layout == ORIGINAL) == is_it] for is_it in (False, True))
    return tables_of(shuffled) + [
        replace(
            table, name=f"{table.name}_{ORIGINAL}", title=f"{table.title} – options in the original order",
            notes=[_TARGET_FIRST, *table.notes],
        )
        for table in tables_of(original)
    ]  # fmt: skip


def _of_one_layout(runs: Sequence[Run]) -> list[Table]:
    """The matrix, the others by number, the casebook."""
    making: list[Callable[[Sequence[Run]], list[Table]]] = [
        build_external_tables,
        build_evidence_tables,
        build_interval_tables,
        internal_tables,
        wording_tables,
        build_confidence_tables,
        build_intervention_tables,
    ]
    shown = Progress(making, title="making tables of CXR-ContraBench", unit="kinds")
    tables = [table for make in shown for table in make(runs)]
    tables.sort(key=lambda table: (table.name != "table_09_matrix", table.name))
    casebook = build_casebook_table(runs)
    return [*tables, *([casebook] if casebook.rows else [])]


def _runs_table(runs: Sequence[Run]) -> Table:
    rows = [
        [run.model_name, base_name(run.setting), protocol_name(run), run.changed_values, run.setting.layout,
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
