"""A synthetic MIMIC-CXR-JPG 2.0.0 with its reports in the same tree: tables, jpg images and report texts."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from PIL import Image

from . import mimic_cxr_reports
from .cases import Radiograph
from .chest import draw_chest
from .mimic_cxr_reports import N_STUDIES, Study, studies

METADATA = (
    "dicom_id", "subject_id", "study_id", "PerformedProcedureStepDescription", "ViewPosition", "Rows", "Columns",
    "StudyDate", "StudyTime", "ProcedureCodeSequence_CodeMeaning", "ViewCodeSequence_CodeMeaning",
    "PatientOrientationCodeSequence_CodeMeaning",
)  # fmt: skip
SPLIT = ("dicom_id", "study_id", "subject_id", "split")
LABELS = (
    "Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Enlarged Cardiomediastinum", "Fracture", "Lung Lesion",
    "Lung Opacity", "No Finding", "Pleural Effusion", "Pleural Other", "Pneumonia", "Pneumothorax", "Support Devices",
)  # fmt: skip
LABEL_OF = {
    "Atelectasis": "Atelectasis",
    "Cardiomegaly": "Cardiomegaly",
    "Consolidation": "Consolidation",
    "Lung Opacity": "Lung Opacity",
    "Nodule/Mass": "Lung Lesion",
    "Pleural effusion": "Pleural Effusion",
    "Pleural thickening": "Pleural Other",
    "Pneumothorax": "Pneumothorax",
    "Rib fracture": "Fracture",
}
# Findings in the lateral view, by class; emphysema and findings of aorta and trachea are invisible.
LATERAL = {
    "Cardiomegaly": "cardiomegaly",
    "Consolidation": "consolidation",
    "Lung Opacity": "lung opacity",
    "Nodule/Mass": "lung lesion",
    "Atelectasis": "atelectasis",
    "Pleural effusion": "pleural effusion",
    "Pleural thickening": "pleural other",
    "Pneumothorax": "pneumothorax",
    "Rib fracture": "fracture",
}
VIEW_NAMES = {"AP": "antero-posterior", "PA": "postero-anterior", "LATERAL": "lateral", "LL": "left lateral"}
FRONTAL = ("AP", "PA")
SPLITS = ("train", "test", "train", "validate", "test", "train", "test", "train")  # in turn, patient by patient


def frontal_images(seed: int, n: int = N_STUDIES) -> list[tuple[Study, Radiograph]]:
    """List the frontal radiographs and their studies.

    Args:
        seed: The seed.
        n: The number of studies.

    Returns:
        (study, radiograph) pairs.
    """
    return [(study, image) for study in studies(seed, n) for view, image in study.images if view in FRONTAL]


def write(root: Path, *, seed: int, n: int = N_STUDIES) -> Path:
    """Write the jpg images, the reports, and the tables of metadata, splits and labels.

    A study without a report has no labels either.

    Args:
        root: The folder to write to.
        seed: The seed.
        n: The number of studies.

    Returns:
        `root`.
    """
    planned = studies(seed, n)
    mimic_cxr_reports.write(root, seed=seed, n=n)
    for study in planned:
        for view, image in study.images:
            path = root / study.folder / f"{image.name}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(_pixels(view, image)).save(path, quality=90)
    subjects = list(dict.fromkeys(study.subject for study in planned))
    splits = {subject: SPLITS[number % len(SPLITS)] for number, subject in enumerate(subjects)}
    images = [(study, view, image) for study in planned for view, image in study.images]
    _table(root, "metadata", METADATA, (_metadata(*entry) for entry in images))
    _table(root, "split", SPLIT, ((i.name, s.id, s.subject, splits[s.subject]) for s, _, i in images))
    for labeler in ("chexpert", "negbio"):
        rows = ((s.subject, s.id, *_labels(s, labeler)) for s in planned if s.has_report)
        _table(root, labeler, ("subject_id", "study_id", *LABELS), rows)
    return root


def _pixels(view: str, image: Radiograph) -> np.ndarray:
    if view in FRONTAL:
        return draw_chest(image.drawn, seed=image.seed, size=image.size)
    visible = {LATERAL[finding.label] for finding in image.findings if finding.label in LATERAL}
    return draw_chest(visible, seed=image.seed, size=image.size, view="lateral")


def _metadata(study: Study, view: str, image: Radiograph) -> tuple[object, ...]:
    procedure = "CHEST (PORTABLE AP)" if view == "AP" else "CHEST (PA AND LAT)"
    when = datetime(2180, 1, 1, 8) + study.number * timedelta(hours=29, seconds=77)
    return (
        *(image.name, study.subject, study.id, procedure, view, *image.size),
        *(f"{when:%Y%m%d}", f"{when:%H%M%S}.5", procedure, VIEW_NAMES[view], "Erect" if view != "AP" else ""),
    )


def _labels(study: Study, labeler: str) -> list[str]:
    """Build the 14 values of one study. The two labelers differ: negbio misses one denial of four."""
    values = dict.fromkeys(LABELS, "")
    for label in study.denied[: 4 if labeler == "chexpert" else 3]:
        values |= {LABEL_OF[label]: "0.0"} if label in LABEL_OF else {}
    for label in study.doubted:
        values |= {LABEL_OF[label]: "-1.0"} if label in LABEL_OF else {}
    for finding in study.findings:
        values |= {LABEL_OF[finding.label]: "1.0"} if finding.label in LABEL_OF else {}
    if not study.findings and not study.doubted:
        values["No Finding"] = "1.0"
    return [values[label] for label in LABELS]


def _table(root: Path, name: str, header: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    packed = gzip.compress(text.getvalue().encode("utf-8"), mtime=0)  # no time stamp: the same bytes every time
    (root / f"mimic-cxr-2.0.0-{name}.csv.gz").write_bytes(packed)
