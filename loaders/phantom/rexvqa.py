"""A synthetic ReXVQA: questions written for this phantom, in the official JSON layout, with small png images.

A finding that a question calls present is drawn in its images. One image has 16 bits, like some of the original's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from .chest import FINDINGS, draw_chest

SIZE = (96, 80)
FILES = {"train": "train_vqa_data.json", "valid": "valid_vqa_data.json", "test": "test_vqa_data.json"}
N_OPTIONS = 4
# A lung opacity covers other findings, and the names of the last two would need an explanation.
POOL = tuple(sorted(set(FINDINGS) - {"lung opacity", "pleural other", "enlarged cardiomediastinum"}))
MIDLINE = ("cardiomegaly", "edema")  # drawn on no side or on both
PRESENCE = (
    "Which of these findings is visible on the radiograph?",
    "Which abnormality is present in this examination?",
    "What finding do the images demonstrate?",
)
NEGATION = (
    "Which of these findings is absent from the radiograph?",
    "Which finding is not seen in this examination?",
    "For which of these is there no evidence on the images?",
    "Which of these abnormalities is least likely present here?",
)
SIDES = {"left": "the patient's left side", "right": "the patient's right side", "": "on both sides alike"}


def write(root: Path, *, seed: int, n_test: int = 60, n_other: int = 4) -> Path:
    """Write a JSON file of questions for each split, and the images of their studies.

    Two questions share a study; every third study has two images, frontal and lateral.

    Args:
        root: The folder to write to.
        seed: The seed.
        n_test: The number of test questions.
        n_other: The number of questions of train and of valid.

    Returns:
        `root`.
    """
    (root / "metadata").mkdir(parents=True, exist_ok=True)
    for code, (split, name) in enumerate(FILES.items()):
        count = n_test if split == "test" else n_other
        items = {}
        for number in range(count):
            study = _Study(root, split, seed, code, number // 2)
            items[f"{split}_{number:05d}"] = study.item(number)
        (root / "metadata" / name).write_text(json.dumps(items, indent=1) + "\n", encoding="utf-8")
    return root


class _Study:
    """One synthetic study: its findings, the paths of its images, and its questions."""

    def __init__(self, root: Path, split: str, seed: int, code: int, number: int) -> None:
        self.rng = np.random.default_rng([seed, code, number])
        self.number, self.views = number, ("frontal", "lateral") if number % 3 == 2 else ("frontal",)
        self.findings = [str(name) for name in self.rng.choice(POOL, 2, replace=False)]
        self.sides = {n: "" if n in MIDLINE else str(self.rng.choice(["left", "right"])) for n in self.findings}
        self.id = f"PHANTOM{split.upper()}{number:04d}"
        folder = f"deid_png/{self.id}/A{number:04d}/studies/2.25.{code}{number:04d}/series/2.25.1/instances"
        self.paths = [f"{folder}/{i}.png" for i, _ in enumerate(self.views, start=1)]
        self.sixteen_bit = split == "test" and number == 1
        for view, path in zip(self.views, self.paths, strict=True):
            if not (root / path).exists():
                self._write_image(root / path, view, int(self.rng.integers(2**31)))

    def _write_image(self, path: Path, view: str, seed: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        finding_names = [f"{self.sides[name]} {name}".strip() for name in self.findings]
        pixels = draw_chest(finding_names, seed=seed, size=SIZE, view=view)
        Image.fromarray(pixels.astype(np.uint16) * 16 if self.sixteen_bit else pixels).save(path)

    def item(self, number: int) -> dict[str, Any]:
        """Build the question of this number, by kind: presence, negation, location, presence next to "No X"."""
        rng = np.random.default_rng([number, self.number])
        absent = [str(name) for name in rng.permutation([name for name in POOL if name not in self.findings])]
        present = [str(name) for name in rng.permutation(self.findings)]
        kind = number % 5
        if kind == 1:  # absent concept next to its negated form, as in CXR-ContraBench
            question, gold = NEGATION[number // 5 % len(NEGATION)], absent[0]
            wrong, task = [f"No {absent[0]}", *present], "negation_assessment"
        elif kind == 2:
            question, gold = f"On which side does the {present[0]} lie?", SIDES[self.sides[present[0]]]
            wrong, task = [side for side in SIDES.values() if side != gold], "location_and_distribution_assessment"
        elif kind == 3:  # the gold answer itself is negated, without its counterpart among the options
            question, gold = "Which statement describes these images best?", f"No {absent[0]} is seen"
            wrong, task = absent[1:N_OPTIONS], "negation_assessment"
        elif kind == 4:
            question, gold = PRESENCE[number % len(PRESENCE)], present[0]
            wrong, task = [f"No {present[0]}", *absent[:2]], "presence_assessment"
        else:
            question, gold = PRESENCE[number % len(PRESENCE)], present[0]
            wrong, task = absent[: N_OPTIONS - 1], "presence_assessment"
        texts = [gold, *wrong[: N_OPTIONS - 1]]
        order = rng.permutation(len(texts)).tolist()
        return self._fields(number, question, [texts[i] for i in order], order.index(0), task)

    def _fields(self, number: int, question: str, options: Sequence[str], answer: int, task: str) -> dict[str, Any]:
        """Build all fields of an official item; every seventh has its lists written as strings."""
        lettered = [f"{chr(ord('A') + i)}. {text[:1].upper()}{text[1:]}" for i, text in enumerate(options)]
        lists = {
            "options": lettered,
            "ImagePath": [f"../{path}" for path in self.paths],
            "ImageViewPosition": ["PA" if view == "frontal" else "LATERAL" for view in self.views],
        }
        if number % 7 == 6:
            lists = {name: str(value) for name, value in lists.items()}
        return {
            "study_id": f"{self.id}_A{self.number:04d}",
            "StudyInstanceUid": f"2.25.{self.number}",
            "question": question,
            "options": lists["options"],
            "correct_answer": chr(ord("A") + answer),
            "correct_answer_explanation": "Synthetic: drawn so.",
            "task_name": task,
            "category": "Phantom",
            "subcategory": self.findings[0].capitalize(),
            "class": "phantom",
            "PatientID": self.id,
            "AccessionNumber": f"A{self.number:04d}",
            "PatientSex": "O",
            "PatientAge": "000Y",
            "StudyDate": "20000101",
            "Indication": "None.",
            "Comparison": "None.",
            "Findings": "Synthetic.",
            "Impression": "Synthetic.",
            "ImagePath": lists["ImagePath"],
            "ImageViewPosition": lists["ImageViewPosition"],
            "ImageModality": "CR",
            "Manufacturer": "medfaith phantom",
        }
