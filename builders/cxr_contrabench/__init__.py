"""CXR-ContraBench (papers: Fang et al., "CXR-ContraBench: Benchmarking Negated-Option Attraction in Medical VLMs").

`build` reads the sources, makes the rows and writes one repository a source; `verify` proves what it wrote.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from tqdm import tqdm

from ...loaders import sources
from ...loaders.errors import InputError, MissingSourceError
from ..schemas.contrabench import QUESTION
from ..verify import Verdict
from ..write import Family, Split, source_record, write_repository
from . import chexpert, chexstruct, openi, rexvqa
from .exports import FEWSHOT, LORA
from .longest import longest
from .plans import Arguments, plan_chexpert, plan_chexstruct, plan_openi, plan_rexvqa
from .questions import Wording, violations
from .repository import verify_exports
from .variants import VARIANTS
from .wording import LAYOUTS, NEGATION_FORMS, QUESTION_FORMS

__all__ = ["CONFIGS", "COUNTED", "FAMILY", "NAME", "SETS", "VARIANTS", "build", "check_wording", "longest", "verify"]

NAME = "cxr-contrabench"
# Config -> the source whose repository holds it. Beside the protocols stand their VARIANTS, and the SETS for training
# and prompting.
CONFIGS = {
    **dict.fromkeys(chexpert.PROTOCOLS, "chexpert"),
    openi.PROTOCOL: "openi",
    **dict.fromkeys(chexstruct.PROTOCOLS, "chexstruct"),
    **dict.fromkeys(rexvqa.SLICES, "rexvqa"),
    **dict.fromkeys(VARIANTS, "chexpert"),
    LORA: "chexpert",
    "fewshot_presence": "chexstruct",
    "fewshot_absence": "openi",
}
SETS = (LORA, *FEWSHOT)
KEYS = {
    "chexpert": {"train": ("train.csv", "chexpert_train.csv"), "validation": ("valid.csv",)},
    "rexvqa": {"": ("test_vqa_data.json",)},
}
COUNTED = ("protocol", "polarity", "finding")
FAMILY = Family(features=QUESTION, counted=COUNTED, violations=violations)
# Columns in a source's own words, which its licence keeps: build.json, which is published, counts none of them.
QUOTED = {"rexvqa": ("question", "options", "finding")}
QUOTING = Family(features=QUESTION, counted=("protocol", "polarity"), violations=violations)
PLANS = {"chexpert": plan_chexpert, "openi": plan_openi, "chexstruct": plan_chexstruct, "rexvqa": plan_rexvqa}


def family(config: str) -> Family:
    """What the rows of a config are."""
    return QUOTING if config in rexvqa.SLICES else FAMILY


def build(
    roots: Mapping[str, Path],
    out: Path,
    *,
    configs: Sequence[str] | None = None,
    seed: int = 0,
    wording: Wording | None = None,
    workers: int = 1,
    card: Callable[[str], str] = lambda name: f"# {name}\n",
) -> list[Path]:
    """Builds the configs (default: all that the roots have labels for) below `out`; returns the repositories' folders.

    Args:
        roots: source id -> folder or label file. card: README body for a repository's name.
        wording: negation form, question form, layout. seed: chooses among eligible distractors, and samples.
        workers: threads; the bytes written do not depend on it.

    Raises InputError for an unknown config or one whose split the source's copy lacks, MissingSourceError for a config
    whose source has no root.
    """
    wording = wording or Wording()
    check_wording(wording)
    for config in configs or ():
        if config not in CONFIGS:
            raise InputError(f"--config {config}", f"no such config of {NAME}", expected=f"one of {', '.join(CONFIGS)}")
    wanted = list(configs) if configs else [config for config, source_id in CONFIGS.items() if source_id in roots]
    if not wanted:
        needed = dict.fromkeys(CONFIGS.values())
        texts = [f"{sources.source(s).title} ({s})\n{sources.source(s).instructions()}" for s in needed]
        raise MissingSourceError(f"{NAME} needs at least one of its sources\n" + "\n".join(texts))

    of_source: dict[str, list[str]] = {}
    for config in dict.fromkeys(wanted):
        of_source.setdefault(CONFIGS[config], []).append(config)
    plans = {s: PLANS[s](sources.root_of(s, roots), Arguments(c, seed, wording)) for s, c in of_source.items()}
    planned = {split.config for plan in plans.values() for split in plan.splits}
    for config in configs or ():
        if config not in planned:
            split = "train.csv" if config == LORA else "valid.csv"
            action = f"give the folder that holds {split}, too"
            raise InputError(roots[CONFIGS[config]], f"has no labels for {config}", expected=split, action=action)

    folders = []
    for source_id, plan in plans.items():
        name = f"{NAME}-{source_id}"
        # Hashing unpacks the label files again: it runs beside the writing.
        with ThreadPoolExecutor(1) as beside, _progress(f"write {name}", plan.splits) as tracked:
            described = beside.submit(source_record, source_id, plan.files)
            folders.append(
                write_repository(
                    out,
                    name,
                    tracked,
                    exports=plan.exports,
                    families=family,
                    record=partial(_record, source_id, seed, wording, described.result),
                    card=card(name),
                    workers=workers,
                )
            )
    return folders


def _record(source_id: str, seed: int, wording: Wording, described: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What build.json says of a build beside its rows."""
    return {
        "benchmark": NAME,
        "source": source_id,
        "medfaith": importlib.metadata.version("medfaith"),
        "seed": seed,
        "arguments": asdict(wording),
        "sources": {source_id: described()},
    }


def verify(folder: Path, references: Sequence[Mapping[str, Any]] = ()) -> list[Verdict]:
    """Verifies every split of one repository and the files beside them.

    Raises InputError for a build.json or Parquet that cannot be read. references: records in the form of build.json.
    """
    return verify_exports(folder, {NAME: family}, references)


def check_wording(wording: Wording) -> None:
    """Raises InputError for a form or layout that there is not."""
    for option, value, allowed in (
        ("--negation-form", wording.negation_form, NEGATION_FORMS),
        ("--question-form", wording.question_form, QUESTION_FORMS["presence"]),
        ("--layout", wording.layout, LAYOUTS),
    ):
        if value not in allowed:
            raise InputError(f"{option} {value}", "no such form", expected=f"one of {', '.join(allowed)}")


@contextmanager
def _progress(title: str, splits: Sequence[Split]) -> Iterator[list[Split]]:
    """The same splits, each of which moves a progress bar on when it has been made."""
    with tqdm(desc=title, total=len(splits), disable=None, leave=False) as bar:

        def ticking(split: Split) -> pa.Table:
            table = split.make()
            bar.update()
            return table

        yield [Split(s.config, s.name, partial(ticking, s)) for s in splits]
