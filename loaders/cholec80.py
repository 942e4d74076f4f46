"""Cholec80: single frames of its 80 videos, and the tools in each 25th frame.

Source: Twinanda et al., "EndoNet: a deep architecture for recognition tasks on laparoscopic videos" (IEEE TMI, 2017).
`videos/videoNN.mp4` run at 25 frames a second; `tool_annotations/videoNN-tool.txt` are tab-separated tables with a
header and a row for each 25th frame. Frames count from 0 in the order in which a player shows them, frame n at n/25
seconds. Frame 25 k is frame k of CholecT45.

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
from .cholec80_boxes import INSTRUMENTS, find_instrument
from .errors import InputError, MedfaithError

if TYPE_CHECKING:
    import av
    import av.container

FPS = 25
TOOL_STEP = 25  # the tools' tables have each 25th frame, one a second
# Encoders often write the last frame's duration a little off, which shifts the mean rate of a short video most.
FPS_TOLERANCE = 0.1
TIME_TOLERANCE = 0.25  # share of the time between two frames: containers round times to their own clock
MAX_REORDER = 16  # frames that H.264 and MPEG-4 may hold back, because they show and decode in different orders
# To decode further frames costs less than to seek, unless the next one is a usual group of pictures away.
SEEK_BEYOND = 250
KEY = re.compile(r"(.+\.mp4)/([0-9]{6,9})")
ACTION = "use the videos and annotations of Cholec80 unchanged"
DAMAGED = "download the video again and compare its size or checksum with the source's"


@dataclass(frozen=True, slots=True, eq=False)
class Tools:
    """The tools in the labelled frames of one video.

    Attributes:
        frames: Int64 of shape (n,), ascending numbers of 25-fps frames.
        present: Bool of shape (n, 7), with the columns of INSTRUMENTS.
    """

    frames: np.ndarray
    present: np.ndarray


def key(video: int, frame: int) -> str:
    """Return the key of a frame.

    >>> key(42, 25)
    'videos/video42.mp4/000025'

    Args:
        video: The number of the video.
        frame: The number of the frame.

    Returns:
        The key.
    """
    return f"videos/video{video:02d}.mp4/{frame:06d}"


def split_key(key: str) -> tuple[str, int] | None:
    """Split the key of a frame into the path of its video and its number.

    >>> split_key("videos/video42.mp4/000025")
    ('videos/video42.mp4', 25)

    Args:
        key: The key.

    Returns:
        (path, number); None unless the key denotes a frame.
    """
    match = KEY.fullmatch(key)
    return (match[1], int(match[2])) if match else None


def list_image_paths(key: str) -> tuple[str, ...]:
    """Return the path of the video of a frame's key below the root; any other key is its own path.

    Args:
        key: The key.

    Returns:
        The path alone.
    """
    path_and_number = split_key(key)
    return (path_and_number[0] if path_and_number else key,)


def videos(root: Path) -> list[int]:
    """List the videos below a root.

    Args:
        root: The folder of Cholec80.

    Returns:
        The numbers, ascending.

    Raises:
        InputError: The root has no video.
    """
    return cholec_triplets.list_videos(root, "videos/video*.mp4", source="Cholec80", action=ACTION)


def tool_file(root: Path, video: int) -> Path:
    """Return the table of a video's tools.

    Args:
        root: The folder of Cholec80.
        video: The number of the video.

    Returns:
        The path.

    Raises:
        InputError: The file is missing.
    """
    path = root / "tool_annotations" / f"video{video:02d}-tool.txt"
    if not path.is_file():
        raise InputError(path, "no such file", expected="a table each video", action=ACTION)
    return path


def count_frames(path: Path) -> int:
    """Return the number of frames of a video from its header, or count them if the header does not say.

    Args:
        path: The video.

    Returns:
        The number of frames.

    Raises:
        InputError: As for `open_frame`.
        MedfaithError: PyAV is not installed.
    """
    with _open_video(path) as (container, stream):
        return stream.frames or sum(packet.size > 0 for packet in container.demux(stream))


def frame_size(path: Path, number: int = 0) -> tuple[int, int]:
    """Read the size of a video's frame from the header, without decoding.

    Args:
        path: The video.
        number: The number of the frame.

    Returns:
        (width, height) in pixels.

    Raises:
        InputError: As for `open_frame`.
        MedfaithError: PyAV is not installed.
    """
    with _open_video(path) as (_, stream):
        _check_number(number, stream, path)
        return stream.width, stream.height


def open_frame(path: Path, number: int) -> Image.Image:
    """Decode a frame of a video, from the last keyframe before it.

    An mp4 has no checksums: a few damaged bytes that still decode stay undetected.

    Args:
        path: The video.
        number: The number of the frame, from 0 in the order of display.

    Returns:
        The frame in mode RGB.

    Raises:
        InputError: The video is truncated, cannot be decoded up to the frame, does not run at 25 frames a second, or
            ends before the frame. The error names the video.
        MedfaithError: PyAV is not installed.
    """
    return next(frames(path, [number]))


def frames(path: Path, numbers: Sequence[int]) -> Iterator[Image.Image]:
    """Decode several frames, reading the video once.

    Args:
        path: The video.
        numbers: The numbers of the frames, ascending.

    Yields:
        One RGB image each.

    Raises:
        InputError: As for `open_frame`.
        MedfaithError: PyAV is not installed.
        ValueError: The numbers do not ascend.
    """
    if any(later <= earlier for earlier, later in pairwise(numbers)):
        raise ValueError("the numbers of frames must ascend")
    with _open_video(path) as (container, stream):
        for number in numbers:
            _check_number(number, stream, path)
        decoded, position = iter(()), -SEEK_BEYOND - 1
        for number in numbers:
            if number - position > SEEK_BEYOND:
                decoded = _decode_from(container, stream, number, path)
            position, frame = next(((n, frame) for n, frame in decoded if n >= number), (number, None))
            if frame is None or position != number:
                problem = f"frame {number} cannot be decoded, though the header counts {stream.frames} frames"
                raise InputError(path, problem, expected="a complete video", action=DAMAGED)
            yield frame.to_image()


def read_tools(root: Path, video: int) -> Tools:
    """Read the tools of a video.

    Args:
        root: The folder of Cholec80.
        video: The number of the video.

    Returns:
        The tools in each 25th frame.

    Raises:
        InputError: A column is missing, a value is not 0 or 1, or a frame is out of order or not a 25th one. The error
            names file, row and column.
    """
    path = tool_file(root, video)
    names = csv_table.header(path, delimiter="\t", action=ACTION)
    columns = {tool: name for name in names if (tool := find_instrument(name)) is not None}
    missing = [tool for tool in INSTRUMENTS if tool not in columns]
    if missing or "Frame" not in names:
        problem = f"no column for {', '.join(missing or ['Frame'])}"
        raise InputError(path, problem, expected="Frame and seven tools, separated by tabs", action=ACTION)
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
        problem = f"has no frame {number}"
        raise InputError(path, problem, expected=f"a frame from 0 to {stream.frames - 1}", action=ACTION)


@contextmanager
def _open_video(path: Path) -> Iterator[tuple[av.container.InputContainer, av.VideoStream]]:
    """Yield a video's container and stream while the context lasts; errors of the decoder become InputError."""
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
        # The encoding of titles does not matter. PyAV 19 does not have this option: it reads any title.
        lenient: dict[str, Any] = {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}
        with av.open(
            path, format="mp4", **lenient
        ) as container:  # no other format, such as a playlist of further files
            # A stream of an unknown codec has no context, although PyAV's types say so.
            if not container.streams.video or not container.streams.video[0].codec_context:
                raise InputError(path, "holds no video that decodes", expected="an mp4 of Cholec80", action=ACTION)
            stream = container.streams.video[0]
            rate = stream.average_rate
            if rate is None or abs(rate - FPS) > FPS_TOLERANCE:
                problem = f"runs at {float(rate):.2f} frames a second" if rate else "does not say how fast it runs"
                raise InputError(path, problem, expected=f"{FPS} frames a second", action=ACTION)
            if stream.width * stream.height > limits.IMAGE_PIXELS:
                problem, expected = (
                    f"frames of {stream.width} x {stream.height} pixels",
                    f"at most {limits.IMAGE_PIXELS:,}",
                )
                raise InputError(path, problem, expected=expected, action=ACTION)
            stream.codec_context.options = {
                "max_pixels": str(limits.IMAGE_PIXELS)
            }  # also limits frames that differ from the header
            yield container, stream
    except av.FFmpegError as error:
        raise InputError(
            path, f"is truncated, damaged or no video ({error.strerror})", expected="a complete mp4", action=DAMAGED
        ) from None


