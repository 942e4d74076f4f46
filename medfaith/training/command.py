"""The arguments of `medfaith train`. The training is in run.py, which needs torch."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medfaith import build_command
from medfaith.builders.options import whole
from medfaith.loaders.atomic import require_writable
from medfaith.loaders.errors import InputError
from medfaith.tasks.models.clinical_bert import TEXT_MODEL

from .loba.command import add_loba
from .lora.command import add_lora
from .options import build_install_error, build_number_parser
from .recipes import GOLD, RECIPES, SILVER, Options

CACHE = 4.0  # GiB


def add_jobs(jobs: Any) -> None:
    """Add `train`, with one subcommand for each recipe, to the command's jobs.

    Args:
        jobs: The subparsers of the command.
    """
    job = jobs.add_parser(
        "train",
        help="train a GLoRIA by a recipe of That's the Wrong Lung!, or any vision-language model",
        description="Trains a GLoRIA by a recipe of That's the Wrong Lung! (section 4.1), or any open vision-language "
        "model (lora, full, loba). medfaith train RECIPE --help lists the options of each.",
        epilog="Example: medfaith train lora --benchmark heal --pretrained MODEL --data medfaith-data --root "
        "vindr_cxr=PATH --out adapter",
    )
    recipes = job.add_subparsers(metavar="RECIPE", required=True)
    for name, recipe in RECIPES.items():
        _add_recipe(recipes, name, recipe)
    add_lora(recipes)
    add_loba(recipes)


def _add_recipe(recipes: Any, name: str, recipe: Any) -> None:
    job = recipes.add_parser(
        name,
        help="train a GLoRIA by this recipe of That's the Wrong Lung!",
        description=f"Trains a GLoRIA by the recipe {name} of That's the Wrong Lung! (section 4.1). The paper trains "
        "on the silver sentences of a build, which have splits of their own. The gold sentences are split by patient: "
        "60% training, 20% validation, 20% held out; --limit moves no patient to another part. The command writes "
        "FILE.ckpt and the record FILE.ckpt.json: the patients of each part, the gold patients that the model has "
        "seen, the losses, and AUROC on the held-out sentences before and after training.",
        epilog=f"Example: medfaith train {name} --data medfaith-data --root mimic_cxr=PATH --out {name}.ckpt. Then "
        f"run medfaith eval --model medfaith-alignment --model_args pretrained=gloria:{name}.ckpt --patients "
        f"{name}.ckpt.json ..., which asks only about patients that neither the model nor the model that it started "
        "from has seen. A model trained on silver alone has seen no gold patient and needs no --patients.",
    )
    job.add_argument("--data", required=True, help="what medfaith build wrote, or a Hub organisation")
    build_command.root_argument(job)
    job.add_argument(
        "--config",
        default=GOLD,
        choices=(GOLD, SILVER),
        help="which sentences to train on; silver takes medfaith build wrong-lung --config silver first "
        "(default: %(default)s)",
    )
    job.add_argument("--out", required=True, type=Path, metavar="FILE.ckpt", help="the checkpoint to write")
    job.add_argument(
        "--init",
        type=Path,
        metavar="FILE.ckpt",
        help="the checkpoint to start from; its record next to it is read, too (default: random weights)",
    )
    job.add_argument(
        "--image-encoder",
        metavar="NAME",
        help="without --init: start the image encoder from the weights of this ResNet-50, a file of torchvision's or a "
        "folder or Hub name of timm's; the paper's are timm/resnet50.tv_in1k (default: random weights)",
    )
    job.add_argument(
        "--text-encoder",
        metavar="NAME",
        help="without --init: start the text encoder from the weights of the BERT in this folder or of this Hub name; "
        f"the paper's are {TEXT_MODEL} (default: random weights)",
    )
    job.add_argument(
        "--text-model",
        metavar="NAME",
        help="folder or Hub name of the BERT whose tokenizer the model reads with (default: that of --text-encoder, or "
        f"{TEXT_MODEL})",
    )
    job.add_argument(
        "--tiny",
        action="store_true",
        help="without --init: make every encoder small that has random weights, to try the command",
    )
    job.add_argument(
        "--seed",
        type=whole(above=-1),
        default=0,
        help="seed of the weights and of what is drawn (default: %(default)s)",
    )
    job.add_argument(
        "--epochs",
        type=whole(above=0),
        help="train for at most so many epochs; for 30_shot, steps (default: 50; for 30_shot: 500)",
    )
    job.add_argument(
        "--batch-size", type=whole(above=1), default=Options.batch_size, help="images of a batch (default: %(default)s)"
    )
    job.add_argument(
        "--lr",
        type=build_number_parser("a positive number", lambda value: value > 0),
        default=Options.lr,
        help="learning rate of Adam (default: %(default)s)",
    )
    job.add_argument("--device", default=Options.device, help="where to train: cpu, cuda, ... (default: %(default)s)")
    job.add_argument(
        "--limit", type=whole(above=0), metavar="N", help="take only the first N sentences of each split (default: all)"
    )
    job.add_argument(
        "--workers", type=whole(above=0), default=4, help="how many images to open at a time (default: %(default)s)"
    )
    job.add_argument(
        "--image-cache",
        type=build_number_parser("a number of GiB, 0 or more", lambda value: value >= 0),
        default=CACHE,
        metavar="GIB",
        help="memory for images; all of silver's take 12 GiB, and what does not fit is opened again in each epoch "
        "(default: %(default)s)",
    )
    job.set_defaults(job=_train, recipe=name)


def _train(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    if not arguments.out.parent.is_dir() or arguments.out.is_dir():
        raise InputError(
            f"--out {arguments.out}",
            "is not a file in a folder that exists",
            action="make the folder, or name another file",
        )
    require_writable(arguments.out.parent)
    if arguments.init and (arguments.image_encoder or arguments.text_encoder):
        raise InputError(
            f"--init {arguments.init}",
            "has both encoders",
            action="leave out --image-encoder and --text-encoder, or --init",
        )
    try:
        from .run import run
    except ImportError as error:
        raise build_install_error(error) from error
    run(
        arguments.recipe,
        arguments.data,
        build_command.roots(arguments),
        arguments.out,
        config=arguments.config,
        init=arguments.init,
        text_model=arguments.text_model or arguments.text_encoder or TEXT_MODEL,
        image_encoder=arguments.image_encoder,
        text_encoder=arguments.text_encoder,
        tiny=arguments.tiny,
        limit=arguments.limit,
        cache=int(arguments.image_cache * 2**30),
        workers=arguments.workers,
        options=Options(arguments.seed, arguments.epochs, arguments.batch_size, arguments.lr, arguments.device),
    )
    return 0
