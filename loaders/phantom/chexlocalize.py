"""A synthetic CheXlocalize: masks of ten findings, and CheXpert's validation and test images, in the official layout.

The validation set is that of the phantom of CheXpert with the same seed.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
from PIL import Image

from .. import rle
from .chest import Chest, chest
from .chexpert import FIRST_PATIENT, HEADER, compute_seed, draw_studies, format_key

# Copies, not imports: a phantom that shares the reader's mistakes would hide them.
FINDINGS = {
    "Enlarged Cardiomediastinum": "Enlarged Cardiomediastinum", "Cardiomegaly": "Cardiomegaly",
    "Lung Lesion": "Lung Lesion", "Airspace Opacity": "Lung Opacity", "Edema": "Edema",
    "Consolidation": "Consolidation", "Atelectasis": "Atelectasis", "Pneumothorax": "Pneumothorax",
    "Pleural Effusion": "Pleural Effusion", "Support Devices": "Support Devices",
}  # fmt: skip
FOLDERS = {"valid": "val", "test": "test"}  # name in paths of the csv -> name of the folder


def write(root: Path, *, seed: int, n_valid: int = 45, n_test: int = 80) -> Path:
    """Write CheXpert's validation and test images with their label tables, and CheXlocalize's JSON files of masks.

    The csv file of the test set has no columns of the patient and the view.

    Args:
        root: The folder to write to.
        seed: The seed.
        n_valid: The number of validation studies.
        n_test: The number of test studies.

    Returns:
        `root`.
    """
    images, masks = root / "CheXpert", root / "CheXlocalize"
    for folder in (images, masks):
        folder.mkdir(parents=True, exist_ok=True)
    for (split, folder), count in zip(FOLDERS.items(), (n_valid, n_test), strict=True):
        studies = list(draw_studies(split, count, np.random.default_rng([seed, FIRST_PATIENT[split]])))
        with (images / f"{folder}_labels.csv").open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            first_columns = HEADER[:5] if split == "valid" else HEADER[:1]
            rows.writerow([*first_columns, *HEADER[5:]])
            for study in studies:
                for number, view in enumerate(study.views, start=1):
                    projection = study.projection if view == "frontal" else ""
                    path = f"CheXpert-v1.0/{format_key(study, split, number)}"
                    details = [path, study.sex, str(study.age), view.capitalize(), projection][: len(first_columns)]
                    rows.writerow([*details, *(study.labels[label] for label in HEADER[5:])])
        content = {}
        for study in studies:
            for number, view in enumerate(study.views, start=1):
                picture = chest(study.findings, seed=compute_seed(study, number, seed), view=view)
                key = format_key(study, folder, number)
                (images / key).parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(picture.pixels).save(images / key, quality=85)
                image_id = "_".join(Path(key).with_suffix("").parts[1:])
                content[image_id] = {name: _encode(picture, label.lower()) for name, label in FINDINGS.items()}
        (masks / f"gt_segmentations_{folder}.json").write_text(json.dumps(content), encoding="utf-8")
    return root


def _encode(picture: Chest, finding: str) -> rle.Rle:
    """Encode the mask of a finding, on both sides together; the mask is empty if the chest lacks the finding."""
    mask = np.zeros(picture.pixels.shape, dtype=bool)
    for name, region in picture.findings.items():
        if name.removeprefix("left ").removeprefix("right ") == finding:
            mask |= region
    return rle.encode(mask)
