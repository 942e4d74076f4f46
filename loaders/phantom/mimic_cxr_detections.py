"""A synthetic detector's boxes for the frontal images of the synthetic MIMIC-CXR of the same seed, as YOLO text files.

Every drawn finding has a box, a few of them with a confidence below 0.25. Every third study has a box of something that
its report denies, and every fourth one more with a low confidence. An image without any box has no file, as with real
tools; one file belongs to no image of the source.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .cases import ANATOMIES, CLASSES, Box, Radiograph, boxes, clipped, false_box, jittered
from .chest import Outlines, outline
from .mimic_cxr import frontal_images
from .mimic_cxr_reports import N_STUDIES, Study

UNKNOWN = "-".join(["ffffffff"] * 5)


def write(root: Path, *, seed: int, n: int = N_STUDIES) -> Path:
    """Write classes.txt, and a text file of boxes for each frontal image that has any.

    Args:
        root: The folder to write to.
        seed: The seed of the images.
        n: The number of studies.

    Returns:
        `root`.
    """
    root.mkdir(parents=True, exist_ok=True)
    (root / "classes.txt").write_text("\n".join(CLASSES) + "\n", encoding="utf-8")
    for study, image in frontal_images(seed, n):
        rng = np.random.default_rng([seed, image.seed])
        lines = [_line(label, xywh, image.size, score) for label, xywh, score in _detected(study, image, rng)]
        if lines:
            (root / f"{image.name}.txt").write_text("".join(lines), encoding="utf-8")
    (root / f"{UNKNOWN}.txt").write_text(_line(CLASSES[0], (90, 60, 30, 100), (224, 192), 0.8), encoding="utf-8")
    return root


def _detected(study: Study, image: Radiograph, rng: np.random.Generator) -> list[tuple[str, Box, float]]:
    """Return (class, box, confidence) of everything that the detector reports on one image."""
    picture = outline(image.drawn, seed=image.seed, size=image.size)
    detected = []
    for label, xywh in boxes(image.findings, picture):
        score = rng.uniform(0.05, 0.20) if rng.random() < 0.1 else rng.uniform(0.40, 0.95)
        detected.append((label, clipped(jittered(xywh, 0.05, rng), image.size), score))
    if study.number % 3 == 0:
        detected.append((study.denied[0], _elsewhere(picture, rng), rng.uniform(0.30, 0.70)))
    if study.number % 4 == 1:
        detected.append((study.denied[1], _elsewhere(picture, rng), rng.uniform(0.05, 0.20)))
    return detected


def _elsewhere(picture: Outlines, rng: np.random.Generator) -> Box:
    zones = [anatomy for anatomy in ANATOMIES if anatomy.endswith("lung")]
    return false_box(picture.regions[str(rng.choice(zones))], rng)


def _line(label: str, xywh: Box, size: tuple[int, int], score: float) -> str:
    """Format a line of YOLO: class number, the box's centre and extent as fractions of the image, confidence."""
    (x, y, width, height), (rows, columns) = xywh, size
    values = ((x + width / 2) / columns, (y + height / 2) / rows, width / columns, height / rows, score)
    return f"{CLASSES.index(label)} {' '.join(f'{value:.6g}' for value in values)}\n"
