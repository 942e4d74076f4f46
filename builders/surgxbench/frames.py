"""Frames with the instruments' boxes (section 4.1, Cholec80BBox), and the successor of each frame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...loaders import cholec80, cholec80_boxes, images
from ...loaders.cholec80_boxes import BoxedFrame
from ...loaders.errors import ImageError, InputError
from ..parallel import HERE, Workers, pieces
from .reasons import CLIPPED, MISSING, OTHER_TOOLS, OUTSIDE
from .seconds import Numbering, check_seconds, collect_boxed_instruments, compare_seconds, read_tools_by_second

SOURCE, VIDEOS = "cholec80_boxes", "cholec80"
IMAGES_A_TASK = 100
SUCCESSORS = ("second", "frame")
FAR = 0.05  # of a side: boxes that people draw to a frame's edge end a few pixels beyond it
SHARE_ASTRAY, FEWEST_ASTRAY = 0.05, 10

ImageRef = dict[str, str]
Box = dict[str, Any]


def build_reference(source: str, key: str) -> ImageRef:
    """Build the ImageRef of a frame.

    Args:
        source: The id of the source.
        key: The key of the image.

    Returns:
        The ImageRef.
    """
    return {"source": source, "key": key, "view": ""}


def read_sizes(
    references: Sequence[ImageRef], roots: Mapping[str, Path], *, workers: Workers = HERE
) -> list[tuple[int, int] | None]:
    """Read the sizes of images.

    Args:
        references: The ImageRefs.
        roots: Folder of each source, by source id.
        workers: The workers that read the files.

    Returns:
        Width and height of each image in pixels; None for a missing image.

    Raises:
        ImageError: An image cannot be read.
    """
    tasks, work = pieces(references, IMAGES_A_TASK), partial(_read_sizes, roots=roots)
    with workers.map(work, tasks, title="reading frames", unit="images", total=len(references), small=True) as results:
        return [size for task_sizes in results for size in task_sizes]


def _read_sizes(references: Sequence[ImageRef], roots: Mapping[str, Path]) -> list[tuple[int, int] | None]:
    return [images.read_image_size(ref, roots) if has_image(ref, roots) else None for ref in references]


class Successors:
    """Find the successor of a frame: the second frame of the optical flow.

    Args:
        kind: "second" for the source's next frame, "frame" for the next frame of Cholec80's video, 1/25 s later.
        roots: Folder of each source, by source id.
    """

    def __init__(self, kind: str, roots: Mapping[str, Path]) -> None:
        self._kind, self._roots = kind, roots
        self._lengths: dict[int, int] = {}

    def find(self, source: str, video: int, video_frame: int | None, key: str) -> ImageRef | None:
        """Find the successor of a frame.

        Args:
            source: The id of the source.
            video: The number of the video.
            video_frame: The frame's number in the 25-fps video; None if it has none.
            key: The key of the source's next frame.

        Returns:
            The ImageRef of the successor; None if the video ends before it, the source's next frame has no file, or the
            frame has no number in the video.
        """
        if self._kind == "second":
            successor = build_reference(source, key)
            return successor if has_image(successor, self._roots) else None
        if video_frame is None:
            return None
        number = video_frame + 1
        successor = build_reference(VIDEOS, cholec80.key(video, number))
        if video not in self._lengths:
            self._lengths[video] = cholec80.count_frames(images.locate(successor, self._roots))
        return successor if number < self._lengths[video] else None


def clip_boxes(frame: BoxedFrame, size: tuple[int, int], counted: Counter[str]) -> list[Box]:
    """Clip the boxes of a frame to its image and drop boxes that lie outside.

    Args:
        frame: The frame.
        size: Width and height of the image in pixels.
        counted: Counts the clipped and the dropped boxes.

    Returns:
        The boxes.
    """
    boxes = []
    for label, (x, y, width, height) in frame.boxes:
        x1, y1 = max(x, 0.0), max(y, 0.0)
        x2, y2 = min(x + width, float(size[0])), min(y + height, float(size[1]))
        if x2 <= x1 or y2 <= y1:
            counted[OUTSIDE] += 1
            continue
        counted[CLIPPED] += (x1, y1, x2, y2) != (x, y, x + width, y + height)
        boxes.append({"label": label, "xywh": [x1, y1, x2 - x1, y2 - y1]})
    return boxes


def check_fit(sized_frames: Iterable[tuple[BoxedFrame, tuple[int, int]]], root: Path) -> None:
    """Check that boxes rarely reach far beyond their frames.

    Otherwise they were drawn on other frames: in a scaled-down copy all boxes would be wrong.

    Args:
        sized_frames: The frames with their width and height in pixels.
        root: The folder of the frames, for the message.

    Raises:
        InputError: Too many boxes reach far beyond their frames.
    """
    n_boxes = n_astray = 0
    for frame, (width, height) in sized_frames:
        for _, (x, y, box_width, box_height) in frame.boxes:
            beyond = max(-x / width, (x + box_width) / width - 1, -y / height, (y + box_height) / height - 1)
            n_boxes += 1
            n_astray += beyond > FAR
    if n_astray >= FEWEST_ASTRAY and n_astray > SHARE_ASTRAY * n_boxes:
        problem = (
            f"{n_astray} of {n_boxes} boxes reach far beyond its frames, which seem not to be those they belong to"
        )
        raise InputError(
            root,
            problem,
            expected="frames of the size on which the boxes were drawn",
            action="use the frames as they are released, not scaled; or scale the boxes with them",
        )


def build_missing_error(references: Sequence[ImageRef], roots: Mapping[str, Path]) -> InputError:
    """Build the error about frames of which none is there. It says why the first one cannot be found.

    Args:
        references: The ImageRefs, at least one.
        roots: Folder of each source, by source id.

    Returns:
        The error, to raise.
    """
    action = "unpack them"
    problem = f"none of its {len(references)} labelled frames is there"
    try:
        images.locate(references[0], roots)
    except ImageError as error:
        cause, *_, action = str(error).splitlines()
        problem += f"; {cause}"
    return InputError(roots[references[0]["source"]], problem, action=action.removeprefix("  what to do: "))


def build_instrument_rows(
    frames: Sequence[BoxedFrame],
    roots: Mapping[str, Path],
    frame_numbering: Numbering,
    *,
    kind: str = "second",
    workers: Workers = HERE,
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Build one row per labelled frame, in order of video and frame.

    Successors of kind "frame" depend on the seconds that the frame numbers represent, so they are compared with
    Cholec80's tool annotations (`seconds.check_seconds`).

    Args:
        frames: The labelled frames.
        roots: Folder of each source, by source id.
        frame_numbering: The numbering of the frames.
        kind: The kind of the successors.
        workers: The workers that read the images.

    Returns:
        Rows in the schema INSTRUMENTS, and the counts of skipped or changed items by reason.

    Raises:
        InputError: The frame numbers represent other seconds than Cholec80's, the boxes do not fit the frames, or no
            frame has an image.
    """
    counted = _check_tools(frames, roots, frame_numbering) if kind == "frame" else Counter()
    references = [build_reference(SOURCE, frame.key) for frame in frames]
    sizes = read_sizes(references, roots, workers=workers)
    check_fit(((frame, size) for frame, size in zip(frames, sizes, strict=True) if size), roots[SOURCE])
    rows, successors = [], Successors(kind, roots)
    for frame, image, size in zip(frames, references, sizes, strict=True):
        if size is None:
            counted[MISSING] += 1
            continue
        boxes = clip_boxes(frame, size, counted)
        place = frame_numbering.find_video_frame(frame.frame)
        key = cholec80_boxes.key(frame.video, frame.frame + frame_numbering.step)
        rows.append(
            {
                "id": f"instruments/{frame.video:02d}/{frame.frame:06d}",
                "image": image,
                "successor": successors.find(SOURCE, frame.video, place, key),
                "width": size[0],
                "height": size[1],
                "video": frame.video,
                "frame": frame.frame,
                "instruments": sort_instruments(box["label"] for box in boxes),
                "boxes": boxes,
            }
        )
    if not rows:
        raise build_missing_error(references, roots)
    return rows, +counted


