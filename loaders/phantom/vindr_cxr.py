"""A synthetic VinDr-CXR in PhysioNet's layout: DICOM images, boxes by three readers (train) or by consensus (test).

Boxes are the extents of drawn findings; in train each reader's differ a little. At most one of the three readers
overlooks a finding, and now and then one reader marks a finding that does not exist.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from . import dicom
from .cases import (
    ANATOMIES,
    CLASSES,
    IN_ANY_ZONE,
    Box,
    Radiograph,
    any_size,
    boxes,
    clipped,
    deal,
    false_box,
    jittered,
    sub_seed,
)
from .chest import Chest, chest

ANNOTATIONS = {
    "train": ("image_id", "rad_id", "class_name", "x_min", "y_min", "x_max", "y_max"),
    "test": ("image_id", "class_name", "x_min", "y_min", "x_max", "y_max"),
}
GLOBAL = ("COPD", "Lung tumor", "Pneumonia", "Tuberculosis")
OTHER = {"train": "Other diseases", "test": "Other disease"}  # the two files differ
IMPLIED = {"COPD": "Emphysema", "Pneumonia": "Consolidation"}
NO_FINDING = "No finding"
READERS = 17
BITS = (8, 10, 12)
INVERTED_EVERY = 4  # every fourth image is MONOCHROME1

Labelled = list[tuple[str, Box]]


def plan(seed: int, n_train: int, n_test: int) -> dict[str, list[Radiograph]]:
    """Plan the images of each split. Three of five have one to three findings.

    Args:
        seed: The seed.
        n_train: The number of training images.
        n_test: The number of test images.

    Returns:
        The images by split.
    """
    splits = {}
    for code, (split, count) in enumerate({"train": n_train, "test": n_test}.items()):
        rng = np.random.default_rng([seed, code])
        counts = [int(rng.integers(1, 4)) if number % 5 < 3 else 0 for number in range(count)]
        splits[split] = [
            Radiograph(rng.bytes(16).hex(), sub_seed(seed, code, number), any_size(rng), findings)
            for number, findings in enumerate(deal(counts, rng))
        ]
    return splits


def write(root: Path, *, seed: int, n_train: int = 60, n_test: int = 40) -> Path:
    """Write, for each split, the DICOM images, the table of the readers' boxes and the table of their labels.

    Args:
        root: The folder to write to.
        seed: The seed.
        n_train: The number of training images.
        n_test: The number of test images.

    Returns:
        `root`.
    """
    (root / "annotations").mkdir(parents=True, exist_ok=True)
    for split, radiographs in plan(seed, n_train, n_test).items():
        (root / split).mkdir(exist_ok=True)
        rng = np.random.default_rng([seed, *split.encode()])
        annotations, labels = [], []
        for number, radiograph in enumerate(radiographs):
            picture = chest(radiograph.drawn, seed=radiograph.seed, size=radiograph.size)
            _write_dicom(root / split / f"{radiograph.name}.dicom", picture.pixels, radiograph.name, number)
            drawn_boxes = boxes(radiograph.findings, picture)
            readings = (
                _readings(drawn_boxes, picture, radiograph.size, rng) if split == "train" else [((), drawn_boxes)]
            )
            for reader, reader_boxes in readings:
                annotations.extend(_boxes(radiograph.name, reader, reader_boxes))
                labels.append(_labels(radiograph.name, reader, reader_boxes))
        order = rng.permutation(len(annotations))  # the original's rows are not in the images' order
        _table(root, f"annotations_{split}.csv", ANNOTATIONS[split], [annotations[i] for i in order])
        who = ANNOTATIONS[split][: ANNOTATIONS[split].index("class_name")]
        _table(root, f"image_labels_{split}.csv", (*who, *CLASSES, *GLOBAL, OTHER[split], NO_FINDING), labels)
    return root


def _readings(
    drawn_boxes: Labelled, picture: Chest, size: tuple[int, int], rng: np.random.Generator
) -> Iterator[tuple[tuple[str], Labelled]]:
    """Yield ((reader,), the boxes of this reader) for three readers."""
    overlooked_by = [int(rng.integers(3)) if rng.random() < 0.15 else -1 for _ in drawn_boxes]
    dreamer = int(rng.integers(3)) if rng.random() < 0.15 else -1
    readers = sorted(rng.choice(READERS, 3, replace=False).tolist())
    for position, reader in enumerate(readers):
        reader_boxes = [
            (label, clipped(jittered(xywh, 0.04, rng), size))
            for (label, xywh), by in zip(drawn_boxes, overlooked_by, strict=True)
            if by != position
        ]
        if position == dreamer:
            zones = [anatomy for anatomy in ANATOMIES if anatomy.endswith("lung")]
            region = picture.regions[str(rng.choice(zones))]
            unseen = sorted(set(IN_ANY_ZONE) - {label for label, _ in drawn_boxes})  # so that nothing agrees with it
            reader_boxes.append((str(rng.choice(unseen)), false_box(region, rng)))
        yield (f"R{reader + 1}",), reader_boxes


def _boxes(image_id: str, reader: tuple[str, ...], reader_boxes: Labelled) -> Iterator[list[str]]:
    """Yield the rows of one reading."""
    for label, (x, y, width, height) in reader_boxes:
        yield [image_id, *reader, label, *(f"{value:.2f}" for value in (x, y, x + width, y + height))]
    if not reader_boxes:
        yield [image_id, *reader, NO_FINDING, "", "", "", ""]


def _labels(image_id: str, reader: tuple[str, ...], reader_boxes: Labelled) -> list[str]:
    """Build the row of one reading, with 0 or 1 for each class, local and global."""
    local = {label for label, _ in reader_boxes}
    flags = [*(name in local for name in CLASSES), *(IMPLIED.get(name) in local for name in GLOBAL), False, not local]
    return [image_id, *reader, *(str(int(flag)) for flag in flags)]


def _table(root: Path, name: str, header: tuple[str, ...], rows: list[list[str]]) -> None:
    with (root / "annotations" / name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def _write_dicom(path: Path, pixels: np.ndarray, image_id: str, number: int) -> None:
    """Write 8, 10 or 12 bits, MONOCHROME2 or MONOCHROME1, deflated; with a window for more than 8 bits.

    Displayed as its header asks, the file gives `pixels` (uint8 (h, w)) except for their last two bits, which are noise
    and would double the file's size.
    """
    bits, inverted = BITS[number % len(BITS)], number % INVERTED_EVERY == 1
    window = {"WindowCenter": 2 ** (bits - 1), "WindowWidth": 2**bits} if bits > 8 else {}
    brightness = (pixels & 0b11111100) / 255
    stored = np.rint((1 - brightness if inverted else brightness) * (2**bits - 1))
    dicom.write(path, stored, image_id, modality="DX", bits=bits, inverted=inverted, **window)
