"""Sample logs of HEAL-MedVQA tasks in lm-eval's format, with answers whose scores are counted by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from medfaith.evaluate_metrics.reading.disease_names import CLASSES
from tests.support.reporting.report_logs import write_samples

Answer = tuple[dict[str, Any], str]


def question(number: Any, kind: str, *, config: str = "vindr", image: Any = None, **columns: Any) -> dict[str, Any]:
    """Build a task's document from one row."""
    opened = kind in ("abnormal", "normal")
    image = f"test/{number if image is None else image}.dicom"
    row = {
        "id": f"{config}/test/{number}/{kind}",
        "images": f"vindr_cxr:{image}",
        "image_id": image,
        "original_id": f"{config}/test/{number}/{kind}",
        "kind": kind,
        "question_type": "open" if opened else "closed",
        "question": "What is wrong with the heart?" if opened else "Does the heart show cardiomegaly?",
        "anatomy": "heart",
        "diseases": [] if kind == "normal" else ["Cardiomegaly"],
        "options": ["No abnormality", *CLASSES] if opened else ["Yes", "No"],
        "answer": 0 if kind in ("positive", "original", "normal") else 1,
        "negated": 0 if opened else 1,
        "n_rows_skipped": 0,
        "prompt": "b0",
    }
    return row | columns


def pair(number: int, reply: str, partners: Mapping[str, str], **columns: Any) -> list[Answer]:
    """Build an original question and its perturbed partners, by kind, each with the model's reply."""
    original = question(number, "original", **columns)
    changed = {"original_id": original["id"]}
    return [(original, reply)] + [(question(number, k, **columns, **changed), t) for k, t in partners.items()]


def write_heal(
    folder: Path,
    ask: str,
    answers: Sequence[Answer],
    *,
    task: str = "",
    dice: Sequence[float | None] = (),
    **options: Any,
) -> Path:
    """Write the sample log of one task, with the results file in the same folder.

    `dice` holds the Dice that the task measured for each answer with a region.
    """
    task = task or f"medfaith_heal_{answers[0][0]['id'].split('/')[0]}_{ask}"
    answers = add_regions(answers, dice) if dice else answers
    samples = [{"doc": doc, "resps": [[text]], "filtered_resps": [text], "filter": "none"} for doc, text in answers]
    where = {"closed": "yes_no_f1", "open": "open_f1"}.get(ask, "")
    for sample, answer_dice in zip(samples, dice, strict=False):
        sample[where] = {} if answer_dice is None else {"dice": answer_dice}
    return write_samples(folder, task, samples, **options)


UNREADABLE = "The picture is blurred."
CLOSED = [  # 2 true and 1 false positive, 2 missed, one of them unread
    *((question(i, "positive"), text) for i, text in enumerate(("Yes", "yes, it does", "No", UNREADABLE))),
    *((question(i, "hallucinated"), text) for i, text in enumerate(("Yes", "No", "no.", "No", "No", "No"))),
]
OPEN = [  # 2 true positives, 1 false one, 2 missed
    (question(0, "abnormal", diseases=["Edema"]), "Edema."),
    (question(1, "abnormal", diseases=["Edema", "ILD"]), "It shows ILD and cardiomegaly."),
    (question(2, "normal"), "No abnormality"),
    (question(3, "abnormal", diseases=["Edema"]), UNREADABLE),
]
TPT_PAIRS = [  # 3 true positives of 5; anatomy 2 of 3, disease 1 of 2; unread: an original and a partner
    *pair(0, "Yes", {"anatomy": "No", "disease": "No"}, image="a"),
    *pair(1, "Yes", {"anatomy": "Yes", "disease": UNREADABLE}, image="a"),
    *pair(2, "No", {"anatomy": "No", "disease": "No"}, image="b"),
    *pair(3, UNREADABLE, {"anatomy": "No", "disease": "No"}, image="c"),
    *pair(4, "Yes", {"anatomy": "No"}, image="d"),
]
VPT_PAIRS = [*pair(0, "Yes", {"region": "No"}), *pair(1, "Yes", {"region": "Yes"}), *pair(2, "No", {"region": "No"})]


def add_regions(answers: Sequence[Answer], dice: Sequence[float | None]) -> list[Answer]:
    """Add a region with a measured Dice to each answer; None adds no region."""
    return [
        (doc, text if answer_dice is None else json.dumps({"text": text, "heatmaps": "0/0"}))
        for (doc, text), answer_dice in zip(answers, dice, strict=True)
    ]


def as_mimic(answers: Sequence[Answer]) -> list[Answer]:
    def renamed(doc: dict[str, Any]) -> dict[str, Any]:
        return doc | {name: doc[name].replace("vindr/", "mimic/") for name in ("id", "original_id")}

    return [(renamed(doc), text) for doc, text in answers]
