"""Correlations of annotators' judgements with the values of the same heatmaps: Figure 6 as a table (section 4.2.5)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from medfaith.annotate.agreement import NAMES
from medfaith.annotate.answers import Judgement
from medfaith.evaluate_metrics.confidence.proportion import compute_student_quantile, quantise
from medfaith.evaluate_metrics.localization.pairs import Row, correlations

from ..tables import MODEL, UNDEFINED, Column, Table, count
from .scores import COMPARED, ModelScores, add_abnormal, mark_scoring
from .tables import TITLES

_MIN_N = 3  # minimum n: two points are always on a line
_MIN_VARIANCE = 1e-12  # values scaled to variance 1 differ by rounding alone below this variance
_MAX_R = 1 - 1e-9  # Fisher's z of 1 is infinite
_NOTE = (
    "Pearson's r over original sentences whose heatmap was judged and whose value is known (n). 95% intervals: "
    "jackknife of Fisher's z over patients, with Student's quantile. A judgement belongs to the sentence whose answer "
    "names the judged heatmap. Where several annotators judged a heatmap, their mean counts. Annotators' own prompts "
    "have no value. r is undefined where one of the two never varies, or n is "
    f"below {_MIN_N}. No Attn: annotators see it as a number and a square in the corner, and the heatmap is as much "
    "fainter; its r may come from that display. Abnormal: 1 where the sentence is, else 0."
)

Points = Mapping[tuple[str | None, str], Mapping[str, float]]  # (row id, heatmaps) -> question -> mean points


def build_annotation_correlations(
    models: Sequence[ModelScores], judgements: Sequence[Judgement]
) -> tuple[list[Table], list[str]]:
    """Build the correlations of all values with all questions for each model, one table for each scoring.

    Args:
        models: The models.
        judgements: Annotators' judgements.

    Returns:
        The tables of scorings with judged heatmaps; and notes.
    """
    if not models:
        problem = "no sample log of That's the Wrong Lung! is there"
        return [], [f"{problem}: Wrong Lung Figure 6 needs those whose heatmaps were judged"]
    points = compute_mean_points(judgements)
    rows_by_model = [(model, judged(_get_originals(model), points)) for model in models]
    tables = [
        mark_scoring(
            _build_table([row for model, judged_rows in group for row in _compute_rows(model.name, judged_rows)]),
            scoring,
        )
        for scoring, group in groupby([item for item in rows_by_model if item[1]], key=lambda item: item[0].scoring)
    ]
    notes = _note_unmatched(
        judgements, {(row["id"], row["heatmaps"]) for _, model_rows in rows_by_model for row in model_rows}
    )
    if unjudged := [model.name for model, model_rows in rows_by_model if not model_rows]:
        notes.append(f"{', '.join(unjudged)}: none of its heatmaps was judged; left out of Wrong Lung Figure 6")
    return tables, notes


def _build_table(rows: Sequence[Sequence[Any]]) -> Table:
    columns = [
        MODEL,
        Column("", ("value",)),
        *(
            Column(
                f"{question.capitalize()} [95% CI]",
                (question, f"{question}_ci_low", f"{question}_ci_high"),
                _format_interval,
            )
            for question in NAMES
        ),
        Column("n", ("n",), count),
    ]
    title = "Wrong Lung Figure 6: correlations with annotators' judgement"
    return Table("wrong_lung_figure_06_correlations", title, columns, rows, [_NOTE])


def compute_mean_points(judgements: Sequence[Judgement]) -> Points:
    """Compute the mean judgement of each heatmap of a report sentence.

    Args:
        judgements: Annotators' judgements.

    Returns:
        (row id, heatmaps) -> question -> mean points.
    """
    judgements_by_heatmap: dict[tuple[str | None, str], list[Judgement]] = defaultdict(list)
    for judgement in judgements:
        if not judgement.custom and judgement.heatmaps is not None:
            judgements_by_heatmap[judgement.row_id, judgement.heatmaps].append(judgement)
    return {
        key: {name: float(np.mean([getattr(judgement, name) for judgement in heatmap_judgements])) for name in NAMES}
        for key, heatmap_judgements in judgements_by_heatmap.items()
    }


def judged(rows: Sequence[Row], points: Points) -> list[Row]:
    """Select the rows whose own heatmap was judged.

    A row and a judgement must have the same reference to heatmaps, which identifies model, weights and data. So
    heatmaps of other models or of earlier runs do not match.

    Args:
        rows: Rows of a model.
        points: Mean points by heatmap.

    Returns:
        The rows, with the points and `abnormal` (0 or 1) among their values.
    """
    return [
        {**row, "values": {**row["values"], **points[key]}}
        for row in map(add_abnormal, rows)
        if (key := (row["id"], row["heatmaps"])) in points
    ]


def compute_r_interval(x: np.ndarray, y: np.ndarray, clusters: Sequence[str]) -> tuple[float, float]:
    """Compute the 95% interval of Pearson's r from the jackknife over whole clusters.

    Fisher's z of r has nearly the same spread for every r. Its standard error is that of the z without each cluster
    in turn, and Student's quantile allows for few clusters. Percentiles of drawn clusters are much too narrow there.
    The order of the rows, the labels and the last bits of a value have no effect.

    Args:
        x: Shape (n,), finite, not constant.
        y: Shape (n,), finite, not constant.
        clusters: n labels.

    Returns:
        (low, high); NaN with fewer than two clusters. (-1, 1) if one cluster alone makes x or y vary.
    """
    rows_by_cluster: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for cluster, *row in zip(clusters, quantise(x).tolist(), quantise(y).tolist(), strict=True):
        rows_by_cluster[cluster].append(tuple(row))
    sorted_rows = sorted(sorted(rows) for rows in rows_by_cluster.values())
    n_groups = len(sorted_rows)
    if n_groups < 2:
        return float("nan"), float("nan")
    group = np.repeat(np.arange(n_groups), [len(rows) for rows in sorted_rows])
    x, y = np.concatenate(sorted_rows).T
    x, y = ((values - values.mean()) / values.std() for values in (x, y))
    weights = np.stack([group != left_out for left_out in range(-1, n_groups)]).astype(float)  # -1 leaves out none
    weights /= weights.sum(axis=1, keepdims=True)
    # Each mean is taken off first, because plain sums of squares lose digits.
    x, y = (values - (weights @ values)[:, None] for values in (x, y))
    variances = np.stack([(weights * values * values).sum(axis=1) for values in (x, y)])
    if not (variances > _MIN_VARIANCE).all():
        return -1.0, 1.0
    r = (weights * x * y).sum(axis=1) / np.sqrt(variances.prod(axis=0))
    z, *others = np.arctanh(r.clip(-_MAX_R, _MAX_R))
    standard_error = math.sqrt((n_groups - 1) * np.var(others))
    half_width = compute_student_quantile(0.95, n_groups - 1) * standard_error
    return float(np.tanh(z - half_width)), float(np.tanh(z + half_width))


def _get_originals(model: ModelScores) -> list[Row]:
    """Get the original sentences that the other tables use."""
    return model.runs[model.source].originals if model.source is not None else []


def _compute_rows(name: str, rows: Sequence[Row]) -> list[list[Any]]:
    correlation_by_pair = correlations(rows, (*COMPARED, *NAMES))
    return [
        [
            name,
            TITLES[value],
            *(
                number
                for question in NAMES
                for number in _compute_r(rows, value, question, correlation_by_pair[value, question])
            ),
            correlation_by_pair[value, NAMES[0]][1],
        ]
        for value in COMPARED
    ]


def _compute_r(
    rows: Sequence[Row], value: str, question: str, estimate: tuple[float, int]
) -> tuple[float, float, float]:
    """Compute r with its interval; `estimate` is (r, n)."""
    r, n = estimate
    if n < _MIN_N or np.isnan(r):
        return float("nan"), float("nan"), float("nan")
    rows_with_value = [row for row in rows if row["values"][value] is not None]
    x, y = (np.array([row["values"][name] for row in rows_with_value], dtype=np.float64) for name in (value, question))
    return r, *compute_r_interval(x, y, [row["cluster"] for row in rows_with_value])


def _note_unmatched(judgements: Sequence[Judgement], logged: set[tuple[str, str]]) -> list[str]:
    report_judgements = [judgement for judgement in judgements if not judgement.custom]
    n_by_model = Counter(
        judgement.model for judgement in report_judgements if (judgement.row_id, judgement.heatmaps) not in logged
    )
    if not n_by_model:
        return []
    models = ", ".join(f"{name}: {n:,}" for name, n in sorted(n_by_model.items()))
    count_text = f"{n_by_model.total():,} of {len(report_judgements):,} judgements of report sentences ({models})"
    return [
        f"{count_text} are of heatmaps that no log here names; for Wrong Lung Figure 6 name the logs that were judged"
    ]


def _format_interval(*numbers: float) -> str:
    r, low, high = (UNDEFINED if np.isnan(number) else f"{round(number, 2) + 0.0:.2f}" for number in numbers)
    return r if r == UNDEFINED else f"{r} [{low}, {high}]"
