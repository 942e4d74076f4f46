"""Frames of CholecT45 (or CholecT50) whose instruments have boxes: action triplets for RAS (sections 3.4.2, 4.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ...loaders.cholec80_boxes import BoxedFrame
from ...loaders.cholec_triplets import INSTRUMENTS, TRIPLETS, TripletVideo, parts_of
from ...loaders.errors import InputError
from ..parallel import HERE, Workers
from .frames import (
    SOURCE,
    ImageRef,
    Successors,
    build_missing_error,
    build_reference,
    check_fit,
    clip_boxes,
    has_image,
    read_sizes,
    sort_instruments,
)
from .reasons import LACKING_VIDEOS, MISSING, OTHER_INSTRUMENTS, OTHER_LABELS, UNLABELLED, WITHOUT_BOX
from .seconds import FPS, Numbering, check_seconds, collect_boxed_instruments

BOXED_VIDEOS = (42, 43)  # those of both releases that have boxes
CHECK_NUMBERING = (
    "check --boxes-step and --boxes-first: the frame numbers of Cholec80-Boxes a second, and of the first one"
)


class TripletDataset(NamedTuple):
    """A data set of frames with triplets.

    Attributes:
        config: The name of the config.
        source: The id of the source.
        reader: loaders.cholect45 or loaders.cholect50.
    """

    config: str
    source: str
    reader: ModuleType


def build_triplet_rows(
    dataset: TripletDataset,
    roots: Mapping[str, Path],
    boxed_frames: Sequence[BoxedFrame],
    frame_numbering: Numbering,
    *,
    kind: str = "second",
    workers: Workers = HERE,
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Build one row per frame of the videos that have boxes, in order.

    Args:
        dataset: The data set with the triplets.
        roots: Folder of each source, by source id.
        boxed_frames: The frames of Cholec80-Boxes.
        frame_numbering: The numbering of these frames.
        kind: The kind of the successors.
        workers: The workers that read the images.

    Returns:
        Rows in the schema TRIPLETS, and the counts of skipped or contradicting items by reason.

    Raises:
        InputError: No video has both triplets and boxes, the boxes belong to other seconds or to frames of another
            size, or no frame has an image.
    """
    config, source, reader = dataset
    by_second = {(frame.video, frame_numbering.find_second(frame.frame)): frame for frame in boxed_frames}
    shared_videos = [
        video for video in reader.videos(roots[source]) if video in {frame.video for frame in boxed_frames}
    ]
    if not shared_videos:
        raise InputError(
            roots[source],
            "has no video that has boxes",
            expected="videos 42 and 43, as Cholec80-Boxes has 41 to 45",
            action="complete the copy of the source",
        )
    labelled_videos = [reader.read_video(roots[source], video) for video in shared_videos]
    counted = check_seconds(
        _collect_instruments(labelled_videos),
        collect_boxed_instruments(boxed_frames, frame_numbering, INSTRUMENTS),
        frame_numbering,
        roots[SOURCE],
    )
    counted[LACKING_VIDEOS] += len({*BOXED_VIDEOS} & {frame.video for frame in boxed_frames} - {*shared_videos})
    rows, successors = [], Successors(kind, roots)
    sized_frames: list[tuple[BoxedFrame, tuple[int, int]]] = []
    all_references: list[ImageRef] = []
    for labels in labelled_videos:
        video = labels.video
        for component, n_frames in labels.disagreeing.items():
            counted[OTHER_LABELS[component]] += n_frames
        seconds = [int(number) for number in labels.frames]
        references = [build_reference(source, reader.key(video, second_number)) for second_number in seconds]
        all_references += references
        sizes = read_sizes(references, roots, workers=workers)
        if seconds[0] == 0 and sizes[0] is None:
            _refuse_frames_from_1(references[0], build_reference(source, reader.key(video, seconds[-1] + 1)), roots)
        _check_pixels(video, boxed_frames, next((size for size in sizes if size), None), roots)
        counted[UNLABELLED] += len(
            {
                frame_second
                for frame_video, frame_second in by_second
                if frame_video == video and frame_second is not None
            }
            - set(seconds)
        )
        for second_number, image, size, is_present in zip(seconds, references, sizes, labels.triplets, strict=True):
            if size is None:
                counted[MISSING] += 1
                continue
            frame = by_second.get((video, second_number))
            boxes = clip_boxes(frame, size, counted) if frame else []
            if frame:
                sized_frames.append((frame, size))
            triplets = [_build_triplet(int(number)) for number in np.flatnonzero(is_present)]
            instruments = sort_instruments(triplet["instrument"] for triplet in triplets)
            counted[WITHOUT_BOX] += bool(triplets) and not boxes
            box_instruments = {box["label"] for box in boxes} & set(INSTRUMENTS)
            counted[OTHER_INSTRUMENTS] += bool(boxes) and box_instruments != set(instruments)
            rows.append(
                {
                    "id": f"{config}/{video:02d}/{second_number:06d}",
                    "image": image,
                    "successor": successors.find(
                        source, video, FPS * second_number, reader.key(video, second_number + 1)
                    ),
                    "width": size[0],
                    "height": size[1],
                    "video": video,
                    "frame": second_number,
                    "instruments": instruments,
                    "boxes": boxes,
                    "triplets": triplets,
                    "motion": None,
                    "camera": None,
                }
            )
    if not rows:
        raise build_missing_error(all_references, roots)
    check_fit(sized_frames, roots[source])
    _check_agreement(rows, counted, roots[source])
    return rows, +counted


