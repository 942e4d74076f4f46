"""The command: trains by one recipe and writes a checkpoint, with a record of the run beside it."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import BertConfig

from medfaith.loaders import sources
from medfaith.loaders.errors import InputError, exit_status
from medfaith.tasks.models.gloria import TEXT_MODEL, GloriaModel, load_gloria, load_tokenizer
from medfaith.tasks.wrong_lung.held_out import read_seen

from .data import GOLD, SILVER, Example, read
from .recipes import RECIPES, named
from .train import Options, auroc, settle, train

VOCABULARY = 28996  # of Bio_ClinicalBERT
CACHE = 4.0  # GiB


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status, 2 where the input is at fault."""
    arguments = _parser().parse_args(argv)
    return exit_status(lambda: run(arguments))


def run(arguments: argparse.Namespace) -> None:
    """Trains, writes the checkpoint and its record, prints where attention lies before and after."""
    recipe = named(arguments.recipe)
    options = _options(arguments)
    given = sources.parse_root_arguments(arguments.root)
    roots = sources.resolve_roots(given, environ=os.environ, config=sources.user_config())
    model, tokenizer = start(arguments.init, arguments.text_model, tiny=arguments.tiny, seed=options.seed)
    how = {"cache": int(arguments.image_cache * 2**30), "workers": arguments.workers}
    data = read(arguments.data, roots, arguments.limit, config=arguments.config, **how)
    parts = data.parts
    before_this = seen_before(arguments.init)
    if arguments.config == GOLD:
        _check_held_out(parts["test"], before_this, arguments.init)
    if arguments.init is None:
        settle(model, data, parts["train"], options)
    before = auroc(model, tokenizer, data, parts["test"], options.device)
    history = train(model, tokenizer, data, parts, recipe, options)
    after = auroc(model, tokenizer, data, parts["test"], options.device)
    means = compared(parts["test"], before, after)
    model.save_checkpoint(arguments.out)
    record = {
        "recipe": {"name": arguments.recipe, **asdict(recipe)},
        "options": asdict(options),
        "init": None if arguments.init is None else arguments.init.name,
        "config": arguments.config,
        "limit": arguments.limit,
        "n_without_words": data.n_without_words,
        "patients": {part: patients(own, arguments.config) for part, own in parts.items()},
        "seen": sorted(before_this | seen(parts, arguments.config)),
        "loss": asdict(history),
        "auroc": means,
    }
    _write(arguments.out.with_name(f"{arguments.out.name}.json"), record)
    print(f"{arguments.recipe}: {len(history.train)} rounds, {arguments.out}")
    for subset, mean in means.items():
        print(f"AUROC of {mean['n']} held-out sentences ({subset}): {mean['before']:.4f} -> {mean['after']:.4f}")


def start(init: Path | None, text_model: str, *, tiny: bool = False, seed: int = 0) -> tuple[GloriaModel, Any]:
    """A checkpoint's model, or one of random weights, tiny or of the published sizes; and the tokenizer.

    One of random weights has no batch-norm statistics yet: `train.settle` gives it those of the training images, so
    that what training is compared with is a model that differs from the trained one in its weights alone.

    Raises:
        InputError: as `load_gloria` and `load_tokenizer`.
    """
    if init is not None:
        model = load_gloria(init)
        return model, load_tokenizer(text_model, model.text_encoder.model.config.vocab_size)
    tokenizer = load_tokenizer(text_model, VOCABULARY)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if not tiny:
            return GloriaModel(), tokenizer
        bert = BertConfig(
            vocab_size=len(tokenizer), hidden_size=64, intermediate_size=64, num_hidden_layers=4, num_attention_heads=1
        )
        model = GloriaModel(layers=(1, 1, 1, 1), width=4, bert=bert)
        with torch.no_grad():
            model.img_encoder.local_embedder.weight *= 0.05  # attention starts close to even instead of on one region
        return model, tokenizer


def patients(examples: Sequence[Example], config: str) -> list[str] | dict[str, Any]:
    """The patients of a part: of gold their sorted ids; of silver, which has 60,000, how many they are and the SHA-256
    of the sorted ids, one a line.
    """
    ids = sorted({example.patient for example in examples})
    if config == GOLD:
        return ids
    return {"n": len(ids), "sha256": hashlib.sha256("".join(f"{one}\n" for one in ids).encode()).hexdigest()}


def seen(parts: Mapping[str, Sequence[Example]], config: str) -> frozenset[str]:
    """Gold's patients that training and validation have rows of, drawn by the recipe or not; silver has none of them.

    What the record keeps as `seen`, with those of the start, is what `medfaith eval --patients` leaves out.
    """
    if config != GOLD:
        return frozenset()
    return frozenset(example.patient for part in ("train", "validation") for example in parts[part])


def seen_before(init: Path | None) -> frozenset[str]:
    """Gold's patients that the checkpoint to start from has seen, by the record beside it.

    One without a record counts as one that has seen none, as do the released weights; stderr says so.

    Raises:
        InputError: as `read_seen`.
    """
    if init is None:
        return frozenset()
    record = init.with_name(f"{init.name}.json")
    if not record.exists():
        print(f"medfaith: {init} has no record: taken as trained on none of gold's patients", file=sys.stderr)
        return frozenset()
    return read_seen(record)


