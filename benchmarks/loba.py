"""Dice of LobA's masks on held-out synthetic radiographs, compared with masks that do not depend on the image.

    python -m benchmarks.loba [--minutes 5] [--device cpu] [--seed 0] [--image-size 64] [--lr 2e-3] [--batch 8]

Trains a small random LLaVA (LoRA, <SEG>) and a small random SAM (all weights) on the questions about 240 synthetic
images of VinDr-CXR's train split. The model then answers the questions about 40 images of the test split. Each answer
is generated, and its <SEG> gives the mask. An answer without <SEG> has no mask, and its Dice is 0.

The table also has two masks that are the same for all images, scaled to the image: the mean mask of the training images
at the threshold with the best Dice in training. One is for all anatomies together (the centre prior), the other for
each anatomy (an upper bound, because all synthetic chests are alike). A third row gives each image LobA's mask of
another image for the same anatomy. The loss of Dice in this row is the part that depends on the image. Intervals are
95 % bootstraps of images.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import transformers

from medfaith.builders import heal_medvqa
from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.evaluate_metrics.mask_overlap.score import score_predictions
from medfaith.loaders import rle
from medfaith.loaders.phantom import vindr_cxr, vindr_cxr_anatomy
from medfaith.tasks.decoding.loba import model
from medfaith.tasks.decoding.loba.predict import localize
from medfaith.training.loba import train
from medfaith.training.loba.rows import Example, Examples
from tests.support.tasks import tiny_models
from tests.support.training import tiny_sam

N_TRAIN, N_TEST = 240, 40  # images
SIDE, THRESHOLDS = 64, np.linspace(0.05, 0.95, 19)


Mask = np.ndarray | None


class Scene(NamedTuple):
    """Folders of the two models, and the questions."""

    vlm: Path
    sam: Path
    training: Examples
    held_out: Examples


def build_scene(folder: Path, seed: int, image_size: int) -> Scene:
    """Build the questions and save both models."""
    counts = {"n_train": N_TRAIN, "n_test": N_TEST}
    writers = {"vindr_cxr": vindr_cxr, "vindr_cxr_anatomy": vindr_cxr_anatomy}
    roots = {name: writer.write(folder / name, seed=seed, **counts) for name, writer in writers.items()}
    heal_medvqa.build(roots, folder / "data", configs=["vindr"])
    splits = [Examples(str(folder / "data"), "vindr", split, roots) for split in ("train", "test")]
    return Scene(
        save_language_model(folder / "vlm"), tiny_sam.save(folder / "sam", image_size, width=64), splits[0], splits[1]
    )


def save_language_model(folder: Path) -> Path:
    """Save the tests' tiny LLaVA with a larger output layer.

    Frozen at its own scale, the output layer would let no word become likely.
    """
    llava = transformers.AutoModelForImageTextToText.from_pretrained(tiny_models.save_llava(folder))
    with torch.no_grad():
        llava.lm_head.weight *= 20
    llava.save_pretrained(folder)
    return folder


def compute_priors(examples: Sequence[Example]) -> dict[str, np.ndarray]:
    """Compute the best fixed mask of training for each anatomy, bool (SIDE, SIDE); "" for all anatomies together."""
    groups: dict[str, list[np.ndarray]] = {"": []}
    for example in examples:
        small = resize_mask(example.mask, (SIDE, SIDE))
        groups[""].append(small)
        groups.setdefault(example.anatomy, []).append(small)
    return {anatomy: select_best(np.stack(masks)) for anatomy, masks in groups.items()}


def select_best(masks: np.ndarray) -> np.ndarray:
    """Threshold the mean of masks (n, h, w) at the threshold with the best mean Dice."""
    mean = masks.mean(0)
    candidates = [mean >= threshold for threshold in THRESHOLDS]
    mean_dice = [
        (2 * (masks & candidate).sum((1, 2)) / (masks.sum((1, 2)) + candidate.sum())).mean() for candidate in candidates
    ]
    return candidates[int(np.argmax(mean_dice))]


def resize_mask(mask: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Resize a mask to an image's size."""
    return rle.decode(rle.resize_mask(mask, size))


def compute_dice(masks: Sequence[Mask], examples: Sequence[Example]) -> np.ndarray:
    """Compute the Dice of each mask."""
    predictions = [None if mask is None else rle.encode(mask) for mask in masks]
    scores = score_predictions(predictions, [rle.encode(sample.mask) for sample in examples], per_sample=True)
    return np.array([sample["dice"] for sample in scores["per_sample"]])


