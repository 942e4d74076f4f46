"""Figures of SurgXBench: box plots of figures 3, 4 and 7 from the records, and figures of frames.

They use matplotlib's objects without global state. Without matplotlib a note replaces them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from medfaith.evaluate_metrics.ivt.score import instrument_scores
from medfaith.evaluate_metrics.ras.levels import LEVELS
from medfaith.evaluate_metrics.reading.surgical_names import INSTRUMENTS

from ..pictures import (
    Drawn,
    Styles,
    box,
    check_matplotlib,
    draw_bar,
    draw_empty_note,
    draw_separators,
    draw_stacked_bar,
    iterate_places,
    make_figure,
    make_styles,
    shorten_names,
)
from .causal_graphs import draw_causal_figures
from .occlusions import draw_occlusion_figure
from .overlays import Sheet, contact_sheet
from .runs import PAPER_SOURCE, SOURCES, SurgXRun, sort_surgx_runs
from .tables import ALL, LEVEL_NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEVEL_COLOURS = {"ivt": "#009e73", "iv": "#56b4e9", "it": "#0072b2", "i": "#f0e442", "missed": "#bbbbbb"}
LOOKS = (
    ("tp", "aa", "(b) TP_AA: true positives, on the predicted instrument's boxes"),
    ("tp", "ac", "(c) TP_AC: true positives, on boxes of any instrument"),
    ("fp", "ac", "(d) FP_AC: false positives, on boxes of any instrument"),
)


def draw_surgx_figures(runs: Sequence[SurgXRun], sheet: Sheet | None = None) -> Drawn:
    """Draw the figures of SurgXBench.

    Args:
        runs: The runs.
        sheet: Sources of the contact sheet; None for no sheet.

    Returns:
        Figures by file name, and notes on figures that are left out.

    Raises:
        MedfaithError: As `overlays.contact_sheet`.
    """
    runs = sort_surgx_runs(list(runs))
    if not runs:
        return {}, ["there is no sample log of SurgXBench: no contact sheet is drawn"] if sheet else []
    if note := check_matplotlib("SurgXBench"):
        return {}, note
    instruments = [run for run in runs if run.setting.ask == "instruments"]
    triplets = [run for run in runs if run.setting.ask == "triplets"]
    styles = make_styles([*dict.fromkeys(run.name for run in runs)])
    pictures: dict[str, Figure] = {}
    notes = []
    for suffix, is_papers in (("", True), ("_seg8k", False)):
        source_runs = [run for run in instruments if (run.setting.source == PAPER_SOURCE) == is_papers]
        if source_runs:
            pictures[f"figure_surgx_03{suffix}"] = figure_3(source_runs, styles)
    if triplets:
        pictures["figure_surgx_04"] = figure_4(triplets, styles)
    if sheet is not None:
        figure = contact_sheet(runs, sheet)
        if figure is None:
            notes.append("no answer has a heatmap with a score: no contact sheet of SurgXBench is drawn")
        else:
            pictures["figure_surgx_overlays"] = figure
        figure, left_out = draw_occlusion_figure(runs, sheet)
        notes += left_out
        if figure is not None:
            pictures["figure_surgx_06"] = figure
        causal_figures, left_out = draw_causal_figures(runs, sheet)
        pictures |= causal_figures
        notes += left_out
    return pictures, notes


def figure_3(runs: Sequence[SurgXRun], styles: Styles) -> Figure:
    """Draw F1 as bars, and AA and AC of the predictions as box plots, by instrument and model.

    Args:
        runs: Runs on instruments.
        styles: Style of each model.

    Returns:
        The figure.
    """
    figure = _make_figure(2.5 * (1 + len(LOOKS)), runs, styles)
    panels = figure.subplots(1 + len(LOOKS), 1, sharex=True)
    _draw_bars(panels[0], runs, styles)
    for axes, (outcome, score, title) in zip(panels[1:], LOOKS, strict=True):

        def list_values(run: SurgXRun, name: str, outcome: str = outcome, score: str = score) -> list[float]:
            return [
                record[score]
                for record in run.records
                if record["outcome"] == outcome and record["state"] == "scored" and name in (ALL, record["label"])
            ]

        _draw_boxes(axes, runs, [*INSTRUMENTS, ALL], list_values, styles)
        axes.set_title(title, loc="left", fontsize=11)
        axes.set_ylabel("share of the\ntop 20%")
    panels[-1].set_xticks(range(len(INSTRUMENTS) + 1), [*(name.replace("_", " ") for name in INSTRUMENTS), ALL])
    return figure


def figure_4(runs: Sequence[SurgXRun], styles: Styles) -> Figure:
    """Draw RAS by match as box plots next to the share of each match, with a row for each source.

    Args:
        runs: Runs on triplets.
        styles: Style of each model.

    Returns:
        The figure.
    """
    from matplotlib.patches import Patch

    sources = [source for source in SOURCES if any(run.setting.source == source for run in runs)]
    n_names = len({run.name for run in runs})
    figure = _make_figure(0.4 + len(sources) * max(3.6, 1.4 + 0.45 * n_names), runs, styles)
    panels = figure.subplots(len(sources), 2, squeeze=False, width_ratios=(3, 2))
    for (box_axes, share_axes), source in zip(panels, sources, strict=True):
        source_runs = [run for run in runs if run.setting.source == source]

        def list_values(run: SurgXRun, level: str) -> list[float]:
            return [r["ras"] for r in run.records if r["level"] == level and r["state"] == "scored"]

        _draw_boxes(box_axes, source_runs, LEVELS, list_values, styles)
        box_axes.set_xticks(range(len(LEVELS)), [_format_match(level) for level in LEVELS])
        box_axes.set_ylabel("share of the top 20%")
        box_axes.set_title(f"(a) {SOURCES[source]}: RAS by match", loc="left", fontsize=11)
        _draw_shares(share_axes, source_runs)
        share_axes.set_title(f"(b) {SOURCES[source]}: how true triplets are matched", loc="left", fontsize=11)
    matches = [Patch(facecolor=LEVEL_COLOURS[level], edgecolor="black", label=LEVEL_NAMES[level]) for level in LEVELS]
    figure.legend(handles=matches, loc="outside lower right", ncols=len(LEVELS), fontsize=9, frameon=False,
                  columnspacing=1.2, handlelength=1.2)  # fmt: skip
    return figure


def _format_match(level: str) -> str:
    return f"{LEVEL_NAMES[level]}\n{'RAS_global' if level == 'missed' else 'RAS_local'}"


def _make_figure(height: float, runs: Sequence[SurgXRun], styles: Styles) -> Figure:
    """Make a figure with the colours of these runs' models above the panels."""
    from matplotlib.lines import Line2D

    mean_marker = Line2D(
        [], [], linestyle="none", marker="D", markerfacecolor="white", markeredgecolor="black", label="mean"
    )
    return make_figure(height, {run.name: styles[run.name] for run in runs}, mean_marker)


