"""Frames of CholecSeg8k with the boxes of their instruments, one frame of each second of a clip."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...loaders import cholecseg8k, images
from ...loaders.cholecseg8k import FPS, FRAMES, Box, LabelledFrame
from ..parallel import HERE, Workers, pieces
from .frames import IMAGES_A_TASK, build_reference, sort_instruments
from .reasons import LACKING, SMALL

SOURCE = "cholecseg8k"
NEXT = {"second": FPS, "frame": 1}  # frames to the successor


def select_frames(frames: Sequence[LabelledFrame]) -> list[LabelledFrame]:
    """Select one frame in FPS of each clip, from the clip's first one. The frames between are nearly the same picture.

    Args:
        frames: The frames.

    Returns:
        The selected frames.
    """
    return [frame for frame in frames if (frame.frame - frame.clip) % FPS == 0]


def build_segmented_rows(
    frames: Sequence[LabelledFrame], roots: Mapping[str, Path], *, kind: str = "second", workers: Workers = HERE
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Build one row per selected frame, in order of video and frame. A frame without an instrument has a row, too.

    Args:
        frames: All frames.
        roots: Folder of each source, by source id.
        kind: The kind of the successors, a key of NEXT. They are in the frame's own clip.
        workers: The workers that read the images and masks.

    Returns:
        Rows in the schema INSTRUMENTS, and the counts of skipped items by reason.

    Raises:
        InputError: A mask is damaged, or is no watershed mask of its frame.
        ImageError: A frame cannot be read.
    """
    selected = select_frames(frames)
    key_by_place = {(frame.clip, frame.video, frame.frame): frame.key for frame in frames}
    tasks, work = pieces(selected, IMAGES_A_TASK), partial(_read_frames, roots=roots)
    with workers.map(work, tasks, title="reading masks", unit="frames", total=len(selected)) as results:
        readings = [reading for task_readings in results for reading in task_readings]
    counted = Counter({LACKING: FRAMES - len(frames), SMALL: sum(n_small for _, _, n_small in readings)})
    rows = []
    for frame, (size, boxes, _) in zip(selected, readings, strict=True):
        successor = key_by_place.get((frame.clip, frame.video, frame.frame + NEXT[kind]))
        rows.append(
            {
                "id": f"instruments_seg8k/{frame.video:02d}/{frame.frame:06d}",
                "image": build_reference(SOURCE, frame.key),
                "successor": build_reference(SOURCE, successor) if successor else None,
                "width": size[0],
                "height": size[1],
                "video": frame.video,
                "frame": frame.frame,
                "instruments": sort_instruments(name for name, _ in boxes),
                "boxes": [{"label": name, "xywh": [*map(float, xywh)]} for name, xywh in boxes],
            }
        )
    return rows, +counted


def _read_frames(
    frames: Sequence[LabelledFrame], roots: Mapping[str, Path]
) -> list[tuple[tuple[int, int], list[Box], int]]:
    """Read the size, the boxes and the number of small components of each frame."""
    readings = []
    for frame in frames:
        size = images.read_image_size(build_reference(SOURCE, frame.key), roots)
        readings.append((size, *cholecseg8k.find_boxes(cholecseg8k.read_mask(frame.mask, size))))
    return readings
