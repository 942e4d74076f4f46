"""That's the Wrong Lung! (McInerney et al., "Evaluating and Improving the Interpretability of Unsupervised Multimodal
Encoders for Medical Data"): report sentences with the boxes they speak of, and their perturbed partners.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...loaders import chest_imagenome, mimic_cxr
from ...loaders.errors import InputError
from ..benchmark import Benchmark, Repository, Request
from ..label_keys import as_table
from ..options import option
from ..schemas.wrong_lung import PERTURBED, SENTENCE
from ..verify import read_split
from ..write import Family, Split
from . import perturbations, silver
from .boxes import check_corners
from .checks import pair_violations, perturbed_violations, sentence_violations
from .laterality import SWAPS
from .sentences import Sentence, sentences, without_anatomy

NAME = "wrong-lung"
SPLIT = "test"
SOURCE, IMAGES = "chest_imagenome", "mimic_cxr"
ALL_SENTENCES = "all_sentences"  # the file is not required: only a count is made of it
GOLD, SILVER, SYNTHETIC = "gold", "silver", "synthetic"
# Perturbed config -> the config of its originals.
ORIGINALS = {
    "swap_left_right": GOLD,
    "shuffle_in_report": GOLD,
    "random_sentences": GOLD,
    "random_boxes": GOLD,
    SYNTHETIC: GOLD,
    "synthetic_swapped_conditions": SYNTHETIC,
    "trimmed": GOLD,
}
CONFIGS = dict.fromkeys((GOLD, *ORIGINALS), SOURCE)
NEEDS = dict.fromkeys((*CONFIGS, SILVER), (SOURCE, IMAGES))
FAMILIES = {GOLD: Family(SENTENCE, (), sentence_violations), "perturbed": Family(PERTURBED, (), perturbed_violations)}


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a build."""

    swap: str = field(
        default="words",
        metadata=option(
            "how left and right are exchanged: words exchanges whole words; substring exchanges the letters wherever "
            "they stand, in lower case, as the paper's code does",
            choices=SWAPS,
        ),
    )
    random_boxes: str = field(
        default="share",
        metadata=option(
            "where the boxes of another image lie in this one: at the same share of its width and height, or at the "
            "same pixels",
            choices=perturbations.RANDOM_BOXES,
        ),
    )


def family(config: str) -> Family:
    """What the rows of a config are."""
    return FAMILIES[GOLD if config in (GOLD, SILVER) else "perturbed"]


def make(request: Request) -> Iterator[Repository]:
    """The one repository: the configs, with gold and those that hold their originals."""
    options: Options = request.options
    chosen = _chosen(request.named)
    named = {source: request.root(source) for source in (SOURCE, IMAGES)}
    read = chest_imagenome.read_gold(named[SOURCE])
    all_images = mimic_cxr.read_images(named[IMAGES], None)  # whatever a view is called, the data set chose them
    images = _images(all_images, {sentence.image_id for sentence in read})
    gold, counted = sentences(read, images, benchmark=NAME)
    if not gold:
        raise InputError(
            named[SOURCE],
            "no gold sentence has an image and boxes" + "".join(f"; {n} {reason}" for reason, n in counted.items()),
            action=f"check that --root {IMAGES} is the MIMIC-CXR-JPG that Chest ImaGenome was made from",
        )
    of_image = chest_imagenome.read_anatomy(named[SOURCE])
    counted += check_corners(read, of_image, named[SOURCE])
    if ALL_SENTENCES in chest_imagenome.find_label_files(named[SOURCE]):
        listed = chest_imagenome.read_all_sentences(named[SOURCE])
        ids = (listed[column].to_pylist() for column in ("image_id", "row_id"))
        counted += without_anatomy(read, zip(*ids, strict=True))
    anatomy = {row["key"]: of_image[image_id] for image_id, row in images.items() if image_id in of_image}
    splits = []
    for config in (config for config in CONFIGS if config in chosen):
        rows, of_config = _make(config, gold, anatomy, request.seed, options)
        counted += of_config
        if not rows and config in request.named:
            raise InputError(f"--config {config}", "no sentence has a partner of this kind", action="leave it out")
        if not rows:  # a split without a row cannot be loaded, and would take the other configs with it
            continue
        splits.append(Split(config, SPLIT, partial(_table, rows, family(config))))
    keyed = {"": partial(as_table, read)}
    others = None
    if SILVER in chosen:
        patients = {sentence.patient_id for sentence in read}
        others = silver.read(named[SOURCE], all_images, patients, request.workers)
        of_row = FAMILIES[GOLD].features.arrow_schema
        splits += [Split(SILVER, split, partial(others.table, split, of_row, NAME)) for split in silver.SPLITS]
    if others is None:
        yield Repository(SOURCE, splits, _files(named), keyed=keyed, skipped=lambda: +counted)
        return

    def graphs() -> dict[str, dict[str, str]]:
        return {SOURCE: {f"scene graphs of {split}": made.sha256 for split, made in sorted(others.made.items())}}

    files = _files(named, others.find_label_files)
    yield Repository(SOURCE, splits, files, hashes=graphs, keyed=keyed, skipped=lambda: +counted + others.counted)


