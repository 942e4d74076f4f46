"""Figures 6 and 8 of SurgXBench: frames and best prompts before and after the attended region is black."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from medfaith.evaluate_metrics.reading.surgical_names import TRIPLETS
from medfaith.loaders.errors import InputError

from ..pictures import BOX, short
from .overlays import DPI, GAP, LINE, Sheet, open_frame, read_rows
from .runs import SurgXRow, SurgXRun

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HALF = 0.5  # share of the instrument that is black, from which the region counts as relevant
MAX_MODELS = 6  # maximum number of models in the figure
COVERS, OTHER_TOOL = "#9be59b", "#c8c8c8"  # background of a prompt
# In pixels: width of a frame, width of a column of prompts, gap between them, height of a title, height of the key.
FRAME, PROMPTS, BETWEEN, TITLE, KEY = 330, 300, 8, 3 * LINE + 8, 6 * LINE
ROW = 2 * LINE + 4  # a prompt may need two lines
_WORDS, _TITLE_WORDS = 44, 90  # maximum characters of a line of a prompt and of a title


class Case(NamedTuple):
    """A frame to show.

    Attributes:
        run: The run.
        row: The frame.
        irrelevant: True: less than half of the instrument is black, yet no true triplet remains among the best five.
            False: at least half is black, yet a true triplet remains.
        n: Number of such frames of the run.
    """

    run: SurgXRun
    row: SurgXRow
    irrelevant: bool
    n: int


class Prompt(NamedTuple):
    """A prompt with its similarity.

    Attributes:
        prompt: The text.
        similarity: 100 x cosine.
        mark: "covers" (a true triplet), "tool" (the instrument is right) or "other".
        is_predicted: Whether it is among the predictions.
    """

    prompt: str
    similarity: float
    mark: str
    is_predicted: bool = True


class Half(NamedTuple):
    """One frame as the model saw it.

    Attributes:
        frame: uint8 (H, W, 3), pale outside of the model's view.
        boxes: xywh of the instrument.
        prompts: The best prompts.
    """

    frame: np.ndarray
    boxes: Sequence[Sequence[float]]
    prompts: Sequence[Prompt]


class Panel(NamedTuple):
    """The two halves of a frame.

    Attributes:
        title: Lines; the first is bold.
        before: The frame before occlusion.
        after: The frame after it.
    """

    title: Sequence[str]
    before: Half
    after: Half


def draw_occlusion_figure(runs: Sequence[SurgXRun], sheet: Sheet) -> tuple[Figure | None, list[str]]:
    """Draw a row for each model with a frame to show.

    Args:
        runs: The runs.
        sheet: Sources of frames and heatmaps.

    Returns:
        The figure, None without frames; and notes on frames that are left out.

    Raises:
        InputError: As `overlays.contact_sheet`.
        MissingSourceError: As `overlays.contact_sheet`.
        ImageError: As `overlays.contact_sheet`.
    """
    selected = [case for run in runs for case in cases(run)]
    case_runs = [*dict.fromkeys(case.run for case in selected)]
    notes = _build_notes(runs, selected, case_runs[MAX_MODELS:])
    selected = [case for case in selected if case.run in case_runs[:MAX_MODELS]]
    panels = [_build_panel(case, sheet) for case in selected]
    return (draw(panels) if panels else None), notes


def cases(run: SurgXRun) -> Iterator[Case]:
    """Find up to two frames of a run, one of each kind (see `Case`), always the same for the same log.

    Among the frames of a kind, the instrument with most true triplets in the run comes first, then the frame with the
    least of its instrument black (the most, if the region is relevant), then the first id.

    Args:
        run: The run.

    Yields:
        The frames.
    """
    n_by_instrument = Counter(_get_instrument(name) for row in run.rows for name in row.gold)
    for irrelevant in (True, False):
        candidates = [row for row in run.rows if row.heatmaps and row.scores and _is_case(row, irrelevant)]

        def get_sort_key(row: SurgXRow, sign: int = 1 if irrelevant else -1) -> tuple[Any, ...]:
            change = row.occluded or {}
            instrument = _get_instrument(change["triplet"])
            return -n_by_instrument[instrument], instrument, sign * change["painted"], row.id

        if candidates:
            yield Case(run, min(candidates, key=get_sort_key), irrelevant, len(candidates))


def _get_instrument(triplet: str) -> str:
    return triplet.split(",", maxsplit=1)[0]


def _is_case(row: SurgXRow, irrelevant: bool) -> bool:
    change = row.occluded
    if change is None or change.get("painted") is None or change.get("top_after") is None:
        return False
    lost = not set(row.gold) & set(change["predicted"])
    return lost == irrelevant == (change["painted"] < HALF)


def _build_notes(runs: Sequence[SurgXRun], selected: Sequence[Case], left_out: Sequence[SurgXRun]) -> list[str]:
    notes = []
    for run in runs:
        run_cases = [case for case in selected if case.run is run]
        if not any(row.occluded for row in run.rows) or len(run_cases) == 2:
            continue
        if not any("top_after" in (row.occluded or {}) for row in run.rows):
            reason = "its log is of an earlier version: run medfaith_surgx_occlusion again"
        elif not any(row.heatmaps for row in run.rows):
            reason = "it kept no heatmaps: run medfaith_surgx_occlusion with --heatmaps"
        else:
            kinds = {True: "loses its match although less than half of the instrument is black",
                     False: "keeps it although at least half is"}  # fmt: skip
            missing = [text for kind, text in kinds.items() if kind not in {case.irrelevant for case in run_cases}]
            reason = f"no frame with a box that it saw {', and none '.join(missing)}"
        notes.append(f"the figure of SurgXBench's occlusion is missing frames of {run.name}: {reason}")
    if left_out:
        notes.append(f"the figure of SurgXBench's occlusion has {MAX_MODELS} models and leaves out {len(left_out)}")
    return notes


def _build_panel(case: Case, sheet: Sheet) -> Panel:
    from medfaith.tasks.explain.occlusion import attended, occluded
    from medfaith.tasks.explain.reader import HeatmapReader

    change: Mapping[str, Any] = case.row.occluded or {}
    triplet = change["triplet"]
    row = read_rows(case.run.setting.source, {case.row.id}, sheet.data)[case.row.id]
    size = (row["height"], row["width"])
    maps, geometry = HeatmapReader(str(sheet.heatmaps)).read(case.row.heatmaps or "", case.row.id, size)
    region = attended(maps[triplet], window=geometry.window) if triplet in maps else None
    if region is None:
        problem = f"the heatmaps of row {case.row.id} have no region of {triplet}"
        raise InputError(sheet.heatmaps, problem, action="name the store that this run wrote")
    image = open_frame(row, sheet)
    boxes = [box["xywh"] for box in row["boxes"] if box["label"] == _get_instrument(triplet)]
    prompts_before, prompts_after = _list_prompts_before(case.row), _list_prompts_after(case.row)
    frames = (np.asarray(picture) for picture in (image, occluded(image, region)))
    before_half, after_half = (
        Half(_fade_unseen(frame, geometry.window), boxes, prompts)
        for frame, prompts in zip(frames, (prompts_before, prompts_after), strict=True)
    )
    return Panel(_format_title(case), before_half, after_half)


def _format_title(case: Case) -> list[str]:
    change: Mapping[str, Any] = case.row.occluded or {}
    instrument = _get_instrument(change["triplet"]).replace("_", " ")
    outcome = "no true triplet is left among the best five" if case.irrelevant else "a true triplet is still there"
    return [
        short(case.run.name, _TITLE_WORDS),
        f"{change['painted']:.0%} of what the model sees of the {instrument} is black, and {outcome}",
        f"1 of {case.n:,} such frames: {case.row.id}",
    ]


def _list_prompts_before(row: SurgXRow) -> list[Prompt]:
    scores = dict(zip(TRIPLETS, row.scores or (), strict=True))
    return [_build_prompt(row, name, scores[name]) for name in row.predicted or ()]


def _list_prompts_after(row: SurgXRow) -> list[Prompt]:
    """List the best prompts after occlusion, and the occluded triplet's prompt if it is not among them."""
    change: Mapping[str, Any] = row.occluded or {}
    prompts = [
        _build_prompt(row, name, value) for name, value in zip(change["predicted"], change["top_after"], strict=True)
    ]
    if change["triplet"] not in change["predicted"]:
        prompts.append(_build_prompt(row, change["triplet"], change["after"])._replace(is_predicted=False))
    return prompts


