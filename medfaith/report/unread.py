"""Warnings of many answers that are unread, declined or cut, with some of those answers.

It also warns of rows without an answer, of answers that are all the same, and of images that a model was not given.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from medfaith.evaluate_metrics.reading.reasoning import LIMIT as READ
from medfaith.logs.files import SampleFile
from medfaith.logs.lines import responses
from medfaith.tasks import BASELINES
from medfaith.tasks.controls import BLIND
from medfaith.tasks.models.advice import FEW, IF_SAME, IF_UNREAD, MORE_TOKENS, join_lines, shortened
from medfaith.tasks.outcomes import IF_DECLINED

from .contrabench_runs import Run
from .heal_runs import HealRun
from .surgx_runs import SurgXRun

LIMIT = 0.02  # share of unread, of declined and of cut answers above which a report warns of each
SHOWN = 3  # answers in a warning

ReadRun = Run | HealRun | SurgXRun  # of That's the Wrong Lung! no answer is read


def unread_share(run: ReadRun) -> float:
    """Of the run's answers, the share that could not be read."""
    return len(run.unread) / run.n


def outcome_shares(run: ReadRun) -> dict[str, float]:
    """The shares of unread and of declined answers, under the names of `tables.OUTCOMES`."""
    return {"parse_failure_rate": unread_share(run), "declined_rate": len(run.declined) / run.n}


def run_notes(runs: Sequence[ReadRun]) -> list[str]:
    """All warnings of these runs."""
    return [
        *_missing_notes(runs), *_unanswered_notes(runs), *_cut_notes(runs), *_too_long_notes(runs), *_same_notes(runs),
        *unread_notes(runs), *_declined_notes(runs),
    ]  # fmt: skip


def _missing_notes(runs: Sequence[ReadRun]) -> list[str]:
    """A warning for each log with images that its model was not given."""
    logs = {run.source.path: run for run in runs if run.source.n_images_missing}
    return [
        f"WARNING: {run.model_name} was not given {run.source.n_images_missing:,} of the images in {path.name}. "
        "What to do: run it again with medfaith eval, which refuses models and settings that cut images, or with "
        "--images first"
        for path, run in logs.items()
    ]


def _unanswered_notes(runs: Sequence[ReadRun]) -> list[str]:
    """A warning for each run with rows that a server left without an answer."""
    return [
        f"WARNING: {n:,} of {run.n:,} rows of {run.model_name} in {run.source.path.name} have no answer, and count as "
        "unread. What to do: run the same command again, which asks only these"
        for run in runs
        if (n := run.source.n_unanswered)
    ]


def _cut_notes(runs: Sequence[ReadRun]) -> list[str]:
    """A warning for each run with a share of answers above `LIMIT` that were cut at the limit of tokens."""
    return [
        f"WARNING: {n:,} of {run.n:,} answers ({n / run.n:.1%}) of {run.model_name} in {run.source.path.name} were cut "
        f"at the limit of tokens. What to do: {MORE_TOKENS}"
        for run in runs
        if (n := run.source.n_cut) > LIMIT * run.n
    ]


def _too_long_notes(runs: Sequence[ReadRun]) -> list[str]:
    """A warning for each run with answers that are longer than what is read of one."""
    return [
        f"WARNING: {n:,} of {run.n:,} answers of {run.model_name} in {run.source.path.name} are longer than "
        f"{READ:,} characters, and what follows was not read. Such a model mostly repeats itself. What to do: look at "
        "these answers, and set a lower limit of tokens: --gen_kwargs max_gen_toks=N"
        for run in runs
        if (n := run.source.n_too_long)
    ]


def _same_notes(runs: Sequence[ReadRun]) -> list[str]:
    """A warning for each log of a model, not of a reference model, whose answers are all the same.

    Under a control they may well be.
    """
    own = [run for run in runs if run.model not in BASELINES and "control" not in dict(run.source.told)]
    logs = {run.source.path: run for run in own if run.n >= FEW}
    notes = []
    for path, run in logs.items():
        answers = (join_lines(response) for _, response in responses(path))
        first = next(answers)
        if all(answer == first for answer in answers):
            said = f"“{shortened(first)}”" if first else "empty"
            notes.append(f"WARNING: all answers of {run.model_name} in {path.name} are {said}. What to do: {IF_SAME}")
    return notes


def unread_notes(runs: Sequence[ReadRun]) -> list[str]:
    """A warning for each run with a share of unread answers above `LIMIT`, with up to `SHOWN` of them."""
    notes = []
    for run in runs:
        unread = {*run.unread}
        if unread_share(run) > LIMIT:
            shown = " ".join(f"“{answer}”" for answer in _answers(run.source, unread))
            notes.append(
                f"WARNING: {len(unread):,} of {run.n:,} answers ({unread_share(run):.1%}) of {run.model_name} in "
                f"{run.source.path.name} could not be read, such as {shown}. What to do: {IF_UNREAD}"
            )
    return notes


def _declined_notes(runs: Sequence[ReadRun]) -> list[str]:
    """A warning for each run with a share of declined answers above `LIMIT`, with up to `SHOWN` of them.

    Without an image a model should decline, so runs under a blind control have none.
    """
    notes = []
    for run in runs:
        if is_blind(run):
            continue
        declined = {*run.declined}
        if len(declined) > LIMIT * run.n:
            shown = " ".join(f"“{answer}”" for answer in _answers(run.source, declined))
            notes.append(
                f"WARNING: {len(declined):,} of {run.n:,} answers ({len(declined) / run.n:.1%}) of {run.model_name} in "
                f"{run.source.path.name} decline to answer, such as {shown}. They count as wrong "
                f"in the papers' tables, and are in no score of medfaith audit. What to do: {IF_DECLINED}"
            )
    return notes


def is_blind(run: ReadRun) -> bool:
    """Whether a run was asked without an image, or with one that shows nothing."""
    return dict(run.source.told).get("control") in BLIND


def _answers(file: SampleFile, ids: Collection[str]) -> list[str]:
    """Some different answers of these rows, as the model gave them: the end of each, in one line."""
    found: dict[str, None] = {}
    for row_id, response in responses(file.path):
        if row_id in ids:
            found[shortened(join_lines(response))] = None
        if len(found) == SHOWN:
            break
    return list(found)
