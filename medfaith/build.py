"""`medfaith build`: a parser and a job for each benchmark; and what other jobs of the command share with it."""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medfaith.loaders import sources
from medfaith.loaders.errors import MedfaithError

DEFAULT_OUT = "medfaith-data"


def add_jobs(jobs: Any) -> None:
    """Adds `build` and its benchmarks to the command's jobs."""
    job = jobs.add_parser("build", help="rebuild a benchmark's splits from licensed sources")
    benchmarks = job.add_subparsers(required=True, metavar="BENCHMARK")
    job = benchmarks.add_parser("cxr-contrabench", help="negated options (CheXpert, OpenI, CheXStruct, ReXVQA)")
    _build_arguments(job, "chooses among eligible distractors")
    wording_arguments(job)
    job.set_defaults(job=_build_contrabench)
    job = benchmarks.add_parser("heal-medvqa", help="diseases at anatomies, perturbed (VinDr-CXR, MIMIC-CXR)")
    _build_arguments(job, "chooses questions, swaps and donors")
    _heal_arguments(job)
    job.set_defaults(job=_build_heal)
    job = benchmarks.add_parser(
        "surgxbench", help="instruments, triplets, motion (Cholec80-Boxes, CholecT45, CholecT50)"
    )
    _build_arguments(job, "is recorded; nothing is drawn at random")
    _surgx_arguments(job)
    job.set_defaults(job=_build_surgx)
    job = benchmarks.add_parser(
        "wrong-lung",
        help="sentences and their boxes, perturbed (Chest ImaGenome, MIMIC-CXR)",
        epilog="--config silver adds the data set's automatic annotations, for training: a quarter of a million "
        "images, so that no build makes them unasked. Alone it comes beside all other configs, else beside those "
        "named. Each build writes its folder anew: repeat the --seed and options of the one before.",
    )
    _build_arguments(job, "chooses orders, sentences, boxes and conditions")
    _wrong_lung_arguments(job)
    job.set_defaults(job=_build_wrong_lung)


def root_argument(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--root",
        action="append",
        default=[],
        metavar="SOURCE=PATH",
        help="where a source lies (repeatable); chexpert=torchxrayvision reads the labels inside that package",
    )


def _build_arguments(job: argparse.ArgumentParser, seed: str) -> None:
    job.add_argument("--config", action="append", metavar="C", help="build this config only (repeatable)")
    root_argument(job)
    job.add_argument("--out", type=Path, default=Path(DEFAULT_OUT), help="folder to write to (default: %(default)s)")
    job.add_argument("--seed", type=int, default=0, help=f"{seed} (default: %(default)s)")
    job.add_argument("--workers", type=_positive, default=1, help="the bytes written do not depend on it")


def _heal_arguments(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--measure", default="iou", help="of box and anatomy: iou (as published), or box: its share inside"
    )
    job.add_argument(
        "--threshold", type=float, default=0.05, help="lowest measure of a relation (default: %(default)s)"
    )
    job.add_argument(
        "--places", default="any", help="any (as published), or anatomical: relate a class only to where it can lie"
    )
    job.add_argument("--agreement", default="majority", help="of VinDr-CXR's three readers: majority, any or all")
    job.add_argument("--anatomy", action="append", metavar="A", help="ask about this anatomy only (repeatable)")
    job.add_argument(
        "--view", action="append", metavar="V", help="take this ViewPosition of MIMIC-CXR (default: AP, PA)"
    )
    job.add_argument("--labeler", default="chexpert", help="of MIMIC-CXR's reports: chexpert or negbio")
    job.add_argument("--detection-threshold", type=float, default=0.25, help="lowest score (default: %(default)s)")


def _surgx_arguments(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--successor",
        default="second",
        help="the frame that the optical flow leads to: second (the data set's next, as it keeps one a second), or "
        "frame (1/25 s later, from Cholec80's videos)",
    )
    job.add_argument(
        "--boxes-step", type=_positive, help="frame numbers of Cholec80-Boxes a second (default: found out)"
    )
    job.add_argument("--boxes-first", type=int, help="number of its first second (default: found out)")
    job.add_argument("--flow", metavar="raft|DIR", help="add motion masks: by RAFT, or of flow files in this folder")
    job.add_argument("--raft-weights", metavar="FILE", help="of raft_large (default: torchvision's, downloaded)")
    job.add_argument("--gamma", type=float, help="quantile of motion that a mask keeps (default: 0.8, C.1)")
    job.add_argument("--trim", type=float, help="share of pixels that the camera's fit leaves out (published: 0)")
    job.add_argument("--motion-floor", type=float, help="pixels; less is no motion (default: 0.5)")
    job.add_argument(
        "--motion-cache", type=Path, metavar="DIR", help="keep finished videos here (default: below --out)"
    )


