"""`medfaith train lora`: the arguments. What runs is in run.py, which needs torch."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from medfaith import build

from ..options import add_rows, add_settings, add_shape, check_out, not_installed, settings_of, shape_of, told
from ..settings import Settings

BENCHMARKS = ("heal", "contrabench")


def add_lora(recipes: Any) -> None:
    """Adds `lora` and `full` to the recipes of `medfaith train`."""
    _add(
        recipes, "lora", "LoRA",
        "Then run medfaith eval --model medfaith-hf-vlm --model_args pretrained=MODEL,peft=trained ...",
    )  # fmt: skip
    _add(
        recipes, "full", "all weights",
        "Then run medfaith eval --model medfaith-hf-vlm --model_args pretrained=trained ...",
    )  # fmt: skip


def _add(recipes: Any, name: str, what: str, then: str) -> None:
    job = recipes.add_parser(
        name,
        help=f"fine-tune any open vision-language model ({what}) on a benchmark's training rows",
        description=f"Fine-tunes a vision-language model ({what}), as the papers do with their baselines (LoRA): on "
        "the training rows of HEAL-MedVQA (section 5), or on the balanced set of CXR-ContraBench (Appendix H). It asks "
        "as the tasks ask, and learns the right answer. The command writes what was trained, and a record of what it "
        "has seen, into FOLDER. A command that was killed goes on from its last checkpoint when it is run again.",
        epilog=f"Example: medfaith train {name} --benchmark heal --pretrained MODEL --data medfaith-data --root "
        f"vindr_cxr=PATH --out trained. {then}",
    )
    job.add_argument("--benchmark", required=True, choices=BENCHMARKS, help="whose training rows the model learns from")
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
        raise not_installed(error) from error
    record = run(
        arguments.benchmark, arguments.pretrained, arguments.data, build.roots(arguments), arguments.out,
        source=arguments.source, limit=arguments.limit, settings=Settings(**settings_of(arguments)),
        dtype=arguments.dtype, lora=shape_of(arguments) if hasattr(arguments, "rank") else None,
        device=arguments.device,
    )  # fmt: skip
    print(told(arguments.out, record))
    return 0
