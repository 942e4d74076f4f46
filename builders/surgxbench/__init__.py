"""SurgXBench (Cheng et al., "SurgXBench: Explainable Vision-Language Model Benchmark for Surgery"): frames with the
boxes of their instruments, and frames with action triplets, boxes and the motion that marks their interaction region.
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

from ...loaders import cholec80, cholec80_boxes, cholect45, cholect50
from ...loaders.errors import InputError
from ..benchmark import Benchmark, Repository, Request
from ..label_keys import as_table
from ..options import group, option, whole
from ..schemas.surgx import INSTRUMENTS, TRIPLETS
from ..write import Family, Split
from .checks import instrument_violations, triplet_violations
from .frames import MISSING, SOURCE, SUCCESSORS, VIDEOS, instrument_rows
from .motion_rows import MotionOptions, check_motion, with_motion
from .seconds import numbering
from .triplets import triplet_rows

SPLIT = "test"
# Config -> the source whose repository holds it.
CONFIGS = {"instruments": SOURCE, "triplets": "cholect45", "triplets_t50": "cholect50"}
READERS: dict[str, ModuleType] = {"triplets": cholect45, "triplets_t50": cholect50}
NEEDS = {config: tuple(dict.fromkeys((source, SOURCE))) for config, source in CONFIGS.items()}
FAMILIES = {
    SOURCE: Family(INSTRUMENTS, ("video", "instruments"), instrument_violations),
    "triplets": Family(TRIPLETS, ("video", "instruments"), triplet_violations),
}


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a build.

    boxes_step, boxes_first: how Cholec80-Boxes numbers its frames (`seconds.Numbering`); None reads it from the
    frame numbers.
    motion: what the motion masks are made of; None leaves them out.
    """

    successor: str = field(
        default="second",
        metadata=option(
            "the frame to which the optical flow leads: second is the data set's next one, as it keeps one a second; "
            "frame is the video's next one, 1/25 s later, and needs the videos of cholec80",
            choices=SUCCESSORS,
        ),
    )
    boxes_step: int | None = field(
        default=None,
        metadata=option(
            "how many frame numbers of Cholec80-Boxes make one second",
            kind=whole(above=0),
            default="read from the frame numbers",
        ),
    )
    boxes_first: int | None = field(
        default=None,
        metadata=option(
            "the frame number of the first second in Cholec80-Boxes", kind=int, default="read from the frame numbers"
        ),
    )
    motion: MotionOptions | None = field(default=None, metadata=group(MotionOptions))


def family(config: str) -> Family:
    """What the rows of a config are."""
    return FAMILIES[SOURCE] if config == "instruments" else FAMILIES["triplets"]


def make(request: Request) -> Iterator[Repository]:
    """One repository a config; none is given before every config has its rows."""
    options: Options = request.options
    if options.motion is not None:
        check_motion(options.motion)
    more = (VIDEOS,) if options.successor == "frame" else ()
    named = {c: {s: request.root(s) for s in (*NEEDS[c], *more)} for c in request.configs}
    boxed = cholec80_boxes.read_frames(named[request.configs[0]][SOURCE])
    numbered = numbering(boxed, step=options.boxes_step, first=options.boxes_first)
    made = []
    for config, roots in named.items():
        rows_of = partial(instrument_rows, boxed) if config == "instruments" else _triplets(config, boxed)
        rows, counted = rows_of(roots, numbered, kind=options.successor, workers=request.workers)
        if not rows:
            where = roots[CONFIGS[config]]
            raise InputError(where, f"none of its {counted[MISSING]} labelled frames is there", action="unpack them")
        if options.motion is not None and config != "instruments":
            rows, of_motion = with_motion(
                rows, roots, options.motion, successor=options.successor, workers=request.workers
            )
            counted += of_motion
        made.append((config, roots, rows, counted))
    for config, roots, rows, counted in made:
        motion = options.motion.recorded() if options.motion and config in READERS else None
        yield Repository(
            CONFIGS[config],
            [Split(config, SPLIT, partial(_table, rows, family(config).features))],
            _files(config, roots, sorted({row["video"] for row in rows})),
            arguments={"motion": motion},
            keyed={"": partial(as_table, boxed)},
            skipped=partial(Counter, counted),
        )


def _triplets(config: str, boxed: Sequence[cholec80_boxes.BoxedFrame]) -> Callable[..., Any]:
    def make(roots, numbered, **how):
        return triplet_rows(READERS[config], config, CONFIGS[config], roots, boxed, numbered, **how)

    return make


def _table(rows: list[dict[str, Any]], schema: datasets.Features) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema.arrow_schema)


def _files(config: str, roots: Mapping[str, Path], videos: Sequence[int]) -> dict[str, Sequence[Path]]:
    """The label files by source: those of the videos that rows are of."""
    files: dict[str, Sequence[Path]] = {SOURCE: list(cholec80_boxes.find_label_files(roots[SOURCE]).values())}
    if config in READERS:
        root = roots[CONFIGS[config]]
        files[CONFIGS[config]] = [path for video in videos for path in _label_files(config, root, video)]
    elif VIDEOS in roots:
        files[VIDEOS] = [cholec80.tool_file(roots[VIDEOS], video) for video in videos]
    return files


def _label_files(config: str, root: Path, video: int) -> list[Path]:
    if config == "triplets":
        return list(cholect45.find_label_files(root, video).values())
    return [cholect50.label_file(root, video)]


BENCHMARK = Benchmark(
    name="surgxbench",
    title="instruments, triplets and motion in surgery (Cholec80-Boxes, CholecT45, CholecT50)",
    needs=NEEDS,
    family=family,
    make=make,
    options=Options,
    draws="changes no row, as nothing is drawn at random; it is recorded",
)
build, verify = BENCHMARK.build, BENCHMARK.verify
