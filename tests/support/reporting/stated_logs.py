"""Sample logs of the tasks that ask for boxes in words, with records whose figures are counted by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from medfaith.tasks.stated_boxes import ASK
from tests.support.reporting.heal_logs import question
from tests.support.reporting.report_logs import write_samples
from tests.support.reporting.surgx_logs import document

BOX = [1.0, 2.0, 30.0, 40.0]
Record = dict[str, Any]


def make_record(number: int, outcome: str, iou: float | None = 0.0, hit: float = 0.0) -> Record:
    """Build the record of an answer; two answers are of one image or video. Points have no IoU."""
    boxes = [BOX] if outcome == "answered" else []
    return {"outcome": outcome, "iou": iou, "hit": hit, "boxes": boxes, "group": f"g{number // 2}"}


BOXES = [  # of 6: IoU 1.5, 2 of at least 0.5, hits 1.5
    make_record(0, "answered", 0.75, 1.0), make_record(1, "answered", 0.5, 0.5), make_record(2, "answered", 0.25),
    make_record(3, "declined"), make_record(4, "unread"), make_record(5, "empty"),
]  # fmt: skip
POINTS = [make_record(0, "answered", None, 1.0), make_record(1, "answered", None, 0.25), make_record(2, "empty", None)]


def _build_heal_document(number: int) -> dict[str, Any]:
    columns = {"question_type": ASK, "anatomy": ("heart", "left lung")[number % 2], "options": [], "diseases": []}
    return question(number, ASK, image=f"g{number // 2}", **columns)


def _build_surgx_document(number: int) -> dict[str, Any]:
    columns = {"gold": [("grasper", "hook")[number % 2]], "located": ("grasper", "hook")[number % 2]}
    return document(ASK, "cholec80_boxes", number, 41 + number // 2, question="Locate it.", **columns)


DOCUMENTS: dict[str, Callable[[int], dict[str, Any]]] = {"heal": _build_heal_document, "surgx": _build_surgx_document}
TASKS = {"heal": "medfaith_heal_vindr_stated_boxes", "surgx": "medfaith_surgx_stated_boxes"}


def write_stated(folder: Path, benchmark: str, records: Sequence[Record], **options: Any) -> Path:
    """Write the sample log of one task ("heal" or "surgx"), with the results file in the same folder."""
    samples = [
        {"doc": DOCUMENTS[benchmark](n), "resps": [["?"]], "filtered_resps": ["?"], "filter": "none", "iou": record}
        for n, record in enumerate(records)
    ]
    return write_samples(folder, TASKS[benchmark], samples, **options)
