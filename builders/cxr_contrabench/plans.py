"""What is read for each repository of CXR-ContraBench, and the splits that are made of it.

Each plan takes a build's request whose configs are all of its own source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa

from ...loaders import chexpert as chexpert_labels
from ...loaders import chexstruct as chexstruct_labels
from ...loaders import openi as openi_reports
from ...loaders import rexvqa as rexvqa_items
from ...loaders.errors import InputError
from ...loaders.progress import Progress
from ..benchmark import Repository, Request
from ..label_keys import as_table
from ..write import Split
from . import chexpert, chexstruct, openi, rexvqa
from .exports import FEWSHOT, FEWSHOT_SPLIT, LORA, LORA_SPLIT, chat_jsonl, fewshot, lora_train
from .questions import Wording
from .variants import SPLIT as VARIANT_SPLIT
from .variants import VARIANTS, plain_and_wording

STUDIES_AT_A_TIME = 200_000


def plan_chexpert(request: Request) -> Repository:
    """Configs of CheXpert. A config whose split the copy lacks has no split in the plan."""
    root = request.root("chexpert")
    files = {s: path for s, path in chexpert_labels.find_label_files(root).items() if s in ("train", "validation")}
    if not files:
        raise InputError(root, "holds neither train.csv nor valid.csv", action=chexpert_labels.ACTION)
    read = Progress(files.items(), title="reading chexpert", unit="files")
    # Only the columns that are needed, so that the others go before anything is made of these.
    tables = {s: chexpert.studies(chexpert_labels.read_labels(p, s).select(chexpert.COLUMNS), p) for s, p in read}

    def make(config: str, split: str, wording: Wording) -> Callable[[pa.Table], pa.Table]:
        return partial(chexpert.questions, config=config, split=split, seed=request.seed, wording=wording)

    splits, exports = [], {}
    for config in request.configs:
        plain, wording = plain_and_wording(config, request.options)
        if config in VARIANTS and VARIANT_SPLIT in tables:
            splits.append(_in_parts(config, VARIANT_SPLIT, tables, make(plain, VARIANT_SPLIT, wording)))
        elif config == LORA and LORA_SPLIT in tables:
            held_out = tables["validation"]["study_id"].to_pylist() if "validation" in tables else []
            studies = tables[LORA_SPLIT]
            plain_rows = partial(make, split=LORA_SPLIT, wording=request.options)
            presence, absence = (plain_rows(f"chexpert_{p}")(studies) for p in ("presence", "absence"))
            rows = lora_train(presence, absence, held_out, seed=request.seed)
            splits.append(Split(config, LORA_SPLIT, partial(_same, rows)))
            exports[f"{config}/{LORA_SPLIT}.jsonl"] = chat_jsonl(rows)
        elif config in chexpert.PROTOCOLS:
            splits += [_in_parts(config, s, tables, make(plain, s, wording)) for s in tables]
    keyed = {s: partial(_same, table) for s, table in tables.items()}
    return Repository("chexpert", splits, {"chexpert": list(files.values())}, exports=exports, keyed=keyed)


def plan_openi(request: Request) -> Repository:
    """Report-derived absence, its variant, and the few-shot pool taken from it."""
    root = request.root("openi")
    reports = openi_reports.read_reports(root)
    items = openi.report_absence(reports, seed=request.seed)
    wordings = {config: plain_and_wording(config, request.options)[1] for config in (*request.configs, openi.PROTOCOL)}
    makers = {config: partial(openi.questions, items, wording=wording) for config, wording in wordings.items()}
    files = openi_reports.find_label_files(root)
    return Repository("openi", _with_fewshot(makers, request), {"openi": files})


def plan_chexstruct(request: Request) -> Repository:
    """The audit over OpenI's images; its labels are CheXStruct's, so that building reads no other source."""
    root = request.root("chexstruct")
    measures = tuple(chexstruct.TARGETS.values())
    labels = chexstruct_labels.read_labels(root, measures)
    makers = {
        config: partial(chexstruct.questions, labels, config, seed=request.seed, wording=request.options)
        for config in chexstruct.PROTOCOLS
    }
    files = chexstruct_labels.find_label_files(root, measures)
    return Repository("chexstruct", _with_fewshot(makers, request), {"chexstruct": list(files.values())})


def plan_rexvqa(request: Request) -> Repository:
    """Slices of the test split."""
    path = rexvqa_items.label_file(request.root("rexvqa"), "test")
    items = rexvqa_items.read_items(path)
    make = partial(rexvqa.questions, items, seed=request.seed)
    splits = [Split(config, "test", partial(make, config)) for config in request.configs]
    return Repository("rexvqa", splits, {"rexvqa": [path]}, keyed={"": partial(as_table, items)})


def _with_fewshot(makers: Mapping[str, Callable[[], pa.Table]], request: Request) -> list[Split]:
    """The configs of `makers`, all of split test, and the few-shot pools that are taken from one of them."""

    def pool(config: str) -> pa.Table:
        return fewshot(makers[FEWSHOT[config]](), config, seed=request.seed)

    return [
        Split(config, FEWSHOT_SPLIT, partial(pool, config))
        if config in FEWSHOT
        else Split(config, "test", makers[config])
        for config in request.configs
    ]


def _in_parts(config: str, split: str, tables: Mapping[str, pa.Table], make: Callable[[pa.Table], pa.Table]) -> Split:
    """The rows of a split's studies; of more than CheXpert has, those of some studies after another."""
    studies = tables[split]
    if studies.num_rows <= STUDIES_AT_A_TIME:  # at once: they are hashed while they are written
        return Split(config, split, partial(make, studies))
    starts = range(0, studies.num_rows, STUDIES_AT_A_TIME)
    return Split(config, split, lambda: (make(studies.slice(start, STUDIES_AT_A_TIME)) for start in starts))


def _same(rows: pa.Table) -> pa.Table:
    return rows
