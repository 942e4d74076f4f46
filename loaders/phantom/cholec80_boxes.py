"""A synthetic Cholec80-Boxes: ROI_Labels.csv and a PNG a second, numbered by its 25-fps frame.

Frames without a tool have an image and no row. The images show the same videos as the synthetic CholecT45, CholecT50
and Cholec80 of the same seed.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from .surgery import FPS, N_FRAMES, Clip, clip

VIDEOS = (41, 42, 43, 44, 45)
HEADER = (
    "Surgery_num", "Dir", "FrameName", "NumBBox_inFrame", "ToolName", "BBox_X", "BBox_Y", "BBox_Width", "BBox_Height",
)  # fmt: skip
TOOLS = {
    "grasper": "Grasper",
    "bipolar": "Bipolar",
    "hook": "Hook",
    "scissors": "Scissors",
    "clipper": "Clipper",
    "irrigator": "Irrigator",
    "specimen_bag": "SpecimenBag",
}


def write(root: Path, *, seed: int) -> Path:
    """Write the images of VIDEOS, and ROI_Labels.csv with the boxes of the tools in them.

    Args:
        root: The folder to write to.
        seed: The seed of the videos.

    Returns:
        `root`.
    """
    clips = {video: clip(video, seed=seed) for video in VIDEOS}
    for video, video_clip in clips.items():
        folder = root / "Images" / f"Video_{video}"
        folder.mkdir(parents=True, exist_ok=True)
        for t in range(0, N_FRAMES, FPS):
            Image.fromarray(video_clip.frame(t)).save(folder / f"Video_{video}_{t:05d}.png")
    with (root / "ROI_Labels.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=";", lineterminator="\n")
        writer.writerow(HEADER)
        for video, video_clip in clips.items():
            writer.writerows(_rows(video, video_clip))
    return root


def _rows(video: int, video_clip: Clip) -> Iterator[tuple[object, ...]]:
    for t in range(0, N_FRAMES, FPS):
        for number, (instrument, xywh) in enumerate(video_clip.boxes(t), start=1):
            name = f"Video_{video}_{t:05d}.png"
            yield video, f"Images\\Video_{video}", name, number, TOOLS[instrument], *xywh
