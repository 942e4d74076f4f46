"""The arguments of `medfaith train lora`. The training is in run.py, which needs torch."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from medfaith import build_command

from ..options import (
    add_rows,
    add_settings,
    add_shape,
    build_install_error,
    check_out,
    format_summary,
    read_lora,
    read_settings,
)
from ..settings import Settings

BENCHMARKS = ("heal", "contrabench")


def add_lora(recipes: Any) -> None:
    """Add `lora` and `full` to the recipes of `medfaith train`.

    Args:
        recipes: The subparsers of `medfaith train`.
    """
    _add_recipe(
        recipes, "lora", "LoRA",
        "Then run medfaith eval --model medfaith-hf-vlm --model_args pretrained=MODEL,peft=trained ...",
    )  # fmt: skip
    _add_recipe(
        recipes, "full", "all weights",
        "Then run medfaith eval --model medfaith-hf-vlm --model_args pretrained=trained ...",
    )  # fmt: skip


def _add_recipe(recipes: Any, name: str, weights: str, next_step: str) -> None:
    job = recipes.add_parser(
        name,
        help=f"fine-tune any open vision-language model ({weights}) on a benchmark's training rows",
        description=f"Fine-tune a vision-language model ({weights}) on the training rows of HEAL-MedVQA (section 5), "
        "or on the balanced set of CXR-ContraBench (Appendix H). The papers do so with LoRA. The model gets the "
        "prompts of the tasks and learns the right answers. The command writes the trained weights and a record of the "
        "rows that the model has seen to DIR. To resume a stopped training from its last checkpoint, run the same "
        "command again.",
        epilog=f"Example: medfaith train {name} --benchmark heal --pretrained MODEL --data medfaith-data --root "
        f"vindr_cxr=PATH --out trained. {next_step}",
    )
    job.add_argument(
        "--benchmark", required=True, choices=BENCHMARKS, help="benchmark whose training rows to learn from"
    )
    add_rows(job)
    if name == "lora":
        add_shape(job)
    add_settings(job)
    job.set_defaults(job=_train)


def _train(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    check_out(arguments.out)
    try:
        from .run import run
    except ImportError as error:
        raise build_install_error(error) from error
    record = run(
        arguments.benchmark, arguments.pretrained, arguments.data, build_command.roots(arguments), arguments.out,
        source=arguments.source, limit=arguments.limit, settings=Settings(**read_settings(arguments)),
        dtype=arguments.dtype, lora=read_lora(arguments) if hasattr(arguments, "rank") else None,
        device=arguments.device,
    )  # fmt: skip
    print(format_summary(arguments.out, record))
    return 0
