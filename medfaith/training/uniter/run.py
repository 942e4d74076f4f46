"""The run of `medfaith train uniter`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from medfaith.loaders.atomic import atomic_file
from medfaith.tasks.models.alignment.gloria import load_tokenizer
from medfaith.tasks.models.alignment.uniter import Sizes, UniterModel

from ..checkpoints import open_checkpoints
from ..data import read
from ..recipes import GOLD
from ..rounds import remove_state
from ..run import (
    check_device,
    compare_auroc,
    describe_patients,
    list_seen,
    print_summary,
    remove_folder,
    write,
)
from .command import SOURCE
from .crops import Crops
from .settings import UniterOptions
from .train import auroc, train


def run(  # noqa: PLR0913 (one for each option of `medfaith train uniter`)
    data: str | Path,
    roots: Mapping[str, Path],
    out: Path,
    *,
    config: str = GOLD,
    text_model: str,
    layers: int,
    heads: int,
    hidden: int,
    limit: int | None = None,
    cache: int = 2**31,
    workers: int = 1,
    options: UniterOptions,
) -> None:
    """Train a UNITER from scratch, write the checkpoint and its record, and print AUROC before and after.

    Args:
        data: As in `data.read`.
        roots: As in `data.read`, with the folder of Chest ImaGenome.
        out: The checkpoint.
        config: As in `data.read`.
        text_model: The folder or Hub name of the tokenizer.
        layers: As in `Sizes`.
        heads: As in `Sizes`.
        hidden: As in `Sizes`.
        limit: As in `data.read`.
        cache: As in `data.read`.
        workers: As in `data.read`.
        options: The options of the training.

    Raises:
        InputError: The device is unknown, an image has no boxes, or as in `data.read`, `open_checkpoints` and `train`.
    """
    check_device(options.device)
    tokenizer = load_tokenizer(text_model, sys.maxsize)  # the model takes the size of any
    sizes = Sizes(len(tokenizer), layers, heads, hidden)
    with torch.random.fork_rng():
        torch.manual_seed(options.seed)
        model = UniterModel(sizes, options.dropout)
    make_views = partial(Crops, root=roots[SOURCE], config=config)
    examples = read(data, roots, limit, config=config, cache=cache, workers=workers, make_views=make_views)
    partition = examples.parts
    patients = {name: describe_patients(members, config) for name, members in partition.items()}
    record: dict[str, Any] = {
        "recipe": {"name": "uniter", **asdict(sizes)},
        "options": asdict(options),
        "text_model": remove_folder(text_model),
        "config": config,
        "limit": limit,
        "n_without_words": examples.n_without_words,
        "patients": patients,
        "seen": sorted(list_seen(partition, config)),
    }
    checkpoints = out.with_name(f"{out.name}.checkpoints")
    with atomic_file(out) as checkpoint:  # a second training of the same checkpoint waits
        open_checkpoints(checkpoints, record)
        auroc_before = auroc(model, tokenizer, examples, partition["test"], options.device)
        history = train(model, tokenizer, examples, partition, options, checkpoints)
        auroc_after = auroc(model, tokenizer, examples, partition["test"], options.device)
        means = compare_auroc(partition["test"], auroc_before, auroc_after)
        write(model, record | {"loss": asdict(history), "auroc": means}, checkpoint, out)
    remove_state(checkpoints)
    print_summary("uniter", len(history.train), out, means)
