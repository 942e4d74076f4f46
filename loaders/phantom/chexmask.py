"""A synthetic CheXmask for the synthetic NIH ChestX-ray14 of the same seed: one csv file of run lengths.

Planted in the test list: one image has no row, one has masks of poor quality, one has an empty mask of the heart.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from .chest import box, regions
from .nih_cxr14 import plan

FILE = "OriginalResolution/ChestX-Ray8.csv"
HEADER = (
    *("Image Index", "Dice RCA (Mean)", "Dice RCA (Max)", "Landmarks"),
    *("Left Lung", "Right Lung", "Heart", "Height", "Width"),
)
WITHOUT_MASKS, POOR, EMPTY_HEART = 1, 6, 8  # positions of images in the test list's plan


def write(root: Path, *, seed: int, n_train: int = 10, n_test: int = 110) -> Path:
    """Write the csv file of lung and heart masks for the images of `nih_cxr14.write` with the same seed and numbers.

    Args:
        root: The folder to write to.
        seed: The seed of the images.
        n_train: The number of training images.
        n_test: The number of test images.

    Returns:
        `root`.
    """
    rows = []
    for split, studies in plan(seed, n_train, n_test).items():
        rng = np.random.default_rng([seed, *split.encode(), 3])
        for number, study in enumerate(studies):
            place = number if split == "test" else None
            if place == WITHOUT_MASKS:
                continue
            masks = regions(study.image.drawn, seed=study.image.seed, size=study.image.size)
            heart = np.zeros_like(masks["heart"]) if place == EMPTY_HEART else masks["heart"]
            mean = 0.55 if place == POOR else float(rng.uniform(0.75, 0.95))
            x, y, width, height = box(masks["left lung"])
            landmarks = ",".join(map(str, (x, y, x + width, y, x + width, y + height, x, y + height)))
            texts = map(_encode, (masks["left lung"], masks["right lung"], heart))
            sides = map(str, study.image.size)
            rows.append([study.image.name, f"{mean:.6f}", f"{mean + 0.03:.6f}", landmarks, *texts, *sides])
    path = root / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows(sorted(rows))
    return root


def _encode(mask: np.ndarray) -> str:
    """Encode a mask as pairs of start and length along its rows; the first pixel has the number 1."""
    flat = np.concatenate([[0], mask.ravel().astype(np.int8), [0]])
    starts, stops = np.flatnonzero(np.diff(flat) == 1), np.flatnonzero(np.diff(flat) == -1)
    return " ".join(f"{start + 1} {stop - start}" for start, stop in zip(starts, stops, strict=True))
