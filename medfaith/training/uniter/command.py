"""The arguments of `medfaith train uniter`. The training needs torch."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from medfaith import build_command
from medfaith.builders.options import whole
from medfaith.loaders.errors import InputError
from medfaith.tasks.models.contrastive.clinical_bert import TEXT_MODEL

from ..options import add_rounds, add_sentences, build_install_error, build_number_parser, check_checkpoint
from .settings import ROUNDS, UniterOptions

SOURCE = "chest_imagenome"


def add_uniter(recipes: Any) -> None:
    """Add `uniter` to the recipes of `medfaith train`.

    Args:
        recipes: The subparsers of `medfaith train`.
    """
    job = recipes.add_parser(
        "uniter",
        help="train UNITER on sentences and the boxes of all anatomies of their images",
        description="Train the UNITER of That's the Wrong Lung! from scratch (section 2.2, appendix A.2). Its input "
        "has the reference boxes of all anatomies of an image, so its scores are not comparable with those of other "
        "models. Sentences, split by patient and record are those of the other recipes. To resume a stopped training "
        "after its last complete epoch, run the same command again.",
        epilog="Example: medfaith train uniter --data medfaith-data --root mimic_cxr=PATH --root chest_imagenome=PATH "
        "--out uniter.ckpt. Then run medfaith eval --model medfaith-alignment --model_args "
        "pretrained=uniter:uniter.ckpt,boxes=PATH --patients uniter.ckpt.json ...",
    )
    add_sentences(job)
    job.add_argument(
        "--text-model",
        default=TEXT_MODEL,
        metavar="MODEL",
        help="folder or Hub name of the BERT whose tokenizer to use (default: %(default)s)",
    )
    for name, default, text in (
        ("layers", 12, "number of layers of the encoder"),
        ("heads", 12, "number of attention heads of a layer"),
        ("hidden-size", 768, "dimension of the hidden states, a multiple of the number of heads"),
    ):
        job.add_argument(
            f"--{name}", type=whole(above=0), default=default, metavar="N", help=f"{text} (default: %(default)s)"
        )
    add_rounds(job, UniterOptions(), f"maximum number of epochs (default: {ROUNDS})")
    job.add_argument(
        "--accumulate",
        type=whole(above=0),
        default=UniterOptions.accumulate,
        metavar="N",
        help="number of batches in an optimizer step; the paper uses 5 (default: %(default)s)",
    )
    job.add_argument(
        "--dropout",
        type=build_number_parser("a number from 0 up to 1, without 1", lambda value: 0 <= value < 1),
        default=UniterOptions.dropout,
        metavar="NUMBER",
        help="dropout of hidden states and of attention; 0 lets a small model learn sooner (default: %(default)s)",
    )
    job.add_argument(
        "--patience",
        type=whole(above=0),
        default=UniterOptions.patience,
        metavar="N",
        help="stop after N epochs without a lower validation loss (default: %(default)s)",
    )
    job.add_argument(
        "--abnormal",
        action="store_true",
        help="learn only from sentences about an abnormality, as the recipe abnormal does (default: all)",
    )
    job.set_defaults(job=_train)


def _train(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    check_checkpoint(arguments.out)
    roots = build_command.roots(arguments)
    if SOURCE not in roots:
        raise InputError(
            f"--root {SOURCE}=PATH",
            "is missing",
            expected="the folder of Chest ImaGenome: UNITER takes the reference boxes of an image as its input",
        )
    try:
        from .run import run
    except ImportError as error:
        raise build_install_error(error) from error
    run(
        arguments.data,
        roots,
        arguments.out,
        config=arguments.config,
        text_model=arguments.text_model,
        layers=arguments.layers,
        heads=arguments.heads,
        hidden=arguments.hidden_size,
        limit=arguments.limit,
        cache=int(arguments.image_cache * 2**30),
        workers=arguments.workers,
        options=UniterOptions(
            arguments.seed,
            arguments.epochs,
            arguments.batch_size,
            arguments.lr,
            arguments.device,
            arguments.accumulate,
            arguments.dropout,
            arguments.patience,
            arguments.abnormal,
        ),
    )
    return 0
