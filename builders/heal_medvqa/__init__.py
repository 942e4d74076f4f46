"""HEAL-MedVQA: questions about diseases at anatomies, and their perturbed partners (TPT, VPT).

Nguyen et al., "Localizing Before Answering: A Hallucination Evaluation Benchmark for Grounded Medical Multimodal LLMs".
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

from ...loaders import anatomy_masks, detections, mimic_cxr, nih_cxr14, vindr_cxr
from ...loaders.errors import InputError
from ..benchmark import NO_FILE, Benchmark, Repository, Request
from ..options import option
from ..parallel import Workers
from ..schemas.heal import QUESTION, TPT, VPT
from ..verify import read_arguments, read_split
from ..write import Family, Split
from . import mimic, nih, perturbations, segmenter, vindr
from .checks import find_pair_violations, find_question_violations, find_tpt_violations, find_vpt_violations
from .questions import questions
from .reasons import IN_NO_QUESTION, NO_DONOR, REASONS
from .relations import MEASURES, PLACES, Picture, Rule, Scene
from .scenes import scenes
from .spool import Spool
from .vocabulary import COUNTED, COUNTED_TPT, vocabulary

# Config -> the source whose repository holds it. Each config has two partners, `<config>_tpt` and `<config>_vpt`.
CONFIGS = {"vindr": vindr.SOURCE, "mimic": mimic.SOURCE, "nih": nih.SOURCE}
NEEDS = {
    "vindr": (vindr.SOURCE, vindr.MASKS),
    "mimic": (mimic.SOURCE, mimic.MASKS, mimic.DETECTIONS),
    "nih": (nih.SOURCE, nih.MASKS),
}
ROWS_A_TABLE = 1_000
QUESTIONS = Family(QUESTION, COUNTED, find_question_violations)
PARTNERS = {
    "tpt": Family(TPT, COUNTED_TPT, find_tpt_violations),
    "vpt": Family(VPT, {}, find_vpt_violations),
}


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a build.

    Attributes:
        measure: How the overlap of a box and an anatomy is measured (`relations.Rule`).
        threshold: The lowest overlap that relates a disease to an anatomy (`relations.Rule`).
        places: The anatomies to which a disease may be related (`relations.Rule`).
        agreement: How many readers must agree on a box (`vindr_cxr.agree`).
        anatomies: The anatomies in questions.
        views: The values of ViewPosition of MIMIC-CXR.
        labeler: The labeler of MIMIC-CXR's reports (`mimic_cxr.read_labels`).
        detection_threshold: The lowest score of a detected box.
        segmenter: Name, version and settings of the model that made the anatomy masks.
        donor_diagnosis: Where a donor must be free of the question's disease (`perturbations.donors`).
    """

    measure: str = field(
        default="iou",
        metadata=option(
            "measure of the overlap of a disease's box and an anatomy: iou is their IoU, as published; box is the "
            "share of the box inside the anatomy",
            choices=MEASURES,
        ),
    )
    threshold: float = field(
        default=0.05,
        metadata=option(
            "lowest overlap that relates a disease to an anatomy, from 0 to 1", within=(0, 1), metavar="NUMBER"
        ),
    )
    places: str = field(
        default="any",
        metadata=option(
            "anatomies to which a disease may be related: any is all of them, as published; anatomical is those in "
            "which the disease can occur",
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
            "ask about this anatomy only; give the option again for further ones",
            flag="--anatomy",
            choices=(*anatomy_masks.ANATOMIES, *anatomy_masks.WHOLE_LUNGS),
            default="all that the source has, whole lungs only for nih",
            metavar="NAME",
        ),
    )
    views: tuple[str, ...] = field(
        default=mimic_cxr.FRONTAL,
        metadata=option(
            "use images of MIMIC-CXR with this ViewPosition; give the option again for further ones",
            flag="--view",
            choices=mimic_cxr.VIEWS,
            metavar="NAME",
        ),
    )
    labeler: str = field(
        default="chexpert",
        metadata=option("labeler of MIMIC-CXR's reports whose labels to read", choices=mimic_cxr.LABELERS),
    )
    detection_threshold: float = field(
        default=0.25,
        metadata=option("lowest score of a detected box, from 0 to 1", within=(0, 1), metavar="NUMBER"),
    )
    segmenter: str | None = field(
        default=None,
        metadata=option(
            "name, version and settings of the model that made the anatomy masks, such as "
            '"TotalSegmentator 2.4.0, threshold=0.5"; the card of a recipe prints them, and they change no row',
            pattern=segmenter.PATTERN,
            form=segmenter.FORM,
            kind=str,
            default="not stated",
            metavar="MODEL",
        ),
    )
    donor_diagnosis: str = field(
        default="image",
        metadata=option(
            "part of a donor image (VPT) that must be free of the question's disease: image is all of it; region is "
            "the anatomy that is copied from it",
            choices=perturbations.DONOR_DIAGNOSES,
        ),
    )


