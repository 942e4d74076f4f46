"""Frames of CholecT45 (or CholecT50) whose instruments have boxes: action triplets for RAS (sections 3.4.2, 4.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ...loaders.cholec80_boxes import BoxedFrame
from ...loaders.cholec_triplets import INSTRUMENTS, TRIPLETS, TripletVideo, parts_of
from ...loaders.errors import InputError
from ..parallel import HERE, Workers
from .frames import MISSING, SOURCE, Successors, boxes_of, in_order, reference, sizes
from .seconds import FPS, Numbering, boxed_instruments, check_seconds

WITHOUT_BOX = "frames with a triplet and no box"
UNLABELLED = "frames with boxes that have no triplet labels"
MEND = "check --boxes-step and --boxes-first: the frame numbers of Cholec80-Boxes a second, and of the first one"
OTHER_INSTRUMENTS = "frames whose triplets and boxes name different instruments"


def triplet_rows(
    reader: ModuleType,
    config: str,
    source: str,
    roots: Mapping[str, Path],
    boxed: Sequence[BoxedFrame],
    numbered: Numbering,
    *,
    kind: str = "second",
    workers: Workers = HERE,
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """One row a frame of the videos that have boxes, in order, and how many of what was left out or does not agree.

    reader: loaders.cholect45 or loaders.cholect50, of `source`. Raises InputError where no video has both, and
    where the boxes are of other seconds or of frames of another size.
    """
    by_second = {(frame.video, numbered.second(frame.frame)): frame for frame in boxed}
    shared = [video for video in reader.videos(roots[source]) if video in {frame.video for frame in boxed}]
    if not shared:
        raise InputError(
            roots[source],
            "has no video that has boxes",
            expected="videos 42 and 43, as Cholec80-Boxes has 41 to 45",
            action="complete the copy of the source",
        )
    labelled = [reader.read_video(roots[source], video) for video in shared]
    counted = check_seconds(_named(labelled), boxed_instruments(boxed, numbered, INSTRUMENTS), numbered, roots[SOURCE])
    rows, successors = [], Successors(kind, roots)
    for labels in labelled:
        video = labels.video
        for part, n_frames in labels.disagreeing.items():
            counted[f"frames whose {part} labels are not those of their triplets (kept as they are)"] += n_frames
        seconds = [int(number) for number in labels.frames]
        references = [reference(source, reader.key(video, second)) for second in seconds]
        found = sizes(references, roots, workers=workers)
        _check_pixels(video, boxed, next((size for size in found if size), None), roots)
        counted[UNLABELLED] += len({at for of, at in by_second if of == video and at is not None} - set(seconds))
        for second, image, size, present in zip(seconds, references, found, labels.triplets, strict=True):
            if size is None:
                counted[MISSING] += 1
                continue
            frame = by_second.get((video, second))
            boxes = boxes_of(frame, size, counted) if frame else []
            triplets = [_triplet(int(number)) for number in np.flatnonzero(present)]
            instruments = in_order(triplet["instrument"] for triplet in triplets)
            counted[WITHOUT_BOX] += bool(triplets) and not boxes
            of_boxes = {box["label"] for box in boxes} & set(INSTRUMENTS)
            counted[OTHER_INSTRUMENTS] += bool(boxes) and of_boxes != set(instruments)
            rows.append(
                {
                    "id": f"{config}/{video:02d}/{second:06d}",
                    "image": image,
                    "successor": successors.of(source, video, FPS * second, reader.key(video, second + 1)),
                    "width": size[0],
                    "height": size[1],
                    "video": video,
                    "frame": second,
                    "instruments": instruments,
                    "boxes": boxes,
                    "triplets": triplets,
                    "motion": None,
                    "camera": None,
                }
            )
    _check_agreement(rows, counted, roots[source])
    return rows, +counted


def _named(labelled: Sequence[TripletVideo]) -> dict[tuple[int, int], frozenset[str]]:
    """(video, second) -> the instruments that its triplets name."""
    return {
        (labels.video, second): frozenset(name for name, here in zip(INSTRUMENTS, present, strict=True) if here)
        for labels in labelled
        for second, present in zip(labels.frames.tolist(), parts_of(labels.triplets)[0], strict=True)
    }


def _check_pixels(
    video: int, boxed: Sequence[BoxedFrame], size: tuple[int, int] | None, roots: Mapping[str, Path]
) -> None:
    """Raises InputError where a video's boxes were drawn on frames of another size, as far as those are there."""
    references = [reference(SOURCE, frame.key) for frame in boxed if frame.video == video]
    drawn = next((found for found in sizes(references[:5], roots) if found), None)
    if drawn and size and drawn != size:
        theirs, ours = (f"{width} x {height} pixels" for width, height in (drawn, size))
        raise InputError(
            roots[SOURCE],
            f"its frames of video {video} have {theirs}, those with triplets {ours}",
            expected="frames of one size: boxes are in pixels",
            action="use both sources as they are released, or scale the boxes and their frames",
        )


def _check_agreement(rows: Sequence[Mapping[str, Any]], counted: Mapping[str, int], root: Path) -> None:
    """Raises InputError where most frames have boxes of other instruments than their triplets, or none."""
    n_named = sum(bool(row["triplets"]) for row in rows)
    n_odd = counted[WITHOUT_BOX] + counted[OTHER_INSTRUMENTS]
    if 2 * n_odd > n_named:
        found = f"of {n_named} frames with triplets {n_odd} have no box, or boxes of other instruments"
        raise InputError(root, found, expected="boxes of the same frames", action=MEND)


def _triplet(number: int) -> dict[str, Any]:
    instrument, verb, target = TRIPLETS[number]
    return {"id": number, "instrument": instrument, "verb": verb, "target": target}
