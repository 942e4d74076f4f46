"""That's the Wrong Lung!: report sentences with the boxes that they describe, and their perturbed partners.

McInerney et al., "Evaluating and Improving the Interpretability of Unsupervised Multimodal Encoders for Medical Data".
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
from ..options import option
from ..schemas.wrong_lung import PERTURBED, SENTENCE
from ..verify import read_split
from ..write import Family, Split
from . import perturbations, silver
from .boxes import check_corners
from .checks import find_pair_violations, find_perturbed_violations, find_sentence_violations
from .laterality import SWAPS
from .reasons import REASONS
from .sentences import Sentence, count_without_anatomy, sentences

NAME = "wrong-lung"
SPLIT = "test"
SOURCE, IMAGES = "chest_imagenome", "mimic_cxr"
ALL_SENTENCES = "all_sentences"  # an optional file: the build only counts its sentences
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
FAMILIES = {
    GOLD: Family(SENTENCE, {}, find_sentence_violations),
    "perturbed": Family(PERTURBED, {}, find_perturbed_violations),
}


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a build.

    Attributes:
        swap: How left and right are exchanged (`laterality.swapped`).
        random_boxes: Where the boxes of another image lie (`perturbations.random_boxes`).
    """

    swap: str = field(
        default="words",
        metadata=option(
            "how left and right are exchanged: words exchanges complete words; substring exchanges the letters "
            "anywhere, in lower case, like the paper's code",
            choices=SWAPS,
        ),
    )
    random_boxes: str = field(
        default="share",
        metadata=option(
            "position of another image's boxes in this image: share scales them with the width and height; pixels "
            "keeps their pixel coordinates",
            choices=perturbations.RANDOM_BOXES,
        ),
    )


def select_family(config: str) -> Family:
    """Select the row family of a config.

    Args:
        config: The name of the config.

    Returns:
        The family.
    """
    return FAMILIES[GOLD if config in (GOLD, SILVER) else "perturbed"]


def make(request: Request) -> Iterator[Repository]:
    """Make the repository. Gold and the originals of each perturbed config are always included.

    Args:
        request: The arguments of the build.

    Yields:
        The repository.

    Raises:
        MissingSourceError: A source has no root.
        InputError: A source is faulty, or a named config has no row.
    """
    options: Options = request.options
    config_names = _select_configs(request.named_configs)
    roots = {source: request.find_root(source) for source in (SOURCE, IMAGES)}
    gold_sentences = chest_imagenome.read_gold(roots[SOURCE])
    all_images = mimic_cxr.read_images(roots[IMAGES], None)  # of all views, because the data set chose the images
    images = _select_images(all_images, {sentence.image_id for sentence in gold_sentences})
    gold, counted = sentences(gold_sentences, images, benchmark=NAME)
    if not gold:
        raise InputError(
            roots[SOURCE],
            "no gold sentence has an image and boxes" + "".join(f"; {n} {reason}" for reason, n in counted.items()),
            action=f"check that --root {IMAGES} is the MIMIC-CXR-JPG that Chest ImaGenome was made from",
        )
    anatomy_by_image = chest_imagenome.read_anatomy(roots[SOURCE])
    counted += check_corners(gold_sentences, anatomy_by_image, roots[SOURCE])
    if ALL_SENTENCES in chest_imagenome.find_label_files(roots[SOURCE]):
        all_sentences = chest_imagenome.read_all_sentences(roots[SOURCE])
        ids = (all_sentences[column].to_pylist() for column in ("image_id", "row_id"))
        counted += count_without_anatomy(gold_sentences, zip(*ids, strict=True))
    anatomy = {
        row["key"]: anatomy_by_image[image_id] for image_id, row in images.items() if image_id in anatomy_by_image
    }
    splits = []
    for config in (config for config in CONFIGS if config in config_names):
        rows, config_counts = _build_rows(config, gold, anatomy, request.seed, options)
        counted += config_counts
        if not rows and config in request.named_configs:
            raise InputError(f"--config {config}", "no sentence has a partner of this kind", action="leave it out")
        splits.append(Split(config, SPLIT, partial(_build_table, rows, select_family(config))))
    silver_set = None
    if SILVER in config_names:
        patients = {sentence.patient_id for sentence in gold_sentences}
        silver_set = silver.read_silver(roots[SOURCE], all_images, patients, request.workers)
        sentence_schema = FAMILIES[GOLD].features.arrow_schema
        splits += [
            Split(SILVER, split, partial(silver_set.build_table, split, sentence_schema, NAME))
            for split in silver.SPLITS
        ]
    if silver_set is None:
        yield Repository(SOURCE, splits, _list_files(roots), skipped=lambda: +counted)
        return

    records = silver_set.records

    def collect_graph_hashes() -> dict[str, dict[str, str]]:
        return {SOURCE: {f"scene graphs of {split}": record.sha256 for split, record in sorted(records.items())}}

    files = _list_files(roots, silver_set.find_label_files)
    yield Repository(
        SOURCE,
        splits,
        files,
        hashes=collect_graph_hashes,
        skipped=lambda: +counted + silver_set.counted,
    )


