"""One training run: it reads the sentences, trains, and writes a checkpoint with the record of the run."""

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
from medfaith.tasks.models.alignment.gloria import GloriaModel, load_gloria, load_tokenizer
from medfaith.tasks.wrong_lung.held_out_patients import digest_of, read_seen

from .checkpoints import open_checkpoints
from .data import Example, read
from .encoders import load_bert, load_resnet
from .recipes import GOLD, RECIPES, Options
from .rounds import remove_state
from .train import auroc, settle, train

VOCABULARY = 28996  # size of Bio_ClinicalBERT's vocabulary


def run(  # noqa: PLR0913 (one for each option of `medfaith train`)
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
    """Train a model, write the checkpoint and its record, and print AUROC before and after.

    A state is kept in `<out>.checkpoints` until the training has ended. A later call with the same arguments resumes.

    Args:
        name: The name of the recipe.
        data: As in `data.read`.
        roots: As in `data.read`.
        out: The checkpoint.
        config: As in `data.read`.
        init: As in `start`.
        text_model: As in `start`.
        image_encoder: As in `start`.
        text_encoder: As in `start`.
        tiny: As in `start`.
        limit: As in `data.read`.
        cache: As in `data.read`.
        workers: As in `data.read`.
        options: The options of the training.

    Raises:
        InputError: The device is unknown, the initial model has seen held-out patients, or as in `data.read`, `start`,
            `open_checkpoints` and `train`.
    """
    check_device(options.device)
    recipe = RECIPES[name]
    encoders = {"image_encoder": image_encoder, "text_encoder": text_encoder}
    model, tokenizer = start(init, text_model, **encoders, tiny=tiny, seed=options.seed)
    examples = read(data, roots, limit, config=config, cache=cache, workers=workers)
    partition = examples.parts
    seen_earlier = read_seen_before(init)
    if config == GOLD:
        _check_held_out(partition["test"], seen_earlier, init)
    record: dict[str, Any] = {
        "recipe": {"name": name, **asdict(recipe)},
        "options": asdict(options),
        "init": None if init is None else init.name,
        "init_sha256": None if init is None else digest_of(init),
        **{which: None if name is None else remove_folder(name) for which, name in encoders.items()},
        "text_model": remove_folder(text_model),
        "config": config,
        "limit": limit,
        "n_without_words": examples.n_without_words,
        "patients": {name_of_part: describe_patients(members, config) for name_of_part, members in partition.items()},
        "seen": sorted(seen_earlier | list_seen(partition, config)),
    }
    checkpoints = out.with_name(f"{out.name}.checkpoints")
    with atomic_file(out) as checkpoint:  # a second training of the same checkpoint waits
        open_checkpoints(checkpoints, record | {"tiny": tiny})
        if init is None:
            settle(model, examples, partition["train"], options)
        auroc_before = auroc(model, tokenizer, examples, partition["test"], options.device)
        history = train(model, tokenizer, examples, partition, recipe, options, checkpoints)
        auroc_after = auroc(model, tokenizer, examples, partition["test"], options.device)
        means = compare_auroc(partition["test"], auroc_before, auroc_after)
        write(model, record | {"loss": asdict(history), "auroc": means}, checkpoint, out)
    remove_state(checkpoints)
    print_summary(name, len(history.train), out, means)


def write(model: Any, record: dict[str, Any], checkpoint: Path, out: Path) -> None:
    """Write a checkpoint and its record.

    Args:
        model: The model, which has `save_checkpoint`.
        record: The record without the hash of the checkpoint.
        checkpoint: The temporary path of the checkpoint.
        out: The final path of the checkpoint.

    Raises:
        InputError: The disk is full.
    """
    try:
        model.save_checkpoint(checkpoint)
    except RuntimeError as error:  # torch's error for a full disk
        action = "make space, and train again"
        raise InputError(out, f"cannot be written ({error}); nothing was changed", action=action) from error
    # The record comes first. A checkpoint without a record counts as one that has seen no gold patient.
    with atomic_file(_get_record_path(out)) as partial:
        content = json.dumps(record | {"checkpoint": digest_of(checkpoint)}, indent=1)
        partial.write_text(f"{content}\n", encoding="utf-8")


def print_summary(name: str, n_rounds: int, out: Path, means: Mapping[str, Mapping[str, float | int]]) -> None:
    """Print the number of rounds, and AUROC before and after the training.

    Args:
        name: The name of the recipe.
        n_rounds: The number of rounds.
        out: The checkpoint.
        means: The result of `compare_auroc`.
    """
    print(f"{name}: {n_rounds} rounds, {out}")
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
    """Load a checkpoint's model or build a new one, and load the tokenizer.

    A new model has the named encoders, with their sizes. Other parts have random weights, tiny or of the published
    sizes, as the maps into the common space always have. A new model has no batch-norm statistics of these images.
    `train.settle` gives it the statistics of the training images. The trained model then differs from its baseline only
    in its weights.

    Args:
        init: The checkpoint, or None for a new model.
        text_model: The folder or Hub name of the tokenizer.
        image_encoder: As in `encoders.load_resnet`; only without `init`.
        text_encoder: As in `encoders.load_bert`; only without `init`.
        tiny: Whether parts with random weights are small.
        seed: The seed of random weights.

    Returns:
        The model and its tokenizer.

    Raises:
        InputError: As in `load_gloria`, `load_tokenizer`, `load_resnet` and `load_bert`.
    """
    if init is not None:
        model = load_gloria(init)
        return model, load_tokenizer(text_model, model.text_encoder.model.config.vocab_size)
    resnet = None if image_encoder is None else load_resnet(image_encoder)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        bert = None if text_encoder is None else load_bert(text_encoder)
        tokenizer = load_tokenizer(text_model, bert.config.vocab_size if bert else VOCABULARY)
        sizes: dict[str, Any] = _build_tiny_sizes(len(tokenizer)) if tiny else {}
        sizes |= {"layers": resnet.layers, "width": resnet.width} if resnet else {}
        sizes |= {"bert": bert.config} if bert else {}
        model = GloriaModel(**sizes)
        if tiny:
            with torch.no_grad():
                model.img_encoder.local_embedder.weight *= 0.05  # initial attention is almost uniform
        if resnet:
            model.img_encoder.model.load_state_dict(resnet.weights, strict=False)  # `load_resnet` has checked the names
        if bert:
            model.text_encoder.model = bert
        return model, tokenizer


def _build_tiny_sizes(vocab_size: int) -> dict[str, Any]:
    """Return the sizes of a small model."""
    bert = BertConfig(
        vocab_size=vocab_size, hidden_size=64, intermediate_size=64, num_hidden_layers=4, num_attention_heads=1
    )
    return {"layers": (1, 1, 1, 1), "width": 4, "bert": bert}


def describe_patients(examples: Sequence[Example], config: str) -> list[str] | dict[str, Any]:
    """Describe the patients of a part: their sorted ids for gold, their number and digest for silver, which has 60,000.

    The digest is the SHA-256 of the sorted ids, one a line.

    Args:
        examples: The examples of the part.
        config: Gold or silver.

    Returns:
        The ids, or {"n": number, "sha256": digest}.
    """
    ids = sorted({example.patient for example in examples})
    if config == GOLD:
        return ids
    return {"n": len(ids), "sha256": hashlib.sha256("".join(f"{patient}\n" for patient in ids).encode()).hexdigest()}


def list_seen(partition: Mapping[str, Sequence[Example]], config: str) -> frozenset[str]:
    """List the gold patients of training and validation, used by the recipe or not. For silver the set is empty.

    The field `seen` of the record holds them and the patients of the initial model. `medfaith eval --patients` leaves
    them out.

    Args:
        partition: Part -> examples.
        config: Gold or silver.

    Returns:
        The ids of the patients.
    """
    if config != GOLD:
        return frozenset()
    return frozenset(example.patient for name in ("train", "validation") for example in partition[name])


def read_seen_before(init: Path | None) -> frozenset[str]:
    """Read the gold patients that the initial model has seen from the record next to its checkpoint.

    Without a record it counts as a model that has seen none, as the released weights have, and stderr says so.

    Args:
        init: The initial checkpoint, or None.

    Returns:
        The ids; an empty set without `init`.

    Raises:
        InputError: As in `read_seen`.
    """
    if init is None:
        return frozenset()
    record = _get_record_path(init)
    if not record.exists():
        print(f"medfaith: {init} has no record: taken as trained on none of gold's patients", file=sys.stderr)
        return frozenset()
    return read_seen(record)


def _check_held_out(examples: Sequence[Example], list_seen: frozenset[str], init: Path | None) -> None:
    """Require that the initial model has not seen held-out patients.

    Raises:
        InputError: The initial model has seen some of them.
    """
    held_out = {example.patient for example in examples}
    if overlap := held_out & list_seen:
        raise InputError(
            f"--init {init}",
            f"was trained on {len(overlap)} of the {len(held_out)} patients who are held out here",
            expected="a model trained on the same build, of which the same patients are held out",
            action="train on that build, or without --init",
        )


def compare_auroc(
    examples: Sequence[Example], before: np.ndarray, after: np.ndarray
) -> dict[str, dict[str, float | int]]:
    """Compute the mean AUROC of all examples and of those about one lung, where it is defined.

    Args:
        examples: The examples.
        before: (n,), AUROC before the training.
        after: (n,), AUROC after the training.

    Returns:
        "all" and "one_lung" -> n, before and after; a subset without a defined pair is missing.
    """
    means_by_subset = {}
    for subset, is_member in {
        "all": np.ones(len(examples), bool),
        "one_lung": _select_subset("one_lung", examples),
    }.items():
        defined = is_member & np.isfinite(before) & np.isfinite(after)
        if defined.any():
            means = {name: float(values[defined].mean()) for name, values in (("before", before), ("after", after))}
            means_by_subset[subset] = {"n": int(defined.sum()), **means}
    return means_by_subset


def _select_subset(subset: str, examples: Sequence[Example]) -> np.ndarray:
    """Return which examples are in a subset."""
    return np.array([subset in example.subsets for example in examples], dtype=bool)


def remove_folder(name: str) -> str:
    """Return a Hub name unchanged, and only the last part of a path: records name no folders.

    Args:
        name: A Hub name or a path.

    Returns:
        The name.
    """
    path = Path(name).expanduser()
    return path.resolve().name if path.exists() else name


def _get_record_path(checkpoint: Path) -> Path:
    return checkpoint.with_name(f"{checkpoint.name}.json")


def check_device(device: str) -> None:
    """Require a device that torch can use, before any data is read.

    Args:
        device: The device.

    Raises:
        InputError: torch cannot use the device.
    """
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
        cause = str(error).splitlines()[0]
        raise InputError(f"--device {device}", f"cannot be used ({cause})", expected="cpu, cuda, ...") from error
