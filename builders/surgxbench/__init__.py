"""SurgXBench (Cheng et al., "SurgXBench: Explainable Vision-Language Model Benchmark for Surgery").

Two configs have frames with the boxes of their instruments. The others have frames with action triplets, boxes and a
motion mask, which marks the region of the interaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import datasets
import pyarrow as pa

from ...loaders import cholec80, cholec80_boxes, cholecseg8k, cholect45, cholect50
from ..benchmark import Benchmark, Repository, Request
from ..options import group, option, whole
from ..schemas.surgx import INSTRUMENTS, TRIPLETS
from ..write import Family, Split
from .checks import find_instrument_violations, find_segmented_violations, find_triplet_violations
from .frames import SOURCE, SUCCESSORS, VIDEOS, build_instrument_rows
from .motion_rows import MotionOptions, add_motion, check_motion
from .reasons import REASONS
from .seconds import infer_numbering
from .segmented import SOURCE as SEGMENTED_SOURCE
from .segmented import build_segmented_rows, select_frames
from .triplets import TripletDataset, build_triplet_rows
from .vocabulary import COUNTED, vocabulary

SPLIT = "test"
SEGMENTED = "instruments_seg8k"  # the config that needs no Cholec80-Boxes
# Config -> the source whose repository holds it.
CONFIGS = {"instruments": SOURCE, "triplets": "cholect45", "triplets_t50": "cholect50", SEGMENTED: SEGMENTED_SOURCE}
READERS: dict[str, ModuleType] = {"triplets": cholect45, "triplets_t50": cholect50}
NEEDS = {
    config: (source,) if config == SEGMENTED else tuple(dict.fromkeys((source, SOURCE)))
    for config, source in CONFIGS.items()
}
_TRIPLET_FAMILY = Family(TRIPLETS, COUNTED, find_triplet_violations)
FAMILIES = {
    "instruments": Family(INSTRUMENTS, COUNTED, find_instrument_violations),
    SEGMENTED: Family(INSTRUMENTS, COUNTED, find_segmented_violations),
    **dict.fromkeys(READERS, _TRIPLET_FAMILY),
}


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a build.

    Attributes:
        successor: The second frame of the optical flow.
        boxes_step: Frame numbers of Cholec80-Boxes per second (`seconds.Numbering`); None infers it.
        boxes_first: Frame number of the first second (`seconds.Numbering`); None infers it.
        motion: The settings of the motion masks; None omits the masks.
    """

    successor: str = field(
        default="second",
        metadata=option(
            "the second frame of the optical flow: second is the next frame of the data set, which has one per second; "
            "frame is the next frame of the video, 1/25 s later, and needs the videos of cholec80",
            choices=SUCCESSORS,
        ),
    )
    boxes_step: int | None = field(
        default=None,
        metadata=option(
            "increase of the frame number in Cholec80-Boxes from one second to the next",
            kind=whole(above=0),
            within=(1, 9_999_999),
            metavar="N",
            default="inferred from the frame numbers",
        ),
    )
    boxes_first: int | None = field(
        default=None,
        metadata=option(
            "frame number of the first second in Cholec80-Boxes",
            kind=int,
            within=(-9_999_999, 9_999_999),
            metavar="N",
            default="inferred from the frame numbers",
        ),
    )
    motion: MotionOptions | None = field(default=None, metadata=group(MotionOptions))


def select_family(config: str) -> Family:
    """Select the row family of a config.

    Args:
        config: The name of the config.

    Returns:
        The family.
    """
    return FAMILIES[config]


def make(request: Request) -> Iterator[Repository]:
    """Make one repository per config. The rows of all configs are built before the first repository is yielded.

    Args:
        request: The arguments of the build.

    Yields:
        The repositories.

    Raises:
        MissingSourceError: A source has no root.
        InputError: A source or an option is faulty.
    """
    options: Options = request.options
    if options.motion is not None:
        check_motion(options.motion)
    repositories = _make_boxed(request, options, [config for config in request.configs if config != SEGMENTED])
    if SEGMENTED in request.configs:
        repositories.append(_make_segmented(request, options))
    yield from repositories


