"""Tables 1 to 4 and 6 to 12 of That's the Wrong Lung!, with figures 3, 5, 14, 15 and 17 to 24 as tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from medfaith.evaluate_metrics.localization.pairs import ALL
from medfaith.evaluate_metrics.localization.ranking import TOPS

from ..relevancy import RelevancyRun, build_relevancy_table
from ..tables import (
    MODEL,
    UNDEFINED,
    Column,
    Table,
    count,
    count_of,
    format_interval_note,
    fraction_interval,
    interval,
    percent,
    points_interval,
)
from .runs import WrongLungRun
from .runs_table import SIZES, build_runs_table, note_missing_logs
from .scores import (
    ABNORMAL,
    COMPARED,
    PERTURBATIONS,
    SUBSET_NAMES,
    ModelScores,
    Scores,
    group_by_scoring,
    mark_scoring,
)

_CI = ("", "_ci_low", "_ci_high")
_INTERVALS = format_interval_note("patients")
_IN_CSV = f"The CSV has the intervals and n of each mean. {_INTERVALS}"
_UNSCORED = (
    "scored: sentences with an AUROC, “a of b” of all. Without: sentences without attention (map), with none on any "
    "region (degenerate), with boxes that hold no pixel of the view (box)."
)
_SYNTHETIC = (MODEL, Column("Synth", ("synthetic",)))
_STAR = "★"
_TAKES_BOXES = (
    f"{_STAR}: the input of this model has the reference boxes of all anatomies of the image, and the boxes of a "
    "sentence are among them. It is not comparable with the other models."
)
TITLES = {
    "auroc": "AUROC", "average_precision": "Avg. P", **{f"iou_{top}": f"IOU@{top}" for top in TOPS},
    **{f"precision_{top}": f"P@{top}" for top in TOPS}, "entropy": "Entropy", "no_attn": "No Attn",
    "local": "Local", "global": "Global", ABNORMAL: "Abnormal",
}  # fmt: skip


def build_wrong_lung_tables(models: Sequence[ModelScores]) -> tuple[list[Table], list[str]]:
    """Build the tables, separately for each scoring.

    Args:
        models: The models.

    Returns:
        The tables, none without models; and notes on missing logs.
    """
    if not models:
        return [], []
    scored = [
        mark_scoring(table, scoring)
        for scoring, group in group_by_scoring(models)
        for table in _build_scoring_tables(group)
    ]
    relevancy_tables = _build_relevancy_tables([run for model in models for run in model.runs.values()])
    return [build_runs_table(models), *scored, *relevancy_tables], note_missing_logs(models)


def _build_relevancy_tables(runs: Sequence[WrongLungRun]) -> list[Table]:
    """Build the table of relevancy: of the changed sentences of a run, or of its originals (gold)."""
    relevancy_runs = []
    for run in runs:
        rows = run.changed or run.originals
        relevancies, patients = [row["relevancy"] for row in rows], [row["cluster"] for row in rows]
        relevancy_runs.append(RelevancyRun(run.name, run.source.task, relevancies, patients))
    title = "Wrong Lung: relevancy of image and text"
    return build_relevancy_table("wrong_lung_relevancy", title, relevancy_runs, interval, _INTERVALS)


def _build_scoring_tables(models: Sequence[ModelScores]) -> list[Table]:
    def mark(table: Table) -> Table:
        return _mark_takes_boxes(table, models)

    tables = [
        mark(_build_localization_table(models)),
        mark(_build_subset_table(models)),
        _build_candidate_table(models, "04", (ALL, ABNORMAL)),
        mark(_build_trimmed_table(models)),
        mark(_build_all_subsets_table(models)),
        _build_divergence_table(models),
        _build_candidate_table(models, "09", ("one_lung", "mdrb")),
        mark(_build_entropy_table(models)),
        mark(_build_top_table(models, "11", "precision")),
        mark(_build_top_table(models, "12", "iou")),
        mark(_build_delta_table(models)),
        *_build_correlation_tables(models),
    ]
    return [table for table in tables if table.rows]


def _mark_takes_boxes(table: Table, models: Sequence[ModelScores]) -> Table:
    """Mark the models whose input has the reference boxes, as the paper marks UNITER (Table 3)."""
    marked = {model.name for model in models if model.takes_boxes}
    if not marked.intersection(row[0] for row in table.rows):
        return table
    model_column = MODEL._replace(show=lambda name: f"{name}{_STAR}" if name in marked else str(name))
    return replace(table, columns=[model_column, *table.columns[1:]], notes=[*table.notes, _TAKES_BOXES])


def _build_localization_table(models: Sequence[ModelScores]) -> Table:
    entries = [([model.name], model.originals[ALL]) for model in models if model.originals]
    note = (
        "Where attention lies, of all original sentences. IOU: of the 5, 10 and 30% of the pixels that are attended "
        "most; its intervals are in the CSV."
    )
    title = "Wrong Lung Tables 1 and 3: localization"
    return _build_scored_table(
        "wrong_lung_table_01_03_localization", title, [MODEL], entries, note, _build_top_columns("iou")
    )


def _build_subset_table(models: Sequence[ModelScores]) -> Table:
    entries = [
        ([model.name, name], model.originals[subset])
        for model in models
        for subset, name in SUBSET_NAMES.items()
        if subset != ALL and model.originals
    ]
    first_columns = [MODEL, Column("Subset", ("subset",))]
    title = "Wrong Lung Table 2: subsets"
    return _build_scored_table(
        "wrong_lung_table_02_subsets", title, first_columns, entries, "As Tables 1 and 3.", _build_top_columns("iou")
    )


def _build_trimmed_table(models: Sequence[ModelScores]) -> Table:
    entries = [([model.name], model.trimmed[ALL]) for model in models if model.trimmed]
    title = "Wrong Lung Table 6: without large boxes"
    note = "As Tables 1 and 3, without the box of a whole lung where the sentence has another one on that side."
    return _build_scored_table("wrong_lung_table_06_trimmed", title, [MODEL], entries, note)


def _build_scored_table(
    name: str,
    title: str,
    first_columns: Sequence[Column],
    entries: Iterable[tuple[Sequence[Any], Mapping[str, Any]]],
    note: str,
    tops: Sequence[Column] = (),
) -> Table:
    """Build a table of AUROC, average precision, `tops`, and the number of sentences without scores."""
    return _build_table(
        name,
        title,
        first_columns,
        [*_build_ranking_columns(), *tops, *SIZES],
        entries,
        [f"{note} {_UNSCORED} {_INTERVALS}"],
    )


def _build_all_subsets_table(models: Sequence[ModelScores]) -> Table:
    def build_columns(subset: str, name: str) -> list[Column]:
        scored = Column("scored", (f"n_auroc_{subset}", f"n_rows_{subset}"), count_of)
        return [*_build_ranking_columns(subset, f"{name}: "), scored]

    title = "Wrong Lung Table 7: localization on all subsets"
    notes = [f"Synth: sentences made of the labels. scored: sentences with an AUROC, “a of b” of all. {_INTERVALS}"]
    return _build_wide_table(
        "wrong_lung_table_07_all_subsets",
        title,
        _list_synthetic_scores(models),
        build_columns,
        notes,
        first_columns=_SYNTHETIC,
    )


def _build_top_table(models: Sequence[ModelScores], number: str, kind: str) -> Table:
    def build_columns(subset: str, name: str) -> list[Column]:
        sizes = (*(f"n_{kind}_{top}_{subset}" for top in TOPS), f"n_rows_{subset}")
        return [*_build_top_columns(kind, subset, name), Column("n", sizes, _format_sizes)]

    metric_name = "IOU" if kind == "iou" else kind.capitalize()
    title = f"Wrong Lung Table {number}: {metric_name} at 5/10/30%"
    ties = {
        "iou": "IOU is 0 where so many pixels are equal that none is among the top ones.",
        "included": "Pixels that are tied with the least of them count, too, so that they may be more.",
        "excluded": "There is no precision where so many pixels are equal that none is among the top ones.",
    }[kind if kind == "iou" else models[0].scoring.precision_ties]
    note = f"Of the 5, 10 and 30% of the pixels that are attended most. {ties} n: the number of sentences"
    note = f"{note} with a value, one for each share where these differ, “of” all where some have none."
    notes = [f"{note} Synth: as in Table 7. {_IN_CSV}"]
    entries = _list_synthetic_scores(models)
    return _build_wide_table(
        f"wrong_lung_table_{number}_{kind}", title, entries, build_columns, notes, first_columns=_SYNTHETIC
    )


def _list_synthetic_scores(models: Sequence[ModelScores]) -> list[tuple[list[str], Scores]]:
    scores_by_model = ((model.name, (("no", model.originals), ("yes", model.synthetic))) for model in models)
    return [
        ([name, synthetic], scores)
        for name, compute_model_scores in scores_by_model
        for synthetic, scores in compute_model_scores
    ]


def _build_candidate_table(models: Sequence[ModelScores], number: str, subsets: Sequence[str]) -> Table:
    def build_columns(subset: str, name: str) -> list[Column]:
        return [
            _build_interval_column(f"{name}: local", "local_accuracy", subset),
            _build_interval_column("global", "global_accuracy", subset),
            Column("pairs", (f"n_local_accuracy_{subset}", f"n_global_accuracy_{subset}"), _format_both),
        ]

    title = f"Wrong Lung Table {int(number)}: choice between a sentence and a random one"
    notes = [
        "How often, in percent, an image is more similar to its own sentence than to a random one, by local and by "
        "global embeddings. 50 is chance; two equal similarities count as a wrong choice. pairs: how many pairs have "
        f"both similarities, local/global where the two numbers differ. {_INTERVALS}"
    ]
    entries = [([model.name], model.candidates) for model in models]
    return _build_wide_table(
        f"wrong_lung_table_{number}_candidates", title, entries, build_columns, notes, subsets=subsets
    )


def _build_divergence_table(models: Sequence[ModelScores]) -> Table:
    def build_columns(subset: str, name: str) -> list[Column]:
        pairs = Column("pairs", (f"n_kl_{subset}", f"n_pairs_{subset}"), count_of)
        return [_build_interval_column(name, "kl", subset, fraction_interval), pairs]

    title = "Wrong Lung Table 8: divergence of attention under a random sentence"
    notes = [
        "Symmetric Kullback-Leibler divergence in nats between the attention of a sentence and of a random one in the "
        "same image, over its regions, without attention on no region; 0 where the text does not matter. "
        f"pairs: “a of b”, those with both attentions. {_INTERVALS}"
    ]
    entries = [([model.name], model.divergence) for model in models]
    return _build_wide_table("wrong_lung_table_08_divergence", title, entries, build_columns, notes)


def _build_entropy_table(models: Sequence[ModelScores]) -> Table:
    def build_columns(subset: str, name: str) -> list[Column]:
        scored = Column("n", (f"n_entropy_{subset}", f"n_rows_{subset}"), count_of)
        return [_build_interval_column(name, "entropy", subset, fraction_interval), scored]

    notes = [
        "In nats, over the regions of a model's grid and, where it has one, the token for no region: models with "
        f"different grids have different largest values. n: sentences with attention, “a of b” of all. {_INTERVALS}"
    ]
    title = "Wrong Lung Table 10: entropy of the attention"
    entries = [([model.name], model.originals) for model in models]
    return _build_wide_table("wrong_lung_table_10_entropy", title, entries, build_columns, notes)


def _build_wide_table(
    name: str,
    title: str,
    entries: Iterable[tuple[Sequence[Any], Scores]],
    build_columns: Callable[[str, str], Sequence[Column]],
    notes: Sequence[str],
    *,
    first_columns: Sequence[Column] = (MODEL,),
    subsets: Sequence[str] = tuple(SUBSET_NAMES),
) -> Table:
    """Build a table with a row for each entry that has scores, and the columns of each subset."""
    wide = [column for subset in subsets for column in build_columns(subset, SUBSET_NAMES[subset])]
    return _build_table(
        name,
        title,
        first_columns,
        wide,
        [(names, _merge_subsets(scores)) for names, scores in entries if scores],
        notes,
    )


def _build_delta_table(models: Sequence[ModelScores]) -> Table:
    columns = [
        _build_interval_column("Δ AUROC", "delta_auroc", show=points_interval),
        Column("pairs", ("n_delta_auroc", "n_pairs"), count_of),
        _build_interval_column("Δ Avg. P", "delta_average_precision", show=points_interval),
        Column(None, ("n_delta_average_precision",)), Column("without original", ("n_unpaired",), count),
    ]  # fmt: skip
    entries = [
        ([model.name, name, SUBSET_NAMES[subset] + "*" * (subset == main_subset)], scores)
        for model in models
        for config, (name, main_subset) in PERTURBATIONS.items()
        for subset, scores in model.deltas.get(config, {}).items()
    ]
    first_columns = [MODEL, Column("Perturbation", ("perturbation",)), Column("Subset", ("subset",))]
    notes = [
        "Changed sentence less its original, in percentage points, averaged over pairs: attention that follows the "
        "text loses. Where nothing changes, the interval is Wilson's: a change that is too rare to be seen in these "
        "rows could go in either direction. *: the subset that the perturbation should affect most (Figures 3 and 5). "
        f"pairs: “a of b”, those with an AUROC on both sides. {_INTERVALS}"
    ]
    title = "Wrong Lung Figures 3, 5, 14 and 15: what a perturbation changes"
    return _build_table("wrong_lung_figures_03_05_14_15_deltas", title, first_columns, columns, entries, notes)


def _build_correlation_tables(models: Sequence[ModelScores]) -> list[Table]:
    correlated = [model for model in models if model.correlations]
    return [_build_correlation_table(model, number) for number, model in enumerate(correlated, start=1)]


def _build_correlation_table(model: ModelScores, number: int) -> Table:
    """Build the correlations of one model, each pair twice, so that a row has all pairs of its value."""
    correlations = model.correlations
    sizes = [n for _, n in correlations.values()]
    rows: list[list[Any]] = []
    for a in COMPARED:
        cells = [("", "") if a == b else correlations.get((a, b)) or correlations[b, a] for b in COMPARED]
        rows.append([model.name, TITLES[a], *(value for cell in cells for value in cell)])
    columns = [
        Column(None, ("model",)), Column("", ("value",)),
        *(Column(TITLES[name], (name, f"n_{name}"), _format_r) for name in COMPARED),
    ]  # fmt: skip
    size_text = f"{min(sizes):,}" if min(sizes) == max(sizes) else f"{min(sizes):,} to {max(sizes):,}, the CSV has each"
    notes = [
        f"Pearson's r over original sentences in which both are known (n: {size_text}). Undefined where one of the two "
        "never varies. Local, Global: similarities of the image and its sentence; Abnormal: 1 where it is, else 0."
    ]
    title = f"Wrong Lung Figures 17 to 24: correlations of {model.name}"
    return Table(f"wrong_lung_figures_17_24_correlations_{number:02d}", title, columns, rows, notes)


def _build_table(
    name: str,
    title: str,
    first_columns: Sequence[Column],
    columns: Sequence[Column],
    entries: Iterable[tuple[Sequence[Any], Mapping[str, Any]]],
    notes: Sequence[str],
) -> Table:
    """Build a table from entries: values of the first columns, and scores by name."""
    rows = [[*names, *(scores[key] for column in columns for key in column.names)] for names, scores in entries]
    return Table(name, title, [*first_columns, *columns], rows, notes)


def _merge_subsets(scores: Scores) -> dict[str, Any]:
    """Merge the scores of all subsets: `auroc_ci_low` of the subset mdrb becomes `auroc_ci_low_mdrb`."""
    return {
        f"{key}_{subset}": value for subset, subset_scores in scores.items() for key, value in subset_scores.items()
    }


def _build_interval_column(title: str, name: str, subset: str = "", show: Any = interval) -> Column:
    suffix = f"_{subset}" if subset else ""
    return Column(f"{title} [95% CI]", tuple(f"{name}{end}{suffix}" for end in _CI), show)


def _build_ranking_columns(subset: str = "", title: str = "") -> list[Column]:
    """Build columns for AUROC and average precision, and n of the latter for the CSV alone."""
    suffix = f"_{subset}" if subset else ""
    precision = _build_interval_column("Avg. P", "average_precision", subset)
    return [
        _build_interval_column(f"{title}AUROC", "auroc", subset),
        precision,
        Column(None, (f"n_average_precision{suffix}",)),
    ]


def _build_top_columns(kind: str, subset: str = "", title: str = "") -> list[Column]:
    """Build one column for 5/10/30%, and intervals and n for the CSV alone."""
    suffix = f"_{subset}" if subset else ""
    names = [f"{kind}_{top}" for top in TOPS]
    return [
        Column(title or "IOU@5/10/30%", tuple(f"{name}{suffix}" for name in names), _format_slashed),
        Column(None, tuple(f"{name}{end}{suffix}" for name in names for end in _CI[1:])),
        *([] if subset else [Column(None, tuple(f"n_{name}" for name in names))]),
    ]


def _format_slashed(*values: Any) -> str:
    texts = [percent(value) for value in values]
    return UNDEFINED if set(texts) == {UNDEFINED} else "/".join(texts)


def _format_sizes(*counts: Any) -> str:
    """Format the numbers of sentences out of all: one number if the three shares agree."""
    *top_counts, n = counts
    text = count(top_counts[0]) if len(set(top_counts)) == 1 else "/".join(map(count, top_counts))
    return text if set(top_counts) == {n} else f"{text} of {count(n)}"


def _format_both(local: Any, global_count: Any) -> str:
    return count(local) if local == global_count else f"{count(local)}/{count(global_count)}"


def _format_r(value: Any, n: Any) -> str:
    if n == "":  # a value with itself
        return ""
    return UNDEFINED if math.isnan(value) else f"{round(value, 2) + 0.0:.2f}"
