"""The tables of That's the Wrong Lung!: 1 to 4 and 6 to 12, with figures 3, 5, 14, 15 and 17 to 24 as tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from medfaith.evaluate_metrics.localization.pairs import ALL
from medfaith.evaluate_metrics.localization.ranking import TOPS

from .tables import (
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
from .wrong_lung_runs_table import SIZES, left_out, runs_table
from .wrong_lung_scores import (
    ABNORMAL,
    COMPARED,
    PERTURBATIONS,
    SUBSET_NAMES,
    ModelScores,
    Scores,
    by_scoring,
    marked,
)

_CI = ("", "_ci_low", "_ci_high")
_INTERVALS = format_interval_note("patients")
_IN_CSV = f"The CSV has the intervals and n of each mean. {_INTERVALS}"
_UNSCORED = (
    "scored: sentences with an AUROC, “a of b” of all. Without: sentences without attention (map), with none on any "
    "region (degenerate), with boxes that hold no pixel of the view (box)."
)
_SYNTHETIC = (MODEL, Column("Synth", ("synthetic",)))
TITLES = {
    "auroc": "AUROC", "average_precision": "Avg. P", **{f"iou_{top}": f"IOU@{top}" for top in TOPS},
    **{f"precision_{top}": f"P@{top}" for top in TOPS}, "entropy": "Entropy", "no_attn": "No Attn",
    "local": "Local", "global": "Global", ABNORMAL: "Abnormal",
}  # fmt: skip


def wrong_lung_tables(models: Sequence[ModelScores]) -> tuple[list[Table], list[str]]:
    """The tables that the runs give, none without runs, apart for each scoring; and notes on what is left out."""
    if not models:
        return [], []
    scored = [marked(table, scoring) for scoring, of in by_scoring(models) for table in _of_scoring(of)]
    return [runs_table(models), *scored], left_out(models)


def _of_scoring(models: Sequence[ModelScores]) -> list[Table]:
    tables = [
        _localization(models), _subsets(models),
        _candidates(models, "04", (ALL, ABNORMAL)), _trimmed(models), _all_subsets(models), _divergence(models),
        _candidates(models, "09", ("one_lung", "mdrb")), _entropy(models), _at_tops(models, "11", "precision"),
        _at_tops(models, "12", "iou"), _deltas(models), *_correlations(models),
    ]  # fmt: skip
    return [table for table in tables if table.rows]


def _localization(models: Sequence[ModelScores]) -> Table:
    given = [([model.name], model.originals[ALL]) for model in models if model.originals]
    about = (
        "Where attention lies, of all original sentences. IOU: of the 5, 10 and 30% of the pixels that are attended "
        "most; its intervals are in the CSV."
    )
    title = "Wrong Lung Tables 1 and 3: localization"
    return _scored("wrong_lung_table_01_03_localization", title, [MODEL], given, about, _tops("iou"))


def _subsets(models: Sequence[ModelScores]) -> Table:
    given = [
        ([model.name, name], model.originals[subset])
        for model in models
        for subset, name in SUBSET_NAMES.items()
        if subset != ALL and model.originals
    ]
    first = [MODEL, Column("Subset", ("subset",))]
    title = "Wrong Lung Table 2: subsets"
    return _scored("wrong_lung_table_02_subsets", title, first, given, "As Tables 1 and 3.", _tops("iou"))


def _trimmed(models: Sequence[ModelScores]) -> Table:
    given = [([model.name], model.trimmed[ALL]) for model in models if model.trimmed]
    title = "Wrong Lung Table 6: without large boxes"
    about = "As Tables 1 and 3, without the box of a whole lung where the sentence has another one on that side."
    return _scored("wrong_lung_table_06_trimmed", title, [MODEL], given, about)


def _scored(
    name: str,
    title: str,
    first: Sequence[Column],
    given: Iterable[tuple[Sequence[Any], Mapping[str, Any]]],
    about: str,
    tops: Sequence[Column] = (),
) -> Table:
    """AUROC and average precision, with `tops` behind them, and how many sentences have none; given: as in `_table`."""
    return _table(name, title, first, [*_ranked(), *tops, *SIZES], given, [f"{about} {_UNSCORED} {_INTERVALS}"])


def _all_subsets(models: Sequence[ModelScores]) -> Table:
    def columns(subset: str, name: str) -> list[Column]:
        scored = Column("scored", (f"n_auroc_{subset}", f"n_rows_{subset}"), count_of)
        return [*_ranked(subset, f"{name}: "), scored]

    title = "Wrong Lung Table 7: localization on all subsets"
    notes = [f"Synth: sentences made of the labels. scored: sentences with an AUROC, “a of b” of all. {_INTERVALS}"]
    return _wide("wrong_lung_table_07_all_subsets", title, _synthetic_or_not(models), columns, notes, first=_SYNTHETIC)


def _at_tops(models: Sequence[ModelScores], number: str, kind: str) -> Table:
    def columns(subset: str, name: str) -> list[Column]:
        sizes = (*(f"n_{kind}_{top}_{subset}" for top in TOPS), f"n_rows_{subset}")
        return [*_tops(kind, subset, name), Column("n", sizes, _of_each)]

    what = "IOU" if kind == "iou" else kind.capitalize()
    title = f"Wrong Lung Table {number}: {what} at 5/10/30%"
    ties = {
        "iou": "IOU is 0 where so many pixels are equal that none is among the top ones.",
        "included": "Pixels that are tied with the least of them count, too, so that they may be more.",
        "excluded": "There is no precision where so many pixels are equal that none is among the top ones.",
    }[kind if kind == "iou" else models[0].scoring.precision_ties]
    about = f"Of the 5, 10 and 30% of the pixels that are attended most. {ties} n: the number of sentences"
    about = f"{about} with a value, one for each share where these differ, “of” all where some have none."
    notes = [f"{about} Synth: as in Table 7. {_IN_CSV}"]
    given = _synthetic_or_not(models)
    return _wide(f"wrong_lung_table_{number}_{kind}", title, given, columns, notes, first=_SYNTHETIC)


def _synthetic_or_not(models: Sequence[ModelScores]) -> list[tuple[list[str], Scores]]:
    both = ((model.name, (("no", model.originals), ("yes", model.synthetic))) for model in models)
    return [([name, synthetic], scores) for name, of_model in both for synthetic, scores in of_model]


def _candidates(models: Sequence[ModelScores], number: str, subsets: Sequence[str]) -> Table:
    def columns(subset: str, name: str) -> list[Column]:
        return [
            _ci(f"{name}: local", "local_accuracy", subset),
            _ci("global", "global_accuracy", subset),
            Column("pairs", (f"n_local_accuracy_{subset}", f"n_global_accuracy_{subset}"), _both),
        ]

    title = f"Wrong Lung Table {int(number)}: choice between a sentence and a random one"
    notes = [
        "How often, in percent, an image is more similar to its own sentence than to a random one, by local and by "
        "global embeddings. 50 is chance; two equal similarities count as a wrong choice. pairs: how many pairs have "
        f"both similarities, local/global where the two numbers differ. {_INTERVALS}"
    ]
    given = [([model.name], model.candidates) for model in models]
    return _wide(f"wrong_lung_table_{number}_candidates", title, given, columns, notes, subsets=subsets)


def _divergence(models: Sequence[ModelScores]) -> Table:
    def columns(subset: str, name: str) -> list[Column]:
        pairs = Column("pairs", (f"n_kl_{subset}", f"n_pairs_{subset}"), count_of)
        return [_ci(name, "kl", subset, fraction_interval), pairs]

    title = "Wrong Lung Table 8: divergence of attention under a random sentence"
    notes = [
        "Symmetric Kullback-Leibler divergence in nats between the attention of a sentence and of a random one in the "
        "same image, over its regions, without attention on no region; 0 where the text does not matter. "
        f"pairs: “a of b”, those with both attentions. {_INTERVALS}"
    ]
    given = [([model.name], model.divergence) for model in models]
    return _wide("wrong_lung_table_08_divergence", title, given, columns, notes)


def _entropy(models: Sequence[ModelScores]) -> Table:
    def columns(subset: str, name: str) -> list[Column]:
        scored = Column("n", (f"n_entropy_{subset}", f"n_rows_{subset}"), count_of)
        return [_ci(name, "entropy", subset, fraction_interval), scored]

    notes = [
        "In nats, over the regions of a model's grid and, where it has one, the token for no region: models with "
        f"different grids have different largest values. n: sentences with attention, “a of b” of all. {_INTERVALS}"
    ]
    title = "Wrong Lung Table 10: entropy of the attention"
    given = [([model.name], model.originals) for model in models]
    return _wide("wrong_lung_table_10_entropy", title, given, columns, notes)


def _wide(
    name: str,
    title: str,
    given: Iterable[tuple[Sequence[Any], Scores]],
    columns: Callable[[str, str], Sequence[Column]],
    notes: Sequence[str],
    *,
    first: Sequence[Column] = (MODEL,),
    subsets: Sequence[str] = tuple(SUBSET_NAMES),
) -> Table:
    """A row for each of `given` that has scores, with the columns of each subset, by its key and its name."""
    wide = [column for subset in subsets for column in columns(subset, SUBSET_NAMES[subset])]
    return _table(name, title, first, wide, [(of, _flat(scores)) for of, scores in given if scores], notes)


def _deltas(models: Sequence[ModelScores]) -> Table:
    columns = [
        _ci("Δ AUROC", "delta_auroc", show=points_interval),
        Column("pairs", ("n_delta_auroc", "n_pairs"), count_of),
        _ci("Δ Avg. P", "delta_average_precision", show=points_interval),
        Column(None, ("n_delta_average_precision",)), Column("without original", ("n_unpaired",), count),
    ]  # fmt: skip
    given = [
        ([model.name, name, SUBSET_NAMES[subset] + "*" * (subset == telling)], scores)
        for model in models
        for config, (name, telling) in PERTURBATIONS.items()
        for subset, scores in model.deltas.get(config, {}).items()
    ]
    first = [MODEL, Column("Perturbation", ("perturbation",)), Column("Subset", ("subset",))]
    notes = [
        "Changed sentence less its original, in percentage points, averaged over pairs: attention that follows the "
        "text loses. *: the subset that the perturbation should affect most (Figures 3 and 5). pairs: “a of b”, those "
        f"with an AUROC on both sides. {_INTERVALS}"
    ]
    title = "Wrong Lung Figures 3, 5, 14 and 15: what a perturbation changes"
    return _table("wrong_lung_figures_03_05_14_15_deltas", title, first, columns, given, notes)


def _correlations(models: Sequence[ModelScores]) -> list[Table]:
    given = [model for model in models if model.correlations]
    return [_of_model(model, number) for number, model in enumerate(given, start=1)]


def _of_model(model: ModelScores, number: int) -> Table:
    """Every two values twice, so that a value has all of its own in one row."""
    found = model.correlations
    of = [n for _, n in found.values()]
    rows: list[list[Any]] = []
    for a in COMPARED:
        cells = [("", "") if a == b else found.get((a, b)) or found[b, a] for b in COMPARED]
        rows.append([model.name, TITLES[a], *(value for cell in cells for value in cell)])
    columns = [
        Column(None, ("model",)), Column("", ("value",)),
        *(Column(TITLES[name], (name, f"n_{name}"), _r) for name in COMPARED),
    ]  # fmt: skip
    size = f"{min(of):,}" if min(of) == max(of) else f"{min(of):,} to {max(of):,}, the CSV has each"
    notes = [
        f"Pearson's r over original sentences in which both are known (n: {size}). Undefined where one of the two "
        "never varies. Local, Global: similarities of the image and its sentence; Abnormal: 1 where it is, else 0."
    ]
    title = f"Wrong Lung Figures 17 to 24: correlations of {model.name}"
    return Table(f"wrong_lung_figures_17_24_correlations_{number:02d}", title, columns, rows, notes)


def _table(
    name: str,
    title: str,
    first: Sequence[Column],
    columns: Sequence[Column],
    given: Iterable[tuple[Sequence[Any], Mapping[str, Any]]],
    notes: Sequence[str],
) -> Table:
    """given: of each row what is under `first`, and the scores by name."""
    rows = [[*of, *(scores[key] for column in columns for key in column.names)] for of, scores in given]
    return Table(name, title, [*first, *columns], rows, notes)


def _flat(scores: Scores) -> dict[str, Any]:
    """`auroc_ci_low` of the subset mdrb as `auroc_ci_low_mdrb`, and so on."""
    return {f"{key}_{subset}": value for subset, of in scores.items() for key, value in of.items()}


def _ci(title: str, name: str, subset: str = "", show: Any = interval) -> Column:
    of = f"_{subset}" if subset else ""
    return Column(f"{title} [95% CI]", tuple(f"{name}{end}{of}" for end in _CI), show)


def _ranked(subset: str = "", title: str = "") -> list[Column]:
    """AUROC and average precision, and of the latter n for the CSV alone."""
    of = f"_{subset}" if subset else ""
    precision = _ci("Avg. P", "average_precision", subset)
    return [_ci(f"{title}AUROC", "auroc", subset), precision, Column(None, (f"n_average_precision{of}",))]


def _tops(kind: str, subset: str = "", title: str = "") -> list[Column]:
    """5/10/30 as one, their intervals and n for the CSV alone."""
    of = f"_{subset}" if subset else ""
    names = [f"{kind}_{top}" for top in TOPS]
    return [
        Column(title or "IOU@5/10/30%", tuple(f"{name}{of}" for name in names), _slashed),
        Column(None, tuple(f"{name}{end}{of}" for name in names for end in _CI[1:])),
        *([] if subset else [Column(None, tuple(f"n_{name}" for name in names))]),
    ]


def _slashed(*values: Any) -> str:
    shown = [percent(value) for value in values]
    return UNDEFINED if set(shown) == {UNDEFINED} else "/".join(shown)


def _of_each(*counts: Any) -> str:
    """How many of all: one number where the three shares agree."""
    *each, n = counts
    shown = count(each[0]) if len(set(each)) == 1 else "/".join(map(count, each))
    return shown if set(each) == {n} else f"{shown} of {count(n)}"


def _both(local: Any, whole: Any) -> str:
    return count(local) if local == whole else f"{count(local)}/{count(whole)}"


def _r(value: Any, n: Any) -> str:
    if n == "":  # with itself
        return ""
    return UNDEFINED if math.isnan(value) else f"{round(value, 2) + 0.0:.2f}"
