"""What the report's pictures have in common: their size, a colour for each model, bars, boxes, and the files."""

from __future__ import annotations

import importlib.util
import io
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from medfaith.loaders.escaping import escape_controls
from medfaith.loaders.progress import Progress

from .page.text import without_paths

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 100
WIDTH = 12  # inches
# Okabe and Ito's colours, which people who confuse red and green tell apart, and darker ones for further models.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#555555")
NONE = "n/a"  # where there is no value to draw
NOTHING = (math.nan,) * 3  # no value and no interval
# Figures that show frames and images, which are licensed.
PIXELS = ("figure_surgx_overlays", "figure_surgx_06", "figure_heal_vpt_images", "figure_wrong_lung_images")
# What a file says of itself: no date and no version, so that the same figure gives the same bytes.
FORMATS: Mapping[str, Mapping[str, None]] = {
    "png": {"Software": None},
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
    "svg": {"Creator": None, "Date": None},
}
# Publishers refuse Type 3 fonts (42 is TrueType); the ids in an SVG are random without a salt; layout: see `saved`.
_SETTINGS: Any = {
    "pdf.fonttype": 42, "svg.hashsalt": "medfaith", "figure.autolayout": False, "figure.constrained_layout.use": False,
}  # fmt: skip
_NAME = 44  # characters of a model's name that a legend has room for
_LABEL = 0.07  # the least share of a bar that has room for its label
Drawn = tuple[dict[str, "Figure"], list[str]]  # figures by the name of their files, notes on what is not drawn
Styles = Mapping[str, Mapping[str, Any]]  # by a model's name
_T = TypeVar("_T")


def missing(benchmark: str) -> list[str]:
    """A note that stands for a benchmark's pictures where matplotlib is not installed; none where it is."""
    if importlib.util.find_spec("matplotlib") is not None:
        return []
    return [f"pictures of {benchmark} need matplotlib and are left out: uv pip install 'medfaith[explain]'"]


def files(figures: Mapping[str, Figure]) -> dict[str, bytes]:
    """Each figure as PNG, PDF and SVG, by the name of the file."""
    shown = Progress(figures.items(), title="saving figures", unit="figures")
    return {f"{name}.{kind}": of_kind for name, one in shown for kind, of_kind in saved(one).items()}


def for_page(figure: Figure) -> str:
    """The figure as a small SVG: its text is text, in whatever font the reader has."""
    svg = saved(figure, ["svg"], **{"svg.fonttype": "none"})["svg"].decode()
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<\?xml.*?\?>|<!DOCTYPE.*?>", "", svg, flags=re.DOTALL)
    return " ".join(re.sub(r"([1-9]\d*\.\d)\d+", r"\1", svg).split())  # a tenth of a point is enough


def saved(figure: Figure, kinds: Collection[str] = tuple(FORMATS), **more: Any) -> dict[str, bytes]:
    """The figure in each format, always the same bytes; it is laid out once. more: settings of matplotlib."""
    from matplotlib import rc_context
    from matplotlib.text import Text

    for text in figure.findobj(Text):  # a name with two dollars is no formula
        text.set_parse_math(False)  # pyright: ignore[reportAttributeAccessIssue]
    figure.draw_without_rendering()
    found = {}
    with rc_context(_SETTINGS | more):
        figure.set_layout_engine(None)  # not "none", for which each format is laid out once more
        for kind in kinds:
            file = io.BytesIO()
            figure.savefig(file, format=kind, dpi=DPI, metadata={**FORMATS[kind]})
            found[kind] = file.getvalue()
    return found


