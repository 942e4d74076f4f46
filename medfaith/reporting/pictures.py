"""Common parts of the report's figures: size, a colour for each model, bars, boxes and file formats."""

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
# Colours of Okabe and Ito for colour-blind readers, and darker ones for further models.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#555555")
BOX = "#00e000"  # of boxes on an image
NONE = "n/a"  # in place of an undefined value
NOTHING = (math.nan,) * 3  # no value and no interval
# Metadata of each format: no date and no version, so that the same figure gives the same bytes.
FORMATS: Mapping[str, Mapping[str, None]] = {
    "png": {"Software": None},
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
    "svg": {"Creator": None, "Date": None},
}
# Publishers refuse Type 3 fonts (42 is TrueType). Ids in an SVG are random without a salt. For the layout see `saved`.
_SETTINGS: Any = {
    "pdf.fonttype": 42, "svg.hashsalt": "medfaith", "figure.autolayout": False, "figure.constrained_layout.use": False,
}  # fmt: skip
_NAME = 44  # maximum length of a model's name in a legend (characters)
_LABEL = 0.07  # a smaller share of a bar has no label
Drawn = tuple[dict[str, "Figure"], list[str]]  # figures by file name, notes on figures that are left out
Styles = Mapping[str, Mapping[str, Any]]  # by model
_T = TypeVar("_T")


def check_matplotlib(benchmark: str) -> list[str]:
    """Check whether matplotlib is installed.

    Args:
        benchmark: Title of the benchmark.

    Returns:
        A note that its figures are left out; none if matplotlib is installed.
    """
    if importlib.util.find_spec("matplotlib") is not None:
        return []
    return [f"pictures of {benchmark} need matplotlib and are left out: uv pip install 'medfaith[explain]'"]


def files(figures: Mapping[str, Figure]) -> dict[str, bytes]:
    """Save each figure as PNG, PDF and SVG.

    Args:
        figures: Figures by name.

    Returns:
        Name of the file -> its bytes.
    """
    progress = Progress(figures.items(), title="saving figures", unit="figures")
    return {f"{name}.{kind}": content for name, figure in progress for kind, content in saved(figure).items()}


def encode_svg(figure: Figure) -> str:
    """Encode a figure as a small SVG with its text as text.

    Args:
        figure: The figure.

    Returns:
        The SVG.
    """
    svg = saved(figure, ["svg"], **{"svg.fonttype": "none"})["svg"].decode()
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<\?xml.*?\?>|<!DOCTYPE.*?>", "", svg, flags=re.DOTALL)
    return " ".join(re.sub(r"([1-9]\d*\.\d)\d+", r"\1", svg).split())  # a tenth of a point is enough


def saved(figure: Figure, kinds: Collection[str] = tuple(FORMATS), **settings: Any) -> dict[str, bytes]:
    """Save a figure in each format; the same figure gives the same bytes.

    Args:
        figure: The figure; its layout is computed once.
        kinds: The formats.
        settings: Settings of matplotlib.

    Returns:
        Format -> bytes.
    """
    from matplotlib import rc_context
    from matplotlib.text import Text

    for text in figure.findobj(Text):  # a name with two dollars is not a formula
        text.set_parse_math(False)
    figure.draw_without_rendering()
    content_by_kind = {}
    with rc_context(_SETTINGS | settings):
        figure.set_layout_engine(None)  # "none" would compute the layout again for each format
        for kind in kinds:
            file = io.BytesIO()
            figure.savefig(file, format=kind, dpi=DPI, metadata={**FORMATS[kind]})
            content_by_kind[kind] = file.getvalue()
    return content_by_kind


