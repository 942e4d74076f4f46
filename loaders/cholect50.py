"""CholecT50: the action triplets of 50 videos at one frame a second, as its JSON files have them.

Source: Nwoye et al., "Rendezvous" (Medical Image Analysis, 2022), second release. Frames lie in
`videos/VIDxx/000000.png`, 854 x 480 pixels; `labels/VIDxx.json` lists for each frame the triplets in it, each a vector
of 15 values. 45 of the videos are CholecT45's. Boxes are shares of the frame's sides, and most videos have none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from . import cholec_triplets, json_text
from .cholec_triplets import INSTRUMENTS, TARGETS, TRIPLETS, VERBS, TripletVideo, disagreeing
from .errors import InputError

VECTOR = 15
# Where a vector has its ids, -1 standing for none: position -> (part, its number of classes).
IDS = {0: ("triplet", len(TRIPLETS)), 1: ("instrument", len(INSTRUMENTS)), 7: ("verb", len(VERBS)),
       8: ("target", len(TARGETS))}  # fmt: skip
BOX = slice(3, 7)
LARGEST = 1e6  # of any value: what is beyond, or NaN, is no id, score or share
ACTION = "use the JSON files of CholecT50 unchanged"


def image_paths(key: str) -> tuple[str, ...]:
    """Where the frame of a row's key may lie below the user's root: there, as there is one official layout."""
    return (key,)


def key(video: int, frame: int) -> str:
    """The key of a frame: its path below the root of the release.

    >>> key(42, 1)
    'videos/VID42/000001.png'
    """
    return f"videos/VID{video:02d}/{frame:06d}.png"


def videos(root: Path) -> list[int]:
    """The numbers, ascending, of the videos that `root` has labels of. Raises InputError for none."""
    return cholec_triplets.videos(root, "labels/VID*.json", source="CholecT50", action=ACTION)


def label_file(root: Path, video: int) -> Path:
    """The labels of one video. Raises InputError where there is no such file."""
    path = root / "labels" / f"VID{video:02d}.json"
    if not path.is_file():
        raise InputError(path, "no such file", expected="a file each video", action=ACTION)
    return path


def read_video(root: Path, video: int) -> TripletVideo:
    """The labels of one video.

    A part's labels are the ids that the vectors give it; where they are not those that the triplets imply, they are
    kept and counted (`disagreeing`). Boxes, which only a few videos have, are checked and not kept; one may reach over
    the frame's edge.
    Raises InputError naming file, frame and vector: broken JSON, labels of another video or frame rate, categories in
    another order, a frame that occurs twice or lies beyond num_frames, a vector of another length, an id out of range,
    a box that is incomplete, empty or wholly outside its frame.
    """
    path = label_file(root, video)
    data = _load(path)
    _check_header(data, video, path)
    annotations = _annotations(data, path)
    labels = {part: np.zeros((len(annotations), n_classes), dtype=bool) for part, n_classes in IDS.values()}
    for row, (frame, vectors) in enumerate(annotations):
        for place, vector in _checked(vectors, frame, path):
            for position, (part, n_classes) in IDS.items():
                number = _id(vector[position], part, n_classes, path, place)
                if number >= 0:
                    labels[part][row, number] = True
            _check_box(vector, path, place)
    parts = (labels["instrument"], labels["verb"], labels["target"])
    frames = np.array([frame for frame, _ in annotations], dtype=np.int64)
    counts = disagreeing(labels["triplet"], *parts)
    return TripletVideo(video, frames, labels["triplet"], *parts, counts)


def _load(path: Path) -> dict:
    expected = "annotations: {frame: [vectors]}, each frame once"
    data = json_text.read(path, expected=expected, action=ACTION, repeats=False)
    if not isinstance(data, dict) or not isinstance(data.get("annotations"), dict):
        raise InputError(path, "has no table of annotations", expected=expected, action=ACTION)
    return data


def _check_header(data: dict, video: int, path: Path) -> None:
    """What the file says of itself, where it does."""
    named = re.fullmatch(r"(?:VID)?0*([0-9]+)", str(data.get("video", video)), re.IGNORECASE)
    if not named or int(named[1]) != video:
        raise InputError(
            path, repr(data["video"]), column="video", expected=f"{video}, as its name says", action=ACTION
        )
    if data.get("fps", 1) != 1:
        raise InputError(path, repr(data["fps"]), column="fps", expected="1, as frames are numbered", action=ACTION)
    categories = data.get("categories")
    names = categories.get("triplet") if isinstance(categories, dict) else None
    for number, name in names.items() if isinstance(names, dict) else ():
        known = str(TRIPLETS[int(number)]) if number.isdecimal() and int(number) < len(TRIPLETS) else None
        plain = re.sub(r"[^a-z]+", "_", str(name).lower())
        if known is not None and plain != re.sub(r"[^a-z]+", "_", known):
            raise InputError(path, f"triplet {number} is {name!r}", column="categories", expected=known, action=ACTION)


def _annotations(data: dict, path: Path) -> list[tuple[int, list]]:
    """The frames' numbers and vectors, by number."""
    total = data.get("num_frames")
    if total is not None and (not isinstance(total, int) or total < 0):
        raise InputError(path, repr(total), column="num_frames", expected="a count", action=ACTION)
    annotations = []
    for name, vectors in data["annotations"].items():
        if not re.fullmatch(r"[0-9]{1,6}", name):
            raise InputError(path, repr(name), column="annotations", expected="a frame's number", action=ACTION)
        if total is not None and int(name) >= total:
            expected = f"a frame below num_frames, {total}"
            raise InputError(path, f"frame {name}", column="annotations", expected=expected, action=ACTION)
        if not isinstance(vectors, list):
            raise InputError(path, f"frame {name} has {vectors!r}", expected="a list of vectors", action=ACTION)
        annotations.append((int(name), vectors))
    annotations.sort(key=lambda item: item[0])
    twice = next((a for (a, _), (b, _) in pairwise(annotations) if a == b), None)
    if not annotations:
        raise InputError(
            path, "has no frame", column="annotations", expected="each frame, labelled or not", action=ACTION
        )
    if twice is not None:
        raise InputError(path, f"frame {twice} occurs twice", expected="each frame once", action=ACTION)
    return annotations


