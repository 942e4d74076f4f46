"""One run of training: reads the sentences, trains, writes a checkpoint and a record of the run beside it."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import BertConfig

from medfaith.loaders.atomic import atomic_file
from medfaith.loaders.errors import InputError
from medfaith.tasks.models.gloria import GloriaModel, load_gloria, load_tokenizer
from medfaith.tasks.wrong_lung.held_out_patients import digest_of, read_seen

from .data import Example, read
from .encoders import load_bert, load_resnet
from .recipes import GOLD, RECIPES, Options
from .train import auroc, settle, train

VOCABULARY = 28996  # of Bio_ClinicalBERT


def run(
    name: str,
    data: str | Path,
    roots: Mapping[str, Path],
    out: Path,
    *,
    config: str = GOLD,
    init: Path | None = None,
    text_model: str,
    image_encoder: str | None = None,
    text_encoder: str | None = None,
    tiny: bool = False,
    limit: int | None = None,
    cache: int = 2**31,
    workers: int = 1,
    options: Options,
) -> None:
    """Trains, writes the checkpoint and its record, prints where attention lies before and after.

    Args:
        name: of the recipe. data, roots, config, limit, cache, workers: as of `data.read`. out: the checkpoint.
        init, text_model, image_encoder, text_encoder, tiny: as of `start`.

    Raises:
        InputError: a device that is none, a start that has seen patients who are to be held out, or as `data.read`,
            `start` and `train` say.
    """
    _check_device(options.device)
    recipe = RECIPES[name]
    encoders = {"image_encoder": image_encoder, "text_encoder": text_encoder}
    model, tokenizer = start(init, text_model, **encoders, tiny=tiny, seed=options.seed)
    examples = read(data, roots, limit, config=config, cache=cache, workers=workers)
    parts = examples.parts
    before_this = seen_before(init)
    if config == GOLD:
        _check_held_out(parts["test"], before_this, init)
    if init is None:
        settle(model, examples, parts["train"], options)
    before = auroc(model, tokenizer, examples, parts["test"], options.device)
    history = train(model, tokenizer, examples, parts, recipe, options)
    after = auroc(model, tokenizer, examples, parts["test"], options.device)
    means = compared(parts["test"], before, after)
    record = {
        "recipe": {"name": name, **asdict(recipe)},
        "options": asdict(options),
        "init": None if init is None else init.name,
        **{which: None if name is None else _without_place(name) for which, name in encoders.items()},
        "config": config,
        "limit": limit,
        "n_without_words": examples.n_without_words,
        "patients": {part: patients(own, config) for part, own in parts.items()},
        "seen": sorted(before_this | seen(parts, config)),
        "loss": asdict(history),
        "auroc": means,
    }
    with atomic_file(out) as checkpoint:
        try:
            model.save_checkpoint(checkpoint)
        except RuntimeError as error:  # what torch makes of a full disk
            action = "make space, and train again"
            raise InputError(out, f"cannot be written ({error}); nothing was changed", action=action) from error
        record["checkpoint"] = digest_of(checkpoint)
        # Before it: without a record it would count as a model that has seen no gold patient.
        with atomic_file(_record_of(out)) as partial:
            partial.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"{name}: {len(history.train)} rounds, {out}")
    for subset, mean in means.items():
        print(f"AUROC of {mean['n']} held-out sentences ({subset}): {mean['before']:.4f} -> {mean['after']:.4f}")


def start(
    init: Path | None,
    text_model: str,
    *,
    image_encoder: str | None = None,
    text_encoder: str | None = None,
    tiny: bool = False,
    seed: int = 0,
) -> tuple[GloriaModel, Any]:
    """A checkpoint's model, or a new one, and the tokenizer.

    A new one has the given encoders, of their sizes. What is not given has random weights, as the maps into the common
    space always have, tiny or of the published sizes. It has no batch-norm statistics of these images yet:
    `train.settle` gives it those of the training images, so that what training is compared with is a model that differs
    from the trained one in its weights alone.

    Args:
        init: the checkpoint. text_model: folder or Hub name of the tokenizer.
        image_encoder, text_encoder: without init, as of `encoders.load_resnet` and `encoders.load_bert`.
        tiny, seed: of what is random.

    Raises:
        InputError: as `load_gloria`, `load_tokenizer`, `load_resnet` and `load_bert`.
    """
    if init is not None:
        model = load_gloria(init)
        return model, load_tokenizer(text_model, model.text_encoder.model.config.vocab_size)
    resnet = None if image_encoder is None else load_resnet(image_encoder)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        bert = None if text_encoder is None else load_bert(text_encoder)
        tokenizer = load_tokenizer(text_model, bert.config.vocab_size if bert else VOCABULARY)
        sizes: dict[str, Any] = _tiny(len(tokenizer)) if tiny else {}
        sizes |= {"layers": resnet.layers, "width": resnet.width} if resnet else {}
        sizes |= {"bert": bert.config} if bert else {}
        model = GloriaModel(**sizes)
        if tiny:
            with torch.no_grad():
                model.img_encoder.local_embedder.weight *= 0.05  # attention starts close to even, not on one region
        if resnet:
            model.img_encoder.model.load_state_dict(resnet.weights, strict=False)  # its names have been compared
        if bert:
            model.text_encoder.model = bert
        return model, tokenizer


def _tiny(vocab_size: int) -> dict[str, Any]:
    """Sizes of a small model."""
    bert = BertConfig(
        vocab_size=vocab_size, hidden_size=64, intermediate_size=64, num_hidden_layers=4, num_attention_heads=1
    )
    return {"layers": (1, 1, 1, 1), "width": 4, "bert": bert}


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
    record = _record_of(init)
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


def _without_place(name: str) -> str:
    """A Hub name as it is; of a file or folder its name alone, since where it lies is nobody else's."""
    path = Path(name).expanduser()
    return path.resolve().name if path.exists() else name


def _record_of(checkpoint: Path) -> Path:
    return checkpoint.with_name(f"{checkpoint.name}.json")


def _check_device(device: str) -> None:
    """Raises InputError where torch cannot use the device, before anything is read."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
        cause = str(error).splitlines()[0]
        raise InputError(f"--device {device}", f"cannot be used ({cause})", expected="cpu, cuda, ...") from error