def _make_boxed(request: Request, options: Options, configs: Sequence[str]) -> list[Repository]:
    """Make the repositories of the configs with boxes of Cholec80-Boxes."""
    further_sources = (VIDEOS,) if options.successor == "frame" else ()
    roots_by_config = {
        c: {source_id: request.find_root(source_id) for source_id in (*NEEDS[c], *further_sources)} for c in configs
    }
    if not configs:
        return []
    boxed_frames = cholec80_boxes.read_frames(roots_by_config[configs[0]][SOURCE])
    frame_numbering = infer_numbering(boxed_frames, step=options.boxes_step, first=options.boxes_first)
    repositories = []
    for config, roots in roots_by_config.items():
        build_rows = (
            partial(build_instrument_rows, boxed_frames)
            if config == "instruments"
            else _make_triplet_builder(config, boxed_frames)
        )
        rows, counted = build_rows(roots, frame_numbering, kind=options.successor, workers=request.workers)
        if options.motion is not None and config != "instruments":
            rows, motion_counts = add_motion(
                rows, roots, options.motion, successor=options.successor, workers=request.workers
            )
            counted += motion_counts
        files = _list_files(config, roots, sorted({row["video"] for row in rows}))
        motion = options.motion.describe() if options.motion and config in READERS else None
        repositories.append(_make_repository(config, rows, counted, files, motion))
    return repositories


def _make_segmented(request: Request, options: Options) -> Repository:
    """Make the repository of CholecSeg8k."""
    roots = {SEGMENTED_SOURCE: request.find_root(SEGMENTED_SOURCE)}
    frames = cholecseg8k.list_frames(roots[SEGMENTED_SOURCE])
    rows, counted = build_segmented_rows(frames, roots, kind=options.successor, workers=request.workers)
    files = {SEGMENTED_SOURCE: [frame.mask for frame in select_frames(frames)]}
    return _make_repository(SEGMENTED, rows, counted, files)


def _make_repository(
    config: str,
    rows: list[dict[str, Any]],
    counted: Counter[str],
    files: Mapping[str, Sequence[Path]],
    motion: Any = None,
) -> Repository:
    return Repository(
        CONFIGS[config],
        [Split(config, SPLIT, partial(_build_table, rows, select_family(config).features))],
        files,
        arguments={"motion": motion},
        skipped=partial(Counter, counted),
    )


def _make_triplet_builder(config: str, boxed_frames: Sequence[cholec80_boxes.BoxedFrame]) -> Callable[..., Any]:
    def build(roots, frame_numbering, **settings):
        dataset = TripletDataset(config, CONFIGS[config], READERS[config])
        return build_triplet_rows(dataset, roots, boxed_frames, frame_numbering, **settings)

    return build


def _build_table(rows: list[dict[str, Any]], schema: datasets.Features) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema.arrow_schema)


def _list_files(config: str, roots: Mapping[str, Path], videos: Sequence[int]) -> dict[str, Sequence[Path]]:
    """List the label files by source, only of videos with rows."""
    files: dict[str, Sequence[Path]] = {SOURCE: list(cholec80_boxes.find_label_files(roots[SOURCE]).values())}
    if config in READERS:
        root = roots[CONFIGS[config]]
        files[CONFIGS[config]] = [path for video in videos for path in _list_label_files(config, root, video)]
    elif VIDEOS in roots:
        files[VIDEOS] = [cholec80.tool_file(roots[VIDEOS], video) for video in videos]
    return files


def _list_label_files(config: str, root: Path, video: int) -> list[Path]:
    if config == "triplets":
        return list(cholect45.find_label_files(root, video).values())
    return [cholect50.label_file(root, video)]


BENCHMARK = Benchmark(
    name="surgxbench",
    title="questions about instruments, triplets and motion in surgery (Cholec80-Boxes, CholecT45/50, CholecSeg8k)",
    needs=NEEDS,
    family=select_family,
    make=make,
    options=Options,
    draws="accepted for consistency and recorded; this benchmark has no random choices",
    reasons=REASONS,
    vocabulary=vocabulary,
)
build, verify = BENCHMARK.build, BENCHMARK.verify
