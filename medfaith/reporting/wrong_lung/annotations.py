"""Annotations as tables: Figure 4, Figure 13 and agreement between annotators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from medfaith.annotate.agreement import NAMES, ModelScores, agreement, compute_model_scores
from medfaith.annotate.answers import Judgement

from ..tables import MODEL, SEED, UNDEFINED, Column, Table, count, format_interval_note
from ..tables import text as as_text

_CI = ("", "_ci_low", "_ci_high")


def build_annotation_tables(judgements: Sequence[Judgement], notes: Sequence[str] = ()) -> list[Table]:
    """Build the tables of annotators' judgements.

    Args:
        judgements: The judgements.
        notes: Notes on the files of answers.

    Returns:
        The tables that have rows.
    """
    scores = compute_model_scores(judgements, SEED)
    return [
        *_build_scores_tables(
            "wrong_lung_figure_04_annotations", "Wrong Lung Figure 4: annotators' judgement of report sentences",
            [item for item in scores if not item.custom], notes,
        ),
        *_build_scores_tables(
            "wrong_lung_figure_13_custom_prompts", "Wrong Lung Figure 13: annotators' judgement of their own prompts",
            [item for item in scores if item.custom], notes,
        ),
        *_build_agreement_tables(judgements),
    ]  # fmt: skip


def _build_scores_tables(name: str, title: str, scores: Sequence[ModelScores], notes: Sequence[str]) -> list[Table]:
    columns = [
        MODEL,
        Column("n", ("n",), count),
        Column("Images", ("n_instances",), count),
        Column("Annotators", ("n_annotators",), count),
        *(
            Column(f"{item.capitalize()} [95% CI]", tuple(f"{item}{end}" for end in _CI), format_mean_interval)
            for item in NAMES
        ),
    ]
    rows: list[list[Any]] = []
    for item in scores:
        means = [value for question in NAMES for value in item.means[question][:3]]
        rows.append([item.model, item.n, item.n_instances, item.n_annotators, *means])
    note = (
        "Means of 1 to 5 points; recall and precision in bins of 20%. n: judgements, the last of each annotator and "
        f"heatmap. {format_interval_note('patients')}"
    )
    return [Table(name, title, columns, rows, [note, *notes])] if rows else []


def _build_agreement_tables(judgements: Sequence[Judgement]) -> list[Table]:
    columns = [
        Column("Question", ("question",)),
        Column("Measure", ("measure",)),
        Column("Agreement", ("value",), _format_number),
        Column("Annotators", ("n_annotators",), count),
        Column("Heatmaps", ("n_items",), count),
    ]
    note = (
        "kappa: Cohen's, with quadratic weights; alpha: Krippendorff's, ordinal. Heatmaps: those of report sentences "
        "that two annotators or more judged; each chooses a sentence of an image, so not all are shared. Where all "
        "points are equal, the agreement is undefined: it cannot be told from chance."
    )
    rows = [list(item) for item in agreement(judgements)]
    title = "Wrong Lung: agreement between annotators"
    return [Table("wrong_lung_annotator_agreement", title, columns, rows, [note])] if rows else []


def _format_number(value: float) -> str:
    """Format a number with two digits."""
    return UNDEFINED if as_text(value) == UNDEFINED else f"{value:.2f}"


def format_mean_interval(value: float, low: float, high: float) -> str:
    """Format a mean with its interval.

    Args:
        value: The mean.
        low: Lower bound.
        high: Upper bound.

    Returns:
        The text, "–" if undefined.
    """
    return (
        UNDEFINED
        if _format_number(value) == UNDEFINED
        else f"{_format_number(value)} [{_format_number(low)}, {_format_number(high)}]"
    )
