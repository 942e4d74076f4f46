"""Anatomy masks for the frontal images of the synthetic MIMIC-CXR of the same seed, in the layout of CXAS.

One folder an image, one 1-bit png of 512 x 512 a label, for images of any shape. One image has no folder, and one has
an empty mask.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from .chest import regions
from .mimic_cxr import frontal_images
from .mimic_cxr_reports import N_STUDIES

SIZE = (512, 512)
LABELS = ("right lung", "left lung", "heart", "aorta", "trachea")
WITHOUT_MASKS = 2  # the image's place among the frontal ones
EMPTY = (5, "trachea")


def write(root: Path, *, seed: int, n: int = N_STUDIES) -> Path:
    """Write a folder of masks, one png a label, for each frontal image but one.

    Args:
        root: The folder to write to.
        seed: The seed of the images.
        n: The number of studies.

    Returns:
        `root`.
    """
    for number, (_, image) in enumerate(frontal_images(seed, n)):
        if number == WITHOUT_MASKS:
            continue
        folder = root / image.name
        folder.mkdir(parents=True, exist_ok=True)
        masks = regions(image.drawn, seed=image.seed, size=SIZE)
        for label in LABELS:
            mask = np.zeros(SIZE, bool) if (number, label) == EMPTY else masks[label]
            Image.fromarray(mask).save(folder / f"{label}.png")
    return root