def select_family(config: str) -> Family:
    """Select the row family of a config or of one of its partners.

    Args:
        config: The name of the config.

    Returns:
        The family.
    """
    return PARTNERS.get(config.rpartition("_")[2], QUESTIONS)


def make(request: Request) -> Iterator[Repository]:
    """Make one repository per config. Each is written before the next config is read.

    Args:
        request: The arguments of the build.

    Yields:
        The repositories.

    Raises:
        MissingSourceError: A source has no root.
        InputError: A source is faulty, or no question can be built.
    """
    roots_by_config = {
        config: {source_id: request.find_root(source_id) for source_id in NEEDS[config]} for config in request.configs
    }
    if "mimic" in roots_by_config and mimic.REPORTS in request.roots:
        roots_by_config["mimic"][mimic.REPORTS] = request.find_root(mimic.REPORTS)
    for config, roots in roots_by_config.items():
        yield _make_repository(config, roots, request)


def _make_repository(config: str, roots: Mapping[str, Path], request: Request) -> Repository:
    options: Options = request.options
    pictures, skipped, reports = _read_pictures(config, roots, options, request.workers)
    arguments = {}
    if config == "nih":
        arguments["anatomies"] = anatomies = nih.select_anatomies(options.anatomies)
        pictures[nih.SPLIT], masks, poor = nih.open_masks(roots[nih.MASKS], pictures[nih.SPLIT], anatomies)
        skipped += poor
    else:
        masks = anatomy_masks.open_masks(roots[NEEDS[config][1]], options.anatomies)
    rule = Rule(options.measure, options.threshold, options.places)
    scenes_by_split: dict[str, list[Scene]] = {}
    spool = Spool()
    for split in list(pictures):  # `pop` frees the memory of pictures that are no longer needed
        title, split_pictures = f"reading masks of {config}/{split}", pictures.pop(split)
        scenes_by_split[split], scene_counts = scenes(
            split_pictures, masks, rule, roots, spool=spool, title=title, workers=request.workers
        )
        skipped += scene_counts
    n_images = sum(map(len, scenes_by_split.values()))
    splits, absent, n_used = [], {}, 0
    if config == "vindr":
        absent = {split: NO_FILE for split in vindr_cxr.SPLITS if split not in scenes_by_split}
    for split in list(scenes_by_split):
        new_splits, n_split_used, unused_counts = _build_splits(
            config, split, scenes_by_split.pop(split), request.seed, options.donor_diagnosis
        )
        splits += new_splits
        skipped += unused_counts
        n_used += n_split_used
    skipped = +skipped  # drops reasons with a count of 0
    if not n_used:
        raise InputError(
            roots[CONFIGS[config]],
            f"{n_images} images with masks give no question"
            + "".join(f"; {count} {reason}" for reason, count in sorted(skipped.items())),
            expected="boxes that overlap masks",
            action="fix what was left out; check that the masks and boxes are of these images; or lower --threshold",
        )
    hashes = {mimic.REPORTS: reports} if reports else {}  # hashes of the texts, independent of the files' location
    files = _list_files(config, roots) | {NEEDS[config][1]: masks.files}
    return Repository(
        CONFIGS[config],
        splits,
        files,
        arguments=arguments,
        hashes=lambda: hashes,
        skipped=lambda: skipped,
        absent=absent,
    )


