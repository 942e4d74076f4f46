"""Warnings of models many of whose answers could not be read, with some of those answers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from medfaith.logs.files import SampleFile
from medfaith.logs.lines import responses

from .contrabench_runs import Run
from .heal_runs import HealRun
from .surgx_runs import SurgXRun

LIMIT = 0.02  # share of unread answers above which a report warns
SHOWN = 3  # answers in a warning
_LENGTH = 120  # characters of an answer in a warning, of its end: an answer that was cut shows it there


def unread_notes(runs: Sequence[Run], heal: Sequence[HealRun], surgx: Sequence[SurgXRun]) -> list[str]:
    """A warning for each run with a share of unread answers above `LIMIT`, with up to `SHOWN` of them."""
    notes = []
    for run in (*runs, *heal, *surgx):
        unread = set(_unread(run))
        if len(unread) > LIMIT * run.n:
            shown = " ".join(f"“{answer}”" for answer in _answers(run.source, unread))
            notes.append(
                f"WARNING: {len(unread):,} of {run.n:,} answers ({len(unread) / run.n:.1%}) of {run.model_name} in "
                f"{run.source.path.name} could not be read, such as {shown}. What to do: if answers are cut, give the "
                "model more tokens (--gen_kwargs max_gen_toks=N); if a person can read them, measure our reading with "
                "medfaith read; for open-ended answers, let a language model read them (--extractor-model)"
            )
    return notes


def _unread(run: Any) -> Iterator[str]:
    """The ids of the rows whose answers could not be read."""
    if isinstance(run, Run):
        yield from run.id[run.base < 0]
    elif isinstance(run, SurgXRun):
        yield from (row.id for row in run.rows if row.predicted is None)
    elif run.setting.ask == "open":
        read = zip(run.rows, run.named(), strict=True)
        yield from (row.id for row, labels in read if labels.outcome == "unreadable")
    else:
        yield from (row.id for row, said in zip(run.rows, run.said(), strict=True) if said not in ("yes", "no"))


def _answers(file: SampleFile, ids: Collection[str]) -> list[str]:
    """Some different answers of these rows, as the model gave them: the end of each, in one line."""
    found: dict[str, None] = {}
    for row_id, response in responses(file.path):
        if row_id in ids:
            answer = " ".join(response.split())
            found[f"…{answer[-_LENGTH:]}" if len(answer) > _LENGTH else answer] = None
        if len(found) == SHOWN:
            break
    return list(found)