def _wrong_lung_arguments(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--swap",
        default="words",
        help="left and right as words, or as substring: anywhere, in lower case, as the paper's code has it (default: "
        "%(default)s)",
    )
    job.add_argument(
        "--random-boxes",
        default="share",
        help="of another image, at the same share of this one's width and height, or at the same pixels (default: "
        "%(default)s)",
    )


def wording_arguments(job: argparse.ArgumentParser) -> None:
    job.add_argument("--negation-form", default="canonical_no", help="wording of the negated option (Appendix I)")
    job.add_argument("--question-form", default="original", help="original, p1, p2 or p3")
    job.add_argument("--layout", default="original", help="original (target first, as we read the paper) or shuffled")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not a positive number")
    return value


def roots(arguments: argparse.Namespace) -> dict[str, Path]:
    given = sources.parse_root_arguments(arguments.root)
    return sources.resolve_roots(given, environ=os.environ, config=sources.user_config())


def wording(arguments: argparse.Namespace):
    from medfaith.builders.cxr_contrabench.questions import Wording

    return Wording(arguments.negation_form, arguments.question_form, arguments.layout)


def _build_contrabench(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith import cards
    from medfaith.builders import cxr_contrabench

    folders = cxr_contrabench.build(
        roots(arguments),
        arguments.out,
        configs=arguments.config,
        seed=arguments.seed,
        wording=wording(arguments),
        workers=arguments.workers,
        card=cards.body,
    )
    return _print_build(folders, arguments.out)


def _build_heal(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith.builders import heal_medvqa

    lists = {"anatomies": arguments.anatomy, "views": arguments.view}
    options = heal_medvqa.Options(
        measure=arguments.measure,
        threshold=arguments.threshold,
        places=arguments.places,
        agreement=arguments.agreement,
        labeler=arguments.labeler,
        detection_threshold=arguments.detection_threshold,
        **{name: tuple(dict.fromkeys(values)) for name, values in lists.items() if values},
    )
    return _build_with(heal_medvqa, options, arguments)


def _build_surgx(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith.builders import surgxbench
    from medfaith.builders.surgxbench.motion_rows import MotionOptions

    given = {
        "weights": arguments.raft_weights,
        "gamma": arguments.gamma,
        "trim": arguments.trim,
        "floor": arguments.motion_floor,
        "cache": arguments.motion_cache,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    if chosen and not arguments.flow:
        option = {"weights": "--raft-weights", "floor": "--motion-floor", "cache": "--motion-cache"}
        name = next(iter(chosen))
        raise MedfaithError(f"{option.get(name, f'--{name}')} says how motion is found\n  what to do: give --flow, too")
    motion = None
    if arguments.flow:
        motion = MotionOptions(arguments.flow, **{"cache": arguments.out / ".surgxbench-motion"} | chosen)
    options = surgxbench.Options(
        successor=arguments.successor,
        boxes_step=arguments.boxes_step,
        boxes_first=arguments.boxes_first,
        motion=motion,
    )
    return _build_with(surgxbench, options, arguments)


def _build_wrong_lung(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith.builders import wrong_lung

    options = wrong_lung.Options(swap=arguments.swap, random_boxes=arguments.random_boxes)
    return _build_with(wrong_lung, options, arguments)


def _build_with(benchmark: Any, options: Any, arguments: argparse.Namespace) -> int:
    """Builds what the arguments ask for, and names the configs of which only some sources are there."""
    from medfaith import cards
    from medfaith.builders.configs import incomplete

    found = roots(arguments)
    folders = benchmark.build(
        found,
        arguments.out,
        configs=arguments.config,
        seed=arguments.seed,
        options=options,
        workers=arguments.workers,
        card=cards.body,
    )
    for config, lacking in () if arguments.config else incomplete(benchmark.NEEDS, found).items():
        print(f"{config} was not built: it needs {', '.join(lacking)}, too")
    return _print_build(folders, arguments.out)


def _print_build(folders: Sequence[Path], out: Path) -> int:
    from medfaith.builders.verify import skipped

    sound = print_verdicts(folders)
    for folder in folders:
        for reason, count in skipped(folder).items():
            print(f"{folder.name}: left out, or counted: {count} {reason}")
    print(f"written to {out}")
    return 0 if sound else 2


def print_verdicts(folders: Sequence[Path], *, official: bool = True) -> bool:
    """Prints what verifying the repositories gave; False when any split is not what it should be.

    official: whether the paper's counts and the committed references are worth a comparison (not for synthetic data).
    """
    from medfaith import cards
    from medfaith.builders import benchmarks
    from medfaith.builders.verify import benchmark_of
    from medfaith.printing import verdict_table

    references = cards.references() if official else []
    verdicts = []
    for name, of_benchmark in itertools.groupby(sorted(folders, key=benchmark_of), key=benchmark_of):
        found = [v for folder in of_benchmark for v in benchmarks.verify(folder, references)]
        print(verdict_table(found, cards.published(name) if official else None))
        verdicts += found
    return all(not v.problems and not (v.reference == "differs" and v.same_labels) for v in verdicts)
