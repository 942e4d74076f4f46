"""Audits of a model that gives one answer to all rows, written as logs; no model runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from medfaith.auditing import Rule, figures
from medfaith.auditing.plan import Task
from medfaith.auditing.run import folder
from medfaith.auditing.verdicts import Judged, judge
from medfaith.reporting.heal import runs as heal_runs
from tests.support.reporting.heal_logs import question, write_heal

CLOSED = "medfaith_heal_vindr_closed"
EDITED = ("occluded", "occluded_elsewhere", "transplanted", "transplanted_elsewhere")


def judge_same_answers(
    category: str,
    n_rows: int,
    answer: str,
    controls: Sequence[str],
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    rule: Rule = 2,
) -> Judged:
    """Judge a model that gives one answer to all rows, with the image, under none, other and `controls`."""
    patch_declined(monkeypatch)
    docs = [question(n, category) for n in range(n_rows)]
    for condition in ("image", "none", "other", *controls):
        path = folder(out, CLOSED, condition) / "m"
        write_heal(path, "closed", [(doc, answer) for doc in docs], model="m", task=CLOSED)
    tasks = [Task(CLOSED, "heal-medvqa", tuple(doc["id"] for doc in docs), "")]
    (judged,) = judge(figures.read_audit(out, ["m"], tasks, 0.05, rule), 0.05)
    return judged


def patch_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the reader read a fixed text as declined."""
    read_yes_no = heal_runs.read_yes_no
    monkeypatch.setattr(
        heal_runs, "read_yes_no",
        lambda text, question, *, cut=False: (
            "declined" if text == "No comment." else read_yes_no(text, question, cut=cut)
        ),
    )  # fmt: skip