def _check_held_out(examples: Sequence[Example], known: frozenset[str], init: Path | None) -> None:
    """Raises InputError where the start has seen patients who are to be held out."""
    held_out = {example.patient for example in examples}
    if met := held_out & known:
        raise InputError(
            f"--init {init}",
            f"was trained on {len(met)} of the {len(held_out)} patients who are held out here",
            expected="a model trained on the same build, of which the same patients are held out",
            action="train on that build, or without --init",
        )


def compared(examples: Sequence[Example], before: np.ndarray, after: np.ndarray) -> dict[str, dict[str, float | int]]:
    """Mean AUROC, (n,) each, of all examples and of those about one lung, where it is defined."""
    found = {}
    for subset, inside in {"all": np.ones(len(examples), bool), "one_lung": _of("one_lung", examples)}.items():
        defined = inside & np.isfinite(before) & np.isfinite(after)
        if defined.any():
            means = {name: float(values[defined].mean()) for name, values in (("before", before), ("after", after))}
            found[subset] = {"n": int(defined.sum()), **means}
    return found


def _of(subset: str, examples: Sequence[Example]) -> np.ndarray:
    return np.array([subset in example.subsets for example in examples], dtype=bool)


def _write(path: Path, record: Mapping[str, Any]) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    partial.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)


def _options(arguments: argparse.Namespace) -> Options:
    """Raises InputError for a number or a place that is none, before anything is read."""
    if arguments.config not in (GOLD, SILVER):
        raise InputError("--config", f"is {arguments.config!r}", expected=f"{GOLD} or {SILVER}")
    for name in ("epochs", "limit", "workers"):
        if (value := getattr(arguments, name)) is not None and value < 1:
            raise InputError(f"--{name}", f"is {value}", expected="1 or more")
    if arguments.batch_size < 2:
        raise InputError("--batch-size", f"is {arguments.batch_size}", expected="2 images or more")
    if not 0 < arguments.lr < float("inf"):
        raise InputError("--lr", f"is {arguments.lr}", expected="a positive number")
    if not 0 <= arguments.image_cache < float("inf"):
        raise InputError("--image-cache", f"is {arguments.image_cache}", expected="GiB, 0 or more")
    if arguments.seed < 0:
        raise InputError("--seed", f"is {arguments.seed}", expected="0 or more")
    if not arguments.out.parent.is_dir() or arguments.out.is_dir():
        raise InputError(f"--out {arguments.out}", "is no file in a folder that exists", action="make the folder")
    try:
        torch.empty(0, device=arguments.device)
    except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
        cause = str(error).splitlines()[0]
        raise InputError(
            f"--device {arguments.device}", f"cannot be used ({cause})", expected="cpu, cuda, ..."
        ) from error
    return Options(arguments.seed, arguments.epochs, arguments.batch_size, arguments.lr, arguments.device)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m medfaith.training",
        description="Train a GLoRIA by a recipe of That's the Wrong Lung! (section 4.1): on the silver sentences of a "
        "build, as the paper does, with the data set's own splits; or on the gold ones, split by patient: 60% "
        "training, 20% validation, 20% held out, whatever --limit leaves of each. Writes FILE.ckpt, and "
        "FILE.ckpt.json with the patients of each part, those of gold that the model has seen, losses, and AUROC on "
        "the held-out sentences before and after.",
        epilog="Example: python -m medfaith.training 30_shot --data medfaith-data --root mimic_cxr=PATH "
        "--init gloria.ckpt --out 30_shot.ckpt; then medfaith eval --model medfaith-alignment --model_args "
        "pretrained=gloria:30_shot.ckpt --patients 30_shot.ckpt.json ..., which asks about the patients only that the "
        "model has not seen, nor the one that it starts from, as the record beside that says. A model trained on "
        "silver only has seen none of gold's patients and needs no --patients.",
    )
    parser.add_argument("recipe", metavar="RECIPE", help=", ".join(RECIPES))
    parser.add_argument("--data", required=True, help="what medfaith build wrong-lung wrote, or a Hub organisation")
    parser.add_argument("--root", action="append", default=[], metavar="SOURCE=PATH", help="mimic_cxr: the images")
    parser.add_argument(
        "--config", default=GOLD, help="gold, or silver (medfaith build wrong-lung --config silver) (default: gold)"
    )
    parser.add_argument("--out", required=True, type=Path, metavar="FILE.ckpt")
    parser.add_argument(
        "--init",
        type=Path,
        metavar="FILE.ckpt",
        help="weights to start from, with their record beside them (default: random ones)",
    )
    parser.add_argument(
        "--text-model", default=TEXT_MODEL, metavar="DIR", help="of the tokenizer (default: %(default)s)"
    )
    parser.add_argument("--tiny", action="store_true", help="without --init: a small model, to try the command")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, help="at most; of 30_shot: steps (default: 50; of 30_shot: 500)")
    parser.add_argument("--batch-size", type=int, default=Options.batch_size, help="images (default: %(default)s)")
    parser.add_argument("--lr", type=float, default=Options.lr, help="of Adam (default: %(default)s)")
    parser.add_argument("--device", default=Options.device, help="cpu, cuda, ... (default: %(default)s)")
    parser.add_argument("--limit", type=int, metavar="N", help="take the first N sentences of a split only")
    parser.add_argument("--workers", type=int, default=4, help="images opened at a time (default: %(default)s)")
    parser.add_argument(
        "--image-cache",
        type=float,
        default=CACHE,
        metavar="GIB",
        help="memory for images; all of silver's take 12, others are opened anew (default: %(default)s)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
