"""Sheets of images for `--out`: a row of pictures for each question."""

from __future__ import annotations

import base64
import io
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from PIL import Image

from .page.cases import IMAGE, Case, RunsByBenchmark
from .page.pictures import Picture, Pixels, pictures
from .pictures import BOX, DPI, Drawn, draw_box_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LARGEST = 6  # maximum number of rows
MOST_MODELS = 4  # maximum number of models in a row
_SIDE, _LINE = 3.0, 0.14  # inches
_HEAT = "#ff6000"
_OPACITY = 0.6  # of a heatmap
_CORNER = 0.14  # side of the square for attention to no region, as a share of the image's shorter side
_LICENCE = "This picture holds licensed pixels and words of reports. Keep it where the images may be."


class Panel(NamedTuple):
    """One picture of a sheet.

    Attributes:
        title: The title.
        picture: The picture.
        layers: Layers to draw: "region", "boxes", or a model for its heatmap.
        no_attention: Share of the attention on no region. The heatmap fades by it, and a square in the lower right
            corner, with the label "No Attn", has its opacity.
    """

    title: str
    picture: Picture
    layers: Sequence[str]
    no_attention: float = 0.0


class Strip(NamedTuple):
    """A row of a sheet.

    Attributes:
        title: The question.
        panels: The pictures.
    """

    title: str
    panels: Sequence[Panel]


def draw_strips(
    name: str,
    cases: Sequence[Case],
    build_strip: Callable[[Case, Sequence[Picture]], Strip | None],
    runs: RunsByBenchmark,
    pixels: Pixels,
    choice: str,
) -> Drawn:
    """Draw a sheet with a row for each of the first cases that have one.

    Args:
        name: Name of the figure.
        cases: The cases.
        build_strip: Builds the row of a case and its pictures; None for a case without a row.
        runs: The runs of each benchmark, which refer to the heatmaps.
        pixels: Sources of the pictures.
        choice: How the cases were chosen, for the caption.

    Returns:
        The figure by file name, none without a row; and notes on tasks without pictures.

    Raises:
        InputError: As `page.pictures.pictures`.
        ImageError: As `page.pictures.pictures`.
    """
    if not cases:
        return {}, []
    pictures_by_place, notes = pictures([_select_image_answers(case) for case in cases], runs, pixels, required=False)
    strips = [
        strip
        for place in sorted(pictures_by_place)
        if (strip := build_strip(cases[place], pictures_by_place[place])) is not None
    ]
    return ({name: draw(strips[:LARGEST], f"{choice} {_LICENCE}")} if strips else {}), notes


def _select_image_answers(case: Case) -> Case:
    """Select the answers with the image."""
    return case._replace(answers=tuple(answer for answer in case.answers if answer.shown == IMAGE))


def draw(strips: Sequence[Strip], caption: str) -> Figure:
    """Draw the strips below each other, with a caption.

    Args:
        strips: The strips.
        caption: The caption.

    Returns:
        The figure.
    """
    from matplotlib.figure import Figure

    n_columns = max(len(strip.panels) for strip in strips)
    caption_lines = textwrap.wrap(caption, int(15 * _SIDE * n_columns))
    heights = [_SIDE + 0.9] * len(strips) + [_LINE * (len(caption_lines) + 1)]
    figure = Figure(figsize=(_SIDE * n_columns, sum(heights)), layout="constrained")
    *strip_figures, caption_figure = figure.subfigures(len(heights), 1, height_ratios=heights)  # pyrefly: ignore[not-iterable] (an array for two or more)
    for strip_figure, strip in zip(strip_figures, strips, strict=True):
        lines = [line for text in strip.title.split("\n") for line in textwrap.wrap(text, int(13 * _SIDE * n_columns))]
        strip_figure.suptitle("\n".join(lines), fontsize=9, x=0.01, ha="left")
        panels = strip_figure.subplots(1, n_columns, squeeze=False)[0]
        for axes in panels:
            axes.set_axis_off()
        for axes, panel in zip(panels, strip.panels, strict=False):
            _draw_panel(axes, panel)
    caption_figure.text(0.01, 0.5, "\n".join(caption_lines), fontsize=8, va="center", color="#444444")
    return figure


def _draw_panel(axes: Axes, panel: Panel) -> None:
    from matplotlib.patches import Rectangle
    from matplotlib.patheffects import Normal, Stroke

    picture = panel.picture
    width, height = picture.size
    extent = (0, width, height, 0)
    axes.imshow(_decode_image(picture.url), extent=extent, interpolation="antialiased")
    for model, url in picture.heat:
        if model in panel.layers and url:
            opacity = _OPACITY * (1 - panel.no_attention)
            axes.imshow(_decode_image(url), extent=extent, interpolation="antialiased", alpha=opacity)
    if "region" in panel.layers and picture.region:
        inside = _decode_image(picture.region)[..., 3] > 0
        x, y = ((np.arange(n) + 0.5) / n for n in inside.shape[::-1])
        axes.contour(x * width, y * height, inside, levels=[0.5], colors=BOX, linewidths=1.5)
    # Titles leave nearly a square of `_SIDE` inches to the image.
    unit, label_boxes = max(width, height) / (_SIDE * DPI), []
    for box in picture.boxes if "boxes" in panel.layers else ():
        axes.add_patch(Rectangle((box.x, box.y), box.width, box.height, fill=False, edgecolor=BOX, linewidth=1.5))
        xywh = box.x, box.y, box.width, box.height
        draw_box_label(axes, box.label, xywh, (height, width), unit, label_boxes, fontsize=6)
    if panel.no_attention:
        side = _CORNER * min(width, height)
        corner = Rectangle((width - side, height - side), side, side, facecolor=_HEAT, alpha=panel.no_attention)
        axes.add_patch(corner)
        middle = width - side / 2, height - side / 2
        outline = [Stroke(linewidth=2, foreground="black"), Normal()]  # readable on any pixels
        axes.text(*middle, "No\nAttn", color="white", fontsize=7, ha="center", va="center", path_effects=outline)
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_title(panel.title, fontsize=8)


def _decode_image(url: str) -> np.ndarray:
    """Decode a data URL to RGBA, shape (h, w, 4)."""
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).convert("RGBA"))
