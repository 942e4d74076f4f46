"""F1 by localization quality (HEAL-MedVQA, appendix C, Figure 7) as a table; `figures` draws it.

The paper's figure shows F1 by Dice. Its text says that F1 rises with Dice and that 9.47% of the data are below some
Dice; the limits of its bins are not legible. Here five bins of equal width hold the rows whose answers have a region.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean

from ..tables import MODEL, SEED, Column, Table, count, format_interval_note, fraction, fraction_interval, percent
from .runs import SOURCES, HealRow, HealRun

EDGES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
BINS = tuple(f"{low:.1f}–{high:.1f}" for low, high in pairwise(EDGES))
ALL, WITHOUT = "all with a region", "no region"
QUESTIONS = {"closed": "yes/no", "open": "open-ended"}
_F1 = {"closed": "yes_no_f1", "open": "open_f1"}  # keys of the scores
_ENDS = ("", "_ci_low", "_ci_high")
_NOTES = (
    "Dice: of the region that a model gives with its answer and the mask of the anatomy that the question names. The "
    "region is a mask, or the top 20% of a heatmap where it is above 0. Most anatomies are smaller than 20% of the "
    "image, so that such a region does not reach a Dice of 1. The paper's text does not print its bins. no region: the "
    "model gave none, or none that could be read; these rows are in no bin.",
    format_interval_note("images"),
)


def build_localization_tables(runs: Sequence[HealRun]) -> list[Table]:
    """Build the table of F1 by Dice.

    Args:
        runs: The runs.

    Returns:
        One table; none without runs that localize.
    """
    rows = [
        _format_row(run, bin_name, bin_rows)
        for run in select_localizing(runs)
        for bin_name, bin_rows in split_by_dice(run)
    ]
    columns = [
        MODEL,
        Column("Source", ("source",)),
        Column("Questions", ("questions",)),
        Column("Dice", ("bin",)),
        Column("n", ("n",), count),
        Column("Share %", ("share",), percent),
        Column("Mean Dice", ("mean_dice",), fraction),
        Column("F1 [95% CI]", tuple(f"f1{end}" for end in _ENDS), fraction_interval),
        Column(None, ("task",)),
    ]
    return [Table("heal_figure_07_dice", "HEAL Figure 7: F1 by Dice", columns, rows, _NOTES)] if rows else []


def build_anatomy_tables(runs: Sequence[HealRun]) -> list[Table]:
    """Build the table of Dice and IoU by anatomy, over answers with a region.

    Args:
        runs: The runs.

    Returns:
        One table; none without regions.
    """
    rows = []
    for run in select_localizing(runs):
        score_localization = [row for row in run.rows if row.dice is not None and not math.isnan(row.dice)]
        for anatomy in sorted({row.anatomy for row in score_localization} - {""}):
            anatomy_rows = [row for row in score_localization if row.anatomy == anatomy]
            names = [run.name, SOURCES[run.setting.config], QUESTIONS[run.setting.ask], anatomy]
            rows.append([*names, len(anatomy_rows), *_compute_means(anatomy_rows), run.source.task])
    columns = [
        MODEL,
        Column("Source", ("source",)),
        Column("Questions", ("questions",)),
        Column("Anatomy", ("anatomy",)),
        Column("n", ("n",), count),
        *(
            Column(f"{title} [95% CI]", tuple(f"{name}{end}" for end in _ENDS), fraction_interval)
            for title, name in (("Dice", "dice"), ("IoU", "iou"))
        ),
        Column(None, ("task",)),
    ]
    return [Table("heal_figure_07_anatomies", "HEAL: where models localize", columns, rows, _NOTES)] if rows else []


def _compute_means(rows: Sequence[HealRow]) -> list[float]:
    """Compute mean Dice and mean IoU with their intervals; for a pair of masks IoU = Dice / (2 - Dice)."""
    dice, images = np.array([row.dice for row in rows], dtype=np.float64), [row.image_id for row in rows]
    estimates = [
        bootstrap_mean(values, groups=images, seed=SEED, bounds=(0, 1)) for values in (dice, dice / (2 - dice))
    ]
    return [number for estimate in estimates for number in (estimate.mean, estimate.low, estimate.high)]


def select_localizing(runs: Sequence[HealRun]) -> list[HealRun]:
    """Select the runs whose answers have regions.

    Args:
        runs: The runs.

    Returns:
        The runs that localize.
    """
    return [run for run in runs if run.setting.ask in QUESTIONS and any(row.dice is not None for row in run.rows)]


def split_by_dice(run: HealRun) -> list[tuple[str, list[HealRow]]]:
    """Split the rows by Dice.

    Args:
        run: The run.

    Returns:
        The name and the rows of each bin, of all bins together, and of the rows without a region.
    """
    dice = np.array([math.nan if row.dice is None else row.dice for row in run.rows], dtype=np.float64)
    # The largest number below 1 keeps a Dice of 1 in the last bin. NaN is in no bin.
    bin_numbers = np.digitize(np.minimum(dice, np.nextafter(1, 0)), EDGES) - 1
    bin_numbers[np.isnan(dice)] = -1
    rows = list(zip(bin_numbers.tolist(), run.rows, strict=True))
    binned = [(name, [row for bin_number, row in rows if bin_number == n]) for n, name in enumerate(BINS)]
    return [
        *binned,
        (ALL, [row for bin_number, row in rows if bin_number >= 0]),
        (WITHOUT, [row for bin_number, row in rows if bin_number < 0]),
    ]


def compute_f1(run: HealRun, rows: Sequence[HealRow]) -> list[float]:
    """Compute F1 with its interval over some rows of a run.

    Args:
        run: The run.
        rows: Some of its rows.

    Returns:
        F1, low and high; NaN without rows.
    """
    if not rows:
        return [math.nan] * len(_ENDS)
    scores = replace(run, rows=tuple(rows)).scores()
    return [scores[_F1[run.setting.ask] + end] for end in _ENDS]


def _format_row(run: HealRun, bin_name: str, rows: Sequence[HealRow]) -> list[Any]:
    dice = [row.dice for row in rows if row.dice is not None and not math.isnan(row.dice)]
    mean = math.fsum(dice) / len(dice) if dice else math.nan
    setting, share = run.setting, len(rows) / len(run.rows)
    names = [run.name, SOURCES[setting.config], QUESTIONS[setting.ask], bin_name]
    return [*names, len(rows), share, mean, *compute_f1(run, rows), run.source.task]
