"""Figures 3, 4 and 7 of SurgXBench as tables, with AP, coverage and occlusion (sections 4.3 and 5, appendix E)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from medfaith.evaluate_metrics.attention_alignment.score import summarise
from medfaith.evaluate_metrics.ivt.score import instrument_scores, score_triplets, triplet_coverage
from medfaith.evaluate_metrics.ras.levels import LEVELS
from medfaith.evaluate_metrics.ras.score import summarise as summarise_ras
from medfaith.evaluate_metrics.reading.surgical_names import INSTRUMENTS
from medfaith.tasks.stated_boxes import ASK
from medfaith.tasks.surgx.occlusion import compute_occlusion_scores

from ..stated_boxes import StatedRun, build_stated_table
from ..tables import (
    MODEL,
    OUTCOMES,
    SEED,
    SIZE,
    UNANSWERED,
    UNDEFINED,
    Column,
    Table,
    count,
    count_of,
    format_interval_note,
    fraction_interval,
    interval,
    percent,
)
from ..unread import compute_outcome_shares
from .runs import PAPER_SOURCE, SOURCES, SurgXRun, sort_surgx_runs

ALL = "all"
LEVEL_NAMES = {"ivt": "IVT", "iv": "IV", "it": "IT", "i": "I", "missed": "missed"}
LOOKS = {"tp_aa": "TP_AA", "tp_ac": "TP_AC", "fp_ac": "FP_AC"}
PARTS = ("i", "v", "t", "iv", "it", "ivt")
RAS = {level: "ras_global_missed" if level == "missed" else f"ras_local_{level}" for level in LEVELS}
_CI = ("", "_ci_low", "_ci_high")
_QUARTILES = ("_q1", "_median", "_q3")
_WHISKERS = ("_whisker_low", "_whisker_high")
_INTERVALS = format_interval_note("videos")
_DATA = Column("Data", ("data",))
_VISIBLE = (Column("Visible %", ("visible_share",), percent), Column("boxes", ("n_boxes",), count))
_CUT_NOTE = (
    "Cut at 0: scores with a heatmap of which less than 20% is above 0; only that part counts, where equation 1 as it "
    "stands would take the whole frame."
)
_VISIBLE_NOTE = (
    "Visible: the mean share of a true box that the model could see after it resized and cropped the frame. boxes: how "
    "many boxes that mean is over; only frames with heatmaps count."
)


def build_surgx_tables(runs: Sequence[SurgXRun]) -> list[Table]:
    """Build the table of runs and the paper's tables.

    Args:
        runs: The runs.

    Returns:
        The tables that the runs allow; none without runs.
    """
    runs = sort_surgx_runs(list(runs))
    instruments = [run for run in runs if run.setting.ask == "instruments"]
    triplets = [run for run in runs if run.setting.ask == "triplets"]
    tables = [_build_runs_table(runs)] if runs else []
    if instruments:
        tables += _build_instrument_tables(instruments)
    if triplets:
        ras_scores = [(run, summarise_ras(run.records, seed=SEED)) for run in triplets]
        tables += [_build_ras_table(ras_scores), _build_levels_table(ras_scores), _build_triplets_table(triplets)]
    occlusion_runs = [run for run in runs if run.setting.ask == "occlusion" or any(row.occluded for row in run.rows)]
    tables += [_build_occlusion_table(occlusion_runs)] if occlusion_runs else []
    stated_runs = [
        StatedRun(run.name, SOURCES[run.setting.source], run.n_data, run.source.task, run.rows)
        for run in runs
        if run.setting.ask == ASK
    ]
    return tables + build_stated_table("surgx", "SurgX", stated_runs, _INTERVALS)


def _build_runs_table(runs: Sequence[SurgXRun]) -> Table:
    rows = [
        [run.name, SOURCES[run.setting.source], run.setting.ask.replace("_", " "), run.n, run.n_data,
         len(set(run.videos)), run.n_skipped, len(run.unread), len(run.declined), *compute_outcome_shares(run).values(),
         run.source.n_unanswered, _count_tied(run), run.source.task, run.source.date]
        for run in runs
    ]  # fmt: skip
    columns = [
        MODEL, _DATA, Column("Asked for", ("asked",)), SIZE, Column("Videos", ("n_videos",), count),
        Column("Without images", ("n_skipped",), count), Column(None, ("n_unparsed",)), Column(None, ("n_declined",)),
        *OUTCOMES, UNANSWERED, Column("Tied", ("n_tied",), count), Column("Task", ("task",)), Column("Date", ("date",)),
    ]  # fmt: skip
    notes = [
        "n: frames, and for stated boxes the instruments in frames; “a of b” marks a run with --limit or without the "
        "rows whose images are missing. Unread: answers that could not be read; declined: those that say that they "
        "cannot or will not tell. Both predict nothing. Tied: frames whose similarities tie, so that not all of their "
        "predictions can be named."
    ]
    return Table("surgx_runs", "SurgX runs", columns, rows, notes)


def warn_tied(runs: Sequence[SurgXRun]) -> list[str]:
    """Warn of each run with tied similarities.

    Args:
        runs: The runs.

    Returns:
        The warnings.
    """
    return [
        f"WARNING: in {_count_tied(run):,} of {run.n:,} frames ({_count_tied(run) / run.n:.1%}) the similarities of "
        f"{run.name} in {run.source.path.name} tie. Not all of its predictions can be named there; those count as "
        "not predicted. What to do: see in the log which scores are equal; if all of a frame are, check the weights "
        "and the images; if those of some prompts are, check that the tokenizer tells these prompts apart"
        for run in sort_surgx_runs(list(runs))
        if _count_tied(run)
    ]


def _count_tied(run: SurgXRun) -> int:
    return sum(row.tied for row in run.rows)


def _build_instrument_tables(runs: Sequence[SurgXRun]) -> list[Table]:
    """Build Figures 3 and 7, with a row for each model and instrument, and for all instruments.

    A column names the data if some of them are not the paper's.
    """
    columns = {"figure_03": _build_figure_3_columns(), "figure_07": _build_figure_7_columns()}
    rows: dict[str, list[list[Any]]] = {name: [] for name in columns}
    names_data = any(run.setting.source != PAPER_SOURCE for run in runs)
    for run in runs:
        predicted, gold = [row.predicted for row in run.rows], [row.gold for row in run.rows]
        instrument_metrics = instrument_scores(predicted, gold, groups=run.videos, seed=SEED)
        attention_metrics = summarise(run.records, seed=SEED)
        unpredicted = summarise([], n_resamples=1)
        for name in (ALL, *INSTRUMENTS):
            scores = instrument_metrics | attention_metrics
            if name != ALL:
                scores = instrument_metrics["per_class"][name] | attention_metrics["per_instrument"].get(
                    name, unpredicted
                )
            scores = scores | _compute_visible(run, None if name == ALL else name) | compute_outcome_shares(run)
            for figure, figure_columns in columns.items():
                values = [scores[key] for column in figure_columns for key in column.names]
                rows[figure].append([run.name, *[SOURCES[run.setting.source]] * names_data, name, *values])
    first_columns = [MODEL, *[_DATA] * names_data, Column("Instrument", ("instrument",))]
    return [
        Table(
            "surgx_figure_03_instruments", "SurgX Figure 3: instruments, and where the model looks",
            [*first_columns, *columns["figure_03"]], rows["figure_03"],
            [
                "F1 is a fraction; AA and AC are percentages of the 20% of the frame that the model looks at most: AA "
                "on boxes of the predicted instrument, AC on boxes of any. TP, FP: true and false positives; "
                "missed: instruments that are there and not predicted; degenerate: heatmaps that are equal everywhere; "
                "without map: predictions for which the model gave none. These two have no AA and AC. "
                f"{_CUT_NOTE} The row all "
                f"takes every prediction alike. {_VISIBLE_NOTE} {_INTERVALS}"
            ],
        ),
        Table(
            "surgx_figure_07_spread", "SurgX Figure 7: precision and recall, spread of AA and AC",
            [*first_columns, *columns["figure_07"]], rows["figure_07"],
            [f"Quartiles: 25% / median / 75% of the predictions; the CSV has the whiskers. {_INTERVALS}"],
        ),
    ]  # fmt: skip


def _build_figure_3_columns() -> list[Column]:
    return [
        Column("F1 [95% CI]", tuple(f"f1{end}" for end in _CI), fraction_interval),
        *(
            Column(f"{title} % [95% CI]", tuple(f"{name}{end}" for end in _CI), interval)
            for name, title in LOOKS.items()
        ),
        Column("TP", ("n_tp",), count), Column("FP", ("n_fp",), count),
        Column("missed", ("n_false_negatives",), count), Column("degenerate", ("n_degenerate",), count),
        Column("without map", ("n_without_map",), count), Column("cut at 0", ("n_cut_at_zero",), count), *_VISIBLE,
        *OUTCOMES,
    ]  # fmt: skip


def _compute_visible(run: SurgXRun, label: str | None = None) -> dict[str, float]:
    """Compute the visible share of the true boxes with this label, or of all."""
    shares = [share for row in run.rows for share in row.visible_shares(label)]
    return {"visible_share": sum(shares) / len(shares) if shares else math.nan, "n_boxes": len(shares)}


def _build_figure_7_columns() -> list[Column]:
    return [
        *(
            Column(f"{name.capitalize()} [95% CI]", tuple(f"{name}{end}" for end in _CI), fraction_interval)
            for name in ("precision", "recall")
        ),
        *(column for name, title in LOOKS.items() for column in _build_spread_columns(f"{title} %", name)),
        Column("TP scored", ("n_tp_scored",), count), Column("FP scored", ("n_fp_scored",), count), *OUTCOMES,
    ]  # fmt: skip


def _build_spread_columns(title: str, name: str) -> list[Column]:
    """Build columns for the quartiles and, in the CSV alone, the whiskers."""
    return [
        Column(f"{title} quartiles", tuple(name + end for end in _QUARTILES), _format_quartiles),
        Column(None, tuple(name + end for end in _WHISKERS)),
    ]


def _build_ras_table(ras_scores: Sequence[tuple[SurgXRun, dict[str, Any]]]) -> Table:
    columns = [
        MODEL, _DATA, Column("Match", ("level",)), Column("Score", ("score",)),
        Column("Mean % [95% CI]", tuple(f"ras{end}" for end in _CI), interval),
        *_build_spread_columns("%", "ras"), Column("scored", ("n_scored", "n"), count_of), *OUTCOMES,
    ]  # fmt: skip
    rows = [
        [run.name, SOURCES[run.setting.source], LEVEL_NAMES[level],
         "RAS_global" if level == "missed" else "RAS_local",
         *(scores[RAS[level] + end] for end in (*_CI, *_QUARTILES, *_WHISKERS)),
         scores[f"n_{level}_scored"], scores[f"n_{level}"], *compute_outcome_shares(run).values()]
        for run, scores in ras_scores
        for level in LEVELS
    ]  # fmt: skip
    notes = [
        "RAS: share of the 20% of the frame that the model looks at most that moves on its own or lies on the boxes of "
        "the predicted instrument (local), of any instrument (global, the mean over all predictions of the frame). I: "
        "only the instrument matches; the paper has no such level. scored: how many true triplets of this match have a "
        f"score, “a of b”; the next table counts why the others have none. {_INTERVALS}"
    ]
    return Table("surgx_figure_04a_ras", "SurgX Figure 4 (a): RAS by match", columns, rows, notes)


def _build_levels_table(ras_scores: Sequence[tuple[SurgXRun, dict[str, Any]]]) -> Table:
    counts = {
        "n_null": "without action", "n_without_box": "without box", "n_without_motion": "without motion",
        "n_without_prediction": "without prediction", "n_without_map": "without map", "n_degenerate": "degenerate",
        "n_left_out_of_missed": "left out of missed", "n_cut_at_zero": "cut at 0",
    }  # fmt: skip
    columns = [
        MODEL, _DATA,
        *(
            Column(f"{LEVEL_NAMES[level]} % [95% CI]", tuple(f"share_{level}{end}" for end in _CI), interval)
            for level in LEVELS
        ),
        Column("true triplets", ("n_gold",), count), *(Column(title, (name,), count) for name, title in counts.items()),
        *_VISIBLE, *OUTCOMES,
    ]  # fmt: skip
    rows = [
        [run.name, SOURCES[run.setting.source], *(scores[key] for column in columns[2:] for key in column.names)]
        for run, level_scores in ras_scores
        for scores in [level_scores | _compute_visible(run) | compute_outcome_shares(run)]
    ]
    notes = [
        "Shares of all true triplets. Without action: instruments that do nothing (null_verb); without box: the "
        "instrument has none in the frame. A true triplet has no RAS where the frame's motion is not known, or where "
        "there is no prediction, no heatmap, or only degenerate heatmaps (equal everywhere). Left out of missed: "
        f"predictions without a score, which the mean of a missed triplet leaves out. {_CUT_NOTE} {_VISIBLE_NOTE} "
        f"{_INTERVALS}"
    ]
    return Table("surgx_figure_04b_levels", "SurgX Figure 4 (b): how true triplets are matched", columns, rows, notes)


def _build_triplets_table(runs: Sequence[SurgXRun]) -> Table:
    columns = [
        MODEL, _DATA, Column("Coverage % [95% CI]", tuple(f"coverage{end}" for end in _CI), interval),
        Column("covered", ("n_covered", "n_gold_triplets"), count_of),
        *(Column(f"AP_{component.upper()} %", (f"ap_{component}",), percent) for component in PARTS), *OUTCOMES,
    ]  # fmt: skip
    rows = []
    for run in runs:
        predicted, gold = [row.predicted or () for row in run.rows], [row.gold for row in run.rows]
        covered = triplet_coverage(predicted, gold, groups=run.videos, seed=SEED)
        scores = covered | _compute_precisions(run) | compute_outcome_shares(run)
        rows.append(
            [run.name, SOURCES[run.setting.source], *(scores[key] for column in columns[2:] for key in column.names)]
        )
    notes = [
        "Coverage: share of the true triplets that are predicted as they are. AP: means over videos, then over the "
        "classes that occur, of instrument (I), verb (V), target (T) and their pairs and triplet; undefined for a "
        f"model that writes its triplets, which ranks none of the others. {_INTERVALS}"
    ]
    return Table("surgx_triplets", "SurgX triplets: coverage and AP", columns, rows, notes)


def _compute_precisions(run: SurgXRun) -> dict[str, float]:
    scores = [row.scores for row in run.rows if row.scores is not None]
    if len(scores) < run.n:
        return {f"ap_{component}": float("nan") for component in PARTS}
    references = [{"triplets": row.gold, "video": row.video} for row in run.rows]
    triplet_scores = score_triplets(scores, references, n_resamples=1)
    return {f"ap_{component}": triplet_scores[f"ap_{component}"] for component in PARTS}


def _build_occlusion_table(runs: Sequence[SurgXRun]) -> Table:
    rows = []
    for run in runs:
        scores = compute_occlusion_scores([row._asdict() for row in run.rows], seed=SEED)
        n_matched = scores["n_covered"] + scores["n_without_region"]
        rows.append(
            [run.name, SOURCES[run.setting.source], run.n, n_matched, scores["n_without_region"], scores["n_lost"],
             *(scores[f"lost{end}"] for end in _CI), scores["n_covered"] - scores["n_lost"],
             *(scores[f"similarity_drop{end}"] for end in _CI), *compute_outcome_shares(run).values()]
        )  # fmt: skip
    columns = [
        MODEL, _DATA, Column("Frames", ("n",), count), Column("with an IVT match", ("n_matched",), count),
        Column("without region", ("n_without_region",), count),
        Column("lost", ("n_lost",), count),
        Column("lost % [95% CI]", tuple(f"lost{end}" for end in _CI), interval),
        Column("remaining", ("n_remaining",), count),
        Column("Mean drop [95% CI]", tuple(f"similarity_drop{end}" for end in _CI), _format_similarity), *OUTCOMES,
    ]  # fmt: skip
    notes = [
        "What the model looks at most is painted black and the frame is scored again. Lost: of the frames with a true "
        "triplet among the predictions, those that have none there afterwards; frames whose heatmap has no region to "
        "paint (degenerate) are left out. Mean drop: of the similarity of the best ranked matched triplet in the "
        f"frames that remain. A model that does not score painted frames has none with a match. {_INTERVALS}"
    ]
    return Table("surgx_occlusion", "SurgX occlusion: without what the model looks at", columns, rows, notes)


def _format_quartiles(low: Any, median: Any, high: Any) -> str:
    texts = [percent(value) for value in (low, median, high)]
    return UNDEFINED if texts[1] == UNDEFINED else " / ".join(texts)


def _format_similarity(value: float, low: float, high: float) -> str:
    texts = [UNDEFINED if math.isnan(number) else f"{number:.2f}" for number in (value, low, high)]
    return UNDEFINED if math.isnan(value) else f"{texts[0]} [{texts[1]}, {texts[2]}]"