def styles_of(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A colour a model, the same in all pictures; hatched from the second time on that a colour is used."""
    hatches = ("", "///", "...")
    return {
        name: {
            "facecolor": COLOURS[number % len(COLOURS)],
            "hatch": hatches[number // len(COLOURS) % len(hatches)],
            "edgecolor": "black",
            "alpha": 0.75,
        }
        for number, name in enumerate(names)
    }


def figure_of(height: float, styles: Styles, *more: Any) -> Figure:
    """A figure, `height` inches high and a little more for the legend above its panels: the models, then `more`."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    figure = Figure(figsize=(WIDTH, height + 0.25 * -(-len(styles) // 3)), layout="constrained")
    handles = [*(Patch(**style, label=short(name, _NAME)) for name, style in styles.items()), *more]
    figure.legend(
        handles=handles, loc="outside upper center", ncols=3 if len(styles) > 3 else len(handles), fontsize=10
    )
    return figure


def separate(axes: Axes, n_groups: int) -> None:
    """Horizontal lines behind the groups, and vertical ones between them; group i stands at x = i."""
    axes.set_xlim(-0.5, n_groups - 0.5)
    axes.yaxis.grid(visible=True, color="#dddddd")
    axes.set_axisbelow(True)
    for between in range(n_groups - 1):
        axes.axvline(between + 0.5, color="#eeeeee", linewidth=0.8)


def places(group: int, items: Sequence[_T]) -> Iterator[tuple[float, float, _T]]:
    """Of each item of a group its place and its width, side by side."""
    width = 0.8 / len(items)
    return ((group - 0.4 + width * (number + 0.5), min(0.85 * width, 0.3), item) for number, item in enumerate(items))


def bar(axes: Axes, place: float, width: float, shown: Sequence[float], style: Mapping[str, Any]) -> None:
    """A bar with a line for its interval. shown: value, low and high; without a value, words that say so."""
    value, low, high = shown
    if math.isnan(value):
        no_value(axes, place)
        return
    axes.bar(place, value, width, linewidth=0.8, **style)
    if value == 0:  # its bar has no height
        axes.annotate("0", (place, 0), (0, 2), textcoords="offset points", ha="center", va="bottom", fontsize=8)
    if not math.isnan(low):
        axes.vlines(place, low, high, color="black", linewidth=1.5)


def box(axes: Axes, place: float, width: float, values: Sequence[float], style: Mapping[str, Any]) -> None:
    """Quartiles, whiskers to 1.5 times their distance, the values beyond, and the mean; or words that there is none.

    Where both quartiles are the same, the box is a flat one of the model's colour.
    """
    from matplotlib.cbook import boxplot_stats

    if not values:
        no_value(axes, place)
        return
    (found,) = boxplot_stats(values)
    flat, size = found["q1"] == found["q3"], min(5, 40 * width)
    if flat:
        ends = (place - width / 2, place + width / 2)
        for colour, thick in (("black", 10), (style["facecolor"], 8)):
            axes.plot(ends, (found["med"],) * 2, color=colour, linewidth=thick, solid_capstyle="butt")
    axes.bxp(
        [found],
        positions=[place],
        widths=width,
        manage_ticks=False,
        patch_artist=True,
        showmeans=True,
        showbox=not flat,
        showcaps=not flat,
        boxprops={**style},
        medianprops={"color": "black", "linewidth": 1.5},
        meanprops={"marker": "D", "markerfacecolor": "white", "markeredgecolor": "black", "markersize": size},
        flierprops={"marker": ".", "markersize": 3, "markeredgecolor": "#555555"},
    )


def stacked(axes: Axes, place: float, parts: Sequence[tuple[float, Mapping[str, Any]]]) -> None:
    """A horizontal bar cut into shares of 1, each with its style; a wide one has its percentage."""
    start = 0.0
    for share, style in parts:
        if share:
            axes.barh(place, share, left=start, edgecolor="black", linewidth=0.6, **style)
        if share >= _LABEL:
            axes.text(start + share / 2, place, f"{100 * share:.0f}%", ha="center", va="center", fontsize=9)
        start += share


def no_value(axes: Axes, place: float) -> None:
    """Grey words, which nobody takes for a bar."""
    axes.annotate(
        NONE, (place, 0), (0, 3), textcoords="offset points", ha="center", va="bottom", rotation=90, fontsize=8,
        color="#888888",
    )  # fmt: skip


def say_empty(axes: Axes, why: str) -> None:
    """Words in a panel in which nothing is drawn, above the middle: a line for 0 may be there."""
    axes.text(
        0.5, 0.7, why, transform=axes.transAxes, ha="center", va="center", fontsize=10, color="#555555",
        bbox={"facecolor": "white", "edgecolor": "none"},
    )  # fmt: skip


def short(name: str, length: int) -> str:
    """The end of a long name, which tells most, from the beginning of one of its parts where it has some.

    A path on a machine is cut to its last part.
    """
    name = escape_controls(without_paths(name))
    if len(name) <= length:
        return name
    tail = name[1 - length :]
    parts = [at for at in (tail.find(mark) for mark in "/:") if 0 <= at < len(tail) - 8]
    return f"…{tail[min(parts) + 1 :] if parts else tail}"
