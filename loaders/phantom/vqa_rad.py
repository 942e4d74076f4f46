"""A synthetic VQA-RAD in the layout of its release on OSF: one JSON file of all questions, and a folder of images."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image

from .own_cases import NONE, Patient, plan

CODE = 1
TABLE = "VQA_RAD Dataset Public.json"
IMAGES = "VQA_RAD Image Folder"
N = 64
TRAINING_EVERY = 4  # every fourth question belongs to the training split


def write(root: Path, *, seed: int, n: int = N) -> Path:
    """Write the JSON file of all questions, and a jpg image for each patient.

    Args:
        root: The folder to write to.
        seed: The seed.
        n: The number of patients.

    Returns:
        `root`.
    """
    (root / IMAGES).mkdir(parents=True, exist_ok=True)
    entries = []
    for number, patient in enumerate(plan(seed, CODE, n)):
        name = f"synpic{number + 10000}.jpg"
        Image.fromarray(patient.draw().pixels).save(root / IMAGES / name, quality=95)
        for question in _ask(patient):
            phrase = "freeform" if len(entries) % TRAINING_EVERY == 0 else "test_freeform"
            entries.append(_build_entry(len(entries), name, phrase, question))
    (root / TABLE).write_text(json.dumps(entries, indent=1), encoding="utf-8")
    return root


def _ask(patient: Patient) -> Iterator[dict[str, Any]]:
    closed = {"answer_type": "CLOSED ", "question_type": "PRES"}
    yield closed | {"question": f"Is there {patient.absent}?", "answer": "No"}
    if patient.finding:
        yield closed | {"question": f"Is there {patient.finding}?", "answer": "Yes"}
    answer = {"answer": patient.finding or NONE, "answer_type": "OPEN", "question_type": "ABN"}
    yield {"question": "What is abnormal in this image?"} | answer


def _build_entry(number: int, image: str, phrase: str, question: dict[str, Any]) -> dict[str, Any]:
    return {
        "qid": str(number),
        "phrase_type": phrase,
        "qid_linked_id": f"synthetic{number:06d}",
        "image_case_url": f"https://example.org/case/{image}",
        "image_name": image,
        "image_organ": "CHEST",
        "evaluation": "not evaluated",
        "question_rephrase": "NULL",
        "question_relation": "NULL",
        "question_frame": "NULL",
        **question,
    }
