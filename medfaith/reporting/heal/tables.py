"""Tables 2, 3, 4, 5 and 8 of HEAL-MedVQA (section 5, appendix C)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from medfaith.evaluate_metrics.tpt import score as tpt
from medfaith.tasks.decoding.titles import TITLES
from medfaith.tasks.stated_boxes import ASK

from ..relevancy import RelevancyRun, build_relevancy_table
from ..stated_boxes import StatedRun, build_stated_table
from ..tables import (
    MODEL,
    OUTCOMES,
    SIZE,
    UNANSWERED,
    UNDEFINED,
    Column,
    Table,
    count,
    format_interval_note,
    fraction,
    fraction_interval,
    share_of,
)
from ..unread import compute_outcome_shares
from .localization import build_anatomy_tables, build_localization_tables
from .runs import PAPER, SOURCES, HealRun

ASKED = {"closed": "yes/no", "open": "open-ended", "tpt": "TPT", "vpt": "VPT", ASK: "stated boxes"}
LOBA, PLAIN = TITLES["loba"], TITLES["greedy"]
INTERVALS = format_interval_note("images")


def build_heal_tables(runs: Sequence[HealRun]) -> list[Table]:
    """Build the table of runs and the paper's tables.

    Args:
        runs: The runs.

    Returns:
        The tables that the runs allow.
    """
    runs = sorted(runs, key=get_sort_key)
    kinds = {run.setting.ask for run in runs}
    tables = [_build_runs_table(runs)] if runs else []
    tables += [_build_accuracy_table(runs)] if kinds & {"closed", "open"} else []
    tables += [_build_tpt_table(runs)] if "tpt" in kinds else []
    tables += [_build_vpt_table(runs)] if "vpt" in kinds else []
    tables += _build_loba_tables(runs) + build_localization_tables(runs) + build_anatomy_tables(runs)
    stated_runs = [
        StatedRun(run.name, SOURCES[run.setting.config], run.n_data, run.source.task, run.rows)
        for run in runs
        if run.setting.ask == ASK
    ]
    tables += build_stated_table("heal", "HEAL", stated_runs, INTERVALS)
    relevancy_runs = [
        RelevancyRun(run.name, run.source.task, [row.relevancy for row in run.rows], [row.image_id for row in run.rows])
        for run in runs
    ]
    title = "HEAL Figure 1b: relevancy of image and text"
    return tables + build_relevancy_table(
        "heal_figure_01_relevancy", title, relevancy_runs, fraction_interval, INTERVALS
    )


def get_sort_key(run: HealRun) -> tuple:
    """Get the key that sorts runs by model, prompt and split, then in the order of `SOURCES` and `ASKED`.

    Args:
        run: The run.

    Returns:
        The key.
    """
    setting = run.setting
    ranks = [*SOURCES].index(setting.config), [*ASKED].index(setting.ask)
    return run.model.casefold(), run.model, run.adapter, setting.prompt, setting.split != "test", *ranks


def _format_part(value: Any, total: Any) -> str:
    return UNDEFINED if total is None else f"{count(value)} of {count(total)}"


def _format_pair_share(originals: Any, perturbed: Any, n: Any) -> str:
    return UNDEFINED if n is None else share_of(originals + perturbed, n)


def _build_f1_columns(name: str, n_unread: str, n_declined: str, n: str) -> list[Column]:
    return [
        Column("F1 [95% CI]", tuple(f"{name}_f1{end}" for end in ("", "_ci_low", "_ci_high")), fraction_interval),
        Column("precision", (f"{name}_precision",), fraction),
        Column("recall", (f"{name}_recall",), fraction),
        Column("unread", (n_unread, n), share_of),
        Column("declined", (n_declined, n), share_of),
    ]


def _build_score_column(title: str | None, name: str) -> Column:
    return Column(title, (name, f"{name}_ci_low", f"{name}_ci_high"), fraction_interval)


_CLOSED_COLUMNS = _build_f1_columns("yes_no", "n_closed_unparsed", "n_closed_declined", "n_closed")
OPEN_COLUMNS = _build_f1_columns("open", "n_open_unreadable", "n_open_declined", "n_open")
_TRUE_POSITIVES = Column("true positives", ("n_true_positives", "n_originals"), _format_part)
_UNREAD = tuple(
    Column(title, (f"n_{name}_originals", f"n_{name}_perturbed", "n_asked"), _format_pair_share)
    for title, name in (("unread", "unparsed"), ("declined", "declined"))
)
_PAIRED_NOTE = (
    "true positives: originals that the model answers Yes, of all that were asked; pairs: true positives and their "
    "perturbed partners. A partner that is unread or declined did not turn to No; unread and declined count these and "
    f"the originals that are. {INTERVALS}"
)


def _build_runs_table(runs: Sequence[HealRun]) -> Table:
    rows = [
        [run.name, SOURCES[run.setting.config], ASKED[run.setting.ask], run.n, run.n_data, run.n_skipped,
         *compute_outcome_shares(run).values(), run.source.n_unanswered, run.source.task, run.source.date]
        for run in runs
    ]  # fmt: skip
    columns = [
        MODEL, Column("Source", ("source",)), Column("Questions", ("questions",)), SIZE,
        Column("Without images", ("n_skipped",), count), *OUTCOMES, UNANSWERED,
        Column("Task", ("task",)), Column("Date", ("date",)),
    ]  # fmt: skip
    notes = ["n: questions asked; “a of b” marks a run with --limit or without the rows whose images are missing."]
    return Table("heal_runs", "HEAL runs", columns, rows, notes)


def _build_accuracy_table(runs: Sequence[HealRun]) -> Table:
    cells = [
        (ask, column._replace(title=f"{ASKED[ask]} {column.title}"))
        for ask, columns in (("closed", _CLOSED_COLUMNS), ("open", OPEN_COLUMNS))
        for column in columns
    ]
    notes = [
        "Yes is the positive class of yes/no questions; open-ended ones have the multi-label micro F1 of the diseases "
        "that an answer names, read by words (the paper reads them with a language model). What is unread or declined "
        f"is wrong, and names no disease. {INTERVALS}"
    ]
    return _build_table("heal_table_02_accuracy", "HEAL Table 2: accuracy", cells, runs, notes)


def _build_tpt_table(runs: Sequence[HealRun]) -> Table:
    cells = [
        ("tpt", column)
        for kind in tpt.KINDS
        for column in (
            _build_score_column(f"{kind} [95% CI]", f"tpt_{kind}"),
            Column("pairs", (f"n_pairs_{kind}",), count),
        )
    ]
    cells += [("tpt", column) for column in (_TRUE_POSITIVES, *_UNREAD, _build_score_column(None, "tpt"))]
    notes = [f"Share of true positives whose Yes turns to No with another anatomy or disease in the question. "
             f"{_PAIRED_NOTE}"]  # fmt: skip
    return _build_table("heal_table_03_tpt", "HEAL Table 3: TPT", cells, runs, notes)


def _build_vpt_table(runs: Sequence[HealRun]) -> Table:
    columns = (
        _build_score_column("VPT [95% CI]", "vpt"),
        Column("pairs", ("n_pairs",), count),
        _TRUE_POSITIVES,
        *_UNREAD,
    )
    notes = [f"Share of true positives whose Yes turns to No with another patient's region in the image. "
             f"{_PAIRED_NOTE}"]  # fmt: skip
    return _build_table("heal_table_04_vpt", "HEAL Table 4: VPT", [("vpt", c) for c in columns], runs, notes)


def _build_loba_tables(runs: Sequence[HealRun]) -> list[Table]:
    """Build the tables on LobA's parts and on its added weight; none without a run of LobA."""
    highlighted = [run for run in runs if _get_decoder(run) == LOBA]
    models = {run.model for run in highlighted}
    part_runs = [run for run in runs if run.model in models and _get_decoder(run) in ("", PLAIN, LOBA)]
    f1 = [
        (ask, _build_score_column(f"{ASKED[ask]} F1 [95% CI]", name))
        for ask, name in (("closed", "yes_no_f1"), ("open", "open_f1"))
    ]
    perturbed = [(ask, _build_score_column(f"{ask.upper()} [95% CI]", ask)) for ask in ("tpt", "vpt")]
    note = (
        "The model alone; greedy with regions=loba:..., which localizes only (the paper's LobA w/o self-prompt); and "
        f"LobA, whose highlighter acts on that region, or on the one that is named there. {INTERVALS}"
    )
    tables = [_build_table("heal_table_05_parts", "HEAL Table 5: LobA's parts", [*perturbed, *f1], part_runs, [note])]
    weights = f"A row for each weight that is added to the attention logits of the region's patches. {INTERVALS}"
    tables += [_build_table("heal_table_08_weights", "HEAL Table 8: the added weight", f1, highlighted, [weights])]
    return [table for table in tables if table.rows] if highlighted else []


