"""Sheets of images for `--out`: VPT before and after its edit, and where models look beside the boxes of a sentence."""

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

LARGEST = 6  # rows of a sheet
MOST_MODELS = 4  # side by side
TRIED = 8 * LARGEST  # questions of VPT, of which half are the originals
_SIDE = 3.0  # inches
_BOX = "#00e000"
_CAPTION = "This picture holds licensed pixels and words of reports. Keep it where the images may be."


class Panel(NamedTuple):
    """One picture of a sheet. layers: names of what lies over it, "region", "boxes" or a model whose heatmap it is."""

    title: str
    picture: Picture
    layers: Sequence[str]


class Strip(NamedTuple):
    """A row of a sheet: what was asked, and its panels."""

    title: str
    panels: Sequence[Panel]


def image_sheets(results: Results, given: Pixels) -> tuple[dict[str, Figure], list[str]]:
    """The sheets by the names of their files, each where the runs have something to show, and notes on what has none.

    Raises: as `page.pictures.pictures`.
    """
    found: dict[str, Figure] = {}
    notes: list[str] = []
    asked = [case for case in cases(results).cases if case.task.endswith("_vpt")]
    for name, of, take, tried in (
        (PIXELS[2], asked, _before_and_after, TRIED),
        (PIXELS[3], collect_sentence_cases(results, given), _where, LARGEST),
    ):
        if of:
            shown, left_out = pictures([_with_the_image(case) for case in of], results, given._replace(most=tried))
            notes += left_out
            strips = [strip for place in sorted(shown) if (strip := take(of[place], shown[place])) is not None]
            if strips:
                found[name] = draw(strips[:LARGEST])
    return found, notes


def _with_the_image(case: Case) -> Case:
    return case._replace(answers=tuple(answer for answer in case.answers if answer.shown == IMAGE))


def _before_and_after(case: Case, shown: Sequence[Picture]) -> Strip | None:
    """None of an original, which is not edited."""
    before = next((picture for picture in shown if picture.shown == BEFORE), None)
    if before is None:
        return None
    edited = shown[0]
    said = "; ".join(f"{short(answer.model, 24)}: {answer.read}" for answer in _with_the_image(case).answers)
    panels = [
        Panel("before the edit", before._replace(region=edited.region), ["region"]), Panel("as asked", edited, []),
    ]  # fmt: skip
    return Strip(f"{case.question}\nread of the edited image: {said}", panels)


def _where(case: Case, shown: Sequence[Picture]) -> Strip | None:
    """None without attention of any model."""
    picture = shown[0]
    looked = [model for model, url in picture.heat if url]
    of_model = {answer.model: answer.read.partition(" of")[0] for answer in case.answers}
    panels = [Panel("the boxes", picture, ["boxes"])]
    panels += [
        Panel(f"{short(model, 30)}\n{of_model.get(model, '')}", picture, ["boxes", model])
        for model in looked[:MOST_MODELS]
    ]
    return Strip(case.question, panels) if looked else None


def draw(strips: Sequence[Strip]) -> Figure:
    """The strips below each other, and what must not be done with the figure."""
    from matplotlib.figure import Figure

    n_columns, heights = max(len(strip.panels) for strip in strips), [_SIDE + 0.9] * len(strips) + [0.4]
    figure = Figure(figsize=(_SIDE * n_columns, sum(heights)), layout="constrained")
    *parts, last = figure.subfigures(len(heights), 1, height_ratios=heights)  # pyright: ignore (of two or more it is an array)
    for part, strip in zip(parts, strips, strict=True):
        lines = [line for text in strip.title.split("\n") for line in textwrap.wrap(text, int(13 * _SIDE * n_columns))]
        part.suptitle("\n".join(lines), fontsize=9, x=0.01, ha="left")
        places = part.subplots(1, n_columns, squeeze=False)[0]
        for axes in places:
            axes.set_axis_off()
        for axes, panel in zip(places, strip.panels, strict=False):
            _draw_panel(axes, panel)
    last.text(0.01, 0.5, _CAPTION, fontsize=8, va="center", color="#444444")
    return figure


def _draw_panel(axes: Axes, panel: Panel) -> None:
    from matplotlib.patches import Rectangle

    picture = panel.picture
    width, height = picture.size
    whole = (0, width, height, 0)
    axes.imshow(_decoded(picture.url), extent=whole, interpolation="antialiased")
    for model, url in picture.heat:
        if model in panel.layers and url:
            axes.imshow(_decoded(url), extent=whole, interpolation="antialiased", alpha=0.6)
    if "region" in panel.layers and picture.region:
        inside = _decoded(picture.region)[..., 3] > 0
        x, y = ((np.arange(n) + 0.5) / n for n in inside.shape[::-1])
        axes.contour(x * width, y * height, inside, levels=[0.5], colors=_BOX, linewidths=1.5)
    for box in picture.boxes if "boxes" in panel.layers else ():
        axes.add_patch(Rectangle((box.x, box.y), box.width, box.height, fill=False, edgecolor=_BOX, linewidth=1.5))
        axes.text(box.x, box.y, box.label, fontsize=6, color=_BOX, va="bottom", clip_on=True)
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_title(panel.title, fontsize=8)


def _decoded(url: str) -> np.ndarray:
    """RGBA, shape (h, w, 4)."""
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).convert("RGBA"))
