"""A synthetic Cholec80: two mp4 videos of 25 frames a second, with the tools of each 25th frame and every phase.

The videos are compressed versions of those in the synthetic Cholec80-Boxes, CholecT45 and CholecT50 of the same seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import MedfaithError
from .cholec80_boxes import TOOLS
from .surgery import FPS, N_FRAMES, Clip, clip

VIDEOS = (42, 43)
PHASES = (
    "Preparation", "CalotTriangleDissection", "ClippingCutting", "GallbladderDissection", "GallbladderPackaging",
    "CleaningCoagulation", "GallbladderRetraction",
)  # fmt: skip
# Without x264's macroblock tree, which gives different results in each run for frames of this size.
OPTIONS = {"crf": "14", "g": str(2 * FPS), "bf": "2", "x264-params": "mbtree=0"}


def write(root: Path, *, seed: int) -> Path:
    """Write an mp4 file, a table of tools and a table of phases for each of VIDEOS.

    Args:
        root: The folder to write to.
        seed: The seed of the videos.

    Returns:
        `root`.

    Raises:
        MedfaithError: PyAV is not installed.
    """
    for folder in ("videos", "tool_annotations", "phase_annotations"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for video in VIDEOS:
        video_clip = clip(video, seed=seed)
        name = f"video{video:02d}"
        _encode(root / "videos" / f"{name}.mp4", video_clip)
        tools = [("Frame", *TOOLS.values()), *(_tools(video_clip, t) for t in range(0, N_FRAMES, FPS))]
        _table(root / "tool_annotations" / f"{name}-tool.txt", tools)
        phases = [("Frame", "Phase"), *((t, PHASES[video_clip.phase(t)]) for t in range(N_FRAMES))]
        _table(root / "phase_annotations" / f"{name}-phase.txt", phases)
    return root


def _tools(video_clip: Clip, t: int) -> tuple[int, ...]:
    present = {tool.instrument for tool in video_clip.seen(t)}
    return t, *(int(instrument in present) for instrument in TOOLS)


def _table(path: Path, rows: Sequence[tuple[object, ...]]) -> None:
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")


def _encode(path: Path, video_clip: Clip) -> None:
    """Encode H.264 with B-frames and a key frame every two seconds; on one machine, always to the same bytes."""
    try:
        import av
    except ImportError:
        raise MedfaithError(
            "writing videos needs PyAV, which is not installed\n  what to do: uv pip install 'medfaith[video]'"
        ) from None
    height, width = video_clip.size
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options=OPTIONS)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.thread_count = 1  # as many threads, as many different results
        for t in range(N_FRAMES):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(video_clip.frame(t), format="rgb24")))
        container.mux(stream.encode())