def select_other_images(masks: Sequence[Mask], examples: Sequence[Example]) -> dict[int, Mask]:
    """Select, for each question, the resized mask of the next image with a question about the same anatomy.

    Questions without such an image are left out.
    """
    mask_by_number = {}
    for number, example in enumerate(examples):
        order = [*range(number + 1, len(examples)), *range(number)]
        numbers = [
            n for n in order if examples[n].anatomy == example.anatomy and examples[n].image_id != example.image_id
        ]
        if numbers:
            mask = masks[numbers[0]]
            mask_by_number[number] = None if mask is None else resize_mask(mask, example.mask.shape)
    return mask_by_number


def train_model(places: Scene, out: Path, options: train.Options, device: str) -> model.Loba:
    """Train a model with these options and print its losses."""
    loba = model.start(str(places.vlm), str(places.sam), frozen_encoder=False, rank=16, alpha=32, seed=options.seed)
    record = train.train(loba.to(device), places.training, out, options)
    for log in record["losses"]:
        print("  ".join(f"{name} {value:.4g}" for name, value in log.items()), flush=True)
    return loba


def print_table(loba: model.Loba, places: Scene, seed: int) -> None:
    """Print the Dice of LobA and of the priors on the held-out images."""
    examples = [places.held_out[n] for n in range(len(places.held_out))]
    predictions = [localize(loba, example.image, example.prompt, max_new_tokens=80) for example in examples]
    masks = [example.mask for example in predictions]
    fixed = compute_priors([places.training[n] for n in range(len(places.training))])
    ways = {
        "LobA": dict(enumerate(masks)),
        "LobA, mask of another image": select_other_images(masks, examples),
        "centre prior": {n: resize_mask(fixed[""], example.mask.shape) for n, example in enumerate(examples)},
        "prior of the anatomy": {
            n: resize_mask(fixed.get(example.anatomy, fixed[""]), example.mask.shape)
            for n, example in enumerate(examples)
        },
    }
    right = [
        text.text.startswith(example.target.partition(" The answer")[0])
        for text, example in zip(predictions, examples, strict=True)
    ]
    print(f"{len(examples)} questions about {len({example.image_id for example in examples})} held-out images")
    print(f"{sum(mask is not None for mask in masks)} answers with <SEG>, {sum(right)} that name the right anatomy")
    print(f"e.g. {examples[0].prompt} -> {predictions[0].text}")
    for name, mask_by_number in ways.items():
        questions = [examples[number] for number in mask_by_number]
        interval = bootstrap_mean(
            compute_dice([*mask_by_number.values()], questions),
            groups=[example.image_id for example in questions],
            seed=seed,
        )
        print(f"{name:30}Dice {interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}], {interval.n} questions")


def main() -> None:
    """Train for the given time and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5, help="how long to train, roughly; default 5")
    parser.add_argument("--device", default="cpu", help="of torch; default cpu")
    parser.add_argument("--seed", type=int, default=0, help="of images, weights and training; default 0")
    parser.add_argument("--image-size", type=int, default=64, help="pixels of SAM's side, 8 times a number; default 64")
    parser.add_argument("--lr", type=float, default=2e-3, help="learning rate; default 0.002")
    parser.add_argument("--batch", type=int, default=8, help="questions of a step; default 8")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, torch.random.fork_rng():
        folder = Path(name)
        places = build_scene(folder, args.seed, args.image_size)
        settings = {"lr": args.lr, "batch": args.batch, "seed": args.seed, "warmup": 20}
        begun = time.monotonic()
        train_model(
            places, folder / "timed", train.Options(**settings, steps=30, save_every=1000, log_every=1000), args.device
        )
        steps = max(int(args.minutes * 60 / (time.monotonic() - begun) * 30), 1)
        options = train.Options(**settings, steps=steps, save_every=steps, log_every=max(steps // 10, 1))
        begun, before = time.monotonic(), time.process_time()
        loba = train_model(places, folder / "out", options, args.device)
        wall, cpu = time.monotonic() - begun, time.process_time() - before
        print(f"{steps} steps of {args.batch}: {wall:.0f} s, {cpu:.0f} CPU s")
        print_table(loba, places, args.seed)


if __name__ == "__main__":
    main()
