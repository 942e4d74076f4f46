"""Sources of the answers of CXR-ContraBench: letters, option texts or sentences; declined, unread and cut answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from medfaith.evaluate_metrics.reading.outcome import EVIDENCE

from ..tables import MODEL, OUTCOMES, PROMPT, PROTOCOL, SIZE, Column, Table, count, get_outcome_shares, percent
from .names import format_base_name, protocol_name, sort_runs
from .runs import Run

_TITLES = {"letter": "From a letter %", "text": "From an option's text %", "prose": "From sentences %"}
_NOTE = (
    "Shares of all questions asked. Polarity errors in the other tables are those read from a letter or an option's "
    "text; errors read from sentences are counted here, and the verifier leaves these answers as they are. Declined: "
    "the model says that it cannot or will not answer. Cut: of the unread answers, those that end before they answer."
)
_UNKNOWN = (
    "Not recorded: the log is of an earlier version, which did not keep what an answer was read from. Its polarity "
    "errors count as read from a letter or an option's text."
)


def build_evidence_tables(runs: Sequence[Run]) -> list[Table]:
    """Build the table of evidence, with a row for each run.

    Args:
        runs: The runs.

    Returns:
        One table; none without runs.
    """
    if not runs:
        return []
    rows = [_format_row(run) for run in sort_runs(runs)]
    n_unknown = sum(int(np.sum((run.base >= 0) & (run.evidence == ""))) for run in runs)
    columns = [
        MODEL, PROMPT, PROTOCOL, Column("Changed wording", ("forms",)), SIZE,
        *(Column(_TITLES[name], (f"{name}_share",), percent) for name in EVIDENCE),
        Column("Not recorded %" if n_unknown else None, ("unknown_share",), percent),
        *OUTCOMES, Column("Cut %", ("cut_share",), percent),
        Column("Errors from sentences", ("n_errors_from_prose",), count), Column(None, ("task",)),
    ]  # fmt: skip
    notes = [_NOTE, *([_UNKNOWN] if n_unknown else [])]
    return [Table("contrabench_evidence", "How the answers were read", columns, rows, notes)]


def _format_row(run: Run) -> list[Any]:
    scores, n = run.scores(), run.n
    by_evidence = [scores[f"n_from_{name}"] for name in EVIDENCE]
    n_unknown = int(np.sum(run.base >= 0)) - sum(by_evidence)
    errors = scores["n_reversals_from_prose"] + scores["n_contradictions_from_prose"]
    return [
        run.model_name,
        format_base_name(run.setting),
        protocol_name(run),
        run.changed_values,
        n,
        run.n_data,
        *(n_answers / n for n_answers in (*by_evidence, n_unknown)),
        *get_outcome_shares(scores),
        scores["n_cut"] / n,
        errors,
        run.source.task,
    ]
