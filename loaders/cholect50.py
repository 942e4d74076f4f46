"""CholecT50: the action triplets of 50 videos at one frame a second, from its JSON files.

Source: Nwoye et al., "Rendezvous" (Medical Image Analysis, 2022), second release. Frames are
`videos/VIDxx/000000.png`, 854 x 480 pixels; `labels/VIDxx.json` lists the triplets of each frame, each as a vector of
15 values. 45 of the videos are CholecT45's. Boxes are shares of the frame's sides; most videos have none.
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
# The positions of ids in a vector (-1 means none): position -> (component, its number of classes).
IDS = {0: ("triplet", len(TRIPLETS)), 1: ("instrument", len(INSTRUMENTS)), 7: ("verb", len(VERBS)),
       8: ("target", len(TARGETS))}  # fmt: skip
BOX = slice(3, 7)
LARGEST = 1e6  # limit of all values: ids, scores and shares are smaller
ACTION = "use the JSON files of CholecT50 unchanged"


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
    'videos/VID42/000001.png'

    Args:
        video: The number of the video.
        frame: The number of the frame.

    Returns:
        The key.
    """
    return f"videos/VID{video:02d}/{frame:06d}.png"


def videos(root: Path) -> list[int]:
    """List the videos that have labels below a root.

    Args:
        root: The folder of CholecT50.

    Returns:
        The numbers, ascending.

    Raises:
        InputError: The root has no label file.
    """
    return cholec_triplets.list_videos(root, "labels/VID*.json", source="CholecT50", action=ACTION)


def label_file(root: Path, video: int) -> Path:
    """Return the label file of a video.

    Args:
        root: The folder of CholecT50.
        video: The number of the video.

    Returns:
        The path.

    Raises:
        InputError: The file is missing.
    """
    path = root / "labels" / f"VID{video:02d}.json"
    if not path.is_file():
        raise InputError(path, "no such file", expected="a file each video", action=ACTION)
    return path


def read_video(root: Path, video: int) -> TripletVideo:
    """Read the labels of a video.

    The labels of instruments, verbs and targets are the ids in the vectors. They may differ from those that the
    triplets imply; they are returned unchanged, and counted (`disagreeing`). Boxes, which only a few videos have, are
    checked and dropped; a box may reach over the frame's edge.

    Args:
        root: The folder of CholecT50.
        video: The number of the video.

    Returns:
        The labels of all frames.

    Raises:
        InputError: The JSON is broken, belongs to another video or frame rate, or has categories in another order; a
            frame is repeated or beyond num_frames; a vector has another length or an id out of range; a box is
            incomplete, empty or outside its frame. The error names file, frame and vector.
    """
    path = label_file(root, video)
    data = _load(path)
    _check_header(data, video, path)
    annotations = _read_annotations(data, path)
    labels = {component: np.zeros((len(annotations), n_classes), dtype=bool) for component, n_classes in IDS.values()}
    for row, (frame, vectors) in enumerate(annotations):
        for place, vector in _iterate_vectors(vectors, frame, path):
            for position, (component, n_classes) in IDS.items():
                number = _require_id(vector[position], component, n_classes, path, place)
                if number >= 0:
                    labels[component][row, number] = True
            _check_box(vector, path, place)
    components = (labels["instrument"], labels["verb"], labels["target"])
    frames = np.array([frame for frame, _ in annotations], dtype=np.int64)
    counts = disagreeing(labels["triplet"], *components)
    return TripletVideo(video, frames, labels["triplet"], *components, counts)


def _load(path: Path) -> dict:
    expected = "annotations: {frame: [vectors]}, each frame once"
    data = json_text.read(path, expected=expected, action=ACTION, repeats=False)
    if not isinstance(data, dict) or not isinstance(data.get("annotations"), dict):
        raise InputError(path, "has no table of annotations", expected=expected, action=ACTION)
    return data


def _check_header(data: dict, video: int, path: Path) -> None:
    """Check video, frame rate and categories, if the file states them."""
    match = re.fullmatch(r"(?:VID)?0*([0-9]{1,4})", str(data.get("video", video)), re.IGNORECASE)
    if not match or int(match[1]) != video:
        raise InputError(
            path, repr(data["video"])[:100], column="video", expected=f"{video}, as its name says", action=ACTION
        )
    if data.get("fps", 1) != 1:
        raise InputError(path, repr(data["fps"]), column="fps", expected="1, as frames are numbered", action=ACTION)
    categories = data.get("categories")
    names = categories.get("triplet") if isinstance(categories, dict) else None
    for number, name in names.items() if isinstance(names, dict) else ():
        is_official = re.fullmatch(r"[0-9]{1,4}", number) and int(number) < len(TRIPLETS)
        official = str(TRIPLETS[int(number)]) if is_official else None
        normalized = re.sub(r"[^a-z]+", "_", str(name).lower())
        if official is not None and normalized != re.sub(r"[^a-z]+", "_", official):
            raise InputError(
                path, f"triplet {number} is {name!r}", column="categories", expected=official, action=ACTION
            )


def _read_annotations(data: dict, path: Path) -> list[tuple[int, list]]:
    """Return (frame number, its vectors) of one video's JSON, ordered by frame number.

    Raise InputError for no frame, a repeated frame, a number of more than six digits or not below the file's
    `num_frames`, or vectors that are no list.
    """
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
    repeated = next((a for (a, _), (b, _) in pairwise(annotations) if a == b), None)
    if not annotations:
        raise InputError(
            path, "has no frame", column="annotations", expected="each frame, labelled or not", action=ACTION
        )
    if repeated is not None:
        raise InputError(path, f"frame {repeated} occurs twice", expected="each frame once", action=ACTION)
    return annotations


def _iterate_vectors(vectors: list, frame: int, path: Path) -> Iterator[tuple[str, list]]:
    """Iterate over a frame's vectors, each with its position for messages; they must hold 15 finite numbers."""
    for n, vector in enumerate(vectors):
        place = f"frame {frame}, vector {n}"
        if not isinstance(vector, list) or len(vector) != VECTOR:
            found = f"{len(vector)} values" if isinstance(vector, list) else repr(vector)
            raise InputError(path, f"{place}: {found}", expected=f"{VECTOR} values", action=ACTION)
        for value in vector:
            if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
                raise InputError(path, f"{place}: {value!r}", expected="finite numbers, -1 for none", action=ACTION)
        yield place, vector


def _require_id(value: float, component: str, n_classes: int, path: Path, place: str) -> int:
    if value != int(value) or not -1 <= value < n_classes:
        expected = f"an id from 0 to {n_classes - 1}, or -1 for none"
        raise InputError(path, f"{place}: {component} {value!r}", expected=expected, action=ACTION)
    return int(value)


def _check_box(vector: list[float], path: Path, place: str) -> None:
    """Raise InputError unless the box is -1 four times (none), or belongs to an instrument and overlaps the frame."""
    x, y, width, height = vector[BOX]
    if (x, y, width, height) == (-1, -1, -1, -1):
        return
    complete = 0 < width <= 1 and 0 < height <= 1
    if not (complete and -width < x < 1 and -height < y < 1):
        expected = "x, y, width and height as shares of the frame, or -1 four times for none"
        raise InputError(path, f"{place}: box {vector[BOX]}", expected=expected, action=ACTION)
    if vector[1] < 0:
        raise InputError(path, f"{place}: a box without an instrument", action=ACTION)
