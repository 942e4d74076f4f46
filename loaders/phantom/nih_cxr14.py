"""A synthetic NIH ChestX-ray14 in the layout of its download site: images/, two csv files, two lists of images.

Boxes are the extents of drawn findings. Planted in the test list: images with a label and no box, one image with a
finding whose label has no box, follow-up images of one patient. The training list has no box.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from .cases import NIH_FINDINGS, Radiograph, any_size, boxes, deal, sub_seed
from .chest import chest

HEADER = (
    "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position,"
    "OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y]"
)
BOX_HEADER = "Image Index,Finding Label,Bbox [x,y,w,h],,,"
LABEL_FILE, BOX_FILE = "Data_Entry_2017_v2020.csv", "BBox_List_2017.csv"
LISTS = {"train": "train_val_list.txt", "test": "test_list.txt"}
NO_FINDING = "No Finding"
UNBOXED_EVERY = 10  # the last of ten images has labels and no boxes
WITH_UNBOXED_LABEL = 2  # the place in the test list of an image with boxes that has one more label
UNBOXED_LABEL = "Hernia"
FOLLOW_UP_EVERY = 6  # the last of six images is of the patient before


class Study(NamedTuple):
    """One image.

    Attributes:
        image: The image; its findings have boxes unless `is_boxed` is false.
        labels: Its labels.
        view: AP or PA.
        is_boxed: Whether its findings have boxes.
    """

    image: Radiograph
    labels: tuple[str, ...]
    view: str
    is_boxed: bool


def plan(seed: int, n_train: int, n_test: int) -> dict[str, list[Study]]:
    """Plan the images of each list. In the test list three of five have one to three findings.

    Args:
        seed: The seed.
        n_train: The number of training images.
        n_test: The number of test images.

    Returns:
        The images by list (train, test).
    """
    studies: dict[str, list[Study]] = {}
    patient = 0
    for code, (split, n) in enumerate({"train": n_train, "test": n_test}.items()):
        rng = np.random.default_rng([seed, 14, code])
        counts = [int(rng.integers(1, 4)) if number % 5 < 3 else 0 for number in range(n)]
        counts = [1 if number % UNBOXED_EVERY == UNBOXED_EVERY - 1 else count for number, count in enumerate(counts)]
        studies[split], follow_up = [], 0
        for number, findings in enumerate(deal(counts, rng, NIH_FINDINGS)):
            follow_up = follow_up + 1 if number % FOLLOW_UP_EVERY == FOLLOW_UP_EVERY - 1 else 0
            patient += not follow_up
            is_boxed = split == "test" and number % UNBOXED_EVERY != UNBOXED_EVERY - 1
            name = f"{patient:08d}_{follow_up:03d}.png"
            image = Radiograph(name, sub_seed(seed, 14, patient), any_size(rng), findings)
            more = {UNBOXED_LABEL} if split == "test" and number == WITH_UNBOXED_LABEL else set()
            labels = tuple(sorted({finding.label for finding in findings} | more))
            studies[split].append(Study(image, labels, str(rng.choice(["AP", "PA"])), is_boxed))
    return studies


def write(root: Path, *, seed: int, n_train: int = 10, n_test: int = 110) -> Path:
    """Write the images, the table of labels, the table of boxes, and the lists of training and test images.

    Args:
        root: The folder to write to.
        seed: The seed.
        n_train: The number of training images.
        n_test: The number of test images.

    Returns:
        `root`.
    """
    (root / "images").mkdir(parents=True, exist_ok=True)
    rows, box_rows = [], []
    for split, studies in plan(seed, n_train, n_test).items():
        rng = np.random.default_rng([seed, *split.encode()])
        for image, labels, view, is_boxed in studies:
            picture = chest(image.drawn, seed=image.seed, size=image.size)
            Image.fromarray(picture.pixels & 0b11111100).save(root / "images" / image.name, optimize=True)
            patient, follow_up = image.name.removesuffix(".png").split("_")
            person = [str(int(follow_up)), str(int(patient)), str(rng.integers(20, 90)), str(rng.choice(["F", "M"]))]
            row = [image.name, "|".join(labels) or NO_FINDING, *person, view, "2500", "2048", "0.168", "0.168"]
            rows.append(row)
            for label, xywh in boxes(image.findings, picture) if is_boxed else ():
                name = "Infiltrate" if label == "Infiltration" else label
                box_rows.append([image.name, name, *(f"{value:.12g}" for value in xywh), "", "", ""])
        names = sorted(study.image.name for study in studies)
        (root / LISTS[split]).write_text("\n".join(names) + "\n", encoding="utf-8")
    _write_table(root / LABEL_FILE, HEADER, sorted(rows))
    _write_table(root / BOX_FILE, BOX_HEADER, sorted(box_rows, key=lambda row: (row[1], row[0])))
    return root


def _write_table(path: Path, header: str, rows: list[list[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(header + "\n")
        csv.writer(file, lineterminator="\n").writerows(rows)