def _read_pictures(
    config: str, roots: Mapping[str, Path], options: Options, workers: Workers
) -> tuple[dict[str, list[Picture]], Counter[str], dict[str, str]]:
    """Read the pictures by split, with counts of skipped items and the hash of the reports.

    Raise InputError if two splits of VinDr-CXR share an image.
    """
    if config == "vindr":
        root = roots[vindr.SOURCE]
        read_split_pictures = partial(vindr.pictures, root, agreement=options.agreement)
        pictures = {split: read_split_pictures(split) for split in vindr_cxr.find_label_files(root)}
        ids = Counter(picture.image_id for split_pictures in pictures.values() for picture in split_pictures)
        repeated_id = next((image_id for image_id, count in ids.items() if count > 1), None)
        if repeated_id is not None:
            raise InputError(root, f"image {repeated_id} is in two splits", action=vindr_cxr.ACTION)
        return pictures, Counter(), {}
    if config == "nih":
        images, skipped = nih.pictures(roots[nih.SOURCE])
        return {nih.SPLIT: images}, skipped, {}
    threshold = options.detection_threshold
    return mimic.pictures(
        roots, views=options.views, labeler=options.labeler, detection_threshold=threshold, workers=workers
    )


def _build_splits(
    config: str, split: str, scenes: Sequence[Scene], seed: int, donor_diagnosis: str
) -> tuple[list[Split], int, Counter[str]]:
    """Build the questions of one split and their partners, with the numbers of used images and of unused items."""
    split_questions = questions(scenes, config, split, seed=seed)
    donor_pairs = perturbations.donors(split_questions, donor_diagnosis)
    n_used, n_positive = (
        len({key.scene for key in split_questions.keys}),
        sum(1 for _ in split_questions.iterate_positive()),
    )
    unused_counts = Counter(
        {
            IN_NO_QUESTION: len(scenes) - n_used,
            NO_DONOR: n_positive - len(donor_pairs),
        }
    )
    makers: dict[str, Callable[[], Iterable[dict[str, Any]]]] = {
        config: partial(iter, split_questions),
        f"{config}_tpt": partial(perturbations.tpt, split_questions),
        f"{config}_vpt": partial(perturbations.vpt, split_questions, donor_pairs),
    }
    splits = [
        Split(name, split, partial(_iterate_tables, make, select_family(name).features))
        for name, make in makers.items()
    ]
    return splits, n_used, unused_counts


def _iterate_tables(make: Callable[[], Iterable[dict[str, Any]]], schema: datasets.Features) -> Iterator[pa.Table]:
    """Yield the rows in small tables, because rows as Python objects need much memory."""
    rows = iter(make())
    while table_rows := list(islice(rows, ROWS_A_TABLE)):
        yield pa.Table.from_pylist(table_rows, schema=schema.arrow_schema)


def _list_files(config: str, roots: Mapping[str, Path]) -> dict[str, Sequence[Path]]:
    """List the label files by source. The source of the reports has an entry because the card's command names it."""
    if config == "vindr":
        return {vindr.SOURCE: list(vindr_cxr.find_label_files(roots[vindr.SOURCE]).values())}
    if config == "nih":
        return {nih.SOURCE: list(nih_cxr14.find_label_files(roots[nih.SOURCE]).values())}
    return {
        mimic.SOURCE: list(mimic_cxr.find_label_files(roots[mimic.SOURCE]).values()),
        mimic.DETECTIONS: list(detections.find_label_files(roots[mimic.DETECTIONS]).values()),
        mimic.REPORTS: [],
    }


def find_partner_problems(folder: Path, config: str, split: str, sound: Collection[tuple[str, str]]) -> list[str]:
    """Find differences between perturbed rows and the questions of their split that the perturbation does not explain.

    Args:
        folder: The folder of the repository.
        config: The name of the config.
        split: The name of the split.
        sound: The splits whose rows are sound.

    Returns:
        The problems; empty for a config of questions.
    """
    question_config, _, kind = config.rpartition("_")
    if kind not in PARTNERS:
        return []
    if (question_config, split) not in sound:
        return [f"its questions, {question_config}/{split}, are missing or faulty"]
    donor_diagnosis = read_arguments(folder).get("donor_diagnosis", "image")
    return find_pair_violations(
        read_split(folder, question_config, split), read_split(folder, config, split), donor_diagnosis
    )


BENCHMARK = Benchmark(
    name="heal-medvqa",
    title="questions about a disease at an anatomy, with perturbed partners (VinDr-CXR, MIMIC-CXR, ChestX-ray14)",
    needs=NEEDS,
    family=select_family,
    make=make,
    options=Options,
    draws="seed of the choice of questions, templates, swaps and donors",
    check=find_partner_problems,
    reasons=REASONS,
    vocabulary=vocabulary,
)
build, verify = BENCHMARK.build, BENCHMARK.verify
