"""HEAL-MedVQA (Nguyen et al., "Localizing Before Answering: A Hallucination Evaluation Benchmark for Grounded Medical
Multimodal LLMs"): questions about diseases at anatomies, and their perturbed partners (TPT, VPT).

`build` reads the sources, makes the rows and writes one repository a source; `verify` proves what it wrote.
"""

from __future__ import annotations

import importlib.metadata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq

from ...loaders import anatomy_masks, detections, mimic_cxr, sources, vindr_cxr
from ...loaders.errors import InputError
from ..configs import wanted
from ..schemas.heal import QUESTION, TPT, VPT
from ..verify import Verdict, verify_repository
from ..write import Family, Split, source_record, write_repository
from . import mimic, perturbations, vindr
from .checks import pair_violations, question_violations, tpt_violations, vpt_violations
from .questions import questions
from .relations import MEASURES, PLACES, Picture, Rule, Scene
from .scenes import scenes

NAME = "heal-medvqa"
# Config -> the source whose repository holds it. Each has two partners, `<config>_tpt` and `<config>_vpt`.
CONFIGS = {"vindr": vindr.SOURCE, "mimic": mimic.SOURCE}
NEEDS = {
    "vindr": (vindr.SOURCE, vindr.MASKS),
    "mimic": (mimic.SOURCE, mimic.MASKS, mimic.DETECTIONS),
}
KEYS = {
    vindr.SOURCE: {
        "train": ("annotations_train.csv", "train.csv", "vinbigdata-train.csv"),
        "test": ("annotations_test.csv",),
    },
    mimic.SOURCE: {"": ("mimic-cxr-2.0.0-metadata.csv",)},
}
QUESTIONS = Family(QUESTION, ("kind", "question_type", "anatomy", "diseases"), question_violations)
PARTNERS = {
    "tpt": Family(TPT, ("kind", "anatomy", "disease"), tpt_violations),
    "vpt": Family(VPT, (), vpt_violations),
}


@dataclass(frozen=True, slots=True)
class Options:
    """Arguments of a build beside its seed.

    measure, threshold, places: when a disease lies at an anatomy (`relations.Rule`). agreement: of VinDr-CXR's three
    readers. anatomies: which are asked about. views: of MIMIC-CXR, its ViewPosition. labeler: "chexpert" or "negbio".
    detection_threshold: the lowest score of a detected box.
    """

    measure: str = "iou"
    threshold: float = 0.05
    places: str = "any"
    agreement: str = "majority"
    anatomies: tuple[str, ...] = anatomy_masks.ANATOMIES
    views: tuple[str, ...] = mimic_cxr.FRONTAL
    labeler: str = "chexpert"
    detection_threshold: float = 0.25


