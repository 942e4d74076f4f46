"""The casebook (Figure 14): single questions with the model's option, the verified option, the gold and the reason.

It holds only the benchmark's own texts, no report and no image. ReXVQA's slices are left out, because its questions are
under gated terms.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence

import numpy as np

from ..tables import MODEL, PROMPT, PROTOCOL, Column, Table
from .names import format_base_name, protocol_name, select_external
from .runs import Run

_PRINTED = 24


def build_casebook_table(runs: Sequence[Run]) -> Table:
    """Build the casebook: for each run, protocol and kind, the first question of each finding by id.

    Args:
        runs: The runs.

    Returns:
        The table; rows of lower rank within their kind come first.
    """
    ranked = [case for run in select_external(runs) for case in _iterate_cases(run)]
    rows = [row for _, row in sorted(ranked, key=lambda case: case[0])]  # stable: the runs keep their order
    columns = [
        Column("Kind", ("kind",)), MODEL, PROMPT, PROTOCOL, Column("Question id", ("id",)),
        Column("Finding", ("finding",)), Column("Question", ("question",)), Column("Options", ("options",)),
        Column("B0", ("base_answer",)), Column("M1", ("verified_answer",)), Column("Gold", ("gold_answer",)),
        Column("Verifier", ("reason",)), Column("Cue", ("cue",)),
    ]  # fmt: skip
    notes = [
        "Repair: the verifier makes a wrong answer right. Residual: the negated option was chosen, and the answer is "
        "still wrong. Worsened: the verifier makes a right answer wrong. Verifier: its reason. Cue: the report's "
        "negation cue."
    ]
    return Table("casebook", "Casebook (Figure 14): repaired and residual cases", columns, rows, notes, _PRINTED)


def _iterate_cases(run: Run) -> Iterator[tuple[int, list]]:
    """Iterate over (rank within the kind, row); ids are sorted within a run."""
    if "m1" not in run.choice:
        return
    verified = run.choice["m1"]
    right, right_after = run.base == run.answer, verified == run.answer
    kinds = {
        "repair": ~right & right_after,
        "residual": run.chose_negated() & ~right & ~right_after,
        "worsened": right & ~right_after,
    }
    for kind, mask in kinds.items():
        rows_of_kind = np.flatnonzero(mask)
        _, first_rows = np.unique(run.finding[rows_of_kind], return_index=True)
        for rank, row in enumerate(sorted(rows_of_kind[first_rows])):
            yield rank, _format_row(run, kind, row)


def _format_row(run: Run, kind: str, row: int) -> list:
    """Format a row of the casebook."""
    question, texts = run.wordings[run.wording[row]]
    options = [f"{letter}. {text}" for letter, text in zip(string.ascii_uppercase, texts, strict=False)]

    def format_option(index: int) -> str | None:
        return options[index] if index >= 0 else None

    return [
        kind,
        run.model_name,
        format_base_name(run.setting),
        protocol_name(run),
        run.id[row],
        run.finding[row],
        question,
        "; ".join(options),
        format_option(run.base[row]),
        format_option(run.choice["m1"][row]),
        format_option(run.answer[row]),
        run.reason["m1"][row],
        run.cue[row],
    ]
