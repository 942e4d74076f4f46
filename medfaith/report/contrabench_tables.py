"""All tables of CXR-ContraBench that choices give, and the one that lists the runs."""

from __future__ import annotations

from collections.abc import Sequence

from .contrabench_casebook import casebook_table
from .contrabench_external import external_tables
from .contrabench_intervals import interval_tables
from .contrabench_interventions import intervention_tables
from .contrabench_names import base_name, protocol_name
from .contrabench_rexvqa import internal_tables
from .contrabench_runs import Run
from .contrabench_stress import robustness_tables
from .tables import MODEL, PROMPT, PROTOCOL, SIZE, Column, Table, count, percent


def contrabench_tables(runs: Sequence[Run]) -> list[Table]:
    """The runs, the matrix, the others by number, the casebook; none without runs."""
    if not runs:
        return []
    tables = [
        *external_tables(runs), *interval_tables(runs), *internal_tables(runs), *robustness_tables(runs),
        *intervention_tables(runs),
    ]  # fmt: skip
    tables.sort(key=lambda table: (table.name != "table_09_matrix", table.name))
    casebook = casebook_table(runs)
    return [_runs_table(runs), *tables, *([casebook] if casebook.rows else [])]


def _runs_table(runs: Sequence[Run]) -> Table:
    rows = [
        [run.model_name, base_name(run.setting.prompt), protocol_name(run), run.changed_values, run.n, run.n_data,
         run.n_skipped, run.scores()["accuracy"], run.scores()["parse_failure_rate"], run.source.task, run.source.date]
        for run in runs
    ]  # fmt: skip
    columns = [
        MODEL, PROMPT, PROTOCOL, Column("Changed wording or layout", ("forms",)), SIZE,
        Column("Without images", ("n_skipped",), count), Column("Base acc.", ("accuracy",), percent),
        Column("Unread %", ("parse_failure_rate",), percent), Column("Task", ("task",)), Column("Date", ("date",)),
    ]  # fmt: skip
    notes = ["n: questions asked; “a of b” marks a run with --limit or without the rows whose images are missing."]
    return Table("runs", "Runs", columns, rows, notes)
