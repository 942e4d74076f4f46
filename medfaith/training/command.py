"""The arguments of `medfaith train`. The training is in run.py, which needs torch."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medfaith import build_command
from medfaith.loaders.errors import InputError
from medfaith.tasks.models.contrastive.clinical_bert import TEXT_MODEL

from .loba.command import add_loba
from .lora.command import add_lora
from .options import add_rounds, add_sentences, build_install_error, check_checkpoint
from .recipes import RECIPES, Options
from .uniter.command import add_uniter

SUMMARIES = {  # recipe -> its line in the help
    "retrained": "train GLoRIA on images and their sentences with its own contrastive loss",
    "word_masking": "train GLoRIA on images and their sentences, in which 30% of the words are masked",
    "clinical_masking": "train GLoRIA on images and their sentences, in which half of the clinical terms are masked",
    "no_attn": "train GLoRIA on images and their sentences, with a learned vector for words without a region",
    "abnormal": "train GLoRIA on images and only their sentences about an abnormality",
    "30_shot": "train the attention of GLoRIA on the boxes of 30 sentences (supervised; usually with --init)",
    "rand_sents": "train GLoRIA on images with sentences of other images (a control that should not help)",
}


def add_jobs(jobs: Any) -> None:
    """Add `train`, with one subcommand for each recipe, to the command's jobs.

    Args:
        jobs: The subparsers of the command.
    """
    job = jobs.add_parser(
        "train",
        help="fine-tune a vision-language model, or train GLoRIA or UNITER by a recipe of That's the Wrong Lung!",
        description="Fine-tune any open vision-language model (lora, full, loba), or train UNITER (uniter), or GLoRIA "
        "by one of the other recipes, which are those of That's the Wrong Lung! (section 4.1). "
        "medfaith train RECIPE --help lists the options of each.",
        epilog="Example: medfaith train lora --benchmark heal --pretrained MODEL --data medfaith-data --root "
        "vindr_cxr=PATH --out adapter",
    )
    job.fill = _add_recipes


def _add_recipes(job: argparse.ArgumentParser) -> None:
    recipes = job.add_subparsers(metavar="RECIPE", required=True)
    for name in RECIPES:
        _add_recipe(recipes, name, SUMMARIES[name])
    add_uniter(recipes)
    add_lora(recipes)
    add_loba(recipes)


def _add_recipe(recipes: Any, name: str, summary: str) -> None:
    job = recipes.add_parser(
        name,
        help=summary.replace("%", "%%"),
        description=f"{summary[0].upper()}{summary[1:]}: the recipe {name} of That's the Wrong Lung! (section 4.1). "
        "The paper trains on the silver sentences of a build, which have splits of their own. The gold sentences are "
        "split by patient: 60% training, 20% validation, 20% held out; --limit moves no patient to another part. The "
        "command writes the checkpoint FILE and the record FILE.json: the patients of each part, the gold patients "
        "that the model has seen, the losses, and AUROC on the held-out sentences before and after training. To resume "
        "a stopped training after its last complete epoch, run the same command again.",
        epilog=f"Example: medfaith train {name} --data medfaith-data --root mimic_cxr=PATH --out {name}.ckpt. Then "
        f"run medfaith eval --model medfaith-alignment --model_args pretrained=gloria:{name}.ckpt --patients "
        f"{name}.ckpt.json ..., which asks only about patients that neither the model nor the model that it started "
        "from has seen. A model trained on silver alone has seen no gold patient and needs no --patients.",
    )
    add_sentences(job)
    job.add_argument(
        "--init",
        type=Path,
        metavar="FILE",
        help="checkpoint to start from; the record next to it is read, too (default: random weights)",
    )
    job.add_argument(
        "--image-encoder",
        metavar="MODEL",
        help="without --init: initial weights of the image encoder, a ResNet-50: a file from torchvision, or a folder "
        "or Hub name from timm; the paper uses timm/resnet50.tv_in1k (default: random weights)",
    )
    job.add_argument(
        "--text-encoder",
        metavar="MODEL",
        help="without --init: initial weights of the text encoder: folder or Hub name of a BERT; the paper uses "
        f"{TEXT_MODEL} (default: random weights)",
    )
    job.add_argument(
        "--text-model",
        metavar="MODEL",
        help="folder or Hub name of the BERT whose tokenizer to use (default: the model of --text-encoder, or "
        f"{TEXT_MODEL})",
    )
    job.add_argument(
        "--tiny",
        action="store_true",
        help="without --init: make encoders with random weights small, to try the command",
    )
    add_rounds(job, Options(), "maximum number of epochs; for 30_shot, of steps (default: 50; for 30_shot: 500)")
    job.set_defaults(job=_train, recipe=name)


def _train(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    check_checkpoint(arguments.out)
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
