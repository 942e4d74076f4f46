"""Answers to CXR-ContraBench, one figure a row."""

from __future__ import annotations

from ..answers import Answers, build_answers, find_patient
from .names import protocol_name
from .option_scores import ScoredRun
from .runs import Run


def read_answers(run: Run) -> Answers:
    """Read the answers of a run; the figure of a row is whether its answer is right.

    Args:
        run: The run.

    Returns:
        The answers.
    """
    questions = [run.wordings[wording] for wording in run.wording]
    findings = [[finding] for finding in run.finding]
    return build_answers(
        run,
        task=protocol_name(run),
        metric="accuracy of scores" if isinstance(run, ScoredRun) else "accuracy",
        ids=list(run.id),
        asked=questions,
        values=run.correct(),
        said=[
            options[choice] if choice >= 0 else None for (_, options), choice in zip(questions, run.base, strict=True)
        ],
        outcomes=run.outcome.tolist(),
        groups=[find_patient(study) for study in run.study],
        about=findings,
        is_present=[True] * len(findings),
        subjects=findings,
    )