def _select_configs(named_configs: Sequence[str]) -> set[str]:
    """Select the configs to build: the named ones; all except silver if none or only silver is named.

    A build replaces its folder, so the other configs are built with silver.
    """
    config_names = (set(named_configs) - {SILVER} or set(CONFIGS)) | (set(named_configs) & {SILVER}) | {GOLD}
    return config_names | {original for config, original in ORIGINALS.items() if config in config_names}


def _select_images(table: pa.Table, image_ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """Select the rows of `mimic_cxr.read_images` with these dicom_ids."""
    table = table.filter(pc.is_in(table["dicom_id"], value_set=pa.array(sorted(image_ids), pa.string())))
    return {row["dicom_id"]: row for row in table.to_pylist()}


def _build_rows(
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


def _build_table(rows: list[dict[str, Any]], row_family: Family) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=row_family.features.arrow_schema)


def _list_files(roots: Mapping[str, Path], lists: Sequence[Path] = ()) -> dict[str, Sequence[Path]]:
    """List the files that rows or counts are made from. `lists` are the lists of the silver dataset's images."""
    gold = chest_imagenome.find_label_files(roots[SOURCE])
    return {
        SOURCE: [*(gold[kind] for kind in (*chest_imagenome.REQUIRED, ALL_SENTENCES) if kind in gold), *lists],
        IMAGES: [mimic_cxr.find_label_files(roots[IMAGES])["metadata"]],
    }


def find_partner_problems(folder: Path, config: str, split: str, sound: Collection[tuple[str, str]]) -> list[str]:
    """List differences between perturbed rows and their originals, or patients that silver and gold share.

    Originals that are missing or faulty are a problem of the perturbed rows, too.

    Args:
        folder: The folder of the repository.
        config: The name of the config.
        split: The name of the split.
        sound: The splits whose rows are sound.

    Returns:
        The problems.
    """
    if config == SILVER and (GOLD, SPLIT) in sound:
        patients = [
            read_split(folder, config_name, split_name, ["patient_id"])["patient_id"]
            for config_name, split_name in ((GOLD, SPLIT), (SILVER, split))
        ]
        gold_patients, silver_patients = (set(column.to_pylist()) for column in patients)
        return (
            [f"{len(shared_patients)} of its patients are in {GOLD}, such as {min(shared_patients)}"]
            if (shared_patients := gold_patients & silver_patients)
            else []
        )
    original = ORIGINALS.get(config)
    if original is None:
        return []
    if (original, SPLIT) not in sound:
        return [f"its originals, {original}, are missing or faulty"]
    return find_pair_violations(read_split(folder, original, SPLIT), read_split(folder, config, split), config)


BENCHMARK = Benchmark(
    name=NAME,
    title="sentences with their boxes, original and perturbed (Chest ImaGenome, MIMIC-CXR)",
    unasked="all but silver",
    note="--config silver adds the data set's automatic annotations of a quarter of a million images, for training. No "
    "build includes them by default. If silver is the only config that you name, all other configs are built, too. A "
    "build replaces its folder, so repeat --seed and the options of the previous build.",
    needs=NEEDS,
    family=select_family,
    make=make,
    options=Options,
    draws="seed of the choice of orders, sentences, boxes and conditions",
    check=find_partner_problems,
    reasons=REASONS,
    quoted={SOURCE: ("sentence",)},
)
build, verify = BENCHMARK.build, BENCHMARK.verify
