"""CXR-ContraBench (Fang et al., "CXR-ContraBench: Benchmarking Negated-Option Attraction in Medical VLMs").

Each question has an option that negates another option.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...loaders.errors import InputError
from ..benchmark import Benchmark, Repository, Request
from ..schemas.contrabench import LOCATED_QUESTION, QUESTION
from ..write import Family
from . import chexlocalize, chexpert, chexstruct, openi, rexvqa
from .exports import FEWSHOT, LORA, find_export_problems
from .plans import plan_chexlocalize, plan_chexpert, plan_chexstruct, plan_openi, plan_rexvqa
from .questions import Wording, find_violations
from .reasons import list_reasons
from .variants import VARIANTS
from .vocabulary import COUNTED, COUNTED_FORMS, vocabulary

NAME = "cxr-contrabench"
# Config -> the source whose repository holds it. The configs are protocols, their VARIANTS, and the SETS for training
# and prompting.
CONFIGS = {
    **dict.fromkeys(chexpert.PROTOCOLS, "chexpert"),
    openi.PROTOCOL: "openi",
    **dict.fromkeys(chexstruct.PROTOCOLS, "chexstruct"),
    **dict.fromkeys(rexvqa.SLICES, "rexvqa"),
    **dict.fromkeys(chexlocalize.PROTOCOLS, chexlocalize.SOURCE),
    **{config: "openi" if plain == openi.PROTOCOL else "chexpert" for config, (plain, *_) in VARIANTS.items()},
    LORA: "chexpert",
    "fewshot_presence": "chexstruct",
    "fewshot_absence": "openi",
}
SETS = (LORA, *FEWSHOT)
NEEDS = {config: (source_id,) for config, source_id in CONFIGS.items()}
FAMILY = Family(features=QUESTION, counted=COUNTED, find_violations=find_violations)
QUOTING = Family(features=QUESTION, counted=COUNTED_FORMS, find_violations=find_violations)
LOCATED = Family(features=LOCATED_QUESTION, counted=COUNTED, find_violations=chexlocalize.find_located_violations)
PLANS = {
    "chexpert": plan_chexpert,
    "openi": plan_openi,
    "chexstruct": plan_chexstruct,
    "rexvqa": plan_rexvqa,
    chexlocalize.SOURCE: plan_chexlocalize,
}


def select_family(config: str) -> Family:
    """Select the row family of a config.

    Args:
        config: The name of the config.

    Returns:
        The family.
    """
    if config in chexlocalize.PROTOCOLS:
        return LOCATED
    return QUOTING if config in rexvqa.SLICES else FAMILY


def make(request: Request) -> Iterable[Repository]:
    """Make one repository per source. All are planned before any is written.

    Args:
        request: The arguments of the build.

    Returns:
        The repositories.

    Raises:
        InputError: The copy of the source does not contain the split of a named config.
    """
    configs_by_source: dict[str, list[str]] = {}
    for config in request.configs:
        configs_by_source.setdefault(CONFIGS[config], []).append(config)
    plans = [PLANS[source_id](replace(request, configs=configs)) for source_id, configs in configs_by_source.items()]
    planned_configs = {split.config for plan in plans for split in plan.splits}
    for config in request.named_configs:
        if config not in planned_configs:
            split = "train.csv" if config == LORA else "valid.csv"
            action = f"give the folder that also holds {split}"
            raise InputError(
                request.roots[CONFIGS[config]], f"has no labels for {config}", expected=split, action=action
            )
    return plans


BENCHMARK = Benchmark(
    name=NAME,
    title="questions with a negated option (CheXpert, CheXlocalize, OpenI, CheXStruct, ReXVQA)",
    needs=NEEDS,
    family=select_family,
    make=make,
    options=Wording,
    draws="seed of the choice of distractors and of the rows of samples",
    check=find_export_problems,
    reasons=list_reasons(f"{config}/{split}" for config in chexlocalize.PROTOCOLS for split in chexlocalize.SPLITS),
    quoted={"rexvqa": ("question", "options", "finding")},
    vocabulary=vocabulary,
)
build, verify = BENCHMARK.build, BENCHMARK.verify
