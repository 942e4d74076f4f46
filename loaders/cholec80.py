"""Cholec80: single frames of its 80 videos, and which tools are in each 25th of them.

Source: Twinanda et al., "EndoNet: a deep architecture for recognition tasks on laparoscopic videos" (IEEE TMI, 2017).
`videos/videoNN.mp4` run at 25 frames a second; `tool_annotations/videoNN-tool.txt` are tables separated by tabs, with a
header and a row for each 25th frame. Frames count from 0 in the order in which a player shows them, frame n at n/25
seconds, so that frame 25 k is frame k of CholecT45.

The key of a frame is its video's path and its number: `videos/video42.mp4/000025`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from . import cholec_triplets, csv_table, limits
from .cholec80_boxes import INSTRUMENTS, instrument_of
from .errors import InputError, MedfaithError

if TYPE_CHECKING:
    import av
    import av.container

FPS = 25
TOOL_STEP = 25  # the tools' tables have each 25th frame, one a second
# Encoders often write the last frame's duration a little off, which shifts the mean rate of a short video most.
FPS_TOLERANCE = 0.1
TIME_TOLERANCE = 0.25  # of the time between two frames: containers round times to their own clock
MAX_REORDER = 16  # frames that H.264 and MPEG-4 may hold back to show them in another order than they were decoded in
# Decoding on costs less than seeking where the next wanted frame is nearer than a usual group of pictures is long.
SEEK_BEYOND = 250
KEY = re.compile(r"(.+\.mp4)/([0-9]{6,9})")
ACTION = "use the videos and annotations of Cholec80 unchanged"
DAMAGED = "download the video again and compare its size or checksum with the source's"


@dataclass(frozen=True, slots=True, eq=False)
class Tools:
    """Which tools are in the labelled frames of one video.

    frames: (n,) int64, ascending, numbers of 25-fps frames. present: (n, 7) bool, columns as INSTRUMENTS has them.
    """

    frames: np.ndarray
    present: np.ndarray


def key(video: int, frame: int) -> str:
    """The key of a frame.

    >>> key(42, 25)
    'videos/video42.mp4/000025'
    """
    return f"videos/video{video:02d}.mp4/{frame:06d}"


def split_key(key: str) -> tuple[str, int] | None:
    """A frame's key as its video's path and its number; None for a key that is not of a frame.

    >>> split_key("videos/video42.mp4/000025")
    ('videos/video42.mp4', 25)
    """
    found = KEY.fullmatch(key)
    return (found[1], int(found[2])) if found else None


def image_paths(key: str) -> tuple[str, ...]:
    """Where the video of a frame's key lies below the user's root; any other key stands for its own path."""
    parts = split_key(key)
    return (parts[0] if parts else key,)


def videos(root: Path) -> list[int]:
    """The numbers, ascending, of the videos below `root`. Raises InputError for none."""
    return cholec_triplets.videos(root, "videos/video*.mp4", source="Cholec80", action=ACTION)


def tool_file(root: Path, video: int) -> Path:
    """The table of one video's tools. Raises InputError where there is no such file."""
    path = root / "tool_annotations" / f"video{video:02d}-tool.txt"
    if not path.is_file():
        raise InputError(path, "no such file", expected="a table each video", action=ACTION)
    return path


def count_frames(path: Path) -> int:
    """How many frames a video has, as its header says, or counted where it does not. Raises as open_frame does."""
    with _opened(path) as (container, stream):
        return stream.frames or sum(packet.size > 0 for packet in container.demux(stream))


def frame_size(path: Path, number: int = 0) -> tuple[int, int]:
    """(width, height) in pixels of a video's frame, from the header, without decoding. Raises as open_frame does."""
    with _opened(path) as (_, stream):
        _check_number(number, stream, path)
        return stream.width, stream.height


def open_frame(path: Path, number: int) -> Image.Image:
    """Frame `number` of a video, from 0 in the order of showing, as RGB: decoded from the keyframe before it.

    Raises InputError, naming the video, where it cannot be decoded up to that frame, is truncated, does not run at 25
    frames a second, or ends before; MedfaithError where the decoder, PyAV, is not installed. An mp4 has no checksums:
    a few damaged bytes that still decode go unseen.
    """
    return next(frames(path, [number]))


def frames(path: Path, numbers: Sequence[int]) -> Iterator[Image.Image]:
    """The frames of ascending `numbers`, one RGB image each, reading the video once. Raises as open_frame does."""
    if any(after <= before for before, after in pairwise(numbers)):
        raise ValueError("the numbers of frames must ascend")
    with _opened(path) as (container, stream):
        for number in numbers:
            _check_number(number, stream, path)
        decoded, position = iter(()), -SEEK_BEYOND - 1
        for number in numbers:
            if number - position > SEEK_BEYOND:
                decoded = _decoded_from(container, stream, number, path)
            position, frame = next(((n, frame) for n, frame in decoded if n >= number), (number, None))
            if frame is None or position != number:
                found = f"frame {number} cannot be decoded, though the header counts {stream.frames} frames"
                raise InputError(path, found, expected="a complete video", action=DAMAGED)
            yield frame.to_image()


