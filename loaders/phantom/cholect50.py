"""A synthetic CholecT50: a PNG a second and a JSON file a video; the videos in BOXED have the instruments' boxes.

Frame k is frame 25 k of the synthetic Cholec80 of the same seed. A vector is one tool: two with the same action are
two.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from PIL import Image

from .cholect45 import ids, maps, names
from .surgery import FPS, SECONDS, Clip, Seen, clip

VIDEOS = (42, 43, 111)  # two of CholecT45, and one that is not
BOXED = (43, 111)
PHASE_NAMES = (
    "preparation", "carlot-triangle-dissection", "clipping-and-cutting", "gallbladder-dissection",
    "gallbladder-packaging", "cleaning-and-coagulation", "gallbladder-extraction",
)  # fmt: skip
NONE = -1


def write(root: Path, *, seed: int) -> Path:
    """Write the images and the JSON file of labels of each of VIDEOS, and label_mapping.txt.

    Args:
        root: The folder to write to.
        seed: The seed of the videos.

    Returns:
        `root`.
    """
    (root / "labels").mkdir(parents=True, exist_ok=True)
    (root / "label_mapping.txt").write_text(maps(), encoding="utf-8")
    for video in VIDEOS:
        video_clip = clip(video, seed=seed)
        folder = root / "videos" / f"VID{video:02d}"
        folder.mkdir(parents=True, exist_ok=True)
        for time in range(SECONDS):
            Image.fromarray(video_clip.frame(FPS * time)).save(folder / f"{time:06d}.png")
        content = json.dumps(_labels(video, video_clip), indent=1)
        (root / "labels" / f"VID{video:02d}.json").write_text(content + "\n", encoding="utf-8")
    return root


def _labels(video: int, video_clip: Clip) -> dict[str, Any]:
    classes = {**names(), "phase": PHASE_NAMES}
    return {
        "video": video,
        "fps": 1,
        "num_frames": SECONDS,
        "categories": {
            component: {str(n): text for n, text in enumerate(texts)} for component, texts in classes.items()
        },
        "annotations": {str(time): _vectors(video_clip, FPS * time, boxed=video in BOXED) for time in range(SECONDS)},
        "info": {"description": "medfaith phantom, synthetic", "bbox format": "[x, y, w, h], shares of the frame"},
        "licenses": [{"id": 1, "name": "none: drawn from a seed"}],
    }


def _vectors(video_clip: Clip, t: int, *, boxed: bool) -> list[list[float]]:
    """Build a vector of 15 for each tool with a triplet, or one with the phase only."""
    acting = [tool for tool in video_clip.seen(t) if tool.deed]
    vectors = [_vector(tool, video_clip.size, boxed=boxed) for tool in acting] or [[NONE] * 14]
    return [[*vector, video_clip.phase(t)] for vector in vectors]


def _vector(tool: Seen, size: tuple[int, int], *, boxed: bool) -> list[float]:
    """Build all values but the phase: triplet; instrument, score, box; verb; target, score, box (always missing)."""
    assert tool.deed is not None
    triplet, instrument, verb, target = ids((tool.instrument, *tool.deed))
    height, width = size
    x, y, w, h = tool.xywh
    box = (x / width, y / height, w / width, h / height) if boxed else (NONE,) * 4
    return [triplet, instrument, 1, *box, verb, target, *(NONE,) * 5]
