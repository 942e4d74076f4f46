"""What the tables and pictures of That's the Wrong Lung! show of each model, computed once."""

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

from .tables import SEED, Table
from .wrong_lung_runs import CHANGED, GOLD, SWAPPED, SYNTHETIC, TRIMMED, Scoring, WrongLungRun, in_wrong_lung_order

ABNORMAL = "abnormal"
COMPARED = (*VALUES, ABNORMAL)  # of the correlations
PERTURBATIONS = {  # as the paper calls them -> with the subset that each should affect most (section 3.2)
    "swap_left_right": ("Swap Left Right", "one_lung"),
    "shuffle_in_report": ("Shuffle in Report", "mdrb"),
    RANDOM_SENTENCES: ("Random Sentences", ABNORMAL),
    "random_boxes": ("Random BBoxes", ABNORMAL),
    SWAPPED: ("Synth w/ Swapped Conditions", ABNORMAL),
}
SUBSET_NAMES: dict[str, str] = dict(zip(SUBSETS, ("All", "Abnormal", "One Lung", "MDRB"), strict=True))
_NO_PAIRS = dict.fromkeys(("kl", "kl_ci_low", "kl_ci_high"), float("nan")) | {"n_kl": 0}  # of a subset without any
Scores = Mapping[str, Mapping[str, Any]]  # by subset


class ModelScores(NamedTuple):
    """One model's.

    runs: by config. source: the config whose original sentences are taken, None without any; originals: these, scored
    by subset, as `pairs.summarise` does; synthetic, trimmed: so of the changed sentences of these configs. deltas: of
    each perturbation; candidates, divergence: of the random sentences, the latter a part of their deltas.
    correlations: of the originals' values. What was not run is empty.
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
    def scoring(self) -> Scoring:
        """That of its runs; a model that was scored in two ways counts as two."""
        return next(iter(self.runs.values())).setting.scoring


def score_models(runs: Sequence[WrongLungRun]) -> list[ModelScores]:
    """By scoring, model and its arguments, in the report's order."""
    models: dict[tuple, dict[str, WrongLungRun]] = {}
    for run in in_wrong_lung_order(list(runs)):
        setting = run.setting
        models.setdefault((setting.scoring, run.model, run.adapter, setting.variant), {})[setting.config] = run
    return [_score(of_model) for of_model in models.values()]


def by_scoring(models: Sequence[ModelScores]) -> list[tuple[Scoring, list[ModelScores]]]:
    """The models that one table or picture may hold side by side, for each scoring."""
    return [(scoring, list(of)) for scoring, of in groupby(models, key=lambda model: model.scoring)]


def marked(table: Table, scoring: Scoring) -> Table:
    """The table with its figures' scoring in its title and in the name of its file, where it is not the default."""
    if not scoring.words:
        return table
    title = table.title.replace(":", f" ({', '.join(scoring.words)}):", 1)
    return replace(table, name=f"{table.name}{suffix(scoring)}", title=title)


def suffix(scoring: Scoring) -> str:
    """What the names of its files end with; empty by default."""
    return "".join(f"_{word}" for words in scoring.words for word in words.split())


def _score(runs: Mapping[str, WrongLungRun]) -> ModelScores:
    source = _source(runs)
    originals = runs[source].originals if source else []
    changed = {config: runs[config].changed if config in runs else [] for config in CHANGED}
    found = {
        config: deltas(_with(runs[config].rows, ("auroc", "average_precision", "kl")), seed=SEED)[config]
        for config in PERTURBATIONS
        if changed[config]
    }
    random = runs[RANDOM_SENTENCES].rows if changed[RANDOM_SENTENCES] else ()
    return ModelScores(
        next(iter(runs.values())).name,
        runs,
        source,
        _by_subset(originals, (*names(), "entropy")),
        _by_subset(changed[SYNTHETIC], names()),
        _by_subset(changed[TRIMMED], ("auroc", "average_precision")),
        found,
        candidate_accuracy(random, seed=SEED) if random else {},
        {subset: _NO_PAIRS | of for subset, of in found.get(RANDOM_SENTENCES, {}).items()},
        correlations([flagged(row) for row in originals], COMPARED) if originals else {},
    )


def _source(runs: Mapping[str, WrongLungRun]) -> str | None:
    """gold, or else the config that has most of its sentences; those of SWAPPED are synthetic themselves."""
    known = [config for config in (GOLD, *CHANGED) if config in runs and config != SWAPPED and runs[config].originals]
    return GOLD if GOLD in known else max(known, key=lambda config: len(runs[config].originals), default=None)


def _by_subset(rows: Sequence[Row], wanted: Sequence[str]) -> Scores:
    rows = _with(rows, wanted)
    return {subset: summarise(rows, subset, seed=SEED) for subset in SUBSETS} if rows else {}


def _with(rows: Sequence[Row], wanted: Sequence[str]) -> list[dict[str, Any]]:
    """The rows with these values alone: intervals take time."""
    return [{**row, "values": {name: row["values"][name] for name in wanted if name in row["values"]}} for row in rows]


def flagged(row: Row) -> dict[str, Any]:
    """With 1 among its values where it is abnormal, else 0."""
    return {**row, "values": {**row["values"], ABNORMAL: float(row["subsets"][ABNORMAL])}}
