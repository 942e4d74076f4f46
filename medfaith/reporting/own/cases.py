"""A user's own questions with the readings of their answers, for the page."""

from __future__ import annotations

from collections.abc import Iterator

from ..page.cases import CaseReading, score_outcome
from .runs import OwnRun


def read_cases(run: OwnRun) -> Iterator[tuple[str, CaseReading]]:
    """Read the questions and answers of a run. An open answer is right if its words equal those of an accepted answer.

    Args:
        run: The run.

    Yields:
        (row id, question with its reading) of each row.
    """
    for row in run.rows:
        record = row.record
        outcome = score_outcome(record["outcome"], bool(record.get("exact", record.get("accuracy"))))
        yield (
            row.id,
            CaseReading((row.question, row.options, row.gold, row.topic), record["said"] or "", "", "", outcome),
        )
