"""The motion mask and the camera of every row with a successor (section 3.4.2 and appendix B)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, repeat
from pathlib import Path
from typing import Any

from PIL import Image

from ...loaders import cholec80, images
from ...loaders.errors import InputError
from ..options import FILE, option
from ..parallel import HERE, Workers
from .flow_files import FlowFiles
from .frames import VIDEOS, ImageRef, build_reference
from .motion import FLOOR, GAMMA, RANGES
from .pairs import Flow, Pair
from .raft import Raft
from .seconds import FPS
from .videos import compute_video_motion

RAFT = "raft"


@dataclass(frozen=True, slots=True)
class MotionOptions:
    """Settings of the motion masks.

    Attributes:
        flow: "raft", or a folder of flow files (`raft.Raft`, `flow_files.FlowFiles`).
        weights: Weights of RAFT in a file; None downloads torchvision's.
        gamma: See `motion.describe`.
        trim: See `motion.describe`.
        floor: See `motion.describe`.
        cache: Folder for finished videos; None caches nothing. The command puts it below its --out.
    """

    flow: str = field(
        metadata=option(
            "add motion masks from RAFT's optical flow, or from the flow files in a folder",
            recorded=r"files|raft_large, (C_T_SKHT_V2|sha256 [0-9a-f]{64}), \d{1,3} updates",
            kind=str,
            metavar="raft|DIR",
            default="no motion masks",
        )
    )
    weights: Path | str | None = field(
        default=None,
        metadata=option(
            "with --flow raft: weights, a state dict of torchvision's raft_large",
            flag="--raft-weights",
            recorded=FILE,
            kind=str,
            metavar="FILE",
            default="torchvision's, which are downloaded",
        ),
    )
    gamma: float = field(
        default=GAMMA,
        metadata=option(
            "with --flow: quantile of motion above which a pixel is in the mask, as in appendix C.1",
            metavar="NUMBER",
            within=RANGES["gamma"],
        ),
    )
    trim: float = field(
        default=0.0,
        metadata=option(
            "with --flow: share of the pixels that the fit of the camera's motion excludes; the paper excludes none",
            within=RANGES["trim"],
            metavar="NUMBER",
        ),
    )
    floor: float = field(
        default=FLOOR,
        metadata=option(
            "with --flow: motion in pixels below which a pixel counts as still",
            flag="--motion-floor",
            within=RANGES["floor"],
            metavar="NUMBER",
        ),
    )
    cache: Path | None = field(
        default=None,
        metadata=option(
            "with --flow: keep finished videos in this folder, so that a killed build can resume",
            flag="--motion-cache",
            recorded=FILE,
            kind=Path,
            metavar="DIR",
            default=".surgxbench-motion below --out",
            below_out=".surgxbench-motion",
        ),
    )

    def describe(self) -> dict[str, Any]:
        """Describe the settings for build.json, without paths of the machine.

        Returns:
            The settings by name.
        """
        weights = Path(self.weights) if self.weights else None
        flow = Raft(_refuse_pairs, weights=weights).identity("", ()) if self.flow == RAFT else "files"
        return {"flow": flow, "gamma": self.gamma, "trim": self.trim, "floor": self.floor}


def check_motion(options: MotionOptions) -> None:
    """Check the settings before any frame is read.

    Args:
        options: The settings.

    Raises:
        InputError: The folder of flow files or the file of weights is missing.
    """
    if options.flow != RAFT and not Path(options.flow).is_dir():
        expected = "raft, or a folder of flow files: <video>/<frame>_forward.npy and so on"
        raise InputError(f"--flow {options.flow}", "no such folder", expected=expected)
    if options.weights and not Path(options.weights).is_file():
        raise InputError(options.weights, "no such file", expected="a state dict of torchvision's raft_large")


def add_motion(
    rows: Sequence[dict[str, Any]],
    roots: Mapping[str, Path],
    options: MotionOptions,
    *,
    successor: str,
    workers: Workers = HERE,
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Add motion and camera to the rows that have a successor.

    Both frames of a pair are scaled to the row's size.

    Args:
        rows: Rows in the schema TRIPLETS.
        roots: Folder of each source, by source id.
        options: The settings of the motion masks.
        successor: The kind of the successors. With "frame" both frames of a pair come from Cholec80's video, so that
            differences between the copies do not look like motion.
        workers: The workers that compute the motion.

    Returns:
        The rows, and the counts of frames that are still or partly unknown.

    Raises:
        InputError: The flow is missing or faulty.
    """
    by_video: dict[str, list[Pair]] = {}
    for row in rows:
        if row["successor"] is None:
            continue
        first_reference = row["image"]
        if successor == "frame":
            first_reference = build_reference(VIDEOS, cholec80.key(row["video"], FPS * row["frame"]))
        names = [f"{ref['source']}/{ref['key']}" for ref in (first_reference, row["successor"])]
        video = f"VID{row['video']:02d}"
        by_video.setdefault(video, []).append(Pair(row["frame"], *names, size=(row["height"], row["width"])))

    flow: Flow
    if options.flow == RAFT:
        weights = Path(options.weights).absolute() if options.weights else None
        flow = Raft(partial(_open_pairs, roots), weights=weights)
        reads = [*roots.values(), *filter(None, [weights])]
    else:
        flow = FlowFiles(Path(options.flow).absolute())
        reads = [flow.folder]
    motion_by_video, counted = compute_video_motion(
        by_video, flow, cache=options.cache, gamma=options.gamma, trim=options.trim, floor=options.floor,
        workers=workers, reads=reads, gpu=options.flow == RAFT,
    )  # fmt: skip
    new_rows = [row | motion_by_video.get(f"VID{row['video']:02d}", {}).get(row["frame"], {}) for row in rows]
    return new_rows, counted


