"""How many answers of each run could not be read, and warnings of many, with some of those answers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from medfaith.logs.files import SampleFile, find_sample_files
from medfaith.logs.lines import responses
from medfaith.printing import percent, table

from .contrabench_runs import Run
from .heal_runs import HealRun
from .results import read_file
from .surgx_runs import SurgXRun

LIMIT = 0.02  # share of unread answers above which a report warns
SHOWN = 3  # answers in a warning
_LENGTH = 120  # characters of an answer in a warning, of its end: an answer that was cut shows it there

ReadRun = Run | HealRun | SurgXRun  # of That's the Wrong Lung! no answer is read


def unread_share(run: ReadRun) -> float:
    """Of the run's answers, the share that could not be read."""
    return len(run.unread) / run.n


def unread_shares(logs: Sequence[Path]) -> str:
    """Lines with a table of the unread answers in each of some sample logs, and the warnings; "" where none are read.

    Raises: as `results.read_file`.
    """
    files, _ = find_sample_files(logs)
    runs = [run for file in files for run in read_file(file) if isinstance(run, ReadRun)]
    rows = [[run.source.task, f"{run.n:,}", f"{len(run.unread):,}", percent(unread_share(run))] for run in runs]
    shares = table(["task", "answers", "unread", "unread %"], rows)
    return "\n".join([shares, *unread_notes(runs), ""]) if runs else ""


def unread_notes(runs: Sequence[ReadRun]) -> list[str]:
    """A warning for each run with a share of unread answers above `LIMIT`, with up to `SHOWN` of them."""
    notes = []
    for run in runs:
        unread = {*run.unread}
        if unread_share(run) > LIMIT:
            shown = " ".join(f"“{answer}”" for answer in _answers(run.source, unread))
            notes.append(
                f"WARNING: {len(unread):,} of {run.n:,} answers ({unread_share(run):.1%}) of {run.model_name} in "
                f"{run.source.path.name} could not be read, such as {shown}. What to do: if answers are cut, give the "
                "model more tokens (--gen_kwargs max_gen_toks=N); if a person can read them, measure our reading with "
                "medfaith read, or let a language model read them, too (medfaith report --extractor-model)"
            )
    return notes


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
