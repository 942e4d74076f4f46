"""The contact sheet of SurgXBench: frames with a heatmap, the true boxes and the outline of what moves on its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from medfaith.loaders import rle
from medfaith.loaders.errors import InputError

from .pictures import short
from .surgx_runs import SurgXRow, SurgXRun
from .surgx_tables import LEVEL_NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from PIL import Image

CONFIGS = {"cholec80_boxes": "instruments", "cholect45": "triplets", "cholect50": "triplets_t50"}  # by source
LARGEST = 12  # overlays on a sheet
BOX, MOTION = "#00e000", "#ffffff"
DPI = 100
# In pixels: a column's width, a line of a title and the room around them, between frames, below all for the key.
COLUMN, LINE, AROUND, GAP, KEY = 400, 15, 14, 16, 56
_WORDS = 50  # characters of a bold line that a column has room for


class Sheet(NamedTuple):
    """What a contact sheet is drawn from.

    heatmaps: the models' store. data: what `medfaith build` wrote, or a Hub organisation. roots: source id -> folder
    with the licensed frames.
    """

    heatmaps: Path
    data: str
    roots: Mapping[str, Path]


class Pick(NamedTuple):
    """A scored record: of a prediction (instruments) or of a true triplet. value: AA of a true positive, AC of a false
    one, RAS.
    """

    run: SurgXRun
    row: SurgXRow
    record: Mapping[str, Any]
    value: float


class Overlay(NamedTuple):
    """frame: uint8 (H, W, 3); heatmap: (H, W), at least 0; boxes: {"label", "xywh"}; motion: bool (H, W) or None.

    title: lines, the first of them bold.
    """

    frame: np.ndarray
    heatmap: np.ndarray
    boxes: Sequence[Mapping[str, Any]]
    motion: np.ndarray | None
    row_id: str
    title: Sequence[str]


def contact_sheet(runs: Sequence[SurgXRun], sheet: Sheet) -> Figure | None:
    """Up to twelve overlays; None where no record has a heatmap and a score.

    Raises:
        InputError: the heatmaps or the data are missing, or are of another run than the logs.
        MissingSourceError, ImageError: a frame cannot be opened.
    """
    chosen, n = picks(runs)
    if not chosen:
        return None
    needed: dict[str, set[str]] = {}
    for pick in chosen:
        needed.setdefault(pick.run.setting.source, set()).add(pick.row.id)
    rows = {source: rows_of_data(source, ids, sheet.data) for source, ids in needed.items()}
    overlays = [_overlay(pick, rows[pick.run.setting.source][pick.row.id], sheet) for pick in chosen]
    return draw(overlays, f"{len(overlays)} of {n:,} scored: each model's highest, lowest and middle")


def picks(runs: Sequence[SurgXRun]) -> tuple[list[Pick], int]:
    """Which records to show, and of how many, in the order of the runs and falling in value.

    The highest true positive (by AA) and matched triplet (by RAS) of each run, then the lowest of these, then the
    highest false positive (by AC) and missed triplet, and so on until the sheet is full: every model has its best.
    """
    kinds = [[sorted(kind, key=_place) for kind in _kinds(run)] for run in runs]
    chosen: dict[tuple[int, int, int], Pick] = {}
    for kind, rank in ((0, "highest"), (0, "lowest"), (1, "highest"), (0, "middle"), (1, "lowest"), (1, "middle")):
        for number, of_run in enumerate(kinds):
            n = len(of_run[kind])
            at = {"highest": n - 1, "lowest": 0, "middle": n // 2}[rank]
            if n and len(chosen) < LARGEST:
                chosen[number, kind, -at] = of_run[kind][at]
    return [chosen[key] for key in sorted(chosen)], sum(len(kind) for of_run in kinds for kind in of_run)


def _kinds(run: SurgXRun) -> Iterator[list[Pick]]:
    scored = [(row, r) for row in run.rows if row.heatmaps for r in row.records if r["state"] == "scored"]
    if run.setting.ask == "instruments":
        for outcome, score in (("tp", "aa"), ("fp", "ac")):
            yield [Pick(run, row, r, r[score]) for row, r in scored if r["outcome"] == outcome]
    else:
        for missed in (False, True):
            yield [Pick(run, row, r, r["ras"]) for row, r in scored if (r["level"] == "missed") == missed]


def _place(pick: Pick) -> tuple[float, str, str]:
    return pick.value, pick.row.id, pick.record.get("label", pick.record.get("triplet", ""))


def rows_of_data(source: str, needed: set[str], data: str) -> dict[str, dict[str, Any]]:
    """The rows of the data with these ids."""
    from medfaith.tasks.row_store import read

    rows = read(f"surgxbench-{source}", CONFIGS[source], "test", data)
    found = {name: number for number, name in enumerate(rows["id"]) if name in needed}
    if needed - set(found):
        action = "give the build that the model was run on"
        raise InputError(
            data, f"has no row {min(needed - set(found))}", expected="every frame of the log", action=action
        )
    return {name: rows[number] for name, number in found.items()}


def _overlay(pick: Pick, row: Mapping[str, Any], sheet: Sheet) -> Overlay:
    from medfaith.tasks.explain.reader import HeatmapReader

    size = (row["height"], row["width"])
    maps, _ = HeatmapReader(str(sheet.heatmaps)).read(pick.row.heatmaps or "", pick.row.id, size)
    candidates = _classes(pick)
    shown = next((name for name in candidates if name in maps), None)
    if shown is None:
        found = f"the heatmaps of row {pick.row.id} have none of {candidates[0]}"
        raise InputError(sheet.heatmaps, found, action="name the store that this run wrote")
    frame = np.asarray(frame_of(row, sheet))
    motion = rle.decode(row["motion"]) if row.get("motion") else None
    return Overlay(frame, maps[shown], row["boxes"], motion, pick.row.id, _title(pick, shown))


def frame_of(row: Mapping[str, Any], sheet: Sheet) -> Image.Image:
    """The frame of a row of the data. Raises InputError where it has another size than the row says."""
    from medfaith.loaders.images import open_image

    frame = open_image(row["image"], sheet.roots).convert("RGB")
    if frame.size != (row["width"], row["height"]):
        found, expected = (f"{width} x {height}" for width, height in (frame.size, (row["width"], row["height"])))
        raise InputError(row["image"]["key"], f"{found} pixels", expected=f"{expected}, as row {row['id']} says")
    return frame


def _classes(pick: Pick) -> Sequence[str]:
    """The class whose heatmap the value is of; for a missed triplet, which has the mean over all, each of them."""
    if "label" in pick.record:
        return [pick.record["label"]]
    predicted, rank = [*(pick.row.predicted or [])], pick.record["rank"]
    return predicted if rank is None else predicted[rank : rank + 1]


def _title(pick: Pick, shown: str) -> list[str]:
    record = pick.record
    if "label" in record:
        aa = f" · AA {record['aa']:.1%}" if record["outcome"] == "tp" else ""
        said = [f"{record['outcome'].upper()} {shown.replace('_', ' ')}{aa} · AC {record['ac']:.1%}"]
    else:
        level = LEVEL_NAMES[record["level"]]
        name = "mean RAS_global" if record["rank"] is None else "RAS_local"
        said = [f"{level} · {name} {record['ras']:.1%}", f"predicted {shown}"]
        said += [f"true {record['triplet']}"] * (shown != record["triplet"])
    visible = pick.row.visible_shares()
    if visible and round(sum(visible) / len(visible), 3) < 1:
        said.append(f"the model could see {sum(visible) / len(visible):.1%} of the boxes")
    return [short(pick.run.name, _WORDS), *said]


def places(overlays: Sequence[Overlay]) -> tuple[tuple[int, int], list[tuple[int, int, int, int]]]:
    """(width, height) of the sheet, and (left, top, width, height) of each frame on it, in pixels."""
    n_columns = min(3, len(overlays))
    found, top = [], 0
    for start in range(0, len(overlays), n_columns):
        row = overlays[start : start + n_columns]
        heights = [round(COLUMN * overlay.frame.shape[0] / overlay.frame.shape[1]) for overlay in row]
        top += AROUND + LINE * max(len(overlay.title) for overlay in row)
        found += [(GAP + at * (COLUMN + GAP), top, COLUMN, height) for at, height in enumerate(heights)]
        top += max(heights) + GAP
    return (GAP + n_columns * (COLUMN + GAP), top + KEY), found


def draw(overlays: Sequence[Overlay], caption: str) -> Figure:
    """The sheet, with the key and the caption below."""
    from matplotlib.figure import Figure

    (width, height), frames = places(overlays)
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor="white")
    for overlay, (left, top, w, h) in zip(overlays, frames, strict=True):
        axes = figure.add_axes((left / width, 1 - (top + h) / height, w / width, h / height))
        _draw_overlay(axes, overlay)
        for number, line in enumerate(reversed(overlay.title)):
            y = 1 - (top - 5 - LINE * number) / height
            weight = "bold" if number == len(overlay.title) - 1 else "normal"
            figure.text(left / width, y, line, ha="left", va="bottom", fontsize=9, weight=weight)
            if number == len(overlay.title) - 2:
                right = (left + w) / width
                figure.text(right, y, overlay.row_id, ha="right", va="bottom", fontsize=8, color="#666666")
    _draw_key(figure, width, height, caption)
    return figure


def _draw_overlay(axes: Axes, overlay: Overlay) -> None:
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    height, width = overlay.frame.shape[:2]
    whole = (0, width, height, 0)
    axes.imshow(overlay.frame, extent=whole, aspect="auto", interpolation="antialiased")
    peak = float(overlay.heatmap.max())
    level = overlay.heatmap / peak if peak > 0 else np.zeros_like(overlay.heatmap)
    colours = colormaps["turbo"](level)
    colours[..., 3] = 0.65 * level
    axes.imshow(colours, extent=whole, aspect="auto", interpolation="antialiased")
    motion = overlay.motion
    if motion is not None and motion.any() and not motion.all():
        x, y = np.arange(width) + 0.5, np.arange(height) + 0.5
        for colour, line in ("black", 2.5), (MOTION, 1.2):
            axes.contour(x, y, motion, levels=[0.5], colors=colour, linewidths=line)
    taken: list[tuple[float, float, float, float]] = []
    for box in overlay.boxes:
        x, y, w, h = box["xywh"]
        axes.add_patch(Rectangle((x, y), w, h, fill=False, edgecolor=BOX, linewidth=2))
        _draw_label(axes, box, (height, width), taken)
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()


def _draw_label(
    axes: Axes,
    box: Mapping[str, Any],
    size: tuple[int, int],
    taken: list[tuple[float, float, float, float]],
) -> None:
    """In the first corner of the box, within the frame, where it covers no other label."""
    x, y, w, h = box["xywh"]
    unit = size[1] / COLUMN  # of the frame's pixels, in one of the sheet's
    text = box["label"].replace("_", " ")
    wide, high = (6.4 * len(text) + 6) * unit, 16 * unit
    corners = [(x, y), (x, y + h - high), (x + w - wide, y), (x + w - wide, y + h - high)]
    inside = [(min(max(a, 0), size[1] - wide), min(max(b, 0), size[0] - high)) for a, b in corners]
    free = [
        (a, b)
        for a, b in inside
        if all(a + wide <= c or c + e <= a or b + high <= d or d + f <= b for c, d, e, f in taken)
    ]
    left, top = (free or inside)[0]
    taken.append((left, top, wide, high))
    style = {"boxstyle": "square,pad=0.15", "facecolor": BOX, "edgecolor": "none"}
    axes.text(left + 3 * unit, top + high / 2, text, fontsize=8, color="black", va="center", ha="left", bbox=style)


def _draw_key(figure: Figure, width: int, height: int, caption: str) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.patheffects import Normal, Stroke

    casing = [Stroke(linewidth=3, foreground="black"), Normal()]
    handles = [
        Patch(facecolor="none", edgecolor=BOX, linewidth=2, label="true box"),
        Line2D([], [], color=MOTION, linewidth=1.2, path_effects=casing, label="outline of what moves on its own"),
        Patch(facecolor="#30123b", alpha=0.4, label="looks little"),
        Patch(facecolor="#7a0403", label="looks most"),
    ]
    narrow = width < 2 * COLUMN
    figure.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(GAP / width, 20 / height), bbox_transform=figure.transFigure,
        ncols=2 if narrow else 4, fontsize=9, frameon=False, borderaxespad=0, borderpad=0,
    )  # fmt: skip
    figure.text(GAP / width, 4 / height, caption, ha="left", va="bottom", fontsize=9, color="#444444")
