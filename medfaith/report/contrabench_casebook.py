"""The casebook (Figure 14): single questions with the model's option, the verified one, the gold and the reason.

Only what the benchmark wrote stands in it: no report, no image. ReXVQA's questions are under gated terms, so its slices
are left out.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence

import numpy as np

from .contrabench_names import base_name, external, protocol_name
from .contrabench_runs import Run
from .tables import MODEL, PROMPT, PROTOCOL, Column, Table

_PRINTED = 24


def casebook_table(runs: Sequence[Run]) -> Table:
    """Of every run, protocol and kind the first question by id of each finding; first of all the first of each kind."""
    ranked = [case for run in external(runs) for case in _cases(run)]
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


def _cases(run: Run) -> Iterator[tuple[int, list]]:
    """(rank within its kind, row). Ids are sorted within a run, so the first index is the first id."""
    if "m1" not in run.choice:
        return
    verified = run.choice["m1"]
    right, right_after = run.base == run.answer, verified == run.answer
    kinds = {
        "repair": ~right & right_after,
        "residual": run.chose_negated() & ~right & ~right_after,
        "worsened": right & ~right_after,
    }
    for kind, holds in kinds.items():
        where = np.flatnonzero(holds)
        _, first = np.unique(run.finding[where], return_index=True)
        for rank, row in enumerate(sorted(where[first])):
            yield rank, _row(run, kind, row)


def _row(run: Run, kind: str, row: int) -> list:
    question, texts = run.wordings[run.wording[row]]
    options = [f"{letter}. {text}" for letter, text in zip(string.ascii_uppercase, texts, strict=False)]

    def option(index: int) -> str | None:
        return options[index] if index >= 0 else None

    return [
        kind, run.model_name, base_name(run.setting), protocol_name(run), run.id[row], run.finding[row],
        question, "; ".join(options), option(run.base[row]), option(run.choice["m1"][row]), option(run.answer[row]),
        run.reason["m1"][row], run.cue[row],
    ]  # fmt: skip
