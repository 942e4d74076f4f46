"""Figures of CXR-ContraBench: accuracy and answers by protocol (after Figure 3), and option scores (Figure 5).

Figure 3 of the paper has accuracy before and after the verifier, and the number of polarity errors. Here each accuracy
has an interval, and a bar shows the shares of all outcomes. Intervals resample whole studies.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.evaluate_metrics.polarity.option_scores import polarity_gap, subsets
from medfaith.evaluate_metrics.reading.outcome import DECLINED, UNREAD

from ..pictures import (
    Drawn,
    box,
    check_matplotlib,
    draw_empty_note,
    draw_separators,
    draw_stacked_bar,
    iterate_places,
    make_figure,
    shorten_names,
)
from ..tables import ORIGINAL, SEED, Table, change
from .atlas import draw_atlas_figures
from .confidence import draw_confidence_figure
from .dots import (
    AFTER,
    BEFORE,
    OFFSET,
    draw_dot,
    format_row,
    label_rows,
    label_rows_right,
    make_dot_figure,
    make_dot_handles,
)
from .names import format_base_name, get_protocol_rank, protocol_name, select_external
from .option_scores import ScoredRun
from .runs import Run, count_errors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_R = TypeVar("_R", bound=Run)
# Kind of answer -> its style in a bar.
ANSWERS: Mapping[str, Mapping[str, Any]] = {
    "right": {"facecolor": "#009e73"},
    "wrong: “No X”": {"facecolor": "#d55e00"},
    "wrong: “No X”, read from sentences": {"facecolor": "#d55e00", "hatch": "..."},
    "wrong: another option": {"facecolor": "#bbbbbb"},
    "declined": {"facecolor": "#eeeeee", "hatch": "xx"},
    "not read": {"facecolor": "white", "hatch": "///"},
}
SUBSETS: Mapping[str, Mapping[str, Any]] = {  # Appendix A.3
    "safe: “No X” has the highest score": {"facecolor": "#d55e00", "edgecolor": "black", "alpha": 0.75},
    "control: the right “X” has it": {"facecolor": "#0072b2", "edgecolor": "black", "alpha": 0.75},
}
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "“X” and “No X”": {"facecolor": "#e69f00", "edgecolor": "black", "alpha": 0.75},
    "“X” and the distractors": {"facecolor": "#56b4e9", "edgecolor": "black", "alpha": 0.75},
}
_NAME = 38  # maximum length of a model's name below a panel (characters)
_WIDE = 140  # characters below a panel of full width


def draw_contrabench_figures(runs: Sequence[Run], scored: Sequence[ScoredRun], tables: Sequence[Table] = ()) -> Drawn:
    """Draw the figures of CXR-ContraBench, separately for each order of options.

    The figures have the external protocols in the published wording, all runs with option scores, and values of the
    tables.

    Args:
        runs: Runs with answers.
        scored: Runs with option scores.
        tables: The report's tables, which may have further runs.

    Returns:
        Figures by file name, and notes on figures that are left out.
    """
    figures: dict[str, Figure] = {}
    notes: list[str] = []
    if (runs or scored) and (note := check_matplotlib("CXR-ContraBench")):
        return {}, note
    for layout in ("", f"_{ORIGINAL}"):
        layout_runs = [run for run in select_external(runs, split=None) if _get_suffix(run) == layout]
        layout_scored = [run for run in scored if _get_suffix(run) == layout]
        if layout_runs:
            figures[f"figure_contrabench_03{layout}"] = figure_3(layout_runs)
        if layout_scored:
            figures[f"figure_contrabench_05{layout}"] = figure_5(layout_scored)
        if (reliability := draw_confidence_figure([run for run in runs if _get_suffix(run) == layout])) is not None:
            figures[f"figure_contrabench_confidence{layout}"] = reliability
        atlas, left_out = draw_atlas_figures([run for run in runs if _get_suffix(run) == layout], tables, layout)
        figures |= atlas
        notes += left_out
    return figures, notes


def _get_suffix(run: Run) -> str:
    return f"_{ORIGINAL}" if run.setting.layout == ORIGINAL else ""


def _group_by_protocol(runs: Sequence[_R]) -> list[tuple[str, list[_R]]]:
    """Group the runs by protocol and wording, in the order of the tables."""

    def get_sort_key(run: _R) -> tuple:
        return get_protocol_rank(run), len(run.setting.changed_forms), run.changed_values, run.variant

    return [(title, [*group]) for title, group in groupby(sorted(runs, key=get_sort_key), key=_format_title)]


def _format_title(run: Run) -> str:
    return protocol_name(run) + (f" ({run.changed_values})" if run.changed_values else "")


def _format_row(run: Run) -> str:
    return format_row(run.model_name, format_base_name(run.setting), (run.n, run.n_data))


def figure_3(runs: Sequence[Run]) -> Figure:
    """Draw a pair of panels for each protocol, with a row for each run.

    The left panel has the accuracy before and after the verifier (M1), the right one the shares of the answers.

    Args:
        runs: The runs.

    Returns:
        The figure.
    """
    from matplotlib.patches import Patch

    panels = _group_by_protocol(runs)
    sizes = [len(panel_runs) for _, panel_runs in panels]
    figure = make_dot_figure(sizes, make_dot_handles())
    axes = figure.subplots(len(panels), 2, squeeze=False, height_ratios=[size + 0.6 for size in sizes])
    for (accuracy_axes, answer_axes), (title, panel_runs) in zip(axes, panels, strict=True):
        for number, run in enumerate(panel_runs):
            _draw_accuracy(accuracy_axes, number, run)
            draw_stacked_bar(answer_axes, number, [(share, ANSWERS[name]) for name, share in answers(run).items()])
        accuracy_axes.set_xlim(-3, 103)
        answer_axes.set(xlim=(0, 1), ylim=(len(panel_runs) - 0.4, -0.6))
        label_rows(accuracy_axes, [_format_row(run) for run in panel_runs])
        label_rows_right(answer_axes, [_format_errors(run) for run in panel_runs])
        accuracy_axes.set_title(title, loc="left", fontsize=11)
        answer_axes.set_title("“No X”, before → after M1", loc="right", fontsize=9)
    axes[-1][0].set_xlabel("accuracy (%), 95% CI")
    axes[-1][1].set_xlabel("share of the answers")
    patches = [Patch(**style, edgecolor="black", label=name) for name, style in ANSWERS.items()]
    figure.legend(handles=patches, loc="outside lower right", ncols=len(patches), fontsize=9, frameon=False)
    return figure


def _draw_accuracy(axes: Axes, number: int, run: Run) -> None:
    """Draw both accuracies with their intervals, one a little above the other."""
    for filter_name, y, style in ((None, number - OFFSET, BEFORE), ("m1", number + OFFSET, AFTER)):
        estimate = bootstrap_mean(run.correct(filter_name), groups=_number_studies(run), seed=SEED, bounds=(0, 1))
        draw_dot(axes, y, [100 * value for value in estimate[:3]], style, "M1")


def _number_studies(run: Run) -> np.ndarray:
    return np.unique(run.study, return_inverse=True)[1]


def answers(run: Run) -> dict[str, float]:
    """Compute the share of each kind of ANSWERS among all questions.

    Args:
        run: A run.

    Returns:
        Kind -> share.
    """
    right, declined, unread = run.base == run.answer, run.outcome == DECLINED, run.outcome == UNREAD
    negated, from_prose = run.errors(), run.errors(from_prose=True)
    other_wrong = ~(right | declined | unread | negated | from_prose)
    masks = (right, negated, from_prose, other_wrong, declined, unread)
    return {name: float(mask.mean()) for name, mask in zip(ANSWERS, masks, strict=True)}


def _format_errors(run: Run) -> str:
    """Format the numbers of polarity errors before and after the verifier; "" if no question can have one."""
    scores = run.scores()
    before = count_errors(scores)
    return "" if math.isnan(before) else change(before, count_errors(scores, "_verified"))


def figure_5(runs: Sequence[ScoredRun]) -> Figure:
    """Draw for each protocol the gaps of both subsets (A) and, if hidden states were stored, similarities (B).

    Args:
        runs: Runs with option scores.

    Returns:
        The figure.
    """
    from matplotlib.patches import Patch

    panels = _group_by_protocol(runs)
    with_states = any(run.similarity is not None for run in runs)
    legend_styles = {**SUBSETS, **(OPTIONS if with_states else {})}
    figure = make_figure(3.4 * len(panels), {}, *(Patch(**style, label=name) for name, style in legend_styles.items()))
    axes = figure.subplots(len(panels), 1 + with_states, squeeze=False)
    n_characters = _WIDE // (1 + with_states)
    for row_axes, (title, panel_runs) in zip(axes, panels, strict=True):
        _draw_boxes(
            row_axes[0],
            panel_runs,
            [_compute_gaps(run) for run in panel_runs],
            SUBSETS,
            "no right “X” is next to its “No X”",
            n_characters,
        )
        row_axes[0].axhline(0, color="black", linewidth=0.8)
        row_axes[0].set_ylabel("log p(“No X”) − log p(“X”)\n(nats); n above")
        row_axes[0].set_title(f"A. {title}: gap", loc="left", fontsize=11)
        if with_states:
            similarities = [_select_similarities(run) for run in panel_runs]
            _draw_boxes(
                row_axes[1],
                panel_runs,
                similarities,
                OPTIONS,
                "no hidden states of the safe subset were kept",
                n_characters,
            )
            row_axes[1].set_ylabel("cosine of the hidden states; n above")
            row_axes[1].set_title("B. Options of the safe subset", loc="left", fontsize=11)
    return figure


def _compute_gaps(run: ScoredRun) -> list[list[float]]:
    """Compute the gaps of the safe and of the control subset, in nats."""
    gaps = polarity_gap(run.option_scores, run.negated, run.counterpart)
    masks = subsets(run.option_scores, run.answer, run.negated, run.counterpart)
    return [gaps[masks.safe].tolist(), gaps[masks.control].tolist()]


def _select_similarities(run: ScoredRun) -> list[list[float]]:
    """Select the safe subset's similarities of the positive option to the negated option and to the distractors."""
    if run.similarity is None:
        return [[], []]
    safe = subsets(run.option_scores, run.answer, run.negated, run.counterpart).safe
    return [values[safe & ~np.isnan(values)].tolist() for values in run.similarity]


