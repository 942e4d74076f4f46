"""A synthetic CheXpert-v1.0-small: train.csv, valid.csv and their jpg images, in the official layout."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from .chest import draw_chest

FOLDER = "CheXpert-v1.0-small"
# A copy, not an import: a phantom that shares the reader's mistakes would hide them.
HEADER = (
    "Path", "Sex", "Age", "Frontal/Lateral", "AP/PA", "No Finding", "Enlarged Cardiomediastinum", "Cardiomegaly",
    "Lung Opacity", "Lung Lesion", "Edema", "Consolidation", "Pneumonia", "Atelectasis", "Pneumothorax",
    "Pleural Effusion", "Pleural Other", "Fracture", "Support Devices",
)  # fmt: skip
LABELS = HEADER[6:]  # "No Finding" follows from the others
TARGETS = ("Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Pleural Effusion", "Pneumothorax")
FIRST_PATIENT = {"train": 1, "valid": 64541, "test": 64741}  # the phantom of CheXlocalize has the test set
VIEWS = (("frontal",), ("frontal", "lateral"), ("frontal", "frontal"), ("frontal", "lateral", "frontal"))
VIEW_SHARES = (0.60, 0.30, 0.05, 0.05)
POSITIVE, NEGATIVE, UNCERTAIN, BLANK = "1.0", "0.0", "-1.0", ""


@dataclass(frozen=True)
class Study:
    """A study of a synthetic patient.

    Attributes:
        patient: Number of the patient.
        number: Number of the study.
        sex: The patient's sex.
        age: The patient's age in years.
        views: "frontal" or "lateral" for each image.
        projection: AP or PA, for its frontal views.
        labels: Name of a label -> its value in the csv file.
    """

    patient: int
    number: int
    sex: str
    age: int
    views: tuple[str, ...]
    projection: str
    labels: dict[str, str]

    @property
    def findings(self) -> list[str]:
        """The findings that the images show: labels that are certainly present."""
        return [label.lower() for label in LABELS if self.labels[label] == POSITIVE]


def write(root: Path, *, seed: int, n_train: int = 130, n_valid: int = 45) -> Path:
    """Write the label tables train.csv and valid.csv, and the jpg images of their studies.

    Train labels are 1.0, 0.0, -1.0 or blank, valid labels 1.0 or 0.0, the same for all images of a study. A patient has
    one to three studies in train, not always in order, and one in valid; a study has one to three views.

    Args:
        root: The folder to write to.
        seed: The seed.
        n_train: The number of training studies.
        n_valid: The number of validation studies.

    Returns:
        `root`.
    """
    for split, count in (("train", n_train), ("valid", n_valid)):
        studies = list(draw_studies(split, count, np.random.default_rng([seed, FIRST_PATIENT[split]])))
        folder = root / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{split}.csv").open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(HEADER)
            for study in studies:
                rows.writerows(_rows(study, split))
        for study in studies:
            _write_images(folder, study, split, seed)
    return root


def draw_studies(split: str, count: int, rng: np.random.Generator) -> Iterator[Study]:
    """Draw the studies of a split.

    Args:
        split: train, valid or test.
        count: The number of studies.
        rng: The random numbers.

    Yields:
        The studies.
    """
    written, patient = 0, FIRST_PATIENT[split]
    while written < count:
        numbers = list(range(1, 1 + min(count - written, int(rng.integers(1, 4)) if split == "train" else 1)))
        if rng.random() < 0.3:
            numbers.reverse()
        unknown = split == "train" and patient == 7  # as in the original, one patient of unknown sex and age 0
        sex = "Unknown" if unknown else str(rng.choice(["Female", "Male"]))
        age = 0 if unknown else int(rng.integers(18, 91))
        for number in numbers:
            views = VIEWS[rng.choice(len(VIEWS), p=VIEW_SHARES)]
            projection = "PA" if "lateral" in views or rng.random() < 0.15 else "AP"
            labels = _labels(rng, certain=split != "train")
            yield Study(patient, number, sex, age, views, projection, labels)
        written += len(numbers)
        patient += 1


def _labels(rng: np.random.Generator, *, certain: bool) -> dict[str, str]:
    """Draw the labels of one study; `certain` allows only 0.0 and 1.0, like the radiologists' consensus in valid."""
    labels = {}
    count = rng.choice(4, p=[0.2, 0.2, 0.35, 0.25])
    positive = set(rng.choice(TARGETS, count, replace=False))
    for label in LABELS:
        target = label in TARGETS
        if label in positive or (not target and rng.random() < (0.25 if label == "Support Devices" else 0.07)):
            labels[label] = POSITIVE
        elif certain:
            labels[label] = NEGATIVE
        else:
            shares = [0.45, 0.12, 0.43] if target else [0.10, 0.05, 0.85]
            labels[label] = str(rng.choice([NEGATIVE, UNCERTAIN, BLANK], p=shares))
    ill = any(labels[label] in (POSITIVE, UNCERTAIN) for label in LABELS if label != "Support Devices")
    labels["No Finding"] = (NEGATIVE if certain else BLANK) if ill else POSITIVE
    return labels


def _rows(study: Study, split: str) -> Iterator[list[str]]:
    for number, view in enumerate(study.views, start=1):
        path = f"{FOLDER}/{format_key(study, split, number)}"
        projection = study.projection if view == "frontal" else ""
        who = [path, study.sex, str(study.age), view.capitalize(), projection]
        yield [*who, *(study.labels[label] for label in HEADER[5:])]


def format_key(study: Study, split: str, number: int) -> str:
    """Format the key of an image.

    Args:
        study: The study.
        split: Name of the split's folder.
        number: Number of the view, from 1.

    Returns:
        The path below the folder of the images.
    """
    return f"{split}/patient{study.patient:05d}/study{study.number}/view{number}_{study.views[number - 1]}.jpg"


def _write_images(folder: Path, study: Study, split: str, seed: int) -> None:
    for number, view in enumerate(study.views, start=1):
        path = folder / format_key(study, split, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        chest_seed = compute_seed(study, number, seed)
        Image.fromarray(draw_chest(study.findings, seed=chest_seed, view=view)).save(path, quality=85)


def compute_seed(study: Study, number: int, seed: int) -> int:
    """Compute the seed of the chest in an image.

    Args:
        study: The study.
        number: Number of the view, from 1.
        seed: The seed of the phantom.

    Returns:
        The seed for `chest.chest`.
    """
    return int(np.random.SeedSequence([seed, study.patient, study.number, number]).generate_state(1)[0])
