"""What is read for each repository of CXR-ContraBench, and the splits that are made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from tqdm import tqdm

from ...loaders import chexpert as chexpert_labels
from ...loaders import chexstruct as chexstruct_labels
from ...loaders import openi as openi_reports
from ...loaders import rexvqa as rexvqa_items
from ...loaders.errors import InputError
from ..write import Split
from . import chexpert, chexstruct, openi, rexvqa
from .exports import FEWSHOT, FEWSHOT_SPLIT, LORA, LORA_SPLIT, chat_jsonl, fewshot, lora_train
from .questions import Wording
from .variants import SPLIT as VARIANT_SPLIT
from .variants import VARIANTS


@dataclass(frozen=True, slots=True)
class Plan:
    """files: the label files read. exports: files beside the Parquet, by their path in the repository."""

    files: Sequence[Path]
    splits: Sequence[Split]
    exports: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Arguments:
    """Of a build."""

    configs: Sequence[str]
    seed: int
    wording: Wording


def plan_chexpert(root: Path, arguments: Arguments) -> Plan:
    """Configs of CheXpert. A config whose split the copy lacks has no split in the plan."""
    files = {s: path for s, path in chexpert_labels.label_files(root).items() if s in ("train", "validation")}
    if not files:
        raise InputError(root, "holds neither train.csv nor valid.csv", action=chexpert_labels.ACTION)
    with _bar("read chexpert", files.items()) as bar:
        tables = {s: chexpert.studies(chexpert_labels.read_labels(path, s), path) for s, path in bar}

    def make(config: str, split: str, wording: Wording) -> Callable[[], pa.Table]:
        return partial(chexpert.questions, tables[split], config, split, seed=arguments.seed, wording=wording)

    splits, exports = [], {}
    for config in arguments.configs:
        if config in VARIANTS and VARIANT_SPLIT in tables:
            plain, wording = VARIANTS[config]
            splits.append(Split(config, VARIANT_SPLIT, make(plain, VARIANT_SPLIT, wording)))
        elif config == LORA and LORA_SPLIT in tables:
            held_out = tables["validation"]["study_id"].to_pylist() if "validation" in tables else []
            presence, absence = (
                make(f"chexpert_{p}", LORA_SPLIT, arguments.wording)() for p in ("presence", "absence")
            )
            rows = lora_train(presence, absence, held_out, seed=arguments.seed)
            splits.append(Split(config, LORA_SPLIT, partial(_same, rows)))
            exports[f"{config}/{LORA_SPLIT}.jsonl"] = chat_jsonl(rows)
        elif config in chexpert.PROTOCOLS:
            splits += [Split(config, s, make(config, s, arguments.wording)) for s in tables]
    return Plan(list(files.values()), splits, exports)


def plan_openi(root: Path, arguments: Arguments) -> Plan:
    """Report-derived absence, and the few-shot pool taken from it."""
    with tqdm(desc="read openi", unit=" reports", disable=None, leave=False) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        reports = openi_reports.read_reports(root, progress=show)
    items = openi.report_absence(reports, seed=arguments.seed)
    makers = {openi.PROTOCOL: partial(openi.questions, items, wording=arguments.wording)}
    return Plan(openi_reports.label_files(root), _with_fewshot(makers, arguments))


def plan_chexstruct(root: Path, arguments: Arguments) -> Plan:
    """The audit over OpenI's images; its labels are CheXStruct's, so that building reads no other source."""
    measures = tuple(chexstruct.TARGETS.values())
    labels = chexstruct_labels.read_labels(root, measures)
    makers = {
        config: partial(chexstruct.questions, labels, config, seed=arguments.seed, wording=arguments.wording)
        for config in chexstruct.PROTOCOLS
    }
    files = chexstruct_labels.label_files(root, measures)
    return Plan(list(files.values()), _with_fewshot(makers, arguments))


def plan_rexvqa(root: Path, arguments: Arguments) -> Plan:
    """Slices of the test split."""
    path = rexvqa_items.label_file(root, "test")
    items = rexvqa_items.read_items(path)
    make = partial(rexvqa.questions, items, seed=arguments.seed)
    return Plan([path], [Split(config, "test", partial(make, config)) for config in arguments.configs])


def _with_fewshot(makers: Mapping[str, Callable[[], pa.Table]], arguments: Arguments) -> list[Split]:
    """The configs of `makers`, all of split test, and the few-shot pools that are taken from one of them."""

    def pool(config: str) -> pa.Table:
        return fewshot(makers[FEWSHOT[config]](), config, seed=arguments.seed)

    return [
        Split(config, FEWSHOT_SPLIT, partial(pool, config))
        if config in FEWSHOT
        else Split(config, "test", makers[config])
        for config in arguments.configs
    ]


def _same(rows: pa.Table) -> pa.Table:
    return rows


@contextmanager
def _bar(title: str, items: Any) -> Iterator[Any]:
    """A progress bar on a terminal, nothing in a pipe."""
    with tqdm(items, desc=title, disable=None, leave=False) as bar:
        yield bar
