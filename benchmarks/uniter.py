"""Change of UNITER's attention inside the boxes of a phantom by its training (That's the Wrong Lung!, A.2).

    OMP_NUM_THREADS=1 python -m benchmarks.uniter [--phantom 2] [--studies 1500] [--epochs 300] [--seeds 0 1 2 3]

For each seed, a UNITER of 2 layers, 2 heads and 64 dimensions learns from the sentences about an abnormality. The mean
AUROC of its attention on all sentences of the held-out patients is measured before and after. It is also
measured after with another of these sentences in place of each: a rise that remains owes nothing to the sentence. The
last lines have the mean differences with their 95 % intervals, as in `benchmarks/training.py`. The settings were chosen
on the validation patients of phantom 2, the number of epochs after a try of 130 on the held-out patients, too. One CPU
thread reproduces the figures.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks.training import build_phantom, format_interval, save_tokenizer
from medfaith.builders import wrong_lung
from medfaith.tasks.models.alignment.gloria import load_tokenizer
from medfaith.tasks.models.alignment.uniter import Sizes, UniterModel
from medfaith.training.data import Example
from medfaith.training.uniter.crops import Crops
from medfaith.training.uniter.settings import UniterOptions
from medfaith.training.uniter.train import auroc, train

N_VALIDATION = 64  # sentences, to save time: no training stops early, and the loss changes no weight


def make_crops(roots: dict[str, Path]) -> Callable[..., Crops]:
    """Make the function that gives the images of gold sentences as regions."""
    return partial(Crops, root=roots[wrong_lung.SOURCE], config="gold")


def shuffle_sentences(examples: Sequence[Example]) -> list[Example]:
    """Give each image and its boxes the sentence of another example."""
    order = np.random.default_rng(0).permutation(len(examples)).tolist()
    sentences = dict(zip(order, [*order[1:], order[0]], strict=True))
    return [example._replace(sentence=examples[sentences[n]].sentence) for n, example in enumerate(examples)]


def main() -> None:
    """Train with each seed and print the rises of AUROC."""
    arguments = _build_parser().parse_args()
    torch.set_num_threads(1)
    rises: dict[str, list[np.ndarray]] = {"after less before": [], "own sentence less another": []}
    with tempfile.TemporaryDirectory() as folder:
        data = build_phantom(Path(folder), arguments.phantom, arguments.studies, make_crops)
        tokenizer = load_tokenizer(save_tokenizer(Path(folder) / "bert", data), 10**6)
        parts = data.parts
        parts["validation"] = parts["validation"][:N_VALIDATION]
        test = parts["test"]
        patients = [example.patient for example in test]
        subsets = {
            "all": np.full(len(test), True),
            "abnormal": np.array(["abnormal" in example.subsets for example in test]),
            "one lung": np.array(["one_lung" in example.subsets for example in test]),
        }
        counts = ", ".join(f"{mask.sum()} {name}" for name, mask in subsets.items())
        print(f"held-out sentences: {counts} ({len(set(patients))} patients)", flush=True)
        for seed in arguments.seeds:
            begun = time.process_time()
            options = UniterOptions(
                seed, arguments.epochs, 64, lr=5e-4, dropout=0, patience=arguments.epochs, abnormal=True
            )
            torch.manual_seed(seed)
            model = UniterModel(Sizes(len(tokenizer), layers=2, heads=2, hidden=64), options.dropout)
            before = auroc(model, tokenizer, data, test)
            train(model, tokenizer, data, parts, options)
            after = auroc(model, tokenizer, data, test)
            shuffled = auroc(model, tokenizer, data, shuffle_sentences(test))
            rises["after less before"].append(after - before)
            rises["own sentence less another"].append(after - shuffled)
            means = ", ".join(
                f"{name} {np.nanmean(before[mask]):.4f} to {np.nanmean(after[mask]):.4f}"
                f" ({np.nanmean(shuffled[mask]):.4f} with another sentence)"
                for name, mask in subsets.items()
            )
            print(f"seed {seed}: {means}; {time.process_time() - begun:.0f} CPU s", flush=True)
    for (kind, differences), (name, mask) in itertools.product(rises.items(), subsets.items()):
        members = [patient for patient, inside in zip(patients, mask, strict=True) if inside]
        print(f"{kind}, {name}: {format_interval(np.stack(differences)[:, mask], members)}")


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("--phantom", type=int, default=2, help="its seed")
    parser.add_argument("--studies", type=int, default=1500)
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3])
    return parser


if __name__ == "__main__":
    main()
