"""That's the Wrong Lung! (McInerney et al., "Evaluating and Improving the Interpretability of Unsupervised Multimodal
Encoders for Medical Data"): report sentences with the boxes they speak of, and their perturbed partners.

`build` reads the sources, makes the rows and writes one repository; `verify` proves what it wrote.
"""

from __future__ import annotations

import importlib.metadata
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...loaders import chest_imagenome, mimic_cxr, sources
from ...loaders.errors import InputError
from ..configs import wanted
from ..schemas.wrong_lung import PERTURBED, SENTENCE
from ..verify import Verdict, verify_repository
from ..write import Family, Split, source_record, write_repository
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
QUOTED = {SOURCE: ("sentence",)}  # columns in the source's own words, which its licence keeps
KEYS = {SOURCE: {"": ("gold_object_attribute_with_coordinates.txt",)}}
FAMILIES = {GOLD: Family(SENTENCE, (), sentence_violations), "perturbed": Family(PERTURBED, (), perturbed_violations)}


@dataclass(frozen=True, slots=True)
class Options:
    """Arguments of a build beside its seed.

    swap: how left and right are exchanged (`laterality.swapped`). random_boxes: where the boxes of another image lie in
    this one (`perturbations.random_boxes`).
    """

    swap: str = "words"
    random_boxes: str = "share"


def family(config: str) -> Family:
    """What the rows of a config are."""
    return FAMILIES[GOLD if config in (GOLD, SILVER) else "perturbed"]


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
    """Builds the configs, with gold and those that hold their originals, below `out`. Returns the one repository.

    Args:
        configs: default: all but silver, of a quarter of a million images. silver alone: all, and silver.
        roots: source id -> folder. card: README body for a repository's name.
        seed: chooses orders, sentences, boxes and conditions. workers: the bytes written do not depend on it.

    Raises InputError for an unknown config or option, MissingSourceError where a source has no root.
    """
    options = options or Options()
    check_options(options)
    chosen = _chosen(configs, roots)
    named = {source: sources.root_of(source, roots) for source in (SOURCE, IMAGES)}
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
    if ALL_SENTENCES in chest_imagenome.label_files(named[SOURCE]):
        listed = chest_imagenome.read_all_sentences(named[SOURCE])
        ids = (listed[column].to_pylist() for column in ("image_id", "row_id"))
        counted += without_anatomy(read, zip(*ids, strict=True))
    anatomy = {row["key"]: of_image[image_id] for image_id, row in images.items() if image_id in of_image}
    splits = []
    for config in (config for config in CONFIGS if config in chosen):
        rows, of_config = _make(config, gold, anatomy, seed, options)
        counted += of_config
        if not rows and config in (configs or ()):
            raise InputError(f"--config {config}", "no sentence has a partner of this kind", action="leave it out")
        if not rows:  # a split without a row cannot be loaded, and would take the other configs with it
            continue
        splits.append(Split(config, SPLIT, partial(_table, rows, family(config))))
    others = None
    if SILVER in chosen:
        others = silver.read(named[SOURCE], all_images, {sentence.patient_id for sentence in read})
        of_row = FAMILIES[GOLD].features.arrow_schema
        splits += [Split(SILVER, split, partial(others.table, split, of_row, NAME)) for split in silver.SPLITS]
    name = f"{NAME}-{SOURCE}"
    with ThreadPoolExecutor(1) as beside:
        hashes = beside.submit(_hashes, named, others.label_files if others else ())
        record = partial(_record, seed, options, hashes.result, +counted, others)
        written = write_repository(out, name, splits, families=family, record=record, card=card(name), workers=workers)
    return [written]


def _chosen(configs: Sequence[str] | None, roots: Mapping[str, Path]) -> set[str]:
    """The configs to build. A build replaces its folder, so silver comes beside the others and not in their place.

    Raises as `wanted` does.
    """
    wanted(NAME, NEEDS, configs, roots)
    named = set(configs or ())
    chosen = (named - {SILVER} or set(CONFIGS)) | (named & {SILVER}) | {GOLD}
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


