"""Cholec80-Boxes: boxes of the instruments in frames of Cholec80's videos 41 to 45, as ROI_Labels.csv has them.

Source: Abdulbaki Alshirbaji et al., "Cholec80-Boxes: bounding box labelling data for surgical tools in cholecystectomy
images" (2024). One row a box, cells separated by semicolons; boxes are pixels of their frame, from its top-left corner.
A frame without a box has no row, so the csv alone says which frames are labelled. Only videos 42 and 43 are also in
CholecT45.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from . import csv_table
from .cholec_triplets import INSTRUMENTS as TRIPLET_INSTRUMENTS
from .errors import InputError

INSTRUMENTS = (*TRIPLET_INSTRUMENTS, "specimen_bag")
# Other names of the release and of copies, in the form of `_plain`.
ALIASES = {"bag": "specimen_bag", "scissor": "scissors"}
VIDEOS = range(1, 81)  # Cholec80's; the release labels 41 to 45
FILE = "ROI_Labels.csv"
FRAME_NAME = re.compile(r"video_0*([0-9]{1,3})_([0-9]{1,9})(\.png|\.jpe?g)?", re.IGNORECASE)
KEY = re.compile(r"Images/(Video_[0-9]+/Video_[0-9]+_[0-9]+)\.png")
DIR_VIDEO = re.compile(r"(?:.*/)?video_0*([0-9]{1,3})", re.IGNORECASE)
COLUMNS = {
    "Surgery_num": pa.int32(),
    "Dir": pa.string(),
    "FrameName": pa.string(),
    "NumBBox_inFrame": pa.int32(),
    "ToolName": pa.string(),
    "BBox_X": pa.float64(),
    "BBox_Y": pa.float64(),
    "BBox_Width": pa.float64(),
    "BBox_Height": pa.float64(),
}
SIDES = ("BBox_X", "BBox_Y", "BBox_Width", "BBox_Height")
ACTION = f"use {FILE} of Cholec80-Boxes unchanged"

Box = tuple[str, tuple[float, float, float, float]]


@dataclass(frozen=True, slots=True)
class BoxedFrame:
    """A labelled frame.

    video: its number in Cholec80. frame: the number in its name. key: its image's, relative to the root.
    boxes: (instrument, (x, y, width, height)), at least one, pixels of the frame from its top-left corner, in the
        order that NumBBox_inFrame gives them. Whether a box stays inside its frame, only the image can tell.
    """

    video: int
    frame: int
    key: str
    boxes: tuple[Box, ...]


def image_paths(key: str) -> tuple[str, ...]:
    """Where the frame of a row's key may lie below the user's root: as released, or `Images` itself being the root."""
    found = KEY.fullmatch(key)
    if not found:
        return (key,)
    return (key, *(f"Images/{found[1]}{suffix}" for suffix in (".jpg", ".jpeg")), f"{found[1]}.png")


def key(video: int, frame: int) -> str:
    """The key of a frame: its path below the root of the release.

    >>> key(42, 25)
    'Images/Video_42/Video_42_00025.png'
    """
    return f"Images/Video_{video:02d}/Video_{video:02d}_{frame:05d}.png"


def label_files(root: Path) -> dict[str, Path]:
    """The csv of boxes, as {"boxes": path}; `root` holds it or is it. Raises InputError for none."""
    path = root if root.is_file() else root / FILE
    if not path.is_file():
        raise InputError(root, f"holds no {FILE}", expected=f"{FILE} beside the folder Images", action=ACTION)
    return {"boxes": path}


def instrument_of(name: str) -> str | None:
    """The instrument that a name means, whatever its case and separators; None for an unknown name.

    >>> instrument_of("SpecimenBag"), instrument_of("Bag"), instrument_of("specimen bag"), instrument_of("Trocar")
    ('specimen_bag', 'specimen_bag', 'specimen_bag', None)
    """
    plain = _plain(name)
    return ALIASES.get(plain) or next((known for known in INSTRUMENTS if _plain(known) == plain), None)


def read_frames(root: Path) -> list[BoxedFrame]:
    """Every labelled frame with its boxes, in order of video and frame.

    Raises InputError naming file, row and column: cells separated by another sign, a missing column, an unknown tool, a
    box without a finite place and a positive size, a frame's name or folder that is not of its row's video, a box that
    occurs twice.
    """
    path = label_files(root)["boxes"]
    table = _read(path)
    tools = _tools(table["ToolName"], path)
    rows = zip(
        *(table[name].to_pylist() for name in ("Surgery_num", "Dir", "FrameName", "NumBBox_inFrame")),
        tools,
        zip(*(table[side].to_pylist() for side in SIDES), strict=True),
        strict=True,
    )
    seen: dict[tuple, int] = {}
    frames: dict[tuple[int, int], list[tuple[int, int, Box]]] = {}
    for row, (video, folder, name, position, tool, xywh) in enumerate(rows, start=1):
        frame = _frame_number(video, folder, name, path, row)
        first = seen.setdefault((video, frame, tool, xywh), row)
        if first != row:
            raise InputError(
                path, f"the box repeats row {first}", row=row, expected="each box of a frame once", action=ACTION
            )
        frames.setdefault((video, frame), []).append((position, row, (tool, xywh)))
    return [
        BoxedFrame(video, frame, key(video, frame), tuple(box for _, _, box in sorted(boxes)))
        for (video, frame), boxes in sorted(frames.items())
    ]


def _read(path: Path) -> pa.Table:
    """The csv's columns, numbers checked."""
    table = csv_table.read(path, COLUMNS, action=ACTION, delimiter=";")
    in_range = pc.is_in(table["Surgery_num"], value_set=pa.array(VIDEOS, pa.int32()))
    expected = f"a number of a Cholec80 video, {VIDEOS.start} to {VIDEOS.stop - 1}"
    csv_table.require(in_range, table["Surgery_num"], path, "Surgery_num", expected=expected, action=ACTION)
    csv_table.require_filled(table, ("FrameName", "NumBBox_inFrame", "BBox_X", "BBox_Y"), path, action=ACTION)
    for column in ("BBox_Width", "BBox_Height"):
        csv_table.require(
            pc.greater(table[column], 0), table[column], path, column, expected="pixels, above 0", action=ACTION
        )
    return table


