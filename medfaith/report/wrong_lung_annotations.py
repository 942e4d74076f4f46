"""Files of answers as tables: Figure 4, Figure 13 and how far annotators agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from medfaith.annotate.agreement import NAMES, ModelScores, agreement, model_scores
from medfaith.annotate.answers import Judgement

from .tables import MODEL, SEED, UNDEFINED, Column, Table, count, format_interval_note
from .tables import text as as_text

_CI = ("", "_ci_low", "_ci_high")


def annotation_tables(judgements: Sequence[Judgement], notes: Sequence[str] = ()) -> list[Table]:
    """Annotators' judgements in tables; one without rows is left out."""
    scores = model_scores(judgements, SEED)
    return [
        *_scores_table(
            "wrong_lung_figure_04_annotations", "Wrong Lung Figure 4: annotators' judgement of report sentences",
            [of for of in scores if not of.custom], notes,
        ),
        *_scores_table(
            "wrong_lung_figure_13_custom_prompts", "Wrong Lung Figure 13: annotators' judgement of their own prompts",
            [of for of in scores if of.custom], notes,
        ),
        *_agreement_table(judgements),
    ]  # fmt: skip


def _scores_table(name: str, title: str, scores: Sequence[ModelScores], notes: Sequence[str]) -> list[Table]:
    columns = [
        MODEL, Column("n", ("n",), count), Column("Images", ("n_instances",), count),
        Column("Annotators", ("n_annotators",), count),
        *(Column(f"{of.capitalize()} [95% CI]", tuple(f"{of}{end}" for end in _CI), mean_interval) for of in NAMES),
    ]  # fmt: skip
    rows: list[list[Any]] = []
    for of in scores:
        means = [value for question in NAMES for value in of.means[question][:3]]
        rows.append([of.model, of.n, of.n_instances, of.n_annotators, *means])
    about = (
        "Means of 1 to 5 points; recall and precision in bins of 20%. n: judgements, the last of each annotator and "
        f"heatmap. {format_interval_note('patients')}"
    )
    return [Table(name, title, columns, rows, [about, *notes])] if rows else []


def _agreement_table(judgements: Sequence[Judgement]) -> list[Table]:
    columns = [
        Column("Question", ("question",)), Column("Measure", ("measure",)), Column("Agreement", ("value",), _two),
        Column("Annotators", ("n_annotators",), count), Column("Heatmaps", ("n_items",), count),
    ]  # fmt: skip
    about = (
        "kappa: Cohen's, with quadratic weights; alpha: Krippendorff's, ordinal. Heatmaps: those of report sentences "
        "that two annotators or more judged; each chooses a sentence of an image, so not all are shared."
    )
    rows = [list(of) for of in agreement(judgements)]
    title = "Wrong Lung: agreement between annotators"
    return [Table("wrong_lung_annotator_agreement", title, columns, rows, [about])] if rows else []


def _two(value: float) -> str:
    return UNDEFINED if as_text(value) == UNDEFINED else f"{value:.2f}"


def mean_interval(value: float, low: float, high: float) -> str:
    return UNDEFINED if _two(value) == UNDEFINED else f"{_two(value)} [{_two(low)}, {_two(high)}]"
