"""The motion mask and the camera of every row that has a successor (section 3.4.2 and appendix B)."""

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
from ..options import option
from ..parallel import HERE, Workers
from .flow_files import FlowFiles
from .frames import VIDEOS, ImageRef, reference
from .motion import FLOOR, GAMMA, RANGES
from .pairs import Flow, Pair
from .raft import Raft
from .seconds import FPS
from .videos import motion_of_videos

RAFT = "raft"


@dataclass(frozen=True, slots=True)
class MotionOptions:
    """What motion masks are made of (`flow_files.FlowFiles`, `raft.Raft`).

    gamma, trim, floor: see `motion.describe`. cache: None keeps nothing; the command keeps it below its --out.
    """

    flow: str = field(
        metadata=option(
            "add motion masks, made of RAFT's optical flow, or of the flow files in a folder",
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
            kind=str,
            metavar="FILE",
            default="torchvision's, which are downloaded",
        ),
    )
    gamma: float = field(
        default=GAMMA,
        metadata=option(
            "with --flow: the quantile of motion above which a pixel is in the mask (appendix C.1)",
            within=RANGES["gamma"],
        ),
    )
    trim: float = field(
        default=0.0,
        metadata=option(
            "with --flow: share of the pixels that the camera's fit leaves out; published: 0", within=RANGES["trim"]
        ),
    )
    floor: float = field(
        default=FLOOR,
        metadata=option(
            "with --flow: motion in pixels below which nothing moves", flag="--motion-floor", within=RANGES["floor"]
        ),
    )
    cache: Path | None = field(
        default=None,
        metadata=option(
            "with --flow: keep finished videos in this folder, so that a killed build goes on",
            flag="--motion-cache",
            kind=Path,
            metavar="DIR",
            default=".surgxbench-motion below --out",
            below_out=".surgxbench-motion",
        ),
    )

    def recorded(self) -> dict[str, Any]:
        """What build.json says of them: no path of the machine."""
        weights = Path(self.weights) if self.weights else None
        flow = Raft(_never, weights=weights).identity("", ()) if self.flow == RAFT else "files"
        return {"flow": flow, "gamma": self.gamma, "trim": self.trim, "floor": self.floor}


def check_motion(options: MotionOptions) -> None:
    """Raises InputError for options that cannot work, before any frame is read."""
    if options.flow != RAFT and not Path(options.flow).is_dir():
        expected = "raft, or a folder of flow files: <video>/<frame>_forward.npy and so on"
        raise InputError(f"--flow {options.flow}", "no such folder", expected=expected)
    if options.weights and not Path(options.weights).is_file():
        raise InputError(options.weights, "no such file", expected="a state dict of torchvision's raft_large")


def with_motion(
    rows: Sequence[dict[str, Any]],
    roots: Mapping[str, Path],
    options: MotionOptions,
    *,
    successor: str,
    workers: Workers = HERE,
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """The rows with motion and camera where they have a successor, and how many frames do not move or are not known.

    successor: "frame" takes both frames of a pair from Cholec80's video, so that no difference between the copies
    looks like motion; both are scaled to the row's size.
    """
    by_video: dict[str, list[Pair]] = {}
    for row in rows:
        if row["successor"] is None:
            continue
        first = row["image"]
        if successor == "frame":
            first = reference(VIDEOS, cholec80.key(row["video"], FPS * row["frame"]))
        names = [f"{ref['source']}/{ref['key']}" for ref in (first, row["successor"])]
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
    found, counted = motion_of_videos(
        by_video, flow, cache=options.cache, gamma=options.gamma, trim=options.trim, floor=options.floor,
        workers=workers, reads=reads, gpu=options.flow == RAFT,
    )  # fmt: skip
    made = [row | found.get(f"VID{row['video']:02d}", {}).get(row["frame"], {}) for row in rows]
    return made, counted


def _open_pairs(roots: Mapping[str, Path], _: str, pairs: Sequence[Pair]) -> Iterator[tuple[Image.Image, Image.Image]]:
    opened = _in_turn([reference(*name.split("/", 1)) for pair in pairs for name in (pair.first, pair.second)], roots)
    for pair, first, second in zip(pairs, opened, opened, strict=True):
        assert pair.size is not None
        yield _scaled(first, pair.size), _scaled(second, pair.size)


def _never(*_: Any) -> Iterator[tuple[Any, Any]]:
    raise AssertionError("the weights' name needs no frame")


def _in_turn(refs: Sequence[ImageRef], roots: Mapping[str, Path]) -> Iterator[Image.Image]:
    """The pictures in turn, opened as they are asked for: repeated neighbours once, frames of a video in one pass."""
    runs = [(ref, len(list(same))) for ref, same in groupby(refs)]
    distinct = [ref for ref, _ in runs]
    of_video = all(ref["source"] == VIDEOS for ref in distinct)
    opened = _decoded(distinct, roots) if of_video else (images.open_image(ref, roots) for ref in distinct)
    for (_, times), image in zip(runs, opened, strict=True):
        yield from repeat(image, times)


def _decoded(refs: Sequence[ImageRef], roots: Mapping[str, Path]) -> Iterator[Image.Image]:
    """Frames of one video in ascending order, in one pass as far as it goes."""
    left = list(refs)
    while left:
        path = images.locate(left[0], roots)
        numbers = [parts[1] for ref in left if (parts := cholec80.split_key(ref["key"]))]
        try:
            for image in cholec80.frames(path, numbers):
                del left[0]
                yield image
        except InputError:  # where the fault is in frames that the next one does not need, it opens by itself
            yield images.open_image(left.pop(0), roots)


def _scaled(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """The image at (height, width)."""
    wide = size[1], size[0]
    return image if image.size == wide else image.resize(wide, Image.Resampling.BICUBIC)
