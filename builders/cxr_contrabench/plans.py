"""Plans of the repositories of CXR-ContraBench: which files are read and which splits are made from them.

Each plan takes the request of a build whose configs all belong to one source.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path

import pyarrow as pa

from ...loaders import chexlocalize as chexlocalize_masks
from ...loaders import chexpert as chexpert_labels
from ...loaders import chexstruct as chexstruct_labels
from ...loaders import openi as openi_reports
from ...loaders import rexvqa as rexvqa_items
from ...loaders import sources
from ...loaders.errors import InputError
from ...loaders.images import read_image_size
from ...loaders.progress import Progress
from ..benchmark import NO_FILE, Repository, Request
from ..write import Split
from . import chexlocalize, chexpert, chexstruct, openi, rexvqa
from .exports import FEWSHOT, FEWSHOT_SPLIT, LORA, LORA_SPLIT, fewshot, format_chat_jsonl, sample_lora_rows
from .questions import Wording
from .variants import SPLIT as VARIANT_SPLIT
from .variants import VARIANTS, resolve_variant

STUDIES_AT_A_TIME = 200_000
CHEXPERT_SPLITS = ("train", "validation")


def plan_chexpert(request: Request) -> Repository:
    """Plan the configs of CheXpert. If the copy has no data for the split of a config, the plan omits the config.

    Args:
        request: The arguments of the build.

    Returns:
        The repository.

    Raises:
        InputError: The folder contains neither train.csv nor valid.csv.
    """
    root = request.find_root("chexpert")
    files = {s: path for s, path in chexpert_labels.find_label_files(root).items() if s in CHEXPERT_SPLITS}
    if not files:
        raise InputError(root, "holds neither train.csv nor valid.csv", action=chexpert_labels.ACTION)
    find_label_files = Progress(files.items(), title="reading chexpert", unit="files")
    # Select the needed columns now, to free the memory of the others.
    tables = {
        s: chexpert.studies(chexpert_labels.read_labels(p, s).select(chexpert.COLUMNS), p) for s, p in find_label_files
    }

    def make(config: str, split: str, wording: Wording) -> Callable[[pa.Table], pa.Table]:
        return partial(chexpert.questions, config=config, split=split, seed=request.seed, wording=wording)

    splits, exports = [], {}
    for config in request.configs:
        plain, wording = resolve_variant(config, request.options)
        if config in VARIANTS and VARIANT_SPLIT in tables:
            splits.append(_build_chunked_split(config, VARIANT_SPLIT, tables, make(plain, VARIANT_SPLIT, wording)))
        elif config == LORA and LORA_SPLIT in tables:
            held_out = tables["validation"]["study_id"].to_pylist() if "validation" in tables else []
            studies = tables[LORA_SPLIT]
            plain_rows = partial(make, split=LORA_SPLIT, wording=request.options)
            presence, absence = (plain_rows(f"chexpert_{p}")(studies) for p in ("presence", "absence"))
            rows = sample_lora_rows(presence, absence, held_out, seed=request.seed)
            splits.append(Split(config, LORA_SPLIT, partial(_get_rows, rows)))
            exports[f"{config}/{LORA_SPLIT}.jsonl"] = format_chat_jsonl(rows)
        elif config in chexpert.PROTOCOLS:
            splits += [_build_chunked_split(config, s, tables, make(plain, s, wording)) for s in tables]
    absent = {split: NO_FILE for split in CHEXPERT_SPLITS if split not in files}
    label_files = {"chexpert": list(files.values())}
    return Repository("chexpert", splits, label_files, exports=exports, absent=absent)


def plan_chexlocalize(request: Request) -> Repository:
    """Plan the configs with regions.

    Masks come from the download of CheXlocalize. Images and labels come from it, too, or from a copy of CheXpert.

    Args:
        request: The arguments of the build.

    Returns:
        The repository.

    Raises:
        InputError: The folder lacks masks or labels, or no question has a mask.
        ImageError: An image with a mask is missing or broken.
    """
    root = request.find_root(chexlocalize.SOURCE)
    mask_files = chexlocalize_masks.find_mask_files(root)
    label_roots = sources.list_roots(chexlocalize.SOURCE, request.roots)
    label_files = {
        split: next(filter(None, (chexpert_labels.label_file(folder, split) for folder in label_roots)), None)
        for split in mask_files
    }
    files: dict[str, tuple[Path, Path]] = {
        split: (path, mask_files[split]) for split, path in label_files.items() if path is not None
    }
    if not files:
        raise InputError(
            root,
            "holds the masks of CheXlocalize without the labels of their images",
            expected="CheXpert/val_labels.csv or CheXpert/test_labels.csv",
            action="name the folder that holds both folders of the download, CheXlocalize and CheXpert, or name your "
            "copy of CheXpert, too: --root chexpert=PATH",
        )
    splits, skipped, n_rows = [], Counter[str](), 0
    absent = {split: NO_FILE for split in chexlocalize.SPLITS if split not in files}

    @cache
    def read_size(key: str) -> tuple[int, int]:
        return read_image_size({"source": chexlocalize.SOURCE, "key": key, "view": ""}, request.roots)

    for split, (label_path, mask_path) in Progress(files.items(), title="reading chexlocalize", unit="splits"):
        labels = chexpert_labels.read_labels(label_path, split).select(chexpert.COLUMNS)
        studies = chexpert.studies(labels, label_path, chexlocalize.SOURCE)
        masks = chexlocalize_masks.read_masks(mask_path, split)
        for config in request.configs:
            rows, counts = chexlocalize.questions(
                studies, masks, lambda image: read_size(image["key"]), config, split,
                seed=request.seed, wording=request.options,
            )  # fmt: skip
            skipped += counts
            splits.append(Split(config, split, partial(_get_rows, rows)))
            n_rows += rows.num_rows
    if not n_rows:
        problem = "; ".join(["gives no question", *(f"{count} {reason}" for reason, count in skipped.items())])
        expected = "studies with findings, and masks of them"
        raise InputError(root, problem, expected=expected, action=chexlocalize_masks.ACTION)
    return Repository(
        chexlocalize.SOURCE,
        splits,
        {chexlocalize.SOURCE: [path for paths in files.values() for path in paths]},
        skipped=lambda: skipped,
        absent=absent,
    )


def plan_openi(request: Request) -> Repository:
    """Plan report-derived absence, its variant, and the few-shot pool sampled from it.

    Args:
        request: The arguments of the build.

    Returns:
        The repository.
    """
    root = request.find_root("openi")
    reports = openi_reports.read_reports(root)
    items = openi.find_report_absences(reports, seed=request.seed)
    wordings = {config: resolve_variant(config, request.options)[1] for config in (*request.configs, openi.PROTOCOL)}
    makers = {config: partial(openi.questions, items, wording=wording) for config, wording in wordings.items()}
    files = openi_reports.find_label_files(root)
    return Repository("openi", _build_splits(makers, request), {"openi": files})


def plan_chexstruct(request: Request) -> Repository:
    """Plan the audit over OpenI's images. Its labels come from CheXStruct, so building reads no other source.

    Args:
        request: The arguments of the build.

    Returns:
        The repository.
    """
    root = request.find_root("chexstruct")
    measures = tuple(chexstruct.TARGETS.values())
    labels = chexstruct_labels.read_labels(root, measures)
    makers = {
        config: partial(chexstruct.questions, labels, config, seed=request.seed, wording=request.options)
        for config in chexstruct.PROTOCOLS
    }
    files = chexstruct_labels.find_label_files(root, measures)
    return Repository("chexstruct", _build_splits(makers, request), {"chexstruct": list(files.values())})


def plan_rexvqa(request: Request) -> Repository:
    """Plan the slices of the test split.

    Args:
        request: The arguments of the build.

    Returns:
        The repository.
    """
    path = rexvqa_items.label_file(request.find_root("rexvqa"), "test")
    items = rexvqa_items.read_items(path)
    make = partial(rexvqa.questions, items, seed=request.seed)
    splits = [Split(config, "test", partial(make, config)) for config in request.configs]
    return Repository("rexvqa", splits, {"rexvqa": [path]})


def _build_splits(makers: Mapping[str, Callable[[], pa.Table]], request: Request) -> list[Split]:
    """Build the configs of `makers` (all of split test) and the few-shot pools that are sampled from them."""

    def sample_pool(config: str) -> pa.Table:
        return fewshot(makers[FEWSHOT[config]](), config, seed=request.seed)

    return [
        Split(config, FEWSHOT_SPLIT, partial(sample_pool, config))
        if config in FEWSHOT
        else Split(config, "test", makers[config])
        for config in request.configs
    ]


def _build_chunked_split(
    config: str, split: str, tables: Mapping[str, pa.Table], make: Callable[[pa.Table], pa.Table]
) -> Split:
    """Build a split from the rows of its studies, in chunks if there are more studies than CheXpert has."""
    studies = tables[split]
    if studies.num_rows <= STUDIES_AT_A_TIME:  # in one table, which is hashed while it is written
        return Split(config, split, partial(make, studies))
    starts = range(0, studies.num_rows, STUDIES_AT_A_TIME)
    return Split(config, split, lambda: (make(studies.slice(start, STUDIES_AT_A_TIME)) for start in starts))


def _get_rows(rows: pa.Table) -> pa.Table:
    return rows
