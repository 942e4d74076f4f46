"""CholecT45: the action triplets of 45 videos of Cholec80 at one frame a second, as its text files have them.

Source: Nwoye et al., "Rendezvous" (Medical Image Analysis, 2022); splits from Nwoye and Padoy, "Data splits and metrics
for method benchmarking on surgical action triplet datasets" (2022). Frames lie in `data/VIDxx/000000.png`; the folders
triplet, instrument, verb and target hold a table each a video, without a header: a frame's number, then 0 or 1 for
each class. Frame k is frame 25 k of Cholec80's video. Frames outside the body are black, with no label set.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from . import cholec_triplets, csv_table, limits
from .cholec_triplets import INSTRUMENTS, TARGETS, TRIPLETS, VERBS, TripletVideo, component_ids, disagreeing
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


def image_paths(key: str) -> tuple[str, ...]:
    """Where the frame of a row's key may lie below the user's root: there, as there is one official layout."""
    return (key,)


def key(video: int, frame: int) -> str:
    """The key of a frame: its path below the root of the release.

    >>> key(42, 1)
    'data/VID42/000001.png'
    """
    return f"data/VID{video:02d}/{frame:06d}.png"


def videos(root: Path) -> list[int]:
    """The numbers, ascending, of the videos that `root` has triplets of. Raises InputError for none."""
    return cholec_triplets.videos(root, "triplet/VID*.txt", source="CholecT45", action=ACTION)


def label_files(root: Path, video: int) -> dict[str, Path]:
    """The tables of one video by part (triplet, instrument, verb, target). Raises InputError for a missing one."""
    paths = {part: root / part / f"VID{video:02d}.txt" for part in CLASSES}
    for path in paths.values():
        if not path.is_file():
            raise InputError(path, "no such file", expected="a table each part and video", action=ACTION)
    return paths


def read_video(root: Path, video: int) -> TripletVideo:
    """The labels of one video.

    The tables of instruments, verbs and targets must have the triplets' frames. Where their labels are not those that
    the triplets imply, they are kept and counted (`disagreeing`): triplets outside the 100 classes left their parts
    behind, so that the tables may differ without fault.
    Raises InputError naming file and row: another number of columns, a value that is not 0 or 1, a frame that is
    missing, occurs twice or is out of order, ids that dict/maps.txt maps elsewhere.
    """
    check_maps(root)
    paths = label_files(root, video)
    frames, triplets = _read_table(paths["triplet"], CLASSES["triplet"])
    parts = []
    for part in ("instrument", "verb", "target"):
        of_part, labels = _read_table(paths[part], CLASSES[part])
        _require_same_frames(of_part, frames, paths[part])
        parts.append(labels)
    instruments, verbs, targets = parts
    counts = disagreeing(triplets, instruments, verbs, targets)
    return TripletVideo(video, frames, triplets, instruments, verbs, targets, counts)


def check_maps(root: Path) -> None:
    """Raises InputError where dict/maps.txt, if `root` has it, gives a triplet other ids than cholec_triplets does.

    Its rows, in any order: ids of triplet, instrument, verb, target, instrument-verb, instrument-target.
    """
    path = root / MAPS
    if not path.is_file():
        return
    expected = component_ids().tolist()
    for row, line in enumerate(_lines(path), start=1):
        if not re.match(r"\s*[0-9]", line):  # a header or a comment
            continue
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) < 6 or not all(re.fullmatch(r"[0-9]{1,3}", cell) for cell in cells[:6]):
            raise InputError(path, repr(line), row=row, expected="six ids, separated by commas", action=ACTION)
        triplet, *ids = (int(cell) for cell in cells[:6])
        if triplet >= len(TRIPLETS) or ids != expected[triplet]:
            wanted = ",".join(map(str, (triplet, *expected[triplet]))) if triplet < len(TRIPLETS) else "ids 0 to 99"
            raise InputError(path, repr(line), row=row, expected=wanted, action=ACTION)


def _read_table(path: Path, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """A table's frames (n,) int64, ascending, and labels (n, n_classes) bool."""
    classes = [f"class {n}" for n in range(n_classes)]
    table = csv_table.read(path, dict.fromkeys(["frame", *classes], pa.int32()), action=ACTION, has_header=False)
    csv_table.require_filled(table, table.column_names, path, action=ACTION)
    values = np.column_stack([table[name].to_numpy() for name in classes])
    unlabelled = np.flatnonzero((values == -1).all(axis=1))
    if unlabelled.size:
        found = "every label is -1, as of a frame nobody labelled"
        raise InputError(path, found, row=int(unlabelled[0]) + 1, expected="0 or 1", action=ACTION)
    for name in classes:
        good = pc.is_in(table[name], value_set=pa.array([0, 1], pa.int32()))
        csv_table.require(good, table[name], path, name, expected="0 or 1", action=ACTION)
    frames = table["frame"].to_numpy().astype(np.int64)
    good = pa.array(np.diff(frames, prepend=-1) > 0)
    expected = "each frame once, in ascending order"
    csv_table.require(good, table["frame"], path, "frame", expected=expected, action=ACTION)
    return frames, values == 1


def _require_same_frames(frames: np.ndarray, of_triplets: np.ndarray, path: Path) -> None:
    different = np.setxor1d(frames, of_triplets)
    if different.size:
        frame = int(different[0])
        found = f"frame {frame} has no row" if frame in of_triplets else f"frame {frame} has no triplet row"
        raise InputError(path, found, expected="the frames of the triplets' table", action=ACTION)


def _lines(path: Path) -> list[str]:
    """A text file's lines; raises InputError for one that is no text."""
    try:
        return limits.read_bytes(path, limits.TEXT_BYTES).decode("utf-8-sig").splitlines()
    except (UnicodeDecodeError, OSError) as error:
        raise InputError(path, f"cannot be read as text ({error})", action="download it again") from None