def _record(
    seed: int,
    options: Options,
    hashes: Callable[[], dict[str, Any]],
    counted: Counter[str],
    others: silver.Silver | None,
) -> dict[str, Any]:
    """What build.json says of a build beside its rows. `counted`: what was left out, or is worth a count, by reason.

    others: the silver dataset, where it has been built.
    """
    of_sources = hashes()
    if others is not None:
        graphs = {f"scene graphs of {split}": made.sha256 for split, made in sorted(others.made.items())}
        own = of_sources[SOURCE]
        of_sources = of_sources | {SOURCE: own | {"files": own["files"] | graphs}}
        counted = counted + others.counted
    return {
        "benchmark": NAME,
        "source": SOURCE,
        "medfaith": importlib.metadata.version("medfaith"),
        "seed": seed,
        "arguments": asdict(options),
        "sources": of_sources,
        "skipped": dict(sorted(counted.items())),
    }


def _hashes(roots: Mapping[str, Path], lists: Sequence[Path]) -> dict[str, Any]:
    """Of the files that rows, or counts of what is in no row, are made of. lists: of the silver dataset's images."""
    gold = chest_imagenome.label_files(roots[SOURCE])
    files = {
        SOURCE: [*(gold[kind] for kind in (*chest_imagenome.REQUIRED, ALL_SENTENCES) if kind in gold), *lists],
        IMAGES: [mimic_cxr.label_files(roots[IMAGES])["metadata"]],
    }
    return {source: source_record(source, of_source) for source, of_source in sorted(files.items())}


def verify(folder: Path, references: Sequence[Mapping[str, Any]] = ()) -> list[Verdict]:
    """Verifies every split of one repository, that perturbed rows belong to their originals, silver ones to others.

    Raises InputError for a build.json or Parquet that cannot be read. references: records in the form of build.json.
    """
    verdicts = verify_repository(folder, {NAME: family}, references)
    sound = {verdict.config for verdict in verdicts if not verdict.problems}

    def with_originals(verdict: Verdict) -> Verdict:
        if verdict.config == SILVER and not verdict.problems and GOLD in sound:
            return replace(verdict, problems=tuple(_of_gold(folder, verdict.split)))
        original = ORIGINALS.get(verdict.config)
        if verdict.problems or original is None:
            return verdict
        if original not in sound:
            return replace(verdict, problems=(f"its originals, {original}, are missing or faulty",))
        problems = pair_violations(_read(folder, original), _read(folder, verdict.config), verdict.config)
        return replace(verdict, problems=tuple(problems))

    return [with_originals(verdict) for verdict in verdicts]


def _of_gold(folder: Path, split: str) -> list[str]:
    """What is wrong with a silver split that has patients of gold."""
    gold, other = (
        set(_read(folder, *of, ["patient_id"])["patient_id"].to_pylist()) for of in ((GOLD, SPLIT), (SILVER, split))
    )
    return [f"{len(both)} of its patients are in {GOLD}, such as {min(both)}"] if (both := gold & other) else []


def _read(folder: Path, config: str, split: str = SPLIT, columns: Sequence[str] | None = None) -> pa.Table:
    parts = sorted((folder / config).glob(f"{split}-*-of-*.parquet"))
    return pa.concat_tables([pq.ParquetFile(part).read(columns) for part in parts])


def check_options(options: Options) -> None:
    """Raises InputError for an option that there is not."""
    for option, value, allowed in (
        ("--swap", options.swap, SWAPS),
        ("--random-boxes", options.random_boxes, perturbations.RANDOM_BOXES),
    ):
        if value not in allowed:
            raise InputError(f"{option} {value}", "no such choice", expected=f"one of {', '.join(allowed)}")