def _build_prompt(row: SurgXRow, triplet: str, similarity: float) -> Prompt:
    from medfaith.tasks.surgx.prompts import CLASS_PROMPTS

    right = _get_instrument(triplet) in map(_get_instrument, row.gold)
    mark = "covers" if triplet in row.gold else "tool" if right else "other"
    return Prompt(CLASS_PROMPTS["triplets"][TRIPLETS.index(triplet)], similarity, mark)


def _fade_unseen(frame: np.ndarray, window: Sequence[float]) -> np.ndarray:
    """Fade the frame outside of the model's view."""
    x, y, w, h = window
    rows, columns = np.arange(frame.shape[0])[:, None] + 0.5, np.arange(frame.shape[1]) + 0.5
    is_seen = (rows >= y) & (rows < y + h) & (columns >= x) & (columns < x + w)
    return np.where(is_seen[..., None], frame, 255 - (255 - frame) // 3).astype(np.uint8)


def places(panels: Sequence[Panel]) -> tuple[tuple[int, int], list[tuple[int, int]]]:
    """Compute the layout of the figure in pixels.

    Args:
        panels: The panels.

    Returns:
        (width, height) of the figure, and (left, top) of each panel's frames.
    """
    corners, top = [], GAP // 2
    for panel in panels:
        top += TITLE
        corners.append((GAP, top))
        top += _compute_height(panel) + GAP
    return (2 * (FRAME + PROMPTS + BETWEEN) + 3 * GAP, top + KEY), corners


def _compute_height(panel: Panel) -> int:
    height, width = panel.before.frame.shape[:2]
    n_lines = max(len(half.prompts) for half in (panel.before, panel.after))
    return max(round(FRAME * height / width), n_lines * ROW + LINE)


def draw(panels: Sequence[Panel]) -> Figure:
    """Draw the figure: panels below each other, each with frame and prompts before and after, and a key.

    Args:
        panels: The panels.

    Returns:
        The figure.
    """
    from matplotlib.figure import Figure

    (width, height), corners = places(panels)
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor="white")
    for panel, (panel_left, top) in zip(panels, corners, strict=True):
        for number, line in enumerate(panel.title):
            y = 1 - (top - TITLE + LINE * (number + 1)) / height
            figure.text(panel_left / width, y, line, fontsize=9, va="bottom", weight="normal" if number else "bold")
        for half, start in ((panel.before, panel_left), (panel.after, panel_left + FRAME + PROMPTS + BETWEEN + GAP)):
            frame_height = round(FRAME * half.frame.shape[0] / half.frame.shape[1])
            axes = figure.add_axes(
                (start / width, 1 - (top + frame_height) / height, FRAME / width, frame_height / height)
            )
            _draw_frame(axes, half)
            column = (start + FRAME + BETWEEN, top, width, height)
            _draw_prompts(figure, half, "before" if half is panel.before else "after", column)
    _draw_key(figure, width, height)
    return figure


