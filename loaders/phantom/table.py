"""A synthetic table of one's own questions (rows.csv): yes/no, multiple choice and open, with masks of the findings.

Its columns have the names of the fields, so that it needs no mapping.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .. import rle
from .own_cases import FINDINGS, N_PATIENTS, NONE, Patient, plan

CODE = 0
COLUMNS: tuple[str, ...] = ("id", "image", "patient", "question", "options", "answer", "topic", "mask")


def write(root: Path, *, seed: int, n: int = N_PATIENTS) -> Path:
    """Write rows.csv, the table of questions. `images.write` writes the images that it names.

    Args:
        root: The folder to write to.
        seed: The seed.
        n: The number of patients.

    Returns:
        `root`.
    """
    root.mkdir(parents=True, exist_ok=True)
    with (root / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for patient in plan(seed, CODE, n):
            for number, row in enumerate(_ask(patient)):
                about = {"id": f"{patient.name}-{number}", "image": f"{patient.name}.png", "patient": patient.name}
                writer.writerow(about | row)
    return root


def _ask(patient: Patient) -> Iterator[dict[str, Any]]:
    """Ask one question of each kind about a patient, and yes/no about a finding that is there and one that is not."""
    mask = patient.find_mask()
    region = json.dumps(rle.encode(mask)) if mask is not None else ""
    yield {"question": f"Is there {patient.absent}?", "answer": "no", "topic": patient.absent}
    if patient.finding:
        yield {"question": f"Is there {patient.finding}?", "answer": "yes", "topic": patient.finding, "mask": region}
        letter = "ABCD"[FINDINGS.index(patient.finding)]
        question = {"question": "Which finding does the image show?", "options": "|".join(FINDINGS), "answer": letter}
        yield question | {"topic": "finding", "mask": region}
    answer = patient.finding or NONE
    yield {"question": "What is abnormal in this image?", "answer": answer, "topic": "abnormality", "mask": region}
