"""Frames with the instruments' boxes (section 4.1, Cholec80BBox), and which frame of another source shows the same.

CholecT45 keeps one frame a second of Cholec80's 25. Whether Cholec80-Boxes numbers seconds or the video's frames, and
how many a second it labels, public accounts do not agree on: its numbers decide (`numbering`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ...loaders import cholec80, cholec80_boxes, images
from ...loaders.cholec80_boxes import BoxedFrame
from ...loaders.errors import ImageError, InputError

SOURCE, VIDEOS = "cholec80_boxes", "cholec80"
FPS = 25  # of Cholec80's videos
SUCCESSORS = ("second", "frame")
MISSING, CLIPPED, OUTSIDE = (
    "labelled frames without their image",
    "boxes that reach beyond their frame (clipped to it)",
    "boxes outside their frame",
)

ImageRef = dict[str, str]
Box = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Numbering:
    """Second k of a video is its frame `first + step * k`."""

    step: int
    first: int = 0

    def second(self, number: int) -> int | None:
        """The second that frame `number` shows; None for a number in between."""
        k, rest = divmod(number - self.first, self.step)
        return None if rest or k < 0 else k

    def video_frame(self, number: int) -> int | None:
        """The number of the same frame in the 25-fps video; None where there is none."""
        place, rest = divmod(FPS * (number - self.first), self.step)
        return None if rest or place < 0 else place


def numbering(frames: Sequence[BoxedFrame], *, step: int | None = None, first: int | None = None) -> Numbering:
    """How Cholec80-Boxes numbers its frames, as far as it is not given.

    Numbers whose steps share the divisor 25 or 5 are those of the 25-fps video (labelled once or five times a second),
    consecutive ones count seconds; the first second is the smallest number that fits. Raises InputError for other
    steps, which have to be named.
    """
    numbers = {video: sorted({f.frame for f in frames if f.video == video}) for video in {f.video for f in frames}}
    shared = math.gcd(*(after - before for of_one in numbers.values() for before, after in pairwise(of_one)))
    if step is None:
        if shared > 1 and shared % FPS and FPS % shared:
            raise InputError(
                "Cholec80-Boxes",
                f"its frames are numbered in steps of {shared}",
                expected="frames of the 25-fps video (steps of 25 or 5), or seconds",
                action="give --boxes-step, the frame numbers a second, and --boxes-first, the first second's",
            )
        step = FPS if shared > 1 else 1
    if first is None:
        first = min((f.frame for f in frames), default=0) % math.gcd(shared, step)
    return Numbering(step, first)


def reference(source: str, key: str) -> ImageRef:
    return {"source": source, "key": key, "view": ""}


def sizes(references: Sequence[ImageRef], roots: Mapping[str, Path], *, workers: int) -> list[tuple[int, int] | None]:
    """(width, height) of each image, None for one that is missing. Raises ImageError for one that cannot be read."""

    def size(ref: ImageRef) -> tuple[int, int] | None:
        return images.image_size(ref, roots) if _exists(ref, roots) else None

    with ThreadPoolExecutor(max(1, workers)) as pool:
        bar = tqdm(pool.map(size, references), total=len(references), desc="frames", disable=None, leave=False)
        return list(bar)


class Successors:
    """Finds the frame that the optical flow of another leads to.

    kind: "second": the source's own next frame; "frame": the next one of Cholec80's video, 1/25 s later.
    """

    def __init__(self, kind: str, roots: Mapping[str, Path]) -> None:
        self._kind, self._roots = kind, roots
        self._lengths: dict[int, int] = {}

    def of(self, source: str, video: int, place: int | None, key: str) -> ImageRef | None:
        """The successor of a frame, None at a video's end.

        place: the frame's number in the 25-fps video. key: of the source's own next frame.
        """
        if self._kind == "second":
            following = reference(source, key)
            return following if _exists(following, self._roots) else None
        if place is None:
            return None
        number = place + 1
        following = reference(VIDEOS, cholec80.key(video, number))
        if video not in self._lengths:
            self._lengths[video] = cholec80.count_frames(images.locate(following, self._roots))
        return following if number < self._lengths[video] else None


def boxes_of(frame: BoxedFrame, size: tuple[int, int], counted: Counter[str]) -> list[Box]:
    """The boxes as far as they lie on the frame; `counted` gets what was cut off or left out."""
    kept = []
    for label, (x, y, width, height) in frame.boxes:
        left, top = max(x, 0.0), max(y, 0.0)
        right, bottom = min(x + width, float(size[0])), min(y + height, float(size[1]))
        if right <= left or bottom <= top:
            counted[OUTSIDE] += 1
            continue
        counted[CLIPPED] += (left, top, right, bottom) != (x, y, x + width, y + height)
        kept.append({"label": label, "xywh": [left, top, right - left, bottom - top]})
    return kept


def instrument_rows(
    frames: Sequence[BoxedFrame],
    roots: Mapping[str, Path],
    numbered: Numbering,
    *,
    kind: str = "second",
    workers: int = 1,
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """One row a labelled frame, in order of video and frame, and how many of what was left out or changed."""
    counted: Counter[str] = Counter()
    references = [reference(SOURCE, frame.key) for frame in frames]
    found = sizes(references, roots, workers=workers)
    rows, successors = [], Successors(kind, roots)
    for frame, image, size in zip(frames, references, found, strict=True):
        if size is None:
            counted[MISSING] += 1
            continue
        boxes = boxes_of(frame, size, counted)
        place = numbered.video_frame(frame.frame)
        key = cholec80_boxes.key(frame.video, frame.frame + numbered.step)
        rows.append(
            {
                "id": f"instruments/{frame.video:02d}/{frame.frame:06d}",
                "image": image,
                "successor": successors.of(SOURCE, frame.video, place, key),
                "width": size[0],
                "height": size[1],
                "video": frame.video,
                "frame": frame.frame,
                "instruments": in_order(box["label"] for box in boxes),
                "boxes": boxes,
            }
        )
    return rows, +counted


def in_order(labels: Iterator[str]) -> list[str]:
    """Each instrument once, in the order of Cholec80's classes."""
    return sorted(set(labels), key=cholec80_boxes.INSTRUMENTS.index)


def _exists(ref: ImageRef, roots: Mapping[str, Path]) -> bool:
    try:
        images.locate(ref, roots)
    except ImageError:
        return False
    return True
