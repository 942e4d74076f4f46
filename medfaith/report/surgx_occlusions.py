"""SurgXBench's figures 6 and 8: frames before and after what the model looked at is black, and its best prompts."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from medfaith.evaluate_metrics.reading.surgical_names import TRIPLETS
from medfaith.loaders.errors import InputError

from .pictures import short
from .surgx_overlays import BOX, DPI, GAP, LINE, Sheet, frame_of, rows_of_data
from .surgx_runs import SurgXRow, SurgXRun

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HALF = 0.5  # of the instrument black: what is black is relevant from here on
LARGEST = 6  # models in a picture
COVERS, OTHER_TOOL = "#9be59b", "#c8c8c8"  # behind a prompt
# In pixels: of a frame, of a column of prompts; between the parts of a half; the lines of a title; the key below all.
FRAME, PROMPTS, BETWEEN, TITLE, KEY = 330, 300, 8, 3 * LINE + 8, 6 * LINE
ROW = 2 * LINE + 4  # a prompt may need two lines
_WORDS, _TITLE_WORDS = 44, 90  # characters of a line that a prompt and a title have room for


class Case(NamedTuple):
    """A frame to show. irrelevant: little of the instrument is black, and no true triplet is left among the best five;
    else most of it is, and one is. n: of how many such frames of the run.
    """

    run: SurgXRun
    row: SurgXRow
    irrelevant: bool
    n: int


class Said(NamedTuple):
    """A prompt with its similarity. mark: "covers" (a true triplet), "tool" (its instrument is right), "other"; kept:
    whether it is among the predictions.
    """

    prompt: str
    similarity: float
    mark: str
    kept: bool = True


class Half(NamedTuple):
    """One frame as the model saw it: uint8 (H, W, 3), dark where it saw nothing; boxes: xywh of the instrument."""

    frame: np.ndarray
    boxes: Sequence[Sequence[float]]
    said: Sequence[Said]


class Panel(NamedTuple):
    """title: lines, the first of them bold."""

    title: Sequence[str]
    before: Half
    after: Half


def occlusion_figure(runs: Sequence[SurgXRun], sheet: Sheet) -> tuple[Figure | None, list[str]]:
    """A row for each model with a frame to show, and notes on what is not shown.

    Raises:
        InputError, MissingSourceError, ImageError: as `surgx_overlays.contact_sheet`.
    """
    chosen = [case for run in runs for case in cases(run)]
    shown = [*dict.fromkeys(case.run for case in chosen)]
    notes = _notes(runs, chosen, shown[LARGEST:])
    chosen = [case for case in chosen if case.run in shown[:LARGEST]]
    panels = [_panel(case, sheet) for case in chosen]
    return (draw(panels) if panels else None), notes


def cases(run: SurgXRun) -> Iterator[Case]:
    """Up to two frames of a run: one of each kind (see `Case`), always the same of the same log.

    Of the frames of a kind, those of the instrument that most of the run's true triplets have; of these the one of
    whose instrument the least is black (or the most, where what is black is relevant), and then the first by id.
    """
    often = Counter(_instrument(name) for row in run.rows for name in row.gold)
    for irrelevant in (True, False):
        found = [row for row in run.rows if row.heatmaps and row.scores and _is_case(row, irrelevant)]

        def place(row: SurgXRow, sign: int = 1 if irrelevant else -1) -> tuple[Any, ...]:
            change = row.occluded or {}
            instrument = _instrument(change["triplet"])
            return -often[instrument], instrument, sign * change["painted"], row.id

        if found:
            yield Case(run, min(found, key=place), irrelevant, len(found))


def _instrument(triplet: str) -> str:
    return triplet.split(",", maxsplit=1)[0]


def _is_case(row: SurgXRow, irrelevant: bool) -> bool:
    change = row.occluded
    if change is None or change.get("painted") is None or change.get("top_after") is None:
        return False
    lost = not set(row.gold) & set(change["predicted"])
    return lost == irrelevant == (change["painted"] < HALF)


def _notes(runs: Sequence[SurgXRun], chosen: Sequence[Case], left_out: Sequence[SurgXRun]) -> list[str]:
    notes = []
    for run in runs:
        own = [case for case in chosen if case.run is run]
        if not any(row.occluded for row in run.rows) or len(own) == 2:
            continue
        if not any("top_after" in (row.occluded or {}) for row in run.rows):
            why = "its log is of an earlier version: run medfaith_surgx_occlusion again"
        elif not any(row.heatmaps for row in run.rows):
            why = "it kept no heatmaps: run medfaith_surgx_occlusion with --heatmaps"
        else:
            kinds = {True: "loses its match although less than half of the instrument is black",
                     False: "keeps it although at least half is"}  # fmt: skip
            missing = [text for kind, text in kinds.items() if kind not in {case.irrelevant for case in own}]
            why = f"no frame with a box that it saw {', and none '.join(missing)}"
        notes.append(f"the picture of SurgXBench's occlusion lacks frames of {run.name}: {why}")
    if left_out:
        notes.append(f"the picture of SurgXBench's occlusion has {LARGEST} models and leaves out {len(left_out)}")
    return notes


def _panel(case: Case, sheet: Sheet) -> Panel:
    from medfaith.tasks.explain.occlusion import attended, occluded
    from medfaith.tasks.explain.reader import HeatmapReader

    change: Mapping[str, Any] = case.row.occluded or {}
    triplet = change["triplet"]
    row = rows_of_data(case.run.setting.source, {case.row.id}, sheet.data)[case.row.id]
    size = (row["height"], row["width"])
    maps, geometry = HeatmapReader(str(sheet.heatmaps)).read(case.row.heatmaps or "", case.row.id, size)
    region = attended(maps[triplet], window=geometry.window) if triplet in maps else None
    if region is None:
        found = f"the heatmaps of row {case.row.id} have no region of {triplet}"
        raise InputError(sheet.heatmaps, found, action="name the store that this run wrote")
    image = frame_of(row, sheet)
    boxes = [box["xywh"] for box in row["boxes"] if box["label"] == _instrument(triplet)]
    before, after = _said_before(case.row), _said_after(case.row)
    frames = (np.asarray(picture) for picture in (image, occluded(image, region)))
    first, second = (Half(_as_seen(frame, geometry.window), boxes, said)
                     for frame, said in zip(frames, (before, after), strict=True))  # fmt: skip
    return Panel(_title(case), first, second)


def _title(case: Case) -> list[str]:
    change: Mapping[str, Any] = case.row.occluded or {}
    instrument = _instrument(change["triplet"]).replace("_", " ")
    kept = "no true triplet is left among the best five" if case.irrelevant else "a true triplet is still there"
    return [
        short(case.run.name, _TITLE_WORDS),
        f"{change['painted']:.0%} of what the model sees of the {instrument} is black, and {kept}",
        f"1 of {case.n:,} such frames: {case.row.id}",
    ]


def _said_before(row: SurgXRow) -> list[Said]:
    scores = dict(zip(TRIPLETS, row.scores or (), strict=True))
    return [_said(row, name, scores[name]) for name in row.predicted or ()]


def _said_after(row: SurgXRow) -> list[Said]:
    """The best ones, and the triplet whose region is black where it is not among them."""
    change: Mapping[str, Any] = row.occluded or {}
    said = [_said(row, name, value) for name, value in zip(change["predicted"], change["top_after"], strict=True)]
    if change["triplet"] not in change["predicted"]:
        said.append(_said(row, change["triplet"], change["after"])._replace(kept=False))
    return said


def _said(row: SurgXRow, triplet: str, similarity: float) -> Said:
    from medfaith.tasks.surgx.prompts import CLASS_PROMPTS

    right = _instrument(triplet) in map(_instrument, row.gold)
    mark = "covers" if triplet in row.gold else "tool" if right else "other"
    return Said(CLASS_PROMPTS["triplets"][TRIPLETS.index(triplet)], similarity, mark)


def _as_seen(frame: np.ndarray, window: Sequence[float]) -> np.ndarray:
    """The frame, pale where the model saw nothing of it."""
    x, y, w, h = window
    rows, columns = np.arange(frame.shape[0])[:, None] + 0.5, np.arange(frame.shape[1]) + 0.5
    seen = (rows >= y) & (rows < y + h) & (columns >= x) & (columns < x + w)
    return np.where(seen[..., None], frame, 255 - (255 - frame) // 3).astype(np.uint8)


def places(panels: Sequence[Panel]) -> tuple[tuple[int, int], list[tuple[int, int]]]:
    """(width, height) of the picture, and (left, top) of each panel's frames on it, in pixels."""
    found, top = [], GAP // 2
    for panel in panels:
        top += TITLE
        found.append((GAP, top))
        top += _height(panel) + GAP
    return (2 * (FRAME + PROMPTS + BETWEEN) + 3 * GAP, top + KEY), found


