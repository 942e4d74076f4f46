"""Cholec80-Boxes: boxes of the instruments in frames of Cholec80's videos 41 to 45, from ROI_Labels.csv.

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

from . import csv_table, layouts
from .cholec_triplets import INSTRUMENTS as TRIPLET_INSTRUMENTS
from .errors import InputError

INSTRUMENTS = (*TRIPLET_INSTRUMENTS, "specimen_bag")
# Other names in the release and in copies, normalized.
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

    Attributes:
        video: Its number in Cholec80.
        frame: The number in its name.
        key: The key of its image, relative to the root.
        boxes: (instrument, (x, y, width, height)), at least one, pixels of the frame from its top-left corner, in the
            order of NumBBox_inFrame. They are not clipped, because the size of the frame is known from the image only.
    """

    video: int
    frame: int
    key: str
    boxes: tuple[Box, ...]


def list_image_paths(key: str) -> tuple[str, ...]:
    """List the candidate paths of a frame below the root: as released, or with `Images` as the root.

    Args:
        key: The key of a row's frame.

    Returns:
        The paths, most likely first.
    """
    match = KEY.fullmatch(key)
    if not match:
        return (key,)
    return (key, *(f"Images/{match[1]}{suffix}" for suffix in (".jpg", ".jpeg")), f"{match[1]}.png")


def key(video: int, frame: int) -> str:
    """Return the key of a frame: its path below the root of the release.

    >>> key(42, 25)
    'Images/Video_42/Video_42_00025.png'

    Args:
        video: The number of the video.
        frame: The number of the frame.

    Returns:
        The key.
    """
    return f"Images/Video_{video:02d}/Video_{video:02d}_{frame:05d}.png"


def find_label_files(root: Path) -> dict[str, Path]:
    """Find the csv of boxes.

    Args:
        root: The folder of Cholec80-Boxes, or the csv.

    Returns:
        {"boxes": path}.

    Raises:
        InputError: The file is missing, packed or unfinished, or has almost this name.
    """
    path = root if root.is_file() else root / FILE
    if not path.is_file():
        layouts.refuse_similar_name(path)
        raise InputError(root, f"holds no {FILE}", expected=f"{FILE} next to the folder Images", action=ACTION)
    return {"boxes": path}


def find_instrument(name: str) -> str | None:
    """Return the instrument that a tool's name means, whatever the name's case and separators.

    >>> find_instrument("SpecimenBag"), find_instrument("Bag"), find_instrument("Trocar")
    ('specimen_bag', 'specimen_bag', None)

    Args:
        name: The name of a tool.

    Returns:
        One of INSTRUMENTS; None for an unknown name.
    """
    normalized = _normalize(name)
    return ALIASES.get(normalized) or next(
        (instrument for instrument in INSTRUMENTS if _normalize(instrument) == normalized), None
    )


def read_frames(root: Path) -> list[BoxedFrame]:
    """Read every labelled frame with its boxes.

    Args:
        root: The folder of Cholec80-Boxes, or the csv.

    Returns:
        The frames in order of video and frame.

    Raises:
        InputError: The file has another separator, a column is missing, a tool is unknown, a box is not finite, has no
            positive size or is repeated, or a frame's name or folder disagrees with its row's video. The error names
            file, row and column.
    """
    path = find_label_files(root)["boxes"]
    table = _read_table(path)
    tools = _read_tools(table["ToolName"], path)
    rows = zip(
        *(table[name].to_pylist() for name in ("Surgery_num", "Dir", "FrameName", "NumBBox_inFrame")),
        tools,
        zip(*(table[side].to_pylist() for side in SIDES), strict=True),
        strict=True,
    )
    rows_by_box: dict[tuple, int] = {}
    frames: dict[tuple[int, int], list[tuple[int, int, Box]]] = {}
    for row, (video, folder, name, position, tool, xywh) in enumerate(rows, start=1):
        frame = _parse_frame_number(video, folder, name, path, row)
        first_row = rows_by_box.setdefault((video, frame, tool, xywh), row)
        if first_row != row:
            raise InputError(
                path, f"the box repeats row {first_row}", row=row, expected="each box of a frame once", action=ACTION
            )
        frames.setdefault((video, frame), []).append((position, row, (tool, xywh)))
    return [
        BoxedFrame(video, frame, key(video, frame), tuple(box for _, _, box in sorted(boxes)))
        for (video, frame), boxes in sorted(frames.items())
    ]


def _read_table(path: Path) -> pa.Table:
    """Read the columns of the csv and check the numbers."""
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


def _read_tools(names: pa.ChunkedArray, path: Path) -> list[str]:
    """Map the names of a file to INSTRUMENTS."""
    encoded = names.combine_chunks().dictionary_encode()
    instruments = pa.array([find_instrument(name) for name in encoded.dictionary.to_pylist()], pa.string())
    tools = instruments.take(encoded.indices)
    csv_table.require(
        pc.is_valid(tools), names, path, "ToolName", expected="one of " + ", ".join(INSTRUMENTS), action=ACTION
    )
    return tools.to_pylist()


def _parse_frame_number(video: int, folder: str | None, name: str, path: Path, row: int) -> int:
    """Parse the number in a frame's name; name and folder must agree with the row's video."""
    match = FRAME_NAME.fullmatch(name)
    if not match or int(match[1]) != video:
        expected = f"a frame of Surgery_num {video}: {Path(key(video, 0)).name}, with its own number"
        raise InputError(path, repr(name), row=row, column="FrameName", expected=expected, action=ACTION)
    folder_match = DIR_VIDEO.fullmatch((folder or "").replace("\\", "/").rstrip("/"))
    if folder_match and int(folder_match[1]) != video:
        expected = f"the folder of Surgery_num {video}"
        raise InputError(path, repr(folder), row=row, column="Dir", expected=expected, action=ACTION)
    return int(match[2])


def _normalize(name: str) -> str:
    """Normalize a name to lower case, letters and digits."""
    return re.sub(r"[^a-z0-9]+", "", name.lower())
