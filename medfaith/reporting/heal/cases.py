"""Questions of HEAL-MedVQA with their readings, for the page."""

from __future__ import annotations

from collections.abc import Iterator

from medfaith.tasks.stated_boxes import ASK

from ..page.cases import DECLINED, UNREAD, CaseReading, score_outcome
from ..page.stated_cases import read_stated_case
from .runs import HealRun


def read_cases(run: HealRun) -> Iterator[tuple[str, CaseReading]]:
    """Read the questions and answers of a run.

    Args:
        run: The run.

    Yields:
        (row id, question with its reading) of each row.
    """
    if run.setting.ask == ASK:
        for row in run.rows:
            yield row.id, read_stated_case(row.stated, row.question, row.anatomy)
        return
    if run.setting.ask == "open":
        for row, extraction in zip(run.rows, run.named, strict=True):
            outcome = score_outcome(extraction.outcome, {*extraction.labels} == {*row.diseases})
            names = "" if outcome in (DECLINED, UNREAD) else ", ".join(sorted(extraction.labels)) or "none"
            gold = ", ".join(row.diseases) or "none"
            case = row.question, (), gold, row.kind
            yield row.id, CaseReading(case, names, "", "", outcome)
        return
    for row, reading in zip(run.rows, run.said, strict=True):
        outcome = score_outcome(reading, reading == row.answer)
        case = row.question, (), row.answer, row.kind
        yield row.id, CaseReading(case, "" if outcome in (DECLINED, UNREAD) else reading, "", "", outcome)
