"""The motion in whole videos, made of optical flow video by video.

A killed run goes on at the first unfinished video: each finished one has a file of its own in the cache.
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

from ...loaders import rle
from ...loaders.atomic import atomic_file
from ...loaders.errors import InputError
from ..parallel import HERE, Workers, pieces
from . import motion
from .motion import FLOOR, GAMMA, Motion
from .pairs import Flow, Pair

PAIRS_A_TASK = 48  # a multiple of RAFT's batch, so that tasks do not cut batches
VERSION = 1  # of what a cache file holds; another method of the fit or the mask needs another number
STILL, PARTLY_UNKNOWN = "frames in which nothing moves", "frames with pixels of unknown flow (not in their masks)"


def motion_of_videos(
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
    """What moves in each pair's first frame, video -> frame -> motion; and how many frames are still or partly unknown.

    Args:
        pairs_by_video: the videos in the order in which they are worked on.
        flow: `Raft`, `FlowFiles` or another source.
        cache: folder for one file a finished video; None keeps nothing. A file's name carries the hash of all it was
            made with (flow and weights, gamma, trim, floor, the pairs): what other settings left there is not looked
            at, nor touched. One run at a time writes to a folder.
        gamma, trim, floor: see `motion.describe`.
        workers, reads, gpu: see `parallel.Workers.each`.

    Raises InputError for settings out of range, a video's name that is no file name, a damaged file in the cache, and
    flow that gives no camera; and passes on what the flow source raises. Videos finished until then stay in the cache.
    """
    motion.check_settings(gamma, trim, floor)
    _check_videos(pairs_by_video)
    how = {"gamma": gamma, "trim": trim, "floor": floor}
    with _exclusive(cache) if cache is not None else nullcontext():
        settings = {video: _settings(video, pairs, flow, **how) for video, pairs in pairs_by_video.items()}
        paths = {video: cache / _file_name(of_video) for video, of_video in settings.items()} if cache else {}
        lines = {
            video: _read_video(path, settings[video], pairs_by_video[video])
            for video, path in paths.items()
            if path.exists()
        }
        tasks = {v: pieces(pairs, PAIRS_A_TASK) for v, pairs in pairs_by_video.items() if v not in lines}
        drawn = ((video, some) for video, of_video in tasks.items() for some in of_video)
        total = sum(len(pairs_by_video[video]) for video in tasks)
        with workers.each(
            partial(_made, flow=flow, **how), drawn, reads=reads, gpu=gpu,
            title="computing motion", unit="frames", total=total, length=lambda task: len(task[1]),
        ) as made:  # fmt: skip
            for video, of_video in tasks.items():
                lines[video] = [line for _ in of_video for line in next(made)]
                if video in paths:
                    _write_video(paths[video], settings[video], lines[video])
    found: dict[str, dict[int, Motion]] = {
        video: {line["frame"]: {"motion": line["motion"], "camera": line["camera"]} for line in lines[video]}
        for video in pairs_by_video
    }
    every = [line for of_video in lines.values() for line in of_video]
    counted = Counter(
        {STILL: sum(not line["moving"] for line in every), PARTLY_UNKNOWN: sum(bool(line["unknown"]) for line in every)}
    )
    return found, +counted


def _check_videos(pairs_by_video: Mapping[str, Sequence[Pair]]) -> None:
    for video, pairs in pairs_by_video.items():
        if not re.fullmatch(r"\w[\w.-]*", video):
            raise InputError(f"video {video!r}", "no name for a file", expected="letters, digits, '_', '-' and '.'")
        twice = next((frame for frame, times in Counter(pair.frame for pair in pairs).items() if times > 1), None)
        if twice is not None:
            raise InputError(f"video {video}", "two pairs begin with one frame", row=f"frame {twice}")


def _made(task: tuple[str, Sequence[Pair]], *, flow: Flow, **settings: float) -> list[dict[str, Any]]:
    """A line of the cache for each of some pairs of a video."""
    video, pairs = task
    lines = []
    for pair, (forward, backward) in zip(pairs, flow.flows(video, pairs), strict=True):
        where = {"where": f"video {video}", "row": f"frame {pair.frame}"}
        if pair.size is not None and forward.shape[1:] != tuple(pair.size):
            raise InputError(
                found=f"a flow of {forward.shape[1:]}", expected=f"the frame's {tuple(pair.size)}", **where
            )
        try:
            described = motion.describe(forward, backward, **settings)
        except ValueError as error:
            raise InputError(found=str(error), **where) from error
        unknown = int((~np.isfinite(forward).all(0)).sum())
        line = {"frame": pair.frame, **described, "moving": rle.area(described["motion"]), "unknown": unknown}
        lines.append(line)
    return lines


def _settings(video: str, pairs: Sequence[Pair], flow: Flow, **settings: float) -> dict[str, Any]:
    listing = hashlib.sha256(json.dumps(pairs).encode()).hexdigest()
    of_flow = flow.identity(video, pairs)
    values = {name: float(value) for name, value in settings.items()}
    return {"version": VERSION, "video": video, "flow": of_flow, **values, "pairs": listing}


def _file_name(settings: Mapping[str, Any]) -> str:
    return f"{settings['video']}-{hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:16]}.jsonl"


def _write_video(path: Path, settings: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> None:
    with atomic_file(path) as partial_file, partial_file.open("w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in (settings, *lines))


def _read_video(path: Path, settings: dict[str, Any], pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    try:
        header, *lines = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
        right = header == settings and [line["frame"] for line in lines] == [pair.frame for pair in pairs]
        for line in lines:
            right &= rle.area(line["motion"]) == line["moving"] and line["unknown"] >= 0
            right &= set(line["camera"]) == {"pan", "tilt", "zoom", "roll"}
    except (ValueError, KeyError, TypeError):
        right, lines = False, []
    if not right:
        raise InputError(path, "is damaged", action="delete it; the video's motion is computed again")
    return lines


@contextmanager
def _exclusive(cache: Path) -> Iterator[None]:
    """One run at a time in a cache: two would write the same file."""
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
