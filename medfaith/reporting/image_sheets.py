"""Sheets of images for `--out`: VPT before and after its edit, and heatmaps with the boxes of a sentence."""

from __future__ import annotations

import base64
import io
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from PIL import Image

from .page.cases import IMAGE, Case, cases
from .page.pictures import BEFORE, Picture, Pixels, collect_sentence_cases, pictures
from .pictures import PIXELS, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .results import Results

LARGEST = 6  # maximum number of rows
MOST_MODELS = 4  # maximum number of models in a row
N_CASES = 8 * LARGEST  # questions of VPT; half of them are originals
_SIDE = 3.0  # inches
_BOX = "#00e000"
_CAPTION = "This picture holds licensed pixels and words of reports. Keep it where the images may be."


class Panel(NamedTuple):
    """One picture of a sheet.

    Attributes:
        title: The title.
        picture: The picture.
        layers: Layers to draw: "region", "boxes", or a model for its heatmap.
    """

    title: str
    picture: Picture
    layers: Sequence[str]


class Strip(NamedTuple):
    """A row of a sheet.

    Attributes:
        title: The question.
        panels: The pictures.
    """

    title: str
    panels: Sequence[Panel]


def draw_image_sheets(results: Results, pixels: Pixels) -> tuple[dict[str, Figure], list[str]]:
    """Draw the sheets of a report.

    Args:
        results: The runs.
        pixels: Sources of the pictures.

    Returns:
        Figures by file name; and notes on tasks without pictures.

    Raises:
        InputError: As `page.pictures.pictures`.
        ImageError: As `page.pictures.pictures`.
    """
    sheets: dict[str, Figure] = {}
    notes: list[str] = []
    vpt_cases = [case for case in cases(results).cases if case.task.endswith("_vpt")]
    for name, sheet_cases, build_strip, n_cases in (
        (PIXELS[2], vpt_cases, _build_edit_strip, N_CASES),
        (PIXELS[3], collect_sentence_cases(results, pixels), _build_heatmap_strip, LARGEST),
    ):
        if sheet_cases:
            pictures_by_place, left_out = pictures(
                [_select_image_answers(case) for case in sheet_cases], results, pixels._replace(most=n_cases)
            )
            notes += left_out
            strips = [
                strip
                for place in sorted(pictures_by_place)
                if (strip := build_strip(sheet_cases[place], pictures_by_place[place])) is not None
            ]
            if strips:
                sheets[name] = draw(strips[:LARGEST])
    return sheets, notes


def _select_image_answers(case: Case) -> Case:
    """Select the answers with the image."""
    return case._replace(answers=tuple(answer for answer in case.answers if answer.shown == IMAGE))


def _build_edit_strip(case: Case, case_pictures: Sequence[Picture]) -> Strip | None:
    """Build the strip of a perturbed question; None for an original, which has no edit."""
    before = next((picture for picture in case_pictures if picture.shown == BEFORE), None)
    if before is None:
        return None
    edited = case_pictures[0]
    readings = "; ".join(f"{short(answer.model, 24)}: {answer.read}" for answer in _select_image_answers(case).answers)
    panels = [
        Panel("before the edit", before._replace(region=edited.region), ["region"]), Panel("as asked", edited, []),
    ]  # fmt: skip
    return Strip(f"{case.question}\nread of the edited image: {readings}", panels)


def _build_heatmap_strip(case: Case, case_pictures: Sequence[Picture]) -> Strip | None:
    """Build the strip of a sentence; None without a heatmap."""
    picture = case_pictures[0]
    attended_models = [model for model, url in picture.heat if url]
    reading_by_model = {answer.model: answer.read.partition(" of")[0] for answer in case.answers}
    panels = [Panel("the boxes", picture, ["boxes"])]
    panels += [
        Panel(f"{short(model, 30)}\n{reading_by_model.get(model, '')}", picture, ["boxes", model])
        for model in attended_models[:MOST_MODELS]
    ]
    return Strip(case.question, panels) if attended_models else None


def draw(strips: Sequence[Strip]) -> Figure:
    """Draw the strips below each other, with a caption on the licence.

    Args:
        strips: The strips.

    Returns:
        The figure.
    """
    from matplotlib.figure import Figure

    n_columns, heights = max(len(strip.panels) for strip in strips), [_SIDE + 0.9] * len(strips) + [0.4]
    figure = Figure(figsize=(_SIDE * n_columns, sum(heights)), layout="constrained")
    *strip_figures, caption_figure = figure.subfigures(len(heights), 1, height_ratios=heights)  # pyright: ignore (an array for two or more)
    for strip_figure, strip in zip(strip_figures, strips, strict=True):
        lines = [line for text in strip.title.split("\n") for line in textwrap.wrap(text, int(13 * _SIDE * n_columns))]
        strip_figure.suptitle("\n".join(lines), fontsize=9, x=0.01, ha="left")
        panels = strip_figure.subplots(1, n_columns, squeeze=False)[0]
        for axes in panels:
            axes.set_axis_off()
        for axes, panel in zip(panels, strip.panels, strict=False):
            _draw_panel(axes, panel)
    caption_figure.text(0.01, 0.5, _CAPTION, fontsize=8, va="center", color="#444444")
    return figure


def _draw_panel(axes: Axes, panel: Panel) -> None:
    from matplotlib.patches import Rectangle

    picture = panel.picture
    width, height = picture.size
    extent = (0, width, height, 0)
    axes.imshow(_decode_image(picture.url), extent=extent, interpolation="antialiased")
    for model, url in picture.heat:
        if model in panel.layers and url:
            axes.imshow(_decode_image(url), extent=extent, interpolation="antialiased", alpha=0.6)
    if "region" in panel.layers and picture.region:
        inside = _decode_image(picture.region)[..., 3] > 0
        x, y = ((np.arange(n) + 0.5) / n for n in inside.shape[::-1])
        axes.contour(x * width, y * height, inside, levels=[0.5], colors=_BOX, linewidths=1.5)
    for box in picture.boxes if "boxes" in panel.layers else ():
        axes.add_patch(Rectangle((box.x, box.y), box.width, box.height, fill=False, edgecolor=_BOX, linewidth=1.5))
        axes.text(box.x, box.y, box.label, fontsize=6, color=_BOX, va="bottom", clip_on=True)
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_title(panel.title, fontsize=8)


def _decode_image(url: str) -> np.ndarray:
    """Decode a data URL to RGBA, shape (h, w, 4)."""
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).convert("RGBA"))
