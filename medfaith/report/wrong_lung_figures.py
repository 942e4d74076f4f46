"""Bar charts of That's the Wrong Lung!: what a perturbation changes (Figures 3, 5, 14 and 15), and how
intuitive annotators find heatmaps by abnormality (Figure 16).
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from medfaith.annotate.answers import POINTS

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
from .wrong_lung_abnormalities import QUESTION, OfAbnormality
from .wrong_lung_scores import PERTURBATIONS, SUBSET_NAMES, ModelScores, by_scoring, suffix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TITLES = {"delta_auroc": "Δ AUROC", "delta_average_precision": "Δ Avg. P"}


def wrong_lung_pictures(models: Sequence[ModelScores], judged: Sequence[OfAbnormality] = ()) -> Drawn:
    """Figures by file name, those of changes apart for each scoring, and notes on what is not drawn."""
    models = [model for model in models if model.deltas]
    if not models and not judged:
        return {}, []
    if note := check_matplotlib("That's the Wrong Lung!"):
        return {}, note
    drawn = {"figure_wrong_lung_16": figure_16(judged)} if judged else {}
    for scoring, of in by_scoring(models):
        figures = {
            "05": figure_5(of), "14": figure_14(of, "delta_auroc"), "15": figure_14(of, "delta_average_precision"),
        }  # fmt: skip
        drawn |= {f"figure_wrong_lung_{number}{suffix(scoring)}": one for number, one in figures.items()}
    return drawn, []


def figure_5(models: Sequence[ModelScores]) -> Figure:
    """Δ AUROC of each perturbation, on the subset that it should affect most."""
    styles = make_styles([model.name for model in models])
    figure = make_figure(4, styles)
    axes = figure.subplots()
    _bars(axes, models, "delta_auroc", {config: subset for config, (_, subset) in PERTURBATIONS.items()}, styles)
    names = [f"{name}\n({SUBSET_NAMES[subset]})" for name, subset in PERTURBATIONS.values()]
    axes.set_xticks(range(len(names)), names)
    return figure


def figure_14(models: Sequence[ModelScores], score: str) -> Figure:
    """A panel a subset, with every perturbation; score: delta_auroc or delta_average_precision (Figure 15)."""
    styles = make_styles([model.name for model in models])
    figure = make_figure(2.4 * len(SUBSET_NAMES), styles)
    panels = figure.subplots(len(SUBSET_NAMES), 1, sharex=True, sharey=True)
    for axes, (subset, title) in zip(panels, SUBSET_NAMES.items(), strict=True):
        _bars(axes, models, score, dict.fromkeys(PERTURBATIONS, subset), styles)
        axes.set_title(title, loc="left", fontsize=11)
    panels[-1].set_xticks(range(len(PERTURBATIONS)), [name for name, _ in PERTURBATIONS.values()])
    return figure


def figure_16(found: Sequence[OfAbnormality]) -> Figure:
    """Mean intuitiveness of each model's heatmaps, by abnormality."""
    styles = make_styles(sorted({model.model for of in found for model in of.models}))
    figure = make_figure(4.5, styles)
    axes = figure.subplots()
    for group, of in enumerate(found):
        means = {model.model: model.means[QUESTION] for model in of.models}
        for place, width, name in iterate_places(group, [*styles]):
            draw_bar(axes, place, width, means[name][:3] if name in means else NOTHING, styles[name])
    wrapped = [textwrap.fill(of.name.replace("/", "/ "), 16).replace("/ ", "/") for of in found]  # also after a slash
    names = [f"{name}\n(n = {of.n_sentences})" for name, of in zip(wrapped, found, strict=True)]
    axes.set_xticks(range(len(found)), names, fontsize=9)
    draw_separators(axes, len(found))
    axes.set_ylim(0, POINTS[-1])
    axes.set_ylabel("Intuitiveness\n(1 to 5 points, 95% CI)")
    return figure


def _bars(axes: Axes, models: Sequence[ModelScores], score: str, subsets: Mapping[str, str], styles: Styles) -> None:
    """A bar a model for each perturbation, on its subset, in percentage points; a line for the interval."""
    found = False
    for group, (config, subset) in enumerate(subsets.items()):
        for place, width, model in iterate_places(group, models):
            scores: Mapping[str, Any] = model.deltas.get(config, {}).get(subset, {})
            shown = [100 * scores.get(f"{score}{end}", math.nan) for end in ("", "_ci_low", "_ci_high")]
            found |= not math.isnan(shown[0])
            draw_bar(axes, place, width, shown, styles[model.name])
    if not found:
        draw_empty_note(axes, "no pair of sentences here has a score both before and after")
    axes.axhline(0, color="black", linewidth=0.8)
    draw_separators(axes, len(subsets))
    axes.set_ylabel(f"{_TITLES[score]}\n(points, 95% CI)")