def _check_tools(frames: Sequence[BoxedFrame], roots: Mapping[str, Path], frame_numbering: Numbering) -> Counter[str]:
    tools = read_tools_by_second(roots[VIDEOS], sorted({frame.video for frame in frames}))
    boxed_by_second = collect_boxed_instruments(frames, frame_numbering, cholec80_boxes.INSTRUMENTS)
    counted = check_seconds(tools, boxed_by_second, frame_numbering, roots[SOURCE])
    shared_tools = {place: names for place, names in tools.items() if place in boxed_by_second}
    if not shared_tools:
        raise InputError(
            roots[SOURCE],
            "no frame with boxes is at a second that Cholec80's tool tables name",
            expected="frames numbered as --boxes-first and --boxes-step say",
            action="give the number of the first second as --boxes-first, or leave the option out",
        )
    counted[OTHER_TOOLS] = compare_seconds(shared_tools, boxed_by_second).count(False)
    return counted


def sort_instruments(labels: Iterator[str]) -> list[str]:
    """Sort instruments in the order of Cholec80's classes, each once.

    Args:
        labels: The instruments.

    Returns:
        The instruments.
    """
    return sorted(set(labels), key=cholec80_boxes.INSTRUMENTS.index)


def has_image(ref: ImageRef, roots: Mapping[str, Path]) -> bool:
    """Return whether the file of an image exists.

    Args:
        ref: The ImageRef.
        roots: Folder of each source, by source id.

    Returns:
        False if it is missing or empty.
    """
    try:
        images.locate(ref, roots)
    except ImageError:
        return False
    return True