def _open_pairs(roots: Mapping[str, Path], _: str, pairs: Sequence[Pair]) -> Iterator[tuple[Image.Image, Image.Image]]:
    opened = _open_in_turn(
        [build_reference(*name.split("/", 1)) for pair in pairs for name in (pair.first_image, pair.second_image)],
        roots,
    )
    for pair, first_image, second_image in zip(pairs, opened, opened, strict=True):
        assert pair.size is not None
        yield _resize(first_image, pair.size), _resize(second_image, pair.size)


def _refuse_pairs(*_: Any) -> Iterator[tuple[Any, Any]]:
    raise AssertionError("the weights' name needs no frame")


def _open_in_turn(refs: Sequence[ImageRef], roots: Mapping[str, Path]) -> Iterator[Image.Image]:
    """Open images lazily and in turn: repeated neighbours once, frames of a video in one pass."""
    runs = [(ref, len(list(run))) for ref, run in groupby(refs)]
    distinct = [ref for ref, _ in runs]
    is_video = all(ref["source"] == VIDEOS for ref in distinct)
    opened = _decode_frames(distinct, roots) if is_video else (images.open_image(ref, roots) for ref in distinct)
    for (_, n_repeats), image in zip(runs, opened, strict=True):
        yield from repeat(image, n_repeats)


def _decode_frames(refs: Sequence[ImageRef], roots: Mapping[str, Path]) -> Iterator[Image.Image]:
    """Decode frames of one video in ascending order, in one pass as far as possible."""
    remaining = list(refs)
    while remaining:
        path = images.locate(remaining[0], roots)
        numbers = [parts[1] for ref in remaining if (parts := cholec80.split_key(ref["key"]))]
        try:
            for image in cholec80.frames(path, numbers):
                del remaining[0]
                yield image
        except InputError:  # the next frame can be readable alone if the fault is in other frames
            yield images.open_image(remaining.pop(0), roots)


def _resize(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Resize an image to (height, width)."""
    width_height = size[1], size[0]
    return image if image.size == width_height else image.resize(width_height, Image.Resampling.BICUBIC)
