"""Scores of each model for the tables and figures of That's the Wrong Lung!, computed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from medfaith.evaluate_metrics.localization.pairs import (
    RANDOM_SENTENCES,
    SUBSETS,
    VALUES,
    Row,
    candidate_accuracy,
    correlations,
    deltas,
    summarise,
)
from medfaith.evaluate_metrics.localization.ranking import names

from ..tables import SEED, Table
from .runs import CHANGED, GOLD, SWAPPED, SYNTHETIC, TRIMMED, Scoring, WrongLungRun, sort_wrong_lung_runs

ABNORMAL = "abnormal"
COMPARED = (*VALUES, ABNORMAL)  # values of the correlations
PERTURBATIONS = {  # config -> the paper's name, and the subset that it should affect most (section 3.2)
    "swap_left_right": ("Swap Left Right", "one_lung"),
    "shuffle_in_report": ("Shuffle in Report", "mdrb"),
    RANDOM_SENTENCES: ("Random Sentences", ABNORMAL),
    "random_boxes": ("Random BBoxes", ABNORMAL),
    SWAPPED: ("Synth w/ Swapped Conditions", ABNORMAL),
}
SUBSET_NAMES: dict[str, str] = dict(zip(SUBSETS, ("All", "Abnormal", "One Lung", "MDRB"), strict=True))
_NO_PAIRS = dict.fromkeys(("kl", "kl_ci_low", "kl_ci_high"), float("nan")) | {
    "n_kl": 0
}  # scores of a subset without pairs
Scores = Mapping[str, Mapping[str, Any]]  # subset -> name -> score


class ModelScores(NamedTuple):
    """Scores of one model. Fields without a run are empty.

    Attributes:
        name: The model with its arguments.
        runs: Config -> run.
        source: Config whose original sentences are scored; None without originals.
        originals: Scores of the originals by subset, from `pairs.summarise`.
        synthetic: Scores of the synthetic sentences.
        trimmed: Scores of the sentences with trimmed boxes.
        deltas: Perturbation -> scores of the change.
        candidates: Scores of the choice between a sentence and a random one.
        divergence: Scores of the divergence under random sentences, a part of their deltas.
        correlations: Pair of values -> (r, n) over the originals.
    """

    name: str
    runs: Mapping[str, WrongLungRun]
    source: str | None
    originals: Scores
    synthetic: Scores
    trimmed: Scores
    deltas: Mapping[str, Scores]
    candidates: Scores
    divergence: Scores
    correlations: Mapping[tuple[str, str], tuple[float, int]]

    @property
    def takes_boxes(self) -> bool:
        """Whether the model's input has the reference boxes, so that it is not comparable with other models."""
        return any(row["takes_boxes"] for run in self.runs.values() for row in run.rows)

    @property
    def scoring(self) -> Scoring:
        """Scoring of the model's runs; a model with two scorings counts as two models."""
        return next(iter(self.runs.values())).setting.scoring


def score_models(runs: Sequence[WrongLungRun]) -> list[ModelScores]:
    """Score the models.

    Args:
        runs: The runs.

    Returns:
        The scores by scoring, model and arguments, in the report's order.
    """
    models: dict[tuple, dict[str, WrongLungRun]] = {}
    for run in sort_wrong_lung_runs(list(runs)):
        setting = run.setting
        models.setdefault((setting.scoring, run.model, run.adapter, setting.variant), {})[setting.config] = run
    return [_score_model(run_by_config) for run_by_config in models.values()]


def group_by_scoring(models: Sequence[ModelScores]) -> list[tuple[Scoring, list[ModelScores]]]:
    """Group the models by scoring, because a table or figure has one scoring only.

    Args:
        models: The models.

    Returns:
        Scoring and its models.
    """
    return [(scoring, list(group)) for scoring, group in groupby(models, key=lambda model: model.scoring)]


def mark_scoring(table: Table, scoring: Scoring) -> Table:
    """Mark a table with its scoring in title and file name, unless it is the default.

    Args:
        table: The table.
        scoring: The scoring.

    Returns:
        The table.
    """
    if not scoring.words:
        return table
    title = table.title.replace(":", f" ({', '.join(scoring.words)}):", 1)
    return replace(table, name=f"{table.name}{format_suffix(scoring)}", title=title)


def format_suffix(scoring: Scoring) -> str:
    """Format the suffix of file names.

    Args:
        scoring: The scoring.

    Returns:
        The suffix, "" by default.
    """
    return "".join(f"_{part}" for label in scoring.words for part in label.split())


def _score_model(runs: Mapping[str, WrongLungRun]) -> ModelScores:
    source = _choose_source(runs)
    originals = runs[source].originals if source else []
    changed = {config: runs[config].changed if config in runs else [] for config in CHANGED}
    delta_scores = {
        config: deltas(_select_values(runs[config].rows, ("auroc", "average_precision", "kl")), seed=SEED)[config]
        for config in PERTURBATIONS
        if changed[config]
    }
    random_rows = runs[RANDOM_SENTENCES].rows if changed[RANDOM_SENTENCES] else ()
    return ModelScores(
        next(iter(runs.values())).name,
        runs,
        source,
        _score_subsets(originals, (*names(), "entropy")),
        _score_subsets(changed[SYNTHETIC], names()),
        _score_subsets(changed[TRIMMED], ("auroc", "average_precision")),
        delta_scores,
        candidate_accuracy(random_rows, seed=SEED) if random_rows else {},
        {subset: _NO_PAIRS | subset_scores for subset, subset_scores in delta_scores.get(RANDOM_SENTENCES, {}).items()},
        correlations([add_abnormal(row) for row in originals], COMPARED) if originals else {},
    )


def _choose_source(runs: Mapping[str, WrongLungRun]) -> str | None:
    """Choose gold, or the config with most originals; originals of SWAPPED are synthetic and do not count."""
    available = [
        config for config in (GOLD, *CHANGED) if config in runs and config != SWAPPED and runs[config].originals
    ]
    return GOLD if GOLD in available else max(available, key=lambda config: len(runs[config].originals), default=None)


def _score_subsets(rows: Sequence[Row], value_names: Sequence[str]) -> Scores:
    rows = _select_values(rows, value_names)
    return {subset: summarise(rows, subset, seed=SEED) for subset in SUBSETS} if rows else {}


def _select_values(rows: Sequence[Row], value_names: Sequence[str]) -> list[dict[str, Any]]:
    """Select values of the rows, because intervals of all values take long."""
    return [
        {**row, "values": {name: row["values"][name] for name in value_names if name in row["values"]}} for row in rows
    ]


def add_abnormal(row: Row) -> dict[str, Any]:
    """Add the value `abnormal`, 1 or 0, to a row.

    Args:
        row: The row.

    Returns:
        A copy of the row.
    """
    return {**row, "values": {**row["values"], ABNORMAL: float(row["subsets"][ABNORMAL])}}