def _collect_instruments(labelled_videos: Sequence[TripletVideo]) -> dict[tuple[int, int], frozenset[str]]:
    """Collect the instruments in the triplets of each (video, second)."""
    return {
        (labels.video, second_number): frozenset(
            name for name, is_visible in zip(INSTRUMENTS, is_present, strict=True) if is_visible
        )
        for labels in labelled_videos
        for second_number, is_present in zip(labels.frames.tolist(), parts_of(labels.triplets)[0], strict=True)
    }


def _refuse_frames_from_1(first: ImageRef, after_last: ImageRef, roots: Mapping[str, Path]) -> None:
    """Refuse the frames of a video whose first frame is missing, if one follows the last labelled one.

    ffmpeg numbers frames from 1. The labels of a frame would be those of the next one.

    Raises:
        InputError: The frames are numbered from 1.
    """
    if has_image(after_last, roots):
        folder, _, name = first["key"].rpartition("/")
        last_name = after_last["key"].rpartition("/")[2]
        raise InputError(
            roots[first["source"]] / folder,
            f"its frames are numbered from 1, as {name} is missing and {last_name} is after the last label",
            expected=f"frames numbered from 0, as the labels: {name} is the first",
            action="subtract 1 from the numbers of the frames, or unpack the release again",
        )


def _check_pixels(
    video: int, boxed_frames: Sequence[BoxedFrame], size: tuple[int, int] | None, roots: Mapping[str, Path]
) -> None:
    """Check the size of the frames on which a video's boxes were drawn, if these frames exist.

    Raises:
        InputError: It differs from `size`.
    """
    references = [build_reference(SOURCE, frame.key) for frame in boxed_frames if frame.video == video]
    boxed_size = next((read_size for read_size in read_sizes(references[:5], roots) if read_size), None)
    if boxed_size and size and boxed_size != size:
        boxed_pixels, triplet_pixels = (f"{width} x {height} pixels" for width, height in (boxed_size, size))
        raise InputError(
            roots[SOURCE],
            f"its frames of video {video} have {boxed_pixels}, those with triplets {triplet_pixels}",
            expected="frames of one size: boxes are in pixels",
            action="use both sources as they are released, or scale the boxes and their frames",
        )


def _check_agreement(rows: Sequence[Mapping[str, Any]], counted: Mapping[str, int], root: Path) -> None:
    """Check that boxes and triplets of most frames have the same instruments.

    Raises:
        InputError: Most frames have boxes of other instruments, or no box.
    """
    n_named = sum(bool(row["triplets"]) for row in rows)
    n_odd = counted[WITHOUT_BOX] + counted[OTHER_INSTRUMENTS]
    if 2 * n_odd > n_named:
        problem = f"of {n_named} frames with triplets {n_odd} have no box, or boxes of other instruments"
        raise InputError(root, problem, expected="boxes of the same frames", action=CHECK_NUMBERING)


def _build_triplet(number: int) -> dict[str, Any]:
    instrument, verb, target = TRIPLETS[number]
    return {"id": number, "instrument": instrument, "verb": verb, "target": target}