def _get_decoder(run: HealRun) -> str:
    """Get the name of the decoder without parameters; "" without one."""
    return run.source.decoding.partition(",")[0]


def _build_table(
    name: str, title: str, cells: Sequence[tuple[str, Column]], runs: Sequence[HealRun], notes: Sequence[str]
) -> Table:
    """Build a table with a row for each model and the columns of `cells` (ask, column) for each source."""
    kinds = {ask for ask, _ in cells}
    scores_by_model: dict[tuple, dict[tuple[str, str], dict[str, Any]]] = {}
    for run in runs:
        if run.setting.ask in kinds:
            key = (run.name, run.model, run.adapter, run.setting.prompt, run.setting.split)
            scores_by_model.setdefault(key, {})[run.setting.config, run.setting.ask] = run.scores() | {"n_asked": run.n}
    present = {config for scores in scores_by_model.values() for config, _ in scores}
    # The paper's tables have columns of both its sources.
    shown = present | {*PAPER} if present & {*PAPER} else present
    configs = [config for config in SOURCES if config in shown]
    columns = [MODEL] + [
        Column(
            column.title and f"{SOURCES[config]} {column.title}",
            tuple(f"{config}_{n}" for n in column.names),
            column.show,
        )
        for config in configs
        for _, column in cells
    ]
    rows = [
        [key[0]]
        + [scores.get((config, ask), {}).get(n) for config in configs for ask, column in cells for n in column.names]
        for key, scores in scores_by_model.items()
    ]
    return Table(name, title, columns, rows, notes)