def _draw_boxes(
    axes: Axes,
    runs: Sequence[SurgXRun],
    groups: Sequence[str],
    list_values: Callable[[SurgXRun, str], list[float]],
    styles: Styles,
) -> None:
    """Draw box plots: for each group, side by side, the values of each run."""
    for position, group in enumerate(groups):
        for place, width, run in iterate_places(position, runs):
            box(axes, place, width, list_values(run, group), styles[run.name])
    if not any(list_values(run, group) for run in runs for group in groups):
        draw_empty_note(axes, "no answer here has a heatmap with a score")
    _format_share_axis(axes, len(groups))


def _format_share_axis(axes: Axes, n_groups: int) -> None:
    axes.set_ylim(-0.04, 1.06)
    axes.set_xticks(range(n_groups))
    draw_separators(axes, n_groups)


def _draw_bars(axes: Axes, runs: Sequence[SurgXRun], styles: Styles) -> None:
    scores = [
        instrument_scores([row.predicted for row in run.rows], [row.gold for row in run.rows], n_resamples=1)
        for run in runs
    ]
    f1 = [[*(run_f1["per_class"][name]["f1"] for name in INSTRUMENTS), run_f1["f1"]] for run_f1 in scores]
    for group in range(len(INSTRUMENTS) + 1):
        for place, width, (run, run_f1) in iterate_places(group, [*zip(runs, f1, strict=True)]):
            # F1 is undefined if the instrument is neither in the frames nor predicted.
            draw_bar(axes, place, width, (run_f1[group], math.nan, math.nan), styles[run.name])
    _format_share_axis(axes, len(INSTRUMENTS) + 1)
    axes.set_ylabel("F1")
    axes.set_title("(a) F1 of the instruments", loc="left", fontsize=11)


def _draw_shares(axes: Axes, runs: Sequence[SurgXRun]) -> None:
    """Draw a bar for each run with the shares of the matches."""
    for number, run in enumerate(runs):
        levels = [record["level"] for record in run.records]
        if levels:
            draw_stacked_bar(
                axes, number, [(levels.count(level) / len(levels), {"color": LEVEL_COLOURS[level]}) for level in LEVELS]
            )
        else:
            axes.text(0.01, number, "no true triplet", va="center", fontsize=9, color="#888888")
    axes.set(xlim=(0, 1), ylim=(max(len(runs), 3) - 0.4, -0.6))  # keeps a single bar narrow
    labels = shorten_names([run.name for run in runs], 24)
    axes.set_yticks(range(len(runs)), [labels[run.name] for run in runs], fontsize=9)
    axes.set_xlabel("share of the true triplets")
