"""What the report's pictures have in common: their size, a colour for each model, and the PNG file."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 100
WIDTH = 12  # inches
# Okabe and Ito's colours, which people who confuse red and green tell apart, and darker ones for further models.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#555555")
NONE = "–"  # where there is no value to draw
_NAME = 44  # characters of a model's name that a legend has room for
Drawn = tuple[dict[str, bytes], list[str]]  # pictures by file name, notes on what is not drawn
Styles = Mapping[str, Mapping[str, Any]]  # by a model's name


def png(figure: Figure) -> bytes:
    """The same bytes for the same figure."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None})
    return file.getvalue()


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


def short(name: str, length: int) -> str:
    """The end of a long name, which for a path tells most, from the beginning of one of its parts where it has some."""
    if len(name) <= length:
        return name
    tail = name[1 - length :]
    parts = [at for at in (tail.find(mark) for mark in "/:") if 0 <= at < len(tail) - 8]
    return f"…{tail[min(parts) + 1 :] if parts else tail}"
