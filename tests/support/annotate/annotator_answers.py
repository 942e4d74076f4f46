"""Answers of annotators, and the file that holds them."""

from __future__ import annotations

from medfaith.annotate.answers import Choice, Judgement, open_answers


def judgement(n: int = 0, **changes) -> Judgement:
    record = {
        "annotator": "ann", "instance": f"image{n}", "patient_id": f"p{n}", "row_id": f"row{n}", "sentence": "Böse.",
        "custom": False, "model": "m", "alias": "Model A", "recall": 1, "precision": 2, "intuitiveness": 3,
        "heatmaps": None, "seconds": 1.5, "seed": 0, "version": "0",
    }  # fmt: skip
    return Judgement(**(record | changes))


def write(path, *records):
    with open_answers(path) as (answers, _):
        for record in records:
            (answers.choose if isinstance(record, Choice) else answers.judge)(record)
