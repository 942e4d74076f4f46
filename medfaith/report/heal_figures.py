"""HEAL-MedVQA's pictures: F1 of the answers, TPT beside VPT, and F1 by how well a model localizes (Figure 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .heal_localization import BINS, QUESTIONS, f1, localizing, parts
from .heal_runs import SOURCES, HealRun
from .heal_tables import place as place_of
from .pictures import (
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

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class _Bars(NamedTuple):
    """A group of bars. ask: of which runs; score: the metric's name of it."""

    label: str
    ask: str
    score: str


_FIGURES = {  # by the name of its file: groups of bars, what they show
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


def heal_pictures(runs: Sequence[HealRun]) -> Drawn:
    """Figures by file name, and notes on what is not drawn."""
    runs = sorted(runs, key=place_of)
    if not runs:
        return {}, []
    if note := check_matplotlib("HEAL-MedVQA"):
        return {}, note
    styles = make_styles([*dict.fromkeys(run.name for run in runs)])
    drawn = {}
    for name, (groups, shows) in _FIGURES.items():
        asked = [run for run in runs if run.setting.ask in {group.ask for group in groups}]
        if asked:
            drawn[name] = _by_source(asked, groups, shows, _of(asked, styles))
    if located := localizing(runs):
        drawn["figure_heal_07"] = figure_7(located, _of(located, styles))
    return drawn, []


def _of(runs: Sequence[HealRun], styles: Styles) -> Styles:
    """The styles of the models of some runs."""
    return {run.name: styles[run.name] for run in runs}


def _by_source(runs: Sequence[HealRun], groups: Sequence[_Bars], shows: str, styles: Styles) -> Figure:
    """A panel a source, with a bar a model in each group."""
    sources = [config for config in SOURCES if any(run.setting.config == config for run in runs)]
    figure = make_figure(3.2 * len(sources), styles)
    panels = figure.subplots(len(sources), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, config in zip(panels, sources, strict=True):
        scores = {(run.name, run.setting.ask): run.scores() for run in runs if run.setting.config == config}
        for group, bars in enumerate(groups):
            for place, width, name in iterate_places(group, [*styles]):
                found = scores.get((name, bars.ask), {})
                shown = [found.get(f"{bars.score}{end}", NOTHING[0]) for end in ("", "_ci_low", "_ci_high")]
                draw_bar(axes, place, width, shown, styles[name])
        draw_separators(axes, len(groups))
        axes.set_title(SOURCES[config], loc="left", fontsize=11)
        axes.set(ylim=(0, 1.05), ylabel=shows)
    panels[-1].set_xticks(range(len(groups)), [bars.label for bars in groups])
    return figure


def figure_7(runs: Sequence[HealRun], styles: Styles) -> Figure:
    """A panel for each source and kind of question; in each bin of Dice a bar a model, with its number of rows."""
    asked = [
        (c, a) for c in SOURCES for a in QUESTIONS if any((r.setting.config, r.setting.ask) == (c, a) for r in runs)
    ]
    figure = make_figure(2.6 * len(asked), styles)
    panels = figure.subplots(len(asked), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, (config, ask) in zip(panels, asked, strict=True):
        shown = {run.name: run for run in runs if (run.setting.config, run.setting.ask) == (config, ask)}
        _bins(axes, shown, styles)
        axes.set_title(f"{SOURCES[config]}, {QUESTIONS[ask]} questions", loc="left", fontsize=11)
    panels[-1].set_xticks(range(len(BINS)), BINS)
    panels[-1].set_xlabel("Dice of the model's region and the anatomy's mask")
    return figure


def _bins(axes: Axes, runs: Mapping[str, HealRun], styles: Styles) -> None:
    """runs: by the model's name."""
    rows = {name: [of_bin for _, of_bin in parts(run)[: len(BINS)]] for name, run in runs.items()}
    for group in range(len(BINS)):
        for place, width, name in iterate_places(group, [*styles]):
            draw_bar(axes, place, width, f1(runs[name], rows[name][group]) if name in runs else NOTHING, styles[name])
            n = f"{len(rows[name][group]):,}" if name in runs else ""
            axes.text(place, 1.03, n, ha="center", va="bottom", fontsize=8, color="#444444")
    if not any(map(len, [of_bin for of_run in rows.values() for of_bin in of_run])):
        draw_empty_note(axes, "no region could be read")
    draw_separators(axes, len(BINS))
    axes.set_ylim(0, 1.15)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axes.set_ylabel("F1 (95% CI);\nrows above")