def _draw_boxes(
    axes: Axes,
    runs: Sequence[Run],
    values: Sequence[Sequence[list[float]]],
    styles: Mapping[str, Any],
    empty: str,
    n_characters: int,
) -> None:
    """Draw box plots in groups: a group for each run, with a box and its number of values for each list of values.

    Args:
        axes: The panel.
        runs: The runs.
        values: Lists of values of each run.
        styles: Style of each list.
        empty: Text for a panel without values.
        n_characters: Number of characters below the panel.
    """
    for group, run_values in enumerate(values):
        for place, width, (box_values, style) in iterate_places(
            group, [*zip(run_values, styles.values(), strict=True)]
        ):
            box(axes, place, width, box_values, style)
            text_style = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "va": "top"}
            axes.annotate(
                f"{len(box_values):,}", (place, 1), (0, -3), ha="center", fontsize=8, color="#444444", **text_style
            )
    if not any(box_values for run_values in values for box_values in run_values):
        draw_empty_note(axes, empty)
    draw_separators(axes, len(runs))
    axes.margins(y=0.15)
    labels = shorten_names([run.model_name for run in runs], _NAME)
    names = [textwrap.fill(labels[run.model_name], max(n_characters // len(runs), 8)) for run in runs]
    axes.set_xticks(range(len(runs)), names, fontsize=9)
