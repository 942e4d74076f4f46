"""A synthetic Cholec80: two mp4 videos of 25 frames a second, with the tools of each 25th frame and every phase.

The videos are those of the synthetic Cholec80-Boxes, CholecT45 and CholecT50 of the same seed, compressed.
"""

from __future__ import annotations

from pathlib import Path

from ..errors import MedfaithError
from .cholec80_boxes import TOOLS
from .surgery import FPS, N_FRAMES, Clip, clip

VIDEOS = (42, 43)
PHASES = (
    "Preparation", "CalotTriangleDissection", "ClippingCutting", "GallbladderDissection", "GallbladderPackaging",
    "CleaningCoagulation", "GallbladderRetraction",
)  # fmt: skip
# Without x264's macroblock tree: what it makes of frames of this size differs from one run to the next.
OPTIONS = {"crf": "14", "g": str(2 * FPS), "bf": "2", "x264-params": "mbtree=0"}


def write(root: Path, *, seed: int) -> Path:
    """Writes VIDEOS below `root`, which is returned. Raises MedfaithError where PyAV is not installed."""
    for folder in ("videos", "tool_annotations", "phase_annotations"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for video in VIDEOS:
        shown = clip(video, seed=seed)
        name = f"video{video:02d}"
        _encode(root / "videos" / f"{name}.mp4", shown)
        tools = [("Frame", *TOOLS.values()), *(_tools(shown, t) for t in range(0, N_FRAMES, FPS))]
        _table(root / "tool_annotations" / f"{name}-tool.txt", tools)
        phases = [("Frame", "Phase"), *((t, PHASES[shown.phase(t)]) for t in range(N_FRAMES))]
        _table(root / "phase_annotations" / f"{name}-phase.txt", phases)
    return root


def _tools(shown: Clip, t: int) -> tuple[int, ...]:
    present = {tool.instrument for tool in shown.seen(t)}
    return t, *(int(instrument in present) for instrument in TOOLS)


def _table(path: Path, rows: list[tuple[object, ...]]) -> None:
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")


def _encode(path: Path, shown: Clip) -> None:
    """H.264 with B-frames and a key frame every two seconds; the same bytes every time, on one machine."""
    try:
        import av
    except ImportError:
        raise MedfaithError(
            "writing videos needs PyAV, which is not installed\n  what to do: uv pip install 'medfaith[video]'"
        ) from None
    height, width = shown.size
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options=OPTIONS)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.thread_count = 1  # as many threads, as many different results
        for t in range(N_FRAMES):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(shown.frame(t), format="rgb24")))
        container.mux(stream.encode())