def _decode_from(
    container: av.container.InputContainer, stream: av.VideoStream, number: int, path: Path
) -> Iterator[tuple[int, av.VideoFrame]]:
    """Decode frames with their numbers, in the order of display, from the last keyframe not after frame `number`.

    A frame's number follows from its time, so nothing before the keyframe is needed. If the time is between the times
    of 25 frames a second, the number would be a guess, and InputError is raised.
    """
    start, step = stream.start_time or 0, 1 / (FPS * (stream.time_base or Fraction(1)))
    # Containers find keyframes by the time of decoding, up to MAX_REORDER frames before the time of display.
    container.seek(int(start + (number - MAX_REORDER) * step), stream=stream)
    for frame in container.decode(stream):
        yield _number(frame, start, step, path), frame


def _number(frame: av.VideoFrame, start: int, step: Fraction, path: Path) -> int:
    """Compute a decoded frame's number; raise InputError if its time fits no frame, or the decoder hid an error."""
    position = (frame.pts - start) / step if frame.pts is not None else None
    if position is None or abs(position - round(position)) > TIME_TOLERANCE:
        problem = f"shows a frame at {frame.time} s, between the times of {FPS} frames a second"
        raise InputError(path, problem, expected="frames at even distances", action=ACTION)
    if frame.is_corrupt:
        raise InputError(path, f"frame {round(position)} is damaged", expected="a complete video", action=DAMAGED)
    return round(position)
