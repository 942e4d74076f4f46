"""The table of runs of That's the Wrong Lung!, and notes on missing logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from medfaith.evaluate_metrics.localization.pairs import RANDOM_SENTENCES
from medfaith.evaluate_metrics.localization.score import DEGENERATE, WITHOUT_BOX, WITHOUT_MAP

from ..tables import MODEL, SIZE, Column, Table, count, count_of
from .runs import GOLD, SYNTHETIC, TASK, TRIMMED, WrongLungRun
from .scores import PERTURBATIONS, ModelScores

SIZES = (
    Column("scored", ("n_auroc", "n_rows"), count_of), Column("without map", (f"n_{WITHOUT_MAP}",), count),
    Column("degenerate", (f"n_{DEGENERATE}",), count), Column("without box", (f"n_{WITHOUT_BOX}",), count),
)  # fmt: skip
_OF_ORIGINALS = "Wrong Lung Tables 1 to 3, 7 and 10 to 12 and the correlations"
_NEEDED = {  # config -> the tables that need its changed sentences
    **dict.fromkeys(PERTURBATIONS, "the changes (Figures 3, 5, 14 and 15)"),
    RANDOM_SENTENCES: "Wrong Lung Tables 4, 8 and 9 and the changes (Figures 3, 5, 14 and 15)",
    SYNTHETIC: "Wrong Lung Tables 7, 11 and 12 as synthetic sentences",
    TRIMMED: "Wrong Lung Table 6",
}


def build_runs_table(models: Sequence[ModelScores]) -> Table:
    """Build the table of runs, with a row for each log.

    Args:
        models: The models.

    Returns:
        The table.
    """
    rows = [_format_row(run) for model in models for run in model.runs.values()]
    columns = [
        MODEL, Column("Sentences", ("config",)), SIZE, Column("Patients", ("n_patients",), count),
        Column("Without images", ("n_skipped",), count), Column("Other patients", ("n_left_out",), count),
        Column("scored", ("n_auroc",), count), *SIZES[1:],
        Column("Pairs", ("n_pairs",), count), Column("without Δ", ("n_pairs_undefined",), count),
        Column("Upsampling", ("upsampling",)), Column("P ties", ("precision_ties",)),
        Column("Task", ("task",)), Column("Date", ("date",)),
    ]  # fmt: skip
    notes = [
        "n: sentences asked; each changed sentence follows its original. “a of b” marks a run with --limit, or one "
        "that leaves out rows whose images are missing, or whose patients --patients leaves out (Other patients). "
        "scored: sentences with an AUROC. The others have no attention (without map), no attention on any region "
        "(degenerate), or boxes that hold no pixel of the view (without box) or all of them. Pairs: a changed sentence "
        "with its original. without Δ: pairs in which one of the two has no AUROC. P ties: whether precision counts "
        "pixels tied with the threshold. Runs of another upsampling, or with other ties, have tables of their own."
    ]
    return Table("wrong_lung_runs", "Wrong Lung runs", columns, rows, notes)


def _format_row(run: WrongLungRun) -> list[Any]:
    states = [row["state"] for row in run.rows]
    scored_ids = {row["id"] for row in run.rows if row["values"]["auroc"] is not None}
    ids = {row["id"] for row in run.rows}
    pairs = [row for row in run.changed if row["original_id"] in ids]
    return [
        run.name, run.setting.config, run.n, run.n_data, len({row["cluster"] for row in run.rows}), run.n_skipped,
        run.n_left_out, len(scored_ids), *(states.count(state) for state in (WITHOUT_MAP, DEGENERATE, WITHOUT_BOX)),
        len(pairs), sum(not {row["id"], row["original_id"]} <= scored_ids for row in pairs), *run.setting.scoring,
        run.source.task, run.source.date,
    ]  # fmt: skip


def note_missing_logs(models: Sequence[ModelScores]) -> list[str]:
    """Note the models and tables that are left out because a log is missing.

    Args:
        models: The models.

    Returns:
        The notes.
    """
    notes = []
    without = [model.name for model in models if model.source is None]
    if without:
        notes.append(f"{', '.join(without)}: no original sentence is logged; left out of {_OF_ORIGINALS}")
    for model in models:
        if model.source not in (None, GOLD):
            n = len(model.runs[model.source].originals)
            source_note = f"{_OF_ORIGINALS} take the {n:,} originals of {TASK}{model.source}"
            notes.append(f"{model.name}: {TASK}{GOLD} is not logged; {source_note}")
    missing_tasks: dict[tuple[str, str], list[str]] = {}  # (models, tables) -> tasks
    for config, tables in _NEEDED.items():
        without = [model.name for model in models if config not in model.runs or not model.runs[config].changed]
        if without:
            missing_tasks.setdefault((", ".join(without), tables), []).append(TASK + config)
    for (names, tables), tasks in missing_tasks.items():
        notes.append(f"{names}: no changed sentence of {', '.join(tasks)} is logged; left out of {tables}")
    return notes
