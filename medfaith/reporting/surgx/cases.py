"""Frames of SurgXBench with the readings of their answers, for the page."""

from __future__ import annotations

from collections.abc import Iterator

from medfaith.tasks.stated_boxes import ASK

from ..page.cases import DECLINED, UNREAD, CaseReading, score_outcome
from ..page.stated_cases import read_stated_case
from .runs import SurgXRun

_QUESTIONS = {
    "instruments": "Which instruments are in this frame?",
    "triplets": "Which instruments act on which tissue in this frame?",
    "occlusion": "Which triplet is left when the place that the model looked at is painted black?",
}


def read_cases(run: SurgXRun) -> Iterator[tuple[str, CaseReading]]:
    """Read the frames and answers of a run.

    Args:
        run: The run.

    Yields:
        (row id, question with its reading) of each frame.
    """
    if run.setting.ask == ASK:
        for row in run.rows:
            question = f"Where is the {row.gold[0].replace('_', ' ')}?"
            yield row.id, read_stated_case(row.stated, question, "video " + row.id.split("/")[1])
        return
    question = _QUESTIONS[run.setting.ask]
    for row in run.rows:
        reading = DECLINED if row.declined else UNREAD if row.predicted is None else ""
        outcome = score_outcome(reading, {*(row.predicted or ())} == {*row.gold})
        case = question, (), "; ".join(row.gold) or "none", "video " + row.id.split("/")[1]
        names = "; ".join((row.predicted or ())[:10]) or ("" if reading else "none")
        yield row.id, CaseReading(case, names, "", "", outcome)
