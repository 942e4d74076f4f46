"""The contact sheet of SurgXBench: frames with heatmap, true boxes and outline of independent motion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from medfaith.loaders import rle
from medfaith.loaders.errors import InputError

from ..benchmark import Sheet
from ..pictures import BOX, draw_box_label, short
from .runs import SurgXRow, SurgXRun
from .tables import LEVEL_NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from PIL import Image

CONFIGS = {  # source -> config
    "cholec80_boxes": "instruments", "cholect45": "triplets", "cholect50": "triplets_t50",
    "cholecseg8k": "instruments_seg8k",
}  # fmt: skip
LARGEST = 12  # maximum number of overlays
MOTION = "#ffffff"
DPI = 100
# In pixels: width of a column, height of a title's line, margin of a title, gap between frames, height of the key.
COLUMN, LINE, AROUND, GAP, KEY = 400, 15, 14, 16, 56
_WORDS = 50  # maximum characters of a bold line


class Pick(NamedTuple):
    """A scored record of a prediction (instruments) or of a true triplet.

    Attributes:
        run: The run.
        row: The frame.
        record: The record.
        value: AA of a true positive, AC of a false positive, or RAS.
    """

    run: SurgXRun
    row: SurgXRow
    record: Mapping[str, Any]
    value: float


class Overlay(NamedTuple):
    """One frame of the sheet.

    Attributes:
        frame: uint8 (H, W, 3).
        heatmap: (H, W), at least 0.
        boxes: {"label", "xywh"}.
        motion: bool (H, W) or None.
        row_id: Id of the frame.
        title: Lines; the first is bold.
    """

    frame: np.ndarray
    heatmap: np.ndarray
    boxes: Sequence[Mapping[str, Any]]
    motion: np.ndarray | None
    row_id: str
    title: Sequence[str]


def contact_sheet(runs: Sequence[SurgXRun], sheet: Sheet) -> Figure | None:
    """Draw up to twelve overlays.

    Args:
        runs: The runs.
        sheet: Sources of frames and heatmaps.

    Returns:
        The figure; None if no record has a heatmap and a score.

    Raises:
        InputError: Heatmaps or data are missing, or belong to another run than the logs.
        MissingSourceError: The root of a source is missing.
        ImageError: A frame cannot be opened.
    """
    selected, n = picks(runs)
    if not selected:
        return None
    needed: dict[str, set[str]] = {}
    for pick in selected:
        needed.setdefault(pick.run.setting.source, set()).add(pick.row.id)
    rows = {source: read_rows(source, ids, sheet.data) for source, ids in needed.items()}
    overlays = [_build_overlay(pick, rows[pick.run.setting.source][pick.row.id], sheet) for pick in selected]
    return draw(overlays, f"{len(overlays)} of {n:,} scored: each model's highest, lowest and middle")


def picks(runs: Sequence[SurgXRun]) -> tuple[list[Pick], int]:
    """Select the records to show, in the order of the runs and by falling value.

    First come the highest true positive (by AA) and matched triplet (by RAS) of each run, then the lowest of these,
    then the highest false positive (by AC) and missed triplet, and so on until the sheet is full.

    Args:
        runs: The runs.

    Returns:
        The records, and the number of all scored records.
    """
    kinds = [[sorted(kind, key=get_sort_key) for kind in group_records(run)] for run in runs]
    selected: dict[tuple[int, int, int], Pick] = {}
    for kind, rank in ((0, "highest"), (0, "lowest"), (1, "highest"), (0, "middle"), (1, "lowest"), (1, "middle")):
        for number, run_kinds in enumerate(kinds):
            n = len(run_kinds[kind])
            index = {"highest": n - 1, "lowest": 0, "middle": n // 2}[rank]
            if n and len(selected) < LARGEST:
                selected[number, kind, -index] = run_kinds[kind][index]
    return [selected[key] for key in sorted(selected)], sum(len(kind) for run_kinds in kinds for kind in run_kinds)


def group_records(run: SurgXRun) -> Iterator[list[Pick]]:
    """Group the scored records: true and false positives, or matched and missed triplets.

    Args:
        run: The run.

    Yields:
        The records of both groups.
    """
    scored = [(row, r) for row in run.rows if row.heatmaps for r in row.records if r["state"] == "scored"]
    if run.setting.ask == "instruments":
        for outcome, score in (("tp", "aa"), ("fp", "ac")):
            yield [Pick(run, row, r, r[score]) for row, r in scored if r["outcome"] == outcome]
    else:
        for missed in (False, True):
            yield [Pick(run, row, r, r["ras"]) for row, r in scored if (r["level"] == "missed") == missed]


def get_sort_key(pick: Pick) -> tuple[float, str, str]:
    """Get the key that sorts records by value, and equal ones by row and class.

    Args:
        pick: The record.

    Returns:
        The key.
    """
    return pick.value, pick.row.id, pick.record.get("label", pick.record.get("triplet", ""))


def read_rows(source: str, needed: set[str], data: str) -> dict[str, dict[str, Any]]:
    """Read rows of the data.

    Args:
        source: The source.
        needed: Ids of the rows.
        data: The build, or a Hub organisation.

    Returns:
        Id -> row.

    Raises:
        InputError: The data do not have a row.
    """
    from medfaith.tasks.row_store import read

    rows = read(f"surgxbench-{source}", CONFIGS[source], "test", data)
    number_by_id = {name: number for number, name in enumerate(rows["id"]) if name in needed}
    if needed - set(number_by_id):
        action = "give the build that the model was run on"
        raise InputError(
            data, f"has no row {min(needed - set(number_by_id))}", expected="every frame of the log", action=action
        )
    return {name: rows[number] for name, number in number_by_id.items()}


def _build_overlay(pick: Pick, row: Mapping[str, Any], sheet: Sheet) -> Overlay:
    from medfaith.tasks.explain.reader import HeatmapReader

    size = (row["height"], row["width"])
    maps, _ = HeatmapReader(str(sheet.heatmaps)).read(pick.row.heatmaps or "", pick.row.id, size)
    candidates = list_classes(pick)
    class_name = next((name for name in candidates if name in maps), None)
    if class_name is None:
        problem = f"the heatmaps of row {pick.row.id} have none of {candidates[0]}"
        raise InputError(sheet.heatmaps, problem, action="name the store that this run wrote")
    frame = np.asarray(open_frame(row, sheet))
    motion = rle.decode(row["motion"]) if row.get("motion") else None
    return Overlay(frame, maps[class_name], row["boxes"], motion, pick.row.id, format_pick(pick, class_name))


def open_frame(row: Mapping[str, Any], sheet: Sheet) -> Image.Image:
    """Open the frame of a row of the data.

    Args:
        row: The row.
        sheet: Sources of the frames.

    Returns:
        The frame in RGB.

    Raises:
        InputError: The size of the frame differs from the row's.
    """
    from medfaith.loaders.images import open_image

    frame = open_image(row["image"], sheet.roots).convert("RGB")
    if frame.size != (row["width"], row["height"]):
        actual, expected = (f"{width} x {height}" for width, height in (frame.size, (row["width"], row["height"])))
        raise InputError(row["image"]["key"], f"{actual} pixels", expected=f"{expected}, as row {row['id']} says")
    return frame


def list_classes(pick: Pick) -> Sequence[str]:
    """List the class of the record's heatmap; for a missed triplet, whose score is a mean, all predicted classes.

    Args:
        pick: The record.

    Returns:
        The classes.
    """
    if "label" in pick.record:
        return [pick.record["label"]]
    predicted, rank = [*(pick.row.predicted or [])], pick.record["rank"]
    return predicted if rank is None else predicted[rank : rank + 1]


def format_pick(pick: Pick, class_name: str) -> list[str]:
    """Format the lines above a frame: the model, the outcome with its scores, and the classes.

    Args:
        pick: The record.
        class_name: The class whose heatmap or graph is shown.

    Returns:
        The model. Then, for an instrument, one line: TP or FP, the class, AA of a true positive, and AC. For a triplet:
        its match with RAS, the predicted class, and the true triplet if it is another one. At last the visible share of
        the boxes, if the model did not see all of them.
    """
    record = pick.record
    if "label" in record:
        aa = f" · AA {record['aa']:.1%}" if record["outcome"] == "tp" else ""
        lines = [f"{record['outcome'].upper()} {class_name.replace('_', ' ')}{aa} · AC {record['ac']:.1%}"]
    else:
        level = LEVEL_NAMES[record["level"]]
        name = "mean RAS_global" if record["rank"] is None else "RAS_local"
        lines = [f"{level} · {name} {record['ras']:.1%}", f"predicted {class_name}"]
        lines += [f"true {record['triplet']}"] * (class_name != record["triplet"])
    visible = pick.row.visible_shares()
    if visible and round(sum(visible) / len(visible), 3) < 1:
        lines.append(f"the model could see {sum(visible) / len(visible):.1%} of the boxes")
    return [short(pick.run.name, _WORDS), *lines]


def places(overlays: Sequence[Overlay]) -> tuple[tuple[int, int], list[tuple[int, int, int, int]]]:
    """Compute the layout of the sheet in pixels.

    Args:
        overlays: The overlays.

    Returns:
        (width, height) of the sheet, and (left, top, width, height) of each frame.
    """
    n_columns = min(3, len(overlays))
    frames, top = [], 0
    for start in range(0, len(overlays), n_columns):
        row = overlays[start : start + n_columns]
        heights = [round(COLUMN * overlay.frame.shape[0] / overlay.frame.shape[1]) for overlay in row]
        top += AROUND + LINE * max(len(overlay.title) for overlay in row)
        frames += [(GAP + column * (COLUMN + GAP), top, COLUMN, height) for column, height in enumerate(heights)]
        top += max(heights) + GAP
    return (GAP + n_columns * (COLUMN + GAP), top + KEY), frames


def draw(overlays: Sequence[Overlay], caption: str) -> Figure:
    """Draw the sheet with key and caption.

    Args:
        overlays: The overlays.
        caption: The caption.

    Returns:
        The figure.
    """
    from matplotlib.figure import Figure

    (width, height), frames = places(overlays)
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor="white")
    for overlay, (frame_left, top, w, h) in zip(overlays, frames, strict=True):
        axes = figure.add_axes((frame_left / width, 1 - (top + h) / height, w / width, h / height))
        _draw_overlay(axes, overlay)
        for number, line in enumerate(reversed(overlay.title)):
            y = 1 - (top - 5 - LINE * number) / height
            weight = "bold" if number == len(overlay.title) - 1 else "normal"
            figure.text(frame_left / width, y, line, ha="left", va="bottom", fontsize=9, weight=weight)
            if number == len(overlay.title) - 2:
                right = (frame_left + w) / width
                figure.text(right, y, overlay.row_id, ha="right", va="bottom", fontsize=8, color="#666666")
    _draw_key(figure, width, height, caption)
    return figure


def _draw_overlay(axes: Axes, overlay: Overlay) -> None:
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    height, width = overlay.frame.shape[:2]
    extent = (0, width, height, 0)
    axes.imshow(overlay.frame, extent=extent, aspect="auto", interpolation="antialiased")
    peak = float(overlay.heatmap.max())
    level = overlay.heatmap / peak if peak > 0 else np.zeros_like(overlay.heatmap)
    colours = colormaps["turbo"](level)
    colours[..., 3] = 0.65 * level
    axes.imshow(colours, extent=extent, aspect="auto", interpolation="antialiased")
    motion = overlay.motion
    if motion is not None and motion.any() and not motion.all():
        x, y = np.arange(width) + 0.5, np.arange(height) + 0.5
        for colour, line in ("black", 2.5), (MOTION, 1.2):
            axes.contour(x, y, motion, levels=[0.5], colors=colour, linewidths=line)
    label_boxes: list[tuple[float, float, float, float]] = []
    for box in overlay.boxes:
        x, y, w, h = box["xywh"]
        axes.add_patch(Rectangle((x, y), w, h, fill=False, edgecolor=BOX, linewidth=2))
        label = box["label"].replace("_", " ")
        draw_box_label(axes, label, box["xywh"], (height, width), width / COLUMN, label_boxes)
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()


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
