"""Figures 5 and 9 of SurgXBench: the causal graphs (CLEANN) of right and wrong predictions, drawn over their frames.

`medfaith-explained-vlm` saves the graphs (`causal_graphs=DIR`). As in the paper, each of the most important heads has a
graph, within its radius of the predicted token.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from medfaith.loaders import json_text
from medfaith.loaders.errors import InputError

from .overlays import (
    AROUND,
    DPI,
    GAP,
    KEY,
    LINE,
    Pick,
    format_pick,
    get_sort_key,
    group_records,
    list_classes,
    open_frame,
    read_rows,
)
from .runs import SurgXRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from medfaith.tasks.explain.geometry import Geometry

    from ..benchmark import Sheet

FIGURES = {"instruments": 5, "triplets": 9}  # question -> number of the paper's figure
MAX_MODELS = 6  # maximum number of models in a figure
PANEL, N_COLUMNS = 580, 2  # width of a graph in pixels, graphs side by side
_FONT = 6.5
_EXPECTED = "the graphs that medfaith-explained-vlm saved"


class Case(NamedTuple):
    """A prediction to show.

    Attributes:
        pick: The record.
        class_name: The predicted class.
        graphs: Graphs of the class's first token, the most important head first.
        n_tokens: Number of the class's tokens that have graphs.
        geometry: Place of the grid of image tokens on the frame.
    """

    pick: Pick
    class_name: str
    graphs: Sequence[dict[str, Any]]
    n_tokens: int
    geometry: Geometry


def draw_causal_figures(runs: Sequence[SurgXRun], sheet: Sheet) -> tuple[dict[str, Figure], list[str]]:
    """Draw the graphs of instruments and of triplets, two predictions of each model.

    Args:
        runs: The runs.
        sheet: Sources of frames and graphs; without graphs nothing is drawn.

    Returns:
        Figures by file name, and notes on what is left out.

    Raises:
        InputError: The folder of the graphs is missing, a file is damaged, or as `overlays.contact_sheet`.
        MissingSourceError: As `overlays.contact_sheet`.
        ImageError: As `overlays.contact_sheet`.
    """
    if sheet.causal_graphs is None:
        return {}, []
    if not sheet.causal_graphs.is_dir():
        raise InputError(sheet.causal_graphs, "no such folder", action="name the folder of causal_graphs=DIR")
    figures, notes = {}, []
    for ask, number in FIGURES.items():
        cases_by_run = {run: find_cases(run, sheet.causal_graphs) for run in runs if run.setting.ask == ask}
        with_graphs = [run for run, cases in cases_by_run.items() if cases]
        if without := [run.name for run in cases_by_run if run not in with_graphs]:
            note = f"no causal graph of {ask} with a score, in Figure {number} of SurgXBench"
            notes.append(f"{note}: {', '.join(without)}")
        if with_graphs:
            shown = with_graphs[:MAX_MODELS]
            title = f"Figure {number}: causal graphs (CLEANN) of predicted {ask}"
            cases = [case for run in shown for case in cases_by_run[run]]
            figures[f"figure_surgx_{number:02}"] = draw(cases, sheet, title)
        if n_left_out := len(with_graphs[MAX_MODELS:]):
            notes.append(f"the causal graphs of {ask} have {MAX_MODELS} models and leave out {n_left_out}")
    return figures, notes


def find_cases(run: SurgXRun, folder: Path) -> list[Case]:
    """Find the right and the wrong prediction with the highest score that have graphs.

    Args:
        run: The run.
        folder: Folder of the graphs.

    Returns:
        Up to two predictions: a true positive (by AA) or matched triplet (by RAS), and a false positive (by AC) or
        missed triplet, for which a predicted triplet stands.

    Raises:
        InputError: A file is damaged.
    """
    cases = []
    for picks in group_records(run):
        highest_first = sorted(picks, key=get_sort_key, reverse=True)
        case = next((case for pick in highest_first if (case := _read_case(pick, folder))), None)
        cases += [case] if case else []
    return cases


def _read_case(pick: Pick, folder: Path) -> Case | None:
    """Read the graphs of a record; None if the model saved none of its class."""
    from medfaith.tasks.explain.cleann import select_neighbourhood
    from medfaith.tasks.explain.geometry import Geometry
    from medfaith.tasks.explain.store import AGAIN, open_store

    path = open_store(folder).path(pick.row.heatmaps or "", pick.row.id).with_suffix(".json")
    if not path.is_file():
        return None
    content = json_text.read(path, expected=_EXPECTED, action=AGAIN)
    try:
        if content["row"] != pick.row.id:
            raise ValueError(f"row {content['row']}")
        geometry = Geometry((*content["size"],), (*content["window"],))
        tokens_by_class = content["graphs"]
        name = next((name for name in list_classes(pick) if tokens_by_class.get(name)), None)
        if name is None:
            return None
        tokens = tokens_by_class[name]
        return Case(pick, name, [select_neighbourhood(graph) for graph in tokens[0]], len(tokens), geometry)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise InputError(path, f"is damaged ({error})", expected=_EXPECTED, action=AGAIN) from error


def draw(cases: Sequence[Case], sheet: Sheet, title: str) -> Figure:
    """Draw the predictions below each other, each with a graph for each head.

    Args:
        cases: The predictions.
        sheet: Sources of the frames.
        title: Title of the figure.

    Returns:
        The figure.

    Raises:
        InputError: As `overlays.contact_sheet`, or a frame has another size than the graphs'.
        MissingSourceError: As `overlays.contact_sheet`.
        ImageError: As `overlays.contact_sheet`.
    """
    from matplotlib.figure import Figure

    from medfaith.tasks.explain.causal_plot import draw_on_axes

    titles = [_format_title(case) for case in cases]
    tops, height = _place(cases, titles)
    width = 2 * GAP + N_COLUMNS * PANEL + (N_COLUMNS - 1) * GAP
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor="white")
    figure.text(GAP / width, 1 - (LINE + AROUND) / height, title, fontsize=11, va="bottom")
    for case, lines, top in zip(cases, titles, tops, strict=True):
        pixels = _open_pixels(case, sheet)
        for number, line in enumerate(lines):
            y, weight = 1 - (top + LINE * (number + 1)) / height, "normal" if number else "bold"
            figure.text(GAP / width, y, line, fontsize=9, va="bottom", weight=weight)
        panel_height = _get_panel_height(case)
        for number, graph in enumerate(case.graphs):
            row, column = divmod(number, N_COLUMNS)
            bottom = top + LINE * len(lines) + (row + 1) * (panel_height + AROUND + LINE)
            left = GAP + column * (PANEL + GAP)
            axes = figure.add_axes((left / width, 1 - bottom / height, PANEL / width, panel_height / height))
            draw_on_axes(axes, graph, pixels, case.geometry, font_size=_FONT)
    caption = textwrap.fill(
        "Green: image tokens. White: words of the question and of the answer before the predicted token (yellow). Of "
        "each model the right prediction and the wrong one with the highest score. These are the clearest predictions, "
        "not typical ones. Pixels of licensed frames: keep this as you keep the frames.",
        190,
    )
    figure.text(GAP / width, 6 / height, caption, va="bottom", fontsize=8, color="#444444")
    return figure


def _format_title(case: Case) -> list[str]:
    tokens = f"the first of {case.n_tokens} tokens" if case.n_tokens > 1 else "the token"
    radius = case.graphs[0]["settings"]["radius"]
    graphs = f"{len(case.graphs)} heads for {tokens} of {case.class_name.replace('_', ' ')}, radius {radius}"
    return [*format_pick(case.pick, case.class_name), f"{case.pick.row.id}: {graphs}"]


def _place(cases: Sequence[Case], titles: Sequence[Sequence[str]]) -> tuple[list[int], int]:
    """Compute the top of each prediction and the height of the figure, in pixels."""
    tops, top = [], GAP + LINE + AROUND
    for case, lines in zip(cases, titles, strict=True):
        tops.append(top)
        n_rows = -(-len(case.graphs) // N_COLUMNS)
        top += LINE * len(lines) + n_rows * (_get_panel_height(case) + AROUND + LINE) + GAP
    return tops, top + KEY


def _get_panel_height(case: Case) -> int:
    from medfaith.tasks.explain.causal_plot import ACROSS

    height, width = case.geometry.size
    return round(PANEL * height / (ACROSS * width))


def _open_pixels(case: Case, sheet: Sheet) -> np.ndarray:
    row_id, source = case.pick.row.id, case.pick.run.setting.source
    row: Mapping[str, Any] = read_rows(source, {row_id}, sheet.data)[row_id]
    pixels = np.asarray(open_frame(row, sheet))
    if pixels.shape[:2] != case.geometry.size:
        problem = f"causal graphs of row {row_id} are of a frame of {case.geometry.size}, not {pixels.shape[:2]} pixels"
        raise InputError(str(sheet.causal_graphs), problem, action="use the source's original images")
    return pixels
