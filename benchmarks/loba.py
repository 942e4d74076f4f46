"""LobA on synthetic radiographs: Dice of its masks on held-out images, beside masks that look at no image.

    python -m benchmarks.loba [--minutes 5] [--device cpu] [--seed 0] [--image-size 64] [--lr 2e-3] [--batch 8]

Trains a small random LLaVA (LoRA, <SEG>) with a small random SAM, all of which is trained, on the questions about 240
synthetic images of VinDr-CXR's train split. Asks those about 40 images of its test split: each answer is generated, and
the mask is that of the <SEG> that the model says. Without <SEG> there is no mask, and Dice is 0.

Beside it stand masks that are the same on each image, scaled to its size: the mean mask of training at the threshold
that gives the best Dice in training, one for all anatomies (the centre prior), and one for each anatomy (an upper bar,
since all synthetic chests are alike). A third row gives each image LobA's mask of another image, for the same anatomy:
what it loses is what the masks owe to the image. Intervals are 95 % bootstraps of whole images.
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
from tests.tasks import tiny_models
from tests.training import tiny_sam

N_TRAIN, N_TEST = 240, 40  # images
SIDE, THRESHOLDS = 64, np.linspace(0.05, 0.95, 19)


Mask = np.ndarray | None


class Scene(NamedTuple):
    """Folders of the two models, and the questions."""

    vlm: Path
    sam: Path
    training: Examples
    held_out: Examples


def scene(folder: Path, seed: int, image_size: int) -> Scene:
    counts = {"n_train": N_TRAIN, "n_test": N_TEST}
    writers = {"vindr_cxr": vindr_cxr, "vindr_cxr_anatomy": vindr_cxr_anatomy}
    roots = {name: writer.write(folder / name, seed=seed, **counts) for name, writer in writers.items()}
    heal_medvqa.build(roots, folder / "data", configs=["vindr"])
    parts = [Examples(str(folder / "data"), "vindr", split, roots) for split in ("train", "test")]
    return Scene(
        language_model(folder / "vlm"), tiny_sam.save(folder / "sam", image_size, width=64), parts[0], parts[1]
    )


def language_model(folder: Path) -> Path:
    """The tests' tiny LLaVA with a larger output layer: frozen at its own scale, it would let no word become likely."""
    llava = transformers.AutoModelForImageTextToText.from_pretrained(tiny_models.save_llava(folder))
    with torch.no_grad():
        llava.lm_head.weight *= 20
    llava.save_pretrained(folder)
    return folder


def priors(examples: Sequence[Example]) -> dict[str, np.ndarray]:
    """Anatomy -> the best fixed mask of training, bool (SIDE, SIDE); "" for that of all anatomies."""
    groups: dict[str, list[np.ndarray]] = {"": []}
    for one in examples:
        small = scaled(one.mask, (SIDE, SIDE))
        groups[""].append(small)
        groups.setdefault(one.anatomy, []).append(small)
    return {anatomy: best(np.stack(masks)) for anatomy, masks in groups.items()}


def best(masks: np.ndarray) -> np.ndarray:
    """The mean of masks (n, h, w) above the threshold with the best mean Dice on them."""
    mean = masks.mean(0)
    candidates = [mean >= threshold for threshold in THRESHOLDS]
    dice = [(2 * (masks & one).sum((1, 2)) / (masks.sum((1, 2)) + one.sum())).mean() for one in candidates]
    return candidates[int(np.argmax(dice))]


def scaled(mask: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    return rle.decode(rle.resize_mask(mask, size))


def dice(masks: Sequence[Mask], examples: Sequence[Example]) -> np.ndarray:
    given = [None if mask is None else rle.encode(mask) for mask in masks]
    found = score_predictions(given, [rle.encode(one.mask) for one in examples], per_sample=True)
    return np.array([one["dice"] for one in found["per_sample"]])


def of_other_images(masks: Sequence[Mask], examples: Sequence[Example]) -> dict[int, Mask]:
    """Number of a question -> the mask of the next image that is asked about the same anatomy, scaled.

    A question about whose anatomy no other image is asked is left out.
    """
    found = {}
    for number, one in enumerate(examples):
        order = [*range(number + 1, len(examples)), *range(number)]
        others = [n for n in order if examples[n].anatomy == one.anatomy and examples[n].image_id != one.image_id]
        if others:
            mask = masks[others[0]]
            found[number] = None if mask is None else scaled(mask, one.mask.shape)
    return found


def fitted(places: Scene, out: Path, options: train.Options, device: str) -> model.Loba:
    """A model after so many steps."""
    loba = model.start(str(places.vlm), str(places.sam), frozen_encoder=False, rank=16, alpha=32, seed=options.seed)
    record = train.train(loba.to(device), places.training, out, options)
    for log in record["losses"]:
        print("  ".join(f"{name} {value:.4g}" for name, value in log.items()), flush=True)
    return loba


def table(loba: model.Loba, places: Scene, seed: int) -> None:
    examples = [places.held_out[n] for n in range(len(places.held_out))]
    said = [localize(loba, one.image, one.prompt, max_new_tokens=80) for one in examples]
    masks = [one.mask for one in said]
    fixed = priors([places.training[n] for n in range(len(places.training))])
    ways = {
        "LobA": dict(enumerate(masks)),
        "LobA, mask of another image": of_other_images(masks, examples),
        "centre prior": {n: scaled(fixed[""], one.mask.shape) for n, one in enumerate(examples)},
        "prior of the anatomy": {
            n: scaled(fixed.get(one.anatomy, fixed[""]), one.mask.shape) for n, one in enumerate(examples)
        },
    }
    right = [
        text.text.startswith(one.target.partition(" The answer")[0]) for text, one in zip(said, examples, strict=True)
    ]
    print(f"{len(examples)} questions about {len({one.image_id for one in examples})} held-out images")
    print(f"{sum(mask is not None for mask in masks)} answers with <SEG>, {sum(right)} that name the right anatomy")
    print(f"e.g. {examples[0].prompt} -> {said[0].text}")
    for name, given in ways.items():
        asked = [examples[number] for number in given]
        found = bootstrap_mean(dice([*given.values()], asked), groups=[one.image_id for one in asked], seed=seed)
        print(f"{name:30}Dice {found.mean:.3f} [{found.low:.3f}, {found.high:.3f}], {found.n} questions")


def main() -> None:
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
        places = scene(folder, args.seed, args.image_size)
        how = {"lr": args.lr, "batch": args.batch, "seed": args.seed, "warmup": 20}
        begun = time.monotonic()
        fitted(places, folder / "timed", train.Options(**how, steps=30, save_every=1000, log_every=1000), args.device)
        steps = max(int(args.minutes * 60 / (time.monotonic() - begun) * 30), 1)
        options = train.Options(**how, steps=steps, save_every=steps, log_every=max(steps // 10, 1))
        begun, before = time.monotonic(), time.process_time()
        loba = fitted(places, folder / "out", options, args.device)
        wall, cpu = time.monotonic() - begun, time.process_time() - before
        print(f"{steps} steps of {args.batch}: {wall:.0f} s, {cpu:.0f} CPU s")
        table(loba, places, args.seed)


if __name__ == "__main__":
    main()