def _tools(names: pa.ChunkedArray, path: Path) -> list[str]:
    """The instruments' one spelling for the names of a file."""
    encoded = names.combine_chunks().dictionary_encode()
    known = pa.array([instrument_of(name) for name in encoded.dictionary.to_pylist()], pa.string())
    tools = known.take(encoded.indices)
    csv_table.require(
        pc.is_valid(tools), names, path, "ToolName", expected="one of " + ", ".join(INSTRUMENTS), action=ACTION
    )
    return tools.to_pylist()


def _frame_number(video: int, folder: str | None, name: str, path: Path, row: int) -> int:
    """The number in a frame's name, which with its folder must be of the row's video."""
    found = FRAME_NAME.fullmatch(name)
    if not found or int(found[1]) != video:
        expected = f"a frame of Surgery_num {video}: {Path(key(video, 0)).name}, with its own number"
        raise InputError(path, repr(name), row=row, column="FrameName", expected=expected, action=ACTION)
    of_folder = DIR_VIDEO.fullmatch((folder or "").replace("\\", "/").rstrip("/"))
    if of_folder and int(of_folder[1]) != video:
        expected = f"the folder of Surgery_num {video}"
        raise InputError(path, repr(folder), row=row, column="Dir", expected=expected, action=ACTION)
    return int(found[2])


def _plain(name: str) -> str:
    """Lower case, letters and digits only."""
    return re.sub(r"[^a-z0-9]+", "", name.lower())
