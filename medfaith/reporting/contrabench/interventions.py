"""Interventions against the failure: an instruction (Table 17), three examples (18), fine-tuning (19)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..tables import (
    MODEL,
    OUTCOMES,
    PROTOCOL,
    SIZE,
    Column,
    Table,
    build_outcome_columns,
    count,
    get_outcome_shares,
    percent,
)
from .names import (
    format_base_name,
    format_images_note,
    format_verified_name,
    protocol_name,
    select_external,
)
from .runs import Run, count_errors

_SIDES = ("chexpert_presence", "chexpert_absence")


def build_intervention_tables(runs: Sequence[Run]) -> list[Table]:
    """Build the tables of interventions.

    Args:
        runs: The runs.

    Returns:
        The tables that have rows.
    """
    return [
        table
        for table in (_build_instruction_table(runs), _build_few_shot_table(runs), _build_tuning_table(runs))
        if table.rows
    ]


def classify_instruction(before: float, after: float) -> str | None:
    """Classify a polarity instruction by the contradictions without and with it (Table 17).

    >>> classify_instruction(351, 406), classify_instruction(335, 18)
    ('BACKFIRE', 'PARTIAL')
    >>> classify_instruction(4, 0), classify_instruction(0, 0)
    ('FULL_SOLVE', None)

    Args:
        before: Number of contradictions without the instruction.
        after: Number with it.

    Returns:
        The paper's class; None if both are equal, for which the paper defines no class.
    """
    if before == after:
        return None
    if after > before:
        return "BACKFIRE"
    return "PARTIAL" if after else "FULL_SOLVE"


def _build_instruction_table(runs: Sequence[Run]) -> Table:
    protocol_runs = [
        run for run in select_external(runs, split=None) if run.setting.protocol != "chexpert_positive_only"
    ]
    run_by_setting = {(run.model, run.adapter, run.setting): run for run in protocol_runs}
    rows = []
    for run in protocol_runs:
        base = run_by_setting.get((run.model, run.adapter, run.setting._replace(prompt="b0")))
        if run.setting.prompt != "instruct" or base is None:
            continue
        _, in_base, in_instruct = np.intersect1d(base.id, run.id, assume_unique=True, return_indices=True)
        b0, instruct = base.scores(rows=in_base), run.scores(rows=in_instruct)
        rows.append(
            [
                run.model_name,
                protocol_name(run),
                len(in_base),
                base.n_data,
                b0["accuracy"],
                count_errors(b0),
                instruct["accuracy"],
                count_errors(instruct),
                classify_instruction(count_errors(b0), count_errors(instruct)),
                b0["accuracy_verified"],
                count_errors(b0, "_verified"),
                instruct["accuracy_verified"],
                count_errors(instruct, "_verified"),
                *get_outcome_shares(b0),
                *get_outcome_shares(instruct),
            ]
        )
    columns = [
        MODEL, PROTOCOL, SIZE,
        Column("B0 Acc.", ("base_accuracy",), percent), Column("B0 Errors", ("base_errors",), count),
        Column("Instruct Acc.", ("instruct_accuracy",), percent),
        Column("Instruct Errors", ("instruct_errors",), count), Column("Instruct Class.", ("instruct_class",)),
        Column("M1 Acc.", ("m1_accuracy",), percent), Column("M1 Errors", ("m1_errors",), count),
        Column("Instruct+M1 Acc.", ("instruct_m1_accuracy",), percent),
        Column("Instruct+M1 Errors", ("instruct_m1_errors",), count),
        *build_outcome_columns("base", "B0"), *build_outcome_columns("instruct", "Instruct"),
    ]  # fmt: skip
    notes = [
        "BACKFIRE: the instruction increases the errors (contradictions; reversals on presence protocols). PARTIAL: it "
        "reduces them. FULL_SOLVE: it eliminates them. The paper has no class for an equal number."
    ]
    return Table("table_17_instruct", "Table 17: polarity instruction", columns, rows, notes)


def _build_few_shot_table(runs: Sequence[Run]) -> Table:
    rows = []
    for run in select_external(runs, *_SIDES):
        if not run.setting.prompt.startswith("3shot"):
            continue
        scores = run.scores()
        for variant, suffix in ((format_base_name, ""), (format_verified_name, "_verified")):
            rows.append(
                [run.model_name, protocol_name(run), variant(run.setting), run.n, run.n_data,
                 scores[f"accuracy{suffix}"], count_errors(scores, suffix), scores["n_changed"], scores["n_worsened"],
                 *get_outcome_shares(scores)]
            )  # fmt: skip
    columns = [
        MODEL, PROTOCOL, Column("Variant", ("variant",)), SIZE, Column("Accuracy", ("accuracy",), percent),
        Column("neg_opt_count", ("neg_opt_count",), count), Column("changed", ("changed",), count),
        Column("worsened", ("worsened",), count), *OUTCOMES,
    ]  # fmt: skip
    notes = ["changed and worsened are what FS+M1 does to FS-B0."]
    return Table("table_18_few_shot", "Table 18: three-shot prompts", columns, rows, notes)


def _build_tuning_table(runs: Sequence[Run]) -> Table:
    """Build Table 19: models with an adapter next to the same models without it, on presence and absence.

    Models that were never run with an adapter, and runs with a decoder, are left out. Of the runs with an adapter only
    those with the prompt B0 count; of the plain model those with any prompt.
    """
    side_runs = [run for run in select_external(runs, *_SIDES) if not run.source.decoding]
    tuned = {run.model for run in side_runs if run.adapter}
    cells: dict[tuple, dict[str, list]] = {}
    for run in side_runs:
        if run.model not in tuned or (run.adapter and run.setting.prompt != "b0"):
            continue
        scores = run.scores()
        for variant, suffix in _list_variants(run):
            cells.setdefault((run.model, run.adapter, variant), {})[run.setting.protocol] = [
                run.n,
                run.n_data,
                scores[f"accuracy{suffix}"],
                count_errors(scores, suffix),
                *get_outcome_shares(scores),
            ]
    rows = [
        [model, variant, adapter, *(value for side in _SIDES for value in cells_by_side.get(side, [None] * 6))]
        for (model, adapter, variant), cells_by_side in cells.items()
    ]
    columns = [Column("Model", ("model",)), Column("Variant", ("variant",)), Column("Adapter", ("adapter",))]
    for side, name in zip(_SIDES, ("Presence", "Absence"), strict=True):
        columns += [
            Column(f"{name} n", (f"{side}_n", f"{side}_n_data"), SIZE.show),
            Column(f"{name} acc. / neg_opt", (f"{side}_accuracy", f"{side}_neg_opt"), _format_accuracy_and_errors),
            *build_outcome_columns(side, name),
        ]
    return Table("table_19_tuning", "Table 19: prompts and fine-tuning", columns, rows)


def _list_variants(run: Run) -> list[tuple[str, str]]:
    """List (name, suffix of the scores); as in the paper, M1 is shown for the plain prompt and for the tuned model."""
    if run.adapter:
        note = format_images_note(run.setting)
        return [(f"LoRA-FT{note}", ""), (f"LoRA+M1{note}", "_verified")]
    base = [(format_base_name(run.setting), "")]
    return [*base, (format_verified_name(run.setting), "_verified")] if run.setting.prompt == "b0" else base


def _format_accuracy_and_errors(accuracy: float, errors: float) -> str:
    return f"{percent(accuracy)} / {count(errors)}"
