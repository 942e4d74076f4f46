"""The motion in full videos, computed from optical flow one video at a time.

Each finished video has its own file in the cache, so a killed run resumes at the first unfinished video.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from ...loaders import json_text, rle
from ...loaders.atomic import atomic_file
from ...loaders.errors import InputError
from ..parallel import HERE, Workers, pieces
from . import motion
from .motion import FLOOR, GAMMA, Motion
from .pairs import Flow, Pair
from .reasons import PARTLY_UNKNOWN, STILL

PAIRS_A_TASK = 48  # a multiple of RAFT's batch size, so that batches are full
VERSION = 1  # version of the cache files; increase it with each change of the fit or the mask


def compute_video_motion(  # noqa: PLR0913 (settings of the motion and of the workers, by name)
    pairs_by_video: Mapping[str, Sequence[Pair]],
    flow: Flow,
    *,
    cache: Path | None = None,
    gamma: float = GAMMA,
    trim: float = 0.0,
    floor: float = FLOOR,
    workers: Workers = HERE,
    reads: Sequence[Path] = (),
    gpu: bool = False,
) -> tuple[dict[str, dict[int, Motion]], Counter[str]]:
    """Compute the motion in the first frame of each pair.

    Videos that are finished before an error stay in the cache.

    Args:
        pairs_by_video: The pairs of each video. The videos are processed in this order.
        flow: `Raft`, `FlowFiles` or another source.
        cache: Folder with one file per finished video; None caches nothing. The name of a file contains the hash of all
            that the motion depends on (flow and weights, gamma, trim, floor, the pairs). Files of other settings are
            ignored and stay unchanged. Only one run at a time writes to a folder.
        gamma: See `motion.describe`.
        trim: See `motion.describe`.
        floor: See `motion.describe`.
        workers: The workers that compute the motion.
        reads: See `parallel.Workers.map`.
        gpu: See `parallel.Workers.map`.

    Returns:
        The motion by video and frame, and the counts of frames that are still or partly unknown.

    Raises:
        InputError: A setting is out of range, the name of a video is not a file name, a cache file is damaged, or a
            flow gives no camera. Errors of the flow source are passed on.
    """
    motion.check_settings(gamma, trim, floor)
    _check_videos(pairs_by_video)
    motion_settings = {"gamma": gamma, "trim": trim, "floor": floor}
    with _cache_lock(cache) if cache is not None else nullcontext():
        settings = {
            video: _collect_settings(video, pairs, flow, **motion_settings) for video, pairs in pairs_by_video.items()
        }
        paths = (
            {video: cache / _format_file_name(video_items) for video, video_items in settings.items()} if cache else {}
        )
        lines = {
            video: _read_video(path, settings[video], pairs_by_video[video])
            for video, path in paths.items()
            if path.exists()
        }
        tasks = {v: pieces(pairs, PAIRS_A_TASK) for v, pairs in pairs_by_video.items() if v not in lines}
        video_tasks = ((video, piece) for video, video_items in tasks.items() for piece in video_items)
        total = sum(len(pairs_by_video[video]) for video in tasks)
        with workers.map(
            partial(_compute_lines, flow=flow, **motion_settings), video_tasks, reads=reads, gpu=gpu,
            title="computing motion", unit="frames", total=total, length=lambda task: len(task[1]),
        ) as results:  # fmt: skip
            for video, video_items in tasks.items():
                lines[video] = [line for _ in video_items for line in next(results)]
                if video in paths:
                    _write_video(paths[video], settings[video], lines[video])
    motion_by_video: dict[str, dict[int, Motion]] = {
        video: {line["frame"]: {"motion": line["motion"], "camera": line["camera"]} for line in lines[video]}
        for video in pairs_by_video
    }
    all_lines = [line for video_items in lines.values() for line in video_items]
    counted = Counter(
        {
            STILL: sum(not line["moving"] for line in all_lines),
            PARTLY_UNKNOWN: sum(bool(line["unknown"]) for line in all_lines),
        }
    )
    return motion_by_video, +counted


def _check_videos(pairs_by_video: Mapping[str, Sequence[Pair]]) -> None:
    for video, pairs in pairs_by_video.items():
        if not re.fullmatch(r"\w[\w.-]*", video):
            raise InputError(f"video {video!r}", "no name for a file", expected="letters, digits, '_', '-' and '.'")
        repeated_frame = next(
            (frame for frame, n_pairs in Counter(pair.frame for pair in pairs).items() if n_pairs > 1), None
        )
        if repeated_frame is not None:
            raise InputError(f"video {video}", "two pairs begin with one frame", row=f"frame {repeated_frame}")


def _compute_lines(task: tuple[str, Sequence[Pair]], *, flow: Flow, **settings: float) -> list[dict[str, Any]]:
    """Compute the line of the cache for each pair of frames of a task, a video and some of its pairs.

    Raise InputError for a flow that has another size than the frame, or that no motion can be computed from.
    """
    video, pairs = task
    lines = []
    for pair, (forward, backward) in zip(pairs, flow.flows(video, pairs), strict=True):
        place = {"where": f"video {video}", "row": f"frame {pair.frame}"}
        if pair.size is not None and forward.shape[1:] != tuple(pair.size):
            raise InputError(
                found=f"a flow of {forward.shape[1:]}", expected=f"the frame's {tuple(pair.size)}", **place
            )
        try:
            video_motion = motion.describe(forward, backward, **settings)
        except ValueError as error:
            raise InputError(found=str(error), **place) from error
        n_unknown = int((~np.isfinite(forward).all(0)).sum())
        line = {"frame": pair.frame, **video_motion, "moving": rle.area(video_motion["motion"]), "unknown": n_unknown}
        lines.append(line)
    return lines


def _collect_settings(video: str, pairs: Sequence[Pair], flow: Flow, **settings: float) -> dict[str, Any]:
    listing = hashlib.sha256(json.dumps(pairs).encode()).hexdigest()
    flow_identity = flow.identity(video, pairs)
    values = {name: float(value) for name, value in settings.items()}
    return {"version": VERSION, "video": video, "flow": flow_identity, **values, "pairs": listing}


def _format_file_name(settings: Mapping[str, Any]) -> str:
    return f"{settings['video']}-{hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:16]}.jsonl"


def _write_video(path: Path, settings: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> None:
    with atomic_file(path) as partial_file, partial_file.open("w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in (settings, *lines))


def _read_video(path: Path, settings: dict[str, Any], pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    try:
        header, *lines = (json_text.parse(line) for line in path.read_text(encoding="utf-8").splitlines())
        is_valid = header == settings and [line["frame"] for line in lines] == [pair.frame for pair in pairs]
        for line in lines:
            is_valid &= rle.area(line["motion"]) == line["moving"] and line["unknown"] >= 0
            is_valid &= set(line["camera"]) == {"pan", "tilt", "zoom", "roll"}
    except (ValueError, KeyError, TypeError):
        is_valid, lines = False, []
    if not is_valid:
        raise InputError(path, "is damaged", action="delete it; the video's motion is computed again")
    return lines


@contextmanager
def _cache_lock(cache: Path) -> Iterator[None]:
    """Context manager that allows one run at a time in a cache, because two runs would write the same file.

    Raise InputError at once if another run is there, or if the folder cannot be written to.
    """
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = FileLock(cache / ".lock", timeout=0)
        lock.acquire()
    except Timeout:
        raise InputError(cache, "another run is writing here", action="wait for it, or use another folder") from None
    except OSError as error:
        raise InputError(cache, f"cannot be written to: {error.strerror}", action="use another folder") from error
    try:
        yield
    finally:
        lock.release()
