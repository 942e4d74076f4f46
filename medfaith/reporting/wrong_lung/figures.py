"""Bar charts of That's the Wrong Lung!

They show changes under perturbations (Figures 3, 5, 14 and 15), and annotators' intuitiveness scores by abnormality
(Figure 16).
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from medfaith.annotate.answers import POINTS

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
from .abnormalities import QUESTION, AbnormalityScores
from .scores import PERTURBATIONS, SUBSET_NAMES, ModelScores, format_suffix, group_by_scoring

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TITLES = {"delta_auroc": "Δ AUROC", "delta_average_precision": "Δ Avg. P"}


def draw_wrong_lung_figures(models: Sequence[ModelScores], judged: Sequence[AbnormalityScores] = ()) -> Drawn:
    """Draw the figures of That's the Wrong Lung!

    Args:
        models: The models; changes are drawn separately for each scoring.
        judged: Scores by abnormality.

    Returns:
        Figures by file name, and notes on figures that are left out.
    """
    models = [model for model in models if model.deltas]
    if not models and not judged:
        return {}, []
    if note := check_matplotlib("That's the Wrong Lung!"):
        return {}, note
    figures = {"figure_wrong_lung_16": figure_16(judged)} if judged else {}
    for scoring, group in group_by_scoring(models):
        figure_by_number = {
            "05": figure_5(group),
            "14": figure_14(group, "delta_auroc"),
            "15": figure_14(group, "delta_average_precision"),
        }
        figures |= {
            f"figure_wrong_lung_{number}{format_suffix(scoring)}": figure for number, figure in figure_by_number.items()
        }
    return figures, []


def figure_5(models: Sequence[ModelScores]) -> Figure:
    """Draw Δ AUROC of each perturbation, on the subset that it should affect most (Figure 3 shows GLoRIA alone).

    Args:
        models: The models.

    Returns:
        The figure.
    """
    styles = make_styles([model.name for model in models])
    figure = make_figure(4, styles)
    axes = figure.subplots()
    _draw_bars(axes, models, "delta_auroc", {config: subset for config, (_, subset) in PERTURBATIONS.items()}, styles)
    names = [f"{name}\n({SUBSET_NAMES[subset]})" for name, subset in PERTURBATIONS.values()]
    axes.set_xticks(range(len(names)), names)
    axes.set_title("Figures 3 and 5: each change on the subset that it should affect most", loc="left", fontsize=11)
    return figure


def figure_14(models: Sequence[ModelScores], score: str) -> Figure:
    """Draw a panel for each subset, with every perturbation.

    Args:
        models: The models.
        score: delta_auroc (Figure 14) or delta_average_precision (Figure 15).

    Returns:
        The figure.
    """
    styles = make_styles([model.name for model in models])
    figure = make_figure(2.4 * len(SUBSET_NAMES), styles)
    panels = figure.subplots(len(SUBSET_NAMES), 1, sharex=True, sharey=True)
    for axes, (subset, title) in zip(panels, SUBSET_NAMES.items(), strict=True):
        _draw_bars(axes, models, score, dict.fromkeys(PERTURBATIONS, subset), styles)
        axes.set_title(title, loc="left", fontsize=11)
    panels[-1].set_xticks(range(len(PERTURBATIONS)), [name for name, _ in PERTURBATIONS.values()])
    return figure


def figure_16(scores: Sequence[AbnormalityScores]) -> Figure:
    """Draw the mean intuitiveness of each model's heatmaps, by abnormality.

    Args:
        scores: Scores by abnormality.

    Returns:
        The figure.
    """
    styles = make_styles(sorted({model.model for abnormality in scores for model in abnormality.models}))
    figure = make_figure(4.5, styles)
    axes = figure.subplots()
    for group, abnormality in enumerate(scores):
        means = {model.model: model.means[QUESTION] for model in abnormality.models}
        for place, width, name in iterate_places(group, [*styles]):
            draw_bar(axes, place, width, means[name][:3] if name in means else NOTHING, styles[name])
    wrapped = [
        textwrap.fill(abnormality.name.replace("/", "/ "), 16).replace("/ ", "/") for abnormality in scores
    ]  # also after a slash
    names = [f"{name}\n(n = {abnormality.n_sentences})" for name, abnormality in zip(wrapped, scores, strict=True)]
    axes.set_xticks(range(len(scores)), names, fontsize=9)
    draw_separators(axes, len(scores))
    axes.set_ylim(0, POINTS[-1])
    axes.set_ylabel("Intuitiveness\n(1 to 5 points, 95% CI)")
    return figure


def _draw_bars(
    axes: Axes, models: Sequence[ModelScores], score: str, subsets: Mapping[str, str], styles: Styles
) -> None:
    """Draw a bar with interval for each model and perturbation, on its subset, in percentage points."""
    has_value = False
    for group, (config, subset) in enumerate(subsets.items()):
        for place, width, model in iterate_places(group, models):
            scores: Mapping[str, Any] = model.deltas.get(config, {}).get(subset, {})
            interval = [100 * scores.get(f"{score}{end}", math.nan) for end in ("", "_ci_low", "_ci_high")]
            has_value |= not math.isnan(interval[0])
            draw_bar(axes, place, width, interval, styles[model.name])
    if not has_value:
        draw_empty_note(axes, "no pair of sentences here has a score both before and after")
    axes.axhline(0, color="black", linewidth=0.8)
    draw_separators(axes, len(subsets))
    axes.set_ylabel(f"{_TITLES[score]}\n(points, 95% CI)")
