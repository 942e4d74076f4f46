"""Frames of CholecT45 (or CholecT50) whose instruments have boxes: action triplets for RAS (sections 3.4.2, 4.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ...loaders.cholec80_boxes import BoxedFrame
from ...loaders.cholec_triplets import INSTRUMENTS, TRIPLETS
from ...loaders.errors import InputError
from .frames import MISSING, Numbering, Successors, boxes_of, in_order, reference, sizes

WITHOUT_BOX = "frames with a triplet and no box"
OTHER_INSTRUMENTS = "frames whose triplets and boxes name different instruments"


def triplet_rows(
    reader: ModuleType,
    source: str,
    roots: Mapping[str, Path],
    boxed: Sequence[BoxedFrame],
    numbered: Numbering,
    *,
    kind: str = "second",
    workers: int = 1,
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """One row a frame of the videos that have boxes, in order, and how many of what was left out or does not agree.

    reader: loaders.cholect45 or loaders.cholect50, of `source`. Raises InputError where no video has both.
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
    counted: Counter[str] = Counter()
    rows, successors = [], Successors(kind, roots)
    for video in shared:
        labels = reader.read_video(roots[source], video)
        for part, n_frames in labels.disagreeing.items():
            counted[f"frames whose {part} labels are not those of their triplets (kept as they are)"] += n_frames
        seconds = [int(number) for number in labels.frames]
        references = [reference(source, reader.key(video, second)) for second in seconds]
        found = sizes(references, roots, workers=workers)
        for second, image, size, present in zip(seconds, references, found, labels.triplets, strict=True):
            if size is None:
                counted[MISSING] += 1
                continue
            frame = by_second.get((video, second))
            boxes = boxes_of(frame, size, counted) if frame else []
            triplets = [_triplet(int(number)) for number in np.flatnonzero(present)]
            instruments = in_order(triplet["instrument"] for triplet in triplets)
            counted[WITHOUT_BOX] += bool(triplets) and not boxes
            boxed_instruments = {box["label"] for box in boxes} & set(INSTRUMENTS)
            counted[OTHER_INSTRUMENTS] += bool(boxes) and boxed_instruments != set(instruments)
            rows.append(
                {
                    "id": f"triplets/{video:02d}/{second:06d}",
                    "image": image,
                    "successor": successors.of(source, video, second, reader.key(video, second + 1)),
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
    return rows, +counted


def _triplet(number: int) -> dict[str, Any]:
    instrument, verb, target = TRIPLETS[number]
    return {"id": number, "instrument": instrument, "verb": verb, "target": target}
