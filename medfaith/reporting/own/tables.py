"""Tables of a user's own questions: the runs, and the scores of each kind of question."""

from __future__ import annotations

from collections.abc import Sequence

from medfaith.tasks.own.adapter import FIGURES, SCORERS
from medfaith.tasks.own.rows import CHOICE, OPEN, YES_NO

from ..tables import MODEL, OUTCOMES, SIZE, UNANSWERED, Column, Table, count, format_interval_note, fraction_interval
from ..unread import compute_outcome_shares
from .runs import KINDS, OwnRun

_TITLES = {"accuracy": "Accuracy", "yes_no_f1": "F1 of Yes", "f1": "F1", "exact": "Exact match", "recall": "Recall"}
_NOTES = {
    YES_NO: "What is unread or declined is wrong.",
    CHOICE: "What is unread or declined is wrong.",
    OPEN: "F1, exact match and recall compare the words of an answer with the accepted answer that fits best. Recall "
    "does not punish further words. What is unread or declined has 0.",
}


def build_own_tables(runs: Sequence[OwnRun]) -> list[Table]:
    """Build the table of runs, and a table for each kind of question.

    Args:
        runs: The runs.

    Returns:
        The tables that the runs allow.
    """
    runs = sorted(runs, key=_get_sort_key)
    kinds = [kind for kind in KINDS if any(run.setting.ask == kind for run in runs)]
    tables = [_build_runs_table(runs)] if runs else []
    return tables + [_build_score_table(kind, [run for run in runs if run.setting.ask == kind]) for kind in kinds]


def _get_sort_key(run: OwnRun) -> tuple:
    setting = run.setting
    model = run.model.casefold(), run.model, run.adapter
    return *model, setting.prompt, setting.source, setting.split, [*KINDS].index(setting.ask)


def _build_runs_table(runs: Sequence[OwnRun]) -> Table:
    rows = [
        [run.name, run.setting.source, run.setting.split, KINDS[run.setting.ask], run.n, run.n_data, run.n_skipped,
         *compute_outcome_shares(run).values(), run.source.n_unanswered, run.source.task, run.source.date]
        for run in runs
    ]  # fmt: skip
    columns = [
        MODEL, Column("Data set", ("source",)), Column("Split", ("split",)), Column("Questions", ("questions",)), SIZE,
        Column("Without images", ("n_skipped",), count), *OUTCOMES, UNANSWERED,
        Column("Task", ("task",)), Column("Date", ("date",)),
    ]  # fmt: skip
    notes = ["n: questions asked; “a of b” marks a run with --limit or without the rows whose images are missing."]
    return Table("own_runs", "Runs on own questions", columns, rows, notes)


def _build_score_table(kind: str, runs: Sequence[OwnRun]) -> Table:
    scorer, figures = SCORERS[kind], FIGURES[kind]
    rows = []
    for run in runs:
        scores = scorer.figures([row.record for row in run.rows])
        cells = [scores[f"{name}{end}"] for name in figures for end in ("", "_ci_low", "_ci_high")]
        rows.append(
            [run.name, run.setting.source, run.setting.split, run.n, *cells, scores["n_unread"], scores["n_declined"]]
        )
    columns = [MODEL, Column("Data set", ("source",)), Column("Split", ("split",)), Column("n", ("n",), count)]
    columns += [
        Column(f"{_TITLES[name]} [95% CI]", (name, f"{name}_ci_low", f"{name}_ci_high"), fraction_interval)
        for name in figures
    ]
    columns += [Column("unread", ("n_unread",), count), Column("declined", ("n_declined",), count)]
    notes = [f"{_NOTES[kind]} {format_interval_note('patients')}"]
    return Table(f"own_{kind}", f"Own questions: {KINDS[kind]}", columns, rows, notes)
