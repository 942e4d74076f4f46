"""Rows of dots in the figures of CXR-ContraBench: labels of the rows, dots with intervals and their legend."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..pictures import NONE, make_figure, short
from ..tables import UNDEFINED, count_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

COLOUR = "#0072b2"
BEFORE: Mapping[str, Any] = {"color": COLOUR, "markersize": 6, "markerfacecolor": "white"}
AFTER: Mapping[str, Any] = {"color": COLOUR, "markersize": 4, "alpha": 0.6}
OFFSET = 0.12  # distance of the two dots of a row from its middle
ROW_HEIGHT, MARGIN = 0.42, 0.75  # inches: height of a row, margin of a panel and of the figure
_NAME = 38  # maximum length of a model's name in a row (characters)


def make_dot_figure(n_rows: Sequence[float], handles: Sequence[Any], title: str | None = None) -> Figure:
    """Make an empty figure for panels of rows.

    Args:
        n_rows: Number of rows of each panel, from the top.
        handles: Handles of the legend.
        title: Title above the legend; None for no title.

    Returns:
        The figure.
    """
    margins = MARGIN * (1 + len(n_rows)) + (0.25 if title else 0)
    figure = make_figure(margins + ROW_HEIGHT * sum(n_rows), {}, *handles)
    if title:
        figure.legends[0].set_title(title)
        figure.legends[0].get_title().set_fontsize(11)
    return figure


def make_dot_handles() -> list[Line2D]:
    """Make the handles of a legend for the dots before and after the verifier."""
    from matplotlib.lines import Line2D

    labels = {"as answered": BEFORE, "after the verifier (M1)": AFTER}
    return [Line2D([], [], marker="o", label=label, **style) for label, style in labels.items()]


def format_row(model: str, variant: str, *sizes: tuple[int, int] | None) -> str:
    """Format the label of a row.

    Args:
        model: Name of the model.
        variant: Prompt, slice or wording.
        sizes: Number of questions asked and number in the data of each protocol; None for a protocol without a run.

    Returns:
        Two lines.
    """
    n = " / ".join(UNDEFINED if size is None else count_of(*size) for size in sizes)
    return f"{short(model, _NAME)}\n{variant}, n = {n}"


def label_rows(axes: Axes, labels: Sequence[str] = (), n_rows: int = 0) -> None:
    """Label the rows of a panel from the top.

    Args:
        axes: The panel.
        labels: Labels of the rows; none for a panel right of another one with the same rows.
        n_rows: Number of rows, if they have no labels here.
    """
    n = len(labels) or n_rows
    axes.set_ylim(n - 0.4, -0.6)
    axes.set_yticks(range(n), [*labels] or [""] * n, fontsize=8)
    if not labels:
        axes.tick_params(axis="y", length=0)
    axes.xaxis.grid(visible=True, color="#dddddd")
    axes.set_axisbelow(True)


def label_rows_right(axes: Axes, labels: Sequence[str]) -> None:
    """Label the rows of a panel at its right side.

    Args:
        axes: The panel.
        labels: Labels of the rows, from the top.
    """
    axes.set_yticks(range(len(labels)), labels, fontsize=9)
    axes.yaxis.tick_right()
    axes.tick_params(axis="y", length=0)


def draw_dot(axes: Axes, y: float, estimate: Sequence[float], style: Mapping[str, Any], name: str = "") -> None:
    """Draw a dot with a line for its interval, or a text if the value is undefined.

    Args:
        axes: The panel.
        y: Position of the dot.
        estimate: Value, low and high; NaN bounds for no line.
        style: Style of the dot.
        name: Name of the value in the text.
    """
    value, low, high = estimate
    if not math.isnan(low):
        axes.plot([low, high], [y, y], color=style["color"], alpha=style.get("alpha"))
    if math.isnan(value):
        text = f"{name}: {NONE}" if name else NONE
        axes.text(
            0.03, y, text, transform=axes.get_yaxis_transform(), va="center", fontsize=7, color="#888888",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )  # fmt: skip
    else:
        axes.plot(value, y, marker="o", **style)
