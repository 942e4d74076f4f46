"""The arguments of `medfaith train loba`. The training needs torch."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from medfaith import build_command
from medfaith.tasks.decoding.titles import SAM

from ..options import (
    add_rows,
    add_settings,
    add_shape,
    build_install_error,
    build_number_parser,
    check_out,
    format_summary,
    read_lora,
    read_settings,
)


def add_loba(recipes: Any) -> None:
    """Add `loba` to the recipes of `medfaith train`.

    Args:
        recipes: The subparsers of `medfaith train`.
    """
    job = recipes.add_parser(
        "loba",
        help="train any open vision-language model to localize before it answers (LobA of HEAL-MedVQA)",
        description="Train a vision-language model to name the location before the answer, as LobA does (HEAL-MedVQA, "
        'section 4.1): "The location of the left lung is at <SEG>. The answer is Yes." The hidden state of <SEG> '
        "prompts the mask decoder of a SAM, which learns the mask of the anatomy. The command writes the adapter, the "
        "decoder and a record of the rows that the model has seen to DIR. To resume a stopped training from its last "
        "checkpoint, run the same command again.",
        epilog="Example: medfaith train loba --pretrained MODEL --data medfaith-data --root vindr_cxr=PATH --out loba. "
        "Then run medfaith eval --model medfaith-hf-vlm --model_args "
        "pretrained=MODEL,decoding=loba,regions=loba:loba ...",
    )
    add_rows(job)
    job.add_argument(
        "--sam", default=SAM, metavar="MODEL",
        help="folder or Hub name of the SAM whose mask decoder is trained (default: %(default)s, which is MedSAM)",
    )  # fmt: skip
    job.add_argument(
        "--weight", type=build_number_parser("a number, 0 or more", lambda value: value >= 0), default=1.0,
        metavar="NUMBER",
        help="lambda, the weight of the mask loss; the paper does not print it (default: %(default)s)",
    )  # fmt: skip
    job.add_argument(
        "--train-encoder", action="store_true",
        help="also train SAM's image encoder, which is needed if its weights are random (default: keep it frozen)",
    )  # fmt: skip
    add_shape(job)
    add_settings(job)
    job.set_defaults(job=_train)


def _train(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    check_out(arguments.out)
    try:
        from .run import run
        from .train import Options
    except ImportError as error:
        raise build_install_error(error) from error
    record = run(
        arguments.pretrained, arguments.sam, arguments.data, build_command.roots(arguments), arguments.out,
        source=arguments.source, limit=arguments.limit, lora=read_lora(arguments),
        options=Options(**read_settings(arguments), weight=arguments.weight), dtype=arguments.dtype,
        device=arguments.device, frozen_encoder=not arguments.train_encoder,
    )  # fmt: skip
    print(format_summary(arguments.out, record))
    return 0