def _chosen(named: Sequence[str]) -> set[str]:
    """The configs to build: all but silver, where none is named or silver alone is; else those that are named.

    A build replaces its folder, so silver comes beside the others and not in their place.
    """
    chosen = (set(named) - {SILVER} or set(CONFIGS)) | (set(named) & {SILVER}) | {GOLD}
    return chosen | {original for config, original in ORIGINALS.items() if config in chosen}


def _images(table: pa.Table, wanted_ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """Rows of `mimic_cxr.read_images` by dicom_id: those of the wanted images that it has."""
    table = table.filter(pc.is_in(table["dicom_id"], value_set=pa.array(sorted(wanted_ids), pa.string())))
    return {row["dicom_id"]: row for row in table.to_pylist()}


def _make(
    config: str, gold: Sequence[Sentence], anatomy: perturbations.Anatomy, seed: int, options: Options
) -> perturbations.Made:
    rows = [sentence.row for sentence in gold]
    makers: dict[str, Callable[[], perturbations.Made]] = {
        GOLD: lambda: (rows, Counter()),
        "swap_left_right": lambda: perturbations.swap_left_right(rows, anatomy, swap=options.swap),
        "shuffle_in_report": lambda: perturbations.shuffle_in_report(rows, seed=seed),
        "random_sentences": lambda: perturbations.random_sentences(rows, anatomy, seed=seed),
        "random_boxes": lambda: perturbations.random_boxes(rows, seed=seed, place=options.random_boxes),
        SYNTHETIC: lambda: perturbations.synthetic(gold),
        "synthetic_swapped_conditions": lambda: perturbations.synthetic_swapped_conditions(gold, seed=seed),
        "trimmed": lambda: perturbations.trimmed(rows),
    }
    return makers[config]()


def _table(rows: list[dict[str, Any]], of_config: Family) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=of_config.features.arrow_schema)


def _files(roots: Mapping[str, Path], lists: Sequence[Path] = ()) -> dict[str, Sequence[Path]]:
    """What rows, or counts of what is in no row, are made of. lists: of the silver dataset's images."""
    gold = chest_imagenome.find_label_files(roots[SOURCE])
    return {
        SOURCE: [*(gold[kind] for kind in (*chest_imagenome.REQUIRED, ALL_SENTENCES) if kind in gold), *lists],
        IMAGES: [mimic_cxr.find_label_files(roots[IMAGES])["metadata"]],
    }


def partner_problems(folder: Path, config: str, split: str, sound: Collection[tuple[str, str]]) -> list[str]:
    """What is wrong between perturbed rows and their originals, or between patients of silver and of gold."""
    if config == SILVER and (GOLD, SPLIT) in sound:
        patients = [read_split(folder, c, s, ["patient_id"])["patient_id"] for c, s in ((GOLD, SPLIT), (SILVER, split))]
        gold, other = (set(column.to_pylist()) for column in patients)
        return [f"{len(both)} of its patients are in {GOLD}, such as {min(both)}"] if (both := gold & other) else []
    original = ORIGINALS.get(config)
    if original is None:
        return []
    if (original, SPLIT) not in sound:
        return [f"its originals, {original}, are missing or faulty"]
    return pair_violations(read_split(folder, original, SPLIT), read_split(folder, config, split), config)


BENCHMARK = Benchmark(
    name=NAME,
    title="sentences and their boxes, perturbed (Chest ImaGenome, MIMIC-CXR)",
    unasked="all but silver",
    note="--config silver adds the data set's automatic annotations, for training. They are of a quarter of a million "
    "images, so no build makes them unasked. Named alone, silver is built beside all other configs; named with others, "
    "beside those. Each build writes its folder anew, so repeat the --seed and the options of the build before.",
    needs=NEEDS,
    family=family,
    make=make,
    options=Options,
    draws="chooses orders, sentences, boxes and conditions",
    check=partner_problems,
    quoted={SOURCE: ("sentence",)},
)
build, verify = BENCHMARK.build, BENCHMARK.verify
