"""Questions of CXR-ContraBench with their readings, for the page."""

from __future__ import annotations

import string
from collections.abc import Iterator

from ..page.cases import CaseReading, score_outcome
from .runs import Run


def read_cases(run: Run) -> Iterator[tuple[str, CaseReading]]:
    """Read the questions and answers of a run.

    Args:
        run: The run.

    Yields:
        (row id, question with its reading) of each row.
    """
    verified, reasons = run.choice.get("m1"), run.reason.get("m1")
    for row in range(run.n):
        question, texts = run.wordings[run.wording[row]]
        options = tuple(f"{letter}. {text}" for letter, text in zip(string.ascii_uppercase, texts, strict=False))
        base = int(run.base[row])
        outcome = score_outcome(run.outcome[row], base == run.answer[row])
        why = f"read from {run.evidence[row]}" if run.evidence[row] else run.unread_reason[row]
        ended = ""
        if verified is not None and reasons is not None and verified[row] != base:
            ended = f"{options[verified[row]]} ({reasons[row]})"
        case = question, options, options[run.answer[row]], run.finding[row]
        yield run.id[row], CaseReading(case, options[base] if base >= 0 else "", why, ended, outcome)
