"""F1 by how well a model localizes (HEAL-MedVQA, appendix C, Figure 7), as a table; `heal_figures` draws it.

The paper's figure has F1 by Dice. Its text says that F1 rises with Dice and that 9.47% of the data lie below some Dice;
no limit of a bin is legible there. Here five bins of equal width take the rows whose replies have a region.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean

from .heal_runs import SOURCES, HealRow, HealRun
from .tables import MODEL, SEED, Column, Table, count, format_interval_note, fraction, fraction_interval, percent

EDGES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
BINS = tuple(f"{low:.1f}–{high:.1f}" for low, high in pairwise(EDGES))
ALL, WITHOUT = "all with a region", "no region"
QUESTIONS = {"closed": "yes/no", "open": "open-ended"}
_F1 = {"closed": "yes_no_f1", "open": "open_f1"}  # the metrics' names
_ENDS = ("", "_ci_low", "_ci_high")
_NOTES = (
    "Dice: of the region that a model gives with its answer and the mask of the anatomy that the question names. The "
    "region is a mask, or the top 20% of a heatmap where it is above 0. Most anatomies are smaller than 20% of the "
    "image, so that such a region does not reach a Dice of 1. The paper's text does not print its bins. no region: the "
    "model gave none, or none that could be read; these rows are in no bin.",
    format_interval_note("images"),
)


def localization_table(runs: Sequence[HealRun]) -> list[Table]:
    """The table, of the runs that localize; none without such runs."""
    rows = [_cells(run, part, of_part) for run in localizing(runs) for part, of_part in parts(run)]
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


def anatomy_table(runs: Sequence[HealRun]) -> list[Table]:
    """How well each model localizes each anatomy: Dice and IoU of the answers with a region; none without any."""
    rows = []
    for run in localizing(runs):
        known = [row for row in run.rows if row.dice is not None and not math.isnan(row.dice)]
        for anatomy in sorted({row.anatomy for row in known} - {""}):
            of_anatomy = [row for row in known if row.anatomy == anatomy]
            names = [run.name, SOURCES[run.setting.config], QUESTIONS[run.setting.ask], anatomy]
            rows.append([*names, len(of_anatomy), *_means(of_anatomy), run.source.task])
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


def _means(rows: Sequence[HealRow]) -> list[float]:
    """Mean Dice and mean IoU with their intervals. Of one pair of masks IoU is Dice / (2 - Dice)."""
    dice, images = np.array([row.dice for row in rows], dtype=np.float64), [row.image_id for row in rows]
    found = [bootstrap_mean(values, groups=images, seed=SEED, bounds=(0, 1)) for values in (dice, dice / (2 - dice))]
    return [number for one in found for number in (one.mean, one.low, one.high)]


def localizing(runs: Sequence[HealRun]) -> list[HealRun]:
    """Those whose replies have regions."""
    return [run for run in runs if run.setting.ask in QUESTIONS and any(row.dice is not None for row in run.rows)]


def parts(run: HealRun) -> list[tuple[str, list[HealRow]]]:
    """The rows in each bin, all of these, and those without a region."""
    dice = np.array([math.nan if row.dice is None else row.dice for row in run.rows], dtype=np.float64)
    # The highest number below 1 keeps a Dice of 1 in the last bin; NaN lies in none.
    number = np.digitize(np.minimum(dice, np.nextafter(1, 0)), EDGES) - 1
    number[np.isnan(dice)] = -1
    rows = list(zip(number.tolist(), run.rows, strict=True))
    of_bin = [(name, [row for at, row in rows if at == n]) for n, name in enumerate(BINS)]
    return [*of_bin, (ALL, [row for at, row in rows if at >= 0]), (WITHOUT, [row for at, row in rows if at < 0])]


def f1(run: HealRun, rows: Sequence[HealRow]) -> list[float]:
    """F1 and its interval over some of a run's rows."""
    if not rows:
        return [math.nan] * len(_ENDS)
    scores = replace(run, rows=tuple(rows)).scores()
    return [scores[_F1[run.setting.ask] + end] for end in _ENDS]


def _cells(run: HealRun, part: str, rows: Sequence[HealRow]) -> list[Any]:
    dice = [row.dice for row in rows if row.dice is not None and not math.isnan(row.dice)]
    mean = math.fsum(dice) / len(dice) if dice else math.nan
    setting, share = run.setting, len(rows) / len(run.rows)
    names = [run.name, SOURCES[setting.config], QUESTIONS[setting.ask], part]
    return [*names, len(rows), share, mean, *f1(run, rows), run.source.task]
