"""Sample logs of tasks on a user's own questions in lm-eval's format, with answers whose scores are counted by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medfaith.tasks.own.rows import CHOICE, OPEN, YES_NO
from tests.support.declined import CANNOT_TELL
from tests.support.reporting.report_logs import write_samples

Answer = tuple[dict[str, Any], str]
UNREADABLE = "The picture is blurred."
ORGANS = ("Heart", "Lung", "Liver")


def question(number: int, kind: str, gold: str, *, patient: int | None = None, **columns: Any) -> dict[str, Any]:
    """Build a task's document from one row; its patient is of the same number unless another is given."""
    options = {YES_NO: ("Yes", "No"), CHOICE: ORGANS, OPEN: ("none", gold)}[kind]
    texts = {YES_NO: "Is there an effusion?", CHOICE: "Which organ is abnormal?", OPEN: "What is abnormal?"}
    row = {
        "id": f"own/test/{kind}/{number}",
        "images": f"images:{number}.png",
        "image_id": f"{number}.png",
        "patient_id": f"p{number if patient is None else patient}",
        "answer_kind": kind,
        "question": texts[kind],
        "topic": texts[kind],
        "location": "",
        "options": list(options),
        "answer": options.index(gold),
        "negated": {YES_NO: 1, CHOICE: -1, OPEN: 0}[kind],
        "gold": [gold],
        "reply_in_words": kind != CHOICE,
        "n_rows_skipped": 0,
        "prompt": "b0",
    }
    return row | columns


CLOSED = [  # 2 true and 1 false positive, 3 missed: 1 answered, 1 declined, 1 unread; 3 rightly denied
    *((question(n, YES_NO, "Yes"), text) for n, text in enumerate(("Yes", "yes.", "No", CANNOT_TELL, UNREADABLE))),
    *((question(n, YES_NO, "No"), text) for n, text in enumerate(("Yes", "No", "No.", "There is none."), start=5)),
]
CHOICES = [  # 2 of 5 right
    (question(n, CHOICE, gold), text)
    for n, (gold, text) in enumerate(
        (("Lung", "B"), ("Liver", "C. Liver"), ("Heart", "B"), ("Heart", CANNOT_TELL), ("Lung", UNREADABLE))
    )
]
OPENED = [  # exact 1, 0, 0, 0; F1 1, 2/3, 4/5, 0; recall 1, 1, 2/3, 0
    (question(0, OPEN, "pneumothorax"), "Pneumothorax."),
    (question(1, OPEN, "pneumothorax"), "a large pneumothorax"),
    (question(2, OPEN, "left pleural effusion"), "pleural effusion"),
    (question(3, OPEN, "left pleural effusion"), CANNOT_TELL),
]


def write_own(folder: Path, answers: Sequence[Answer], *, task: str = "", **options: Any) -> Path:
    """Write the sample log of one task, with the results file in the same folder."""
    task = task or f"medfaith_own_{answers[0][0]['answer_kind']}"
    samples = [{"doc": doc, "resps": [[text]], "filtered_resps": [text], "filter": "none"} for doc, text in answers]
    return write_samples(folder, task, samples, **options)
