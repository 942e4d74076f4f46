"""Annotators' judgement beside the values of the same heatmaps: Figure 6 as a table (section 4.2.5)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from medfaith.annotate.agreement import NAMES
from medfaith.annotate.answers import Judgement
from medfaith.evaluate_metrics.localization.pairs import Row, correlations

from .tables import MODEL, SEED, UNDEFINED, Column, Table, count
from .wrong_lung_scores import COMPARED, ModelScores, flagged, marked
from .wrong_lung_tables import TITLES

_FEWEST = 3  # instances: through two points there is always a line
_SAME = 1e-12  # variance, of values scaled to 1, below which they differ by rounding alone
_NOTE = (
    "Pearson's r over original sentences whose heatmap was judged and whose value is known (n). 95% intervals: "
    f"bootstrap over patients, 2,000 resamples, seed {SEED}, of which those without r do not count. A judgement "
    "belongs to the sentence whose answer names the judged heatmap. Where several annotators judged a heatmap, their "
    "mean counts. Annotators' own prompts have no value. r is undefined where one of the two never varies, or n is "
    f"below {_FEWEST}. No Attn: annotators see it as a number and a square in the corner, and the heatmap is as much "
    "fainter; its r may come from that display. Abnormal: 1 where the sentence is, else 0."
)

Points = Mapping[tuple[str | None, str], Mapping[str, float]]  # (id of a row, its heatmaps) -> by question


def annotation_correlations(
    models: Sequence[ModelScores], judgements: Sequence[Judgement]
) -> tuple[list[Table], list[str]]:
    """Of each model the correlation of every value with every question, over what was judged of it; and notes.

    A table for each scoring; it is left out where no judged heatmap is one of its models'.
    """
    if not models:
        missing = "no sample log of That's the Wrong Lung! is there"
        return [], [f"{missing}: Wrong Lung Figure 6 needs those whose heatmaps were judged"]
    points = mean_points(judgements)
    joined = [(model, judged(_originals(model), points)) for model in models]
    tables = [
        marked(_table([row for model, found in of for row in _rows(model.name, found)]), scoring)
        for scoring, of in groupby([one for one in joined if one[1]], key=lambda one: one[0].scoring)
    ]
    notes = _unmatched(judgements, {(row["id"], row["heatmaps"]) for _, of_model in joined for row in of_model})
    if without := [model.name for model, of_model in joined if not of_model]:
        notes.append(f"{', '.join(without)}: none of its heatmaps was judged; left out of Wrong Lung Figure 6")
    return tables, notes


def _table(rows: Sequence[Sequence[Any]]) -> Table:
    columns = [
        MODEL, Column("", ("value",)),
        *(Column(f"{of.capitalize()} [95% CI]", (of, f"{of}_ci_low", f"{of}_ci_high"), _interval) for of in NAMES),
        Column("n", ("n",), count),
    ]  # fmt: skip
    title = "Wrong Lung Figure 6: correlations with annotators' judgement"
    return Table("wrong_lung_figure_06_correlations", title, columns, rows, [_NOTE])


def mean_points(judgements: Sequence[Judgement]) -> Points:
    """What annotators said of each heatmap of a report's sentence, on average."""
    found: dict[tuple[str | None, str], list[Judgement]] = defaultdict(list)
    for one in judgements:
        if not one.custom and one.heatmaps is not None:
            found[one.row_id, one.heatmaps].append(one)
    return {
        key: {name: float(np.mean([getattr(one, name) for one in of])) for name in NAMES} for key, of in found.items()
    }


def judged(rows: Sequence[Row], points: Points) -> list[Row]:
    """The rows whose own heatmap was judged, with the points and `abnormal` (0 or 1) among their values.

    The reference names the model, and what it was shown: neither another model's heatmap nor that of an earlier run on
    other data or with other weights is taken for a row's.
    """
    return [
        {**row, "values": {**row["values"], **points[key]}}
        for row in map(flagged, rows)
        if (key := (row["id"], row["heatmaps"])) in points
    ]


def correlation_interval(
    x: np.ndarray, y: np.ndarray, clusters: Sequence[str], *, n_resamples: int = 2000, seed: int = SEED
) -> tuple[float, float]:
    """95% percentile bootstrap interval of Pearson's r; whole clusters are drawn.

    Args:
        x, y: shape (n,), finite, neither the same in all.
        clusters: n labels.

    Returns:
        (low, high); NaN with fewer than two clusters. A resample in which x or y is the same in all has no r and does
        not count.
    """
    group = np.unique(clusters, return_inverse=True)[1]
    n_groups = int(group.max()) + 1
    if n_groups < 2:
        return float("nan"), float("nan")
    x, y = ((of - of.mean()) / of.std() for of in (x, y))
    drawn = np.random.default_rng(seed).multinomial(n_groups, np.full(n_groups, 1 / n_groups), size=n_resamples)
    weights = drawn[:, group] / drawn[:, group].sum(axis=1, keepdims=True)
    # Of each resample around its own mean: sums of squares would lose the digits of one without an outlier.
    x, y = (of - (weights @ of)[:, None] for of in (x, y))
    variances = np.stack([(weights * of * of).sum(axis=1) for of in (x, y)])
    varied = (variances > _SAME).all(axis=0)
    r = (weights * x * y).sum(axis=1)[varied] / np.sqrt(variances[:, varied].prod(axis=0))
    low, high = np.quantile(r.clip(-1, 1), [0.025, 0.975]) if len(r) else (np.nan, np.nan)
    return float(low), float(high)


def _originals(model: ModelScores) -> list[Row]:
    """Those of which the other tables are made."""
    return model.runs[model.source].originals if model.source is not None else []


def _rows(name: str, rows: Sequence[Row]) -> list[list[Any]]:
    found = correlations(rows, (*COMPARED, *NAMES))
    return [
        [name, TITLES[value], *(number for of in NAMES for number in _r(rows, value, of, found[value, of])),
         found[value, NAMES[0]][1]]
        for value in COMPARED
    ]  # fmt: skip


def _r(rows: Sequence[Row], value: str, question: str, found: tuple[float, int]) -> tuple[float, float, float]:
    """r and its interval; found: r and n."""
    r, n = found
    if n < _FEWEST or np.isnan(r):
        return float("nan"), float("nan"), float("nan")
    known = [row for row in rows if row["values"][value] is not None]
    x, y = (np.array([row["values"][of] for row in known], dtype=np.float64) for of in (value, question))
    return r, *correlation_interval(x, y, [row["cluster"] for row in known])


def _unmatched(judgements: Sequence[Judgement], known: set[tuple[str, str]]) -> list[str]:
    of_report = [one for one in judgements if not one.custom]
    lost = Counter(one.model for one in of_report if (one.row_id, one.heatmaps) not in known)
    if not lost:
        return []
    models = ", ".join(f"{name}: {n:,}" for name, n in sorted(lost.items()))
    found = f"{lost.total():,} of {len(of_report):,} judgements of report sentences ({models})"
    return [f"{found} are of heatmaps that no log here names; for Wrong Lung Figure 6 name the logs that were judged"]


def _interval(*numbers: float) -> str:
    r, low, high = (UNDEFINED if np.isnan(of) else f"{round(of, 2) + 0.0:.2f}" for of in numbers)
    return r if r == UNDEFINED else f"{r} [{low}, {high}]"
