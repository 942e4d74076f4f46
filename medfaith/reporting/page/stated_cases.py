"""Questions for a location with the readings of their answers, for the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medfaith.tasks.stated_boxes import OVERLAP

from ..stated_boxes import find_outcome, get_stated, get_value
from .cases import CaseReading, score_outcome


def read_stated_case(record: Mapping[str, Any] | None, question: str, finding: str) -> CaseReading:
    """Read a question for a location and its answer.

    Args:
        record: The record of the answer.
        question: The question.
        finding: The anatomy or the instrument, or another group of rows.

    Returns:
        The question with its reading; right from an IoU of 0.5 on, or if half of the points hit.
    """
    record = record or {}
    outcome = score_outcome(find_outcome(record), get_value(record) >= OVERLAP)
    stated = "; ".join(str([*box]) for box in get_stated(record) or ())
    return CaseReading((question, (), f"IoU or hits of at least {OVERLAP}", finding), stated, "", "", outcome)
