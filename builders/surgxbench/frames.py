"""Frames with the instruments' boxes (section 4.1, Cholec80BBox), and which frame follows another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...loaders import cholec80, cholec80_boxes, images
from ...loaders.cholec80_boxes import BoxedFrame
from ...loaders.errors import ImageError, InputError
from ..parallel import HERE, Workers, pieces
from .seconds import Numbering, agreeing, boxed_instruments, check_seconds, tools_of

SOURCE, VIDEOS = "cholec80_boxes", "cholec80"
IMAGES_A_TASK = 100
SUCCESSORS = ("second", "frame")
MISSING, CLIPPED, OUTSIDE = (
    "labelled frames without their image",
    "boxes that reach beyond their frame (clipped to it)",
    "boxes outside their frame",
)
OTHER_TOOLS = "frames whose boxes and Cholec80's tool annotations name different instruments"

ImageRef = dict[str, str]
Box = dict[str, Any]


def reference(source: str, key: str) -> ImageRef:
    return {"source": source, "key": key, "view": ""}


def sizes(
    references: Sequence[ImageRef], roots: Mapping[str, Path], *, workers: Workers = HERE
) -> list[tuple[int, int] | None]:
    """(width, height) of each image, None for one that is missing. Raises ImageError for one that cannot be read."""
    tasks, work = pieces(references, IMAGES_A_TASK), partial(_sizes, roots=roots)
    with workers.each(work, tasks, title="reading frames", unit="images", total=len(references), small=True) as found:
        return [size for of_task in found for size in of_task]


def _sizes(references: Sequence[ImageRef], roots: Mapping[str, Path]) -> list[tuple[int, int] | None]:
    return [images.read_image_size(ref, roots) if _exists(ref, roots) else None for ref in references]


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
    workers: Workers = HERE,
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """One row a labelled frame, in order of video and frame, and how many of what was left out or changed.

    kind: of the successors. "frame" rests on the seconds that the numbers stand for, so that these are held against
    Cholec80's tool annotations. Raises InputError where they are others (`seconds.check_seconds`).
    """
    counted = _check_tools(frames, roots, numbered) if kind == "frame" else Counter()
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


def _check_tools(frames: Sequence[BoxedFrame], roots: Mapping[str, Path], numbered: Numbering) -> Counter[str]:
    tools = tools_of(roots[VIDEOS], sorted({frame.video for frame in frames}))
    boxed = boxed_instruments(frames, numbered, cholec80_boxes.INSTRUMENTS)
    counted = check_seconds(tools, boxed, numbered, roots[SOURCE])
    of_both = {place: names for place, names in tools.items() if place in boxed}
    if not of_both:
        raise InputError(
            roots[SOURCE],
            "no frame with boxes is at a second that Cholec80's tool tables name",
            expected="frames numbered as --boxes-first and --boxes-step say",
            action="give the number of the first second as --boxes-first, or leave the option out",
        )
    counted[OTHER_TOOLS] = agreeing(of_both, boxed).count(False)
    return counted


def in_order(labels: Iterator[str]) -> list[str]:
    """Each instrument once, in the order of Cholec80's classes."""
    return sorted(set(labels), key=cholec80_boxes.INSTRUMENTS.index)


def _exists(ref: ImageRef, roots: Mapping[str, Path]) -> bool:
    try:
        images.locate(ref, roots)
    except ImageError:
        return False
    return True
