"""SurgXBench (Cheng et al., "SurgXBench: Explainable Vision-Language Model Benchmark for Surgery"): frames with the
boxes of their instruments, and frames with action triplets, boxes and the motion that marks their interaction region.

`build` reads the sources, makes the rows and writes one repository a source; `verify` proves what it wrote.
"""

from __future__ import annotations

import importlib.metadata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import datasets
import pyarrow as pa

from ...loaders import cholec80, cholec80_boxes, cholect45, cholect50, sources
from ...loaders.errors import InputError
from ..configs import wanted
from ..schemas.surgx import INSTRUMENTS, TRIPLETS
from ..verify import Verdict, verify_repository
from ..write import Family, Split, source_record, write_repository
from .checks import instrument_violations, triplet_violations
from .frames import MISSING, SOURCE, SUCCESSORS, VIDEOS, instrument_rows
from .motion_rows import MotionOptions, check_motion, with_motion
from .seconds import numbering
from .triplets import triplet_rows

NAME = "surgxbench"
SPLIT = "test"
# Config -> the source whose repository holds it.
CONFIGS = {"instruments": SOURCE, "triplets": "cholect45", "triplets_t50": "cholect50"}
READERS: dict[str, ModuleType] = {"triplets": cholect45, "triplets_t50": cholect50}
NEEDS = {config: tuple(dict.fromkeys((source, SOURCE))) for config, source in CONFIGS.items()}
KEYS = {SOURCE: {"": ("ROI_Labels.csv",)}}
FAMILIES = {
    SOURCE: Family(INSTRUMENTS, ("video", "instruments"), instrument_violations),
    "triplets": Family(TRIPLETS, ("video", "instruments"), triplet_violations),
}


@dataclass(frozen=True, slots=True)
class Options:
    """Arguments of a build.

    successor: of a frame, "second" (the data set's next frame) or "frame" (the 25-fps video's next; needs cholec80).
    boxes_step, boxes_first: how Cholec80-Boxes numbers its frames (`seconds.Numbering`); None is found out.
    motion: what the motion masks are made of; None leaves them out.
    """

    successor: str = "second"
    boxes_step: int | None = None
    boxes_first: int | None = None
    motion: MotionOptions | None = None


def family(config: str) -> Family:
    """What the rows of a config are."""
    return FAMILIES[SOURCE] if config == "instruments" else FAMILIES["triplets"]


def build(
    roots: Mapping[str, Path],
    out: Path,
    *,
    configs: Sequence[str] | None = None,
    seed: int = 0,
    options: Options | None = None,
    workers: int = 1,
    card: Callable[[str], str] = lambda name: f"# {name}\n",
) -> list[Path]:
    """Builds the configs (default: all whose sources have roots) below `out`; returns the repositories' folders.

    Args:
        roots: source id -> folder. card: README body for a repository's name.
        seed: recorded; nothing is drawn at random. workers: threads that look at frames; the bytes do not depend on it.

    Raises InputError for an unknown config or option, MissingSourceError for a config whose sources have no root.
    """
    options = options or Options()
    if options.successor not in SUCCESSORS:
        raise InputError(
            f"--successor {options.successor}", "no such choice", expected=f"one of {', '.join(SUCCESSORS)}"
        )
    if options.motion is not None:
        check_motion(options.motion)
    chosen = wanted(NAME, NEEDS, configs, roots)
    more = (VIDEOS,) if options.successor == "frame" else ()
    named = {c: {s: sources.root_of(s, roots) for s in (*NEEDS[c], *more)} for c in chosen}
    boxed = cholec80_boxes.read_frames(named[chosen[0]][SOURCE])
    numbered = numbering(boxed, step=options.boxes_step, first=options.boxes_first)
    made = []
    for config, of_config in named.items():
        make = partial(instrument_rows, boxed) if config == "instruments" else _triplets(config, boxed)
        rows, counted = make(of_config, numbered, kind=options.successor, workers=workers)
        if not rows:
            where = of_config[CONFIGS[config]]
            raise InputError(where, f"none of its {counted[MISSING]} labelled frames is there", action="unpack them")
        if options.motion is not None and config != "instruments":
            rows, of_motion = with_motion(rows, of_config, options.motion, successor=options.successor)
            counted += of_motion
        made.append((config, of_config, rows, counted))
    # Nothing is written before every config has its rows.
    return [
        _write(config, of_config, rows, counted, out, seed, options, card) for config, of_config, rows, counted in made
    ]


def _triplets(config: str, boxed: Sequence[cholec80_boxes.BoxedFrame]) -> Callable[..., Any]:
    def make(roots, numbered, **how):
        return triplet_rows(READERS[config], config, CONFIGS[config], roots, boxed, numbered, **how)

    return make


def _write(
    config: str,
    roots: Mapping[str, Path],
    rows: list[dict[str, Any]],
    counted: Counter[str],
    out: Path,
    seed: int,
    options: Options,
    card: Callable[[str], str],
) -> Path:
    name = f"{NAME}-{CONFIGS[config]}"
    split = Split(config, SPLIT, partial(_table, rows, family(config).features))
    record = partial(_record, config, roots, rows, counted, seed, options)
    return write_repository(out, name, [split], families=family, record=record, card=card(name))


def _table(rows: list[dict[str, Any]], schema: datasets.Features) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema.arrow_schema)


def _record(
    config: str,
    roots: Mapping[str, Path],
    rows: Sequence[Mapping[str, Any]],
    counted: Counter[str],
    seed: int,
    options: Options,
) -> dict[str, Any]:
    """What build.json says of a build beside its rows. `counted`: what was left out or does not agree, by reason."""
    files = {SOURCE: list(cholec80_boxes.label_files(roots[SOURCE]).values())}
    videos = sorted({row["video"] for row in rows})
    if config in READERS:
        root = roots[CONFIGS[config]]
        files[CONFIGS[config]] = [path for video in videos for path in _label_files(config, root, video)]
    elif VIDEOS in roots:
        files[VIDEOS] = [cholec80.tool_file(roots[VIDEOS], video) for video in videos]
    motion = {"motion": options.motion.recorded() if options.motion and config in READERS else None}
    return {
        "benchmark": NAME,
        "source": CONFIGS[config],
        "medfaith": importlib.metadata.version("medfaith"),
        "seed": seed,
        "arguments": asdict(options) | motion,
        "sources": {source_id: source_record(source_id, own) for source_id, own in sorted(files.items())},
        "skipped": dict(sorted(counted.items())),
    }


def _label_files(config: str, root: Path, video: int) -> list[Path]:
    if config == "triplets":
        return list(cholect45.label_files(root, video).values())
    return [cholect50.label_file(root, video)]


def verify(folder: Path, references: Sequence[Mapping[str, Any]] = ()) -> list[Verdict]:
    """Verifies every split of one repository.

    Raises InputError for a build.json or Parquet that cannot be read. references: records in the form of build.json.
    """
    return verify_repository(folder, {NAME: family}, references)
