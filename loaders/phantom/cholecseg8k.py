"""A synthetic CholecSeg8k: clips of two frames with their masks, and half the size of the other synthetic videos.

The release has 80 frames in each clip. The only tools are the two that it labels. As in the release, white lines
separate the regions of a watershed mask, and some masks have an opaque fourth channel.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from .surgery import FPS, SECONDS, Clip, clip

VIDEOS = (1, 9, 12, 17, 18)
LENGTH = 2  # frames of a clip
LEVELS = {"grasper": 31, "hook": 32}
LIVER, WALL, BLACK, LINE = 21, 11, 50, 255
COLOURS = {  # of the colour mask
    LIVER: (255, 114, 114),
    WALL: (210, 140, 140),
    BLACK: (127, 127, 127),
    LEVELS["grasper"]: (170, 255, 0),
    LEVELS["hook"]: (169, 255, 184),
    LINE: (255, 255, 255),
}
OPAQUE = VIDEOS[1]  # the video whose masks have a fourth channel


def write(root: Path, *, seed: int) -> Path:
    """Write each clip of VIDEOS (one starts each second) as a folder of frames and their masks.

    Args:
        root: The folder to write to.
        seed: The seed of the videos.

    Returns:
        `root`.
    """
    for video in VIDEOS:
        video_clip = draw_video(video, seed=seed)
        for start in range(0, SECONDS * FPS, FPS):
            folder = root / f"video{video:02d}" / f"video{video:02d}_{start:05d}"
            folder.mkdir(parents=True)
            for t in range(start, start + LENGTH):
                for kind, pixels in _draw_files(video_clip, t, opaque=video == OPAQUE).items():
                    Image.fromarray(pixels).save(folder / f"frame_{t}_endo{kind}.png")
    return root


def draw_video(video: int, *, seed: int) -> Clip:
    """Draw a video with the tools that CholecSeg8k labels.

    Args:
        video: The number of the video.
        seed: The seed.

    Returns:
        The video.
    """
    full_clip = clip(video, seed=seed)
    return replace(full_clip, tools=tuple(tool for tool in full_clip.tools if tool.instrument in LEVELS))


def draw_classes(video_clip: Clip, t: int) -> np.ndarray:
    """Compute the level of each pixel's class, at half of the clip's size.

    Args:
        video_clip: The video.
        t: The frame.

    Returns:
        uint8 of shape (h, w).
    """
    height, width = video_clip.size
    levels = np.full((height // 2, width // 2), BLACK if video_clip.is_black(t) else LIVER, dtype=np.uint8)
    if not video_clip.is_black(t):
        levels[: height // 6] = WALL
        for instrument, level in LEVELS.items():
            levels[video_clip.tool_mask(t, instrument)[::2, ::2]] = level
    return levels


def _draw_files(video_clip: Clip, t: int, *, opaque: bool) -> dict[str, np.ndarray]:
    """Draw the frame and its masks, by the last part of their names."""
    levels = draw_classes(video_clip, t)
    is_line = np.zeros(levels.shape, dtype=bool)
    is_line[:-1] |= levels[:-1] != levels[1:]
    is_line[:, :-1] |= levels[:, :-1] != levels[:, 1:]
    is_line[[0, -1]] = is_line[:, [0, -1]] = True
    watershed = np.where(is_line, LINE, levels).astype(np.uint8)
    palette = np.zeros((256, 3), dtype=np.uint8)
    palette[list(COLOURS)] = list(COLOURS.values())
    channels = [watershed] * 3 + [np.full_like(watershed, 255)] * opaque
    return {
        "": video_clip.frame(t)[::2, ::2],
        "_mask": np.dstack([np.where(is_line, 0, levels).astype(np.uint8)] * 3),
        "_color_mask": palette[watershed],
        "_watershed_mask": np.dstack(channels),
    }