def read_tools(root: Path, video: int) -> Tools:
    """The tools of one video.

    Raises InputError naming file, row and column: a column missing, a value that is not 0 or 1, a frame out of order
    or not among each 25th.
    """
    path = tool_file(root, video)
    names = csv_table.header(path, delimiter="\t", action=ACTION)
    columns = {tool: name for name in names if (tool := instrument_of(name)) is not None}
    missing = [tool for tool in INSTRUMENTS if tool not in columns]
    if missing or "Frame" not in names:
        found = f"no column for {', '.join(missing or ['Frame'])}"
        raise InputError(path, found, expected="Frame and seven tools, separated by tabs", action=ACTION)
    table = csv_table.read(path, dict.fromkeys(["Frame", *columns.values()], pa.int32()), action=ACTION, delimiter="\t")
    for name in columns.values():
        good = pc.is_in(table[name], value_set=pa.array([0, 1], pa.int32()))
        csv_table.require(good, table[name], path, name, expected="0 or 1", action=ACTION)
    csv_table.require(
        pc.is_valid(table["Frame"]), table["Frame"], path, "Frame", expected="a frame's number", action=ACTION
    )
    frames = table["Frame"].to_numpy().astype(np.int64)
    good = pa.array((frames >= 0) & (frames % TOOL_STEP == 0) & (np.diff(frames, prepend=-1) > 0))
    expected = f"each {TOOL_STEP}th frame once, in ascending order"
    csv_table.require(good, table["Frame"], path, "Frame", expected=expected, action=ACTION)
    return Tools(frames, np.column_stack([table[columns[tool]].to_numpy() == 1 for tool in INSTRUMENTS]))


def _check_number(number: int, stream: av.VideoStream, path: Path) -> None:
    if number < 0 or 0 < stream.frames <= number:
        found = f"has no frame {number}"
        raise InputError(path, found, expected=f"a frame from 0 to {stream.frames - 1}", action=ACTION)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[av.container.InputContainer, av.VideoStream]]:
    """A video's container and stream, for as long as the context lasts; what its decoder raises becomes InputError."""
    try:
        import av
    except ImportError:
        raise MedfaithError(
            f"{path}: reading frames of a video needs PyAV\n  what to do: uv pip install 'medfaith[video]'"
        ) from None
    try:
        limits.require_file(path)
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror})", action=ACTION) from None
    try:
        # What a title is written in does not matter. PyAV 19 has no such option: it reads any title.
        lenient: dict[str, Any] = {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}
        with av.open(path, format="mp4", **lenient) as container:  # no other format, as a playlist of further files
            # A stream of a codec that is not known has no context, whatever PyAV's types say.
            if not container.streams.video or not container.streams.video[0].codec_context:
                raise InputError(path, "holds no video that decodes", expected="an mp4 of Cholec80", action=ACTION)
            stream = container.streams.video[0]
            rate = stream.average_rate
            if rate is None or abs(rate - FPS) > FPS_TOLERANCE:
                found = f"runs at {float(rate):.2f} frames a second" if rate else "does not say how fast it runs"
                raise InputError(path, found, expected=f"{FPS} frames a second", action=ACTION)
            if stream.width * stream.height > limits.IMAGE_PIXELS:
                found, most = f"frames of {stream.width} x {stream.height} pixels", f"at most {limits.IMAGE_PIXELS:,}"
                raise InputError(path, found, expected=most, action=ACTION)
            stream.codec_context.options = {"max_pixels": str(limits.IMAGE_PIXELS)}  # whatever its frames say then
            yield container, stream
    except av.FFmpegError as error:  # pyright: ignore[reportPrivateImportUsage]
        raise InputError(
            path, f"is truncated, damaged or no video ({error.strerror})", expected="a complete mp4", action=DAMAGED
        ) from None


def _decoded_from(
    container: av.container.InputContainer, stream: av.VideoStream, number: int, path: Path
) -> Iterator[tuple[int, av.VideoFrame]]:
    """Frames with their numbers, in the order of showing, from the last keyframe not after frame `number`.

    A frame's number is its time, so that nothing before the keyframe is needed to know it; where the time lies between
    those of 25 frames a second, the number would be a guess, and InputError is raised.
    """
    start, step = stream.start_time or 0, 1 / (FPS * (stream.time_base or Fraction(1)))
    # Containers find keyframes by the time of decoding, which may be so many frames before that of showing.
    container.seek(int(start + (number - MAX_REORDER) * step), stream=stream)
    for frame in container.decode(stream):
        yield _number(frame, start, step, path), frame


def _number(frame: av.VideoFrame, start: int, step: Fraction, path: Path) -> int:
    """A decoded frame's number; raises InputError for one at no frame's time, or one that the decoder had to mend."""
    place = (frame.pts - start) / step if frame.pts is not None else None
    if place is None or abs(place - round(place)) > TIME_TOLERANCE:
        found = f"shows a frame at {frame.time} s, between the times of {FPS} frames a second"
        raise InputError(path, found, expected="frames at even distances", action=ACTION)
    if frame.is_corrupt:
        raise InputError(path, f"frame {round(place)} is damaged", expected="a complete video", action=DAMAGED)
    return round(place)
