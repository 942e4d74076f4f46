"""A synthetic SLAKE in the layout of its release: one folder for each image, with the boxes of organs and findings.

Each split is a JSON list with questions in English and Chinese.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image

from .chest import Chest, box
from .own_cases import NONE, Patient, plan

CODE = 2
FILES = {"train.json": 4, "validate.json": 8, "test.json": 1}  # file of a split -> divisor of `n`
N = 64
ORGANS = {"Heart": "heart", "Left Lung": "left lung", "Right Lung": "right lung"}  # SLAKE's name -> the drawing's


def write(root: Path, *, seed: int, n: int = N) -> Path:
    """Write a JSON file of questions for each split, and a folder for each image with the boxes of what it shows.

    Args:
        root: The folder to write to.
        seed: The seed.
        n: The number of patients of the test split.

    Returns:
        `root`.
    """
    counts = {name: n // divisor for name, divisor in FILES.items()}
    patients = iter(plan(seed, CODE, sum(counts.values())))
    image_number, question_number = 0, 0
    for name, n_patients in counts.items():
        entries: list[dict[str, Any]] = []
        for _ in range(n_patients):
            patient, folder = next(patients), f"xmlab{image_number}"
            picture = patient.draw()
            _write_image(root / "imgs" / folder, picture)
            for question in _ask(patient):
                about = {"img_id": image_number, "img_name": f"{folder}/source.jpg", "qid": question_number}
                entries.append(about | _DETAILS | question)
                question_number += 1
            image_number += 1
        (root / name).write_text(json.dumps(entries, ensure_ascii=False), encoding="utf-8")
    return root


def _write_image(folder: Path, picture: Chest) -> None:
    folder.mkdir(parents=True)
    Image.fromarray(picture.pixels).save(folder / "source.jpg", quality=95)
    labelled = {name: picture.regions[region] for name, region in ORGANS.items()}
    labelled |= {
        name.removeprefix("left ").removeprefix("right ").capitalize(): m for name, m in picture.findings.items()
    }
    boxes = [{label: [float(number) for number in box(mask)]} for label, mask in labelled.items() if mask.any()]
    (folder / "detection.json").write_text(json.dumps(boxes), encoding="utf-8")


_DETAILS = {"location": "Chest", "modality": "X-Ray", "base_type": "vqa", "triple": ["vhead", "_", "_"]}


def _ask(patient: Patient) -> Iterator[dict[str, Any]]:
    closed = {"answer_type": "CLOSED", "content_type": "Abnormality"}
    yield closed | {"question": f"Is there {patient.absent}?", "answer": "No", "q_lang": "en"}
    if patient.finding:
        yield closed | {"question": f"Is there {patient.finding}?", "answer": "Yes", "q_lang": "en"}
        yield closed | {"question": "图像中有异常吗?", "answer": "有", "q_lang": "zh"}
    answer = {"answer": patient.finding or NONE, "answer_type": "OPEN", "content_type": "Abnormality"}
    yield answer | {"question": "What is abnormal in this image?", "q_lang": "en"}
