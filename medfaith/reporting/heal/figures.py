"""Figures of HEAL-MedVQA: F1, TPT next to VPT, relevancy of tokens (Figure 1b), F1 by localization (Figure 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..pictures import (
    NOTHING,
    Drawn,
    Styles,
    check_matplotlib,
    draw_bar,
    draw_empty_note,
    draw_separators,
    iterate_places,
    make_figure,
    make_styles,
)
from .localization import BINS, QUESTIONS, compute_f1, select_localizing, split_by_dice
from .relevancy import draw_relevancy, select_relevant
from .runs import SOURCES, HealRun
from .tables import get_sort_key as place_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class _Bars(NamedTuple):
    """A group of bars: its label, the questions of its runs, and the metric's name of its score."""

    label: str
    ask: str
    score: str


_FIGURES = {  # file name -> groups of bars, label of the axis
    "figure_heal_f1": (
        (_Bars("yes/no questions", "closed", "yes_no_f1"), _Bars("open-ended questions", "open", "open_f1")),
        "F1 (95% CI)",
    ),
    "figure_heal_tpt_vpt": (
        (
            _Bars("TPT: another anatomy\nin the question", "tpt", "tpt_anatomy"),
            _Bars("TPT: another disease\nin the question", "tpt", "tpt_disease"),
            _Bars("VPT: another patient's region\nin the image", "vpt", "vpt"),
        ),
        "share of true positives\nwhose Yes turns to No (95% CI)",
    ),
}


def draw_heal_figures(runs: Sequence[HealRun]) -> Drawn:
    """Draw the figures of HEAL-MedVQA.

    Args:
        runs: The runs.

    Returns:
        Figures by file name, and notes on figures that are left out.
    """
    runs = sorted(runs, key=place_of)
    if not runs:
        return {}, []
    if note := check_matplotlib("HEAL-MedVQA"):
        return {}, note
    styles = make_styles([*dict.fromkeys(run.name for run in runs)])
    figures = {}
    for name, (groups, axis_label) in _FIGURES.items():
        figure_runs = [run for run in runs if run.setting.ask in {group.ask for group in groups}]
        if figure_runs:
            figures[name] = _draw_by_source(figure_runs, groups, axis_label, _select_styles(figure_runs, styles))
    if relevant := select_relevant(runs):
        figures["figure_heal_01"] = draw_relevancy(relevant)
    if located := select_localizing(runs):
        figures["figure_heal_07"] = figure_7(located, _select_styles(located, styles))
    return figures, []


def _select_styles(runs: Sequence[HealRun], styles: Styles) -> Styles:
    """Select the styles of the models of some runs."""
    return {run.name: styles[run.name] for run in runs}


def _draw_by_source(runs: Sequence[HealRun], groups: Sequence[_Bars], axis_label: str, styles: Styles) -> Figure:
    """Draw a panel for each source, with a bar for each model in each group."""
    sources = [config for config in SOURCES if any(run.setting.config == config for run in runs)]
    figure = make_figure(3.2 * len(sources), styles)
    panels = figure.subplots(len(sources), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, config in zip(panels, sources, strict=True):
        scores = {(run.name, run.setting.ask): run.scores() for run in runs if run.setting.config == config}
        for group, bars in enumerate(groups):
            for place, width, name in iterate_places(group, [*styles]):
                run_scores = scores.get((name, bars.ask), {})
                interval = [run_scores.get(f"{bars.score}{end}", NOTHING[0]) for end in ("", "_ci_low", "_ci_high")]
                draw_bar(axes, place, width, interval, styles[name])
        draw_separators(axes, len(groups))
        axes.set_title(SOURCES[config], loc="left", fontsize=11)
        axes.set(ylim=(0, 1.05), ylabel=axis_label)
    panels[-1].set_xticks(range(len(groups)), [bars.label for bars in groups])
    return figure


def figure_7(runs: Sequence[HealRun], styles: Styles) -> Figure:
    """Draw a panel for each source and kind of question, with a bar and n for each model in each bin of Dice.

    Args:
        runs: Runs with regions.
        styles: Style of each model.

    Returns:
        The figure.
    """
    panel_keys = [
        (c, a) for c in SOURCES for a in QUESTIONS if any((r.setting.config, r.setting.ask) == (c, a) for r in runs)
    ]
    figure = make_figure(2.6 * len(panel_keys), styles)
    panels = figure.subplots(len(panel_keys), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, (config, ask) in zip(panels, panel_keys, strict=True):
        panel_runs = {run.name: run for run in runs if (run.setting.config, run.setting.ask) == (config, ask)}
        _draw_bins(axes, panel_runs, styles)
        axes.set_title(f"{SOURCES[config]}, {QUESTIONS[ask]} questions", loc="left", fontsize=11)
    panels[-1].set_xticks(range(len(BINS)), BINS)
    panels[-1].set_xlabel("Dice of the model's region and the anatomy's mask")
    return figure


def _draw_bins(axes: Axes, runs: Mapping[str, HealRun], styles: Styles) -> None:
    """Draw the bins of one panel; `runs` is indexed by model."""
    rows = {name: [bin_rows for _, bin_rows in split_by_dice(run)[: len(BINS)]] for name, run in runs.items()}
    for group in range(len(BINS)):
        for place, width, name in iterate_places(group, [*styles]):
            draw_bar(
                axes, place, width, compute_f1(runs[name], rows[name][group]) if name in runs else NOTHING, styles[name]
            )
            n = f"{len(rows[name][group]):,}" if name in runs else ""
            axes.text(place, 1.03, n, ha="center", va="bottom", fontsize=8, color="#444444")
    if not any(map(len, [bin_rows for rows_by_bin in rows.values() for bin_rows in rows_by_bin])):
        draw_empty_note(axes, "no region could be read")
    draw_separators(axes, len(BINS))
    axes.set_ylim(0, 1.15)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axes.set_ylabel("F1 (95% CI);\nrows above")