def _checked(vectors: list, frame: int, path: Path) -> Iterator[tuple[str, list]]:
    """A frame's vectors, each with its place in words; they hold 15 finite numbers."""
    for n, vector in enumerate(vectors):
        place = f"frame {frame}, vector {n}"
        if not isinstance(vector, list) or len(vector) != VECTOR:
            found = f"{len(vector)} values" if isinstance(vector, list) else repr(vector)
            raise InputError(path, f"{place}: {found}", expected=f"{VECTOR} values", action=ACTION)
        for value in vector:
            if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
                raise InputError(path, f"{place}: {value!r}", expected="finite numbers, -1 for none", action=ACTION)
        yield place, vector


def _id(value: float, part: str, n_classes: int, path: Path, place: str) -> int:
    if value != int(value) or not -1 <= value < n_classes:
        expected = f"an id from 0 to {n_classes - 1}, or -1 for none"
        raise InputError(path, f"{place}: {part} {value!r}", expected=expected, action=ACTION)
    return int(value)


def _check_box(vector: list[float], path: Path, place: str) -> None:
    """Raises InputError unless the box is none, -1 four times, or an instrument's, on the frame at least in part."""
    x, y, width, height = vector[BOX]
    if (x, y, width, height) == (-1, -1, -1, -1):
        return
    complete = 0 < width <= 1 and 0 < height <= 1
    if not (complete and -width < x < 1 and -height < y < 1):
        expected = "x, y, width and height as shares of the frame, or -1 four times for none"
        raise InputError(path, f"{place}: box {vector[BOX]}", expected=expected, action=ACTION)
    if vector[1] < 0:
        raise InputError(path, f"{place}: a box without an instrument", action=ACTION)
