"""Tables of the external protocols: 9, 10, 11, 14, 15 and 16 and Figures 4C, 11C and 13A of CXR-ContraBench."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..tables import (
    MODEL,
    OUTCOMES,
    PROMPT,
    PROTOCOL,
    SIZE,
    Column,
    Table,
    build_outcome_columns,
    change,
    count,
    get_outcome_shares,
    percent,
    points,
)
from .names import (
    B0_ACCURACY,
    DELTA,
    M1_ACCURACY,
    PROTOCOLS,
    format_base_name,
    get_protocol_rank,
    protocol_name,
    select_external,
)
from .runs import Run, count_errors, pooled

# The prompts of the eight variants in Figure 3, over which Table 15 is a mean.
VARIANT_PROMPTS = ("b0", "cot")
MATRIX = ("chexpert_presence", "chexpert_absence", "openi_report_absence")


def build_external_tables(runs: Sequence[Run]) -> list[Table]:
    """Build the tables of the external protocols.

    Args:
        runs: The runs.

    Returns:
        The tables that have rows.
    """
    tables = [
        _build_matrix(runs),
        _build_scale_table(runs),
        *_build_openi_tables(runs),
        *_build_finding_tables(runs),
        _build_control_table(runs),
    ]
    return [table for table in tables if table.rows]


def _build_matrix(runs: Sequence[Run]) -> Table:
    matrix_runs = select_external(runs, *MATRIX)
    protocols = [protocol for protocol in MATRIX if any(run.setting.protocol == protocol for run in matrix_runs)]
    by_variant: dict[tuple, dict[str, Run]] = {}
    for run in matrix_runs:
        by_variant.setdefault(run.variant, {})[run.setting.protocol] = run
    columns = [MODEL, PROMPT]
    for protocol in protocols:
        sizes = {(run.n, run.n_data) for run in matrix_runs if run.setting.protocol == protocol}
        columns += _build_matrix_columns(protocol, sizes)
    rows = []
    for run_by_protocol in by_variant.values():
        first_run = next(iter(run_by_protocol.values()))
        row = [first_run.model_name, format_base_name(first_run.setting)]
        for protocol in protocols:
            row += _list_base_and_verified(run_by_protocol[protocol]) if protocol in run_by_protocol else [None] * 9
        rows.append(row)
    notes = [
        "Base is the model's own output under the prompt, Verified the same output after QCCV-Neg (filter m1). Errors "
        "are dangerous “No X” reversals on the presence protocol and contradictions on the absence protocols."
    ]
    return Table("table_09_matrix", "Table 9: cross-model external results", columns, rows, notes)


def _build_matrix_columns(protocol: str, sizes: set[tuple[int, int]]) -> list[Column]:
    """Build the columns of a protocol; n is in the heading if it is the same for all runs and complete."""
    strip_folder = PROTOCOLS[protocol][1]
    (n, n_data), *other_sizes = sizes
    is_complete = not other_sizes and n == n_data
    heading = f"{strip_folder} (n = {n:,})" if is_complete else strip_folder
    return [
        Column(None if is_complete else f"{strip_folder}: n", (f"{protocol}_n", f"{protocol}_n_data"), SIZE.show),
        Column(f"{heading}: Base", (f"{protocol}_base_accuracy",), percent),
        Column("Verified", (f"{protocol}_verified_accuracy",), percent),
        Column("Δ pp", (f"{protocol}_delta",), points),
        Column("Errors", (f"{protocol}_base_errors", f"{protocol}_verified_errors"), change),
        *build_outcome_columns(protocol),
    ]


def _list_base_and_verified(run: Run) -> list:
    scores = run.scores()
    return [
        run.n,
        run.n_data,
        scores["accuracy"],
        scores["accuracy_verified"],
        scores["accuracy_delta"],
        count_errors(scores),
        count_errors(scores, "_verified"),
        *get_outcome_shares(scores),
    ]


def _build_scale_table(runs: Sequence[Run]) -> Table:
    protocol_runs = select_external(runs, "chexpert_presence", "chexpert_absence", split=None)
    replicated = {(run.variant, run.setting.protocol) for run in protocol_runs if run.setting.split == "train"}
    rows = []
    for run in sorted(protocol_runs, key=lambda run: (get_protocol_rank(run)[0], run.variant, get_protocol_rank(run))):
        if (run.variant, run.setting.protocol) not in replicated:
            continue
        scores = run.scores()
        split = "train" if run.setting.split == "train" else "val."
        rows.append(
            [
                f"{PROTOCOLS[run.setting.protocol][0].removeprefix('CheXpert ')} {split}".capitalize(),
                run.model_name,
                format_base_name(run.setting),
                run.n,
                run.n_data,
                scores["accuracy"],
                scores["accuracy_verified"],
                count_errors(scores),
                count_errors(scores, "_verified"),
                count_errors(scores) / (scores["n_presence"] + scores["n_absence"] or float("nan")),
                *get_outcome_shares(scores),
            ]
        )
    columns = [
        PROTOCOL, MODEL, PROMPT, SIZE,
        Column("B0", ("base_accuracy",), percent), Column("M1", ("verified_accuracy",), percent),
        Column("“No X”/Contrad. B0 → M1", ("base_errors", "verified_errors"), change),
        Column("Rate", ("base_error_rate",), percent), *OUTCOMES,
    ]  # fmt: skip
    return Table("table_10_scale", "Table 10: scale replication on the CheXpert training split", columns, rows)


def _build_openi_tables(runs: Sequence[Run]) -> list[Table]:
    """Build Table 11: the retrospective OpenI CheXStruct audit, its splits and its presence side."""
    splits: dict[tuple, dict[str, Run]] = {}
    for run in select_external(runs, "openi_chexstruct_presence", "openi_chexstruct_absence"):
        splits.setdefault(run.variant, {})[run.setting.protocol.rsplit("_", 1)[1]] = run
    upper, lower = [], []
    for sides in splits.values():
        pooled_run = {"All": pooled(list(sides.values()))} if len(sides) == 2 else {}
        for split, run in [*pooled_run.items(), *((side.capitalize(), sides[side]) for side in sorted(sides))]:
            scores = run.scores()
            name = [run.model_name, format_base_name(run.setting)]
            upper.append(
                [*name, split, run.n, run.n_data, scores["accuracy"], scores["accuracy_verified"],
                 scores["n_wrong_with_negated"], scores["n_wrong_with_negated_verified"],
                 scores["n_repairable_reversals"] if split == "Presence" else None, *get_outcome_shares(scores)]
            )  # fmt: skip
            if split == "Presence":
                lower.append(
                    [*name, run.n, run.n_data, scores["accuracy"], scores["n_wrong_with_negated"], scores["n_wrong"],
                     scores["wrong_with_negated_rate"], *get_outcome_shares(scores)]
                )  # fmt: skip
    upper_columns = [
        MODEL, PROMPT, Column("Split", ("split",)), SIZE,
        B0_ACCURACY, M1_ACCURACY,
        Column("Wrong with “No X” B0 → M1", ("base_wrong_with_negated", "verified_wrong_with_negated"), change),
        Column("Repairable", ("repairable_reversals",), count), *OUTCOMES,
    ]  # fmt: skip
    lower_columns = [
        MODEL, PROMPT, SIZE,
        B0_ACCURACY, Column("Wrong “No X”", ("wrong_with_negated",), count),
        Column("Wrong", ("wrong",), count), Column("Rate %", ("wrong_with_negated_rate",), percent), *OUTCOMES,
    ]  # fmt: skip
    notes = [
        "Wrong with “No X” counts all wrong answers that are the negated option and were read from a letter or an "
        "option's text; repairable reversals are those on the "
        "presence side that QCCV-Neg maps to the one positive counterpart (section 3.1)."
    ]
    title = "Table 11: retrospective OpenI CheXStruct audit"
    return [
        Table("table_11_audit", title, upper_columns, upper, notes),
        Table("table_11_audit_models", f"{title}, presence side by model", lower_columns, lower),
    ]


def _build_finding_tables(runs: Sequence[Run]) -> list[Table]:
    presence, absence = (select_external(runs, protocol) for protocol in ("chexpert_presence", "chexpert_absence"))
    train = select_external(runs, "chexpert_absence", split="train")
    return [
        _build_rate_table(
            presence,
            "reversal_rate",
            "table_14_reversals_by_finding",
            "Table 14: direct-presence reversal rates by finding",
        ),
        _build_contradiction_table([run for run in absence if run.setting.prompt in VARIANT_PROMPTS]),
        _build_rate_table(
            absence,
            "contradiction_rate",
            "figure_13_contradictions_by_model",
            "Figure 13A: CheXpert absence contradiction rates by model and finding",
        ),
        _build_rate_table(
            train,
            "contradiction_rate",
            "figure_11_contradictions_by_model",
            "Figure 11C: CheXpert absence contradiction rates by model and finding, training split",
        ),
        _build_openi_finding_table(runs),
    ]


def _build_openi_finding_table(runs: Sequence[Run]) -> Table:
    """Build Figure 4C: the audit by finding, before and after QCCV-Neg."""
    rows = []
    for run in select_external(runs, "openi_chexstruct_presence", "openi_chexstruct_absence"):
        for finding in np.unique(run.finding):
            scores = run.scores(rows=run.finding == finding)
            rows.append(
                [
                    run.model_name,
                    format_base_name(run.setting),
                    protocol_name(run),
                    finding.capitalize(),
                    scores["n"],
                    scores["accuracy"],
                    scores["accuracy_verified"],
                    count_errors(scores),
                    count_errors(scores, "_verified"),
                    *get_outcome_shares(scores),
                ]
            )
    columns = [
        MODEL, PROMPT, PROTOCOL, Column("Finding", ("finding",)), Column("n", ("n",), count), B0_ACCURACY, M1_ACCURACY,
        Column("Errors B0 → M1", ("base_errors", "verified_errors"), change), *OUTCOMES,
    ]  # fmt: skip
    notes = [
        "Errors are dangerous “No X” reversals on the presence side and contradictions on the absence side. The paper "
        "draws the presence side only."
    ]
    title = "Figure 4C: OpenI CheXStruct audit by finding"
    return Table("figure_04_audit_by_finding", title, columns, rows, notes)


def _build_rate_table(runs: Sequence[Run], rate: str, name: str, title: str) -> Table:
    """Build a table of a rate by finding, a row for each run."""
    findings = sorted({finding for run in runs for finding in np.unique(run.finding)})
    rows = []
    for run in runs:
        rates = [run.scores(rows=run.finding == finding)[rate] for finding in findings]
        key = [run.model_name, format_base_name(run.setting), run.n, run.n_data]
        rows.append([*key, *rates, *get_outcome_shares(run.scores())])
    columns = [
        MODEL, PROMPT, SIZE,
        *(Column(finding.capitalize(), (finding.replace(" ", "_"),), percent) for finding in findings), *OUTCOMES,
    ]  # fmt: skip
    return Table(name, title, columns, rows)


def _build_contradiction_table(runs: Sequence[Run]) -> Table:
    by_finding: dict[str, list[dict]] = {}
    for run in runs:
        for finding in np.unique(run.finding):
            by_finding.setdefault(finding, []).append(run.scores(rows=run.finding == finding))
    rows = []
    for finding, scores in sorted(by_finding.items(), key=lambda item: (-max(s["n"] for s in item[1]), item[0])):
        rates = [s["contradiction_rate"] for s in scores]
        sizes, shares = [s["n"] for s in scores], [get_outcome_shares(s) for s in scores]
        rows.append(
            [
                finding.capitalize(),
                min(sizes),
                max(sizes),
                len(rates),
                np.mean(rates),
                min(rates),
                max(rates),
                *np.mean(shares, axis=0),
            ]
        )
    columns = [
        Column("Finding", ("finding",)),
        Column("n", ("n_min", "n_max"), _format_range),
        Column("Variants", ("n_variants",), count),
        Column("Mean rate", ("mean_contradiction_rate",), percent),
        Column("Min", ("min_contradiction_rate",), percent), Column("Max", ("max_contradiction_rate",), percent),
        *build_outcome_columns("mean", "Mean"),
    ]  # fmt: skip
    notes = ["A variant is a model under B0 or CoT-B0, as in the paper."]
    title = "Table 15: CheXpert absence contradiction rates by finding, over all variants"
    return Table("table_15_contradictions_by_finding", title, columns, rows, notes)


def _format_range(low: int, high: int) -> str:
    return count(low) if low == high else f"{count(low)}–{count(high)}"


def _build_control_table(runs: Sequence[Run]) -> Table:
    """Build Table 16 from pairs of a direct question and its control, matched by study and finding."""
    direct = {(run.variant, run.setting.split): run for run in select_external(runs, "chexpert_presence", split=None)}
    rows = []
    for control in select_external(runs, "chexpert_positive_only", split=None):
        run = direct.get((control.variant, control.setting.split))
        if run is None:
            continue
        keys = [np.char.add(np.char.add(r.study.astype(str), "\t"), r.finding.astype(str)) for r in (run, control)]
        _, in_direct, in_control = np.intersect1d(keys[0], keys[1], return_indices=True)
        with_negated, without = run.scores(rows=in_direct), control.scores(rows=in_control)
        rows.append(
            [run.model_name, format_base_name(run.setting), protocol_name(run), len(in_direct), control.n_data,
             with_negated["accuracy"], without["accuracy"], without["accuracy"] - with_negated["accuracy"],
             with_negated["n_reversals"], with_negated["reversal_rate"],
             *get_outcome_shares(with_negated), *get_outcome_shares(without)]
        )  # fmt: skip
    columns = [
        MODEL, PROMPT, PROTOCOL, SIZE,
        Column("Direct-presence acc.", ("direct_accuracy",), percent),
        Column("Control acc.", ("control_accuracy",), percent), DELTA,
        Column("Direct “No X”", ("direct_reversals",), count),
        Column("Direct “No X” rate", ("direct_reversal_rate",), percent),
        *build_outcome_columns("direct", "Direct"), *build_outcome_columns("control", "Control"),
    ]  # fmt: skip
    notes = ["Both accuracies are over the questions of both protocols, paired by study and finding."]
    return Table("table_16_control", "Table 16: matched positive-only control", columns, rows, notes)
