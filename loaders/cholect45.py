"""CholecT45: the action triplets of 45 videos of Cholec80 at one frame a second, from its text files.

Source: Nwoye et al., "Rendezvous" (Medical Image Analysis, 2022); splits from Nwoye and Padoy, "Data splits and metrics
for method benchmarking on surgical action triplet datasets" (2022). Frames are `data/VIDxx/000000.png`. The folders
triplet, instrument, verb and target have one table a video, without a header: a frame's number, then 0 or 1 for each
class. Frame k is frame 25 k of Cholec80's video. Frames outside the body are black, without labels.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from . import cholec_triplets, csv_table, limits
from .cholec_triplets import INSTRUMENTS, TARGETS, TRIPLETS, VERBS, TripletVideo, compute_component_ids, disagreeing
from .errors import InputError

# The official cross-validation: fold -> the videos that it tests.
FOLDS = {
    1: (79, 2, 51, 6, 25, 14, 66, 23, 50),
    2: (80, 32, 5, 15, 40, 47, 26, 48, 70),
    3: (31, 57, 36, 18, 52, 68, 10, 8, 73),
    4: (42, 29, 60, 27, 65, 75, 22, 49, 12),
    5: (78, 43, 62, 35, 74, 1, 56, 4, 13),
}
CLASSES = {"triplet": len(TRIPLETS), "instrument": len(INSTRUMENTS), "verb": len(VERBS), "target": len(TARGETS)}
MAPS = "dict/maps.txt"
ACTION = "use the text files of CholecT45 unchanged"


def list_image_paths(key: str) -> tuple[str, ...]:
    """List the candidate paths of a frame; the release has a single layout.

    Args:
        key: The key of a row's frame.

    Returns:
        The key alone.
    """
    return (key,)


def key(video: int, frame: int) -> str:
    """Return the key of a frame: its path below the root of the release.

    >>> key(42, 1)
    'data/VID42/000001.png'

    Args:
        video: The number of the video.
        frame: The number of the frame.

    Returns:
        The key.
    """
    return f"data/VID{video:02d}/{frame:06d}.png"


def videos(root: Path) -> list[int]:
    """List the videos that have triplets below a root.

    Args:
        root: The folder of CholecT45.

    Returns:
        The numbers, ascending.

    Raises:
        InputError: The root has no table of triplets.
    """
    return cholec_triplets.list_videos(root, "triplet/VID*.txt", source="CholecT45", action=ACTION)


def find_label_files(root: Path, video: int) -> dict[str, Path]:
    """Find the tables of a video.

    Args:
        root: The folder of CholecT45.
        video: The number of the video.

    Returns:
        The paths, for triplet, instrument, verb and target.

    Raises:
        InputError: A table is missing.
    """
    paths = {component: root / component / f"VID{video:02d}.txt" for component in CLASSES}
    for path in paths.values():
        if not path.is_file():
            raise InputError(path, "no such file", expected="a table each part and video", action=ACTION)
    return paths


def read_video(root: Path, video: int) -> TripletVideo:
    """Read the labels of a video.

    The tables of instruments, verbs and targets must have the same frames as the table of triplets. Their labels may
    differ from those that the triplets imply, because triplets outside the 100 classes were removed without their
    components. They are returned unchanged, and counted (`disagreeing`).

    Args:
        root: The folder of CholecT45.
        video: The number of the video.

    Returns:
        The labels of all frames.

    Raises:
        InputError: A row has another number of columns, a value is not 0 or 1, a frame is missing, repeated or out of
            order, or dict/maps.txt has other ids. The error names file and row.
    """
    check_maps(root)
    paths = find_label_files(root, video)
    frames, triplets = _read_table(paths["triplet"], CLASSES["triplet"])
    components = []
    for component in ("instrument", "verb", "target"):
        component_frames, labels = _read_table(paths[component], CLASSES[component])
        _require_same_frames(component_frames, frames, paths[component])
        components.append(labels)
    instruments, verbs, targets = components
    counts = disagreeing(triplets, instruments, verbs, targets)
    return TripletVideo(video, frames, triplets, instruments, verbs, targets, counts)


def check_maps(root: Path) -> None:
    """Raise an error if dict/maps.txt, if present, gives a triplet other ids than cholec_triplets.

    Its rows, in any order, are the ids of triplet, instrument, verb, target, instrument-verb and instrument-target.

    Args:
        root: The folder of CholecT45.

    Raises:
        InputError: A row is malformed or has other ids.
    """
    path = root / MAPS
    if not limits.has_file(path):
        return
    expected = compute_component_ids().tolist()
    for row, line in enumerate(_read_lines(path), start=1):
        if not re.match(r"\s*[0-9]", line):  # a header or a comment
            continue
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) < 6 or not all(re.fullmatch(r"[0-9]{1,3}", cell) for cell in cells[:6]):
            raise InputError(path, repr(line), row=row, expected="six ids, separated by commas", action=ACTION)
        triplet, *ids = (int(cell) for cell in cells[:6])
        if triplet >= len(TRIPLETS) or ids != expected[triplet]:
            expected_row = (
                ",".join(map(str, (triplet, *expected[triplet]))) if triplet < len(TRIPLETS) else "ids 0 to 99"
            )
            raise InputError(path, repr(line), row=row, expected=expected_row, action=ACTION)


def _read_table(path: Path, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Read a table: frames (n,) int64, ascending, and labels (n, n_classes) bool."""
    classes = [f"class {n}" for n in range(n_classes)]
    table = csv_table.read(path, dict.fromkeys(["frame", *classes], pa.int32()), action=ACTION, has_header=False)
    csv_table.require_filled(table, table.column_names, path, action=ACTION)
    values = np.column_stack([table[name].to_numpy() for name in classes])
    unlabelled = np.flatnonzero((values == -1).all(axis=1))
    if unlabelled.size:
        problem = "every label is -1, as of a frame nobody labelled"
        raise InputError(path, problem, row=int(unlabelled[0]) + 1, expected="0 or 1", action=ACTION)
    for name in classes:
        good = pc.is_in(table[name], value_set=pa.array([0, 1], pa.int32()))
        csv_table.require(good, table[name], path, name, expected="0 or 1", action=ACTION)
    frames = table["frame"].to_numpy().astype(np.int64)
    good = pa.array(np.diff(frames, prepend=-1) > 0)
    expected = "each frame once, in ascending order"
    csv_table.require(good, table["frame"], path, "frame", expected=expected, action=ACTION)
    return frames, values == 1


def _require_same_frames(frames: np.ndarray, triplet_frames: np.ndarray, path: Path) -> None:
    different = np.setxor1d(frames, triplet_frames)
    if different.size:
        frame = int(different[0])
        problem = f"frame {frame} has no row" if frame in triplet_frames else f"frame {frame} has no triplet row"
        raise InputError(path, problem, expected="the frames of the triplets' table", action=ACTION)


def _read_lines(path: Path) -> list[str]:
    """Read the lines of a text file; raise InputError if it is not text."""
    try:
        return limits.read_bytes(path, limits.TEXT_BYTES).decode("utf-8-sig").splitlines()
    except (UnicodeDecodeError, OSError) as error:
        raise InputError(path, f"cannot be read as text ({error})", action="download it again") from None