def _height(panel: Panel) -> int:
    height, width = panel.before.frame.shape[:2]
    n_lines = max(len(half.said) for half in (panel.before, panel.after))
    return max(round(FRAME * height / width), n_lines * ROW + LINE)


def draw(panels: Sequence[Panel]) -> Figure:
    """The picture: a panel below another, each the frame and its prompts before, then after; below all the key."""
    from matplotlib.figure import Figure

    (width, height), corners = places(panels)
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor="white")
    for panel, (left, top) in zip(panels, corners, strict=True):
        for number, line in enumerate(panel.title):
            y = 1 - (top - TITLE + LINE * (number + 1)) / height
            figure.text(left / width, y, line, fontsize=9, va="bottom", weight="normal" if number else "bold")
        for half, start in ((panel.before, left), (panel.after, left + FRAME + PROMPTS + BETWEEN + GAP)):
            tall = round(FRAME * half.frame.shape[0] / half.frame.shape[1])
            axes = figure.add_axes((start / width, 1 - (top + tall) / height, FRAME / width, tall / height))
            _draw_frame(axes, half)
            beside = (start + FRAME + BETWEEN, top, width, height)
            _draw_prompts(figure, half, "before" if half is panel.before else "after", beside)
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


def _draw_prompts(figure: Figure, half: Half, when: str, place: tuple[int, int, int, int]) -> None:
    """place: left and top of the column, width and height of the picture, in pixels."""
    from matplotlib.patches import Rectangle

    left, top, width, height = place
    figure.text(left / width, 1 - top / height, f"best prompts {when}", fontsize=8, va="top", color="#444444")
    for number, said in enumerate(half.said):
        start = top + LINE + number * ROW
        colour = {"covers": COVERS, "other": OTHER_TOOL}.get(said.mark, "none")
        corner, size = (left / width, 1 - (start + ROW - 3) / height), (PROMPTS / width, (ROW - 3) / height)
        style: dict[str, Any] = {} if said.kept else {"edgecolor": "#444444", "linestyle": ":", "linewidth": 1}
        figure.add_artist(Rectangle(corner, *size, facecolor=colour, transform=figure.transFigure, **style))
        lines = textwrap.wrap(said.prompt, _WORDS)
        y = 1 - (start + (ROW - 3) / 2) / height
        figure.text((left + 4) / width, y, "\n".join(lines), fontsize=8, va="center", linespacing=1.0)
        right = (left + PROMPTS - 4) / width
        figure.text(right, y, f"{said.similarity:.2f}", fontsize=8, va="center", ha="right")


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