def family(config: str) -> Family:
    """What the rows of a config or of one of its partners are."""
    return PARTNERS.get(config.rpartition("_")[2], QUESTIONS)


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
        seed: chooses questions, templates, swaps and donors. workers: the bytes written do not depend on it.

    Raises InputError for an unknown config or option, MissingSourceError for a config whose sources have no root.
    """
    options = options or Options()
    check_options(options)
    chosen = wanted(NAME, NEEDS, configs, roots)
    named = {c: {s: sources.root_of(s, roots) for s in NEEDS[c]} for c in chosen}
    if "mimic" in named and mimic.REPORTS in roots:
        named["mimic"][mimic.REPORTS] = sources.root_of(mimic.REPORTS, roots)
    return [_build_config(c, of_config, out, seed, options, workers, card) for c, of_config in named.items()]


def _build_config(
    config: str,
    roots: Mapping[str, Path],
    out: Path,
    seed: int,
    options: Options,
    workers: int,
    card: Callable[[str], str],
) -> Path:
    pictures, skipped, reports = _pictures(config, roots, options)
    masks = anatomy_masks.open_masks(roots[f"{CONFIGS[config]}_anatomy"], options.anatomies)
    rule = Rule(options.measure, options.threshold, options.places)
    made: dict[str, list[Scene]] = {}
    for split, of_one in pictures.items():
        title = f"relations {config}/{split}"
        made[split], left_out = scenes(of_one, masks, rule, roots, title=title, workers=workers)
        skipped += left_out
    splits = []
    for split, of_one in made.items():
        written, n_unused = _splits(config, split, of_one, seed)
        splits += written
        skipped["images in no question (nothing to ask for, or beyond the balance of Yes and No)"] += n_unused
    skipped = +skipped  # a reason that nothing was left out for says nothing
    if not splits:
        raise InputError(
            roots[CONFIGS[config]],
            f"{sum(map(len, made.values()))} images with masks give no question"
            + "".join(f"; {count} {reason}" for reason, count in sorted(skipped.items())),
            expected="boxes that overlap masks",
            action="mend what was left out; check that the masks and boxes are of these images; or lower --threshold",
        )
    name = f"{NAME}-{CONFIGS[config]}"
    with ThreadPoolExecutor(1) as beside:
        hashes = beside.submit(_hashes, config, roots, masks, reports)
        record = partial(_record, config, seed, options, hashes.result, skipped)
        return write_repository(out, name, splits, families=family, record=record, card=card(name), workers=1)


def _pictures(
    config: str, roots: Mapping[str, Path], options: Options
) -> tuple[dict[str, list[Picture]], Counter[str], dict[str, str]]:
    """Pictures by split, how many of what was left out, and the hash of the reports that were read."""
    if config == "vindr":
        root = roots[vindr.SOURCE]
        read = partial(vindr.pictures, root, agreement=options.agreement)
        pictures = {split: read(split) for split in vindr_cxr.label_files(root)}
        ids = Counter(picture.image_id for of_split in pictures.values() for picture in of_split)
        twice = next((image_id for image_id, count in ids.items() if count > 1), None)
        if twice is not None:
            raise InputError(root, f"image {twice} is in two splits", action=vindr_cxr.ACTION)
        return pictures, Counter(), {}
    threshold = options.detection_threshold
    return mimic.pictures(roots, views=options.views, labeler=options.labeler, detection_threshold=threshold)


def _splits(config: str, split: str, of_split: Sequence[Scene], seed: int) -> tuple[list[Split], int]:
    """The questions of one split and their partners, as far as there are any, and how many images are in none."""
    rows = questions(of_split, config, split, seed=seed)
    n_used = len({row["image"]["key"] for row in rows})
    tables = {
        config: (rows, QUESTION),
        f"{config}_tpt": (perturbations.tpt(rows, of_split, seed=seed), TPT),
        f"{config}_vpt": (perturbations.vpt(rows, of_split, seed=seed), VPT),
    }
    # A split without a row cannot be loaded, and would take the others of its config with it.
    made = [
        Split(name, split, partial(_table, of_name, schema)) for name, (of_name, schema) in tables.items() if of_name
    ]
    return made, len(of_split) - n_used


def _table(rows: list[dict[str, Any]], schema: datasets.Features) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema.arrow_schema)


def _record(
    config: str, seed: int, options: Options, hashes: Callable[[], dict[str, Any]], skipped: Counter[str]
) -> dict[str, Any]:
    """What build.json says of a build beside its rows. `skipped`: what was left out, by reason."""
    return {
        "benchmark": NAME,
        "source": CONFIGS[config],
        "medfaith": importlib.metadata.version("medfaith"),
        "seed": seed,
        "arguments": {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(options).items()},
        "sources": hashes(),
        "skipped": dict(sorted(skipped.items())),
    }


def _hashes(
    config: str, roots: Mapping[str, Path], masks: anatomy_masks.AnatomyMasks, reports: Mapping[str, str]
) -> dict[str, Any]:
    files = {f"{CONFIGS[config]}_anatomy": masks.files}
    if config == "vindr":
        files[vindr.SOURCE] = list(vindr_cxr.label_files(roots[vindr.SOURCE]).values())
    else:
        files[mimic.SOURCE] = list(mimic_cxr.label_files(roots[mimic.SOURCE]).values())
        files[mimic.DETECTIONS] = list(detections.label_files(roots[mimic.DETECTIONS]).values())
        files[mimic.REPORTS] = []
    described = {source_id: source_record(source_id, of_source) for source_id, of_source in sorted(files.items())}
    if reports:  # a source of their own, wherever they lie: the card's command has to name them
        described[mimic.REPORTS]["files"] = reports
    return described


def verify(folder: Path, references: Sequence[Mapping[str, Any]] = ()) -> list[Verdict]:
    """Verifies every split of one repository, and that perturbed rows belong to questions of their split.

    Raises InputError for a build.json or Parquet that cannot be read. references: records in the form of build.json.
    """
    verdicts = verify_repository(folder, {NAME: family}, references)
    sound = {(verdict.config, verdict.split) for verdict in verdicts if not verdict.problems}

    def with_originals(verdict: Verdict) -> Verdict:
        base, _, partner = verdict.config.rpartition("_")
        if verdict.problems or partner not in PARTNERS:
            return verdict
        if (base, verdict.split) not in sound:
            return replace(verdict, problems=(f"its questions, {base}/{verdict.split}, are missing or faulty",))
        tables = [_read(folder, config, verdict.split) for config in (base, verdict.config)]
        return replace(verdict, problems=tuple(pair_violations(*tables)))

    return [with_originals(verdict) for verdict in verdicts]


def _read(folder: Path, config: str, split: str) -> pa.Table:
    parts = sorted((folder / config).glob(f"{split}-*-of-*.parquet"))
    return pa.concat_tables([pq.ParquetFile(part).read() for part in parts])


def check_options(options: Options) -> None:
    """Raises InputError for an option that there is not."""
    for option, value, allowed in (
        ("--measure", options.measure, MEASURES),
        ("--places", options.places, PLACES),
        ("--agreement", options.agreement, vindr_cxr.RULES),
        ("--labeler", options.labeler, mimic_cxr.LABELERS),
    ):
        if value not in allowed:
            raise InputError(f"{option} {value}", "no such choice", expected=f"one of {', '.join(allowed)}")
    for option, value in (("--threshold", options.threshold), ("--detection-threshold", options.detection_threshold)):
        if not 0 <= value <= 1:
            raise InputError(f"{option} {value}", "is no share", expected="a number from 0 to 1")