def make_styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Choose a colour for each model; repeated colours are hatched.

    Args:
        names: The models.

    Returns:
        Model -> style of matplotlib's patches.
    """
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


def make_figure(height: float, styles: Styles, *handles_after: Any) -> Figure:
    """Make an empty figure with a legend above its panels.

    Args:
        height: Height without the legend, in inches.
        styles: Style of each model.
        handles_after: Further handles of the legend.

    Returns:
        The figure.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    figure = Figure(figsize=(WIDTH, height + 0.25 * -(-len(styles) // 3)), layout="constrained")
    labels = shorten_names(styles, _NAME)
    handles = [*(Patch(**style, label=labels[name]) for name, style in styles.items()), *handles_after]
    figure.legend(
        handles=handles, loc="outside upper center", ncols=3 if len(styles) > 3 else len(handles), fontsize=10
    )
    return figure


def draw_separators(axes: Axes, n_groups: int) -> None:
    """Draw horizontal grid lines, and vertical lines between groups; group i is at x = i.

    Args:
        axes: The panel.
        n_groups: Number of groups.
    """
    axes.set_xlim(-0.5, n_groups - 0.5)
    axes.yaxis.grid(visible=True, color="#dddddd")
    axes.set_axisbelow(True)
    for between in range(n_groups - 1):
        axes.axvline(between + 0.5, color="#eeeeee", linewidth=0.8)


def iterate_places(group: int, items: Sequence[_T]) -> Iterator[tuple[float, float, _T]]:
    """Iterate over the items of a group with their positions side by side.

    Args:
        group: Index of the group.
        items: The items.

    Returns:
        Position, width and item.
    """
    width = 0.8 / len(items)
    return ((group - 0.4 + width * (number + 0.5), min(0.85 * width, 0.3), item) for number, item in enumerate(items))


def draw_bar(axes: Axes, place: float, width: float, interval: Sequence[float], style: Mapping[str, Any]) -> None:
    """Draw a bar with a line for its interval, or a text if the value is undefined.

    Args:
        axes: The panel.
        place: Position of the bar.
        width: Width of the bar.
        interval: Value, low and high.
        style: Style of the bar.
    """
    value, low, high = interval
    if math.isnan(value):
        draw_no_value(axes, place)
        return
    axes.bar(place, value, width, linewidth=0.8, **style)
    if value == 0:  # its bar has no height
        axes.annotate("0", (place, 0), (0, 2), textcoords="offset points", ha="center", va="bottom", fontsize=8)
    if not math.isnan(low):
        axes.vlines(place, low, high, color="black", linewidth=1.5)


def box(axes: Axes, place: float, width: float, values: Sequence[float], style: Mapping[str, Any]) -> None:
    """Draw a box plot with its mean: quartiles, whiskers to 1.5 times their distance, and outliers.

    If both quartiles are equal, the box is a flat line in the model's colour. Without values a text says so.

    Args:
        axes: The panel.
        place: Position of the box.
        width: Width of the box.
        values: The values.
        style: Style of the box.
    """
    from matplotlib.cbook import boxplot_stats

    if not values:
        draw_no_value(axes, place)
        return
    (statistics,) = boxplot_stats(values)
    flat, size = statistics["q1"] == statistics["q3"], min(5, 40 * width)
    if flat:
        ends = (place - width / 2, place + width / 2)
        for colour, thick in (("black", 10), (style["facecolor"], 8)):
            axes.plot(ends, (statistics["med"],) * 2, color=colour, linewidth=thick, solid_capstyle="butt")
    axes.bxp(
        [statistics],
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


def draw_stacked_bar(axes: Axes, place: float, shares: Sequence[tuple[float, Mapping[str, Any]]]) -> None:
    """Draw a horizontal bar of shares; a wide share has its percentage as label.

    Args:
        axes: The panel.
        place: Position of the bar.
        shares: Share of 1 and style of each segment.
    """
    start = 0.0
    for share, style in shares:
        if share:
            axes.barh(place, share, left=start, edgecolor="black", linewidth=0.6, **style)
        if share >= _LABEL:
            axes.text(start + share / 2, place, f"{100 * share:.0f}%", ha="center", va="center", fontsize=9)
        start += share


def draw_no_value(axes: Axes, place: float) -> None:
    """Draw a grey text in place of a bar, at the bottom of the panel: the line for 0 may be at its top.

    Args:
        axes: The panel.
        place: Position of the bar.
    """
    axes.annotate(
        NONE, (place, 0), (0, 3), xycoords=("data", "axes fraction"), textcoords="offset points", ha="center",
        va="bottom", rotation=90, fontsize=8, color="#888888",
    )  # fmt: skip


def draw_empty_note(axes: Axes, text: str) -> None:
    """Draw a text in an empty panel, above a line for 0.

    Args:
        axes: The panel.
        text: The text.
    """
    axes.text(
        0.5, 0.7, text, transform=axes.transAxes, ha="center", va="center", fontsize=10, color="#555555",
        bbox={"facecolor": "white", "edgecolor": "none"},
    )  # fmt: skip


def draw_box_label(
    axes: Axes,
    label: str,
    xywh: Sequence[float],
    size: tuple[int, int],
    unit: float,
    label_boxes: list[tuple[float, float, float, float]],
    fontsize: int = 8,
) -> None:
    """Draw the label of a box in its first corner, inside the image, that covers no other label.

    Args:
        axes: The panel with the image.
        label: The label.
        xywh: The box in pixels of the image.
        size: (height, width) of the image.
        unit: Pixels of the image per pixel of the figure.
        label_boxes: Boxes (xywh) of the labels that were drawn; the new one is added.
        fontsize: Size of the font in points.
    """
    x, y, w, h = xywh
    wide, high = (0.8 * fontsize * len(label) + 6) * unit, 2 * fontsize * unit
    corners = [(x, y), (x, y + h - high), (x + w - wide, y), (x + w - wide, y + h - high)]
    inside = [(min(max(a, 0), size[1] - wide), min(max(b, 0), size[0] - high)) for a, b in corners]
    free = [
        (a, b)
        for a, b in inside
        if all(a + wide <= c or c + e <= a or b + high <= d or d + f <= b for c, d, e, f in label_boxes)
    ]
    label_left, top = (free or inside)[0]
    label_boxes.append((label_left, top, wide, high))
    style = {"boxstyle": "square,pad=0.15", "facecolor": BOX, "edgecolor": "none"}
    axes.text(
        label_left + 3 * unit, top + high / 2, label, fontsize=fontsize, color="black", va="center", ha="left",
        bbox=style,
    )  # fmt: skip


def short(name: str, length: int) -> str:
    """Cut a long name to its end, from the beginning of a part of the name if possible.

    Args:
        name: The name; a path on a machine is cut to its last part.
        length: Maximum number of characters.

    Returns:
        The name.
    """
    name = escape_controls(without_paths(name))
    if len(name) <= length:
        return name
    tail = name[1 - length :]
    starts = [at for at in (tail.find(mark) for mark in "/:") if 0 <= at < len(tail) - 8]
    return f"…{tail[min(starts) + 1 :] if starts else tail}"


def shorten_names(names: Collection[str], length: int) -> dict[str, str]:
    """Cut long names as `short` does, but leave so much of them that different names stay different.

    Args:
        names: The names.
        length: Maximum number of characters; more where the ends of two names are equal.

    Returns:
        Name -> short name.
    """
    shortened = {name: short(name, length) for name in names}
    if len({*shortened.values()}) == len(shortened) or length >= max(map(len, names)):
        return shortened
    return shorten_names(names, length + 8)
