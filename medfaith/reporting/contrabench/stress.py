"""Stress tests: question paraphrases (Tables 2, 12; Figure 4), option order (13) and negation forms (20, 21)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..tables import MODEL, ORIGINAL, OUTCOMES, PROMPT, SIZE, Column, Table, count, get_outcome_shares, percent
from .names import format_base_name, sort_runs
from .runs import Run, count_errors

_SHORT = {"chexpert_presence": ("reversals", "rev."), "chexpert_absence": ("contradictions", "contrad.")}


class _Stress(NamedTuple):
    """One table: the changed field of the setting, and the verifiers (filter, heading, with worsened)."""

    name: str
    title: str
    protocol: str
    changed: str
    verifiers: tuple[tuple[str, str, bool], ...]


_BY_WORDING = (("m1", "Orig-M1", False), ("m1_extended", "Ext-M1", True))
_BY_LAYOUT = (("m1", "Slot-0 M1", False), ("m1_slot_agnostic", "Slot-agnostic M1", False))
_BY_NEGATION = (("m1", "Orig-M1", True), ("m1_extended", "Ext-M1", True))
_WORDINGS = (
    _Stress("table_12_paraphrases", "Tables 2 and 12: question paraphrases, CheXpert report-style absence",
            "chexpert_absence", "question_form", _BY_WORDING),
    _Stress("table_12_paraphrases_presence", "Figure 4 A–B: question paraphrases, CheXpert direct presence",
            "chexpert_presence", "question_form", _BY_WORDING),
    _Stress("table_20_negation_forms", "Table 20: negation forms, CheXpert direct presence",
            "chexpert_presence", "negation_form", _BY_NEGATION),
    _Stress("table_21_negation_forms", "Table 21: negation forms, CheXpert report-style absence",
            "chexpert_absence", "negation_form", _BY_NEGATION),
)  # fmt: skip
_LAYOUTS = (
    _Stress("table_13_layout", "Table 13: option order, CheXpert report-style absence",
            "chexpert_absence", "layout", _BY_LAYOUT),
    _Stress("table_13_layout_presence", "Table 13 for CheXpert direct presence: option order",
            "chexpert_presence", "layout", _BY_LAYOUT),
)  # fmt: skip
_NOTE = (
    "Ext-M1 (filter m1_extended) reads other wordings and finds the replacement by concept; slot-agnostic M1 does only "
    "the latter."
)


def build_wording_tables(runs: Sequence[Run]) -> list[Table]:
    """Build the tables of runs with one changed form, next to the unchanged run of the same variant.

    Args:
        runs: The runs.

    Returns:
        The tables that have rows.
    """
    return _build_tables(_WORDINGS, runs)


def build_layout_tables(runs: Sequence[Run]) -> list[Table]:
    """Build the tables that compare the original order of the options with the shuffled one.

    Args:
        runs: The runs.

    Returns:
        The tables that have rows.
    """
    return _build_tables(_LAYOUTS, runs)


def _build_tables(stresses: Sequence[_Stress], runs: Sequence[Run]) -> list[Table]:
    return [
        table for table in (_build_table(stress, _select_stressed(runs, stress)) for stress in stresses) if table.rows
    ]


def _select_stressed(runs: Sequence[Run], stress: _Stress) -> list[Run]:
    """Select the evaluation runs of the table's protocol, of the variants that have a run with the changed field.

    The runs without the change are among them. Runs that differ from the published wording in another field are not.
    """
    protocol_runs = [r for r in sort_runs(runs) if r.setting.protocol == stress.protocol and r.setting.split != "train"]
    comparable_runs = [run for run in protocol_runs if set(run.setting.changed_forms) <= {stress.changed}]
    stressed = {run.variant for run in comparable_runs if run.setting.changed_forms}
    if stress.changed == "layout":
        stressed = {run.variant for run in comparable_runs if run.setting.layout == ORIGINAL}
    return [run for run in comparable_runs if run.variant in stressed]


def _build_table(stress: _Stress, runs: Sequence[Run]) -> Table:
    error, short = _SHORT[stress.protocol]
    columns = [
        MODEL, PROMPT, Column("Variant", (stress.changed,)), SIZE,
        Column("B0 acc", ("base_accuracy",), percent), Column(f"B0 {short}", (f"base_{error}",), count),
    ]  # fmt: skip
    for name, heading, _ in stress.verifiers:
        columns.append(Column(f"{heading} acc", (f"{name}_accuracy",), percent))
        columns.append(Column(f"{heading} {short}", (f"{name}_{error}",), count))
    for name, heading, with_worsened in stress.verifiers:
        if with_worsened:
            columns.append(Column(f"{heading} worsened", (f"{name}_worsened",), count))
    rows = [_format_row(run, stress) for run in runs]
    return Table(stress.name, stress.title, [*columns, *OUTCOMES], rows, [_NOTE])


def _format_row(run: Run, stress: _Stress) -> list:
    base = run.scores()
    row = [run.model_name, format_base_name(run.setting), getattr(run.setting, stress.changed), run.n, run.n_data,
           base["accuracy"], count_errors(base)]  # fmt: skip
    filter_scores = [(run.scores(name), with_worsened) for name, _, with_worsened in stress.verifiers]
    for scores, _ in filter_scores:
        row += [scores["accuracy_verified"], count_errors(scores, "_verified")]
    row += [scores["n_worsened"] for scores, with_worsened in filter_scores if with_worsened]
    return [*row, *get_outcome_shares(base)]
