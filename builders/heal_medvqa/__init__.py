"""HEAL-MedVQA (Nguyen et al., "Localizing Before Answering: A Hallucination Evaluation Benchmark for Grounded Medical
Multimodal LLMs"): questions about diseases at anatomies, and their perturbed partners (TPT, VPT).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa

from ...loaders import anatomy_masks, detections, mimic_cxr, vindr_cxr
from ...loaders.errors import InputError
from ..benchmark import Benchmark, Repository, Request
from ..options import option
from ..parallel import Workers
from ..schemas.heal import QUESTION, TPT, VPT
from ..verify import arguments, read_split
from ..write import Family, Split
from . import mimic, perturbations, vindr
from .checks import pair_violations, question_violations, tpt_violations, vpt_violations
from .questions import questions
from .relations import MEASURES, PLACES, Picture, Rule, Scene
from .scenes import scenes
from .spool import Spool

# Config -> the source whose repository holds it. Each has two partners, `<config>_tpt` and `<config>_vpt`.
CONFIGS = {"vindr": vindr.SOURCE, "mimic": mimic.SOURCE}
NEEDS = {
    "vindr": (vindr.SOURCE, vindr.MASKS),
    "mimic": (mimic.SOURCE, mimic.MASKS, mimic.DETECTIONS),
}
ROWS_A_TABLE = 1_000
QUESTIONS = Family(QUESTION, ("kind", "question_type", "anatomy", "diseases"), question_violations)
PARTNERS = {
    "tpt": Family(TPT, ("kind", "anatomy", "disease"), tpt_violations),
    "vpt": Family(VPT, (), vpt_violations),
}


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a build.

    measure, threshold, places: when a disease lies at an anatomy (`relations.Rule`). agreement, labeler: see
    `vindr_cxr.agree` and `mimic_cxr.read_labels`. donor_diagnosis: see `perturbations.vpt`.
    """

    measure: str = field(
        default="iou",
        metadata=option(
            "how the overlap of a disease's box and an anatomy is measured: iou is their IoU, as published; box is the "
            "share of the box that lies in the anatomy",
            choices=MEASURES,
        ),
    )
    threshold: float = field(
        default=0.05, metadata=option("lowest overlap that relates a disease to an anatomy, from 0 to 1", within=(0, 1))
    )
    places: str = field(
        default="any",
        metadata=option(
            "to which anatomies a disease may be related: any, as published; anatomical, only those where it can lie",
            choices=PLACES,
        ),
    )
    agreement: str = field(
        default="majority",
        metadata=option("how many of VinDr-CXR's three readers must have drawn a box", choices=vindr_cxr.RULES),
    )
    anatomies: tuple[str, ...] = field(
        default=anatomy_masks.ANATOMIES,
        metadata=option(
            "ask about this anatomy only; repeat the option for several",
            flag="--anatomy",
            choices=anatomy_masks.ANATOMIES,
            default="all",
            metavar="A",
        ),
    )
    views: tuple[str, ...] = field(
        default=mimic_cxr.FRONTAL,
        metadata=option(
            "take images of this ViewPosition of MIMIC-CXR; repeat the option for several", flag="--view", metavar="V"
        ),
    )
    labeler: str = field(
        default="chexpert",
        metadata=option("whose labels of MIMIC-CXR's reports to read", choices=mimic_cxr.LABELERS),
    )
    detection_threshold: float = field(
        default=0.25, metadata=option("lowest score of a detected box, from 0 to 1", within=(0, 1))
    )
    segmenter: str | None = field(
        default=None,
        metadata=option(
            "what made the anatomy masks: its name, version and settings, which the card of a recipe then says; no row "
            "depends on it",
            kind=str,
            default="not said",
            metavar="TEXT",
        ),
    )
    donor_diagnosis: str = field(
        default="image",
        metadata=option(
            "where an image that lends its region (VPT) must be free of the question's disease: image, anywhere; "
            "region, at the anatomy that it lends",
            choices=perturbations.DONOR_DIAGNOSES,
        ),
    )


def family(config: str) -> Family:
    """What the rows of a config or of one of its partners are."""
    return PARTNERS.get(config.rpartition("_")[2], QUESTIONS)


def make(request: Request) -> Iterator[Repository]:
    """One repository a config, each written before the next one is read."""
    named = {config: {s: request.root(s) for s in NEEDS[config]} for config in request.configs}
    if "mimic" in named and mimic.REPORTS in request.roots:
        named["mimic"][mimic.REPORTS] = request.root(mimic.REPORTS)
    for config, roots in named.items():
        yield _make(config, roots, request)


