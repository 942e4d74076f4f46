"""CholecSeg8k: frames of 17 videos of Cholec80 with a class for each pixel, of which two are instruments.

Source: Hong et al., "CholecSeg8k: A Semantic Segmentation Dataset for Laparoscopic Cholecystectomy Based on Cholec80"
(arXiv 2012.12453). The release has 101 clips of 80 consecutive frames of the 25-fps video. The clip `video01_00080`
begins with frame 80. Next to each frame are three masks of its size; the watershed mask is read here. It has the same
grey level in three channels (some files have an opaque fourth one). The paper numbers the classes from 0 to 12. The
files have other levels (CLASSES), by readers that others published and that compared them with the colour masks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from scipy import ndimage

from . import layouts, limits, sources
from .errors import InputError

CLASSES: Mapping[int, str] = {  # grey level of a watershed mask -> class
    5: "liver ligament",
    11: "abdominal wall",
    12: "fat",
    13: "gastrointestinal tract",
    21: "liver",
    22: "gallbladder",
    23: "connective tissue",
    24: "blood",
    25: "cystic duct",
    31: "grasper",
    32: "hook",  # L-hook electrocautery
    33: "hepatic vein",
    50: "black background",
}
UNLABELLED = (0, 255)  # levels of no class; 255: the lines between regions, and the frame's border
INSTRUMENTS: Mapping[str, int] = {"grasper": 31, "hook": 32}
FRAMES = 8080  # of the release
FPS = 25
LEAST_SHARE = 0.0005  # of the frame's pixels: a smaller component has no box
MOST_UNKNOWN = 0.01  # of the mask's pixels: levels that are no class
IMAGE, MASK, COLOUR_MASK = "", "_watershed_mask", "_color_mask"
VIDEO = re.compile(r"video(\d\d)")
CLIP = re.compile(r"(video\d\d)/\1_(\d{5})")
FILE = re.compile(r"video(\d\d)/video\1_(\d{5})/frame_(0|[1-9]\d{0,8})_endo(|_mask|_color_mask|_watershed_mask)\.png")
SUSPECT = re.compile(r"endo|frame|mask|\.(png|jpe?g|bmp|tiff?)$", re.IGNORECASE)  # may be a renamed file of a clip
ACTION = "unpack CholecSeg8k.zip again, and leave its names unchanged"
LAYOUT = "video01/video01_00080/frame_80_endo.png, next to it frame_80_endo_watershed_mask.png"

Box = tuple[str, tuple[int, int, int, int]]


@dataclass(frozen=True, slots=True)
class LabelledFrame:
    """A frame and its mask.

    Attributes:
        video: Its number in Cholec80.
        clip: The number of its clip's first frame.
        frame: Its number in the 25-fps video.
        mask: Its watershed mask.
    """

    video: int
    clip: int
    frame: int
    mask: Path

    @property
    def key(self) -> str:
        """The key of its image, relative to the root."""
        return key(self.video, self.clip, self.frame)


def list_image_paths(key: str) -> tuple[str, ...]:
    """List the candidate paths of a frame below the root.

    Args:
        key: The key of a row's frame.

    Returns:
        The paths, most likely first.
    """
    return layouts.list_image_paths("cholecseg8k", key)


def key(video: int, clip: int, frame: int) -> str:
    """Return the key of a frame: its path below the root of the release.

    >>> key(1, 80, 81)
    'video01/video01_00080/frame_81_endo.png'

    Args:
        video: The number of the video.
        clip: The number of the clip's first frame.
        frame: The number of the frame.

    Returns:
        The key.
    """
    return f"video{video:02d}/video{video:02d}_{clip:05d}/frame_{frame}_endo.png"


def list_frames(root: Path) -> list[LabelledFrame]:
    """List every frame. No image is opened.

    Args:
        root: The folder of CholecSeg8k.

    Returns:
        The frames in order of video and frame.

    Raises:
        InputError: There are no videos, or videos in two folders. A name is not the release's. A frame has no mask, or
            a mask has no frame. A clip is empty, lacks a frame, or has fewer frames than another clip. Two clips have
            the same frame.
    """
    base = _find_videos(root)
    kinds_by_clip = _group_files(base)
    frames = [frame for clip, kinds in kinds_by_clip.items() for frame in _list_clip(base, clip, kinds)]
    longest = max(kinds_by_clip, key=lambda clip: len(kinds_by_clip[clip]))
    for clip, kinds in kinds_by_clip.items():
        if len(kinds) < len(kinds_by_clip[longest]):
            problem = f"has {len(kinds)} frames, and {longest} has {len(kinds_by_clip[longest])}"
            raise InputError(base / clip, problem, expected="as many frames in each clip", action=ACTION)
    frame_by_number: dict[tuple[int, int], LabelledFrame] = {}
    for frame in frames:
        earlier_frame = frame_by_number.setdefault((frame.video, frame.frame), frame)
        if earlier_frame is not frame:
            problem = f"is also a frame of the clip {earlier_frame.mask.parent.name}"
            raise InputError(base / frame.key, problem, expected="each frame of a video once", action=ACTION)
    return sorted(frames, key=lambda frame: (frame.video, frame.frame))


def read_mask(path: Path, size: tuple[int, int]) -> np.ndarray:
    """Read a watershed mask.

    Args:
        path: The file.
        size: Width and height of its frame in pixels.

    Returns:
        The grey level of each pixel: uint8 (h, w).

    Raises:
        InputError: The file is damaged, has another size than its frame, or is no watershed mask: it has colours or
            transparent pixels, or levels that are no class.
    """
    expected = "a watershed mask: a PNG with one grey level for each class"
    try:
        limits.require_file(path)
        with Image.open(path, formats=("PNG",)) as image:
            if image.size != size:
                problem, needed = (f"{width} x {height} pixels" for width, height in (image.size, size))
                raise InputError(path, problem, expected=f"{needed}, as its frame", action=ACTION)
            stored = np.asarray(image) if image.mode.startswith("I") else np.asarray(image.convert("RGBA"))
    except InputError:
        raise
    except Exception as error:  # the decoder raises many types of error on corrupt files
        raise InputError(path, f"is damaged ({error})", expected=expected, action=ACTION) from error
    if stored.ndim == 3:
        if (stored[..., :1] != stored[..., 1:3]).any():
            problem = "has colours, as the colour mask does"
            raise InputError(path, problem, expected=expected, action=ACTION)
        if (stored[..., 3] != 255).any():
            raise InputError(path, "has transparent pixels", expected=expected, action=ACTION)
        stored = stored[..., 0]
    levels, counts = np.unique(stored, return_counts=True)
    is_class, is_unlabelled = np.isin(levels, list(CLASSES)), np.isin(levels, UNLABELLED)
    is_unknown = ~is_class & ~is_unlabelled
    if counts[is_unknown].sum() > MOST_UNKNOWN * stored.size:
        level = levels[is_unknown][counts[is_unknown].argmax()]
        problem = (
            f"{counts[is_unknown].sum():,} of {stored.size:,} pixels have levels that are no class, such as {level}"
        )
        raise InputError(path, problem, expected=f"the levels {', '.join(map(str, CLASSES))}", action=ACTION)
    if 2 * counts[is_class].sum() < stored.size:
        problem = f"only {counts[is_class].sum():,} of {stored.size:,} pixels have a class"
        raise InputError(path, problem, expected=expected, action=ACTION)
    return stored.astype(np.uint8)


def find_boxes(mask: np.ndarray) -> tuple[list[Box], int]:
    """Find the boxes of the instruments: one for each component, whose pixels touch at sides or corners.

    A component below LEAST_SHARE of the frame has no box.

    Args:
        mask: The grey level of each pixel: uint8 (h, w).

    Returns:
        (instrument, (x, y, width, height)) in pixels from the top left corner, in order of instrument, x and y; and the
        number of components without a box.
    """
    boxes: list[Box] = []
    n_small = 0
    for name, level in INSTRUMENTS.items():
        labels, _ = ndimage.label(mask == level, structure=np.ones((3, 3)))
        areas = np.bincount(labels.ravel())[1:]
        places = ndimage.find_objects(labels)
        large = [place for place, area in zip(places, areas, strict=True) if area >= LEAST_SHARE * mask.size]
        n_small += len(places) - len(large)
        boxes += sorted((name, (x.start, y.start, x.stop - x.start, y.stop - y.start)) for y, x in large)
    return boxes, n_small


def _find_videos(root: Path) -> Path:
    """Find the one folder, at the root or one level below it, that has the folders of videos (video01, ...).

    Raises:
        InputError: No folder has videos, or several ones have.
    """
    if not root.is_dir():
        raise InputError(root, "is no folder", expected=f"a folder with {LAYOUT}", action="unpack CholecSeg8k.zip")
    entries = {path.name: path for path in root.iterdir()}
    folders = [root, *(entries[name] for name in sources.source("cholecseg8k").folders if name in entries)]
    bases = [folder for folder in folders if folder.is_dir() and any(map(_is_video, folder.iterdir()))]
    if len(bases) > 1:
        problem = f"has videos in {' and in '.join(str(base) for base in bases)}"
        raise InputError(root, problem, expected="the videos in one folder", action="name one of them with --root")
    if not bases:
        archive = next((name for name in sorted(entries) if name.endswith((".zip", ".parquet"))), None)
        problem = "has no folder video01 or of another video" + (f", but {archive}" if archive else "")
        action = f"{ACTION}; name the folder that has the folders video01, video09, ..."
        raise InputError(root, problem, expected=LAYOUT, action=action)
    return bases[0]


def _is_video(path: Path) -> bool:
    return VIDEO.fullmatch(path.name) is not None


def _group_files(base: Path) -> dict[str, dict[int, set[str]]]:
    """Group the files below a folder: the kinds (IMAGE, MASK, ...) of each frame, by clip.

    Raises:
        InputError: A name is not the release's, or a clip or video is empty.
    """
    kinds_by_clip: dict[str, dict[int, set[str]]] = {}
    folders: set[str] = set()
    for path, is_folder in _iterate_tree(base):
        name = path.relative_to(base).as_posix()
        if is_folder:
            if name.split("/")[-1].casefold().startswith("video"):
                if not VIDEO.fullmatch(name) and not CLIP.fullmatch(name):
                    raise InputError(path, "is a folder of another name", expected=LAYOUT, action=ACTION)
                folders.add(name)
            continue
        match = FILE.fullmatch(name)
        if match:
            clip = name.rpartition("/")[0]
            kinds_by_clip.setdefault(clip, {}).setdefault(int(match[3]), set()).add(match[4])
        elif SUSPECT.search(path.name) and path.parent != base:
            raise InputError(path, "is a file of another name", expected=LAYOUT, action=ACTION)
    full = {*kinds_by_clip, *(clip.split("/")[0] for clip in kinds_by_clip)}
    if empty := min(folders - full, default=None):
        raise InputError(base / empty, "has no frames", expected=LAYOUT, action=ACTION)
    return kinds_by_clip


def _list_clip(base: Path, clip: str, kinds: Mapping[int, set[str]]) -> Iterator[LabelledFrame]:
    """Yield the frames of a clip, from the number in its name to its last frame.

    Raises:
        InputError: A number between them lacks an image or a watershed mask, or a frame comes before the first one.
    """
    video, first_frame = (int(number) for number in re.findall(r"\d+", clip.split("/")[1]))
    for frame in range(first_frame, max(first_frame, *kinds) + 1):
        found_kinds = kinds.get(frame, set())
        for kind in (IMAGE, MASK):
            if kind not in found_kinds:
                path = base / clip / f"frame_{frame}_endo{kind}.png"
                problem = "is missing" + (
                    ", and the colour mask is there" if COLOUR_MASK in found_kinds - {kind} else ""
                )
                expected = "a frame and a watershed mask of each number, from that of the clip's name"
                raise InputError(path, problem, expected=expected, action=ACTION)
        yield LabelledFrame(video, first_frame, frame, base / clip / f"frame_{frame}_endo{MASK}.png")
    if min(kinds) < first_frame:
        problem = f"has the frame {min(kinds)}, before the first one of its name"
        raise InputError(base / clip, problem, expected=LAYOUT, action=ACTION)


def _iterate_tree(folder: Path) -> Iterator[tuple[Path, bool]]:
    """Yield each file and folder below a folder, and whether it is a folder. Hidden names are skipped.

    Raises:
        InputError: A name is a link to a folder or to nothing, or something other than a file.
    """
    with os.scandir(folder) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    for entry in ordered:
        path = Path(entry.path)
        if entry.name.startswith(".") or entry.name == "__MACOSX":
            continue
        is_folder = entry.is_dir(follow_symlinks=False)
        if not is_folder and not entry.is_file():
            problem = "is a link to a folder" if entry.is_dir() else "is a link to nothing, or no regular file"
            raise InputError(path, problem, expected="a file or a folder", action="replace it by its target")
        yield path, is_folder
        if is_folder:
            yield from _iterate_tree(path)