def _draw_frame(axes: Axes, half: Half) -> None:
    from matplotlib.patches import Rectangle

    height, width = half.frame.shape[:2]
    axes.imshow(half.frame, extent=(0, width, height, 0), aspect="auto", interpolation="antialiased")
    for x, y, w, h in half.boxes:
        axes.add_patch(Rectangle((x, y), w, h, fill=False, edgecolor=BOX, linewidth=2))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()


def _draw_prompts(figure: Figure, half: Half, moment: str, place: tuple[int, int, int, int]) -> None:
    """Draw the prompts of a half; `place` is left and top of the column, width and height of the figure, in pixels."""
    from matplotlib.patches import Rectangle

    column_left, top, width, height = place
    figure.text(column_left / width, 1 - top / height, f"best prompts {moment}", fontsize=8, va="top", color="#444444")
    for number, prompt in enumerate(half.prompts):
        start = top + LINE + number * ROW
        colour = {"covers": COVERS, "other": OTHER_TOOL}.get(prompt.mark, "none")
        corner, size = (column_left / width, 1 - (start + ROW - 3) / height), (PROMPTS / width, (ROW - 3) / height)
        style: dict[str, Any] = (
            {} if prompt.is_predicted else {"edgecolor": "#444444", "linestyle": ":", "linewidth": 1}
        )
        figure.add_artist(Rectangle(corner, *size, facecolor=colour, transform=figure.transFigure, **style))
        lines = textwrap.wrap(prompt.prompt, _WORDS)
        y = 1 - (start + (ROW - 3) / 2) / height
        figure.text((column_left + 4) / width, y, "\n".join(lines), fontsize=8, va="center", linespacing=1.0)
        right = (column_left + PROMPTS - 4) / width
        figure.text(right, y, f"{prompt.similarity:.2f}", fontsize=8, va="center", ha="right")


def _draw_key(figure: Figure, width: int, height: int) -> None:
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor="none", edgecolor=BOX, linewidth=2, label="true box of the instrument"),
        Patch(facecolor=COVERS, label="covers a true triplet (IVT)"),
        Patch(facecolor=OTHER_TOOL, label="wrong instrument"),
        Patch(facecolor="none", edgecolor="#444444", linestyle=":", label="no longer among the best five"),
    ]
    figure.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(GAP / width, 4 * LINE / height), ncols=4, fontsize=9,
        bbox_transform=figure.transFigure, frameon=False, borderaxespad=0, borderpad=0,
    )  # fmt: skip
    caption = textwrap.fill(
        "Numbers: similarity, 100 × cosine. Pale: what the model did not see. Of each model, first one of the frames "
        "that lose their match although less than half of the instrument is black, then one of those that keep it "
        "although at least half is: of the most common instrument, that with the least (then the most) of it black. "
        "These are the clearest frames, not typical ones. Pixels of licensed frames: keep this as you keep the frames.",
        170,
    )
    figure.text(GAP / width, 6 / height, caption, va="bottom", fontsize=8, color="#444444")