def _make(config: str, roots: Mapping[str, Path], request: Request) -> Repository:
    options: Options = request.options
    pictures, skipped, reports = _pictures(config, roots, options, request.workers)
    masks = anatomy_masks.open_masks(roots[f"{CONFIGS[config]}_anatomy"], options.anatomies)
    rule = Rule(options.measure, options.threshold, options.places)
    made: dict[str, list[Scene]] = {}
    spool = Spool()
    for split in list(pictures):  # what is no longer needed leaves the memory
        title, of_one = f"reading masks of {config}/{split}", pictures.pop(split)
        made[split], left_out = scenes(of_one, masks, rule, roots, spool=spool, title=title, workers=request.workers)
        skipped += left_out
    n_images = sum(map(len, made.values()))
    splits = []
    for split in list(made):
        written, unused = _splits(config, split, made.pop(split), request.seed, options.donor_diagnosis)
        splits += written
        skipped += unused
    skipped = +skipped  # a reason that nothing was left out for says nothing
    if not splits:
        raise InputError(
            roots[CONFIGS[config]],
            f"{n_images} images with masks give no question"
            + "".join(f"; {count} {reason}" for reason, count in sorted(skipped.items())),
            expected="boxes that overlap masks",
            action="mend what was left out; check that the masks and boxes are of these images; or lower --threshold",
        )
    hashes = {mimic.REPORTS: reports} if reports else {}  # by their text, wherever they lie
    files = _files(config, roots) | {f"{CONFIGS[config]}_anatomy": masks.files}
    return Repository(
        CONFIGS[config], splits, files, hashes=lambda: hashes, keyed=_keyed(config, roots), skipped=lambda: skipped
    )


def _pictures(
    config: str, roots: Mapping[str, Path], options: Options, workers: Workers
) -> tuple[dict[str, list[Picture]], Counter[str], dict[str, str]]:
    """Pictures by split, how many of what was left out, and the hash of the reports that were read."""
    if config == "vindr":
        root = roots[vindr.SOURCE]
        read = partial(vindr.pictures, root, agreement=options.agreement)
        pictures = {split: read(split) for split in vindr_cxr.find_label_files(root)}
        ids = Counter(picture.image_id for of_split in pictures.values() for picture in of_split)
        twice = next((image_id for image_id, count in ids.items() if count > 1), None)
        if twice is not None:
            raise InputError(root, f"image {twice} is in two splits", action=vindr_cxr.ACTION)
        return pictures, Counter(), {}
    threshold = options.detection_threshold
    return mimic.pictures(
        roots, views=options.views, labeler=options.labeler, detection_threshold=threshold, workers=workers
    )


def _splits(
    config: str, split: str, of_split: Sequence[Scene], seed: int, donor_diagnosis: str
) -> tuple[list[Split], Counter[str]]:
    """The questions of one split and their partners, as far as there are any, and how many of what is in none."""
    asked = questions(of_split, config, split, seed=seed)
    lent = perturbations.donors(asked, donor_diagnosis)
    n_used, n_positive = len({one.scene for one in asked.asked}), sum(1 for _ in asked.positive())
    unused = Counter(
        {
            "images in no question (nothing to ask for, or beyond the balance of Yes and No)": len(of_split) - n_used,
            "positive questions for which no image can lend a region (VPT)": n_positive - len(lent),
        }
    )
    makers: dict[str, Callable[[], Iterable[dict[str, Any]]]] = {
        config: partial(iter, asked),
        f"{config}_tpt": partial(perturbations.tpt, asked),
        f"{config}_vpt": partial(perturbations.vpt, asked, lent),
    }
    # A split without a row cannot be loaded, and would take the others of its config with it.
    kept = {name: make for name, make in makers.items() if any(True for _ in make())}
    return [Split(name, split, partial(_tables, make, family(name).features)) for name, make in kept.items()], unused


def _tables(make: Callable[[], Iterable[dict[str, Any]]], schema: datasets.Features) -> Iterator[pa.Table]:
    """The rows, some at a time: as Python's objects they are large."""
    rows = iter(make())
    while some := list(islice(rows, ROWS_A_TABLE)):
        yield pa.Table.from_pylist(some, schema=schema.arrow_schema)


def _files(config: str, roots: Mapping[str, Path]) -> dict[str, Sequence[Path]]:
    """The label files by source. The card's command has to name the reports' source, too."""
    if config == "vindr":
        return {vindr.SOURCE: list(vindr_cxr.find_label_files(roots[vindr.SOURCE]).values())}
    return {
        mimic.SOURCE: list(mimic_cxr.find_label_files(roots[mimic.SOURCE]).values()),
        mimic.DETECTIONS: list(detections.find_label_files(roots[mimic.DETECTIONS]).values()),
        mimic.REPORTS: [],
    }


def _keyed(config: str, roots: Mapping[str, Path]) -> dict[str, Callable[[], pa.Table]]:
    """The labels that the keys are derived from: the boxes of each split, or the list of all images."""
    if config != "vindr":
        return {"": partial(mimic_cxr.read_images, roots[mimic.SOURCE], None)}
    files = vindr_cxr.find_label_files(roots[vindr.SOURCE])
    return {split: partial(vindr_cxr.read_boxes, path, split) for split, path in files.items()}


def partner_problems(folder: Path, config: str, split: str, sound: Collection[tuple[str, str]]) -> list[str]:
    """What is wrong between perturbed rows and the questions of their split."""
    base, _, partner = config.rpartition("_")
    if partner not in PARTNERS:
        return []
    if (base, split) not in sound:
        return [f"its questions, {base}/{split}, are missing or faulty"]
    rule = arguments(folder).get("donor_diagnosis", "image")
    return pair_violations(read_split(folder, base, split), read_split(folder, config, split), rule)


BENCHMARK = Benchmark(
    name="heal-medvqa",
    title="diseases at anatomies, and their perturbed partners (VinDr-CXR, MIMIC-CXR)",
    needs=NEEDS,
    family=family,
    make=make,
    options=Options,
    draws="chooses questions, templates, swaps and donors",
    check=partner_problems,
)
build, verify = BENCHMARK.build, BENCHMARK.verify
