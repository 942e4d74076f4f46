"""F1 by how well a model localizes (HEAL-MedVQA, appendix C, Figure 7), as a table and a picture.

The paper's figure has F1 by Dice. Its text says that F1 rises with Dice and that 9.47% of the data lie below some Dice;
no limit of a bin is legible there. Here five bins of equal width take the rows whose replies have a region.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from .heal_runs import SOURCES, HealRow, HealRun
from .pictures import NONE, Drawn, Styles, figure_of, png, separate, styles_of
from .tables import MODEL, SEED, Column, Table, count, fraction, fraction_interval, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    f"95% intervals: bootstrap over images, 2,000 resamples, seed {SEED}.",
)


def localization_table(runs: Sequence[HealRun]) -> list[Table]:
    """The table, of the runs that localize; none without such runs."""
    rows = [_cells(run, part, of_part) for run in _localizing(runs) for part, of_part in _parts(run)]
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


def heal_pictures(runs: Sequence[HealRun]) -> Drawn:
    """Pictures by file name, and notes on what is not drawn."""
    runs = _localizing(runs)
    if not runs:
        return {}, []
    if importlib.util.find_spec("matplotlib") is None:
        return {}, ["pictures of HEAL-MedVQA need matplotlib and are left out: uv pip install 'medfaith[explain]'"]
    return {"figure_heal_07.png": png(figure_7(runs))}, []


def figure_7(runs: Sequence[HealRun]) -> Figure:
    """A panel for each source and kind of question; in each bin of Dice a bar a model, with its number of rows."""
    styles = styles_of([*dict.fromkeys(run.name for run in runs)])
    asked = [
        (c, a) for c in SOURCES for a in QUESTIONS if any((r.setting.config, r.setting.ask) == (c, a) for r in runs)
    ]
    figure = figure_of(2.6 * len(asked), styles)
    panels = figure.subplots(len(asked), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, (config, ask) in zip(panels, asked, strict=True):
        shown = [run for run in runs if (run.setting.config, run.setting.ask) == (config, ask)]
        _bars(axes, shown, [*styles], styles)
        axes.set_title(f"{SOURCES[config]}, {QUESTIONS[ask]} questions", loc="left", fontsize=11)
    panels[-1].set_xticks(range(len(BINS)), BINS)
    panels[-1].set_xlabel("Dice of the model's region and the anatomy's mask")
    return figure


def _bars(axes: Axes, runs: Sequence[HealRun], names: Sequence[str], styles: Styles) -> None:
    width = 0.8 / len(names)
    for run in runs:
        for group, (_, rows) in enumerate(_parts(run)[: len(BINS)]):
            place = group - 0.4 + width * (names.index(run.name) + 0.5)
            f1, low, high = _f1(run, rows)
            if math.isnan(f1):
                axes.text(place, 0, NONE, ha="center", va="bottom", fontsize=12)
                continue
            axes.bar(place, f1, min(width, 0.3), linewidth=0.8, **styles[run.name])
            if not math.isnan(low):
                axes.vlines(place, low, high, color="black", linewidth=1.5)
            axes.text(place, 1.03, f"{len(rows):,}", ha="center", va="bottom", fontsize=8, color="#444444")
    separate(axes, len(BINS))
    axes.set_ylim(0, 1.15)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axes.set_ylabel("F1 (95% CI);\nrows above")


def _localizing(runs: Sequence[HealRun]) -> list[HealRun]:
    return [run for run in runs if run.setting.ask in QUESTIONS and any(row.dice is not None for row in run.rows)]


def _parts(run: HealRun) -> list[tuple[str, list[HealRow]]]:
    """The rows in each bin, all of these, and those without a region."""
    dice = np.array([math.nan if row.dice is None else row.dice for row in run.rows], dtype=np.float64)
    # The highest number below 1 keeps a Dice of 1 in the last bin; NaN lies in none.
    number = np.digitize(np.minimum(dice, np.nextafter(1, 0)), EDGES) - 1
    number[np.isnan(dice)] = -1
    rows = list(zip(number.tolist(), run.rows, strict=True))
    of_bin = [(name, [row for at, row in rows if at == n]) for n, name in enumerate(BINS)]
    return [*of_bin, (ALL, [row for at, row in rows if at >= 0]), (WITHOUT, [row for at, row in rows if at < 0])]


def _f1(run: HealRun, rows: Sequence[HealRow]) -> list[float]:
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
    return [*names, len(rows), share, mean, *_f1(run, rows), run.source.task]
